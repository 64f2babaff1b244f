//! From measurements to a twin: probes of a drive, and which modelled drives explain what they found.
//!
//! A probe runs over the seam of block targets, on a drive that is there or on a modelled one, and gives [`Observation`]s. First each is inverted by
//! arithmetic ([`invert`]), then modelled drives around that are put through the same probes in virtual time ([`fit`]): those that show the same are
//! the ensemble, and its spread is what is not known. What no probe can tell is drawn from what such drives are like ([`classes`]).

pub mod candidate;
pub mod classes;
pub mod fit;
pub mod invert;
pub mod lab;
pub mod learned;
pub mod predict;
pub mod probes;
pub mod rounds;
pub mod summary;
#[cfg(test)]
mod tests;

use alloc::string::String;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use trimtab_drive::named;
use trimtab_drive::spec::{DriveSpec, Medium};
use trimtab_sim::target::TargetResult;

/// What a drive says of itself, without being measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// User capacity in bytes.
    pub capacity_bytes: u64,
    /// Logical block in bytes.
    pub logical_block_bytes: u32,
    /// Commands that it holds at once.
    pub queue_depth: u32,
    /// PCIe: reads and writes have a link each.
    pub full_duplex: bool,
    /// What one TRIM may be; `None` if it takes none.
    pub trim: Option<TrimLimits>,
}

/// What one TRIM command may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimLimits {
    /// Ranges in one command.
    pub ranges_per_command_max: u32,
    /// Bytes in one range.
    pub range_bytes_max: u64,
}

impl Reported {
    /// What a drive of `spec` says of itself; `None` of a disk.
    #[must_use]
    pub fn of(spec: &DriveSpec) -> Option<Self> {
        let Medium::Flash(flash) = &spec.medium else { return None };
        let limits = TrimLimits { ranges_per_command_max: flash.trim.ranges_per_command_max, range_bytes_max: flash.trim.range_bytes_max };
        Some(Self {
            capacity_bytes: spec.capacity_bytes,
            logical_block_bytes: spec.logical_block_bytes,
            queue_depth: spec.interface.queue_depth,
            full_duplex: spec.interface.full_duplex,
            trim: flash.trim.supported.then_some(limits),
        })
    }
}

named! {
    "budget"
    /// How much a drive is probed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Budget {
        /// Nothing is written: reads of data that are there.
        Reads = "reads",
        /// Little is written, and only what was written is trimmed.
        Small = "small",
        /// The same, and then as much of the drive is written over as may be.
        Full = "full",
    }
}

/// One figure that a probe found. All are times, so that all are positive and their logarithms can be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// What was measured: `read 4096 q1`.
    pub name: String,
    /// Which probe.
    pub probe: &'static str,
    /// Nanoseconds: of a command, or of each byte or command of many.
    pub value_ns: f64,
    /// By how much its logarithm may be off: noise, and what a model of another size cannot show.
    pub sigma: f64,
}

/// As the name, the probe, nanoseconds, and by how much the logarithm may be off.
impl Serialize for Observation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.name, self.probe, self.value_ns, self.sigma).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Observation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (name, by, value_ns, sigma) = <(String, String, f64, f64)>::deserialize(deserializer)?;
        let probe = probes::every().map(|probe| probe.name()).find(|known| *known == by).unwrap_or("a probe");
        Ok(Self { name, probe, value_ns, sigma })
    }
}

/// Who wants to know how far learning is, and may stop it.
pub trait Observer {
    /// So many candidates have been tried.
    fn tried(&mut self, _candidates: u32) {}

    /// A probe has ended.
    fn probed(&mut self, _name: &str, _found: &[Observation]) {}

    /// Whether to end now.
    fn stopped(&self) -> bool;
}

impl Observer for () {
    fn stopped(&self) -> bool {
        false
    }
}

/// Runs all probes of `plan` on `target`, but for those that need a whole drive.
///
/// # Errors
/// A target that fails.
pub fn probe(target: &mut dyn lab::Probed, plan: &probes::Plan, observer: &mut dyn Observer) -> TargetResult<probes::Findings> {
    probes::run(&mut lab::Lab::new(target), plan, observer)
}

/// Runs those.
///
/// # Errors
/// A target that fails.
pub fn probe_whole(target: &mut dyn lab::Probed, plan: &probes::Plan, observer: &mut dyn Observer) -> TargetResult<probes::Findings> {
    probes::run_whole(&mut lab::Lab::new(target), plan, observer)
}
