//! A modelled drive whose internal state is sampled at intervals of bytes written.

use crate::run::metrics;
use crate::run::{Axis, Series, Unit};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::model::{Model, ThrottleState, TransientRateReason};
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Completion, Device};

/// At this many samples, every other one is dropped and the interval doubles.
const SAMPLES_MAX: usize = 1000;

/// State at one moment.
#[derive(Clone, Debug)]
struct DriveSample {
    at: Nanos,
    /// Host writes since sampling began.
    written: u64,
    /// Medium writes since the drive was new.
    medium_written: u64,
    counters: BTreeMap<String, u64>,
    strain: ThrottleState,
}

impl DriveSample {
    fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

/// States of the drive with a series each.
const STATES: [(&str, &str); 5] = [
    ("now_mapped_bytes", "state.valid"),
    ("now_trimmed_bytes", "state.trimmed"),
    ("now_stale_bytes", "state.stale"),
    ("now_free_bytes", "state.free"),
    ("now_unwritten_bytes", "state.never-written"),
];

/// Counters with a series of their growth per sample, and the factor for the unit.
const GROWTHS: [(&str, &str, Unit, f64); 15] = [
    ("erases", "erases", Unit::Count, 1.0),
    ("gc_die_ns", "gc.die-time", Unit::Seconds, 1e-9),
    ("stall_queue_ns", "stall.queue", Unit::Seconds, 1e-9),
    ("stall_cache_ns", "stall.write-cache", Unit::Seconds, 1e-9),
    ("cache_stall_ns", "stall.write-cache", Unit::Seconds, 1e-9),
    ("stall_trim_ns", "stall.trim", Unit::Seconds, 1e-9),
    ("stall_flush_ns", "stall.flush", Unit::Seconds, 1e-9),
    ("throttled_ns", "stall.throttled", Unit::Seconds, 1e-9),
    ("trim_ns", "trim.time", Unit::Seconds, 1e-9),
    ("trim_asked_bytes", "trim.asked", Unit::Bytes, 1.0),
    ("trim_effective_bytes", "trim.effective", Unit::Bytes, 1.0),
    ("trim_repeated_bytes", "trim.repeated", Unit::Bytes, 1.0),
    ("trim_ignored_bytes", "trim.ignored", Unit::Bytes, 1.0),
    ("seek_ns", "seek.time", Unit::Seconds, 1e-9),
    ("rotation_wait_ns", "rotation.time", Unit::Seconds, 1e-9),
];

/// The drive and its samples.
pub struct SampledDrive {
    drive: Box<dyn Model>,
    every: u64,
    written: u64,
    next: u64,
    samples: Vec<DriveSample>,
    medium_before: u64,
    last_done: Nanos,
}

impl SampledDrive {
    /// Samples `drive` now and after each further `every` bytes written.
    pub fn new(drive: Box<dyn Model>, now: Nanos, every: Bytes) -> Self {
        let medium_before = drive.written().1;
        let every = every.0.max(1);
        let mut sampled = Self {
            drive,
            every,
            written: 0,
            next: every,
            samples: Vec::new(),
            medium_before,
            last_done: now,
        };
        sampled.sample(now);
        sampled
    }

    /// Takes a last sample and returns the drive.
    pub fn finish(&mut self) -> &dyn Model {
        if self.samples.last().is_some_and(|last| last.written < self.written) {
            self.sample(self.last_done);
        }
        self.drive.as_ref()
    }

    /// Host writes since sampling began, and the medium writes they caused.
    pub fn written(&self) -> (u64, u64) {
        (self.written, self.drive.written().1 - self.medium_before)
    }

    #[cold]
    fn sample(&mut self, at: Nanos) {
        if self.samples.len() == SAMPLES_MAX {
            let mut nth = 0;
            self.samples.retain(|_| {
                nth += 1;
                nth % 2 == 1
            });
            self.every *= 2;
        }
        self.next = self.written + self.every;
        let (_, medium_written) = self.drive.written();
        self.samples.push(DriveSample {
            at,
            written: self.written,
            medium_written,
            counters: self.drive.counters(),
            strain: self.drive.strain(),
        });
    }

    /// Adjacent samples with writes and elapsed time in between.
    fn steps(&self) -> impl Iterator<Item = (&DriveSample, &DriveSample)> {
        self.samples
            .windows(2)
            .map(|pair| (&pair[0], &pair[1]))
            .filter(|(a, b)| b.at > a.at && b.written > a.written)
    }

    /// Host write rate of each step, in 10^6 bytes per second.
    pub fn write_rates(&self) -> Vec<f64> {
        self.steps().map(|(a, b)| rate(a, b)).collect()
    }

    /// Reason why the rate of each round of `group` steps will not last; `None` if
    /// stable.
    pub fn unlasting(&self, group: usize) -> Vec<Option<TransientRateReason>> {
        let steps: Vec<(&DriveSample, &DriveSample)> = self.steps().collect();
        let of_round = |round: &[(&DriveSample, &DriveSample)]| {
            let ((from, _), (_, to)) = (round.first()?, round.last()?);
            to.strain.unlasting(self.drive.as_ref(), &from.strain, to.at.0 - from.at.0)
        };
        steps.chunks(group).map(of_round).collect()
    }

    /// Host writes in each step.
    pub fn written_per_sample(&self) -> Vec<Bytes> {
        self.steps().map(|(a, b)| Bytes(b.written - a.written)).collect()
    }

    /// Write amplification since sampling began.
    pub fn waf_total(&self) -> Option<f64> {
        let (host, medium) = self.written();
        (host > 0).then(|| medium as f64 / host as f64)
    }

    /// Write amplification over the last quarter of the samples, usually the steady
    /// value.
    pub fn waf_last_quarter(&self) -> Option<f64> {
        let last = self.samples.last()?;
        let first = &self.samples[self.samples.len() * 3 / 4];
        let written = last.written - first.written;
        (written > 0).then(|| (last.medium_written - first.medium_written) as f64 / written as f64)
    }

    /// Bytes written at the first sample in which a counter exceeds its initial value.
    pub fn first_growth(&self, counter: &str) -> Option<Bytes> {
        let before = self.samples.first()?.counter(counter);
        self.samples
            .iter()
            .find(|sample| sample.counter(counter) > before)
            .map(|sample| Bytes(sample.written))
    }

    /// Rate, write amplification, drive state and counter growth, over bytes written.
    pub fn series(&self) -> Vec<Series> {
        let steps: Vec<(&DriveSample, &DriveSample)> = self.steps().collect();
        let over = |name: &str, unit, value: &dyn Fn(&DriveSample, &DriveSample) -> f64| Series {
            name: name.to_owned(),
            axis: Axis::BytesWritten,
            x: steps.iter().map(|(_, b)| b.written).collect(),
            unit,
            y: steps.iter().map(|(a, b)| value(a, b)).collect(),
        };
        let mut series = vec![
            over(metrics::WRITE_RATE, Unit::MegabytesPerSecond, &|a, b| rate(a, b)),
            over(metrics::WAF, Unit::Ratio, &|a, b| {
                (b.medium_written - a.medium_written) as f64 / (b.written - a.written) as f64
            }),
        ];
        for (counter, name) in STATES {
            if self.samples.iter().any(|sample| sample.counter(counter) > 0) {
                series.push(over(name, Unit::Bytes, &|_, b| b.counter(counter) as f64));
            }
        }
        for (counter, name, unit, factor) in GROWTHS {
            let growth = |a: &DriveSample, b: &DriveSample| {
                b.counter(counter).saturating_sub(a.counter(counter)) as f64 * factor
            };
            if steps.iter().any(|(a, b)| growth(a, b) > 0.0) {
                series.push(over(name, unit, &growth));
            }
        }
        series
    }
}

fn rate(a: &DriveSample, b: &DriveSample) -> f64 {
    (b.written - a.written) as f64 * 1e3 / (b.at.0 - a.at.0) as f64
}

impl Device for SampledDrive {
    fn size(&self) -> Bytes {
        self.drive.size()
    }

    fn logical_block(&self) -> u32 {
        self.drive.logical_block()
    }

    fn supports_trim(&self) -> bool {
        self.drive.supports_trim()
    }

    #[inline]
    fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
        let completion = self.drive.submit(now, command);
        if let (Command::Write(extent, _), Ok(())) = (command, completion.result) {
            self.written += extent.len;
            self.last_done = self.last_done.max(completion.done);
            if self.written >= self.next {
                self.sample(completion.done.max(now));
            }
        }
        completion
    }

    fn idle(&mut self, until: Nanos) {
        self.drive.idle(until);
    }

    #[inline]
    fn prefetch(&self, offset: u64) {
        self.drive.prefetch(offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::shipped;
    use trimtab_drive::Extent;
    use trimtab_drive::data::DataClass;
    use trimtab_drive::model;

    #[test]
    fn samples_are_thinned_and_still_cover_everything() {
        let spec = shipped("ocz-vertex-le-100gb", Bytes(512 << 20));
        let mut sampled = SampledDrive::new(model::build(&spec, 1).unwrap(), Nanos::ZERO, Bytes(1));
        let mut now = Nanos::ZERO;
        for n in 0..5000_u64 {
            let extent = Extent { offset: n % 16_000 * 4096, len: 4096 };
            now = sampled.submit(now, &Command::Write(extent, DataClass::Random)).done;
        }
        sampled.finish();
        let series = sampled.series();
        let rates = &series[0];
        assert!((SAMPLES_MAX / 2..SAMPLES_MAX).contains(&rates.x.len()), "{}", rates.x.len());
        assert_eq!(rates.x.last(), Some(&(5000 * 4096)));
        let written: u64 = sampled.written_per_sample().iter().map(|bytes| bytes.0).sum();
        assert_eq!(written, 5000 * 4096);
    }
}
