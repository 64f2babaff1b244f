//! Replays a trace on a modelled drive under a trim policy, in virtual time.
//!
//! Trims of the trace are frees of its host; [`Steered`] decides which reach the drive.
//!
//! A recording has latencies, so its host is replayed as one that waits: a request
//! follows the completion that preceded it in the recording, after the same pause, and a
//! slower drive slows the host down. Traces without latencies are replayed at their
//! recorded times.

use super::timing::Timing;
use crate::simulate::steered::SteeredDrive;
use crate::trace::{TraceEvent, TraceOpKind};
use alloc::collections::BinaryHeap;
use alloc::format;
use alloc::string::String;
use core::cmp::Reverse;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Device, Extent, Refusal};

/// A replay in progress.
pub struct Replay<D> {
    drive: SteeredDrive<D>,
    block: u64,
    size: u64,
    latest: Nanos,
    pace: HostPace,
}

/// Service of a request on the modelled drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestService {
    /// Arrival.
    pub arrived: Nanos,
    /// Completion.
    pub done: Nanos,
    /// Result from the drive.
    pub result: Result<(), Refusal>,
}

/// Arrival times of the host's requests.
struct HostPace {
    timing: Timing,
    /// Recorded and replayed completions; for a closed loop, those in progress.
    open: BinaryHeap<Reverse<(Nanos, Nanos)>>,
    /// Latest passed completion in the recording, and the same request's completion in
    /// the replay. With other timings: start of the replay, and its latest arrival.
    anchor: (Nanos, Nanos),
    /// Requests so far.
    requests: u64,
}

impl HostPace {
    /// A host that starts at `now`.
    const fn from(now: Nanos, timing: Timing) -> Self {
        let recorded = if matches!(timing, Timing::Recorded) { Nanos::ZERO } else { now };
        Self { timing, open: BinaryHeap::new(), anchor: (recorded, now), requests: 0 }
    }

    fn arrival(&mut self, event: &TraceEvent) -> Nanos {
        self.requests += 1;
        match self.timing {
            Timing::Recorded => {}
            Timing::Rate(rate) => {
                return self.anchor.0 + Nanos(((self.requests - 1) as f64 * 1e9 / rate) as u64);
            }
            Timing::ClosedLoop(depth) => {
                while self.open.len() >= depth as usize
                    && let Some(Reverse((done, _))) = self.open.pop()
                {
                    self.anchor.1 = self.anchor.1.max(done);
                }
                return self.anchor.1;
            }
        }
        while let Some(Reverse((recorded, replayed))) = self.open.peek().copied()
            && recorded <= event.at
        {
            self.open.pop();
            self.anchor = (recorded, self.anchor.1.max(replayed));
        }
        self.anchor.1 + event.at.saturating_sub(self.anchor.0)
    }

    fn completes(&mut self, event: &TraceEvent, done: Nanos) {
        if matches!(self.timing, Timing::ClosedLoop(_)) {
            self.open.push(Reverse((done, done)));
        } else if event.latency > Nanos::ZERO {
            self.open.push(Reverse((event.at + event.latency, done)));
        }
    }
}

impl<D: Device> Replay<D> {
    /// A replay on `drive` from `now`.
    pub fn new(drive: SteeredDrive<D>, now: Nanos, timing: Timing) -> Self {
        let (block, size) = (u64::from(drive.logical_block()), drive.size().0);
        Self { drive, block, size, latest: now, pace: HostPace::from(now, timing) }
    }

    /// Restarts the trace at the drive's current time.
    pub fn again(&mut self) {
        self.pace = HostPace::from(self.latest, self.pace.timing);
    }

    /// Replays one event. `Err` if it exceeds the drive.
    pub fn event(&mut self, event: &TraceEvent) -> Result<RequestService, String> {
        let block = self.block;
        // Requests from drives with smaller blocks are extended to whole blocks.
        let offset = event.offset / block * block;
        let end =
            event.offset.checked_add(event.len).and_then(|end| end.checked_next_multiple_of(block));
        let Some(end) = end.filter(|end| *end <= self.size) else {
            return Err(format!(
                "{} bytes at {} go past the end of the drive ({} bytes)",
                event.len, event.offset, self.size
            ));
        };
        let extent = Extent { offset, len: end - offset };
        let arrived = self.pace.arrival(event);
        let completion = match event.kind {
            TraceOpKind::Read => self.drive.submit(arrived, &Command::Read(extent)),
            TraceOpKind::Write => self.drive.submit(arrived, &Command::Write(extent, event.class)),
            TraceOpKind::Trim => {
                // Only whole blocks are free.
                let (start, end) = (
                    event.offset.next_multiple_of(block),
                    (event.offset + event.len) / block * block,
                );
                let freed = Extent { offset: start.min(end), len: end.saturating_sub(start) };
                self.drive.submit(arrived, &Command::trim(&[freed]))
            }
            TraceOpKind::Flush => self.drive.submit(arrived, &Command::Flush),
        };
        let mut done = completion.done;
        if event.fua {
            done = done.max(self.drive.submit(arrived, &Command::Flush).done);
        }
        self.latest = self.latest.max(done);
        self.pace.completes(event, done);
        Ok(RequestService { arrived, done, result: completion.result })
    }

    /// Ends the replay; returns the drive and its last completion.
    pub fn into_parts(self) -> (SteeredDrive<D>, Nanos) {
        (self.drive, self.latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PolicySpec;
    use crate::simulate::shipped;
    use crate::simulate::steered::Account;
    use alloc::vec::Vec;
    use trimtab_drive::data::DataClass;
    use trimtab_drive::interface::Interface;
    use trimtab_drive::model;
    use trimtab_drive::units::Bytes;

    struct ReplayOutcome {
        /// From the first request to the last completion.
        took: Nanos,
        /// Of reads, in nanoseconds.
        latency_mean: f64,
        account: Account,
    }

    fn replayed(events: &[TraceEvent], policy: Option<&str>) -> ReplayOutcome {
        rested(events, policy, Nanos::ZERO)
    }

    fn rested(events: &[TraceEvent], policy: Option<&str>, rest: Nanos) -> ReplayOutcome {
        timed(events, policy, rest, Timing::Recorded)
    }

    fn timed(
        events: &[TraceEvent],
        policy: Option<&str>,
        rest: Nanos,
        timing: Timing,
    ) -> ReplayOutcome {
        let spec = shipped("ocz-vertex-le-100gb", Bytes(512 << 20));
        let interface = Interface::of(&spec);
        let policy: Option<PolicySpec> = policy.map(|policy| policy.parse().unwrap());
        let drive = SteeredDrive::new(
            model::build(&spec, 1).unwrap(),
            interface,
            policy.as_ref(),
            Nanos::ZERO,
            Bytes::ZERO,
        );
        let mut replay = Replay::new(drive, Nanos::ZERO, timing);
        let (mut reads, mut sum) = (0, Nanos::ZERO);
        for event in events {
            let served = replay.event(event).unwrap();
            if event.kind == TraceOpKind::Read {
                (reads, sum) = (reads + 1, sum + served.done.saturating_sub(served.arrived));
            }
        }
        let (mut drive, latest) = replay.into_parts();
        let took = latest.max(drive.busy_until());
        if rest > Nanos::ZERO {
            drive.idle(took + rest);
        }
        ReplayOutcome {
            took,
            latency_mean: sum.as_f64() / f64::from(reads),
            account: drive.into_parts().1.unwrap(),
        }
    }

    fn event(at: Nanos, kind: TraceOpKind, offset: u64, len: u64, latency: Nanos) -> TraceEvent {
        TraceEvent {
            at,
            kind,
            offset,
            len,
            class: DataClass::Random,
            fua: false,
            continues: false,
            latency,
            errno: None,
        }
    }

    /// Writes 16 MiB, frees 8 MiB twice, then only reads, a day later.
    fn freeing() -> Vec<TraceEvent> {
        let ms = Nanos::from_millis;
        let mut events: Vec<TraceEvent> = (0..16)
            .map(|n| event(ms(n), TraceOpKind::Write, n << 20, 1 << 20, Nanos::ZERO))
            .collect();
        events.push(event(ms(100), TraceOpKind::Trim, 4 << 20, 8 << 20, Nanos::ZERO));
        events.push(event(ms(200), TraceOpKind::Trim, 4 << 20, 8 << 20, Nanos::ZERO));
        events.push(event(Nanos::from_secs(86_400 * 8), TraceOpKind::Read, 0, 4096, Nanos::ZERO));
        events
    }

    #[test]
    fn each_policy_trims_on_its_own_schedule() {
        let recorded = replayed(&freeing(), None);
        assert_eq!(
            (recorded.account.discards.effective_bytes(), recorded.account.discards.repeated_bytes),
            (8 << 20, 8 << 20)
        );
        assert_eq!(
            replayed(&freeing(), Some("online")).account.discards,
            recorded.account.discards
        );
        let none = replayed(&freeing(), Some("none"));
        assert_eq!(
            (none.account.discards.ranges.asked.bytes.0, none.account.never_told),
            (0, Bytes(8 << 20))
        );
        for policy in ["batched", "adaptive", "idle"] {
            let outcome = replayed(&freeing(), Some(policy));
            assert_eq!(
                (
                    outcome.account.discards.effective_bytes(),
                    outcome.account.discards.repeated_bytes
                ),
                (8 << 20, 0),
                "{policy}"
            );
            assert_eq!(outcome.account.never_told, Bytes::ZERO, "{policy}");
        }
    }

    #[test]
    fn rest_lets_policies_act() {
        let events = &freeing()[..18];
        for policy in ["batched:every=1h", "idle"] {
            let (short, long) = (
                replayed(events, Some(policy)),
                rested(events, Some(policy), Nanos::from_secs(2 * 86_400)),
            );
            assert_eq!(
                (short.account.discards.effective_bytes(), short.account.never_told),
                (0, Bytes(8 << 20)),
                "{policy}"
            );
            assert_eq!(
                (long.account.discards.effective_bytes(), long.account.never_told),
                (8 << 20, Bytes::ZERO),
                "{policy}"
            );
        }
    }

    #[test]
    fn rewritten_blocks_are_never_trimmed() {
        let mut events = freeing();
        events.insert(
            18,
            event(Nanos::from_millis(300), TraceOpKind::Write, 6 << 20, 2 << 20, Nanos::ZERO),
        );
        let outcome = replayed(&events, Some("batched"));
        assert_eq!(outcome.account.discards.effective_bytes(), 6 << 20);
    }

    #[test]
    fn slower_drive_slows_a_waiting_host() {
        // Each request was issued 1 ms after the previous reply, which took 1 ns.
        let events: Vec<TraceEvent> = (0..50_u64)
            .map(|n| event(Nanos::from_millis(n), TraceOpKind::Read, n << 20, 4096, Nanos(1)))
            .collect();
        let outcome = replayed(&events, None);
        let read = outcome.latency_mean;
        let expected = 49.0 * 1e6 + 50.0 * read;
        assert!(
            (outcome.took.as_f64() - expected).abs() < expected * 0.01,
            "{} for {expected}",
            outcome.took
        );
    }

    #[test]
    fn trace_without_times_replays_at_rate_or_closed_loop() {
        let events: Vec<TraceEvent> = (0..51_u64)
            .map(|n| event(Nanos::ZERO, TraceOpKind::Read, n << 20, 4096, Nanos::ZERO))
            .collect();
        let of = |timing| timed(&events, None, Nanos::ZERO, timing);
        let alone = of(Timing::Rate(10.0)).latency_mean;
        // Fifty pauses of 100 ms plus the last read; back to back; all at once.
        let at_rate = of(Timing::Rate(10.0)).took.as_f64();
        assert!((at_rate - (5e9 + alone)).abs() < alone, "{at_rate}");
        let closed = of(Timing::ClosedLoop(1)).took.as_f64();
        assert!((closed - 51.0 * alone).abs() < 0.02 * closed, "{closed} of 51 times {alone}");
        let deep = of(Timing::ClosedLoop(8)).took.as_f64();
        assert!(deep < closed && deep >= of(Timing::ClosedLoop(51)).took.as_f64(), "{deep}");
        assert_eq!(of(Timing::ClosedLoop(51)).took, of(Timing::Recorded).took, "all at time 0");
    }

    #[test]
    fn event_beyond_the_drive_is_refused() {
        let spec = shipped("ocz-vertex-le-100gb", Bytes(512 << 20));
        let interface = Interface::of(&spec);
        let drive = SteeredDrive::new(
            model::build(&spec, 1).unwrap(),
            interface,
            None,
            Nanos::ZERO,
            Bytes::ZERO,
        );
        let mut replay = Replay::new(drive, Nanos::ZERO, Timing::Recorded);
        for (offset, len) in [(512 << 20, 512), (u64::MAX - 4096, 4096), (u64::MAX - 100, 100)] {
            assert!(
                replay
                    .event(&event(Nanos::ZERO, TraceOpKind::Write, offset, len, Nanos::ZERO))
                    .is_err()
            );
        }
        assert!(
            replay.event(&event(Nanos::ZERO, TraceOpKind::Write, 100, 10, Nanos::ZERO)).is_ok(),
            "smaller blocks than the drive's"
        );
    }
}
