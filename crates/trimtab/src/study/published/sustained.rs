//! The published results of long sequential writes, and of what a trim brings back, on modelled drives without a filesystem.

use super::Modelled;
use super::spec::Configuration;
use crate::drives::{Drive, model};
use crate::interrupt;
use crate::runner;
use crate::target::drive::DriveTarget;
use trimtab_core::analysis::change_points::{Options, change_points};
use trimtab_core::data::DataClass;
use trimtab_core::drive::{Command, Device as _, Extent};
use trimtab_core::target::Clock as _;
use trimtab_core::units::{Bytes, Nanos};
use trimtab_core::workload::Limit;
use trimtab_core::workload::crystal::figures::rate;
use trimtab_core::workload::synthetic::{Mix, Pattern, Settings, Synthetic};

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
    let mut under_way = std::collections::VecDeque::from(vec![Nanos::ZERO; STREAM_DEPTH]);
    let (mut last, mut part_began) = (Nanos::ZERO, Nanos::ZERO);
    let mut rates = Vec::new();
    for block in 0..blocks {
        let now = under_way.pop_front().unwrap_or(last);
        let extent = Extent { offset: block * BLOCK, len: BLOCK };
        let done = device.submit(now, &Command::Write(extent, DataClass::Random)).done;
        under_way.push_back(done.max(last));
        last = last.max(done);
        if (block + 1) % per_part == 0 || block + 1 == blocks {
            if interrupt::requested() {
                return Err(crate::error::Interrupted.into());
            }
            let written = (block % per_part + 1) * BLOCK;
            rates.push(written as f64 / 1e6 / (last - part_began).as_secs_f64());
            part_began = last;
        }
    }
    Ok((rates, last.as_secs_f64()))
}

/// The recovery runs on a drive of a sixteenth of the size; the time of random writes is shortened alike.
const RECOVERY_PART: u64 = 16;
const RANDOM_TIME: Nanos = Nanos::from_secs(30 * 60 / RECOVERY_PART);
const IDLE_TIME: Nanos = Nanos::from_secs(30 * 60 / RECOVERY_PART);

/// Mean rates of writing the drive once: after random writes, after a trim of everything and idle time, and after a secure erase.
pub fn recovery(configuration: &Configuration, drive: &Drive, seed: u64) -> anyhow::Result<Modelled> {
    let spec = model::sized(drive.spec.clone(), Some(Bytes(drive.spec.capacity_bytes / RECOVERY_PART)))?;
    let capacity = spec.capacity_bytes / BLOCK * BLOCK;
    let filled = capacity / 100 * u64::from(configuration.fill_percent) / BLOCK * BLOCK;
    let mut target = DriveTarget::new(model::build(&spec, seed)?, spec.interface.queue_depth.max(32));
    let run = |target: &mut DriveTarget<Box<dyn model::Model>>, pattern, size: u32, span: u64, limit| -> anyhow::Result<f64> {
        let settings = Settings {
            pattern,
            mix: Mix::default(),
            sizes: vec![(size, 1)],
            data: DataClass::Random,
            offset: 0,
            span,
            queue_depth: 32,
            limit,
        };
        let mut workload = Synthetic::new(settings, seed).map_err(|error| anyhow::anyhow!("{error}"))?;
        let phases = runner::blocks::run(&mut workload, target, &mut ()).complete()?.phases;
        Ok(phases.first().map_or(0.0, rate))
    };
    let all = |target: &mut _| run(target, Pattern::Sequential, BLOCK as u32, capacity, Limit::Bytes(Bytes(capacity)));
    let erased = all(&mut target)?;
    let mut target = DriveTarget::new(model::build(&spec, seed)?, spec.interface.queue_depth.max(32));
    run(&mut target, Pattern::Sequential, BLOCK as u32, filled, Limit::Bytes(Bytes(filled)))?;
    run(&mut target, Pattern::Uniform, 4096, filled, Limit::Time(RANDOM_TIME))?;
    let dirty = all(&mut target)?;
    let mut now = target.now();
    let mut device = target.into_drive();
    now = device.submit(now, &Command::Trim(&[Extent { offset: 0, len: capacity }])).done;
    let mut target = DriveTarget::new(device, spec.interface.queue_depth.max(32)).at(now);
    target.idle_until(now + IDLE_TIME);
    let after = all(&mut target)?;
    Ok([("dirty_MBps", dirty), ("after_trim_MBps", after), ("erased_MBps", erased)].into())
}
