//! Several modelled drives compared: where the trim policy matters and where it does not.

use super::first_screen::{self, MonthsTable, UNDO, drive, environment, note, origin};
use super::surroundings::Surroundings;
use super::words::{self, listed, lower_first, percent};
use super::{assumptions, full_report};
use trimtab_study::document::{Document, FullReportReference, NoteKind, RecommendationLine, Section, StudyAnswer, Table};
use trimtab_study::study::policy;
use trimtab_study::study::verdict::Verdict;

/// The first screen for all drives.
pub(super) fn answer(verdicts: &[Verdict<'_>], around: &Surroundings) -> StudyAnswer {
    let shown = verdicts.iter().find(|verdict| !verdict.study().complete).or(verdicts.first());
    let runs: usize = verdicts.iter().map(|verdict| verdict.study().all().count()).sum();
    let more = match &around.kept {
        Some(id) => ("More", format!("trimtab results show study:{id}"), format!("({runs} runs, kept)")),
        None => ("More", "trimtab study drive:NAME".to_owned(), format!("(one drive; {runs} runs, not kept)")),
    };
    let named: Vec<(String, &Verdict<'_>)> = verdicts.iter().map(|verdict| (short_name(verdict), verdict)).collect();
    let filesystem = verdicts.first().and_then(|verdict| environment(verdict.study(), "volume.name")).unwrap_or_default();
    let check = "'trimtab doctor MOUNTPOINT' tests whether TRIM reaches your drive".to_owned();
    let sure = assumptions::how_sure(&named).map(|text| note(NoteKind::Other, "How sure", text));
    let untrimmed = without_trimming(verdicts).map(|text| note(NoteKind::Condition, "No TRIM", text));
    let conditions = verdicts.first().and_then(|verdict| first_screen::conditions(verdict.study()));
    StudyAnswer {
        subject: format!("{} modelled drives, {filesystem}", count(verdicts.len())),
        origin: shown.map(|verdict| origin(verdict.study(), around)).unwrap_or_default(),
        uses: uses(verdicts),
        except: assumptions::exceptions(&named),
        why: why(verdicts),
        tables: vec![table(verdicts)],
        notes: [untrimmed, conditions, sure, Some(note(NoteKind::CheckFirst, "Check first", check))].into_iter().flatten().collect(),
        apply: vec!["trimtab apply POLICY MOUNTPOINT --dry-run".to_owned()],
        undo: Some(UNDO.to_owned()),
        report: around.report.clone(),
        more: Some(FullReportReference { label: more.0.to_owned(), command: more.1, aside: more.2, is_whole: false }),
    }
}

/// Recommendations by drive; drives with the same answer share a line.
fn uses(verdicts: &[Verdict<'_>]) -> Vec<RecommendationLine> {
    let mut uses: Vec<(&str, String, Vec<String>)> = Vec::new();
    for verdict in verdicts {
        let (choice, meaning) = (words::choice(verdict).0, words::short_meaning(verdict));
        match uses.iter_mut().find(|(other, same, _)| *other == choice && *same == meaning) {
            Some((.., names)) => names.push(name(verdict)),
            None => uses.push((choice, meaning, vec![name(verdict)])),
        }
    }
    let one = |(choice, meaning, names): (&str, String, Vec<String>)| RecommendationLine {
        choice: choice.to_owned(),
        on: together(&names),
        meaning,
        sure: String::new(),
    };
    uses.into_iter().map(one).collect()
}

/// Joins names that end alike: `SATA and NVMe SSD of today`.
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
    // Folded sections of all drives come last.
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

/// The first word of the name, which identifies the drive in the table.
fn short_name(verdict: &Verdict<'_>) -> String {
    name(verdict).split(' ').next().unwrap_or_default().to_owned()
}

/// The reason, once for drives that share it.
fn why(verdicts: &[Verdict<'_>]) -> Vec<String> {
    let mut rules: Vec<(String, Vec<String>)> = Vec::new();
    for verdict in verdicts {
        for line in words::why(verdict) {
            match rules.iter_mut().find(|(known, _)| *known == line) {
                Some((_, names)) => names.push(short_name(verdict)),
                None => rules.push((line, vec![short_name(verdict)])),
            }
        }
    }
    let named = rules.len() > 1;
    rules.into_iter().map(|(line, names)| if named { format!("{}: {line}", names.join(", ")) } else { line }).collect()
}

/// Cost of not trimming at all, relative to batched trims.
fn without_trimming(verdicts: &[Verdict<'_>]) -> Option<String> {
    let of = |verdict: &Verdict<'_>| {
        let metrics = &verdict.comparison.metrics;
        let fill = metrics.fills.first()?;
        let (none, base) = (metrics.aged(policy::NONE, fill)?, metrics.aged(policy::BATCHED, fill)?);
        Some((none.rate? / base.rate?, none.cycles.zip(base.cycles).map_or(1.0, |(none, base)| none / base)))
    };
    let all: Vec<(f64, f64)> = verdicts.iter().filter_map(of).collect();
    let range = |figures: Vec<f64>, shown: &dyn Fn(f64) -> String| {
        let least = figures.iter().copied().reduce(f64::min).map(shown)?;
        let most = figures.iter().copied().reduce(f64::max).map(shown)?;
        Some(if least == most { least } else { format!("{least} to {most}") })
    };
    let speed = range(all.iter().map(|one| one.0).collect(), &first_screen::times)?;
    let wear = range(all.iter().map(|one| one.1).collect(), &percent)?;
    Some(format!("4K writes {speed}, wear {wear}, against weekly fstrim"))
}

/// The policies shown for a drive: the baseline and those recommended at any fill.
fn shown<'a>(verdict: &Verdict<'a>) -> Vec<&'a str> {
    let metrics = &verdict.comparison.metrics;
    let baseline = first_screen::baseline(metrics);
    let (first, rest): (Vec<&str>, Vec<&str>) = metrics.policies.iter().partition(|name| **name == baseline);
    let others = || verdict.other_fills.iter().map(|other| other.recommendation);
    let recommended = |name: &str| others().chain([verdict.recommendation]).any(|one| one.policy() == Some(name));
    first.into_iter().chain(rest.into_iter().filter(|name| recommended(name))).collect()
}

/// Rows for each drive.
fn table(verdicts: &[Verdict<'_>]) -> Table {
    let Some(first) = verdicts.first().map(|verdict| &verdict.comparison.metrics) else { return Table::default() };
    let mut table = MonthsTable::new(first);
    for (drive, verdict) in verdicts.iter().enumerate() {
        for policy in shown(verdict) {
            table.row(verdict, drive, format!("{} {policy}", short_name(verdict)), policy, &first.fills);
        }
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::study::tests::fixtures::three;
    use trimtab_study::study::Study;

    #[test]
    fn together_joins_names_with_the_same_ending() {
        let together = |names: &[&str]| together(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(together(&["SATA SSD of today", "NVMe SSD of today"]), "SATA and NVMe SSD of today");
        assert_eq!(together(&["OCZ Vertex", "SATA SSD", "disk"]), "OCZ Vertex, SATA SSD and disk");
        assert_eq!((together(&["one"]), together(&[])), ("one".to_owned(), String::new()));
    }

    #[test]
    fn untried_policy_is_not_said_to_gain_nothing() {
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
        // Only online discard remains, which costs too much; batches come next.
        let verdict = Verdict::of(&studies[0]);
        assert_eq!((verdict.policy(), words::short_meaning(&verdict)), (Some("batched"), "periodically, not on every delete".to_owned()));
    }
}
