//! Several modelled drives side by side: where TRIM policy matters, and where it does not.

use super::first_screen::{self, MonthsFigure, MonthsTable, UNDO, drive, environment, note, origin};
use super::surroundings::Surroundings;
use super::words::{self, listed, lower_first, mark, percent, spaced};
use super::{assumptions, full_report};
use crate::report::text::{self, LINES};
use trimtab_study::document::{Answer, Document, More, NoteKind, Section, Table, Use};
use trimtab_study::study::comparison::gains::Gain;
use trimtab_study::study::policy;
use trimtab_study::study::verdict::Verdict;

/// Lines of a table with its groups that are no rows, and the empty one above it.
const HEADER: usize = 4;

/// The answer for all of them.
pub(super) fn answer(verdicts: &[Verdict<'_>], around: &Surroundings) -> Answer {
    let shown = verdicts.iter().find(|verdict| !verdict.study().complete).or(verdicts.first());
    let runs: usize = verdicts.iter().map(|verdict| verdict.study().all().count()).sum();
    let more = match &around.kept {
        Some(id) => ("Data", format!("trimtab results show study:{id}"), format!("({runs} runs, kept)")),
        None => ("More", "trimtab study drive:NAME".to_owned(), format!("(one drive; {runs} runs, not kept)")),
    };
    let named: Vec<(String, &Verdict<'_>)> = verdicts.iter().map(|verdict| (short_name(verdict), verdict)).collect();
    let filesystem = verdicts.first().and_then(|verdict| environment(verdict.study(), "volume.name")).unwrap_or_default();
    let check = "'trimtab doctor PATH' says whether TRIM reaches your drive at all".to_owned();
    let sure = note(NoteKind::Other, "How sure", assumptions::of_several(&named));
    let life = verdicts.iter().find_map(first_screen::life);
    let mut answer = Answer {
        subject: format!("{} modelled drives, {filesystem}", count(verdicts.len())),
        origin: shown.map(|verdict| origin(verdict.study(), around)).unwrap_or_default(),
        uses: uses(verdicts),
        why: why(verdicts),
        tables: Vec::new(),
        notes: std::iter::once(sure).chain(life).chain([note(NoteKind::CheckFirst, "Check first", check)]).collect(),
        apply: vec!["trimtab apply POLICY MOUNTPOINT --dry-run".to_owned()],
        undo: Some(UNDO.to_owned()),
        report: around.report.clone(),
        more: Some(More { label: more.0.to_owned(), command: more.1, aside: more.2, is_whole: false }),
    };
    // A study out of the store has no report, and the same table.
    let taken = text::height(&answer) + usize::from(around.report.is_none());
    let room = LINES.saturating_sub(taken + HEADER);
    let table = table(verdicts, room);
    // An empty line can go, too.
    if table.rows.len() > room + 1 {
        // The policy with the worst latency is worth more than what is true of every drive.
        answer.notes.retain(|note| note.kind != NoteKind::CheckFirst);
    }
    answer.tables.push(table);
    answer
}

/// What to use on which drives; drives with the same answer share a line.
fn uses(verdicts: &[Verdict<'_>]) -> Vec<Use> {
    let mut uses: Vec<(&str, String, Vec<String>)> = Vec::new();
    for verdict in verdicts {
        let (choice, meaning) = (words::choice(verdict).0, words::short_meaning(verdict));
        match uses.iter_mut().find(|(other, same, _)| *other == choice && *same == meaning) {
            Some((.., names)) => names.push(name(verdict)),
            None => uses.push((choice, meaning, vec![name(verdict)])),
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

/// The report: the answer, then each drive.
pub(super) fn document(verdicts: &[Verdict<'_>], around: &Surroundings) -> Document {
    let mut sections: Vec<Section> = Vec::new();
    for verdict in verdicts {
        let of_drive = full_report::sections(verdict, &Surroundings::default());
        let named = |section: Section| Section { title: format!("{}: {}", short_name(verdict), lower_first(&section.title)), ..section };
        sections.extend(of_drive.into_iter().map(named));
    }
    // What is folded away comes last, of all drives.
    sections.sort_by_key(|section| section.folded);
    let title = format!("Trim policies on {} drives", count(verdicts.len()).to_lowercase());
    Document { title, answer: Some(answer(verdicts, around)), sections, ..Document::default() }
}

fn count(number: usize) -> String {
    match number {
        1 => "One".to_owned(),
        2 => "Two".to_owned(),
        3 => "Three".to_owned(),
        more => more.to_string(),
    }
}

/// The drive without its filesystem.
fn name(verdict: &Verdict<'_>) -> String {
    drive(verdict.study()).unwrap_or(&verdict.study().target).to_owned()
}

/// The first word of it, which tells them apart in the table.
fn short_name(verdict: &Verdict<'_>) -> String {
    name(verdict).split(' ').next().unwrap_or_default().to_owned()
}

/// What the recommended policies gain, drive by drive: a line for random writes, a line for life.
fn why(verdicts: &[Verdict<'_>]) -> Vec<String> {
    let Some(metrics) = verdicts.first().map(|verdict| &verdict.comparison.metrics) else { return Vec::new() };
    let Some(fill) = metrics.fills.first().copied() else { return Vec::new() };
    let days = metrics.days.map(|days| format!(", {days:.0} days")).unwrap_or_default();
    let line = |shown: &dyn Fn(&Gain<'_>) -> Option<String>| {
        let each = verdicts.iter().map(|verdict| {
            let chosen = verdict.recommendation.trimming_policy();
            let gain = chosen.and_then(|chosen| verdict.comparison.main_gain(chosen));
            let gained = match (chosen, gain) {
                (Some(_), None) => "not tried".to_owned(),
                // Where it gains nothing at the fill that is named behind, it gains something at another.
                (_, Some(gain)) if gain.fill != fill => {
                    shown(gain).map_or_else(|| "no gain".to_owned(), |text| format!("{text} at {} full", spaced(gain.fill)))
                }
                (_, gain) => gain.and_then(shown).unwrap_or_else(|| "no gain".to_owned()),
            };
            format!("{} {gained}", short_name(verdict))
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let rates = line(&|gain| Some(format!("{}{}", percent(gain.rate), mark(gain.steady))));
    let lives = line(&|gain| gain.life.map(percent));
    vec![format!("random writes: {rates} against no trimming"), format!("life: {lives} ({} full{days})", spaced(fill))]
}

/// Which policies of each drive to show in at most `most` rows: none and the recommended one of each, or where that is none
/// the best; and as far as there is room, where the difference is largest, the one with the worst latency.
fn shown<'a>(verdicts: &[Verdict<'a>], most: usize) -> Vec<Vec<&'a str>> {
    let gain = |verdict: &Verdict<'_>, name: &str| verdict.comparison.gains_of(name).map(Gain::best).fold(1.0, f64::max);
    let two = |verdict: &Verdict<'a>| {
        let all = &verdict.comparison.metrics.policies;
        let trimming = all.iter().copied().filter(|name| *name != policy::NONE);
        let best = || trimming.max_by(|a, b| gain(verdict, a).total_cmp(&gain(verdict, b)));
        let other = verdict.recommendation.trimming_policy().or_else(best);
        all.iter().copied().filter(|name| *name == policy::NONE || other == Some(*name)).collect::<Vec<_>>()
    };
    let mut shown: Vec<Vec<&str>> = verdicts.iter().map(two).collect();
    let latency = |at: usize, name: &str| verdicts[at].comparison.metrics.worst_latency(name).map_or(0.0, |worst| worst.seconds);
    let mut worst: Vec<(usize, &str, f64)> = (0..verdicts.len())
        .filter_map(|at| {
            let others = verdicts[at].comparison.metrics.policies.iter().copied().filter(|name| !shown[at].contains(name));
            let worst = others.max_by(|a, b| latency(at, a).total_cmp(&latency(at, b)))?;
            let mine = shown[at].iter().map(|name| latency(at, name)).fold(f64::MIN_POSITIVE, f64::max);
            Some((at, worst, latency(at, worst) / mine))
        })
        .collect();
    worst.sort_by(|a, b| b.2.total_cmp(&a.2));
    // The policy with the worst latency of all always stands there, and before all others.
    let standing = shown.iter().enumerate().flat_map(|(at, names)| names.iter().map(move |name| latency(at, name))).fold(0.0, f64::max);
    let first = (0..worst.len()).max_by(|a, b| latency(worst[*a].0, worst[*a].1).total_cmp(&latency(worst[*b].0, worst[*b].1)));
    let first = first.filter(|nth| latency(worst[*nth].0, worst[*nth].1) > standing);
    if let Some(nth) = first {
        let longest_of_all = worst.remove(nth);
        worst.insert(0, longest_of_all);
    }
    let room = most.saturating_sub(shown.iter().map(Vec::len).sum()).max(usize::from(first.is_some()));
    for (at, name, _) in worst.into_iter().take(room) {
        shown[at].push(name);
    }
    for (verdict, names) in verdicts.iter().zip(&mut shown) {
        *names = verdict.comparison.metrics.policies.iter().copied().filter(|name| names.contains(name)).collect();
    }
    shown
}

/// A row for each drive and policy that differs, as many as there is room for.
fn table(verdicts: &[Verdict<'_>], most: usize) -> Table {
    let Some(first) = verdicts.first().map(|verdict| &verdict.comparison.metrics) else { return Table::default() };
    let mut table = MonthsTable::new(first, true, MonthsFigure::ALL.to_vec());
    for (drive, (verdict, names)) in verdicts.iter().zip(shown(verdicts, most)).enumerate() {
        for policy in names {
            table.row(verdict, drive, format!("{} {policy}", short_name(verdict)), policy, &first.fills);
        }
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::study::tests::fixtures::{IDLE, sensitivity, three, whole};
    use trimtab_study::study::Study;
    use trimtab_study::study::recommendation::Recommendation;
    use trimtab_study::study::sensitivity::Assumption;

    #[test]
    fn confidence_follows_from_the_assumptions_that_were_changed() {
        let said = |change: &dyn Fn(&mut Vec<Study>)| {
            let mut studies = three();
            change(&mut studies);
            let verdicts = Verdict::all(&studies);
            let named: Vec<_> = verdicts.iter().map(|verdict| (short_name(verdict), verdict)).collect();
            assumptions::of_several(&named)
        };
        let online = Recommendation::Use(policy::ONLINE);
        let assume = |recommended, then: [Recommendation; 2]| {
            Some(sensitivity(recommended, &[(Assumption::TrimCost, then[0]), (Assumption::Fill, then[1])]))
        };
        assert_eq!(said(&|_| {}), "SATA, NVMe hold with other TRIM costs and fills; OCZ depends on both");
        let one = said(&|studies| studies[0].sensitivity = assume(IDLE, [online, IDLE]));
        assert_eq!(one, "SATA, NVMe hold with other TRIM costs and fills; OCZ depends on TRIM costs");
        let none = said(&|studies| studies[0].sensitivity = assume(IDLE, [IDLE, IDLE]));
        assert_eq!(none, "OCZ, SATA, NVMe hold with other TRIM costs and fills");
        // What a small study varies is not what is recommended.
        let other = said(&|studies| studies[0].sensitivity = assume(online, [IDLE, IDLE]));
        assert_eq!(other, "SATA, NVMe hold with other TRIM costs and fills; smaller studies of OCZ come to online");
        let untested = said(&|studies| studies.iter_mut().for_each(|study| study.sensitivity = None));
        assert_eq!(untested, "modelled; sensitivity to assumptions not tested");
        assert_eq!(said(&|studies| *studies = vec![whole()]), "tried with 9 other assumptions; OCZ depends on TRIM costs");
    }

    #[test]
    fn rows_fill_the_room_of_the_screen() {
        let studies = three();
        let verdicts = Verdict::all(&studies);
        let rows = |most| shown(&verdicts, most).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(rows(0), [3, 2, 2], "none and another one of each, and always the one with the worst latency");
        assert_eq!(rows(7), [3, 2, 2], "3.10 s instead of 153 ms is the largest difference");
        assert_eq!(shown(&verdicts, 7)[0], ["none", "online", "idle"]);
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
    fn policy_that_was_not_tried_is_not_said_to_gain_nothing() {
        let mut studies = three();
        let without = |studies: &mut Vec<Study>, left: &str| {
            studies[0].runs.retain(|run| run.policy != left);
            studies[0].ageing.retain(|run| run.policy != left);
        };
        without(&mut studies, "batched");
        assert_eq!(Verdict::of(&studies[0]).policy(), Some("idle"));
        without(&mut studies, "idle");
        assert_eq!(Verdict::of(&studies[0]).policy(), Some("adaptive"));
        without(&mut studies, "adaptive");
        // Nothing but online discard is left, which costs too much: batches would be next.
        let shown = why(&Verdict::all(&studies)).join("\n");
        assert!(shown.contains("OCZ not tried") && !shown.contains("OCZ no gain"), "{shown}");
    }
}
