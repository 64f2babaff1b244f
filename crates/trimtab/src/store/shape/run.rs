//! `trimtab.run`: a run as JSON, without loss. Version 2 added what a run was made from, and its label, version 3 pictures; older ones are read, too.
//!
//! Reading checks everything that the types of `core::run` promise, inside the parser, so that what is wrong is reported
//! with its line and column.

use super::pictures::PicturesV1;
use super::{Check, Checked, Entries, Float, Name};
use serde::{Deserialize, Serialize};
use trimtab_drive::OpKind;
use trimtab_drive::discards::{Amount, Discards};
use trimtab_drive::histogram::Histogram;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::run::pictures::Pictures;
use trimtab_sim::run::{
    Axis, Better, Field, Latency, LatencyPart, Metric, Phase, Provenance, Run, Series, Severity, TargetKind, Unit, Warning,
};

/// Schema name, as [`Context::report`](trimtab_linux::output::Context::report) takes it.
pub const SCHEMA: &str = "run";
/// Version of the shape.
pub const VERSION: u32 = 3;

/// A run. What version 1 had stays as it was; what came later is left out where it is empty, so that a run keeps its id.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunV1 {
    /// `trimtab.run`, on a run that stands alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// [`VERSION`], on a run that stands alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Its id in the store that it comes from. Follows from the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What the user calls it. Not part of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    workload: String,
    target: Name<TargetKind>,
    target_label: String,
    #[serde(default)]
    policy: String,
    #[serde(default)]
    seed: u64,
    provenance: Name<Provenance>,
    #[serde(default = "one", deserialize_with = "at_least_one")]
    systems: u32,
    #[serde(default)]
    started_unix_ms: u64,
    #[serde(default)]
    tool_version: String,
    #[serde(default = "yes")]
    complete: bool,
    #[serde(default)]
    settings: Entries<String, String>,
    #[serde(default)]
    policy_settings: Entries<String, String>,
    #[serde(default)]
    environment: Entries<String, String>,
    #[serde(default, skip_serializing_if = "Entries::is_empty")]
    specification: Entries<String, String>,
    #[serde(default)]
    metrics: Vec<Checked<MetricV1>>,
    #[serde(default)]
    phases: Vec<PhaseV1>,
    #[serde(default)]
    counters: Entries<String, u64>,
    #[serde(default)]
    warnings: Vec<WarningV1>,
    #[serde(default)]
    series: Vec<Checked<SeriesV1>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pictures: Option<PicturesV1>,
}

const fn one() -> u32 {
    1
}

fn at_least_one<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    Ok(std::num::NonZeroU32::deserialize(deserializer)?.get())
}

const fn yes() -> bool {
    true
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricV1 {
    name: String,
    unit: Name<Unit>,
    better: Name<Better>,
    samples: Vec<Float>,
}

impl Check for MetricV1 {
    fn check(&self) -> Result<(), String> {
        if self.samples.is_empty() {
            return Err(format!("metric '{}' has no samples", self.name.escape_debug()));
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseV1 {
    name: String,
    started_ns: u64,
    took_ns: u64,
    #[serde(default)]
    ops: Entries<Name<OpKind>, u64>,
    #[serde(default)]
    read_bytes: u64,
    #[serde(default)]
    written_bytes: u64,
    #[serde(default)]
    discards: Option<DiscardsV1>,
    #[serde(default)]
    latencies: Vec<LatencyV1>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DiscardsV1 {
    asked_commands: u64,
    asked_bytes: u64,
    accepted_commands: Option<u64>,
    accepted_bytes: Option<u64>,
    refused_commands: u64,
    refused_errnos: Vec<i32>,
    effective_bytes: Option<u64>,
    freed_bytes: Option<u64>,
}

/// Latencies: the familiar figures for readers, and the buckets that they come from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "LatencyFields")]
struct LatencyV1 {
    kind: Name<OpKind>,
    part: Name<LatencyPart>,
    count: u64,
    min_ns: u64,
    mean_ns: Float,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p99_9_ns: u64,
    p99_99_ns: u64,
    max_ns: u64,
    #[serde(serialize_with = "buckets")]
    buckets: Histogram,
}

fn buckets<S: serde::Serializer>(histogram: &Histogram, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(histogram.buckets().map(|(value, count)| (value.0, count)))
}

/// Of the figures only the count is looked at: the others follow from the buckets.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct LatencyFields {
    kind: Name<OpKind>,
    part: Name<LatencyPart>,
    count: Option<u64>,
    min_ns: Option<u64>,
    mean_ns: Option<Float>,
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    p99_9_ns: Option<u64>,
    p99_99_ns: Option<u64>,
    max_ns: Option<u64>,
    buckets: Vec<(u64, u64)>,
}

impl TryFrom<LatencyFields> for LatencyV1 {
    type Error = String;

    fn try_from(fields: LatencyFields) -> Result<Self, String> {
        let buckets = fields.buckets.iter().map(|&(value, count)| (Nanos(value), count));
        let histogram = Histogram::from_buckets(buckets).map_err(|error| error.to_string())?;
        if let Some(count) = fields.count.filter(|count| *count != histogram.count()) {
            return Err(format!("count is {count}, but the buckets hold {}", histogram.count()));
        }
        Ok(Self::new(fields.kind.0, fields.part.0, histogram))
    }
}

impl LatencyV1 {
    fn new(kind: OpKind, part: LatencyPart, histogram: Histogram) -> Self {
        let p = |percent| histogram.percentile(percent).0;
        Self {
            kind: Name(kind),
            part: Name(part),
            count: histogram.count(),
            min_ns: histogram.min().0,
            mean_ns: Float(histogram.mean_ns()),
            p50_ns: p(50.0),
            p90_ns: p(90.0),
            p99_ns: p(99.0),
            p99_9_ns: p(99.9),
            p99_99_ns: p(99.99),
            max_ns: histogram.max().0,
            buckets: histogram,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesV1 {
    name: String,
    axis: Name<Axis>,
    unit: Name<Unit>,
    x: Vec<u64>,
    y: Vec<Float>,
}

impl Check for SeriesV1 {
    fn check(&self) -> Result<(), String> {
        let shown = self.name.escape_debug();
        if self.x.len() != self.y.len() {
            return Err(format!("series '{shown}' has {} places and {} values", self.x.len(), self.y.len()));
        }
        if !self.x.is_sorted() {
            return Err(format!("the places of series '{shown}' do not increase"));
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WarningV1 {
    code: String,
    severity: Name<Severity>,
    #[serde(default)]
    facts: Entries<String, String>,
    text: String,
}

fn entries(fields: &[Field]) -> Entries<String, String> {
    Entries(fields.iter().map(|f| (f.key.clone(), f.value.clone())).collect())
}

fn fields(entries: Entries<String, String>) -> Vec<Field> {
    entries.0.into_iter().map(|(key, value)| Field { key, value }).collect()
}

impl From<&Run> for RunV1 {
    fn from(run: &Run) -> Self {
        Self {
            schema: None,
            version: None,
            id: None,
            label: None,
            workload: run.workload.clone(),
            target: Name(run.target),
            target_label: run.target_label.clone(),
            policy: run.policy.clone(),
            seed: run.seed,
            provenance: Name(run.provenance),
            systems: run.systems,
            started_unix_ms: run.started_unix_ms,
            tool_version: run.tool_version.clone(),
            complete: run.complete,
            settings: entries(&run.settings),
            policy_settings: entries(&run.policy_settings),
            environment: entries(&run.environment),
            specification: entries(&run.specification),
            metrics: run.metrics.iter().map(|m| Checked(MetricV1::from(m))).collect(),
            phases: run.phases.iter().map(PhaseV1::from).collect(),
            counters: Entries(run.counters.clone()),
            warnings: run.warnings.iter().map(WarningV1::from).collect(),
            series: run.series.iter().map(|s| Checked(SeriesV1::from(s))).collect(),
            pictures: (!run.pictures.is_empty()).then(|| PicturesV1::from(&run.pictures)),
        }
    }
}

impl From<RunV1> for Run {
    fn from(run: RunV1) -> Self {
        Self {
            workload: run.workload,
            settings: fields(run.settings),
            target: run.target.0,
            target_label: run.target_label,
            policy: run.policy,
            policy_settings: fields(run.policy_settings),
            seed: run.seed,
            provenance: run.provenance.0,
            systems: run.systems,
            started_unix_ms: run.started_unix_ms,
            tool_version: run.tool_version,
            complete: run.complete,
            environment: fields(run.environment),
            specification: fields(run.specification),
            phases: run.phases.into_iter().map(Phase::from).collect(),
            metrics: run.metrics.into_iter().map(|m| Metric::from(m.0)).collect(),
            series: run.series.into_iter().map(|s| Series::from(s.0)).collect(),
            counters: run.counters.0,
            warnings: run.warnings.into_iter().map(Warning::from).collect(),
            pictures: run.pictures.map(Pictures::from).unwrap_or_default(),
        }
    }
}

impl From<&Metric> for MetricV1 {
    fn from(metric: &Metric) -> Self {
        Self {
            name: metric.name.clone(),
            unit: Name(metric.unit),
            better: Name(metric.better),
            samples: metric.samples.iter().copied().map(Float).collect(),
        }
    }
}

impl From<MetricV1> for Metric {
    fn from(metric: MetricV1) -> Self {
        let samples = metric.samples.into_iter().map(|s| s.0).collect();
        Self { name: metric.name, unit: metric.unit.0, better: metric.better.0, samples }
    }
}

impl From<&Phase> for PhaseV1 {
    fn from(phase: &Phase) -> Self {
        Self {
            name: phase.name.clone(),
            started_ns: phase.started.0,
            took_ns: phase.took.0,
            ops: Entries(phase.ops.iter().map(|&(kind, n)| (Name(kind), n)).collect()),
            read_bytes: phase.read.0,
            written_bytes: phase.written.0,
            discards: phase.discards.as_ref().map(DiscardsV1::from),
            latencies: phase.latencies.iter().map(|l| LatencyV1::new(l.kind, l.part, l.histogram.clone())).collect(),
        }
    }
}

impl From<PhaseV1> for Phase {
    fn from(phase: PhaseV1) -> Self {
        let latency = |l: LatencyV1| Latency { kind: l.kind.0, part: l.part.0, histogram: l.buckets };
        Self {
            name: phase.name,
            started: Nanos(phase.started_ns),
            took: Nanos(phase.took_ns),
            ops: phase.ops.0.into_iter().map(|(kind, n)| (kind.0, n)).collect(),
            read: Bytes(phase.read_bytes),
            written: Bytes(phase.written_bytes),
            latencies: phase.latencies.into_iter().map(latency).collect(),
            discards: phase.discards.map(Discards::from),
        }
    }
}

impl From<&Discards> for DiscardsV1 {
    fn from(discards: &Discards) -> Self {
        Self {
            asked_commands: discards.asked.count,
            asked_bytes: discards.asked.bytes.0,
            accepted_commands: discards.accepted.map(|a| a.count),
            accepted_bytes: discards.accepted.map(|a| a.bytes.0),
            refused_commands: discards.refused.count,
            refused_errnos: discards.errnos.clone(),
            effective_bytes: discards.effective.map(|b| b.0),
            freed_bytes: discards.freed.map(|b| b.0),
        }
    }
}

impl From<DiscardsV1> for Discards {
    fn from(shape: DiscardsV1) -> Self {
        Self {
            asked: Amount::new(shape.asked_commands, shape.asked_bytes),
            accepted: shape.accepted_commands.zip(shape.accepted_bytes).map(|(count, bytes)| Amount::new(count, bytes)),
            refused: Amount::new(shape.refused_commands, 0),
            errnos: shape.refused_errnos,
            effective: shape.effective_bytes.map(Bytes),
            freed: shape.freed_bytes.map(Bytes),
        }
    }
}

impl From<&Series> for SeriesV1 {
    fn from(series: &Series) -> Self {
        Self {
            name: series.name.clone(),
            axis: Name(series.axis),
            unit: Name(series.unit),
            x: series.x.clone(),
            y: series.y.iter().copied().map(Float).collect(),
        }
    }
}

impl From<SeriesV1> for Series {
    fn from(series: SeriesV1) -> Self {
        let y = series.y.into_iter().map(|v| v.0).collect();
        Self { name: series.name, axis: series.axis.0, x: series.x, unit: series.unit.0, y }
    }
}

impl From<&Warning> for WarningV1 {
    fn from(warning: &Warning) -> Self {
        Self { code: warning.code.clone(), severity: Name(warning.severity), facts: entries(&warning.facts), text: warning.text.clone() }
    }
}

impl From<WarningV1> for Warning {
    fn from(warning: WarningV1) -> Self {
        Self { code: warning.code, severity: warning.severity.0, facts: fields(warning.facts), text: warning.text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::shape::any_run::{any_run, example};
    use proptest::prelude::*;

    fn text(run: &Run) -> String {
        serde_json::to_string(&RunV1::from(run)).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_run_comes_back_from_json_without_loss(run in any_run()) {
            let back = Run::from(serde_json::from_str::<RunV1>(&text(&run)).unwrap());
            // NaN is unlike itself, but its text is not.
            prop_assert_eq!(text(&back), text(&run));
            let no_nan = run.metrics.iter().flat_map(|m| &m.samples).chain(run.series.iter().flat_map(|s| &s.y)).all(|v| !v.is_nan());
            if no_nan {
                prop_assert_eq!(back, run);
            }
        }

        #[test]
        fn a_truncated_run_is_refused_with_its_place(run in any_run(), at in 0.0_f64..1.0) {
            let text = text(&run);
            let mut cut = (text.len() as f64 * at) as usize;
            while !text.is_char_boundary(cut) {
                cut -= 1;
            }
            let error = serde_json::from_str::<RunV1>(&text[..cut]).unwrap_err();
            prop_assert!(error.line() > 0 && error.is_eof(), "{error}");
        }
    }

    #[test]
    fn version_1_stays_as_it_is() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&RunV1::from(&example())).unwrap());
    }

    #[test]
    fn what_cannot_be_is_refused_with_line_and_column() {
        let good = text(&example());
        for (was, is, expected) in [
            (r#""samples":[1.25,1.5]"#, r#""samples":[]"#, "metric 'delete.seconds' has no samples"),
            (r#""unit":"s""#, r#""unit":"furlongs""#, "unknown unit 'furlongs', expected one of s, ns, MB/s"),
            (r#""systems":1"#, r#""systems":0"#, "nonzero"),
            (r#""seed":42"#, r#""seed":-42"#, "u64"),
            (r#""count":4"#, r#""count":5"#, "count is 5, but the buckets hold 4"),
            (r#""x":[1000000000,2000000000]"#, r#""x":[2000000000,1000000000]"#, "do not increase"),
            (r#""x":[1000000000,2000000000]"#, r#""x":[1000000000]"#, "1 places and 2 values"),
            (r#""workload":"#, r#""wrokload":"#, "unknown field `wrokload`"),
        ] {
            assert!(good.contains(was), "{was} is in {good}");
            let error = serde_json::from_str::<RunV1>(&good.replacen(was, is, 1)).unwrap_err();
            assert!(error.to_string().contains(expected) && error.line() == 1, "{is}: {error}");
        }
    }
}
