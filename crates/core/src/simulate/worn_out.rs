//! Wear-out as a result: the end of a modelled drive that takes no more writes, and its endurance in the run.

use crate::drive::Refusal;
use crate::drive::model::Model;
use crate::run::{Better, Field, Metric, Run, Severity, Unit, Warning, metrics};
use crate::runner::{End, Outcome};
use crate::units::Bytes;
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::string::ToString as _;
use alloc::vec;

/// Code of the warning that the drive wore out.
pub const WORN_OUT: &str = "drive.worn-out";

/// The end of a run on `drive`. A write that the drive refuses because it is worn out completes the run: how far it came is its result.
#[must_use]
pub fn concluded(end: End, drive: &dyn Model) -> End {
    match end {
        End::Failed(error) if error.errno == Refusal::ReadOnly.errno() && counter(&drive.counters(), READ_ONLY) != 0 => End::Complete,
        other => other,
    }
}

/// `outcome` with its end [`concluded`].
#[must_use]
pub fn conclude(outcome: Outcome, drive: &dyn Model) -> Outcome {
    Outcome { end: concluded(outcome.end, drive), ..outcome }
}

const READ_ONLY: &str = "now_read_only";

fn counter<'a>(counters: impl IntoIterator<Item = (&'a String, &'a u64)>, name: &str) -> u64 {
    counters.into_iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value)
}

/// Whether the drive of `run`, whose counters are in the run, is worn out.
#[must_use]
pub fn is_worn_out(run: &Run) -> bool {
    of_run(run, READ_ONLY) != 0
}

fn of_run(run: &Run, name: &str) -> u64 {
    counter(run.counters.iter().map(|(name, value)| (name, value)), name)
}

/// Adds to `run`, which has the drive's counters, what was written until the first superblock retired and until the drive was worn out.
pub fn describe(run: &mut Run) {
    let (first, written, retired) =
        (of_run(run, "first_retired_written_bytes"), of_run(run, "host_written_bytes"), of_run(run, "now_worn_out_superblocks"));
    let figure =
        |name: &str, bytes: u64| Metric { name: name.to_owned(), unit: Unit::Bytes, better: Better::Higher, samples: vec![bytes as f64] };
    if retired > 0 {
        run.metrics.push(figure(metrics::FIRST_RETIRED_WRITTEN, first));
    }
    if is_worn_out(run) {
        run.metrics.push(figure(metrics::WORN_OUT_WRITTEN, written));
        run.warnings.push(Warning {
            code: WORN_OUT.to_owned(),
            severity: Severity::Note,
            facts: vec![Field::new("written-bytes", written.to_string()), Field::new("retired-superblocks", retired.to_string())],
            text: format!(
                "the drive wore out after {} of host writes and takes no more: {retired} superblocks are retired, the first after {}. The run ends there",
                Bytes(written),
                Bytes(first)
            ),
        });
    }
}
