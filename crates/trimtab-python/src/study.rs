//! A study of a modelled drive: effects of each trim policy, and the verdict.

use crate::background::{self, TaskState};
use crate::crew::{Crew, available};
use crate::drive::Drive;
use crate::error;
use crate::run::Run;
use crate::values::{Threads, Whole, plain};
use pyo3::prelude::*;
use serde_json::json;
use std::cmp::Reverse;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run;
use trimtab_sim::runner::{Observer, RunEnd};
use trimtab_study::study::cells::{Question, StudyCell};
use trimtab_study::study::modelled::{self, Setup};
use trimtab_study::study::problem::StudyError;
use trimtab_study::study::request::{StudyRequest, Thoroughness};
use trimtab_study::study::trials::{Breadth, Trials};
use trimtab_study::study::untried::{OmissionReason, OmittedPart, StudyPart};
use trimtab_study::study::used::FreeExtentLengths;
use trimtab_study::study::verdict::Verdict;
use trimtab_study::study::{Study as Made, policy};
use trimtab_study::sweep::table::CellOutcome;
use trimtab_study::sweep::{MODEL, short_hash};

/// Filesystems for modelled drives.
const FILESYSTEMS: [&str; 3] = ["ext4", "ext4-2011", "desktop-2011"];

/// Effects of each trim policy on a drive, and the recommendation.
#[pyclass(frozen, module = "trimtab")]
pub struct Study {
    study: Made,
}

#[pymethods]
impl Study {
    /// Recommended policy; `None` if no single policy is recommended.
    #[getter]
    #[pyo3(name = "use")]
    fn recommended(&self) -> Option<&'static str> {
        Verdict::of(&self.study).policy()
    }

    /// At most two reasons with their figures, as in the JSON of `trimtab study`.
    #[getter]
    fn why<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &json!(Verdict::of(&self.study).reasons))
    }

    /// The verdict with its figures, as in the JSON of `trimtab study`.
    #[getter]
    fn verdict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &json!(Verdict::of(&self.study)))
    }

    /// Figures that support the verdict.
    #[getter]
    fn evidence<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &json!(Verdict::of(&self.study).evidence))
    }

    /// Conditions that would change the verdict, and untested parts.
    #[getter]
    fn caveats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &json!(Verdict::of(&self.study).caveats))
    }

    /// Parts that were not run, each with the reason.
    #[getter]
    fn untried<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &json!(self.study.untried))
    }

    /// Runs that delete files under each policy, with foreground I/O.
    #[getter]
    fn deleting(&self) -> Vec<Run> {
        shown(&self.study.runs)
    }

    /// Months of churn under each policy at each fill level.
    #[getter]
    fn ageing(&self) -> Vec<Run> {
        shown(&self.study.ageing)
    }

    /// Confidence in the verdict, from repeats or from varied assumptions.
    #[getter]
    fn sure<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &json!(Verdict::of(&self.study).confidence))
    }

    /// Varied assumptions: name, value, other value, and the recommendation for the
    /// latter.
    #[getter]
    fn assumptions(&self) -> Vec<(String, String, String, String)> {
        let rows = self.study.sensitivity.iter().flat_map(|sensitivity| &sensitivity.rows);
        let tried = rows.flat_map(|row| row.tried.iter().map(move |tried| (row, tried)));
        let name = |assumption| {
            serde_json::to_value(assumption).ok().and_then(|name| name.as_str().map(str::to_owned))
        };
        tried
            .map(|(row, tried)| {
                (
                    name(row.assumption).unwrap_or_default(),
                    row.assumed.clone(),
                    tried.value.clone(),
                    tried.recommended.code().to_owned(),
                )
            })
            .collect()
    }

    fn __repr__(&self) -> String {
        format!(
            "<trimtab.Study of {}: {}>",
            self.study.target,
            Verdict::of(&self.study).recommendation.code()
        )
    }
}

fn shown(runs: &[run::Run]) -> Vec<Run> {
    let shown = |run: &run::Run| {
        Run::new(short_hash(format!("{MODEL} {run:?}")), run, &CellOutcome::of(run))
    };
    runs.iter().map(shown).collect()
}

/// Studies a modelled drive like `trimtab study`.
#[pyfunction]
#[pyo3(
    signature = (drive, policies=None, *, filesystem="ext4", fill_percent=60.0, quick=false, questions=None, threads=None, progress=None, seed=Whole(1))
)]
#[expect(clippy::too_many_arguments, reason = "all but the first have names in Python")]
pub fn study(
    py: Python<'_>,
    drive: PyRef<'_, Drive>,
    policies: Option<&Bound<'_, PyAny>>,
    filesystem: &str,
    fill_percent: f64,
    quick: bool,
    questions: Option<Vec<String>>,
    threads: Option<Threads>,
    progress: Option<Py<PyAny>>,
    seed: Whole,
) -> PyResult<Study> {
    let policies =
        modelled::policies(&named(policies)?).map_err(|wrong| error(wrong.to_string()))?;
    let seed = seed.0;
    if !FILESYSTEMS.contains(&filesystem) {
        return Err(error(format!(
            "filesystem: unknown '{filesystem}'; choose {}",
            FILESYSTEMS.join(", ")
        )));
    }
    if !(0.0..=95.0).contains(&fill_percent) {
        return Err(error(format!("fill_percent: {fill_percent} is not from 0 to 95")));
    }
    let mut asked = asked(quick, questions.as_deref())?;
    // Statements about a twin cover several drives.
    if drive.drive.twin.is_some() && questions.is_none() {
        asked.assumptions = asked.assumptions.or(Some(Breadth::Drives));
    }
    let (drive, threads) = (drive.drive.clone(), Threads::or_all(threads));
    let made = background::run(py, progress.as_ref(), |state| {
        let used = FreeExtentLengths::by_churn(
            &modelled::volume_named(filesystem),
            fill_percent / 100.0,
            seed,
        )
        .map_err(|problem| problem.to_string())?;
        let label = format!("drive:{}", drive.spec.name);
        let setup = Setup::new(drive, &label, filesystem, fill_percent / 100.0, used, seed)
            .map_err(|wrong| wrong.message().to_owned())?;
        made(&setup, &policies, &asked, threads, state)
    })?;
    made.map(|study| Study { study }).map_err(error)
}

/// Policies by name: all (`None`), one, or a list.
fn named(policies: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let Some(given) = policies else { return Ok(Vec::new()) };
    let names =
        given.extract::<String>().map(|one| vec![one]).or_else(|_| given.extract::<Vec<String>>());
    let names = names.map_err(|_| error("policies: must be a name or a list of names"))?;
    if names.is_empty() {
        Err(error("policies: the list is empty; omit it for all policies"))
    } else {
        Ok(names)
    }
}

fn asked(quick: bool, questions: Option<&[String]>) -> PyResult<StudyRequest> {
    let mut asked =
        StudyRequest::of_one(if quick { Thoroughness::Quick } else { Thoroughness::Usual });
    let Some(questions) = questions else { return Ok(asked) };
    if questions.is_empty() {
        return Err(error("questions: the list is empty; omit it for all questions"));
    }
    (asked.deleting, asked.extent.ageing, asked.assumptions) = (false, false, None);
    for question in questions {
        match question.as_str() {
            "deleting" => asked.deleting = true,
            "ageing" => asked.extent.ageing = true,
            "assumptions" => asked.assumptions = Some(Breadth::All),
            other => {
                return Err(error(format!(
                    "questions: unknown '{other}'; choose deleting, ageing or assumptions"
                )));
            }
        }
    }
    Ok(asked)
}

fn made(
    setup: &Setup,
    policies: &[PolicySpec],
    asked: &StudyRequest,
    threads: usize,
    state: &TaskState,
) -> Result<Made, String> {
    let (cells, untried) = asked.cells(setup, policies).map_err(|problem| problem.to_string())?;
    let mut made = Made { target: setup.label.clone(), complete: true, untried, ..Made::default() };
    let no_assumptions = |reason: String| OmittedPart {
        part: StudyPart::Assumptions,
        reason: OmissionReason::Obstacle(reason),
    };
    let trials = asked
        .assumptions
        .map_or(Ok(None), |breadth| {
            let layouts = &mut FreeExtentLengths::by_churn;
            Trials::new(setup, policies, breadth, &asked.extent, layouts)
        })
        .unwrap_or_else(|problem| {
            made.untried.push(no_assumptions(problem.to_string()));
            None
        });
    let small: Vec<_> = trials.iter().flat_map(Trials::studies).collect();
    let (runs, small) =
        all(&cells, &small, threads, state).ok_or_else(|| "interrupted".to_owned())?;
    for (cell, run) in cells.iter().zip(runs) {
        match run {
            Ok(run) => made.add(cell.question, run),
            // The baseline policy needs no special support, so its failure fails the
            // study.
            Err(reason)
                if cell.question == Question::Deleting && cell.policy.name() == policy::NONE =>
            {
                return Err(reason);
            }
            Err(reason) => made
                .untried
                .push(OmittedPart { part: cell.part(), reason: OmissionReason::Obstacle(reason) }),
        }
    }
    match trials.map_or(Ok(None), |trials| trials.judge(small)) {
        Ok(sensitivity) => made.sensitivity = sensitivity,
        Err(reason) => made.untried.push(no_assumptions(reason)),
    }
    Ok(made)
}

/// A run or the error, and likewise for the runs of a small study.
type RunResult = Result<run::Run, String>;
type StudyResult = Result<Vec<run::Run>, String>;

/// Runs all cells, largest memory first, and the small studies; `None` if stopped.
fn all(
    cells: &[StudyCell],
    small: &[Result<Vec<StudyCell>, StudyError>],
    threads: usize,
    state: &TaskState,
) -> Option<(Vec<RunResult>, Vec<StudyResult>)> {
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by_key(|at| Reverse(cells[*at].memory().0));
    let needs = |at: usize| order.get(at).map_or(0, |at| cells[*at].memory().0);
    let make = |at: usize| match order.get(at) {
        Some(at) => one(&cells[*at], state).map(|run| vec![run]),
        None => match &small[at - order.len()] {
            Ok(cells) => cells.iter().map(|cell| one(cell, state)).collect(),
            Err(problem) => Some(vec![Err(problem.to_string())]),
        },
    };
    let crew = Crew { threads, memory_bytes: available(), state };
    let mut made = crew.run(cells.len() + small.len(), needs, make)?;
    let small =
        made.split_off(cells.len()).into_iter().map(|runs| runs.into_iter().collect()).collect();
    let mut runs: Vec<(usize, RunResult)> =
        order.into_iter().zip(made.into_iter().flatten()).collect();
    runs.sort_by_key(|(at, _)| *at);
    Some((runs.into_iter().map(|(_, run)| run).collect(), small))
}

/// Runs one cell; `None` if stopped.
fn one(cell: &StudyCell, state: &TaskState) -> Option<RunResult> {
    match cell.run(&mut (&state as &dyn Observer)) {
        Ok((run, RunEnd::Complete)) => Some(Ok(run)),
        Ok((_, RunEnd::Interrupted)) => None,
        Ok((_, RunEnd::Failed(failed))) => Some(Err(failed.to_string())),
        Err(problem) => Some(Err(problem.to_string())),
    }
}
