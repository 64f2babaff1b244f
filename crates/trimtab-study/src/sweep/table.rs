//! Results as a table: one row per cell, figures in columns whose names include the unit.

use super::cell::SweepCell;
use super::plan::Plan;
use super::value::{NumberNotation, Value};
use alloc::borrow::ToOwned as _;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use trimtab_drive::OpKind;
use trimtab_drive::histogram::Histogram;
use trimtab_sim::run::{LatencyPart, Metric, Run, Unit};

/// Version of the columns. Incremented when an existing column changes its meaning.
pub const SCHEMA: u32 = 1;
/// Columns before those of the axes, in every table.
pub const FIXED: [&str; 7] = ["cell", "point", "repeat", "seed", "cell_id", "outcome", "reason"];
/// Prefix of the columns of counters.
pub const COUNTER: &str = "counter_";
/// Largest range in which a 64-bit float represents every integer.
const EXACT_MAX: u64 = 1 << 53;
/// Prefix of the columns of axes.
pub const AXIS: &str = "axis_";

/// Result of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellOutcome {
    /// Figures by column, and warning codes.
    Finished {
        /// Figures; each is finite. Counters above 2^53 are rounded.
        figures: BTreeMap<String, f64>,
        /// Exact counters above 2^53, by column.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        large_counters: BTreeMap<String, u64>,
        /// Codes of warnings.
        warnings: Vec<String>,
    },
    /// Failed, with the reason.
    Failed(String),
}

impl CellOutcome {
    /// The figures of a run.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let large = run.counters.iter().filter(|(_, value)| *value > EXACT_MAX);
        let large_counters = large.map(|(name, value)| (counter_column(name), *value)).collect();
        Self::Finished { figures: figures(run), large_counters, warnings: warnings(run) }
    }

    /// The exact value of a counter by column.
    #[must_use]
    pub fn counter(&self, column: &str) -> Option<u64> {
        let Self::Finished { figures, large_counters, .. } = self else { return None };
        large_counters
            .get(column)
            .copied()
            .or_else(|| figures.get(column).map(|value| *value as u64))
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SweepRow {
    /// Number of the cell.
    pub cell: u64,
    /// Its identity.
    pub id: String,
    /// The result.
    pub outcome: CellOutcome,
}

impl SweepRow {
    /// The figures, if the cell finished.
    #[must_use]
    pub const fn figures(&self) -> Option<&BTreeMap<String, f64>> {
        if let CellOutcome::Finished { figures, .. } = &self.outcome { Some(figures) } else { None }
    }
}

/// A column with one value per row.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name with its unit.
    pub name: String,
    /// Its values.
    pub values: Cells,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Counters; `None` if missing.
    Counters(Vec<Option<i64>>),
    /// Numbers; `None` if missing.
    Numbers(Vec<Option<f64>>),
    /// Texts; `None` if missing.
    Texts(Vec<Option<String>>),
}

impl Cells {
    /// Number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Counters(values) => values.len(),
            Self::Numbers(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// True without rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The outcome of a run of a cell.
pub fn outcome<T>(cell: &SweepCell<T>, run: &Run) -> CellOutcome {
    let mut outcome = CellOutcome::of(run);
    let CellOutcome::Finished { figures, .. } = &mut outcome else { return outcome };
    let mut add = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            figures.insert(name.to_owned(), value);
        }
    };
    add("drive_capacity_bytes", Some(cell.drive.capacity_bytes as f64));
    add("drive_over_provisioning_percent", Some(cell.over_provisioning_percent()));
    let utilisation = utilisation(run, cell.drive.flash.geometry.raw_bytes() as f64);
    add("flash_utilisation_last_quarter_ratio", utilisation);
    outcome
}

/// Figures of a run: means of metrics, latencies over all phases, counters.
pub fn figures(run: &Run) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    let mut add = |name: String, value: f64| {
        if value.is_finite() {
            figures.insert(name, value);
        }
    };
    add("simulated_s".into(), run.phases.iter().map(|phase| phase.took.as_secs_f64()).sum());
    for metric in run.metrics.iter().filter(|metric| !metric.samples.is_empty()) {
        add(column_of(metric), metric.samples.iter().sum::<f64>() / metric.samples.len() as f64);
    }
    for (kind, histogram) in latencies(run) {
        let kind = plain(kind.name());
        for (name, percent) in [("p50", 50.0), ("p99", 99.0), ("p99_9", 99.9)] {
            add(format!("{kind}_latency_{name}_ns"), histogram.percentile(percent).as_f64());
        }
        add(format!("{kind}_latency_max_ns"), histogram.max().as_f64());
        add(format!("{kind}_latency_mean_ns"), histogram.mean_ns());
    }
    for (name, value) in &run.counters {
        add(counter_column(name), *value as f64);
    }
    figures
}

/// Latencies of each kind of operation over all phases.
fn latencies(run: &Run) -> Vec<(OpKind, Histogram)> {
    let mut all: Vec<(OpKind, Histogram)> = Vec::new();
    let of = run
        .phases
        .iter()
        .flat_map(|phase| &phase.latencies)
        .filter(|latency| latency.part == LatencyPart::Total);
    for latency in of.filter(|latency| latency.histogram.count() > 0) {
        match all.iter_mut().find(|(kind, _)| *kind == latency.kind) {
            Some((_, histogram)) => histogram.merge(&latency.histogram),
            None => all.push((latency.kind, latency.histogram.clone())),
        }
    }
    all
}

/// Warning codes without duplicates.
#[must_use]
pub fn warnings(run: &Run) -> Vec<String> {
    let warnings: BTreeSet<String> =
        run.warnings.iter().map(|warning| warning.code.clone()).collect();
    warnings.into_iter().collect()
}

/// Utilisation u as in formulas for write amplification: mapped bytes over non-erased
/// bytes, averaged over the samples of the last quarter of the writes.
fn utilisation(run: &Run, raw: f64) -> Option<f64> {
    let of =
        |name: &str| run.series.iter().find(|series| series.name == name && !series.y.is_empty());
    let (mapped, free) = (of("state.valid")?, of("state.free"));
    let from = mapped.y.len() - mapped.y.len().div_ceil(4);
    let ratio = |at: usize| {
        mapped.y[at] / (raw - free.and_then(|free| free.y.get(at)).copied().unwrap_or(0.0))
    };
    let ratios: Vec<f64> = (from..mapped.y.len()).map(ratio).collect();
    Some(ratios.iter().sum::<f64>() / ratios.len() as f64)
}

/// Lower-cases letters, and replaces all but letters and digits by underscores.
fn plain(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
        .collect()
}

fn counter_column(name: &str) -> String {
    format!("{COUNTER}{}", plain(name))
}

fn column_of(metric: &Metric) -> String {
    let name = plain(&metric.name);
    let unit = match metric.unit {
        Unit::Seconds => "s",
        Unit::Nanos => "ns",
        Unit::MegabytesPerSecond => "mb_per_s",
        Unit::OpsPerSecond => "per_s",
        Unit::Bytes => "bytes",
        Unit::Count => "count",
        Unit::Ratio => "ratio",
        Unit::Percent => "percent",
    };
    let name = name.strip_suffix("_seconds").unwrap_or(&name);
    if name.ends_with(&format!("_{unit}")) { name.to_owned() } else { format!("{name}_{unit}") }
}

/// The table of rows in cell order. Its columns depend on the plan and the rows alone.
#[must_use]
pub fn table(plan: &Plan, rows: &[SweepRow]) -> Vec<Column> {
    let places: Vec<_> = rows.iter().map(|row| plan.place(row.cell)).collect();
    let integers = |name: &str, values: Vec<u64>| Column {
        name: name.into(),
        values: Cells::Integers(values.into_iter().map(|v| v as i64).collect()),
    };
    let texts = |name: &str, values: Vec<Option<String>>| Column {
        name: name.into(),
        values: Cells::Texts(values),
    };
    let (finished, failed) = ("finished", "failed");
    let mut columns = alloc::vec![
        integers(FIXED[0], rows.iter().map(|row| row.cell).collect()),
        integers(FIXED[1], places.iter().map(|place| place.point).collect()),
        integers(FIXED[2], places.iter().map(|place| place.repeat).collect()),
        integers(FIXED[3], places.iter().map(|place| place.seed).collect()),
        texts(FIXED[4], rows.iter().map(|row| Some(row.id.clone())).collect()),
        texts(
            FIXED[5],
            rows.iter()
                .map(|row| Some(
                    if matches!(row.outcome, CellOutcome::Failed(_)) { failed } else { finished }
                        .to_owned()
                ))
                .collect()
        ),
        texts(
            FIXED[6],
            rows.iter()
                .map(|row| if let CellOutcome::Failed(reason) = &row.outcome {
                    Some(reason.clone())
                } else {
                    None
                })
                .collect()
        ),
    ];
    for (at, axis) in plan.axes.iter().enumerate() {
        let values = || places.iter().map(|place| &place.values[at]);
        let values = match axis.numbers() {
            Some(NumberNotation::Integer) => Cells::Integers(
                values()
                    .map(|value| if let Value::Integer(number) = value { *number } else { 0 })
                    .collect(),
            ),
            Some(_) => Cells::Numbers(values().map(Value::number).collect()),
            None => Cells::Texts(values().map(|value| Some(value.to_string())).collect()),
        };
        columns.push(Column { name: format!("{AXIS}{}", plain(&axis.key)), values });
    }
    let all: Vec<Option<&BTreeMap<String, f64>>> = rows.iter().map(SweepRow::figures).collect();
    let names: BTreeSet<&String> = all.iter().flatten().flat_map(|row| row.keys()).collect();
    let (counters, others): (Vec<&String>, Vec<&String>) =
        names.into_iter().partition(|name| name.starts_with(COUNTER));
    for name in others {
        let of = |row: &Option<&BTreeMap<String, f64>>| row.and_then(|row| row.get(name).copied());
        columns.push(Column {
            name: name.clone(),
            values: Cells::Numbers(all.iter().map(of).collect()),
        });
    }
    for name in counters {
        let of = |row: &SweepRow| {
            row.outcome.counter(name).map(|value| i64::try_from(value).unwrap_or(i64::MAX))
        };
        columns.push(Column {
            name: name.clone(),
            values: Cells::Counters(rows.iter().map(of).collect()),
        });
    }
    let warnings = |row: &SweepRow| {
        if let CellOutcome::Finished { warnings, .. } = &row.outcome {
            Some(warnings.join(" ")).filter(|text| !text.is_empty())
        } else {
            None
        }
    };
    columns.push(texts("warnings", rows.iter().map(warnings).collect()));
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_above_2_to_the_53_are_exact() {
        let run = Run {
            counters: [("host.written-bytes", (1 << 60) + 1), ("nand.erases", 7)]
                .map(|(name, n)| (name.to_owned(), n))
                .into(),
            ..Run::empty()
        };
        let outcome = CellOutcome::of(&run);
        let exact = ["counter_host_written_bytes", "counter_nand_erases", "counter_x"]
            .map(|column| outcome.counter(column));
        assert_eq!(exact, [Some((1 << 60) + 1), Some(7), None]);
        let plan = Plan::parse(
            "[base]\ndrive.name = \"x\"\n[axes]\npolicy.name = [\"none\", \"online\"]\n",
        )
        .unwrap();
        let rows = [outcome, CellOutcome::Failed("no".to_owned())].into_iter().zip(0..);
        let rows: Vec<SweepRow> =
            rows.map(|(outcome, cell)| SweepRow { cell, id: String::new(), outcome }).collect();
        let columns = table(&plan, &rows);
        let column =
            columns.iter().find(|column| column.name == "counter_host_written_bytes").unwrap();
        assert_eq!(column.values, Cells::Counters(alloc::vec![Some((1 << 60) + 1), None]));
    }

    #[test]
    fn row_round_trips_bit_for_bit() {
        let mut rng = trimtab_drive::rng::Stream::new(1, "figures");
        for _ in 0..10_000 {
            let value = rng.below(1 << 53) as f64 / rng.below(1 << 40).max(1) as f64;
            let figures = [("x".to_owned(), value)].into();
            let large_counters = [("counter_x".to_owned(), u64::MAX - rng.below(1 << 60))].into();
            let outcome = CellOutcome::Finished { figures, large_counters, warnings: Vec::new() };
            let again: CellOutcome =
                serde_json::from_str(&serde_json::to_string(&outcome).unwrap()).unwrap();
            assert_eq!(again, outcome);
        }
    }
}
