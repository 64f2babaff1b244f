//! Targets that complete at once with real timestamps, to measure the tool's own cost.

use std::time::{Duration, Instant};
use trimtab_drive::Command;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::op::FileOp;
use trimtab_sim::op::NfsOp;
use trimtab_sim::target::{
    BlockCompletion, BlockInfo, BlockTarget, Clock, FileTarget, NfsTarget, PacedTarget,
    TargetResult,
};

const QUEUE_DEPTH_MAX: u32 = 4096;

/// A file target on which every operation succeeds at once.
#[derive(Debug)]
pub struct NullFiles {
    started: Instant,
}

impl NullFiles {
    /// Starts its clock now.
    pub fn new() -> Self {
        Self::with_epoch(Instant::now())
    }

    /// Uses a clock that started at `started`, for targets that share one.
    pub const fn with_epoch(started: Instant) -> Self {
        Self { started }
    }
}

impl Default for NullFiles {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for NullFiles {
    #[inline]
    fn now(&mut self) -> Nanos {
        since(self.started)
    }

    fn idle_until(&mut self, instant: Nanos) {
        sleep_until(self.started, instant);
    }
}

impl FileTarget for NullFiles {
    #[inline]
    fn execute(&mut self, _op: &FileOp<'_>) -> TargetResult {
        Ok(())
    }
}

impl NfsTarget for NullFiles {
    fn symlink(&mut self, _path: &str, _to: &str) -> TargetResult {
        Ok(())
    }

    #[inline]
    fn serve(&mut self, _op: &NfsOp<'_>, _data: DataClass) -> TargetResult {
        Ok(())
    }
}

/// A block target on which every operation completes as soon as it is reaped.
#[derive(Debug)]
pub struct NullBlocks {
    started: Instant,
    info: BlockInfo,
    issued: Vec<(u32, Nanos)>,
}

impl NullBlocks {
    /// A target of `size` bytes in blocks of 512.
    pub fn new(size: Bytes) -> Self {
        let info =
            BlockInfo { size, block_size: 512, queue_depth_max: QUEUE_DEPTH_MAX, trim: true };
        Self { started: Instant::now(), info, issued: Vec::with_capacity(QUEUE_DEPTH_MAX as usize) }
    }
}

impl Clock for NullBlocks {
    #[inline]
    fn now(&mut self) -> Nanos {
        since(self.started)
    }

    fn idle_until(&mut self, instant: Nanos) {
        sleep_until(self.started, instant);
    }
}

impl BlockTarget for NullBlocks {
    fn info(&self) -> &BlockInfo {
        &self.info
    }

    #[inline]
    fn submit(&mut self, tag: u32, _op: Command<'static>) -> TargetResult {
        let issued = self.now();
        self.issued.push((tag, issued));
        Ok(())
    }

    #[inline]
    fn reap(&mut self, _min: u32, done: &mut Vec<BlockCompletion>) -> TargetResult {
        let submitted = self.now();
        let completed = self.now();
        done.extend(self.issued.drain(..).map(|(tag, issued)| BlockCompletion {
            tag,
            issued,
            submitted,
            completed,
            result: Ok(()),
        }));
        Ok(())
    }
}

impl PacedTarget for NullBlocks {
    fn reap_until(&mut self, _instant: Nanos, done: &mut Vec<BlockCompletion>) -> TargetResult {
        self.reap(1, done)
    }
}

/// Time since `started`, when the target was opened.
#[inline]
pub(crate) fn since(started: Instant) -> Nanos {
    Nanos(started.elapsed().as_nanos() as u64)
}

/// Sleeps until `instant` on the clock that started at `started`, or until an interrupt.
pub(crate) fn sleep_until(started: Instant, instant: Nanos) {
    while let Some(left) = instant.0.checked_sub(since(started).0).filter(|left| *left > 0) {
        if crate::sys::interrupt::requested() {
            return;
        }
        std::thread::sleep(Duration::from_nanos(left.min(100_000_000)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::Extent;

    #[test]
    fn null_operations_complete_with_ordered_timestamps() {
        let mut target = NullBlocks::new(Bytes(1 << 20));
        let mut done = Vec::new();
        for tag in 0..3 {
            target.submit(tag, Command::Read(Extent { offset: 0, len: 512 })).unwrap();
        }
        target.reap(1, &mut done).unwrap();
        assert_eq!(done.iter().map(|d| d.tag).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(done.iter().all(|d| d.issued <= d.submitted && d.submitted <= d.completed));
    }

    #[test]
    fn idle_until_sleeps_for_the_given_time() {
        let mut target = NullFiles::new();
        target.idle_until(Nanos::from_millis(20));
        assert!(target.now() >= Nanos::from_millis(20));
    }
}
