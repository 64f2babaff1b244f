//! A single simulation of a drive, a workload and a policy.

use crate::drive::Drive;
use crate::run::Run;
use crate::trace::{Timed, Trace};
use crate::values::Whole;
use crate::{background, error, values};
use pyo3::prelude::*;
use trimtab_drive::spec::file;
use trimtab_sim::runner::RunEnd;
use trimtab_study::sweep::{Sources, SweepCellWork, TraceReplayOptions, Value, settings, table};

/// The drive and the trace passed in.
struct Inputs<'a> {
    drive: &'a file::Drive,
    trace: Option<&'a Trace>,
}

impl Sources for Inputs<'_> {
    type Trace = Timed;

    fn drive(&self, _name: &str) -> Result<file::Drive, String> {
        Ok(self.drive.clone())
    }

    fn trace(&self, _path: &str, asked: &TraceReplayOptions) -> Result<(Timed, String), String> {
        self.trace
            .map(|trace| trace.timed(asked.timing))
            .ok_or_else(|| "no trace given: pass trace=trimtab.Trace(…)".to_owned())
    }
}

/// Runs a workload on a modelled drive under a trim policy. Settings and figures are
/// those of sweeps; `workload`, `policy` and `volume` are a name, or a dictionary with a
/// `name`.
#[pyfunction]
#[pyo3(signature = (drive, workload=None, policy=None, *, volume=None, trace=None, seed=Whole(1)))]
pub fn simulate(
    py: Python<'_>,
    drive: PyRef<'_, Drive>,
    workload: Option<&Bound<'_, PyAny>>,
    policy: Option<&Bound<'_, PyAny>>,
    volume: Option<&Bound<'_, PyAny>>,
    trace: Option<PyRef<'_, Trace>>,
    seed: Whole,
) -> PyResult<Run> {
    let mut given = vec![("drive.name".to_owned(), Value::Text("given".to_owned()))];
    values::section("workload", workload, &mut given)?;
    values::section("policy", policy, &mut given)?;
    values::section("volume", volume, &mut given)?;
    if trace.is_some() {
        if given.iter().any(|(key, _)| key == "workload.name") {
            return Err(error("workload.name: not allowed with a trace"));
        }
        given.push(("workload.name".to_owned(), Value::Text("trace:given".to_owned())));
    }
    let given: Vec<(&str, &Value)> =
        given.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let sources = Inputs { drive: &drive.drive, trace: trace.as_deref() };
    let mut cell =
        settings::resolve(&given, seed.0, &sources).map_err(|wrong| error(wrong.to_string()))?;
    if matches!(cell.work, SweepCellWork::Requests { .. }) {
        cell.few = drive.few.clone();
    }
    match background::run(py, None, |mut state| cell.run(&mut state))? {
        Ok((run, RunEnd::Complete)) => {
            let outcome = table::outcome(&cell, &run);
            Ok(Run::new(cell.id(), run, outcome))
        }
        Ok((_, RunEnd::Failed(failed))) => Err(error(failed.to_string())),
        Ok((_, RunEnd::Interrupted)) => Err(error("interrupted")),
        Err(reason) => Err(error(reason)),
    }
}
