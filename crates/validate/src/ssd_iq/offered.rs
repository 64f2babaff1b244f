//! Latency against offered load: measured sweeps, and the same sweeps on the model.

use super::data;
use super::model::{Host, UNIT, small};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::{DriveSpec, SpecError};
use trimtab_drive::ssd::Ssd;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Device as _, Extent};

/// Measured sweeps: figures computed from the raw logs of SSD-iq, commit 8a0a3f4.
pub const LATENCY: &str = include_str!("latency.csv");
/// Simulated time of one step. Its first quarter is not recorded.
const STEP_SECONDS: f64 = 2.0;
/// Drive writes of 4 KiB after the fill, before the first step.
const OVERWRITES: f64 = 2.0;

/// Percentiles of one step, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Percentiles {
    /// Median of the reads.
    pub read_p50: f64,
    /// 99th percentile of the reads.
    pub read_p99: f64,
    /// Median of the writes.
    pub write_p50: f64,
    /// 99th percentile of the writes.
    pub write_p99: f64,
}

/// A step of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Offered commands per second.
    pub offered: f64,
    /// False if the drive did not complete what was offered.
    pub met: bool,
    /// Completed writes per second.
    pub writes: f64,
    /// Measured percentiles.
    pub measured: Percentiles,
}

/// A sweep of one unit, in ascending order of load.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Unit.
    pub unit: String,
    /// Set of the publication, which decides the generators.
    pub set: String,
    /// Steps.
    pub steps: Vec<Step>,
}

/// Parses `csv`; rows of one unit and set form a sweep.
///
/// # Errors
/// The first line that lacks a figure.
pub fn parse(csv: &str) -> Result<Vec<Sweep>, String> {
    let mut sweeps: Vec<Sweep> = Vec::new();
    for row in data::rows(csv) {
        let (unit, set) = (row.text("drive").to_owned(), row.text("set").to_owned());
        let step = Step {
            offered: row.number("offered_ops_s")?,
            met: row.text("saturated") != "yes",
            writes: row.number("achieved_writes_s")?,
            measured: Percentiles {
                read_p50: row.number("read_p50_us")?,
                read_p99: row.number("read_p99_us")?,
                write_p50: row.number("write_p50_us")?,
                write_p99: row.number("write_p99_us")?,
            },
        };
        match sweeps.iter_mut().find(|sweep| sweep.unit == unit && sweep.set == set) {
            Some(sweep) => sweep.steps.push(step),
            None => sweeps.push(Sweep { unit, set, steps: vec![step] }),
        }
    }
    sweeps.iter_mut().for_each(|sweep| sweep.steps.sort_by(|a, b| a.offered.total_cmp(&b.offered)));
    Ok(sweeps)
}

/// A thread that submits commands at random instants, with a limited number in flight. A
/// command whose turn has come waits for a free place; that wait is not part of its
/// latency.
struct Generator {
    per_second: f64,
    write_share: f64,
    depth: usize,
    recorded: bool,
    due: f64,
    in_flight: BinaryHeap<Reverse<u64>>,
}

impl Generator {
    fn new(per_second: f64, write_share: f64, depth: usize, recorded: bool) -> Self {
        Self { per_second, write_share, depth, recorded, due: 0.0, in_flight: BinaryHeap::new() }
    }

    fn next(&self) -> u64 {
        let due = self.due as u64;
        if self.in_flight.len() < self.depth {
            due
        } else {
            self.in_flight.peek().map_or(due, |first| due.max(first.0))
        }
    }

    fn schedule(&mut self, stream: &mut Stream) {
        self.due -= libm::log(1.0 - stream.unit()) / self.per_second * 1e9;
    }
}

/// Threads of `set` that offer `offered` commands per second together.
fn generators(set: &str, offered: f64) -> Vec<Generator> {
    let (probe, probe_writes, threads) = match set {
        "i4i-aws" => return vec![Generator::new(offered, 0.99, 256, true)],
        // The clock of this tool ran 1.088 times too fast.
        "i4i-lat" => (10_880.0, 0.8, 8),
        _ => (10_000.0, 0.5, 6),
    };
    let each = (offered - probe).max(1.0) / f64::from(threads);
    let loads = (0..threads).map(|_| Generator::new(each, 0.99, 64, false));
    std::iter::once(Generator::new(probe, probe_writes, 64, true)).chain(loads).collect()
}

/// The drive after a sequential fill and uniform overwrites, [scaled](small) to `pages`
/// times 2 GiB.
///
/// # Errors
/// If the specification is invalid.
pub fn steady(spec: &DriveSpec, pages: u32, seed: u64) -> Result<Host, SpecError> {
    let mut small = small(spec, pages)?;
    // Commands wait for whole steps; there are fewer of them.
    small.flash.ftl.gc.step_ns = spec.flash.ftl.gc.step_ns;
    let units = small.capacity_bytes / UNIT;
    let mut host = Host::new(Ssd::new(&small, seed)?, 512);
    host.fill_in_order(units);
    let mut stream = Stream::new(seed, "ssd-iq overwrites");
    for _ in 0..(units as f64 * OVERWRITES) as u64 {
        host.write(stream.below(units), 1);
    }
    Ok(host)
}

/// Percentiles of the drive of `host` at `offered` commands per second from the threads
/// of `set`.
pub fn step(host: &Host, set: &str, offered: f64, seed: u64) -> Percentiles {
    let (mut ssd, from) = (host.ssd.clone(), host.now());
    let units = ssd.size().0 / UNIT;
    let mut stream = Stream::new(seed, "ssd-iq offered load");
    let mut threads = generators(set, offered);
    for thread in &mut threads {
        thread.due = from.0 as f64;
        thread.schedule(&mut stream);
    }
    let (recorded_from, end) =
        (from.0 + (STEP_SECONDS * 0.25e9) as u64, from.0 + (STEP_SECONDS * 1e9) as u64);
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let mut now = from.0;
    while let Some(thread) = threads.iter_mut().min_by_key(|thread| thread.next()) {
        // A thread that is late has its next command ready in the past.
        now = now.max(thread.next());
        if now >= end {
            break;
        }
        if thread.in_flight.len() == thread.depth {
            thread.in_flight.pop();
        }
        let extent = Extent { offset: stream.below(units) * UNIT, len: UNIT };
        let write = stream.unit() < thread.write_share;
        let command =
            if write { Command::Write(extent, DataClass::Random) } else { Command::Read(extent) };
        let done = ssd.submit(Nanos(now), &command).done.0;
        thread.in_flight.push(Reverse(done));
        while thread.in_flight.peek().is_some_and(|first| first.0 <= now) {
            thread.in_flight.pop();
        }
        thread.schedule(&mut stream);
        if thread.recorded && now >= recorded_from {
            if write { &mut writes } else { &mut reads }.push(done - now);
        }
    }
    Percentiles {
        read_p50: percentile(&mut reads, 0.5),
        read_p99: percentile(&mut reads, 0.99),
        write_p50: percentile(&mut writes, 0.5),
        write_p99: percentile(&mut writes, 0.99),
    }
}

/// The `share` quantile of `latencies` in microseconds.
fn percentile(latencies: &mut [u64], share: f64) -> f64 {
    latencies.sort_unstable();
    let at = (latencies.len() as f64 * share) as usize;
    latencies.get(at.min(latencies.len().saturating_sub(1))).map_or(0.0, |ns| *ns as f64 / 1000.0)
}
