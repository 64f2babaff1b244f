//! Twins of modelled drives, learned as by `trimtab drive learn drive:NAME`.

use crate::background::TaskState;
use crate::crew::{Crew, available};
use crate::drive::Drive;
use crate::values::{Threads, Whole};
use crate::{background, error};
use pyo3::prelude::*;
use std::sync::atomic::Ordering;
use trimtab_study::learn::Budget;
use trimtab_study::learn::candidate::Candidate;
use trimtab_study::learn::fit::{CandidateEvaluator, ProbeFunction};
use trimtab_study::learn::learned::LearnMeasurements;

struct OnThreads<'a> {
    threads: usize,
    state: &'a TaskState,
}

impl CandidateEvaluator for OnThreads<'_> {
    fn all(&self, candidates: &[Candidate], show: &ProbeFunction<'_>) -> Vec<Option<Vec<f64>>> {
        // The observer counts them.
        let uncounted = TaskState::default();
        let crew = Crew { threads: self.threads, memory_bytes: available(), state: &uncounted };
        let make = |at: usize| {
            Some(if self.state.stop.load(Ordering::Relaxed) { None } else { show(&candidates[at]) })
        };
        crew.run(candidates.len(), |_| 0, make).unwrap_or_else(|| vec![None; candidates.len()])
    }
}

/// Learns a twin of a modelled drive: probes it in virtual time and fits drives to it.
#[pyfunction]
#[pyo3(
    signature = (drive, budget="small", *, write_limit_bytes=None, threads=None, progress=None, seed=Whole(1))
)]
pub fn learn(
    py: Python<'_>,
    drive: PyRef<'_, Drive>,
    budget: &str,
    write_limit_bytes: Option<Whole>,
    threads: Option<Threads>,
    progress: Option<Py<PyAny>>,
    seed: Whole,
) -> PyResult<Drive> {
    let budget: Budget = budget.parse().map_err(error)?;
    let clock = py.import("datetime")?;
    let today: String = clock
        .getattr("datetime")?
        .call_method1("now", (clock.getattr("timezone")?.getattr("utc")?,))?
        .call_method0("date")?
        .str()?
        .extract()?;
    let (threads, seed, limit) =
        (Threads::or_all(threads), seed.0, write_limit_bytes.map(|limit| limit.0));
    let spec = drive.drive.spec.clone();
    let learned = background::run(py, progress.as_ref(), |mut state| {
        let measured =
            LearnMeasurements::in_virtual_time(&spec, &spec.name, budget, limit, seed, &mut state)
                .map_err(|cannot| {
                    cannot.to_string().replace("--write-limit", "write_limit_bytes")
                })?;
        let fitted = measured.fitted(&OnThreads { threads, state }, &mut state);
        let fitted = fitted.ok_or_else(|| {
            format!("no modelled drive explains the measurements of {}", spec.name)
        })?;
        Ok::<_, String>(measured.twin(&spec.name, &today, &fitted))
    })?;
    learned.map(Drive::from).map_err(error)
}
