//! A study of a modelled drive: what each trim policy does, and what follows from it.

use crate::crew::{Crew, available};
use crate::drive::Drive;
use crate::run::Run;
use crate::{aside, error};
use pyo3::prelude::*;
use trimtab_core::runner::End;
use trimtab_core::study::answer::{self, Around};
use trimtab_core::study::asked::{Asked, Thoroughness};
use trimtab_core::study::cells::{Cell, Question};
use trimtab_core::study::judged::Judged;
use trimtab_core::study::modelled::{self, Setup};
use trimtab_core::study::used::Used;
use trimtab_core::study::{Study as Made, Untried, policy};
use trimtab_core::sweep::table::{Outcome, figures, warnings};
use trimtab_core::sweep::{MODEL, short_hash};
use trimtab_core::{run, simulate};

/// Filesystems that a modelled drive can carry.
const FILESYSTEMS: [&str; 3] = ["ext4", "ext4-2011", "desktop-2011"];

/// What each trim policy does to a drive, and which to use.
#[pyclass(frozen, module = "trimtab")]
pub struct Study {
    study: Made,
}

#[pymethods]
impl Study {
    /// The policy to use; `None` where no one policy is.
    #[getter]
    #[pyo3(name = "use")]
    fn recommended(&self) -> Option<&'static str> {
        Judged::of(&self.study).policy()
    }

    /// Why, in a few lines, with the figures that decide.
    #[getter]
    fn why(&self) -> Vec<String> {
        answer::of(&Judged::of(&self.study), &Around::default()).why
    }

    /// The verdict in one sentence.
    #[getter]
    fn verdict(&self) -> String {
        Judged::of(&self.study).verdict.headline
    }

    /// The figures that carry it.
    #[getter]
    fn evidence(&self) -> Vec<String> {
        Judged::of(&self.study).verdict.evidence
    }

    /// What would change it, and what was not shown.
    #[getter]
    fn caveats(&self) -> Vec<String> {
        Judged::of(&self.study).verdict.caveats
    }

    /// What could not be tried, and why.
    #[getter]
    fn untried(&self) -> Vec<(String, String)> {
        self.study.untried.iter().map(|untried| (untried.policy.clone(), untried.reason.clone())).collect()
    }

    /// Files deleted under each policy, with others at work beside.
    #[getter]
    fn deleting(&self) -> Vec<Run> {
        shown(&self.study.runs)
    }

    /// Months of churn under each policy at each fill.
    #[getter]
    fn ageing(&self) -> Vec<Run> {
        shown(&self.study.ageing)
    }

    /// Data and tuning: one thing changed at a time.
    #[getter]
    fn tuning(&self) -> Vec<Run> {
        shown(&self.study.tuning)
    }

    fn __repr__(&self) -> String {
        format!("<trimtab.Study of {}: {}>", self.study.target, Judged::of(&self.study).verdict.headline)
    }
}

fn shown(runs: &[run::Run]) -> Vec<Run> {
    let shown = |run: &run::Run| Run {
        id: short_hash(format!("{MODEL} {run:?}")),
        outcome: Outcome::Finished { figures: figures(run), warnings: warnings(run) },
        run: run.clone(),
    };
    runs.iter().map(shown).collect()
}

/// Studies a modelled drive as `trimtab study` does, but for its assumptions, which are not changed here: the verdict does not say how robust it is.
#[pyfunction]
#[pyo3(signature = (drive, policies=None, *, filesystem="ext4", fill_percent=60.0, quick=false, questions=None, threads=None, progress=None, seed=1))]
#[expect(clippy::too_many_arguments, reason = "all but the first have names in Python")]
pub fn study(
    py: Python<'_>,
    drive: PyRef<'_, Drive>,
    policies: Option<Vec<String>>,
    filesystem: &str,
    fill_percent: f64,
    quick: bool,
    questions: Option<Vec<String>>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
    seed: u64,
) -> PyResult<Study> {
    let policies = modelled::policies(&policies.unwrap_or_default()).map_err(|wrong| error(wrong.to_string()))?;
    if !FILESYSTEMS.contains(&filesystem) {
        return Err(error(format!("filesystem: there is no '{filesystem}', there are {}", FILESYSTEMS.join(", "))));
    }
    if !(0.0..=95.0).contains(&fill_percent) {
        return Err(error(format!("fill_percent: {fill_percent} is not from 0 to 95")));
    }
    let asked = asked(quick, questions.as_deref())?;
    let (drive, threads) = (drive.drive.clone(), threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)));
    let made = aside::run(py, progress.as_ref(), |signs| {
        let used =
            Used::by_churn(&modelled::volume_named(filesystem), fill_percent / 100.0, seed).map_err(|problem| problem.to_string())?;
        let label = format!("drive:{}", drive.spec.name);
        let setup = Setup::new(drive, &label, filesystem, fill_percent / 100.0, used, seed).map_err(|wrong| wrong.message().to_owned())?;
        let (cells, untried) = asked.cells(&setup, &policies).map_err(|problem| problem.to_string())?;
        let runs = all(&cells, threads, signs)?;
        let mut made = Made { target: label, complete: true, untried, ..Made::default() };
        for (cell, run) in cells.iter().zip(runs) {
            match run {
                Ok(run) => made.add(cell.question, run),
                // The policy that others are compared with does only what anyone may do.
                Err(reason) if cell.question == Question::Deleting && cell.policy.name() == policy::NONE => return Err(reason),
                Err(reason) => made.untried.push(Untried { policy: cell.untried(), reason }),
            }
        }
        Ok::<_, String>(made)
    })?;
    made.map(|study| Study { study }).map_err(error)
}

fn asked(quick: bool, questions: Option<&[String]>) -> PyResult<Asked> {
    let mut asked = Asked::of_one(if quick { Thoroughness::Quick } else { Thoroughness::Usual });
    asked.assumptions = None;
    let Some(questions) = questions else { return Ok(asked) };
    (asked.deleting, asked.extent.ageing, asked.extent.tuning) = (false, false, false);
    for question in questions {
        *match question.as_str() {
            "deleting" => &mut asked.deleting,
            "ageing" => &mut asked.extent.ageing,
            "tuning" => &mut asked.extent.tuning,
            other => return Err(error(format!("questions: there is no '{other}', there are deleting, ageing, tuning"))),
        } = true;
    }
    Ok(asked)
}

/// Every cell's run, or why it has none.
fn all(cells: &[Cell], threads: usize, signs: &aside::Signs) -> Result<Vec<Result<run::Run, String>>, String> {
    let make = |at: usize| {
        let mut watcher = signs;
        match cells[at].run(&mut watcher as &mut dyn simulate::Watcher) {
            Ok((run, End::Complete)) => Some(Ok(run)),
            Ok((_, End::Interrupted)) => None,
            Ok((_, End::Failed(failed))) => Some(Err(failed.to_string())),
            Err(problem) => Some(Err(problem.to_string())),
        }
    };
    let crew = Crew { threads, memory_bytes: available(), signs };
    crew.run(cells.len(), |at| cells[at].memory().0, make).ok_or_else(|| "it was stopped".to_owned())
}
