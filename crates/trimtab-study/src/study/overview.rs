//! Several modelled drives beside each other: where TRIM policy matters, and where it does not. A pure function of their studies.

use super::ageing::{CYCLES_PER_TB, RATE_STEADY, WAF_STEADY};
use super::answer::{self, Around, figure, longest_wait, percent, policies};
use super::judged::Judged;
use super::months::{fills, mark, spaced};
use super::verdict::Recommendation;
use super::{Study, advice, document, policy, sensitivity};
use crate::document::{Answer, Document, Section, Table, Use};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::units::three_digits;
use trimtab_sim::run::Unit;
use trimtab_sim::run::shown::quantity;

/// Columns and lines of the screen that the answer is for; the prompt takes one more line.
pub const COLUMNS: usize = 80;
const LINES: usize = 23;
/// Lines of a table with its groups that are no rows, and the empty one above it.
const HEADER: usize = 4;
/// What is left out where there is no room.
const CHECK_FIRST: &str = "Check first";

/// The answer for all of them; `height` says how many lines an answer takes on a screen of [`COLUMNS`].
pub fn answer(studies: &[Judged<'_>], around: &Around, height: fn(&Answer) -> usize) -> Answer {
    let shown = studies.iter().find(|study| !study.complete).or(studies.first());
    let one = shown.map(|study| answer::of(study, &Around { took: around.took, ..Around::default() }));
    let mut more = Vec::new();
    if let Some(report) = &around.report {
        more.push(("Report".to_owned(), report.clone(), String::new()));
    }
    let runs: usize = studies.iter().map(|study| study.all().count()).sum();
    more.push(match &around.kept {
        Some(id) => ("Data".to_owned(), format!("trimtab results show study:{id}"), format!("({runs} runs, kept)")),
        None => ("More".to_owned(), "trimtab study drive:NAME".to_owned(), format!("(one drive; {runs} runs, not kept)")),
    });
    let mut answer = Answer {
        subject: format!("{} modelled drives, {}", in_words(studies.len()), filesystem(studies)),
        origin: one.map(|one| one.origin).unwrap_or_default(),
        uses: uses(studies),
        why: why(studies),
        tables: Vec::new(),
        notes: vec![
            ("How sure".to_owned(), sure(studies)),
            ("Life".to_owned(), studies.iter().find_map(|study| answer::life(study)).unwrap_or_default().to_owned()),
            (CHECK_FIRST.to_owned(), "'trimtab doctor PATH' says whether TRIM reaches your drive at all".to_owned()),
        ],
        apply: vec!["trimtab apply POLICY MOUNTPOINT --dry-run".to_owned()],
        undo: Some(answer::UNDO.to_owned()),
        more,
    };
    answer.notes.retain(|(_, text)| !text.is_empty());
    // A study out of the store has no report, and the same table.
    let beside = height(&answer) + usize::from(around.report.is_none());
    let room = LINES.saturating_sub(beside + HEADER);
    let table = table(studies, room);
    // An empty line can go, too.
    if table.rows.len() > room + 1 {
        // Beside which policy others wait longest is worth more than what is true of every drive.
        answer.notes.retain(|(label, _)| label != CHECK_FIRST);
    }
    answer.tables.push(table);
    answer
}

/// What to use on which drives; those for which the same is said share a line.
fn uses(studies: &[Judged<'_>]) -> Vec<Use> {
    let mut uses: Vec<(&str, String, Vec<String>)> = Vec::new();
    for study in studies {
        let (choice, meaning) = answer::choice(study);
        let mut meaning = in_short(study.recommendation).map_or(meaning, str::to_owned);
        if let Some(time) = study.policy().and_then(|policy| advice::time_trimming(study, policy)) {
            // A line is short: what comes first says it.
            let first = meaning.split(", ").next().unwrap_or_default();
            meaning = format!("{first}, {} % of all time", three_digits(time.percent()));
        }
        match uses.iter_mut().find(|(other, same, _)| *other == choice && *same == meaning) {
            Some((.., names)) => names.push(name(study)),
            None => uses.push((choice, meaning, vec![name(study)])),
        }
    }
    let one = |(choice, meaning, names): (&str, String, Vec<String>)| Use {
        choice: choice.to_owned(),
        on: together(&names),
        meaning,
        sure: String::new(),
    };
    uses.into_iter().map(one).collect()
}

/// `SATA SSD of today` and `NVMe SSD of today` as `SATA and NVMe SSD of today`.
fn together(names: &[String]) -> String {
    let parts: Vec<(&str, &str)> = names.iter().map(|name| name.split_once(' ').unwrap_or((name.as_str(), ""))).collect();
    match parts.first() {
        Some((_, rest)) if !rest.is_empty() && parts.iter().all(|(_, other)| other == rest) => {
            format!("{} {rest}", listed(&parts.iter().map(|(first, _)| *first).collect::<Vec<_>>()))
        }
        _ => listed(&names.iter().map(String::as_str).collect::<Vec<_>>()),
    }
}

/// `a, b and c`.
fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// How far the recommendations can be trusted: what was assumed otherwise, and where that changes them.
fn sure(studies: &[Judged<'_>]) -> String {
    let said = studies.iter().filter(|study| study.recommendation.is_one());
    let looked = said.filter_map(|study| Some((study, study.sensitivity()?)));
    let looked: Vec<_> = looked.filter(|(_, sensitivity)| !sensitivity.rows.is_empty()).collect();
    let Some((_, first)) = looked.first() else {
        return format!("modelled; {}", sensitivity::NOT_TRIED);
    };
    let tried = match &first.rows[..] {
        few if few.len() <= 2 => {
            format!("other {}", listed(&few.iter().map(|row| sensitivity::plural(&row.assumption)).collect::<Vec<_>>()))
        }
        many => format!("{} other assumptions", many.len()),
    };
    let (mut hold, mut rest): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (study, sensitivity) in &looked {
        let (short, decisive) = (short_name(study), sensitivity.decisive());
        match &decisive[..] {
            _ if !sensitivity.is_about(study.recommendation) => {
                rest.push(format!("smaller studies of {short} come to {}", sensitivity.recommended));
            }
            [] => hold.push(short),
            [one] => rest.push(format!("{short} depends on {}", sensitivity::plural(&one.assumption))),
            all if all.len() == sensitivity.rows.len() && all.len() == 2 => rest.push(format!("{short} depends on both")),
            all => rest.push(format!("{short} depends on {} of them", all.len())),
        }
    }
    let holds = match &hold[..] {
        [] => format!("tried with {tried}"),
        [one] => format!("{one} holds with {tried}"),
        all => format!("{} hold with {tried}", all.join(", ")),
    };
    core::iter::once(holds).chain(rest).collect::<Vec<_>>().join("; ")
}

/// The report: the answer, then each drive.
pub fn document(studies: &[Judged<'_>], around: &Around, height: fn(&Answer) -> usize) -> Document {
    let mut sections: Vec<Section> = Vec::new();
    for study in studies {
        let of_drive = document::of(study, &Around::default());
        let named = |section: Section| Section { title: format!("{}: {}", short_name(study), lower_first(&section.title)), ..section };
        sections.extend(of_drive.sections.into_iter().map(named));
    }
    // What is folded away comes last, of all drives.
    sections.sort_by_key(|section| section.folded);
    Document {
        title: "Trim policies on three drives".to_owned(),
        answer: Some(answer(studies, around, height)),
        sections,
        ..Document::default()
    }
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

fn filesystem(studies: &[Judged<'_>]) -> String {
    let run = studies.first().and_then(|study| answer::first(study));
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
        Recommendation::NoDifference => Some("trimming makes no difference"),
        _ => None,
    }
}

/// What the recommended policies gain, drive by drive: a line for random writes, a line for life.
fn why(studies: &[Judged<'_>]) -> Vec<String> {
    let Some(fill) = studies.first().and_then(|study| fills(&study.ageing).first().map(|fill| spaced(fill))) else { return Vec::new() };
    let days = studies.first().and_then(|study| answer::days(study)).map_or_else(String::new, |days| format!(", {days:.0} days"));
    let gain = |study: &Judged<'_>| {
        let chosen = study.policy().filter(|chosen| *chosen != policy::NONE)?;
        let gains = advice::gains(study, chosen);
        let gain = gains.iter().find(|gain| gain.counts()).or(gains.first())?;
        // Where it gains nothing at the fill that is named behind, it gains something at another.
        let at = if spaced(gain.fill) == fill { String::new() } else { format!(" at {} full", spaced(gain.fill)) };
        let rate = format!("{}{}{at}", percent(gain.rate), mark(gain.steady));
        Some([Some(rate), gain.life.map(|life| format!("{}{at}", percent(life)))])
    };
    let line = |which: usize| {
        let each = studies.iter().map(|study| {
            let chosen = study.policy().filter(|chosen| *chosen != policy::NONE);
            let gained = match gain(study) {
                None if chosen.is_some() => "not tried".to_owned(),
                gain => gain.and_then(|[rate, life]| if which == 0 { rate } else { life }).unwrap_or_else(|| "no gain".to_owned()),
            };
            format!("{} {gained}", short_name(study))
        });
        each.collect::<Vec<_>>().join(", ")
    };
    vec![format!("random writes: {} against no trimming", line(0)), format!("life: {} ({fill} full{days})", line(1))]
}

/// Which policies of each drive to show in at most `most` rows: none and the recommended one of each, or where that is none the best; and as far as
/// there is room, where the difference is largest, the one beside which others wait longest.
fn shown<'a>(studies: &'a [Judged<'a>], most: usize) -> Vec<Vec<&'a str>> {
    let gain = |study: &Study, name: &str| {
        advice::gains(study, name).iter().map(|gain| gain.rate.max(gain.life.unwrap_or(1.0))).fold(1.0, f64::max)
    };
    let two = |study: &'a Judged<'a>| {
        let all = policies(study);
        let chosen = study.policy().filter(|chosen| *chosen != policy::NONE);
        let best = || all.iter().copied().filter(|name| *name != policy::NONE).max_by(|a, b| gain(study, a).total_cmp(&gain(study, b)));
        let other = chosen.or_else(best);
        all.iter().copied().filter(|name| *name == policy::NONE || other == Some(*name)).collect::<Vec<_>>()
    };
    let mut shown: Vec<Vec<&str>> = studies.iter().map(two).collect();
    let wait = |study: &Study, name: &str| longest_wait(study, name).unwrap_or(0.0);
    let mut worst: Vec<(usize, &str, f64)> = studies
        .iter()
        .enumerate()
        .filter_map(|(at, study)| {
            let others = policies(study).into_iter().filter(|name| !shown[at].contains(name));
            let worst = others.max_by(|a, b| wait(study, a).total_cmp(&wait(study, b)))?;
            let mine = shown[at].iter().map(|name| wait(study, name)).fold(f64::MIN_POSITIVE, f64::max);
            Some((at, worst, wait(study, worst) / mine))
        })
        .collect();
    worst.sort_by(|a, b| b.2.total_cmp(&a.2));
    // Beside which policy others wait longest of all always stands there, and before all others.
    let longest = |at: usize, name: &str| wait(&studies[at], name);
    let standing =
        shown.iter().enumerate().flat_map(|(at, names)| names.iter().map(move |name| (at, *name))).map(|(at, name)| longest(at, name));
    let standing = standing.fold(0.0, f64::max);
    let first = worst.iter().enumerate().max_by(|a, b| longest(a.1.0, a.1.1).total_cmp(&longest(b.1.0, b.1.1))).map(|(nth, _)| nth);
    let first = first.filter(|nth| longest(worst[*nth].0, worst[*nth].1) > standing);
    if let Some(nth) = first {
        let longest_of_all = worst.remove(nth);
        worst.insert(0, longest_of_all);
    }
    let room = most.saturating_sub(shown.iter().map(Vec::len).sum()).max(usize::from(first.is_some()));
    for (at, name, _) in worst.into_iter().take(room) {
        shown[at].push(name);
    }
    for (study, names) in studies.iter().zip(&mut shown) {
        *names = policies(study).into_iter().filter(|name| names.contains(name)).collect();
    }
    shown
}

/// A row for each drive and policy that differs, as many as there is room for.
fn table(studies: &[Judged<'_>], most: usize) -> Table {
    let fills: Vec<String> = studies.first().map(|study| fills(&study.ageing).into_iter().map(str::to_owned).collect()).unwrap_or_default();
    let (mut groups, mut header) =
        (vec![String::new(), answer::SPARSE_APPENDS.to_owned()], vec!["policy".to_owned(), "waits at most".to_owned()]);
    for group in ["random writes/s", answer::CHURN_WAF, "life"] {
        groups.extend(fills.iter().map(|_| group.to_owned()));
        header.extend(fills.iter().map(|fill| spaced(fill)));
    }
    let mut table = Table::new("", &header.iter().map(String::as_str).collect::<Vec<_>>());
    table.groups = groups;
    for (study, names) in studies.iter().zip(shown(studies, most)) {
        let chosen = study.policy();
        for policy in names {
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
    table.groups[0] = answer::corner(&table);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::fixtures::{around, assume, three, whole};

    #[test]
    fn confidence_follows_from_varied_assumptions() {
        let said = |change: &dyn Fn(&mut Vec<Study>)| {
            let mut studies = three();
            change(&mut studies);
            sure(&Judged::all(&studies))
        };
        assert_eq!(said(&|_| {}), "SATA, NVMe hold with other TRIM costs and fills; OCZ depends on both");
        let one = said(&|studies| assume(&mut studies[0], "idle", &[("what a TRIM costs", "online"), ("how full it is", "idle")]));
        assert_eq!(one, "SATA, NVMe hold with other TRIM costs and fills; OCZ depends on TRIM costs");
        let none = [("what a TRIM costs", "idle"), ("how full it is", "idle")];
        assert_eq!(said(&|studies| assume(&mut studies[0], "idle", &none)), "OCZ, SATA, NVMe hold with other TRIM costs and fills");
        // What a small study varies is not what is recommended.
        let other = said(&|studies| assume(&mut studies[0], "batched", &none));
        assert_eq!(other, "SATA, NVMe hold with other TRIM costs and fills; smaller studies of OCZ come to batched");
        assert_eq!(
            said(&|studies| studies.iter_mut().for_each(|study| study.assumptions = None)),
            "modelled; other assumptions were not tried"
        );
        let all = said(&|studies| *studies = vec![whole()]);
        assert_eq!(all, "tried with 10 other assumptions; OCZ depends on TRIM costs");
    }

    #[test]
    fn there_are_as_many_rows_as_the_screen_has_room_for() {
        let studies = three();
        let rows = |most| shown(&Judged::all(&studies), most).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(rows(0), [3, 2, 2], "none and another one of each, and always the one beside which others wait longest");
        assert_eq!(rows(7), [3, 2, 2], "3.10 s instead of 153 ms is the largest difference");
        assert_eq!(shown(&Judged::all(&studies), 7)[0], ["none", "online", "idle"]);
        assert_eq!(rows(100), [3, 3, 3]);
    }

    #[test]
    fn drives_with_the_same_answer_share_a_line() {
        let together = |names: &[&str]| together(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(together(&["SATA SSD of today", "NVMe SSD of today"]), "SATA and NVMe SSD of today");
        assert_eq!(together(&["OCZ Vertex", "SATA SSD", "disk"]), "OCZ Vertex, SATA SSD and disk");
        assert_eq!((together(&["one"]), together(&[])), ("one".to_owned(), String::new()));
    }

    #[test]
    fn untried_policy_is_not_recommended_or_rated() {
        let mut studies = three();
        let without = |studies: &mut Vec<Study>, left: &str| {
            studies[0].runs.retain(|run| run.policy != left);
            studies[0].ageing.retain(|run| run.policy != left);
        };
        without(&mut studies, "batched");
        assert_eq!(Judged::of(&studies[0]).policy(), Some("idle"));
        without(&mut studies, "idle");
        assert_eq!(Judged::of(&studies[0]).policy(), Some("adaptive"));
        without(&mut studies, "adaptive");
        // Nothing but online discard is left, which costs too much: batches would be next.
        let shown = answer(&Judged::all(&studies), &around(), |_| 20).why.join("\n");
        assert!(shown.contains("OCZ not tried") && !shown.contains("OCZ no gain"), "{shown}");
    }
}
