//! How a recommendation depends on assumptions, and on the choice among drives that fit a
//! twin: text and tables.

use super::words::{Named, listed, name, percent, spaced};
use crate::sources;
use trimtab_drive::units::three_digits;
use trimtab_sim::run::{DRIVE, Field, Provenance, Run};
use trimtab_study::document::{Section, SectionBlock, Table};
use trimtab_study::study::ensemble::{Ensemble, PolicyResult, Range};
use trimtab_study::study::metrics::distinct;
use trimtab_study::study::recommendation::Recommendation;
use trimtab_study::study::sensitivity::{Assumption, Sensitivity, SensitivityRow};
use trimtab_study::study::verdict::{Confidence, Verdict};

/// The name of an assumption, and its plural for several values: `TRIM costs`.
const fn assumption(assumption: Assumption) -> (&'static str, &'static str) {
    match assumption {
        Assumption::FreeSuperblocks => {
            ("superblocks kept free in idle time", "superblocks kept free in idle time")
        }
        Assumption::IdleDelay => {
            ("idle time before garbage is collected", "idle times before garbage is collected")
        }
        Assumption::SpareSpace => ("spare space", "spare space"),
        Assumption::TrimCost => ("the cost of a TRIM", "TRIM costs"),
        Assumption::HostMemory => ("memory of the host", "memory of the host"),
        Assumption::FileSize => ("median size of files", "file sizes"),
        Assumption::DailyWrites => ("bytes written a day", "bytes written a day"),
        Assumption::Filesystem => ("filesystem", "filesystems"),
        Assumption::Fill => ("fill", "fills"),
    }
}

/// Figures of docs/published.md that the model predicts, and the number within the limit.
const PUBLISHED: (usize, usize) = (60, 28);

/// The "How sure" note: repeats or assumptions, sources of the model's inputs, error of
/// the model. `None` without an answer.
pub(super) fn how_sure(named: &Named<'_>) -> Option<String> {
    let answers: Vec<_> =
        named.iter().filter(|(_, verdict)| verdict.recommendation.is_answer()).collect();
    let mut parts =
        distinct(answers.iter().map(|(_, verdict)| super::words::confidence(&verdict.confidence)));
    parts.extend(varied(&answers));
    let modelled = |verdict: &Verdict<'_>| {
        verdict.study().runs.iter().any(|run| run.provenance == Provenance::Modelled)
    };
    if answers.iter().any(|(_, verdict)| modelled(verdict)) {
        parts.push(values(answers.iter().filter_map(|(_, verdict)| verdict.study().all().next())));
        let (figures, met) = PUBLISHED;
        parts.push(format!("only {met} of {figures} published figures predicted within 25 %"));
    }
    parts.retain(|part| !part.is_empty());
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// A verdict with the short name of its drive.
type Answer<'a> = &'a (String, &'a Verdict<'a>);

/// Results of other assumptions, and of other drives that fit a twin.
fn varied(answers: &[Answer<'_>]) -> Vec<String> {
    let mut parts = Vec::new();
    // Drives whose smaller models, with nothing varied, give the same: the study's answer
    // first.
    let mut groups: Vec<(Option<Recommendation>, Vec<Answer<'_>>)> = vec![(None, Vec::new())];
    for answer in answers {
        let (_, verdict) = answer;
        let Confidence::Assumptions { otherwise, .. } = &verdict.confidence else { continue };
        let own = verdict.own();
        let ensemble = verdict.study().sensitivity.as_ref().and_then(|all| all.ensemble.as_ref());
        parts.extend(ensemble.map(|ensemble| {
            let gains = ranges(ensemble, own).map(|gains| format!(": {gains}"));
            format!("{}{}", drives(ensemble, own), gains.unwrap_or_default())
        }));
        match groups.iter_mut().find(|(other, _)| other == otherwise) {
            Some((_, group)) => group.push(answer),
            None => groups.push((*otherwise, vec![answer])),
        }
    }
    groups.retain(|(_, group)| !group.is_empty());
    let some = groups.len() > 1;
    parts
        .extend(groups.into_iter().filter_map(|(otherwise, group)| under(otherwise, &group, some)));
    parts
}

/// The answer of the smaller models of these drives under other assumptions: `same answer
/// under other TRIM costs and fills, except OCZ at 30 % full (then no trimming)`. If they
/// give another answer with nothing varied, they say nothing about the study's answer. The
/// drives are named if the group is only `some` of them.
fn under(otherwise: Option<Recommendation>, group: &[Answer<'_>], some: bool) -> Option<String> {
    let of = |verdict: &&Verdict<'_>| verdict.study().sensitivity.clone().unwrap_or_default();
    let all: Vec<_> = group.iter().map(|(name, verdict)| (name.as_str(), of(verdict))).collect();
    let rows = all.iter().flat_map(|(_, sensitivity)| &sensitivity.rows);
    let answered = rows.filter(|row| row.answered().next().is_some());
    let kinds = distinct(answered.map(|row| assumption(row.assumption).1));
    let changing = distinct(all.iter().flat_map(|(_, sensitivity)| {
        sensitivity.decisive().into_iter().map(|row| assumption(row.assumption).1)
    }));
    let kinds = match kinds.len() {
        0 => return None,
        1 | 2 => format!("other {}", listed(&kinds)),
        count if changing.is_empty() => format!("{count} other assumptions"),
        count => format!("{} of {count} other assumptions", count - changing.len()),
    };
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let whose = if some { format!("{}: ", listed(&names)) } else { String::new() };
    if let Some(other) = otherwise {
        return Some(format!(
            "{whose}{kinds} not tested, since the smaller models used for this recommend {} with \
                nothing changed",
            name(other)
        ));
    }
    let except: Vec<String> = all
        .iter()
        .flat_map(|(name, sensitivity)| {
            flips(if some && names.len() == 1 { "" } else { name }, sensitivity)
        })
        .collect();
    let except = except.join(", ");
    Some(if except.is_empty() {
        format!("{whose}same answer under {kinds}")
    } else {
        format!("{whose}same answer under {kinds}, except {except}")
    })
}

/// Assumptions that change the recommendation: `OCZ at 30 % full (then no trimming)`.
fn flips(short: &str, sensitivity: &Sensitivity) -> Vec<String> {
    let of_row = |row: &SensitivityRow| -> Vec<String> {
        let changing: Vec<_> = row.changing(sensitivity.recommended).collect();
        let flip = |then: Recommendation| {
            let values: Vec<_> = changing
                .iter()
                .filter(|tried| tried.recommended == then)
                .map(|tried| spaced(&tried.value))
                .collect();
            let how_many = match (values.len(), row.tried.len()) {
                (_, 1) => "",
                (some, all) if some == all => "all ",
                _ => "some ",
            };
            let when = match row.assumption {
                Assumption::Fill => format!("at {} full", values.join(" and ")),
                other => format!("with {how_many}other {}", assumption(other).1),
            };
            format!("{short} {when} (then {})", name(then)).trim_start().to_owned()
        };
        distinct(changing.iter().map(|tried| tried.recommended)).into_iter().map(flip).collect()
    };
    sensitivity.rows.iter().flat_map(of_row).collect()
}

/// What the smaller models recommend with nothing changed, if it differs.
pub(super) const fn rival(verdict: &Verdict<'_>) -> Option<Recommendation> {
    match verdict.confidence {
        Confidence::Assumptions { otherwise, .. } => otherwise,
        _ => None,
    }
}

/// Recommendations under other assumptions that the "How sure" note names.
pub(super) fn alternatives(verdict: &Verdict<'_>) -> Vec<Recommendation> {
    if let Some(rival) = rival(verdict) {
        return vec![rival];
    }
    let sensitivity = verdict.study().sensitivity.iter();
    sensitivity
        .flat_map(|all| all.rows.iter().flat_map(|row| row.changing(all.recommended)))
        .map(|tried| tried.recommended)
        .collect()
}

/// Sources of the values of these runs' drives: `inputs: 3 published, 62 assumed`.
fn values<'a>(runs: impl Iterator<Item = &'a Run>) -> String {
    let counts: Vec<_> =
        runs.filter_map(|run| sources::counts(Field::find(&run.specification, DRIVE)?)).collect();
    let sum = |at: usize| counts.iter().map(|counts| counts[at].0).sum::<usize>();
    let first = counts.first().into_iter().flatten().enumerate();
    let shown: Vec<String> = first
        .filter(|(at, _)| sum(*at) > 0)
        .map(|(at, (_, kind))| format!("{} {}", sum(at), kind.name()))
        .collect();
    if shown.is_empty() { String::new() } else { format!("inputs: {}", shown.join(", ")) }
}

/// Sentences about the assumptions behind `recommended`, the study's own recommendation.
pub(super) fn sentences(sensitivity: &Sensitivity, recommended: Recommendation) -> String {
    let assumptions = about_assumptions(sensitivity, recommended);
    let ensemble = sensitivity.ensemble.as_ref().map(|ensemble| of_ensemble(ensemble, recommended));
    assumptions.into_iter().chain(ensemble).collect::<Vec<_>>().join(" ")
}

fn about_assumptions(sensitivity: &Sensitivity, recommended: Recommendation) -> Option<String> {
    let (all, decisive) = (sensitivity.rows.len(), sensitivity.decisive());
    if all == 0 && sensitivity.ensemble.is_some() {
        return None;
    }
    let it = match sensitivity.recommended.filter(|other| *other != recommended) {
        Some(other) => format!(
            "The small studies that vary assumptions recommend {} with nothing varied. That",
            name(other)
        ),
        None => "It".to_owned(),
    };
    if decisive.is_empty() {
        return Some(format!(
            "{it} holds under all {all} assumptions, each varied within its plausible range."
        ));
    }
    let each = decisive.iter().map(|row| {
        let values: Vec<String> = row
            .changing(sensitivity.recommended)
            .map(|tried| format!("{} with {}", name(tried.recommended), tried.value))
            .collect();
        format!("{} ({})", assumption(row.assumption).0, values.join(", "))
    });
    let each = each.collect::<Vec<_>>().join("; ");
    Some(format!(
        "{it} holds under {} of {all} assumptions and depends on {each}.",
        all - decisive.len()
    ))
}

/// The table of varied assumptions.
pub(super) fn section(sensitivity: &Sensitivity) -> Option<Section> {
    let unchanged = sensitivity.recommended.map_or("nothing", name);
    let title = format!(
        "One assumption varied at a time, in a small study each. Nothing varied: {unchanged}."
    );
    let mut table = Table::new(title, &["assumption", "assumed", "tried", "recommended then"]);
    for row in &sensitivity.rows {
        for (at, tried) in row.tried.iter().enumerate() {
            let first = |text: &str| if at == 0 { text.to_owned() } else { String::new() };
            let changes = row.changing(sensitivity.recommended).any(|one| one == tried);
            let mark = if changes { " (changes)" } else { "" };
            let recommended = format!("{}{mark}", name(tried.recommended));
            table.row([
                first(assumption(row.assumption).0),
                first(&row.assumed),
                tried.value.clone(),
                recommended,
            ]);
        }
    }
    (!table.rows.is_empty()).then(|| Section::new("Assumptions", vec![SectionBlock::Table(table)]))
}

/// The share of fitting drives that agree: "best on 15 of 16 drives that fit".
pub(super) fn drives(ensemble: &Ensemble, recommended: Recommendation) -> String {
    let all = ensemble.drives.len();
    if ensemble.decides(recommended) {
        let what = if recommended.trimming_policy().is_some() { "best" } else { "the same" };
        return format!("{what} on {} of {all} drives that fit", ensemble.agree(recommended));
    }
    if ensemble.unexplained {
        return format!(
            "cannot be decided: no drive explains the measurements (of the {all} nearest: {})",
            counted(ensemble)
        );
    }
    let itself = if ensemble.agrees_on_another(recommended) {
        format!("the twin itself gives {}; ", name(recommended))
    } else {
        String::new()
    };
    format!("cannot be decided: {itself}of {all} drives that fit: {}", counted(ensemble))
}

/// Counts of drives by recommendation: "idle on 5, batched on 2".
fn counted(ensemble: &Ensemble) -> String {
    ensemble
        .counts()
        .iter()
        .map(|(what, count)| format!("{} on {count}", name(*what)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// "random writes +160 to +190 %, life +28 to +31 %".
fn ranges(ensemble: &Ensemble, recommended: Recommendation) -> Option<String> {
    let gains = ensemble.gains(recommended.policy()?)?;
    let range = |range: Range| {
        let (low, high) = (percent(range.low), percent(range.high));
        if low == high { low } else { format!("{} to {high}", low.trim_end_matches(" %")) }
    };
    let rate = gains.rate.map(|rate| format!("random writes {}", range(rate)));
    let life = gains.life.map(|life| format!("life {}", range(life)));
    let all: Vec<String> = [rate, life].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// One or two sentences for the verdict.
pub(super) fn of_ensemble(ensemble: &Ensemble, recommended: Recommendation) -> String {
    let all = ensemble.drives.len();
    if ensemble.unexplained {
        return format!(
            "No drive was found that explains the measurements, so months on the \
                twin say little about the drive. Of the {all} nearest: {}.",
            counted(ensemble)
        );
    }
    let mut text = format!(
        "Of {all} drives (the first of {}) that explain the measurements: {}.",
        ensemble.of,
        counted(ensemble)
    );
    if ensemble.agrees_on_another(recommended) {
        text += &format!(" The twin itself gives {}.", name(recommended));
    }
    if !ensemble.decides(recommended) {
        text += " The measurements do not decide between them.";
    }
    if let Some(on) = &ensemble.depends_on {
        text += &format!(" They differ most in {}, known from {}.", on.field, on.source);
    }
    text += &format!(
        " Of other drives that fit equally well, {:.0} in 100 lie outside this range.",
        200.0 / (all + 1) as f64
    );
    if !ensemble.of_the_class.is_empty() {
        text += &format!(
            " No probe identified {}: these values are typical of the class, and a \
                drive unlike its class may lie outside all results.",
            ensemble.of_the_class.join(", ")
        );
    }
    text
}

/// The median of a figure over these drives, with its 90 % range.
pub(super) fn range(
    ensemble: &Ensemble,
    policy: &str,
    what: fn(&PolicyResult) -> Option<f64>,
) -> String {
    ensemble.range(policy, what).map_or_else(
        || "–".to_owned(),
        |range| {
            format!(
                "{} ({} to {})",
                three_digits(range.median),
                three_digits(range.low),
                three_digits(range.high)
            )
        },
    )
}

/// Results of each policy on these drives.
pub(super) fn drives_section(ensemble: &Ensemble) -> Section {
    let count = ensemble.drives.len();
    let which = if ensemble.unexplained {
        "are the nearest to the measurements, but do not explain them"
    } else {
        "explain the measurements"
    };
    let ends = if count < 20 { "minimum and maximum" } else { "the 90 % range" };
    let title = format!(
        "The same months on each of {count} drives that {which}, and deleting a \
            smaller tree: the median, and {ends}."
    );
    let columns = [
        "policy",
        "recommended on",
        "final random writes/s",
        "write amplification",
        "erase cycles/TB",
        "stall (ms)",
    ];
    let mut table = Table::new(title, &columns);
    let mut names: Vec<&str> = ensemble
        .drives
        .iter()
        .flat_map(|fit| &fit.policies)
        .map(|shown| shown.policy.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let agree =
            ensemble.drives.iter().filter(|fit| fit.recommended.policy() == Some(name)).count();
        let of = |what| range(ensemble, name, what);
        let figures = [
            of(|shown| shown.rate),
            of(|shown| shown.waf),
            of(|shown| shown.cycles_per_tb),
            of(|shown| shown.wait_s.map(|wait| wait * 1e3)),
        ];
        table.row([name.to_owned(), agree.to_string()].into_iter().chain(figures));
    }
    Section::new("Drives that fit", vec![SectionBlock::Table(table)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_study::study::ensemble::{DecidingField, Fit};
    use trimtab_study::study::policy;

    const IDLE: Recommendation = Recommendation::Use(policy::IDLE);
    const BATCHED: Recommendation = Recommendation::Use(policy::BATCHED);

    fn ensemble(recommended: &[Recommendation]) -> Ensemble {
        let shown = |policy: &str, rate: f64| PolicyResult {
            policy: policy.to_owned(),
            rate: Some(rate),
            waf: None,
            cycles_per_tb: None,
            wait_s: None,
        };
        let fit = |(nth, recommended): (usize, &Recommendation)| Fit {
            recommended: *recommended,
            policies: vec![shown("idle", 150.0 + 50.0 * nth as f64), shown("none", 100.0)],
        };
        Ensemble {
            drives: recommended.iter().enumerate().map(fit).collect(),
            of: 64,
            depends_on: Some(DecidingField {
                field: "flash.trim.command_ns".to_owned(),
                source: "the class".to_owned(),
            }),
            of_the_class: vec!["flash.nand.erase_ns".to_owned()],
            unexplained: false,
        }
    }

    #[test]
    fn drives_counts_those_that_fit() {
        let most = ensemble(&[IDLE, IDLE, IDLE]);
        assert_eq!(drives(&most, IDLE), "best on 3 of 3 drives that fit");
        assert_eq!(ranges(&most, IDLE).as_deref(), Some("random writes +50 to +150 %"));
        assert_eq!(
            drives(&ensemble(&[Recommendation::NoDifference; 2]), Recommendation::NoDifference),
            "the same on 2 of 2 drives that fit"
        );
        assert_eq!(
            drives(&most, BATCHED),
            "cannot be decided: the twin itself gives batched; of 3 drives that fit: idle on 3"
        );
        let split = ensemble(&[IDLE, BATCHED, IDLE, BATCHED, IDLE, BATCHED, IDLE]);
        assert_eq!(
            drives(&split, IDLE),
            "cannot be decided: of 7 drives that fit: idle on 4, batched on 3"
        );
        let said = of_ensemble(&split, IDLE);
        // An eighth drive is equally likely at each of 8 ranks; 2 of them are the ends.
        for part in [
            "Of 7 drives (the first of 64)",
            "do not decide",
            "flash.trim.command_ns, known from the class",
            "25 in 100",
            "No probe identified flash.nand.erase_ns",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let SectionBlock::Table(table) = &drives_section(&split).blocks[0] else {
            panic!("no table")
        };
        assert_eq!(table.rows[0], ["idle", "4", "300 (150 to 450)", "–", "–", "–"]);
        let unexplained = Ensemble { unexplained: true, ..split };
        assert!(
            drives(&unexplained, IDLE)
                .starts_with("cannot be decided: no drive explains the measurements")
        );
        assert!(
            of_ensemble(&unexplained, IDLE)
                .starts_with("No drive was found that explains the measurements")
        );
    }
}
