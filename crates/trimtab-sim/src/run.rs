//! The result of a run: plain data, as JSON and the store hold it. Names and order of the fields decide the JSON, and so the ids of stored runs: what was
//! added later is left out where it is empty.

pub mod json;
pub mod metrics;
pub mod pictures;
pub mod shown;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use json::{Check, checked, discards, entries, floats};
use pictures::Pictures;
use serde::{Deserialize, Serialize};
use trimtab_drive::OpKind;
use trimtab_drive::discards::Discards;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::named;
use trimtab_drive::units::{Bytes, Nanos};

named! {
    "provenance"
    /// Where a figure comes from. A fitted figure is never shown as a prediction.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Provenance {
        /// Taken on a real target with the real clock.
        Measured = "measured",
        /// Came out of a model, in virtual time.
        Modelled = "modelled",
        /// Typed in or imported from elsewhere.
        Entered = "entered",
    }
}

named! {
    "kind of target"
    /// What executed the workload.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum TargetKind {
        /// A directory on a mounted filesystem.
        Directory = "directory",
        /// A block device.
        BlockDevice = "block-device",
        /// A file used as a block device.
        File = "file",
        /// A modelled drive.
        ModelledDrive = "modelled-drive",
        /// A modelled filesystem on a modelled drive.
        ModelledVolume = "modelled-volume",
        /// Nothing: the tool's own cost.
        Null = "null",
        /// Elsewhere; the figures were entered.
        Elsewhere = "elsewhere",
    }
}

/// Key of the environment that says which cell of which study a run is: the same for all that decides its result.
pub const STUDY_CELL: &str = "study.cell";

/// Key of the environment that says how much of a run was taken from an interrupted study, and from when that is.
pub const STUDY_TAKEN: &str = "study.taken";

/// One `key = value` of settings or environment. Keys are dotted (`drive.model`, `queue.scheduler`), values are as a person reads them.
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

    /// The value that `key` has among `fields`.
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
        /// A plain ratio (WAF, amplification).
        Ratio = "ratio",
        /// Per cent.
        Percent = "%",
    }
}

named! {
    "direction"
    /// In which direction a metric is better.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Better {
        /// More is better.
        Higher = "higher",
        /// Less is better.
        Lower = "lower",
        /// Neither: a fact.
        Neither = "neither",
    }
}

/// A figure of a run, with its repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Metric {
    /// Dotted name: `delete.seconds`, `seq1m-q1.write.rate`.
    pub name: String,
    /// Unit of the samples.
    pub unit: Unit,
    /// Which direction is better.
    pub better: Better,
    /// One per repeat, in order. Never empty.
    #[serde(with = "floats")]
    pub samples: Vec<f64>,
}

named! {
    "part of a latency"
    /// Which part of an operation's time a histogram holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LatencyPart {
        /// From issue until handed to the target.
        Submission = "submission",
        /// From handed over until complete.
        Completion = "completion",
        /// From issue until complete.
        Total = "total",
    }
}

/// Latencies of one kind of operation in one phase.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "json::LatencyFigures")]
pub struct Latency {
    /// Kind of operation.
    pub kind: OpKind,
    /// Which part.
    pub part: LatencyPart,
    /// Nanoseconds.
    pub histogram: Histogram,
}

named! {
    "axis"
    /// What a series is plotted over.
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
    /// What `x` is.
    pub axis: Axis,
    /// Unit of `y`.
    pub unit: Unit,
    /// Increasing.
    pub x: Vec<u64>,
    /// As long as `x`.
    #[serde(with = "floats")]
    pub y: Vec<f64>,
}

impl Series {
    /// Where a level begins whose first value is that at `index`. A value over bytes written is of the step that ends there, so that is where the step began.
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
    /// When it began, on the target's clock.
    #[serde(rename = "started_ns")]
    pub started: Nanos,
    /// How long it took.
    #[serde(rename = "took_ns")]
    pub took: Nanos,
    /// Operations done, by kind.
    #[serde(default, with = "entries")]
    pub ops: Vec<(OpKind, u64)>,
    /// Bytes read.
    #[serde(rename = "read_bytes", default)]
    pub read: Bytes,
    /// Bytes written.
    #[serde(rename = "written_bytes", default)]
    pub written: Bytes,
    /// Discards meanwhile, if anybody looked.
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
    /// How much a warning matters.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Severity {
        /// Good to know.
        Note = "note",
        /// The figures may be off.
        Caution = "caution",
        /// The figures do not mean what they seem to.
        Serious = "serious",
    }
}

/// Something that may have distorted the result: data first, words later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warning {
    /// Stable name, such as `interference.other-io`.
    pub code: String,
    /// How much it matters.
    pub severity: Severity,
    /// The figures behind it.
    #[serde(default, with = "entries")]
    pub facts: Vec<Field>,
    /// The sentence.
    pub text: String,
}

/// One workload on one target under one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Where the figures come from.
    pub provenance: Provenance,
    /// Independent systems whose figures are summed here; 1 for everything measured by this tool.
    #[serde(default = "one", deserialize_with = "at_least_one")]
    pub systems: u32,
    /// When it began, milliseconds since 1970 UTC.
    #[serde(default)]
    pub started_unix_ms: u64,
    /// Version of the tool.
    #[serde(default)]
    pub tool_version: String,
    /// False if it was interrupted.
    #[serde(default = "yes")]
    pub complete: bool,
    /// Its settings.
    #[serde(default, with = "entries")]
    pub settings: Vec<Field>,
    /// The policy's settings.
    #[serde(default, with = "entries")]
    pub policy_settings: Vec<Field>,
    /// Everything about the machine, the drive and the filesystem that could matter.
    #[serde(default, with = "entries")]
    pub environment: Vec<Field>,
    /// What the run was made from, so that it can be cited and made again: `command`, the arguments; of modelled ones `drive`, the whole
    /// specification, and `drive.hash`. Empty for what was entered, and for runs of version 0.1.
    #[serde(default, with = "entries", skip_serializing_if = "Vec::is_empty")]
    pub specification: Vec<Field>,
    /// Headline figures, with repeats.
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// Phases in order.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Plain counts (of the model, of the device).
    #[serde(default, with = "entries")]
    pub counters: Vec<(String, u64)>,
    /// What may have distorted the result.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// Time series.
    #[serde(default)]
    pub series: Vec<Series>,
    /// What is drawn of it beyond series; empty for most.
    #[serde(default, skip_serializing_if = "Pictures::is_empty")]
    pub pictures: Pictures,
}

impl Run {
    /// One of which nothing is known, to begin from: entered, of one system, not complete.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            workload: String::new(),
            settings: Vec::new(),
            target: TargetKind::Elsewhere,
            target_label: String::new(),
            policy: String::new(),
            policy_settings: Vec::new(),
            seed: 0,
            provenance: Provenance::Entered,
            systems: 1,
            started_unix_ms: 0,
            tool_version: String::new(),
            complete: false,
            environment: Vec::new(),
            specification: Vec::new(),
            phases: Vec::new(),
            metrics: Vec::new(),
            series: Vec::new(),
            counters: Vec::new(),
            warnings: Vec::new(),
            pictures: Pictures::default(),
        }
    }
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

fn at_least_one<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    Ok(core::num::NonZeroU32::deserialize(deserializer)?.get())
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
            return Err(format!("series '{shown}' has {} places and {} values", self.x.len(), self.y.len()));
        }
        if !self.x.is_sorted() {
            return Err(format!("the places of series '{shown}' do not increase"));
        }
        Ok(())
    }
}
