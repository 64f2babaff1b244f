//! Probes of a written area.

use super::super::lab::Stream;
use super::{
    Findings, ProbePlan, ProbeSession, RandomOffsets, SETTLE, crossing_reads, reads, sequential,
};
use alloc::format;
use alloc::string::String;
use trimtab_drive::data::DataClass;
use trimtab_drive::{Command, Extent};
use trimtab_sim::target::TargetResult;

/// First piece of the burst that is timed; each further one ends at twice the bytes.
const BURST_FIRST: u64 = 512 << 10;

/// Sequential writes of incompressible data into an empty cache: cache size and flash
/// rate.
pub(super) fn burst(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    found: &mut Findings,
) -> TargetResult {
    let stream = lab.stream(4, sequential(plan.part(0, 16), DataClass::Random))?;
    let operation = plan.area / stream.completed.len().max(1) as u64;
    let (mut from, mut to) = (0, BURST_FIRST);
    while to <= plan.area {
        let done = |bytes: u64| match bytes / operation {
            0 => 0,
            count => stream.completed[count as usize - 1].0,
        };
        let took = done(to).saturating_sub(done(from)) as f64;
        // A rate change within a piece is affected by everything before it.
        let sigma = if to == plan.area { 0.015 } else { 0.04 };
        found.add(format!("burst {to}"), took / (to - from) as f64, sigma);
        (from, to) = (to, to * 2);
    }
    let flush = lab.one(Command::Flush)?;
    if plan.reach.flushes {
        found.add("burst flush", flush.0 as f64, plan.reach.of_flush(0.10));
    }
    Ok(())
}

/// Name of the last figure of the burst, which shows the flash rate.
#[must_use]
pub fn burst_last(plan: &ProbePlan) -> String {
    format!("burst {}", plan.area)
}

const FLUSH_PAIRS: usize = 32;

/// Single writes, each followed by a flush: the latency of a durable write.
pub(super) fn flush(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    found: &mut Findings,
) -> TargetResult {
    // Whole mapping units first, which need no read-modify-write.
    let small = plan.small();
    for (purpose, len, write, flush, sigma) in [
        ("flush", 64 << 10, "write 65536 q1", "flush", 0.02),
        ("flush small", small, "write 4096 q1", "flush small", 0.03),
    ] {
        let (mut writes, mut flushes) = (Stream::default(), Stream::default());
        for extent in RandomOffsets::new(plan, purpose, plan.part(8, 16), len).take(FLUSH_PAIRS) {
            writes.latencies.push(lab.one(Command::Write(extent, DataClass::Random))?);
            flushes.latencies.push(lab.one(Command::Flush)?);
        }
        found.add(write, writes.middle_ns(), 0.02);
        if plan.reach.flushes {
            found.add(flush, flushes.middle_ns(), plan.reach.of_flush(sigma));
        }
    }
    Ok(())
}

/// Reads of data that were just written and not moved yet. Detects an SLC cache.
pub(super) fn just_written(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    found: &mut Findings,
) -> TargetResult {
    let stream = lab.stream(1, reads(plan, "just written", plan.part(0, 8), plan.small(), 48))?;
    found.add("read just written", stream.middle_ns(), 0.02);
    Ok(())
}

const READ_SIZES: [(u64, usize); 5] =
    [(4096, 96), (16 << 10, 48), (64 << 10, 48), (256 << 10, 24), (1 << 20, 12)];
const DEPTHS: [u32; 5] = [2, 8, 32, 96, 255];
/// Small reads per command in flight.
const ROUNDS: usize = 12;

/// Reads of existing data in all sizes, in all depths and in order: latency, link rate,
/// parallel dies, read-ahead.
pub(super) fn existing(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    found: &mut Findings,
) -> TargetResult {
    lab.idle(plan.reach.rest);
    let there = plan.part(0, 16);
    for (size, count) in
        READ_SIZES.into_iter().filter(|(size, _)| *size >= plan.small() && size * 4 <= plan.area)
    {
        let stream =
            lab.stream(1, crossing_reads(plan, &format!("read {size}"), there, size, count))?;
        found.add(format!("read {size} q1"), stream.middle_ns(), 0.02);
        if size == plan.small() {
            found.add("read 4096 q1 p90", stream.percentile_ns(90), 0.04);
        }
    }
    for depth in DEPTHS.into_iter().filter(|depth| *depth < plan.deepest().max(3)) {
        if !lab.is_worth(&found.observations) {
            return Ok(());
        }
        let count = depth as usize * ROUNDS;
        let stream =
            lab.stream(depth, reads(plan, &format!("depth {depth}"), there, plan.small(), count))?;
        found.add(format!("read 4096 q{depth}"), stream.took.0 as f64 / count as f64, 0.03);
    }
    let count = 256;
    let stream = lab.stream(32, crossing_reads(plan, "large reads", there, 128 << 10, count))?;
    found.add("read 131072 q32", stream.took.0 as f64 / count as f64, 0.03);
    for size in [plan.small(), 64 << 10] {
        let count = 192.min(plan.area / 16 / size);
        let from = plan.part(2, 4).offset;
        let commands =
            (0..count).map(|nth| Command::Read(Extent { offset: from + nth * size, len: size }));
        let stream = lab.stream(1, commands)?;
        found.add(format!("sequential read {size} q1"), stream.middle_ns(), 0.03);
    }
    Ok(())
}

/// Sizes of random writes.
pub const WRITE_SIZES: [u64; 5] = [4096, 8192, 16 << 10, 32 << 10, 64 << 10];

/// Random writes of increasing sizes over mapped space; those below a mapping unit need a
/// read-modify-write.
pub(super) fn random_writes(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    found: &mut Findings,
) -> TargetResult {
    lab.idle(plan.reach.rest);
    for size in WRITE_SIZES.into_iter().filter(|size| *size >= plan.small()) {
        if !lab.is_worth(&found.observations) {
            return Ok(());
        }
        let count = (plan.area / 16 / size).min(4096) as usize;
        let places =
            RandomOffsets::new(plan, &format!("random writes {size}"), plan.part(0, 4), size)
                .take(count);
        let stream =
            lab.stream(32, places.map(|extent| Command::Write(extent, DataClass::Random)))?;
        let flush = lab.one(Command::Flush)?;
        found.add(format!("random write {size} q32"), stream.took.0 as f64 / count as f64, 0.03);
        // A filesystem's log write before a flush adds to the measured time only.
        let log = if plan.reach.flushes {
            0.0
        } else {
            flush.0 as f64 / (stream.took + flush).0.max(1) as f64
        };
        let to_the_end = (stream.took + flush).0 as f64 / count as f64;
        found.add(
            format!("random write {size} to the end"),
            to_the_end,
            libm::sqrt(0.02 * 0.02 + log * log),
        );
    }
    Ok(())
}

const CLASSES: [(DataClass, &str); 3] = [
    (DataClass::Zero, "zeros"),
    (DataClass::Compressible(50), "half compressible"),
    (DataClass::Random, "random"),
];

/// Sequential writes and reads of zeros, half-compressible and incompressible data. If
/// the link is slower than the flash, write rates do not reveal compression, but
/// compressed data are faster to read from the flash.
pub(super) fn compression(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    found: &mut Findings,
) -> TargetResult {
    for (nth, (class, name)) in (0_u64..).zip(CLASSES) {
        let extent = plan.part(8 + 2 * nth, 10 + 2 * nth);
        let stream = lab.stream(4, sequential(extent, class))?;
        let flush = lab.one(Command::Flush)?;
        found.add(
            format!("write {name}"),
            (stream.took + flush).0 as f64 / extent.len as f64,
            0.02,
        );
        lab.idle(SETTLE);
        let read =
            lab.stream(1, crossing_reads(plan, &format!("read {name}"), extent, 64 << 10, 32))?;
        found.add(format!("read {name}"), read.middle_ns(), 0.02);
    }
    Ok(())
}

/// Single reads during sequential writes: whether and how long they wait for programs.
pub(super) fn stalls(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    found: &mut Findings,
) -> TargetResult {
    let mut beside = reads(plan, "stalls", plan.part(0, 4), plan.small(), usize::MAX);
    let written = plan.part(8, 12);
    let (stream, others) =
        lab.streams(4, sequential(written, DataClass::Random), || beside.next())?;
    lab.one(Command::Flush)?;
    found.add("read beside writes", others.middle_ns(), 0.04);
    found.add("read beside writes p90", others.percentile_ns(90), 0.08);
    found.add("write beside reads", stream.took.0 as f64 / written.len as f64, 0.03);
    Ok(())
}
