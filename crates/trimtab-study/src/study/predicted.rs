//! What months of use would do to a drive that was measured: a study of its twin, in the report of what was measured.

use super::judged::Judged;
use super::{Study, answer, months, policy, sensitivity};
use crate::document::{Block, Section};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_sim::run::{Field, Run, TargetKind};
use trimtab_sim::runner::header::Header;
use trimtab_sim::runner::recorder::Recorded;

/// How it is kept.
const WORKLOAD: &str = "months on a twin";
const ORIGIN: &str = "twin";
const DOUBT: &str = "doubt";
const TRIMS: &str = "costs of trims";
const TYPICAL: &str = "typical of the class";

/// Months of use on the twin of a drive.
#[derive(Clone, Debug, Default)]
pub struct Predicted {
    /// The study of the twin.
    pub study: Study,
    /// From which drive the twin was learned, and when.
    pub origin: String,
    /// Why it may not be this one.
    pub doubts: Vec<String>,
    /// Whether what TRIMs cost the twin is only typical of its class: through a filesystem none is probed.
    pub typical_trims: bool,
}

impl Predicted {
    /// Whose months they are, as a run, so that it can be kept with the runs of the study: all in settings.
    #[must_use]
    pub fn as_run(&self) -> Run {
        let doubts = self.doubts.iter().map(|doubt| Field::new(DOUBT, doubt));
        let trims = self.typical_trims.then(|| Field::new(TRIMS, TYPICAL));
        let settings = core::iter::once(Field::new(ORIGIN, &self.origin)).chain(trims).chain(doubts).collect();
        Header::new(WORKLOAD, settings, TargetKind::ModelledVolume, &self.study.target, policy::NONE, 0).into_run(Recorded::default(), true)
    }

    /// What [`as_run`](Self::as_run) made, without the months; `None` if it is something else.
    #[must_use]
    pub fn of_run(run: &Run) -> Option<Self> {
        let origin = Field::find(&run.settings, ORIGIN).filter(|_| run.workload == WORKLOAD)?.to_owned();
        let doubts = run.settings.iter().filter(|field| field.key == DOUBT).map(|field| field.value.clone()).collect();
        let typical_trims = Field::find(&run.settings, TRIMS) == Some(TYPICAL);
        Some(Self { study: Study { target: run.target_label.clone(), complete: true, ..Study::default() }, origin, doubts, typical_trims })
    }

    /// What the first screen says of it, in a few words; and how it goes with what was `measured`.
    #[must_use]
    pub fn note(&self, measured: &Judged<'_>) -> String {
        let study = Judged::of(&self.study);
        let (choice, _) = answer::choice(&study);
        let sensitivity = study.sensitivity();
        let Some(ensemble) = sensitivity.as_ref().and_then(|sensitivity| sensitivity.ensemble.as_ref()) else {
            return format!("predicted on its twin ({}): {choice}", self.origin);
        };
        let recommended = sensitivity::name(study.recommendation);
        let decided = if ensemble.decides(recommended) { format!("{recommended}, ") } else { String::new() };
        let rate = |policy: &str| ensemble.range(policy, |shown| shown.rate);
        let beside = match study.policy().filter(|policy| *policy != policy::NONE) {
            Some(policy) => format!("{} random writes/s with it, {} without", rate(policy), rate(policy::NONE)),
            None => format!("{} random writes/s without trimming", rate(policy::NONE)),
        };
        let doubts: String = self.doubts.iter().map(|doubt| format!("; but {doubt}")).collect();
        let apart = self.apart(measured, &study, &rate);
        format!("predicted on its twin ({}), not measured: {decided}{}; {beside}{apart}{doubts}", self.origin, ensemble.short(recommended))
    }

    /// What is to be made of months that say another policy than what was measured.
    fn apart(&self, measured: &Judged<'_>, months: &Judged<'_>, rate: &dyn Fn(&str) -> String) -> String {
        let typical = if self.typical_trims { "; what TRIMs cost the twin is typical of its class, not measured" } else { "" };
        let Some(here) = measured.policy().filter(|here| Some(*here) != months.policy()) else { return typical.to_owned() };
        let with = match rate(here).as_str() {
            "–" => String::new(),
            rate => format!(" (with it {rate} random writes/s on the twin)"),
        };
        if self.typical_trims {
            return format!("{typical}: where it matters what others wait for, go by what was measured, {here}{with}");
        }
        format!("; what was measured, {here}{with}, is about what others wait for, and months about what is gained in the long run")
    }

    /// What the report has of it: what it is, ranges over the drives that fit, and the twin's own months.
    #[must_use]
    pub fn sections(&self) -> Vec<Section> {
        let study = Judged::of(&self.study);
        let sensitivity = study.sensitivity();
        let ensemble = sensitivity.as_ref().and_then(|sensitivity| sensitivity.ensemble.as_ref());
        let sentence = ensemble.map(|ensemble| ensemble.sentence(sensitivity::name(study.recommendation)));
        let text = [
            format!("Predicted, not measured: a study of the twin that was learned from this drive ({}).", self.origin),
            sentence.unwrap_or_else(|| String::from("Other drives that fit were not tried.")),
        ];
        let doubts = self.doubts.iter().map(|doubt| format!("But {doubt}."));
        let blocks = text.into_iter().chain(doubts).map(Block::Text);
        let drives = ensemble.map(|ensemble| ensemble.section().blocks).unwrap_or_default();
        let mut sections = Vec::from([Section::new("Months of use, predicted", blocks.chain(drives).collect())]);
        let named = |section: Section| Section { title: format!("{} (predicted on the twin)", section.title), ..section };
        sections.extend(months::lines(&self.study).map(named));
        sections.extend(months::ageing(&self.study).map(|section| named(section).folded()));
        sections
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::answer::{self, Around};
    use crate::study::ensemble::{Ensemble, Fit, Shown};
    use crate::study::sensitivity::Sensitivity;
    use crate::study::verdict::Recommendation;
    use crate::study::{document, fixtures};
    use alloc::boxed::Box;

    fn fit(recommended: &str, with: f64, without: f64) -> Fit {
        let shown =
            |policy: &str, rate| Shown { policy: policy.into(), rate: Some(rate), waf: Some(2.0), cycles_per_tb: Some(4.0), wait_s: None };
        Fit { recommended: recommended.into(), policies: Vec::from([shown("idle", with), shown(policy::NONE, without)]) }
    }

    fn predicted() -> Predicted {
        let mut study = fixtures::whole();
        let drives = Vec::from([fit("idle", 1000.0, 400.0), fit("idle", 1200.0, 500.0), fit("batched", 1100.0, 450.0)]);
        let ensemble = Some(Ensemble { drives, of: 64, depends_on: None, of_the_class: Vec::new(), unexplained: false });
        let sensitivity = Sensitivity { recommended: "idle".into(), ensemble, ..Sensitivity::default() };
        study.assumptions.as_mut().unwrap().settings[0].value = serde_json::to_string(&sensitivity).unwrap();
        let doubts = Vec::from(["it has another firmware".into()]);
        Predicted { study, origin: "ACME 1, learned on 2026-01-02".into(), doubts, typical_trims: true }
    }

    #[test]
    fn whose_months_they_are_is_kept_and_read_again() {
        let predicted = predicted();
        let again = Predicted::of_run(&predicted.as_run()).unwrap();
        assert_eq!((&again.origin, &again.doubts, &again.study.target), (&predicted.origin, &predicted.doubts, &predicted.study.target));
        assert!(again.typical_trims && !Predicted::of_run(&Predicted::default().as_run()).unwrap().typical_trims);
        assert!(again.study.runs.is_empty() && Predicted::of_run(&predicted.study.runs[0]).is_none());
    }

    /// Seen: "batched" on the first line, "online" of the months, and no word of what to make of it.
    #[test]
    fn measured_and_predicted_differ_visibly() {
        let study = fixtures::whole();
        let mut none = Judged::of(&study);
        none.recommendation = Recommendation::NotWorthIt;
        let note = predicted().note(&none);
        let says = "; what TRIMs cost the twin is typical of its class, not measured: where it matters what others wait for, go by what was measured, none (with it 450 (400 to 500) random writes/s on the twin); but";
        assert!(note.contains(says), "{note}");
        let note = Predicted { typical_trims: false, ..predicted() }.note(&none);
        assert!(
            note.contains(
                "; what was measured, none (with it 450 (400 to 500) random writes/s on the twin), is about what others wait for"
            ),
            "{note}"
        );
    }

    #[test]
    fn predicted_months_are_ranges_marked_predicted() {
        let predicted = predicted();
        let study = fixtures::whole();
        let judged = Judged::of(&study);
        let note = predicted.note(&judged);
        assert!(note.starts_with("predicted on its twin (ACME 1, learned on 2026-01-02), not measured: cannot be decided: of 3 drives that fit idle on 2, batched on 1; 1,100 (1,000 to 1,200) random writes/s with it"), "{note}");
        assert!(note.ends_with("; what TRIMs cost the twin is typical of its class, not measured; but it has another firmware"), "{note}");
        let around = Around { predicted: Some(Box::new(predicted)), ..Around::default() };
        assert!(answer::of(&judged, &around).notes.iter().any(|(title, text)| title == "Months" && text.starts_with("predicted")));
        let document = document::of(&judged, &around);
        let section = document.sections.iter().find(|section| section.title == "Months of use, predicted").unwrap();
        let table = section.blocks.iter().find_map(|block| if let Block::Table(table) = block { Some(table) } else { None }).unwrap();
        let idle = table.rows.iter().find(|row| row[0] == "idle").unwrap();
        assert!(idle[1] == "2" && idle[2].starts_with("1100") || idle[2].starts_with("1,100"), "{idle:?}");
        assert_eq!(idle[5], "–", "what no drive showed is no figure");
        assert!(document::of(&judged, &Around::default()).sections.iter().all(|section| section.title != "Months of use, predicted"));
    }
}
