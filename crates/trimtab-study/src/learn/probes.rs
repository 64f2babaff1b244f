//! The probes in execution order. Later ones use data that earlier ones wrote.

pub mod area;
mod trims;
pub mod whole;

use super::lab::ProbeSession;
use super::{Budget, Observation, ReportedProperties, TrimLimits};
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream as Random;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Extent};
use trimtab_sim::runner::Observer;
use trimtab_sim::target::TargetResult;
use whole::ProbeRegion;

/// Smallest area for probes that write.
pub const AREA_MIN: u64 = 8 << 20;
/// Maximum commands in flight.
pub const DEPTH_MAX: u32 = 257;
const AREA_MAX: u64 = 256 << 20;
/// Upper bound for the bytes written by all probes, as a multiple of the area.
pub const AREA_WRITES: u64 = 3;
const SEQUENTIAL: u64 = 128 << 10;
/// Smallest meaningful time: nanoseconds per byte on the fastest link.
pub const SHORTEST_NS: f64 = 0.01;
/// Idle time for the background work after this little data, if time is free.
const REST: Nanos = Nanos::from_secs(60);

/// Idle time before reads that must not meet writes: a drive with free flushes still
/// empties its write cache after one. Too short for background work to start.
const SETTLE: Nanos = Nanos::from_millis(500);

/// Access path between the probes and the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessPath {
    /// Idle time before reads.
    pub rest: Nanos,
    /// Maximum number of ranges per TRIM request; `None` if TRIM is unavailable.
    pub trim_ranges_max: Option<u32>,
    /// True if a flush is only a flush of the drive, without a journal write.
    pub flushes: bool,
    /// True if flushes reach the drive. The kernel sends none without a volatile cache.
    pub sends_flushes: bool,
}

/// Error, in powers of e, of a flush that the kernel drops: its time reveals nothing.
const NOT_SENT: f64 = 10.0;

impl AccessPath {
    /// Direct access.
    #[must_use]
    pub fn bare(reported: &ReportedProperties) -> Self {
        Self {
            rest: REST,
            trim_ranges_max: reported.trim.map(|limits| limits.ranges_per_command_max),
            flushes: true,
            sends_flushes: true,
        }
    }

    /// Error of the time of a flush: `sigma` if flushes reach the drive.
    fn of_flush(&self, sigma: f64) -> f64 {
        if self.sends_flushes { sigma } else { NOT_SENT }
    }
}

/// The exact commands to run, identical for the drive and every candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// Extent.
    pub budget: Budget,
    /// Properties that the drive reports.
    pub reported: ReportedProperties,
    /// Access path.
    pub reach: AccessPath,
    /// Offset of the part of the target that is used.
    pub start: u64,
    /// Size of that part in bytes.
    pub area: u64,
    /// Seed of the addresses.
    pub seed: u64,
    /// Part used by the probes of the whole drive, with [`Budget::Full`].
    pub whole: Option<ProbeRegion>,
}

impl ProbePlan {
    /// The plan for a drive that may receive at most `write_limit` bytes; `None` if that
    /// is too little. Small probes use the first bytes of the target.
    #[must_use]
    pub fn new(
        budget: Budget,
        reported: ReportedProperties,
        write_limit: u64,
        seed: u64,
    ) -> Option<Self> {
        let most = (write_limit / AREA_WRITES).min(reported.capacity_bytes / 2);
        if most < AREA_MIN {
            return None;
        }
        let area = 1_u64 << most.min(AREA_MAX).ilog2();
        Some(Self {
            budget,
            reported,
            reach: AccessPath::bare(&reported),
            start: 0,
            area,
            seed,
            whole: None,
        })
    }

    /// Default write limit for a drive of `capacity_bytes`: 1 %, up to 4 GB.
    #[must_use]
    pub const fn write_limit(capacity_bytes: u64) -> u64 {
        let share = capacity_bytes / 100;
        if share < 4_000_000_000 { share } else { 4_000_000_000 }
    }

    /// Default write limit for `budget`. A full budget includes permission to overwrite
    /// the drive, so very small drives get a slightly higher limit.
    #[must_use]
    pub fn usual_limit(budget: Budget, capacity_bytes: u64) -> u64 {
        let limit = Self::write_limit(capacity_bytes);
        if budget == Budget::Full { limit.max(4 * AREA_MIN * AREA_WRITES) } else { limit }
    }

    const fn part(&self, from: u64, to: u64) -> Extent {
        Extent { offset: self.start + self.area / 16 * from, len: self.area / 16 * (to - from) }
    }

    /// Smallest operation: 4 KiB or a logical block, whichever is larger.
    fn small(&self) -> u64 {
        u64::from(self.reported.logical_block_bytes).max(4096)
    }

    /// Limits of a TRIM command and of ranges per request; `None` if TRIM is not probed.
    fn trims(&self) -> Option<(TrimLimits, u64)> {
        self.reported
            .trim
            .zip(self.reach.trim_ranges_max)
            .map(|(limits, most)| (limits, u64::from(most)))
    }

    fn deepest(&self) -> u32 {
        self.reported.queue_depth.clamp(1, 256)
    }
}

/// Findings of the probes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Figures.
    pub observations: Vec<Observation>,
    /// The shortest effective TRIM and the longest ineffective one; `None` if none had an
    /// effect.
    pub trim_least: Option<(u64, u64)>,
    /// Required alignment of TRIM ranges.
    pub trim_granularity: Option<u64>,
    /// Bytes written.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
}

impl Findings {
    /// Nanoseconds of a figure by name.
    #[must_use]
    pub fn ns(&self, name: &str) -> Option<f64> {
        self.observations.iter().find(|one| one.name == name).map(|one| one.value_ns)
    }

    /// Adds a figure of the current probe; `sigma` is the error of its logarithm.
    fn add(&mut self, name: impl Into<String>, value_ns: f64, sigma: f64) {
        self.observations.push(Observation {
            name: name.into(),
            probe: "",
            value_ns: value_ns.max(SHORTEST_NS),
            sigma,
        });
    }
}

type RunProbe = fn(&mut ProbeSession<'_>, &ProbePlan, &mut Findings) -> TargetResult;

/// One probe.
pub struct Probe {
    /// Its name.
    pub name: &'static str,
    /// Specification fields that it helps to identify.
    pub identifies: &'static [&'static str],
    run: RunProbe,
}

const fn probe(name: &'static str, run: RunProbe, identifies: &'static [&'static str]) -> Probe {
    Probe { name, identifies, run }
}

/// Probes of an area in order.
static OF_AREAS: [Probe; 7] = [
    probe(
        "burst",
        area::burst,
        &[
            "flash.write_cache.bytes",
            "flash.nand.program_ns",
            "flash.slc_cache.program_ns",
            "interface.rate_bytes_per_s",
        ],
    ),
    probe(
        "flush",
        area::flush,
        &[
            "flash.write_cache.flush_ns",
            "flash.write_cache.power_loss_protection",
            "flash.nand.program_ns",
            "interface.latency_ns",
        ],
    ),
    probe("just written", area::just_written, &["flash.slc_cache", "flash.slc_cache.read_ns"]),
    probe(
        "reads",
        area::existing,
        &[
            "interface.rate_bytes_per_s",
            "interface.command_overhead_ns",
            "interface.latency_ns",
            "flash.nand.read_ns",
            "flash.nand.read_ahead_bytes",
            "flash.nand.channel_bytes_per_s",
            "flash.geometry",
        ],
    ),
    probe(
        "random writes",
        area::random_writes,
        &["flash.ftl.mapping_unit_bytes", "interface.write_overhead_ns"],
    ),
    probe(
        "compression",
        area::compression,
        &["flash.compression", "flash.compression.stored_permille_min"],
    ),
    probe("stalls", area::stalls, &["flash.nand.suspend_ns", "flash.nand.channel_bytes_per_s"]),
];

/// Probes of TRIM, after the others, which need a written area.
static OF_TRIMS: [Probe; 3] = [
    probe(
        "trim cost",
        trims::cost,
        &[
            "flash.trim.command_ns",
            "flash.trim.range_ns",
            "flash.trim.unit_ns",
            "flash.trim.gb_ns",
            "flash.trim.queued",
        ],
    ),
    probe(
        "trimmed reads",
        trims::trimmed_reads,
        &["interface.command_overhead_ns", "interface.latency_ns", "interface.rate_bytes_per_s"],
    ),
    probe(
        "trim effect",
        trims::effect,
        &["flash.trim.bytes_min", "flash.trim.alignment_bytes", "flash.ftl.mapping_unit_bytes"],
    ),
];

/// Probes of a whole drive in order.
static OF_WHOLES: [Probe; 4] = [
    probe(
        "slc cache",
        whole::slc_cache,
        &["flash.slc_cache.size", "flash.slc_cache.when_full", "flash.nand.program_ns"],
    ),
    probe(
        "recovery",
        whole::recovery,
        &[
            "flash.slc_cache.size",
            "flash.slc_cache.when_full",
            "flash.nand.program_ns",
            "flash.nand.read_ns",
        ],
    ),
    probe(
        "collection",
        whole::collection,
        &[
            "flash.over_provisioning_permille",
            "flash.ftl.victim",
            "flash.ftl.streams",
            "flash.nand.erase_ns",
        ],
    ),
    probe("map", whole::map, &["flash.ftl.mapping_cache_bytes"]),
];

/// All probes in order.
pub fn every() -> impl Iterator<Item = &'static Probe> {
    OF_AREAS.iter().chain(&OF_TRIMS).chain(&OF_WHOLES)
}

/// Small probes of a plan in order.
pub fn of(plan: &ProbePlan) -> impl Iterator<Item = &'static Probe> {
    OF_AREAS.iter().chain(if plan.trims().is_some() { OF_TRIMS.as_slice() } else { &[] })
}

/// All probes of a plan, including those of the whole drive.
pub fn all_of(plan: &ProbePlan) -> impl Iterator<Item = &'static Probe> {
    of(plan).chain(if plan.whole.is_some() { OF_WHOLES.as_slice() } else { &[] })
}

/// Runs the small probes of the plan.
pub fn run(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    observer: &mut dyn Observer,
) -> TargetResult<Findings> {
    run_these(of(plan), lab, plan, observer)
}

/// Runs the probes of the whole drive, which holds nothing but existing user data.
///
/// # Errors
/// The target fails.
pub fn run_whole(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    observer: &mut dyn Observer,
) -> TargetResult<Findings> {
    run_these(OF_WHOLES.iter(), lab, plan, observer)
}

fn run_these(
    probes: impl Iterator<Item = &'static Probe>,
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    observer: &mut dyn Observer,
) -> TargetResult<Findings> {
    let mut found = Findings::default();
    let before = (lab.written, lab.read);
    for probe in probes {
        if observer.stopped() || !lab.is_worth(&found.observations) {
            break;
        }
        observer.begins(probe.name);
        let first = found.observations.len();
        (probe.run)(lab, plan, &mut found)?;
        found.observations[first..].iter_mut().for_each(|one| one.probe = probe.name);
    }
    (found.written, found.read) = (lab.written - before.0, lab.read - before.1);
    Ok(found)
}

fn sequential(extent: Extent, class: DataClass) -> impl Iterator<Item = Command<'static>> {
    let step = SEQUENTIAL.min(extent.len);
    (0..extent.len / step).map(move |nth| {
        Command::Write(Extent { offset: extent.offset + nth * step, len: step }, class)
    })
}

/// Random aligned offsets of `len` bytes in `within`.
struct RandomOffsets {
    random: Random,
    within: Extent,
    len: u64,
}

impl RandomOffsets {
    fn new(plan: &ProbePlan, purpose: &str, within: Extent, len: u64) -> Self {
        Self { random: Random::new(plan.seed, purpose), within, len }
    }
}

impl Iterator for RandomOffsets {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let place = self.random.below((self.within.len / self.len).max(1));
        Some(Extent { offset: self.within.offset + place * self.len, len: self.len })
    }
}

fn reads(
    plan: &ProbePlan,
    purpose: &str,
    within: Extent,
    len: u64,
    count: usize,
) -> impl Iterator<Item = Command<'static>> + use<> {
    RandomOffsets::new(plan, purpose, within, len).take(count).map(Command::Read)
}

/// Reads at random offsets, aligned to small operations within a [`PIECE`]. The layout of
/// flash rows on a used drive is unknown; fully aligned reads would all touch one row
/// each, or all touch two.
fn crossing_reads(
    plan: &ProbePlan,
    purpose: &str,
    within: Extent,
    len: u64,
    count: usize,
) -> impl Iterator<Item = Command<'static>> {
    let small = plan.small();
    let piece = PIECE.min(within.len).max(len);
    let begins = (piece - len) / small + 1;
    let mut random = Random::new(plan.seed, purpose);
    RandomOffsets::new(plan, &alloc::format!("pieces of {purpose}"), within, piece).take(count).map(
        move |place| {
            let offset = place.offset + random.below(begins) * small;
            Command::Read(Extent { offset, len })
        },
    )
}

/// Minimum contiguous length of a file on the drive.
const PIECE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads start anywhere within pieces of 1 MiB, in which a file is contiguous.
    #[test]
    fn crossing_reads_start_anywhere_within_a_piece() {
        let trim = None;
        let reported = ReportedProperties {
            capacity_bytes: 1 << 34,
            logical_block_bytes: 512,
            queue_depth: 32,
            full_duplex: false,
            trim,
        };
        let plan = ProbePlan::new(Budget::Small, reported, 48 << 20, 1).unwrap();
        let within = plan.part(8, 12);
        let mut begun = [0; 4];
        for command in crossing_reads(&plan, "x", within, 16 << 10, 400) {
            let Command::Read(read) = command else { panic!("{command:?}") };
            assert!(
                read.len == 16 << 10
                    && read.offset >= within.offset
                    && read.offset + read.len <= within.offset + within.len,
                "{read:?}"
            );
            assert_eq!(read.offset % 4096, 0, "{read:?}");
            assert_eq!(read.offset >> 20, (read.offset + read.len - 1) >> 20, "{read:?}");
            begun[(read.offset / 4096 % 4) as usize] += 1;
        }
        assert!(begun.iter().all(|count| (60..140).contains(count)), "{begun:?}");
    }
}
