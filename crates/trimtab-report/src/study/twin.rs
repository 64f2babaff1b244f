//! Months of use on the twin of a measured drive: a line on the first screen, sections of
//! the report.

use super::{assumptions, months, words};
use trimtab_study::document::{Section, SectionBlock};
use trimtab_study::study::twin_months::{TwinMonths, TwinOrigin};
use trimtab_study::study::verdict::Verdict;

fn learned(origin: &TwinOrigin) -> String {
    format!("{}, learned on {}", origin.model, origin.learned)
}

/// The line on the first screen, which also compares the prediction with `measured`.
pub(super) fn note(months: &TwinMonths, measured: &Verdict<'_>) -> String {
    let verdict = Verdict::of(&months.study);
    let origin = learned(&months.origin);
    let Some(ensemble) =
        months.study.sensitivity.as_ref().and_then(|sensitivity| sensitivity.ensemble.as_ref())
    else {
        return format!("predicted on its twin ({origin}): {}", words::choice(&verdict).0);
    };
    let recommended = verdict.recommendation;
    let decided = if ensemble.decides(recommended) {
        format!("{}, ", words::name(recommended))
    } else {
        String::new()
    };
    let doubts: String =
        months.origin.doubts.iter().map(|doubt| format!("; but {doubt}")).collect();
    let (drives, rates) =
        (assumptions::drives(ensemble, recommended), assumptions::rates(ensemble, recommended));
    let typical = if months.origin.typical_trims {
        "; the cost of TRIMs on the twin is typical of its class, not measured"
    } else {
        ""
    };
    // If prediction and measurement disagree, says which to follow.
    let apart = measured.policy().filter(|here| Some(*here) != verdict.policy()).map_or_else(
        String::new,
        |here| {
            let with = match ensemble.range(here, |shown| shown.rate) {
                None => String::new(),
                Some(_) => {
                    let rate = assumptions::range(ensemble, here, |shown| shown.rate);
                    format!(" (with it {rate} random writes/s on the twin)")
                }
            };
            match months.origin.typical_trims {
                true => format!(
                    ": where foreground latency matters, follow the measurement, {here}{with}"
                ),
                false => format!(
                    "; the measurement, {here}{with}, is about foreground latency, and \
                months about gains in the long run"
                ),
            }
        },
    );
    format!(
        "predicted on its twin ({origin}), not measured: {decided}{drives}; \
            {rates}{typical}{apart}{doubts}"
    )
}

/// The sections of the report: origin, ranges over the fitting drives, and the twin's own
/// months.
pub(super) fn sections(twin: &TwinMonths) -> Vec<Section> {
    let verdict = Verdict::of(&twin.study);
    let ensemble =
        twin.study.sensitivity.as_ref().and_then(|sensitivity| sensitivity.ensemble.as_ref());
    let origin = format!(
        "Predicted, not measured: a study of the twin learned from this drive ({}).",
        learned(&twin.origin)
    );
    let drives = ensemble.map_or_else(
        || "Other fitting drives were not tried.".to_owned(),
        |ensemble| assumptions::of_ensemble(ensemble, verdict.recommendation),
    );
    let doubts = twin.origin.doubts.iter().map(|doubt| format!("But {doubt}."));
    let blocks = [origin, drives].into_iter().chain(doubts).map(SectionBlock::Text);
    let table =
        ensemble.map(|ensemble| assumptions::drives_section(ensemble).blocks).unwrap_or_default();
    let mut sections =
        vec![Section::new("Months of use, predicted", blocks.chain(table).collect())];
    let named = |section: Section| Section {
        title: format!("{} (predicted on the twin)", section.title),
        ..section
    };
    sections.extend(months::lines(&verdict).map(named));
    sections.extend(months::ageing(&verdict).map(|section| named(section).folded()));
    sections
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::tests::fixtures::{BATCHED, IDLE, whole};
    use crate::study::{Surroundings, answer, document};
    use trimtab_study::study::ensemble::{Ensemble, Fit, PolicyResult};
    use trimtab_study::study::policy;
    use trimtab_study::study::recommendation::Recommendation;
    use trimtab_study::study::sensitivity::Sensitivity;

    fn fit(recommended: Recommendation, with: f64, without: f64) -> Fit {
        let shown = |policy: &str, rate| PolicyResult {
            policy: policy.into(),
            rate: Some(rate),
            waf: Some(2.0),
            cycles_per_tb: Some(4.0),
            wait_s: None,
        };
        Fit { recommended, policies: vec![shown("idle", with), shown(policy::NONE, without)] }
    }

    fn months() -> TwinMonths {
        let mut study = whole();
        let drives =
            vec![fit(IDLE, 1000.0, 400.0), fit(IDLE, 1200.0, 500.0), fit(BATCHED, 1100.0, 450.0)];
        let ensemble = Some(Ensemble {
            drives,
            of: 64,
            depends_on: None,
            of_the_class: Vec::new(),
            unexplained: false,
        });
        study.sensitivity =
            Some(Sensitivity { recommended: Some(IDLE), ensemble, ..Sensitivity::default() });
        let doubts = vec!["it has another firmware".into()];
        let origin = TwinOrigin {
            model: "ACME 1".into(),
            learned: "2026-01-02".into(),
            doubts,
            typical_trims: true,
        };
        TwinMonths { origin, study }
    }

    #[test]
    fn twin_note_compares_prediction_with_measurement() {
        let study = whole();
        let mut none = Verdict::of(&study);
        none.recommendation = Recommendation::Use(policy::NONE);
        let text = note(&months(), &none);
        let says = "; the cost of TRIMs on the twin is typical of its class, not measured: \
            where foreground latency matters, follow the measurement, none (with it 450 \
            (400 to 500) random writes/s on the twin); but";
        assert!(text.contains(says), "{text}");
        let mut measured = months();
        measured.origin.typical_trims = false;
        let says = "; the measurement, none (with it 450 (400 to 500) random writes/s on the \
            twin), is about foreground latency";
        assert!(note(&measured, &none).contains(says));
    }

    #[test]
    fn twin_months_are_ranges_and_marked_predicted() {
        let (study, months) = (whole(), months());
        let verdicts = [Verdict::of(&study)];
        let text = note(&months, &verdicts[0]);
        assert!(
            text.starts_with(
                "predicted on its twin (ACME 1, learned on 2026-01-02), not measured: cannot \
            be decided: of 3 drives that fit idle on 2, batched on 1; 1,100 (1,000 to \
            1,200) random writes/s with it"
            ),
            "{text}"
        );
        assert!(
            text.ends_with("is typical of its class, not measured; but it has another firmware"),
            "{text}"
        );
        let around = Surroundings { months: Some(Box::new(months)), ..Surroundings::default() };
        assert!(
            answer(&verdicts, &around)
                .notes
                .iter()
                .any(|note| note.label == "Months" && note.text.starts_with("predicted"))
        );
        let predicted = |document: &trimtab_study::document::Document| {
            document
                .sections
                .iter()
                .find(|section| section.title == "Months of use, predicted")
                .cloned()
        };
        let section = predicted(&document(&verdicts, &around)).unwrap();
        let table = section
            .blocks
            .iter()
            .find_map(
                |block| if let SectionBlock::Table(table) = block { Some(table) } else { None },
            )
            .unwrap();
        let idle = table.rows.iter().find(|row| row[0] == "idle").unwrap();
        assert_eq!(
            (idle[1].as_str(), idle[5].as_str()),
            ("2", "–"),
            "a figure that no drive has is a dash"
        );
        assert_eq!(predicted(&document(&verdicts, &Surroundings::default())), None);
    }
}
