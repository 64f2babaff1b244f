//! Learns a twin: probes a drive, then finds the modelled drives that explain the
//! measurements.
//!
//! Probes run on any block target, real or modelled, and produce [`Observation`]s.
//! [`invert`] derives a first drive from them by arithmetic. [`fit`] then runs the same
//! probes on modelled drives around it in virtual time. The drives that show the same
//! figures form the ensemble, and its spread is the remaining uncertainty. Properties
//! that no probe can identify are drawn from class priors ([`classes`]).

pub mod candidate;
pub mod classes;
pub mod fit;
pub mod invert;
pub mod lab;
pub mod learned;
pub mod logs;
pub mod probes;
pub mod rounds;
pub mod summary;
#[cfg(test)]
mod tests;

use alloc::string::String;
use trimtab_drive::named;
use trimtab_drive::spec::DriveSpec;
use trimtab_sim::runner::Observer;
use trimtab_sim::target::TargetResult;

/// Properties that a drive reports about itself, without measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedProperties {
    /// User capacity in bytes.
    pub capacity_bytes: u64,
    /// Logical block in bytes.
    pub logical_block_bytes: u32,
    /// Commands that it accepts at once.
    pub queue_depth: u32,
    /// Full-duplex link (PCIe): reads and writes do not share bandwidth.
    pub full_duplex: bool,
    /// Limits of a TRIM command; `None` without TRIM.
    pub trim: Option<TrimLimits>,
}

/// Limits of a TRIM command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimLimits {
    /// Maximum number of ranges per command.
    pub ranges_per_command_max: u32,
    /// Maximum bytes per range.
    pub range_bytes_max: u64,
}

impl ReportedProperties {
    /// The properties that a drive of `spec` reports.
    #[must_use]
    pub fn of(spec: &DriveSpec) -> Self {
        let flash = &spec.flash;
        let limits = TrimLimits {
            ranges_per_command_max: flash.trim.ranges_per_command_max,
            range_bytes_max: flash.trim.range_bytes_max,
        };
        Self {
            capacity_bytes: spec.capacity_bytes,
            logical_block_bytes: spec.logical_block_bytes,
            queue_depth: spec.interface.queue_depth,
            full_duplex: spec.interface.full_duplex,
            trim: flash.trim.supported.then_some(limits),
        }
    }
}

named! {
    "budget"
    /// Extent of the probes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Budget {
        /// Writes little, and trims only what it wrote.
        Small = "small",
        /// As `Small`, then writes as much of the drive as is permitted.
        Full = "full",
    }
}

/// One figure from a probe. All figures are times, so their logarithms can be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Name of the figure: `read 4096 q1`.
    pub name: String,
    /// Name of the probe.
    pub probe: &'static str,
    /// Nanoseconds per command or per byte.
    pub value_ns: f64,
    /// Standard error of the logarithm: noise, and what a model of another size cannot
    /// reproduce.
    pub sigma: f64,
}

/// Runs the probes of `plan` on `target` that do not need a whole drive.
///
/// # Errors
/// The target fails.
pub fn probe(
    target: &mut dyn lab::ProbeTarget,
    plan: &probes::ProbePlan,
    observer: &mut dyn Observer,
) -> TargetResult<probes::Findings> {
    probes::run(&mut lab::ProbeSession::new(target), plan, observer)
}

/// Runs the probes of `plan` that need a whole drive.
///
/// # Errors
/// The target fails.
pub fn probe_whole(
    target: &mut dyn lab::ProbeTarget,
    plan: &probes::ProbePlan,
    observer: &mut dyn Observer,
) -> TargetResult<probes::Findings> {
    probes::run_whole(&mut lab::ProbeSession::new(target), plan, observer)
}
