//! Waits until the discards of a request are complete: XFS returns from FITRIM earlier.

use crate::host::stat::DiskStat;
use std::time::{Duration, Instant};
use trimtab_drive::discards::Amount;

/// A device that completes nothing for this long may hang. The counts are then a minimum.
const STANDSTILL: Duration = Duration::from_secs(30);
/// On a device that always serves other requests, discards count as complete when none
/// has completed for this multiple of the slowest one's latency, ...
const TIMES_SLOWEST: u32 = 8;
/// ... and at least for this long; ...
const QUIET: Duration = Duration::from_millis(50);
/// ... or for this long while no discard has been timed.
const UNTIMED: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Waits for discards, and learns their latency.
#[derive(Debug)]
pub struct Drain {
    returns_early: bool,
    /// The longest mean latency of the discards that completed between two polls.
    slowest: Duration,
}

/// The result of a wait for discards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainResult {
    /// No discard is in flight. If false, the counts are a minimum.
    pub all: bool,
    /// Time from the start of the wait to the last change of the counters.
    pub moved: Duration,
    /// Time from the start of the wait in which discards of the request were still
    /// running. Zero if the filesystem returns only after they are complete.
    pub working: Duration,
}

impl Drain {
    /// For a filesystem of this type.
    pub fn of(fs_type: &str) -> Self {
        // These wait for every bio (submit_bio_wait).
        Self {
            returns_early: !matches!(fs_type, "ext2" | "ext3" | "ext4" | "btrfs"),
            slowest: Duration::ZERO,
        }
    }

    /// Waits until no discard is in flight and the counters have been constant for
    /// `settled`, or until `stop` returns true. `before` is the state of the device
    /// before the discards were sent; `count` counts discards, `stat` reads the counters
    /// of the device.
    pub fn wait(
        &mut self,
        before: Option<&DiskStat>,
        settled: Duration,
        count: impl Fn() -> Option<Amount>,
        stat: impl Fn() -> Option<DiskStat>,
        stop: impl Fn() -> bool,
    ) -> DrainResult {
        let started = Instant::now();
        let (mut counted, mut since) = (count(), stat().unwrap_or_default());
        if let Some(before) = before {
            self.time(before, &since);
        }
        let mut moved = Duration::ZERO;
        loop {
            let now = stat().unwrap_or_default();
            let still = started.elapsed().saturating_sub(moved);
            let none =
                now.in_flight == 0 || before.is_some_and(|before| only_the_same(before, &now));
            let working = match (self.returns_early, counted) {
                (false, _) => Duration::ZERO,
                (true, Some(_)) => moved,
                (true, None) => started.elapsed(),
            };
            if none && still >= settled {
                return DrainResult { all: true, moved, working };
            }
            if still >= self.patience(&since, &now) || stop() {
                return DrainResult { all: none || !self.returns_early, moved, working };
            }
            std::thread::sleep(POLL_INTERVAL.max(settled / 40));
            let more = count();
            if more != counted {
                self.time(&since, &now);
                (counted, since, moved) = (more, now, started.elapsed());
            }
        }
    }

    /// Time without progress after which the wait ends although requests are in flight.
    fn patience(&self, since: &DiskStat, now: &DiskStat) -> Duration {
        match (overtaken(since, now), self.slowest) {
            (false, _) => STANDSTILL,
            (true, _) if !self.returns_early => QUIET,
            (true, Duration::ZERO) => UNTIMED,
            (true, slowest) => (slowest * TIMES_SLOWEST).max(QUIET),
        }
    }

    /// Learns the latency of the discards that completed between two polls.
    fn time(&mut self, then: &DiskStat, now: &DiskStat) {
        let step = now.since(then);
        let commands = step.discards.map_or(0, |discards| discards.count);
        if let Some(mean) = step.discard_time.0.checked_div(commands) {
            self.slowest = self.slowest.max(Duration::from_nanos(mean));
        }
    }
}

/// Reads, writes and flushes completed in between.
fn served(then: &DiskStat, now: &DiskStat) -> u64 {
    let step = now.since(then);
    step.reads.saturating_add(step.writes).saturating_add(step.flushes.unwrap_or(0))
}

/// The requests in flight are old and none has completed, so no discard is among them.
/// Some drivers leak a request permanently.
fn only_the_same(before: &DiskStat, now: &DiskStat) -> bool {
    now.in_flight <= before.in_flight && served(before, now) == 0
}

/// At least as many other requests completed as were in flight: a drive that serves
/// requests in order has completed the discards among them.
fn overtaken(then: &DiskStat, now: &DiskStat) -> bool {
    served(then, now) >= then.in_flight
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use trimtab_drive::units::{Bytes, Nanos};

    /// A device in virtual time: each poll takes a millisecond.
    struct Device {
        ms: Cell<u64>,
        /// Completion times of discards of 4 KiB.
        done_ms: &'static [u64],
        /// Number of other requests in flight at all times; one completes each
        /// millisecond.
        others: u64,
    }

    impl Device {
        fn stat(&self) -> Option<DiskStat> {
            let ms = self.ms.get();
            self.ms.set(ms + 1);
            let done = self.done_ms.iter().filter(|at| **at <= ms).count() as u64;
            Some(DiskStat {
                in_flight: self.others + (self.done_ms.len() as u64 - done),
                writes: if self.others > 0 { ms } else { 0 },
                flushes: Some(0),
                discards: Some(Amount::new(done, done * 4096)),
                discard_time: Nanos::from_millis(done * 10),
                ..DiskStat::default()
            })
        }

        fn count(&self) -> Option<Amount> {
            let done = self.done_ms.iter().filter(|at| **at <= self.ms.get()).count() as u64;
            Some(Amount::new(done, done * 4096))
        }

        fn wait(
            &self,
            drain: &mut Drain,
            before: Option<&DiskStat>,
        ) -> (DrainResult, Option<Amount>) {
            let drained =
                drain.wait(before, Duration::ZERO, || self.count(), || self.stat(), || false);
            (drained, self.count())
        }
    }

    fn device(done_ms: &'static [u64], others: u64) -> Device {
        Device { ms: Cell::new(0), done_ms, others }
    }

    /// Once, 1.39 GB of 5.77 GB were counted, because a command took longer than two
    /// seconds.
    #[test]
    fn drain_waits_for_a_discard_that_is_in_flight() {
        let device = device(&[5, 2500, 6000], 0);
        let (drained, counted) = device.wait(&mut Drain::of("xfs"), Some(&DiskStat::default()));
        assert_eq!(
            (drained.all, counted),
            (true, Some(Amount { count: 3, bytes: Bytes(3 * 4096) }))
        );
    }

    #[test]
    fn drain_on_a_busy_device_waits_as_long_as_discards_take() {
        let device = device(&[10, 20, 40, 90], 3);
        let (drained, counted) = device.wait(&mut Drain::of("xfs"), Some(&DiskStat::default()));
        assert_eq!(counted.map(|counted| counted.count), Some(4));
        assert!(!drained.all, "a discard may be among the requests in flight");
        let (drained, _) = device.wait(&mut Drain::of("ext4"), Some(&DiskStat::default()));
        assert!(drained.all, "ext4 waits itself");
    }

    /// Once, a request of 0.07 ms counted as one of 86.6 ms, because other requests were
    /// always in flight.
    #[test]
    fn drain_on_synchronous_filesystem_adds_no_time() {
        let working = |fs_type, done_ms| {
            let (device, started) = (device(done_ms, 8), Instant::now());
            let waited = device.wait(&mut Drain::of(fs_type), Some(&DiskStat::default())).0;
            (waited.working, started.elapsed())
        };
        // Discards of other processes complete during the wait.
        assert_eq!(["ext4", "btrfs"].map(|fs| working(fs, &[3, 9]).0), [Duration::ZERO; 2]);
        // XFS sends them after the request has returned: until the last one, not longer.
        let (late, waited) = working("xfs", &[10, 20, 40, 90]);
        assert!(late > Duration::ZERO && late + QUIET <= waited, "{late:?} of {waited:?}");
        assert_eq!(working("xfs", &[0]).0, Duration::ZERO, "complete when the request returned");
    }

    #[test]
    fn drain_ignores_a_request_that_never_completes() {
        let stuck = DiskStat { in_flight: 1, flushes: Some(0), ..DiskStat::default() };
        let looks = Cell::new(0);
        let stat = || {
            looks.set(looks.get() + 1);
            Some(DiskStat { in_flight: if looks.get() < 5 { 2 } else { 1 }, ..stuck })
        };
        let drained = Drain::of("xfs").wait(Some(&stuck), Duration::ZERO, || None, stat, || false);
        assert!(drained.all && looks.get() < 10, "{}", looks.get());
    }

    #[test]
    fn stopped_drain_is_incomplete() {
        let device = device(&[u64::MAX], 0);
        let drained = Drain::of("xfs").wait(
            None,
            Duration::ZERO,
            || device.count(),
            || device.stat(),
            || device.ms.get() > 9,
        );
        assert!(!drained.all);
    }
}
