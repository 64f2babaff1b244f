//! What probes are run on, and the few ways in which they use it.

use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Device, Extent};
use trimtab_sim::target::drive::DriveTarget;
use trimtab_sim::target::{BlockCompletion, BlockTarget, TargetResult};

/// A block target that also takes a TRIM of several ranges in one command.
pub trait Probed: BlockTarget {
    /// Starts it, as [`BlockTarget::submit`] does.
    ///
    /// # Errors
    /// A target that refuses it.
    fn trim(&mut self, tag: u32, ranges: &[Extent]) -> TargetResult;
}

impl<D: Device> Probed for DriveTarget<D> {
    fn trim(&mut self, tag: u32, ranges: &[Extent]) -> TargetResult {
        self.start(tag, &Command::trim(ranges))
    }
}

/// Runs commands on what is probed.
pub struct Lab<'a> {
    target: &'a mut dyn Probed,
    done: Vec<BlockCompletion>,
    /// Bytes written so far.
    pub written: u64,
    /// Bytes read so far.
    pub read: u64,
}

/// Commands that were kept in flight.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// From the first submission to the last completion.
    pub took: Nanos,
    /// Of each command, in the order of completion.
    pub latencies: Vec<Nanos>,
    /// When each had completed, since the first submission.
    pub completed: Vec<Nanos>,
}

impl Stream {
    /// Mean of the middle four fifths of the latencies, in nanoseconds: rare retries do not count.
    #[must_use]
    pub fn middle_ns(&self) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let cut = sorted.len() / 10;
        let middle = &sorted[cut..sorted.len() - cut];
        middle.iter().map(|latency| latency.0 as f64).sum::<f64>() / middle.len().max(1) as f64
    }

    /// The latency below which `percent` of the commands stay, in nanoseconds.
    #[must_use]
    pub fn percentile_ns(&self, percent: usize) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        sorted.get((sorted.len().saturating_sub(1)) * percent / 100).map_or(0.0, |latency| latency.0 as f64)
    }
}

impl<'a> Lab<'a> {
    /// Nothing has been run yet.
    pub fn new(target: &'a mut dyn Probed) -> Self {
        Self { target, done: Vec::new(), written: 0, read: 0 }
    }

    /// Lets the drive alone for so long.
    pub fn idle(&mut self, time: Nanos) {
        let until = self.target.now() + time;
        self.target.idle_until(until);
    }

    /// Runs one command alone; how long it took.
    pub fn one(&mut self, command: Command<'static>) -> TargetResult<Nanos> {
        self.start(0, command)?;
        self.wait_for_one()
    }

    /// Runs one TRIM alone; how long it took.
    pub fn trim(&mut self, ranges: &[Extent]) -> TargetResult<Nanos> {
        self.target.trim(0, ranges)?;
        self.wait_for_one()
    }

    /// Runs a TRIM with `beside` submitted right behind it: how long the TRIM took, and they.
    pub fn trim_beside(&mut self, ranges: &[Extent], beside: &[Command<'static>]) -> TargetResult<(Nanos, Stream)> {
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
    pub fn stream(&mut self, depth: u32, commands: impl Iterator<Item = Command<'static>>) -> TargetResult<Stream> {
        let (stream, _) = self.streams(depth, commands, || None)?;
        Ok(stream)
    }

    /// The same with one command of `beside` always under way as well, for as long as there are `commands` in flight: what they took, and what those beside took.
    pub fn streams(
        &mut self,
        depth: u32,
        mut commands: impl Iterator<Item = Command<'static>>,
        mut beside: impl FnMut() -> Option<Command<'static>>,
    ) -> TargetResult<(Stream, Stream)> {
        let begun = self.target.now();
        let (mut stream, mut others) = (Stream::default(), Stream::default());
        // One tag more than there are commands: that beside.
        let depth = depth.min(self.target.info().queue_depth_max.saturating_sub(1)).max(1);
        let mut free: Vec<u32> = (0..depth).rev().collect();
        let mut in_flight = vec![false; depth as usize + 1];
        let mut waiting = 0;
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
            self.done.clear();
            self.target.reap(1, &mut self.done)?;
            for completion in core::mem::take(&mut self.done) {
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
