//! A measured run on a modelled drive of reduced size.

use super::load::{Load, Pattern};
use super::series::{LogSeries, NandPoint};
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::model::with_short_blocks;
use trimtab_drive::spec::{DriveSpec, SpecError};
use trimtab_drive::ssd::Ssd;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Device as _, Extent};

/// Unit of addresses in bytes.
pub const UNIT: u64 = 4096;
/// Points of a modelled run per drive write.
const POINTS: u64 = 200;
/// Drive writes after which a run under its own pattern is steady.
pub const STEADY_AFTER: f64 = 2.5;

/// State of the used range before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing written.
    Empty,
    /// Written once in order.
    Sequential,
    /// Written once in random order.
    Random,
    /// Written once in order, then overwritten by the pattern until steady.
    Overwritten,
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
    /// Length of a write in units of 4 KiB.
    pub request_units: u32,
}

/// A drive in a closed loop with a constant number of writes in flight.
pub struct Host {
    /// The drive.
    pub ssd: Ssd,
    /// Completion of the last command of each place in flight.
    pub completions: Vec<Nanos>,
    next: usize,
    /// Least time of a command in nanoseconds, which the host takes.
    pub command_ns: u64,
}

impl Host {
    /// A host with `depth` writes in flight.
    #[must_use]
    pub fn new(ssd: Ssd, depth: usize) -> Self {
        Self { ssd, completions: vec![Nanos(0); depth], next: 0, command_ns: 0 }
    }

    /// Writes the first `units` units once in order.
    pub fn fill_in_order(&mut self, units: u64) {
        for from in (0..units).step_by(128) {
            self.write(from, 128.min(units - from));
        }
    }

    /// Writes `units` units from `unit` on, when the first place is free. Returns the
    /// completion.
    pub fn write(&mut self, unit: u64, units: u64) -> Nanos {
        let now = self.completions[self.next];
        let extent = Extent { offset: unit * UNIT, len: units * UNIT };
        let done = self.ssd.submit(now, &Command::Write(extent, DataClass::Random)).done;
        let done = done.max(Nanos(now.0 + self.command_ns));
        self.completions[self.next] = done;
        self.next = (self.next + 1) % self.completions.len();
        done
    }

    /// Completion of all writes.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.completions.iter().copied().max().unwrap_or(Nanos(0))
    }
}

/// `spec` with erase blocks so short that the drive holds `pages` times 2 GiB.
///
/// # Errors
/// If the specification is invalid.
pub fn small(spec: &DriveSpec, pages: u32) -> Result<DriveSpec, SpecError> {
    let whole = spec.flash.geometry.pages_per_block;
    let wanted = (u64::from(pages) << 31) as f64 / spec.capacity_bytes as f64;
    with_short_blocks(spec, (libm::ceil(f64::from(whole) * wanted) as u32).min(whole))
}

/// The log of `run` on `spec`, [scaled](small) to `pages` times 2 GiB, and the used bytes.
///
/// # Errors
/// If the specification is invalid.
pub fn series(
    spec: &DriveSpec,
    run: &Run,
    pages: u32,
    seed: u64,
) -> Result<(LogSeries, f64), SpecError> {
    let small = small(spec, pages)?;
    let request = u64::from(run.request_units.max(1));
    let places = |capacity: u64| ((capacity / UNIT) as f64 * run.used) as u64 / request;
    let count = places(small.capacity_bytes).max(1);
    let mut host = Host::new(Ssd::new(&small, seed)?, run.depth);
    fill(&mut host, run.start, count * request, seed);
    let mut load = Load::new(
        run.pattern.clone(),
        count as u32,
        places(spec.capacity_bytes),
        run.scattered,
        seed,
    );
    if run.start == Start::Overwritten {
        for _ in 0..(STEADY_AFTER * count as f64) as u64 {
            host.write(u64::from(load.next_unit()) * request, request);
        }
    }
    let total = (run.drive_writes * count as f64) as u64;
    let before = Marks::new(&host);
    let mut series = LogSeries::default();
    let step = (count / POINTS).max(1);
    for written in 0..=total {
        if written > 0 {
            host.write(u64::from(load.next_unit()) * request, request);
        }
        if written.is_multiple_of(step) || written == total {
            before.add_point(&host, (written * request * UNIT) as f64, &mut series);
        }
    }
    Ok((series, (count * request * UNIT) as f64))
}

/// Brings the first `units` units into the state `start`.
fn fill(host: &mut Host, start: Start, units: u64, seed: u64) {
    match start {
        Start::Empty => {}
        Start::Sequential | Start::Overwritten => host.fill_in_order(units),
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
pub struct Marks {
    at: Nanos,
    /// Counters of the drive.
    pub counters: trimtab_drive::counters::Counters,
}

impl Marks {
    /// Marks of this instant.
    #[must_use]
    pub fn new(host: &Host) -> Self {
        Self { at: host.now(), counters: host.ssd.counters().clone() }
    }

    /// MB/s of `units` units written since these marks.
    #[must_use]
    pub fn rate(&self, host: &Host, units: u64) -> f64 {
        let ns = (host.now().0 - self.at.0).max(1);
        (units * UNIT) as f64 / ns as f64 * 1e3
    }

    /// Adds what happened since these marks, in which the host wrote `bytes`.
    fn add_point(&self, host: &Host, bytes: f64, series: &mut LogSeries) {
        series.written.push(((host.now().0 - self.at.0) as f64 / 1e9, bytes));
        let nand = host.ssd.waf_since(&self.counters).unwrap_or(0.0) * bytes;
        series.nand.push(NandPoint { host_bytes: bytes, written: nand, read: None });
    }
}

/// `spec` with `over` times its capacity in flash.
#[must_use]
pub fn with_raw(spec: &DriveSpec, over: f64) -> DriveSpec {
    let mut spec = spec.clone();
    let capacity = spec.capacity_bytes as f64;
    let flash = &mut spec.flash;
    let now = flash.geometry.raw_bytes() as f64 / capacity;
    let pages = f64::from(flash.geometry.pages_per_block) * over / now;
    flash.geometry.pages_per_block = libm::ceil(pages) as u32;
    spec
}
