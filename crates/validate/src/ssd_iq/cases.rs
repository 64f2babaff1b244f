//! Measured runs, sweeps and zone runs as cases: what to repeat, and the measured
//! figures.

use super::data::Measured;
use super::model::Run;
use super::offered::{self, Percentiles, Sweep};
use super::run::{self, RunFigures};
use super::zones::{self, ZoneOutcome, ZoneRun};
use trimtab_drive::spec::{DriveSpec, SpecError};
use trimtab_sim::analysis::latency_knee;

/// Name of the figure that a share of read-only pages is judged by.
pub const RELATIVE: &str = "rate over uniform";
/// Name of the knee.
pub const KNEE: &str = "knee of write p99, op/s";
/// A figure with its place in the case.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Pattern, offered load or zones.
    pub at: String,
    /// Name of the figure.
    pub figure: &'static str,
    /// The figure.
    pub value: f64,
}

/// What is repeated.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Writes of 4 KiB at full depth: pattern and run.
    Run(String, Run),
    /// Set and offered loads.
    Sweep(String, Vec<f64>),
    /// Zones rewritten in order.
    Zones(ZoneRun),
}

/// A case.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Unit.
    pub unit: String,
    /// Experiment of the publication.
    pub experiment: String,
    /// Read-only pages in per cent.
    pub read_only_percent: Option<f64>,
    /// What is repeated.
    pub kind: Kind,
    /// Measured figures, and whether they count: the drive was steady and not saturated.
    pub measured: Vec<(Value, bool)>,
}

impl Case {
    /// A run that the model can repeat.
    pub fn of_run(row: &Measured) -> Option<Self> {
        let run = row.run.as_ref().ok()?;
        let values = run_values(&row.pattern, &row.outcome);
        Some(Self {
            unit: row.unit.clone(),
            experiment: row.experiment.clone(),
            read_only_percent: row.read_only_percent,
            kind: Kind::Run(row.pattern.clone(), run.clone()),
            measured: values.into_iter().map(|value| (value, row.steady)).collect(),
        })
    }

    /// A sweep of offered load.
    pub fn of_sweep(sweep: &Sweep) -> Self {
        let offered: Vec<f64> = sweep.steps.iter().map(|step| step.offered).collect();
        let measured: Vec<Percentiles> = sweep.steps.iter().map(|step| step.measured).collect();
        let met = |value: &Value| {
            sweep.steps.iter().all(|step| step.met || load(step.offered) != value.at)
        };
        let values = sweep_values(&offered, &measured);
        Self {
            unit: sweep.unit.clone(),
            experiment: sweep.set.clone(),
            read_only_percent: None,
            kind: Kind::Sweep(sweep.set.clone(), offered),
            measured: values.into_iter().map(|value| (value.clone(), met(&value))).collect(),
        }
    }

    /// A zone run.
    pub fn of_zones(run: &ZoneRun) -> Self {
        Self {
            unit: run.unit.clone(),
            experiment: run.experiment.clone(),
            read_only_percent: None,
            kind: Kind::Zones(run.clone()),
            measured: zone_values(run, &run.outcome)
                .into_iter()
                .map(|value| (value, true))
                .collect(),
        }
    }

    /// Figures of the model with `spec`, [scaled](super::model::small) to `pages` times 2 GiB;
    /// sweeps and zone runs take twice as much.
    ///
    /// # Errors
    /// If the specification is invalid.
    pub fn predict(
        &self,
        spec: &DriveSpec,
        pages: u32,
        seed: u64,
    ) -> Result<Vec<Value>, SpecError> {
        Ok(match &self.kind {
            Kind::Run(pattern, run) => run_values(pattern, &run::run(spec, run, pages, seed)?),
            Kind::Sweep(set, offered) => {
                let host = offered::steady(spec, 2 * pages, seed)?;
                let steps: Vec<Percentiles> =
                    offered.iter().map(|rate| offered::step(&host, set, *rate, seed)).collect();
                sweep_values(offered, &steps)
            }
            Kind::Zones(run) => zone_values(run, &zones::run(spec, run, 2 * pages, seed)?),
        })
    }
}

fn run_values(pattern: &str, outcome: &RunFigures) -> Vec<Value> {
    let all = [
        ("fresh MB/s", Some(outcome.fresh_mbs)),
        ("steady MB/s", Some(outcome.steady_mbs)),
        ("WAF of collection", outcome.gc_waf),
        ("cliff in drive writes", outcome.cliff_at),
        ("slowest bin MB/s", Some(outcome.trough_mbs)),
    ];
    all.into_iter()
        .filter_map(|(figure, value)| Some(Value { at: pattern.to_owned(), figure, value: value? }))
        .collect()
}

fn load(offered: f64) -> String {
    format!("{offered:.0} op/s")
}

/// Percentiles of each step, and the knee. A sweep without one has it at twice its
/// highest load.
fn sweep_values(offered: &[f64], steps: &[Percentiles]) -> Vec<Value> {
    let of_step = |(rate, step): (&f64, &Percentiles)| {
        let figures = [
            ("read p50 us", step.read_p50),
            ("read p99 us", step.read_p99),
            ("write p50 us", step.write_p50),
            ("write p99 us", step.write_p99),
        ];
        figures.map(|(figure, value)| Value { at: load(*rate), figure, value })
    };
    let writes: Vec<f64> = steps.iter().map(|step| step.write_p99).collect();
    let knee = latency_knee(&writes)
        .map_or_else(|| offered.last().map(|rate| rate * 2.0), |nth| offered.get(nth).copied());
    let knee = knee.map(|value| Value { at: "sweep".to_owned(), figure: KNEE, value });
    offered.iter().zip(steps).flat_map(of_step).chain(knee).collect()
}

fn zone_values(run: &ZoneRun, outcome: &ZoneOutcome) -> Vec<Value> {
    let at = format!("zones of {} MiB, {} open", run.zone_mib, run.open);
    let all = [("zone MB/s", Some(outcome.rate_mbs)), ("zone WAF of collection", outcome.gc_waf)];
    all.into_iter()
        .filter_map(|(figure, value)| Some(Value { at: at.clone(), figure, value: value? }))
        .collect()
}

/// Adds to the steady rate of `case` with read-only pages its ratio to the uniform rate
/// of the same experiment. `values_of` gives the figures of a case.
pub fn relative<'a>(
    cases: &'a [Case],
    case: &Case,
    values: &[Value],
    values_of: impl Fn(&'a Case) -> &'a [Value],
) -> Option<Value> {
    case.read_only_percent?;
    let same = |other: &&Case| {
        let uniform = matches!(&other.kind, Kind::Run(pattern, _) if pattern == "uniform");
        uniform && other.unit == case.unit && other.experiment == case.experiment
    };
    let steady =
        |values: &[Value]| values.iter().find(|value| value.figure == "steady MB/s").cloned();
    let own = steady(values)?;
    let uniform = steady(values_of(cases.iter().find(same)?))?;
    Some(Value { figure: RELATIVE, value: own.value / uniform.value, ..own })
}
