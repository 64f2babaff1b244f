//! Waiting until the discards of a request are done: XFS returns before.

use crate::host::stat::DiskStat;
use std::time::{Duration, Instant};
use trimtab_core::discards::Amount;

/// How long to wait at most.
const DRAIN: Duration = Duration::from_secs(30);
/// If the device is never free of requests: discards count as done when their number has not changed for this long, and others were served meanwhile.
const QUIET: Duration = Duration::from_millis(50);
/// A device that completes nothing at all may be one whose processor is busy; but not for longer than this.
const STANDSTILL: Duration = Duration::from_secs(2);
/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// Waits until the device has no requests of ours any more, and gives what `count` counts then. `before` is what the device said before the request.
pub(super) fn drain(before: Option<&DiskStat>, count: impl Fn() -> Option<Amount>, stat: impl Fn() -> Option<DiskStat>) -> Option<Amount> {
    let started = Instant::now();
    let (mut counted, mut since) = (count()?, stat().unwrap_or_default());
    let mut still = Instant::now();
    loop {
        let now = stat().unwrap_or_default();
        let none = now.in_flight == 0 || before.is_some_and(|before| only_the_same(before, &now));
        let quiet = if overtaken(&since, &now) { QUIET } else { STANDSTILL };
        if none || still.elapsed() >= quiet || started.elapsed() >= DRAIN {
            // What was completed just before it was looked whether there is any left.
            return count();
        }
        std::thread::sleep(LOOK_EVERY);
        let more = count()?;
        if more != counted {
            (counted, since, still) = (more, now, Instant::now());
        }
    }
}

/// Reads, writes and flushes that were completed between.
fn served(then: &DiskStat, now: &DiskStat) -> u64 {
    let step = now.since(then);
    step.reads.saturating_add(step.writes).saturating_add(step.flushes.unwrap_or(0))
}

/// Those that are in the device were there before and none of them has been completed, so no discard is among them. Some drivers count one as being there for ever.
fn only_the_same(before: &DiskStat, now: &DiskStat) -> bool {
    now.in_flight <= before.in_flight && served(before, now) == 0
}

/// As many others were served as were in the device then: any discard among these would have been completed.
fn overtaken(then: &DiskStat, now: &DiskStat) -> bool {
    served(then, now) >= then.in_flight
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use trimtab_core::units::Bytes;

    const ONE: Amount = Amount { count: 1, bytes: Bytes(4096) };

    fn stat(in_flight: u64, writes: u64) -> Option<DiskStat> {
        Some(DiskStat { in_flight, writes, flushes: Some(0), ..DiskStat::default() })
    }

    /// A device that takes a discard for done after so many milliseconds, and what is said of it by then.
    fn drained(done_ms: u64, before: Option<DiskStat>, said: impl Fn(Duration) -> Option<DiskStat>) -> (Option<Amount>, Duration) {
        let started = Instant::now();
        let done = || started.elapsed() >= Duration::from_millis(done_ms);
        let count = || Some(if done() { ONE } else { Amount::default() });
        (drain(before.as_ref(), count, || said(started.elapsed())), started.elapsed())
    }

    #[test]
    fn a_device_that_completes_nothing_for_a_while_has_not_done_our_discards() {
        // Seen: a loop device on a busy machine was not served for more than 50 ms, and a whole allocation group was not counted.
        let busy = |done_ms| move |t: Duration| stat(u64::from(t < Duration::from_millis(done_ms)), 0);
        assert_eq!(drained(300, stat(0, 0), busy(300)).0, Some(ONE));
    }

    #[test]
    fn where_others_are_served_all_the_time_it_is_not_waited_for_them() {
        let writes = |t: Duration| stat(3, t.as_millis() as u64);
        let (counted, took) = drained(20, stat(2, 0), writes);
        assert!(counted == Some(ONE) && took < STANDSTILL, "{took:?}");
    }

    #[test]
    fn a_request_that_stays_for_ever_is_not_waited_for() {
        let looks = Cell::new(0);
        let stuck = |_| {
            looks.set(looks.get() + 1);
            // Ours, and the other.
            stat(if looks.get() < 5 { 2 } else { 1 }, 0)
        };
        let (counted, _) = drained(0, stat(1, 0), stuck);
        assert!(counted == Some(ONE) && looks.get() < 10, "{}", looks.get());
        // Where it is not known that it was there before.
        let (counted, took) = drained(0, None, |_| stat(1, 0));
        assert!(counted == Some(ONE) && took >= STANDSTILL && took < DRAIN, "{took:?}");
    }
}
