//! A study into the store, and onto the screen.

use crate::report;
use crate::store::shape::run::RunV1;
use crate::store::{self, RunId, StudyRecord};
use serde::Serialize;
use trimtab_linux::output::Context;
use trimtab_sim::run::{Field, Run};
use trimtab_study::document::{Document, Use};
use trimtab_study::study::answer::{self, Around};
use trimtab_study::study::judged::Judged;
use trimtab_study::study::predicted::Predicted;
use trimtab_study::study::sensitivity::Sensitivity;
use trimtab_study::study::{self, Study, Untried, overview};

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub struct StudyV1 {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    target: String,
    complete: bool,
    /// The policy that is recommended; null where no single one is.
    #[serde(rename = "use")]
    recommended: Option<&'static str>,
    /// Why none is, then.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The figures that decide, in two lines.
    why: Vec<String>,
    verdict: String,
    evidence: Vec<String>,
    caveats: Vec<String>,
    untried: Vec<UntriedV1>,
    runs: Vec<RunV1>,
    ageing: Vec<RunV1>,
    tuning: Vec<RunV1>,
    /// Deleting with another generation of the filesystem.
    kernels: Vec<RunV1>,
    /// Which assumptions decide, if that was looked at.
    sensitivity: Option<Sensitivity>,
    /// Months of use on the twin of the drive that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted: Option<Box<Self>>,
}

#[derive(Debug, Serialize)]
struct UntriedV1 {
    policy: String,
    reason: String,
}

/// The parts of a study, by the names that they have in the store.
fn parts(study: &Study) -> [(&'static str, &[Run]); 5] {
    let assumptions = study.assumptions.as_slice();
    [("runs", &study.runs), ("ageing", &study.ageing), ("tuning", &study.tuning), ("kernels", &study.kernels), ("assumptions", assumptions)]
}

/// What months of use do to the twin of what was measured is kept under this name: of what drive it is; and its parts under theirs behind it.
const MONTHS: &str = "months";

fn runs_of(study: &Study) -> impl Iterator<Item = (&'static str, &Run)> {
    parts(study).into_iter().flat_map(|(part, runs)| runs.iter().map(move |run| (part, run)))
}

/// Stands between the target of a study and one of its parts or policies, where several studies are kept as one.
const OF_TARGET: char = '/';
const BETWEEN_TARGETS: &str = ", ";

/// Studies out of the store, with what months of use do to the twin of what was measured.
#[derive(Debug, Default)]
pub struct Restored {
    /// One for each target.
    pub studies: Vec<Study>,
    /// What months of use do to the twin of what was measured.
    pub predicted: Option<Predicted>,
}

impl Restored {
    /// The studies of `record`; `load` reads a run.
    ///
    /// # Errors
    /// What `load` gives.
    pub fn of<E>(record: &StudyRecord, load: impl Fn(RunId) -> Result<Run, E>) -> Result<Self, E> {
        let several = record.runs.iter().any(|(part, _)| part.contains(OF_TARGET));
        let targets = if several { record.target.split(BETWEEN_TARGETS).collect() } else { vec![record.target.as_str()] };
        let study = |target: &&str| Study { target: (*target).to_owned(), complete: record.complete, ..Study::default() };
        let mut restored = Self { studies: targets.iter().map(study).collect(), predicted: None };
        for (part, id) in &record.runs {
            let run = load(*id)?;
            let (at, part) = restored.position(part);
            restored.put_back(at, part, run);
        }
        for field in &record.untried {
            let (at, policy) = if several { restored.position(&field.key) } else { (0, field.key.as_str()) };
            restored.studies[at].untried.push(Untried { policy: policy.to_owned(), reason: field.value.clone() });
        }
        Ok(restored)
    }

    /// Which study a name is of, and the name within it.
    fn position<'a>(&self, name: &'a str) -> (usize, &'a str) {
        let (target, within) = name.rsplit_once(OF_TARGET).unwrap_or(("", name));
        (self.studies.iter().position(|study| study.target == target).unwrap_or(0), within)
    }

    /// Puts a run where [`keep`] had it from.
    fn put_back(&mut self, at: usize, part: &str, run: Run) {
        if part == MONTHS {
            self.predicted = Predicted::of_run(&run);
            return;
        }
        let (study, part) = match (part.strip_prefix(MONTHS).and_then(|part| part.strip_prefix('.')), &mut self.predicted) {
            (Some(part), Some(predicted)) => (&mut predicted.study, part),
            (Some(_), None) => return,
            (None, _) => (&mut self.studies[at], part),
        };
        match part {
            "ageing" => study.ageing.push(run),
            "tuning" => study.tuning.push(run),
            "kernels" => study.kernels.push(run),
            "assumptions" => study.assumptions = Some(run),
            _ => study.runs.push(run),
        }
    }
}

/// Keeps the runs of studies that were made together, those that are kept already once, and that they belong together. Nothing is kept of studies
/// without runs.
///
/// # Errors
/// A store that cannot be written.
pub fn keep(context: &Context, studies: &[Study], predicted: Option<&Predicted>) -> store::Result<Option<RunId>> {
    if studies.iter().all(Study::is_empty) {
        return Ok(None);
    }
    let within = |study: &Study, name: &str| match studies {
        [_] => name.to_owned(),
        _ => format!("{}{OF_TARGET}{name}", study.target),
    };
    let mut runs = Vec::new();
    let mut save = |part: String, run: &Run| -> store::Result<()> {
        runs.push((part, store::save(context, run)?));
        Ok(())
    };
    for study in studies {
        for (part, run) in runs_of(study) {
            save(within(study, part), run)?;
        }
    }
    if let Some(predicted) = predicted {
        save(MONTHS.to_owned(), &predicted.as_run())?;
        for (part, run) in runs_of(&predicted.study) {
            save(format!("{MONTHS}.{part}"), run)?;
        }
    }
    let field = |study: &Study, untried: &Untried| Field::new(within(study, &untried.policy), &untried.reason);
    let untried = studies.iter().flat_map(|study| study.untried.iter().map(move |one| field(study, one))).collect();
    let targets: Vec<&str> = studies.iter().map(|study| study.target.as_str()).collect();
    let complete = studies.iter().all(|study| study.complete);
    let record = StudyRecord { target: targets.join(BETWEEN_TARGETS), complete, runs, untried };
    store::open_to_write(context)?.save_study(&record).map(Some)
}

/// What `--json` prints of a study.
pub fn shape(id: Option<RunId>, study: &Judged<'_>, around: &Around) -> StudyV1 {
    let shapes = |runs: &[Run]| -> Vec<RunV1> {
        let shape = |run: &Run| {
            let mut shape = RunV1::from(run);
            shape.id = id.is_some().then(|| RunId::of(run).to_string());
            shape
        };
        runs.iter().map(shape).collect()
    };
    let answer = answer::of(study, around);
    StudyV1 {
        id: id.map(|id| id.to_string()),
        target: study.target.clone(),
        complete: study.complete,
        recommended: study.policy(),
        reason: answer.uses.first().filter(|_| study.policy().is_none()).map(Use::in_words),
        why: answer.why,
        verdict: study.verdict.headline.clone(),
        evidence: study.verdict.evidence.clone(),
        caveats: study.verdict.caveats.clone(),
        untried: study.untried.iter().map(|u| UntriedV1 { policy: u.policy.clone(), reason: u.reason.clone() }).collect(),
        runs: shapes(&study.runs),
        ageing: shapes(&study.ageing),
        tuning: shapes(&study.tuning),
        kernels: shapes(&study.kernels),
        sensitivity: study.sensitivity(),
        predicted: around.predicted.as_ref().map(|predicted| Box::new(shape(None, &Judged::of(&predicted.study), &Around::default()))),
    }
}

/// Prints studies that were made together, with their id if they are kept: the answer, or with `details` everything.
///
/// # Errors
/// Standard output that cannot be written.
pub fn print(context: &Context, id: Option<RunId>, studies: &[Judged<'_>], around: &Around, details: bool) -> anyhow::Result<()> {
    let shown = || match details {
        true => report::text::render(&document(studies, around)),
        false => report::text::answer(&match studies {
            [study] => answer::of(study, around),
            _ => overview::answer(studies, around, report::text::height),
        }),
    };
    match studies {
        [study] => context.report_styled("study", 2, &shape(id, study, around), shown),
        _ => {
            let shapes: Vec<_> = studies.iter().map(|study| shape(id, study, around)).collect();
            let all = serde_json::json!({ "id": id.map(|id| id.to_string()), "studies": shapes });
            context.report_styled("study-overview", 1, &all, shown)
        }
    }
}

/// The report of studies that were made together.
pub fn document(studies: &[Judged<'_>], around: &Around) -> Document {
    match studies {
        [study] => study::document::of(study, around),
        _ => overview::document(studies, around, report::text::height),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(target: &str, untried: &[&str]) -> Study {
        let reason = |policy: &&str| Untried { policy: (*policy).to_owned(), reason: "no root".to_owned() };
        Study { target: target.to_owned(), complete: true, untried: untried.iter().map(reason).collect(), ..Study::default() }
    }

    #[test]
    fn restored_studies_are_those_that_were_kept_together() {
        let dir = tempfile::tempdir().unwrap();
        let context = Context { store: Some(dir.path().join("r.db")), ..Context::default() };
        let run = |seed| Run { seed, ..crate::store::shape::any_run::example() };
        let all = [
            Study { runs: vec![run(1)], ageing: vec![run(2)], ..study("drive:a", &["online"]) },
            study("drive:b", &["online"]),
            Study { kernels: vec![run(3)], assumptions: Some(run(4)), ..study("drive:c", &[]) },
        ];
        for studies in [&all[..], &all[..1]] {
            let id = keep(&context, studies, None).unwrap().unwrap();
            let store = store::open_to_read(&context).unwrap().unwrap();
            let record = store.studies().unwrap().into_iter().find(|(of, _)| *of == id).unwrap().1;
            let restored = Restored::of(&record, |id| store.load(id)).unwrap();
            assert_eq!(format!("{:?}", restored.studies), format!("{studies:?}"));
        }
        assert!(keep(&context, &all[1..2], None).unwrap().is_none(), "there is no run");
    }
}
