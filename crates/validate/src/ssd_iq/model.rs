//! A measured run on a modelled drive of reduced size.

use super::load::{Load, Pattern};
use trimtab_drive::data::DataClass;
use trimtab_drive::model::with_short_blocks;
use trimtab_drive::spec::{DriveSpec, SpecError};
use trimtab_drive::ssd::Ssd;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Device as _, Extent};

pub(super) const UNIT: u64 = 4096;
/// Length of a bin in drive writes, as in the measured curves.
const BIN: f64 = 0.05;

/// State of the used range before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing written.
    Empty,
    /// Written once in order.
    Sequential,
    /// Written once in random order.
    Random,
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Pattern of the writes.
    pub pattern: Pattern,
    /// True if ranks and zones lie at random addresses.
    pub scattered: bool,
    /// State before the run.
    pub start: Start,
    /// Used share of the device.
    pub used: f64,
    /// Written bytes over used bytes.
    pub drive_writes: f64,
    /// Writes in flight.
    pub depth: usize,
}

/// Result of a run, of the measured drive or the model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Rate of the first 2 % of the used size in MB/s.
    pub fresh_mbs: f64,
    /// Rate of the last fifth in MB/s.
    pub steady_mbs: f64,
    /// Slowest bin in MB/s.
    pub trough_mbs: f64,
    /// Start of the first bin below the mean of fresh and steady rate, in drive writes.
    pub cliff_at: Option<f64>,
    /// WAF of the last fifth.
    pub waf: Option<f64>,
    /// WAF of the last fifth without metadata.
    pub gc_waf: Option<f64>,
}

/// A drive in a closed loop with a constant number of writes in flight.
pub struct Host {
    pub(super) ssd: Ssd,
    pub(super) completions: Vec<Nanos>,
    next: usize,
    /// Least time of a command in nanoseconds, which the host takes.
    pub(super) command_ns: u64,
}

impl Host {
    pub(super) fn new(ssd: Ssd, depth: usize) -> Self {
        Self { ssd, completions: vec![Nanos(0); depth], next: 0, command_ns: 0 }
    }

    /// Writes the first `units` units once in order.
    pub(super) fn fill_in_order(&mut self, units: u64) {
        for from in (0..units).step_by(128) {
            self.write(from, 128.min(units - from));
        }
    }

    pub(super) fn write(&mut self, unit: u64, units: u64) -> Nanos {
        let now = self.completions[self.next];
        let extent = Extent { offset: unit * UNIT, len: units * UNIT };
        let done = self.ssd.submit(now, &Command::Write(extent, DataClass::Random)).done;
        let done = done.max(Nanos(now.0 + self.command_ns));
        self.completions[self.next] = done;
        self.next = (self.next + 1) % self.completions.len();
        done
    }

    /// Completion of all writes.
    pub(super) fn now(&self) -> Nanos {
        self.completions.iter().copied().max().unwrap_or(Nanos(0))
    }
}

/// `spec` with erase blocks so short that the drive holds `pages` times 2 GiB.
///
/// # Errors
/// If the specification is invalid.
pub(super) fn small(spec: &DriveSpec, pages: u32) -> Result<DriveSpec, SpecError> {
    let whole = spec.flash().map_or(1, |flash| flash.geometry.pages_per_block);
    let wanted = (u64::from(pages) << 31) as f64 / spec.capacity_bytes as f64;
    with_short_blocks(spec, (libm::ceil(f64::from(whole) * wanted) as u32).min(whole))
}

/// Runs `run` on `spec`, [scaled](small) to `pages` times 2 GiB.
///
/// # Errors
/// If the specification is invalid.
pub fn run(spec: &DriveSpec, run: &Run, pages: u32, seed: u64) -> Result<Outcome, SpecError> {
    let small = small(spec, pages)?;
    let used = |capacity: u64| ((capacity / UNIT) as f64 * run.used) as u64;
    let units = used(small.capacity_bytes);
    let mut host = Host::new(Ssd::new(&small, seed)?, run.depth);
    fill(&mut host, run.start, units, seed);
    let mut load = Load::new(
        run.pattern.clone(),
        units as u32,
        used(spec.capacity_bytes),
        run.scattered,
        seed,
    );
    let total = (run.drive_writes * units as f64) as u64;
    let mut marks = Marks::new(&host);
    let fresh_end = (units / 50).max(1).min(total);
    let steady_from = total - total / 5;
    let bin = ((units as f64 * BIN) as u64).max(1);
    let (mut fresh, mut steady) = (0.0, Marks::new(&host));
    let mut bins: Vec<f64> = Vec::new();
    let mut bin_start = Marks::new(&host);
    for written in 1..=total {
        host.write(u64::from(load.next_unit()), 1);
        if written == fresh_end {
            fresh = marks.rate(&host, fresh_end);
            marks = Marks::new(&host);
        }
        if written == steady_from {
            steady = Marks::new(&host);
        }
        if written.is_multiple_of(bin) {
            bins.push(bin_start.rate(&host, bin));
            bin_start = Marks::new(&host);
        }
    }
    let steady_mbs = steady.rate(&host, total - steady_from);
    let waf = host.ssd.waf_since(&steady.counters);
    let floor = 1.0 + f64::from(host.ssd.layout().metadata_permille) / 1000.0;
    let middle = f64::midpoint(fresh, steady_mbs);
    let cliff = bins.iter().position(|rate| *rate < middle).filter(|_| steady_mbs < 0.9 * fresh);
    Ok(Outcome {
        fresh_mbs: fresh,
        steady_mbs,
        trough_mbs: bins.iter().copied().fold(f64::INFINITY, f64::min),
        cliff_at: cliff.map(|nth| nth as f64 * BIN),
        waf,
        gc_waf: waf.map(|waf| waf / floor),
    })
}

/// Brings the first `units` units into the state `start`.
fn fill(host: &mut Host, start: Start, units: u64, seed: u64) {
    match start {
        Start::Empty => {}
        Start::Sequential => host.fill_in_order(units),
        Start::Random => {
            let mut order: Vec<u32> = (0..units as u32).collect();
            trimtab_drive::rng::Stream::new(seed, "ssd-iq fill").shuffle(&mut order);
            for unit in order {
                host.write(u64::from(unit), 1);
            }
        }
    }
}

/// Time and counters at one point of a run.
pub(super) struct Marks {
    at: Nanos,
    pub(super) counters: trimtab_drive::counters::Counters,
}

impl Marks {
    pub(super) fn new(host: &Host) -> Self {
        Self { at: host.now(), counters: host.ssd.counters().clone() }
    }

    /// MB/s of `units` units written since these marks.
    pub(super) fn rate(&self, host: &Host, units: u64) -> f64 {
        let ns = (host.now().0 - self.at.0).max(1);
        (units * UNIT) as f64 / ns as f64 * 1e3
    }
}
