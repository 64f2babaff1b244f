//! A study into the store, and onto the screen.

use crate::output::Context;
use crate::report;
use crate::store::shape::run::RunV1;
use crate::store::{self, RunId, StudyRecord};
use serde::Serialize;
use trimtab_core::document::Use;
use trimtab_core::run::{Field, Run};
use trimtab_core::study::answer::{self, Around};
use trimtab_core::study::judged::Judged;
use trimtab_core::study::predicted::Predicted;
use trimtab_core::study::sensitivity::Sensitivity;
use trimtab_core::study::{Study, document};

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

/// Puts a run out of the store where [`keep`] had it from.
pub fn put_back(study: &mut Study, predicted: &mut Option<Predicted>, part: &str, run: Run) {
    if part == MONTHS {
        *predicted = Predicted::of_run(&run);
        return;
    }
    let (study, part) = match (part.strip_prefix(MONTHS).and_then(|part| part.strip_prefix('.')), predicted) {
        (Some(part), Some(predicted)) => (&mut predicted.study, part),
        (Some(_), None) => return,
        (None, _) => (study, part),
    };
    match part {
        "ageing" => study.ageing.push(run),
        "tuning" => study.tuning.push(run),
        "kernels" => study.kernels.push(run),
        "assumptions" => study.assumptions = Some(run),
        _ => study.runs.push(run),
    }
}

/// Keeps the runs, those that are kept already once, and that they belong together. Nothing is kept of a study without runs.
///
/// # Errors
/// A store that cannot be written.
pub fn keep(context: &Context, study: &Study, predicted: Option<&Predicted>) -> store::Result<Option<RunId>> {
    if study.is_empty() {
        return Ok(None);
    }
    let mut runs = Vec::new();
    let mut save = |part: String, run: &Run| -> store::Result<()> {
        runs.push((part, store::save(context, run)?));
        Ok(())
    };
    for (part, run) in runs_of(study) {
        save(part.to_owned(), run)?;
    }
    if let Some(predicted) = predicted {
        save(MONTHS.to_owned(), &predicted.as_run())?;
        for (part, run) in runs_of(&predicted.study) {
            save(format!("{MONTHS}.{part}"), run)?;
        }
    }
    let untried = study.untried.iter().map(|untried| Field::new(&untried.policy, &untried.reason)).collect();
    let record = StudyRecord { target: study.target.clone(), complete: study.complete, runs, untried };
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

/// Prints a study, with its id if it is kept: the answer, or with `details` everything.
///
/// # Errors
/// Standard output that cannot be written.
pub fn print(context: &Context, id: Option<RunId>, study: &Judged<'_>, around: &Around, details: bool) -> anyhow::Result<()> {
    let shape = shape(id, study, around);
    context.report_styled("study", 2, &shape, || match details {
        true => report::text::render(&document::of(study, around)),
        false => report::text::answer(&answer::of(study, around)),
    })
}
