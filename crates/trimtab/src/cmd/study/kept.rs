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

/// Keeps the runs, those that are kept already once, and that they belong together. Nothing is kept of a study without runs.
///
/// # Errors
/// A store that cannot be written.
pub fn keep(context: &Context, study: &Study) -> store::Result<Option<RunId>> {
    if study.is_empty() {
        return Ok(None);
    }
    let mut runs = Vec::new();
    for (part, list) in parts(study) {
        for run in list {
            runs.push((part.to_owned(), store::save(context, run)?));
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

/// Prints a study out of the store.
///
/// # Errors
/// Standard output that cannot be written.
pub fn print_kept(context: &Context, id: RunId, study: &Study, details: bool) -> anyhow::Result<()> {
    let around = Around { kept: Some(id.short()), ..Around::default() };
    print(context, Some(id), &Judged::of(study), &around, details)
}
