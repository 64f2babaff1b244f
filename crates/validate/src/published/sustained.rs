//! The published results of long sequential writes, and of what a trim brings back, on modelled drives without a filesystem.

use super::spec::{Configuration, Modelled};
use std::collections::VecDeque;
use trimtab::drives::Drive;
use trimtab_drive::data::DataClass;
use trimtab_drive::model;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Device, Extent};
use trimtab_linux::sys::interrupt;
use trimtab_sim::analysis::change_points::{Options, change_points};

/// The reviews write blocks of 1 MB in one stream; how many are under way at once is not published.
const BLOCK: u64 = 1 << 20;
const STREAM_DEPTH: usize = 4;
/// Parts of the drive, for each of which there is a rate: as a review's curve has hundreds of points.
const PARTS: u64 = 1500;
/// A change of the rate that a review would mention.
const STEP_MIN: f64 = 0.15;

/// Rates before and behind the knees of one stream of writes onto an erased drive.
pub fn until_full(drive: &Drive, seed: u64) -> anyhow::Result<Modelled> {
    let capacity = drive.spec.capacity_bytes / BLOCK * BLOCK;
    let (rates, seconds) = stream(drive, capacity, seed)?;
    let part_gb = capacity as f64 / rates.len() as f64 / 1e9;
    let knees = change_points(&rates, &Options { step_min: STEP_MIN, ..Options::default() });
    let mut modelled = Modelled::from([("whole_drive_mean_MBps", capacity as f64 / 1e6 / seconds)]);
    modelled.insert("first_MBps", knees.first().map_or_else(|| mean(&rates), |knee| knee.before));
    if let Some(first) = knees.first() {
        let end = knees.get(1).map_or(rates.len(), |knee| knee.index);
        modelled.insert("slc_GB", first.index as f64 * part_gb);
        modelled.insert("second_MBps", harmonic(&rates[first.index..end]));
        modelled.insert("second_until_GB", end as f64 * part_gb);
        if end < rates.len() {
            modelled.insert("third_MBps", harmonic(&rates[end..]));
        }
    }
    Ok(modelled)
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len().max(1) as f64
}

/// The mean over what is written, not over time: equal parts of the drive.
fn harmonic(rates: &[f64]) -> f64 {
    rates.len() as f64 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>()
}

/// The rate of each part in MB/s, and seconds for all.
fn stream(drive: &Drive, capacity: u64, seed: u64) -> anyhow::Result<(Vec<f64>, f64)> {
    let mut device = model::build(&drive.spec, seed)?;
    let blocks = capacity / BLOCK;
    let per_part = blocks.div_ceil(PARTS).max(1);
    let mut window = Window::new(Nanos::ZERO, STREAM_DEPTH);
    let mut part_began = Nanos::ZERO;
    let mut rates = Vec::new();
    for block in 0..blocks {
        window.write(device.as_mut(), block * BLOCK, BLOCK);
        if (block + 1) % per_part == 0 || block + 1 == blocks {
            if interrupt::requested() {
                return Err(trimtab_linux::sys::interrupt::Interrupted.into());
            }
            let written = (block % per_part + 1) * BLOCK;
            rates.push(written as f64 / 1e6 / (window.last - part_began).as_secs_f64());
            part_began = window.last;
        }
    }
    Ok((rates, window.last.as_secs_f64()))
}

/// The recovery runs on a drive of this part of the size; the times of random writes and of rest are shortened alike.
const RECOVERY_PART: u64 = 24;
const RANDOM_TIME: Nanos = Nanos::from_millis(30 * 60 * 1000 / RECOVERY_PART);
const IDLE_TIME: Nanos = Nanos::from_millis(30 * 60 * 1000 / RECOVERY_PART);
const RANDOM_SIZE: u64 = 4096;
const RANDOM_DEPTH: usize = 32;

/// Mean rates of writing the drive once: after random writes, after a trim of everything and idle time, and after a secure erase.
pub fn recovery(configuration: &Configuration, drive: &Drive, seed: u64) -> anyhow::Result<Modelled> {
    let spec = model::sized(drive.spec.clone(), Some(Bytes(drive.spec.capacity_bytes / RECOVERY_PART)))?;
    let capacity = spec.capacity_bytes / BLOCK * BLOCK;
    let filled = capacity / 100 * u64::from(configuration.fill_percent) / BLOCK * BLOCK;
    let all = |device: &mut dyn Device, began: Nanos| -> anyhow::Result<(f64, Nanos)> {
        let ended = in_order(device, began, capacity)?;
        Ok((capacity as f64 / 1e6 / (ended - began).as_secs_f64(), ended))
    };
    let (erased, _) = all(model::build(&spec, seed)?.as_mut(), Nanos::ZERO)?;
    let mut device = model::build(&spec, seed)?;
    let now = in_order(device.as_mut(), Nanos::ZERO, filled)?;
    let now = at_random(device.as_mut(), now, filled, seed)?;
    let (dirty, now) = all(device.as_mut(), now)?;
    let trimmed = device.submit(now, &Command::trim(&[Extent { offset: 0, len: capacity }])).done;
    let now = trimmed + IDLE_TIME;
    device.idle(now);
    let (after, _) = all(device.as_mut(), now)?;
    Ok([("dirty_MBps", dirty), ("after_trim_MBps", after), ("erased_MBps", erased)].into())
}

/// Writes the first `len` bytes in order; when the last write has ended.
fn in_order(device: &mut dyn Device, began: Nanos, len: u64) -> anyhow::Result<Nanos> {
    let mut window = Window::new(began, STREAM_DEPTH);
    for offset in (0..len).step_by(BLOCK as usize) {
        window.write(device, offset, BLOCK);
    }
    if interrupt::requested() { Err(trimtab_linux::sys::interrupt::Interrupted.into()) } else { Ok(window.last) }
}

/// Writes at random places of the first `len` bytes for [`RANDOM_TIME`]; when the last write has ended.
fn at_random(device: &mut dyn Device, began: Nanos, len: u64, seed: u64) -> anyhow::Result<Nanos> {
    let mut window = Window::new(began, RANDOM_DEPTH);
    let mut places = trimtab_drive::rng::Stream::new(seed, "recovery");
    while window.last < began + RANDOM_TIME {
        window.write(device, places.below(len / RANDOM_SIZE) * RANDOM_SIZE, RANDOM_SIZE);
    }
    if interrupt::requested() { Err(trimtab_linux::sys::interrupt::Interrupted.into()) } else { Ok(window.last) }
}

/// Writes of which so many are under way: a further one is begun when the one begun longest ago has ended.
struct Window {
    under_way: VecDeque<Nanos>,
    last: Nanos,
}

impl Window {
    fn new(began: Nanos, depth: usize) -> Self {
        Self { under_way: VecDeque::from(vec![began; depth]), last: began }
    }

    fn write(&mut self, device: &mut dyn Device, offset: u64, len: u64) {
        let now = self.under_way.pop_front().unwrap_or(self.last);
        let done = device.submit(now, &Command::Write(Extent { offset, len }, DataClass::Random)).done;
        // Ends are taken in the order of beginnings, as one thread that reaps in order sees them.
        self.last = self.last.max(done);
        self.under_way.push_back(self.last);
    }
}
