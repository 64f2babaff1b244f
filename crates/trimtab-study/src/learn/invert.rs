//! Derives a drive from figures by arithmetic alone: the start of the fit.

pub mod whole;

use super::candidate::{Candidate, DriveKind, OF_SMALL_PROBES, at};
use super::classes;
use super::probes::area::{WRITE_SIZES, burst_last};
use super::probes::{Findings, ProbePlan};

/// Default unit of TRIM commands, pieces and mapping.
const UNIT_DEFAULT: u64 = 4096;
/// Ratio of the times for zeros and for incompressible data below which the drive
/// compresses.
const COMPRESSED: f64 = 0.93;
/// Largest share of a flush taken by its program.
pub(super) const PROGRAM_OF_FLUSH: f64 = 0.9;

/// A drive that approximately shows the figures; other parameters are class typical.
#[must_use]
pub fn invert(found: &Findings, plan: &ProbePlan) -> Candidate {
    let reported = &plan.reported;
    let mut logs = classes::priors(reported).map(|prior| libm::log(prior.median));
    let mut set = |number: usize, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite() && *value > 0.0) {
            logs[number] = libm::log(value);
        }
    };
    let host = HostEstimate::of(found);
    set(at::RATE, host.rate);
    set(at::OVERHEAD, host.overhead);
    set(at::LATENCY, host.latency);
    let read = found.ns("read 4096 q1").zip(host.lone).map(|(read, alone)| (read - alone).max(5e3));
    set(at::READ, read);
    let ahead = found.ns("sequential read 4096 q1").zip(found.ns("read 4096 q1"));
    set(
        at::READ_AHEAD,
        ahead.map(|(ordered, random)| if ordered < 0.8 * random { 512e3 } else { 4096.0 }),
    );
    set(at::WRITE_OVERHEAD, write_overhead(found, &host));
    let kind = kind(found, plan, &host, read);
    let program = found
        .ns(&burst_last(plan))
        .map(|of_a_byte| of_a_byte * f64::from(kind.dies()) * kind.row_bytes() as f64);
    // A flush waits for one program. If the link limits a burst, the burst rate says
    // less.
    let flushed = found
        .ns("flush")
        .filter(|_| !kind.protected)
        .map_or(f64::INFINITY, |flush| PROGRAM_OF_FLUSH * flush);
    set(
        if kind.slc { at::SLC_PROGRAM } else { at::PROGRAM },
        program.map(|program| program.min(flushed)),
    );
    set(
        at::SLC_READ,
        found
            .ns("read just written")
            .zip(host.lone)
            .map(|(read, alone)| (read - alone).max(5e3))
            .filter(|_| kind.slc),
    );
    set(at::CACHE, cache(found, plan));
    set(at::FLUSH, found.ns("flush").map(|flush| 0.3 * flush));
    set(
        at::SUSPEND,
        found
            .ns("read beside writes")
            .zip(found.ns("read 4096 q1"))
            .map(|(beside, alone)| (2.0 * (beside - alone)).max(5e3)),
    );
    set(
        at::STORED,
        written_smaller(found).filter(|share| *share < COMPRESSED).map(|share| 1000.0 * share),
    );
    for (number, value) in trim_costs(found, plan, &host, kind.unit_bytes) {
        set(number, value.map(|value| value.max(1.0)));
    }
    // The commonest hidden properties: no small probe shows them, and studies use the
    // best drive.
    Candidate { kind, logs, hidden: classes::common(kind.slc) }
}

struct HostEstimate {
    rate: Option<f64>,
    overhead: Option<f64>,
    latency: Option<f64>,
    /// A 4 KiB read that does not access the flash.
    lone: Option<f64>,
}

impl HostEstimate {
    fn of(found: &Findings) -> Self {
        let small = found.ns("trimmed read 4096 q1");
        let long = found.ns("trimmed read 524288 q1");
        let slope = |(short, long): (f64, f64), bytes: f64| bytes * 1e9 / (long - short);
        let by_reads =
            || Some(slope((found.ns("read 262144 q1")?, found.ns("read 1048576 q1")?), 786_432.0));
        let rate = small
            .zip(long)
            .map(|both| slope(both, 520_192.0))
            .or_else(by_reads)
            .filter(|rate| *rate > 0.0);
        let lone = small.or_else(|| found.ns("sequential read 4096 q1"));
        let on_link = rate.map_or(0.0, |rate| 4096e9 / rate);
        let overhead = found
            .ns("trimmed read block deep")
            .or_else(|| lone.map(|lone| 0.2 * (lone - on_link).max(1e3)));
        let latency =
            lone.zip(overhead).map(|(lone, overhead)| (lone - overhead - on_link).max(1e3));
        Self { rate, overhead, latency, lone }
    }
}

fn write_overhead(found: &Findings, host: &HostEstimate) -> Option<f64> {
    let write = found.ns("write 4096 q1")?;
    Some(
        (write - host.latency? - 4096e9 / host.rate?)
            .max(200.0)
            .min(found.ns("random write 4096 q32").unwrap_or(1e6)),
    )
}

fn kind(found: &Findings, plan: &ProbePlan, host: &HostEstimate, read: Option<f64>) -> DriveKind {
    let deepest = found
        .observations
        .iter()
        .rfind(|one| one.name.starts_with("read 4096 q"))
        .map(|one| one.value_ns);
    let side_by_side = read.zip(deepest).map_or(16.0, |(read, each)| read / each);
    let dies = 1_u32 << libm::round(libm::log2(side_by_side.clamp(1.0, 128.0))) as u32;
    let q1 = found.ns("read 4096 q1");
    let slc = found.ns("read just written").zip(q1).is_some_and(|(now, later)| now < 0.93 * later);
    let at_once = host
        .latency
        .zip(host.overhead)
        .map_or(50e3, |(latency, overhead)| 2.0 * (latency + overhead));
    let granularity = found.trim_granularity.unwrap_or(UNIT_DEFAULT);
    let least = found.trim_least.map_or(0, |(_, least)| least);
    let stalled = found.ns("read beside writes").zip(q1).map(|(beside, alone)| beside - alone);
    DriveKind {
        channels: dies.clamp(1, 8),
        dies_per_channel: (dies / 8).max(1),
        planes: 2,
        page_bytes: 16 << 10,
        unit_bytes: granularity.min(32 << 10),
        suspends: stalled.is_some_and(|waited| waited < 60e3),
        protected: found.ns("flush").is_some_and(|flush| flush < at_once),
        slc,
        folds: true,
        read_spread_permille: spread(found),
        compresses: !slc
            && [written_smaller(found), read_smaller(found)]
                .into_iter()
                .flatten()
                .any(|share| share < COMPRESSED),
        trim_queued: queued(found).unwrap_or(plan.reported.full_duplex),
        trim_bytes_min: if least > granularity { least } else { 0 },
        trim_alignment_bytes: if granularity > 32 << 10 { granularity } else { 0 },
    }
}

/// Ratio of the write times of zeros and random data: the stored share if the flash
/// limits.
fn written_smaller(found: &Findings) -> Option<f64> {
    found.ns("write zeros").zip(found.ns("write random")).map(|(zeros, random)| zeros / random)
}

/// As [`written_smaller`], for reads. Page read time and link time remain constant.
fn read_smaller(found: &Findings) -> Option<f64> {
    found.ns("read zeros").zip(found.ns("read random")).map(|(zeros, random)| zeros / random)
}

/// The mapping unit as shown by random writes that are limited by the flash: shorter
/// writes need a read-modify-write and take as long.
#[must_use]
pub fn unit_written(found: &Findings) -> Option<u64> {
    let cost = |size: u64| found.ns(&alloc::format!("random write {size} to the end"));
    let grows = |size: &u64| {
        cost(*size).zip(cost(2 * size)).is_some_and(|(short, long)| long > 1.5 * short)
    };
    WRITE_SIZES.into_iter().find(grows)
}

/// Excess of the slowest lone reads over the mean, in hundreds of per mille.
fn spread(found: &Findings) -> u16 {
    let both = found.ns("read 4096 q1").zip(found.ns("read 4096 q1 p90"));
    both.map_or(0, |(mean, slow)| {
        (libm::round(20.0 * (slow / mean - 1.0)).clamp(0.0, 4.0) * 100.0) as u16
    })
}

/// True if reads continued during a TRIM; `None` if the TRIM was too short to tell.
fn queued(found: &Findings) -> Option<bool> {
    let shape = |name: &str| {
        Some((
            found.ns(&alloc::format!("trim {name} again"))?,
            found.ns(&alloc::format!("reads beside trim {name}"))?,
        ))
    };
    let (trim, beside) =
        [shape("many"), shape("all")].into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let alone = found.ns("read 4096 q1")?;
    (trim > 0.5 * alone).then_some(beside < alone + 0.5 * trim)
}

/// Bytes accepted faster than the flash writes, minus what it wrote at the same time.
fn cache(found: &Findings, plan: &ProbePlan) -> Option<f64> {
    let last = found.ns(&burst_last(plan))?;
    let pieces = found.observations.iter().filter(|one| one.probe == "burst");
    let ends = pieces.filter_map(|one| {
        Some((one.name.strip_prefix("burst ")?.parse::<f64>().ok()?, one.value_ns))
    });
    let fast = ends.take_while(|(_, each)| *each < 0.6 * last).last()?;
    Some(fast.0 * (1.0 - fast.1 / last))
}

fn trim_costs(
    found: &Findings,
    plan: &ProbePlan,
    host: &HostEstimate,
    unit: u64,
) -> [(usize, Option<f64>); 4] {
    let limits = plan.reported.trim;
    let most = limits.map_or(1, |limits| u64::from(limits.ranges_per_command_max));
    let asked = plan.reach.trim_ranges_max.map_or(1, u64::from);
    let ranges = 256.min(asked).min(plan.area / 32 / (64 << 10)).max(1) as f64;
    let one = found.ns("trim one again");
    let each = one
        .zip(found.ns("trim shortest again"))
        .filter(|_| ranges > 1.0)
        .map(|(one, all)| (all - one) / (ranges - 1.0));
    let alone = host.latency.unwrap_or(0.0) + host.overhead.unwrap_or(0.0);
    let command = one.map(|one| one - alone - each.unwrap_or(0.0));
    let pieces =
        limits.map_or(1.0, |limits| (plan.area / 2).div_ceil(limits.range_bytes_max) as f64);
    let commands = libm::ceil(pieces / most as f64);
    let gb = one.zip(found.ns("trim all again")).map(|(one, all)| {
        let other = (pieces - 1.0) * each.unwrap_or(0.0).max(0.0)
            + (commands - 1.0) * command.unwrap_or(0.0).max(0.0);
        (all - one - other) * 1e9 / (plan.area / 2) as f64
    });
    let units = (plan.area / 16 / unit) as f64;
    let mapped = found
        .ns("trim long")
        .zip(found.ns("trim long again"))
        .map(|(first, again)| (first - again) / units);
    [
        (at::TRIM_COMMAND, command),
        (at::TRIM_RANGE, each),
        (at::TRIM_UNIT, mapped),
        (at::TRIM_GB, gb),
    ]
}

const _: () =
    assert!(OF_SMALL_PROBES == 18, "a new number needs an inversion, or a comment why it has none");
