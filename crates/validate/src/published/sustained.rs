//! Published sustained writes and recovery after a trim, without a filesystem.

use super::spec::{Configuration, ModelledFigures};
use std::collections::VecDeque;
use trimtab::drives::Drive;
use trimtab_drive::data::DataClass;
use trimtab_drive::model;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Device, Extent};
use trimtab_linux::sys::interrupt;
use trimtab_sim::analysis::change_points::{ChangePointOptions, change_points};

/// Reviews write 1 MB blocks in one stream; their queue depth is not published.
const BLOCK: u64 = 1 << 20;
const STREAM_DEPTH: usize = 4;
/// Number of parts of the drive with a rate each, like points of a review's curve.
const PARTS: u64 = 1500;
/// Minimum relative rate change that a review would mention.
const STEP_MIN: f64 = 0.15;

/// Rates before and after the knees of one write stream onto an erased drive.
pub fn until_full(drive: &Drive, seed: u64) -> anyhow::Result<ModelledFigures> {
    let capacity = drive.spec.capacity_bytes / BLOCK * BLOCK;
    let (rates, seconds) = stream(drive, capacity, seed)?;
    let part_gb = capacity as f64 / rates.len() as f64 / 1e9;
    let knees = change_points(
        &rates,
        &ChangePointOptions { step_min: STEP_MIN, ..ChangePointOptions::default() },
    );
    let mut modelled =
        ModelledFigures::from([("whole_drive_mean_MBps", capacity as f64 / 1e6 / seconds)]);
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

/// Harmonic mean, because the parts have equal size and not equal time.
fn harmonic(rates: &[f64]) -> f64 {
    rates.len() as f64 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>()
}

/// Rate of each part in MB/s, and total time in seconds.
fn stream(drive: &Drive, capacity: u64, seed: u64) -> anyhow::Result<(Vec<f64>, f64)> {
    let mut device = model::build(&drive.spec, seed)?;
    let blocks = capacity / BLOCK;
    let per_part = blocks.div_ceil(PARTS).max(1);
    let mut window = WriteWindow::new(Nanos::ZERO, STREAM_DEPTH);
    let mut part_began = Nanos::ZERO;
    let mut rates = Vec::new();
    for block in 0..blocks {
        window.write(device.as_mut(), block * BLOCK, BLOCK);
        if (block + 1) % per_part == 0 || block + 1 == blocks {
            if interrupt::requested() {
                return Err(trimtab_linux::sys::interrupt::InterruptError.into());
            }
            let written = (block % per_part + 1) * BLOCK;
            rates.push(written as f64 / 1e6 / (window.last - part_began).as_secs_f64());
            part_began = window.last;
        }
    }
    Ok((rates, window.last.as_secs_f64()))
}

/// Scale divisor of the drive for the recovery; times are shortened alike.
const RECOVERY_PART: u64 = 24;
const RANDOM_TIME: Nanos = Nanos::from_millis(30 * 60 * 1000 / RECOVERY_PART);
const IDLE_TIME: Nanos = Nanos::from_millis(30 * 60 * 1000 / RECOVERY_PART);
const RANDOM_SIZE: u64 = 4096;
const RANDOM_DEPTH: usize = 32;

/// Mean rates of writing the whole drive: after random writes, after a full trim and idle
/// time, and after a secure erase.
pub fn recovery(
    configuration: &Configuration,
    drive: &Drive,
    seed: u64,
) -> anyhow::Result<ModelledFigures> {
    let spec =
        model::sized(drive.spec.clone(), Some(Bytes(drive.spec.capacity_bytes / RECOVERY_PART)))?;
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

/// Writes the first `len` bytes sequentially; returns the end of the last write.
fn in_order(device: &mut dyn Device, began: Nanos, len: u64) -> anyhow::Result<Nanos> {
    let mut window = WriteWindow::new(began, STREAM_DEPTH);
    for offset in (0..len).step_by(BLOCK as usize) {
        window.write(device, offset, BLOCK);
    }
    if interrupt::requested() {
        Err(trimtab_linux::sys::interrupt::InterruptError.into())
    } else {
        Ok(window.last)
    }
}

/// Writes at random within the first `len` bytes; returns the end of the last write.
fn at_random(device: &mut dyn Device, began: Nanos, len: u64, seed: u64) -> anyhow::Result<Nanos> {
    let mut window = WriteWindow::new(began, RANDOM_DEPTH);
    let mut places = trimtab_drive::rng::Stream::new(seed, "recovery");
    while window.last < began + RANDOM_TIME {
        window.write(device, places.below(len / RANDOM_SIZE) * RANDOM_SIZE, RANDOM_SIZE);
    }
    if interrupt::requested() {
        Err(trimtab_linux::sys::interrupt::InterruptError.into())
    } else {
        Ok(window.last)
    }
}

/// A window of writes in flight: when full, the next waits for the oldest.
struct WriteWindow {
    under_way: VecDeque<Nanos>,
    last: Nanos,
}

impl WriteWindow {
    fn new(began: Nanos, depth: usize) -> Self {
        Self { under_way: VecDeque::from(vec![began; depth]), last: began }
    }

    fn write(&mut self, device: &mut dyn Device, offset: u64, len: u64) {
        let now = self.under_way.pop_front().unwrap_or(self.last);
        let done =
            device.submit(now, &Command::Write(Extent { offset, len }, DataClass::Random)).done;
        // Completions are reaped in submission order, as by a single thread.
        self.last = self.last.max(done);
        self.under_way.push_back(self.last);
    }
}
