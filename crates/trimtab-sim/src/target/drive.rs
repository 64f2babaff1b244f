//! A modelled drive as a block target, in virtual time.

use crate::runner::{Events, RunOutcome, blocks, jobs};
use crate::target::{
    BlockCompletion, BlockInfo, BlockTarget, Clock, PacedTarget, TargetError, TargetResult,
};
use crate::workload::BlockWorkload;
use crate::workload::jobs::JobGroup;
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::cmp::Reverse;
use trimtab_drive::model::Model;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Device, Refusal};

/// A drive model that executes block operations. Virtual time advances to the next
/// completion when the caller waits for it.
#[derive(Debug)]
pub struct DriveTarget<D> {
    drive: D,
    info: BlockInfo,
    now: Nanos,
    in_flight: CompletionQueue,
    submitted: u64,
}

/// Operations in flight by completion time; sequence numbers break ties.
#[derive(Debug, Default)]
struct CompletionQueue {
    /// Sorted. Nearly all writes complete in submission order.
    queue: VecDeque<InFlightCommand>,
    /// Operations submitted after one that completes later.
    late: BinaryHeap<Reverse<InFlightCommand>>,
}

impl CompletionQueue {
    #[inline(always)]
    fn push(&mut self, new: InFlightCommand) {
        if self.queue.back().is_none_or(|last| last.order <= new.order) {
            self.queue.push_back(new);
        } else {
            self.late.push(Reverse(new));
        }
    }

    /// Removes the earliest operation if it is due by `now`, or unconditionally if
    /// `wait`.
    #[inline(always)]
    fn pop(&mut self, now: Nanos, wait: bool) -> Option<InFlightCommand> {
        if self.late.is_empty() {
            let due = self.queue.front().is_some_and(|next| next.done() <= now || wait);
            return if due { self.queue.pop_front() } else { None };
        }
        let (first, other) = (self.queue.front(), self.late.peek().map(|Reverse(other)| other));
        let from_late =
            other.is_some_and(|other| first.is_none_or(|first| other.order <= first.order));
        if (if from_late { other } else { first }).is_none_or(|next| next.done() > now && !wait) {
            return None;
        }
        if from_late { self.late.pop().map(|Reverse(other)| other) } else { self.queue.pop_front() }
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InFlightCommand {
    /// Completion time, then sequence number: one comparison, without an unpredictable
    /// branch.
    order: u128,
    tag: u32,
    issued: Nanos,
}

impl InFlightCommand {
    #[inline]
    const fn done(&self) -> Nanos {
        Nanos((self.order >> 64) as u64)
    }
}

impl<D: Device> DriveTarget<D> {
    /// A target on `drive` that allows `queue_depth_max` operations in flight.
    pub fn new(drive: D, queue_depth_max: u32) -> Self {
        let info = BlockInfo {
            size: drive.size(),
            block_size: drive.logical_block(),
            queue_depth_max,
            trim: drive.supports_trim(),
        };
        Self { drive, info, now: Nanos::ZERO, in_flight: CompletionQueue::default(), submitted: 0 }
    }

    /// Sets the clock to `now`, for a drive used by another target until then.
    #[must_use]
    pub fn at(mut self, now: Nanos) -> Self {
        self.now = now;
        self
    }

    /// Starts `op` as [`BlockTarget::submit`] does, including TRIMs of many borrowed
    /// ranges.
    ///
    /// # Errors
    /// The drive refuses the operation.
    #[inline(always)]
    pub fn start(&mut self, tag: u32, op: &Command<'_>) -> TargetResult {
        let completion = self.drive.submit(self.now, op);
        let error = |refusal: Refusal| {
            TargetError::new(op.kind().name(), describe(op), refusal.to_string(), refusal.errno())
        };
        completion.result.map_err(error)?;
        let order = u128::from(completion.done.0) << 64 | u128::from(self.submitted);
        self.in_flight.push(InFlightCommand { order, tag, issued: self.now });
        self.submitted += 1;
        Ok(())
    }

    /// The drive.
    pub fn drive(&self) -> &D {
        &self.drive
    }

    /// Returns the drive.
    pub fn into_drive(self) -> D {
        self.drive
    }
}

impl DriveTarget<Box<dyn Model>> {
    /// As [`blocks::run`], compiled once, in this crate.
    #[inline(never)]
    pub fn run(
        &mut self,
        workload: &mut dyn BlockWorkload,
        events: &mut dyn Events<Self>,
    ) -> RunOutcome {
        blocks::run(workload, self, events)
    }

    /// As [`jobs::run`], compiled once, in this crate.
    #[inline(never)]
    pub fn run_jobs(
        &mut self,
        groups: Vec<JobGroup<'_>>,
        events: &mut dyn Events<Self>,
    ) -> RunOutcome {
        jobs::run(groups, self, events)
    }
}

impl<D: Device> Clock for DriveTarget<D> {
    fn now(&mut self) -> Nanos {
        self.now
    }

    fn idle_until(&mut self, instant: Nanos) {
        if instant > self.now {
            self.drive.idle(instant);
            self.now = instant;
        }
    }
}

impl<D: Device> BlockTarget for DriveTarget<D> {
    fn info(&self) -> &BlockInfo {
        &self.info
    }

    #[inline(always)]
    fn submit(&mut self, tag: u32, op: Command<'static>) -> TargetResult {
        self.start(tag, &op)
    }

    #[inline]
    fn expect(&self, op: &Command<'static>) {
        if let Some(extent) = op.extent() {
            self.drive.prefetch(extent.offset);
        }
    }

    #[inline(always)]
    fn reap(&mut self, min: u32, done: &mut Vec<BlockCompletion>) -> TargetResult {
        let mut reaped = 0;
        while let Some(next) = self.in_flight.pop(self.now, reaped < min) {
            let (completed, tag, issued) = (next.done(), next.tag, next.issued);
            self.now = self.now.max(completed);
            // Modelled submission takes no time: the drive's latency includes command
            // overhead.
            done.push(BlockCompletion {
                tag,
                issued,
                submitted: issued,
                completed,
                result: Ok(()),
            });
            reaped += 1;
        }
        Ok(())
    }
}

impl<D: Device> PacedTarget for DriveTarget<D> {
    fn reap_until(&mut self, instant: Nanos, done: &mut Vec<BlockCompletion>) -> TargetResult {
        let next =
            [self.in_flight.queue.front(), self.in_flight.late.peek().map(|Reverse(late)| late)];
        let next = next.into_iter().flatten().map(InFlightCommand::done).min();
        if next.is_some_and(|next| next <= instant) {
            return self.reap(1, done);
        }
        self.now = self.now.max(instant);
        Ok(())
    }
}

fn describe(op: &Command<'_>) -> String {
    op.extent().map_or_else(
        || "the write cache".to_owned(),
        |extent| format!("{} bytes at {}", op.bytes(), extent.offset),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::units::Bytes;
    use trimtab_drive::{Completion, Extent, Refusal};

    /// Reads take 1 ms, everything else 3 ms, in parallel; offsets from 1 MB are refused.
    struct Stub;

    impl Device for Stub {
        fn size(&self) -> Bytes {
            Bytes(1_000_000)
        }
        fn logical_block(&self) -> u32 {
            512
        }
        fn supports_trim(&self) -> bool {
            false
        }
        fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
            let (took, result) = match command {
                Command::Read(extent) if extent.offset >= 1_000_000 => {
                    (0, Err(Refusal::OutOfRange))
                }
                Command::Read(_) => (1, Ok(())),
                _ => (3, Ok(())),
            };
            Completion { done: now + Nanos::from_millis(took), result }
        }
        fn idle(&mut self, _until: Nanos) {}
    }

    #[test]
    fn reap_returns_completions_in_time_order() {
        let mut target = DriveTarget::new(Stub, 4);
        let mut done = Vec::new();
        target.submit(0, Command::Flush).unwrap();
        target.submit(1, Command::Read(Extent { offset: 0, len: 512 })).unwrap();
        target.submit(2, Command::Read(Extent { offset: 512, len: 512 })).unwrap();
        target.reap(1, &mut done).unwrap();
        assert_eq!(
            done.iter().map(|c| c.tag).collect::<Vec<_>>(),
            [1, 2],
            "both are complete at 1 ms"
        );
        assert_eq!(target.now(), Nanos::from_millis(1));
        target.reap(1, &mut done).unwrap();
        assert_eq!((done[2].tag, target.now()), (0, Nanos::from_millis(3)));
        target.idle_until(Nanos::from_secs(1));
        assert_eq!(target.now(), Nanos::from_secs(1));
    }

    proptest::proptest! {
        /// Oracle: a sorted list. Due operations return without waiting; others only on a
        /// wait.
        #[test]
        fn pending_pops_earliest_first(steps in proptest::collection::vec((0_u64..40, 0_u64..30, proptest::bool::ANY), 1..200)) {
            let (mut pending, mut sorted, mut now) = (CompletionQueue::default(), Vec::new(), 0);
            for (sequence, (later, pause, wait)) in (0_u64..).zip(steps) {
                now += pause;
                pending.push(InFlightCommand { order: u128::from(now + later) << 64 | u128::from(sequence), tag: 0, issued: Nanos(now) });
                sorted.push((now + later, sequence));
                sorted.sort_unstable();
                let expected = (wait || sorted[0].0 <= now).then(|| sorted.remove(0));
                proptest::prop_assert_eq!(pending.pop(Nanos(now), wait).map(|next| (next.done().0, next.order as u64)), expected);
            }
        }
    }

    #[test]
    fn refusal_names_the_operation() {
        let error = DriveTarget::new(Stub, 1)
            .submit(0, Command::Read(Extent { offset: 1_000_000, len: 512 }))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read 512 bytes at 1000000: range goes past the end of the drive"
        );
    }
}
