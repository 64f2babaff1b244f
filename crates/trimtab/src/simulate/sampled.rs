//! A modelled drive that is looked into every so many bytes written.

use crate::drives::model::Model;
use trimtab_core::drive::{Command, Completion, Device};
use trimtab_core::run::{Axis, Series, Unit};
use trimtab_core::units::{Bytes, Nanos};

/// What is seen at one moment.
#[derive(Clone, Debug)]
struct Sample {
    at: Nanos,
    /// By the host since sampling began.
    written: u64,
    /// To the medium, since the drive was new.
    medium_written: u64,
    /// Shares of the drive's state that have a series each.
    states: Vec<u64>,
}

/// Counters that have a series each.
const STATES: [(&str, &str); 4] = [
    ("now_mapped_bytes", "state.mapped"),
    ("now_trimmed_bytes", "state.trimmed"),
    ("now_stale_bytes", "state.stale"),
    ("now_free_bytes", "state.free"),
];

/// The drive and its samples.
pub struct Sampled {
    drive: Box<dyn Model>,
    every: u64,
    written: u64,
    next: u64,
    samples: Vec<Sample>,
    medium_before: u64,
}

impl Sampled {
    /// Looks into `drive` now, and after each further `every` bytes written.
    pub fn new(drive: Box<dyn Model>, now: Nanos, every: Bytes) -> Self {
        let medium_before = drive.written().1;
        let every = every.0.max(1);
        let mut sampled = Self { drive, every, written: 0, next: every, samples: Vec::new(), medium_before };
        sampled.sample(now);
        sampled
    }

    /// The drive.
    pub fn into_drive(self) -> Box<dyn Model> {
        self.drive
    }

    fn sample(&mut self, at: Nanos) {
        let counters = self.drive.counters();
        let states = STATES.iter().map(|(counter, _)| counters.get(*counter).copied().unwrap_or(0)).collect();
        let (_, medium_written) = self.drive.written();
        self.samples.push(Sample { at, written: self.written, medium_written, states });
    }

    /// Neighbouring samples between which something was written and time passed.
    fn steps(&self) -> impl Iterator<Item = (&Sample, &Sample)> {
        self.samples.windows(2).map(|pair| (&pair[0], &pair[1])).filter(|(a, b)| b.at > a.at && b.written > a.written)
    }

    /// Rate of host writes in each step, in 10^6 bytes per second.
    pub fn write_rates(&self) -> Vec<f64> {
        self.steps().map(|(a, b)| (b.written - a.written) as f64 * 1e3 / (b.at.0 - a.at.0) as f64).collect()
    }

    /// Bytes that the host wrote in each step.
    pub fn written_per_sample(&self) -> Vec<Bytes> {
        self.steps().map(|(a, b)| Bytes(b.written - a.written)).collect()
    }

    /// Write amplification since sampling began.
    pub fn waf_total(&self) -> Option<f64> {
        let medium = self.drive.written().1 - self.medium_before;
        (self.written > 0).then(|| medium as f64 / self.written as f64)
    }

    /// Write amplification over the last quarter of the samples: the steady value, if it was reached by then.
    pub fn waf_last_quarter(&self) -> Option<f64> {
        let last = self.samples.last()?;
        let first = &self.samples[self.samples.len() * 3 / 4];
        let written = last.written - first.written;
        (written > 0).then(|| (last.medium_written - first.medium_written) as f64 / written as f64)
    }

    /// Rate, write amplification and state of the drive over bytes written.
    pub fn series(&self) -> Vec<Series> {
        let steps: Vec<(&Sample, &Sample)> = self.steps().collect();
        let over = |name: &str, unit, value: &dyn Fn(&Sample, &Sample) -> f64| Series {
            name: name.to_owned(),
            axis: Axis::BytesWritten,
            x: steps.iter().map(|(_, b)| b.written).collect(),
            unit,
            y: steps.iter().map(|(a, b)| value(a, b)).collect(),
        };
        let mut series = vec![
            over("write.rate", Unit::MegabytesPerSecond, &|a, b| (b.written - a.written) as f64 * 1e3 / (b.at.0 - a.at.0) as f64),
            over("waf", Unit::Ratio, &|a, b| (b.medium_written - a.medium_written) as f64 / (b.written - a.written) as f64),
        ];
        for (i, (_, name)) in STATES.iter().enumerate() {
            if self.samples.iter().any(|sample| sample.states[i] > 0) {
                series.push(over(name, Unit::Bytes, &|_, b| b.states[i] as f64));
            }
        }
        series
    }
}

impl Device for Sampled {
    fn size(&self) -> Bytes {
        self.drive.size()
    }

    fn logical_block(&self) -> u32 {
        self.drive.logical_block()
    }

    fn supports_trim(&self) -> bool {
        self.drive.supports_trim()
    }

    fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
        let completion = self.drive.submit(now, command);
        if let (Command::Write(extent, _), Ok(())) = (command, completion.result) {
            self.written += extent.len;
            if self.written >= self.next {
                self.next += self.every;
                self.sample(completion.done.max(now));
            }
        }
        completion
    }

    fn idle(&mut self, until: Nanos) {
        self.drive.idle(until);
    }
}
