//! The target of the probes, and the operations that probes use.

use super::Observation;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Device, Extent};
use trimtab_sim::target::drive::DriveTarget;
use trimtab_sim::target::{BlockCompletion, BlockTarget, TargetResult};

/// A block target that also accepts a TRIM of several ranges in one command.
pub trait ProbeTarget: BlockTarget {
    /// Submits a TRIM, as [`BlockTarget::submit`] does.
    ///
    /// # Errors
    /// The target rejects it.
    fn trim(&mut self, tag: u32, ranges: &[Extent]) -> TargetResult;
}

impl<D: Device> ProbeTarget for DriveTarget<D> {
    fn trim(&mut self, tag: u32, ranges: &[Extent]) -> TargetResult {
        self.start(tag, &Command::trim(ranges))
    }
}

/// Given the figures of a run so far, returns false if the others are not needed.
pub type IsWorth<'a> = dyn Fn(&[Observation]) -> bool + 'a;

/// Runs commands on the target.
pub struct ProbeSession<'a> {
    target: &'a mut dyn ProbeTarget,
    is_worth: &'a IsWorth<'a>,
    done: Vec<BlockCompletion>,
    /// Bytes written so far.
    pub written: u64,
    /// Bytes read so far.
    pub read: u64,
}

/// Result of commands that were kept in flight.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// From the first submission to the last completion.
    pub took: Nanos,
    /// Latency of each command, in completion order.
    pub latencies: Vec<Nanos>,
    /// Completion time of each command since the first submission.
    pub completed: Vec<Nanos>,
}

impl Stream {
    /// Mean of the middle four fifths of the latencies, in nanoseconds; excludes rare
    /// retries.
    #[must_use]
    pub fn middle_ns(&self) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let cut = sorted.len() / 10;
        let middle = &sorted[cut..sorted.len() - cut];
        middle.iter().map(|latency| latency.0 as f64).sum::<f64>() / middle.len().max(1) as f64
    }

    /// The given percentile of the latencies, in nanoseconds.
    #[must_use]
    pub fn percentile_ns(&self, percent: usize) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        sorted
            .get((sorted.len().saturating_sub(1)) * percent / 100)
            .map_or(0.0, |latency| latency.0 as f64)
    }
}

impl<'a> ProbeSession<'a> {
    /// Creates a lab with zero counters.
    pub fn new(target: &'a mut dyn ProbeTarget) -> Self {
        Self { target, is_worth: &|_| true, done: Vec::new(), written: 0, read: 0 }
    }

    /// Ends the run as soon as `is_worth` returns false. Later figures are missing then.
    #[must_use]
    pub fn limited(self, is_worth: &'a IsWorth<'a>) -> Self {
        Self { is_worth, ..self }
    }

    /// True if a run with the figures `so_far` should continue.
    #[must_use]
    pub fn is_worth(&self, so_far: &[Observation]) -> bool {
        (self.is_worth)(so_far)
    }

    /// Leaves the drive idle for `time`.
    pub fn idle(&mut self, time: Nanos) {
        let until = self.target.now() + time;
        self.target.idle_until(until);
    }

    /// Runs one command alone and returns its latency.
    pub fn one(&mut self, command: Command<'static>) -> TargetResult<Nanos> {
        self.start(0, command)?;
        self.wait_for_one()
    }

    /// Runs one TRIM alone and returns its latency.
    pub fn trim(&mut self, ranges: &[Extent]) -> TargetResult<Nanos> {
        self.target.trim(0, ranges)?;
        self.wait_for_one()
    }

    /// Runs a TRIM with `beside` right after it. Returns its latency and the other
    /// commands.
    pub fn trim_beside(
        &mut self,
        ranges: &[Extent],
        beside: &[Command<'static>],
    ) -> TargetResult<(Nanos, Stream)> {
        let begun = self.target.now();
        self.target.trim(0, ranges)?;
        for (tag, command) in (1..).zip(beside) {
            self.start(tag, *command)?;
        }
        self.done.clear();
        self.target.reap(beside.len() as u32 + 1, &mut self.done)?;
        let (mut trimmed, mut others) = (Nanos::ZERO, Stream::default());
        for completion in self.done.drain(..) {
            completion.result.map_err(|error| *error)?;
            let took = completion.completed.saturating_sub(completion.issued);
            if completion.tag == 0 {
                trimmed = took;
            } else {
                others.latencies.push(took);
                others.completed.push(completion.completed.saturating_sub(begun));
            }
        }
        Ok((trimmed, others))
    }

    /// Keeps `depth` of `commands` in flight until all have completed.
    pub fn stream(
        &mut self,
        depth: u32,
        commands: impl Iterator<Item = Command<'static>>,
    ) -> TargetResult<Stream> {
        let (stream, _) = self.streams(depth, commands, || None)?;
        Ok(stream)
    }

    /// As [`stream`](Self::stream), with one additional command of `beside` always in
    /// flight until `commands` end. Returns the streams of both.
    pub fn streams(
        &mut self,
        depth: u32,
        mut commands: impl Iterator<Item = Command<'static>>,
        mut beside: impl FnMut() -> Option<Command<'static>>,
    ) -> TargetResult<(Stream, Stream)> {
        let begun = self.target.now();
        let (mut stream, mut others) = (Stream::default(), Stream::default());
        // Reserves one tag for the additional command.
        let depth = depth.min(self.target.info().queue_depth_max.saturating_sub(1)).max(1);
        let mut free: Vec<u32> = (0..depth).rev().collect();
        let mut in_flight = vec![false; depth as usize + 1];
        let (mut waiting, mut done) = (0, Vec::new());
        if let Some(command) = beside() {
            self.start(depth, command)?;
            waiting = 1;
        }
        loop {
            while let Some(tag) = free.pop() {
                let Some(command) = commands.next() else { break };
                self.start(tag, command)?;
                in_flight[tag as usize] = true;
            }
            if !in_flight.iter().any(|busy| *busy) && waiting == 0 {
                return Ok((stream, others));
            }
            done.clear();
            self.target.reap(1, &mut done)?;
            for completion in done.drain(..) {
                completion.result.map_err(|error| *error)?;
                let to = if completion.tag == depth { &mut others } else { &mut stream };
                to.latencies.push(completion.completed.saturating_sub(completion.issued));
                to.completed.push(completion.completed.saturating_sub(begun));
                to.took = completion.completed.saturating_sub(begun);
                if completion.tag == depth {
                    waiting = 0;
                } else {
                    in_flight[completion.tag as usize] = false;
                    free.push(completion.tag);
                }
            }
            if waiting == 0
                && in_flight.iter().any(|busy| *busy)
                && let Some(command) = beside()
            {
                self.start(depth, command)?;
                waiting = 1;
            }
        }
    }

    fn start(&mut self, tag: u32, command: Command<'static>) -> TargetResult {
        match &command {
            Command::Write(extent, _) => self.written += extent.len,
            Command::Read(extent) => self.read += extent.len,
            _ => {}
        }
        self.target.submit(tag, command)
    }

    fn wait_for_one(&mut self) -> TargetResult<Nanos> {
        self.done.clear();
        self.target.reap(1, &mut self.done)?;
        let mut took = Nanos::ZERO;
        for completion in self.done.drain(..) {
            completion.result.map_err(|error| *error)?;
            took = completion.completed.saturating_sub(completion.issued);
        }
        Ok(took)
    }
}
