//! An open-loop load: random requests at a sweep of offered rates.

use super::{Job, JobAddresses, JobMix, JobPace};
use crate::workload::synthetic::Pattern;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::units::Nanos;

/// Name of the closed-loop job.
pub const CLOSED: &str = "closed-loop";
/// Name of the job that repeats it after the steps.
pub const CLOSED_AGAIN: &str = "closed-loop-again";
/// Largest number of requests in flight of an open loop.
const OPEN_DEPTH: u32 = 1024;

/// Settings of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSettings {
    /// Percentage of reads; the rest are writes.
    pub read_percent: u8,
    /// Size of requests.
    pub block: u32,
    /// Requests in flight of the closed loop.
    pub depth: u32,
    /// Offered rates in percent of the closed loop's rate, ascending.
    pub percents: Vec<u32>,
    /// Duration of the closed loop and of each step. The first quarter is not recorded.
    pub time: Nanos,
}

impl LoadSettings {
    /// The name of a step.
    #[must_use]
    pub fn step_name(percent: u32) -> String {
        format!("load-{percent}")
    }

    /// The closed loop, which measures the highest rate.
    #[must_use]
    pub fn closed_loop(&self) -> Job {
        Job { depth: self.depth, ..self.job(CLOSED) }
    }

    /// The closed loop after the steps, which shows whether the target has changed.
    #[must_use]
    pub fn closed_again(&self) -> Job {
        Job { name: CLOSED_AGAIN.into(), ..self.closed_loop() }
    }

    /// The steps, if the closed loop has this rate. Requests are due at random times, and
    /// their latency counts from then.
    #[must_use]
    pub fn steps(&self, per_second: f64) -> Vec<Job> {
        let step = |percent: &u32| Job {
            depth: OPEN_DEPTH,
            pace: JobPace::Random(per_second * f64::from(*percent) / 100.0),
            latency_from_due: true,
            ..self.job(&Self::step_name(*percent))
        };
        self.percents.iter().map(step).collect()
    }

    fn job(&self, name: &str) -> Job {
        Job {
            waits: true,
            mix: JobMix::of_reads(self.read_percent),
            addresses: JobAddresses::Drawn(Pattern::Uniform, 100),
            block: self.block,
            runtime: Some(Nanos(self.time.0 - self.time.0 / 4)),
            ramp: Nanos(self.time.0 / 4),
            time_based: true,
            ..Job::new(name)
        }
    }
}
