//! Result of a run: plain data for JSON and the store. Names and order of fields
//! determine the JSON and so the ids of stored runs; fields added later are omitted when
//! empty.

pub mod json;
pub mod metrics;
pub mod shown;

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use json::{Check, checked, discards, entries, floats};
use serde::{Deserialize, Serialize};
use trimtab_drive::OpKind;
use trimtab_drive::discards::Discards;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::named;
use trimtab_drive::units::{Bytes, Nanos};

/// Key of the arguments in [`Run::specification`], a JSON list.
pub const COMMAND: &str = "command";
/// Key of the modelled drive in [`Run::specification`], in the format of drive files.
pub const DRIVE: &str = "drive";
/// Key of the hash of the drive's figures in [`Run::specification`].
pub const DRIVE_HASH: &str = "drive.hash";

/// Recorded data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunRecording {
    /// Phases in order.
    pub phases: Vec<Phase>,
    /// Rates and latencies per interval.
    pub series: Vec<Series>,
}

impl RunRecording {
    /// Appends the data of another recorder, which started `offset` after this one.
    pub fn append(&mut self, other: Self, offset: Nanos) {
        self.phases.extend(other.phases.into_iter().map(|mut phase| {
            phase.started = phase.started.saturating_add(offset);
            phase
        }));
        for mut series in other.series {
            series.x.iter_mut().for_each(|x| *x = x.saturating_add(offset.0));
            match self.series.iter_mut().find(|s| s.name == series.name) {
                // Keep x increasing, even if clocks disagree.
                Some(known) if known.x.last() < series.x.first() => {
                    known.x.extend(series.x);
                    known.y.extend(series.y);
                }
                Some(_) => {}
                None => self.series.push(series),
            }
        }
    }
}

named! {
    "provenance"
    /// Source of a figure. A fitted figure is never shown as a prediction.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum Provenance {
        /// Measured on a real target with the real clock.
        #[default]
        Measured = "measured",
        /// Computed by a model in virtual time.
        Modelled = "modelled",
    }
}

named! {
    "kind of target"
    /// Kind of target that executed the workload.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum TargetKind {
        /// A directory on a mounted filesystem.
        #[default]
        Directory = "directory",
        /// A block device.
        BlockDevice = "block-device",
        /// A file used as a block device.
        File = "file",
        /// A modelled drive.
        ModelledDrive = "modelled-drive",
        /// A modelled filesystem on a modelled drive.
        ModelledVolume = "modelled-volume",
        /// None: measures the tool's own cost.
        Null = "null",
    }
}

/// Environment key of a study cell, identical for runs with the same inputs.
pub const STUDY_CELL: &str = "study.cell";

/// Environment key for the part of a run reused from an interrupted study, with its date.
pub const STUDY_TAKEN: &str = "study.taken";

/// A `key = value` of settings or environment. Keys are dotted (`drive.model`,
/// `queue.scheduler`), values are readable text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    /// Dotted key.
    pub key: String,
    /// Value.
    pub value: String,
}

impl Field {
    /// A field.
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.into() }
    }

    /// Value of `key` among `fields`.
    #[must_use]
    pub fn find<'a>(fields: &'a [Self], key: &str) -> Option<&'a str> {
        fields.iter().find(|field| field.key == key).map(|field| field.value.as_str())
    }
}

named! {
    "unit"
    /// The unit of a metric or a series.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Unit {
        /// Seconds.
        Seconds = "s",
        /// Nanoseconds.
        Nanos = "ns",
        /// 10^6 bytes per second.
        MegabytesPerSecond = "MB/s",
        /// Operations per second.
        OpsPerSecond = "ops/s",
        /// Bytes.
        Bytes = "B",
        /// A count.
        Count = "count",
        /// A ratio (WAF, amplification).
        Ratio = "ratio",
        /// Per cent.
        Percent = "%",
    }
}

named! {
    "direction"
    /// Direction in which a metric improves.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Better {
        /// More is better.
        Higher = "higher",
        /// Less is better.
        Lower = "lower",
        /// Neutral.
        Neither = "neither",
    }
}

/// A metric of a run with its repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Metric {
    /// Dotted name: `delete.seconds`, `seq1m-q1.write.rate`.
    pub name: String,
    /// Unit of the samples.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// One per repeat, in order; never empty.
    #[serde(with = "floats")]
    pub samples: Vec<f64>,
}

impl Metric {
    /// A metric without repeats.
    #[must_use]
    pub fn single(name: impl Into<String>, unit: Unit, better: Better, value: f64) -> Self {
        Self { name: name.into(), unit, better, samples: vec![value] }
    }

    /// The metrics among `all` that have samples.
    pub fn measured<N: Into<String>>(
        all: impl IntoIterator<Item = (N, Unit, Better, Vec<f64>)>,
    ) -> Vec<Self> {
        let measured = all.into_iter().filter(|(.., samples)| !samples.is_empty());
        measured
            .map(|(name, unit, better, samples)| Self { name: name.into(), unit, better, samples })
            .collect()
    }
}

named! {
    "part of a latency"
    /// Part of an operation's time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LatencyPart {
        /// From issue to submission.
        Submission = "submission",
        /// From submission to completion.
        Completion = "completion",
        /// From issue to completion.
        Total = "total",
    }
}

/// Latencies of one operation kind in one phase.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "json::LatencyFigures")]
pub struct Latency {
    /// Kind of operation.
    pub kind: OpKind,
    /// Part of the time.
    pub part: LatencyPart,
    /// Nanoseconds.
    pub histogram: Histogram,
}

named! {
    "axis"
    /// Axis of a series.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Axis {
        /// Nanoseconds since the start of the run.
        Time = "time",
        /// Bytes written since the start of the run, measured.
        BytesWritten = "bytes-written",
    }
}

/// Values over time or over bytes written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Series {
    /// Dotted name.
    pub name: String,
    /// Meaning of `x`.
    pub axis: Axis,
    /// Unit of `y`.
    pub unit: Unit,
    /// Strictly increasing.
    pub x: Vec<u64>,
    /// Same length as `x`.
    #[serde(with = "floats")]
    pub y: Vec<f64>,
}

impl Series {
    /// Start of the level whose first value is at `index`. A value over bytes written
    /// covers the step that ends there, so the level starts with that step.
    pub fn begins_at(&self, index: usize) -> u64 {
        let at = if self.axis == Axis::BytesWritten { index.checked_sub(1) } else { Some(index) };
        at.and_then(|at| self.x.get(at)).copied().unwrap_or(0)
    }
}

/// One phase of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Name.
    pub name: String,
    /// Start on the target's clock.
    #[serde(rename = "started_ns")]
    pub started: Nanos,
    /// Duration.
    #[serde(rename = "took_ns")]
    pub took: Nanos,
    /// Completed operations by kind.
    #[serde(default, with = "entries")]
    pub ops: Vec<(OpKind, u64)>,
    /// Bytes read.
    #[serde(rename = "read_bytes", default)]
    pub read: Bytes,
    /// Bytes written.
    #[serde(rename = "written_bytes", default)]
    pub written: Bytes,
    /// Discards during the phase, if counted.
    #[serde(default, with = "discards")]
    pub discards: Option<Discards>,
    /// Latencies.
    #[serde(default)]
    pub latencies: Vec<Latency>,
}

impl Phase {
    /// Operations of all kinds.
    #[must_use]
    pub fn ops_total(&self) -> u64 {
        self.ops.iter().fold(0, |sum, (_, n)| sum.saturating_add(*n))
    }
}

named! {
    "severity"
    /// Importance of a warning.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Severity {
        /// Informational.
        Note = "note",
        /// The figures may be inaccurate.
        Caution = "caution",
        /// The figures are misleading.
        Serious = "serious",
    }
}

/// A possible distortion of the result: code and facts first, then text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warning {
    /// Stable name, such as `interference.other-io`.
    pub code: String,
    /// Importance.
    pub severity: Severity,
    /// Figures behind the warning.
    #[serde(default, with = "entries")]
    pub facts: Vec<Field>,
    /// Text for people.
    pub text: String,
}

impl Warning {
    /// A warning without figures.
    #[must_use]
    pub fn new(code: &str, severity: Severity, text: String) -> Self {
        Self { code: code.into(), severity, facts: Vec::new(), text }
    }

    /// The warning with these figures.
    #[must_use]
    pub fn with(self, facts: Vec<Field>) -> Self {
        Self { facts, ..self }
    }
}

/// Result of one workload on one target under one policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Workload name: `postmark`, `tree`, `crystal` …
    pub workload: String,
    /// Kind of target.
    pub target: TargetKind,
    /// The target as the user named it.
    pub target_label: String,
    /// Trim policy: `as-mounted`, `none`, `online`, `batched`, `adaptive`, `idle`.
    #[serde(default)]
    pub policy: String,
    /// Seed.
    #[serde(default)]
    pub seed: u64,
    /// Source of the figures.
    pub provenance: Provenance,
    /// Number of systems: always 1, and part of the content that gives a run its id.
    #[serde(default = "one", deserialize_with = "one_system")]
    pub systems: u32,
    /// Start time in milliseconds since 1970 UTC.
    #[serde(default)]
    pub started_unix_ms: u64,
    /// Version of the tool.
    #[serde(default)]
    pub tool_version: String,
    /// False if interrupted.
    #[serde(default = "yes")]
    pub complete: bool,
    /// Workload settings.
    #[serde(default, with = "entries")]
    pub settings: Vec<Field>,
    /// Policy settings.
    #[serde(default, with = "entries")]
    pub policy_settings: Vec<Field>,
    /// Properties of machine, drive and filesystem that may affect the result.
    #[serde(default, with = "entries")]
    pub environment: Vec<Field>,
    /// Inputs for citing and repeating the run: `command`, its arguments; for modelled
    /// runs `drive`, the complete specification, and `drive.hash`. Empty in
    /// version 0.1.
    #[serde(default, with = "entries", skip_serializing_if = "Vec::is_empty")]
    pub specification: Vec<Field>,
    /// Main metrics with repeats.
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// Phases in order.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Plain counters of model and device.
    #[serde(default, with = "entries")]
    pub counters: Vec<(String, u64)>,
    /// Possible distortions of the result.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// Time series.
    #[serde(default)]
    pub series: Vec<Series>,
}

impl Run {
    /// A template without data, incomplete.
    #[must_use]
    pub fn empty() -> Self {
        Self { systems: 1, ..Self::default() }
    }

    /// A run about to start, without start time and specification, which the caller sets.
    #[must_use]
    pub fn new(
        workload: &str,
        settings: Vec<Field>,
        target: TargetKind,
        target_label: &str,
        policy: &str,
        seed: u64,
    ) -> Self {
        Self {
            workload: workload.into(),
            settings,
            target,
            target_label: target_label.into(),
            policy: policy.into(),
            seed,
            provenance: match target {
                TargetKind::ModelledDrive | TargetKind::ModelledVolume => Provenance::Modelled,
                TargetKind::Directory
                | TargetKind::BlockDevice
                | TargetKind::File
                | TargetKind::Null => Provenance::Measured,
            },
            tool_version: env!("CARGO_PKG_VERSION").into(),
            ..Self::empty()
        }
    }

    /// Adds recorded data; the caller adds metrics, environment and warnings.
    #[must_use]
    pub fn into_run(self, recorded: RunRecording, complete: bool) -> Self {
        Self { complete, phases: recorded.phases, series: recorded.series, ..self }
    }
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

fn one_system<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        1 => Ok(1),
        n => Err(serde::de::Error::custom(format!("a sum of {n} systems is not a run"))),
    }
}

checked!(Metric, Series);

impl Check for Metric {
    fn check(&self) -> Result<(), String> {
        if self.samples.is_empty() {
            return Err(format!("metric '{}' has no samples", self.name.escape_debug()));
        }
        Ok(())
    }
}

impl Check for Series {
    fn check(&self) -> Result<(), String> {
        let shown = self.name.escape_debug();
        if self.x.len() != self.y.len() {
            return Err(format!(
                "series '{shown}' has {} x values and {} y values",
                self.x.len(),
                self.y.len()
            ));
        }
        if !self.x.is_sorted() {
            return Err(format!("the x values of series '{shown}' do not increase"));
        }
        Ok(())
    }
}
