//! Several modelled drives beside each other: where TRIM policy matters, and where it does not. A pure function of their studies.

use super::ageing::{CYCLES_PER_TB, RATE_STEADY, WAF_STEADY};
use super::answer::{self, Around, figure, longest_wait, percent, policies, spaced};
use super::months::fills;
use super::verdict::{self, Recommendation};
use super::{Study, advice, document, policy};
use crate::report::document::{Answer, Document, Section, Table, Use};
use crate::report::run::quantity;
use trimtab_core::run::Unit;

/// Rows of a drive in the table: none, the recommended policy, and the one beside which others wait longest.
const ROWS: usize = 3;

/// The answer for all of them.
pub fn answer(studies: &[Study], around: &Around) -> Answer {
    let of = |study: &Study| {
        let (choice, meaning) = answer::choice(study);
        let meaning = in_short(verdict::recommendation(study)).unwrap_or(meaning);
        Use { choice: choice.to_owned(), on: name(study), meaning: meaning.to_owned(), sure: String::new() }
    };
    let one = studies.first().map(|study| answer::of(study, &Around { took: around.took, ..Around::default() }));
    let mut more = Vec::new();
    if let Some(report) = &around.report {
        more.push(("Report".to_owned(), report.clone(), String::new()));
    }
    let runs: usize = studies.iter().map(|study| study.all().count()).sum();
    let target = studies.first().map_or("drive:NAME", |study| study.target.as_str());
    let kept = if around.kept.is_some() { "" } else { " not kept" };
    more.push(("More".to_owned(), format!("trimtab study {target}"), format!("(one by itself; {runs} runs{kept})")));
    Answer {
        subject: format!("{} modelled drives, {}", in_words(studies.len()), filesystem(studies)),
        origin: one.map(|one| one.origin).unwrap_or_default(),
        uses: studies.iter().map(of).collect(),
        why: why(studies),
        tables: vec![table(studies)],
        notes: Vec::new(),
        apply: vec!["trimtab apply POLICY MOUNTPOINT --dry-run".to_owned()],
        more,
    }
}

/// The report: the answer, then each drive.
pub fn document(studies: &[Study], around: &Around) -> Document {
    let mut sections: Vec<Section> = Vec::new();
    for study in studies {
        let of_drive = document::of(study, &Around::default());
        let named = |section: Section| Section { title: format!("{}: {}", short_name(study), lower_first(&section.title)), ..section };
        sections.extend(of_drive.sections.into_iter().map(named));
    }
    // What is folded away comes last, of all drives.
    sections.sort_by_key(|section| section.folded);
    Document { title: "Trim policies on three drives".to_owned(), answer: Some(answer(studies, around)), sections, ..Document::default() }
}

fn lower_first(title: &str) -> String {
    let mut chars = title.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

fn in_words(number: usize) -> String {
    match number {
        1 => "One".to_owned(),
        2 => "Two".to_owned(),
        3 => "Three".to_owned(),
        more => more.to_string(),
    }
}

fn filesystem(studies: &[Study]) -> String {
    let run = studies.first().and_then(answer::first);
    run.and_then(|run| answer::environment(run, "volume.name")).unwrap_or_default().to_owned()
}

/// The drive without its filesystem.
fn name(study: &Study) -> String {
    let subject = answer::subject(study);
    subject.split(", ").next().unwrap_or(&subject).to_owned()
}

/// The first word of it, which tells them apart in the table.
fn short_name(study: &Study) -> String {
    name(study).split(' ').next().unwrap_or_default().to_owned()
}

/// A policy in the fewest words, where several drives are listed.
const fn in_short(recommendation: Recommendation) -> Option<&'static str> {
    match recommendation {
        Recommendation::Idle => Some("in idle time, in small pieces"),
        Recommendation::Adaptive => Some("when enough has been written"),
        Recommendation::Batched => Some("now and then, not as files go"),
        Recommendation::Online => Some("as files go (mount option discard)"),
        Recommendation::NoDifference => Some("trimming changes nothing measurable"),
        _ => None,
    }
}

/// What the recommended policies gain, drive by drive: a line for random writes, a line for life.
fn why(studies: &[Study]) -> Vec<String> {
    let Some(fill) = studies.first().and_then(|study| fills(&study.ageing).first().map(|fill| spaced(fill))) else { return Vec::new() };
    let gain = |study: &Study| {
        let chosen = verdict::recommended_policy(study).filter(|chosen| *chosen != policy::NONE)?;
        let gains = advice::gains(study, chosen);
        let gain = gains.iter().find(|gain| gain.counts()).or(gains.first())?;
        Some((gain.rate, gain.life))
    };
    let line = |of: fn((f64, Option<f64>)) -> Option<f64>| {
        let each = studies.iter().map(|study| {
            let chosen = verdict::recommended_policy(study).filter(|chosen| *chosen != policy::NONE);
            let gained = match gain(study) {
                None if chosen.is_some() => "not tried".to_owned(),
                gain => gain.and_then(of).map_or_else(|| "no gain".to_owned(), percent),
            };
            format!("{} {gained}", short_name(study))
        });
        each.collect::<Vec<_>>().join(", ")
    };
    vec![
        format!("random writes: {} against no trimming", line(|(rate, _)| Some(rate))),
        format!("life: {} ({fill} full)", line(|(_, life)| life)),
    ]
}

/// Which policies of a drive to show.
fn shown(study: &Study) -> Vec<&str> {
    let all = policies(study);
    let chosen = verdict::recommended_policy(study);
    let gain = |name: &str| advice::gains(study, name).iter().map(|gain| gain.rate.max(gain.life.unwrap_or(1.0))).fold(1.0, f64::max);
    let best = all.iter().copied().filter(|name| *name != policy::NONE).max_by(|a, b| gain(a).total_cmp(&gain(b)));
    let wait = |name: &str| longest_wait(study, name).unwrap_or(0.0);
    let worst = all.iter().copied().max_by(|a, b| wait(a).total_cmp(&wait(b)));
    let wanted = [Some(policy::NONE), chosen, worst, best];
    let mut kept: Vec<&str> = Vec::new();
    for name in wanted.into_iter().flatten() {
        if kept.len() < ROWS && all.contains(&name) && !kept.contains(&name) {
            kept.push(name);
        }
    }
    all.into_iter().filter(|name| kept.contains(name)).collect()
}

/// A row for each drive and policy that differs.
fn table(studies: &[Study]) -> Table {
    let fills: Vec<String> = studies.first().map(|study| fills(&study.ageing).into_iter().map(str::to_owned).collect()).unwrap_or_default();
    let (mut groups, mut header) = (vec![String::new(), "others wait".to_owned()], vec!["policy".to_owned(), "at most".to_owned()]);
    for group in ["random writes/s", "write amplif.", "life"] {
        groups.extend(fills.iter().map(|_| group.to_owned()));
        header.extend(fills.iter().map(|fill| spaced(fill)));
    }
    let mut table = Table::new("", &header.iter().map(String::as_str).collect::<Vec<_>>());
    table.groups = groups;
    for study in studies {
        let chosen = verdict::recommended_policy(study);
        for policy in shown(study) {
            let mut row = vec![format!("{} {policy}", short_name(study))];
            row.push(longest_wait(study, policy).map_or_else(|| "-".to_owned(), |seconds| quantity(seconds, Unit::Seconds)));
            for metric in [RATE_STEADY, WAF_STEADY, CYCLES_PER_TB] {
                row.extend(fills.iter().map(|fill| figure(study, policy, metric, fill)));
            }
            table.row(row);
            if chosen == Some(policy) {
                table.chosen.push(table.rows.len() - 1);
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{html, text};
    use crate::study::answer::tests::{around, whole};

    /// The same study on a drive of that name, on which everything is the same under each policy.
    fn indifferent(drive: &str) -> Study {
        let mut study = whole();
        let base: Vec<_> = study.runs.iter().chain(&study.ageing).take(1).map(|run| run.metrics.clone()).collect();
        let months = study.ageing[0].metrics.clone();
        study.runs.iter_mut().for_each(|run| {
            let discards = run.metrics.last().unwrap().clone();
            run.metrics = base[0].clone();
            *run.metrics.last_mut().unwrap() = discards;
        });
        study.ageing.iter_mut().for_each(|run| run.metrics = months.clone());
        for run in study.runs.iter_mut().chain(&mut study.ageing) {
            run.environment[0].value = drive.to_owned();
            run.warnings.clear();
        }
        study
    }

    fn three() -> Vec<Study> {
        vec![whole(), indifferent("SATA SSD of today: 500 GB of TLC"), indifferent("NVMe SSD of today: 500 GB of TLC")]
    }

    #[test]
    fn one_sees_where_it_matters_and_where_it_does_not() {
        let shown = |width| anstream::adapter::strip_str(&text::answer_at(&answer(&three(), &around()), Some(width))).to_string();
        for width in [60, 80, 120] {
            assert!(shown(width).lines().all(|line| line.chars().count() <= width || line.starts_with("Report")), "{}", shown(width));
            insta::assert_snapshot!(format!("three-drives-{width}"), shown(width));
        }
        let shown = shown(80);
        assert!(shown.lines().count() <= 23, "one screen:\n{shown}");
        assert!(shown.contains("USE  idle on OCZ Vertex LE 100 GB"), "{shown}");
        assert!(shown.contains("what is set now on SATA SSD of today: trimming changes nothing measurable"), "{shown}");
        assert!(shown.contains("life: OCZ +47 %, SATA no gain, NVMe no gain (60 % full)"), "{shown}");
    }

    #[test]
    fn what_was_not_tried_is_neither_recommended_nor_said_to_gain_nothing() {
        let mut studies = three();
        let without = |studies: &mut Vec<Study>, left: &str| {
            studies[0].runs.retain(|run| run.policy != left);
            studies[0].ageing.retain(|run| run.policy != left);
        };
        without(&mut studies, "batched");
        assert_eq!(verdict::recommended_policy(&studies[0]), Some("idle"));
        without(&mut studies, "idle");
        assert_eq!(verdict::recommended_policy(&studies[0]), Some("adaptive"));
        without(&mut studies, "adaptive");
        // Nothing but online discard is left, which costs too much: batches would be next.
        let shown = answer(&studies, &around()).why.join("\n");
        assert!(shown.contains("OCZ not tried") && !shown.contains("OCZ no gain"), "{shown}");
    }

    #[test]
    fn the_report_has_each_of_them_and_is_small() {
        let page = html::render(&document(&three(), &around()));
        for title in ["OCZ: what it costs and what it gains", "SATA: what it costs and what it gains", "NVMe: why, in full"] {
            assert!(page.contains(title), "{title}");
        }
        assert!(page.len() < 1_500_000);
    }
}
