//! Replaying a trace on a modelled drive under any trim policy, in virtual time.
//!
//! What the trace trims is what its host had freed. Under `online` (and as recorded) it goes to the drive at once; under `none`
//! never; other policies decide when, window by window, the drive is told what it has not been told yet.
//!
//! A recording knows how long its requests took, so the host is replayed as one that waits: a request follows the completion that
//! came before it in the recording, after the same pause; a slower drive slows the host down. Traces without latencies
//! are replayed at their recorded times.

use super::{Event, Kind};
use crate::drives::model::Model;
use crate::serve::engine::{Counts, Settings};
use crate::serve::ledger::{Discards, Ledger, UnitMap};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use trimtab_core::drive::{Command, Extent};
use trimtab_core::policy::{Action, Observation, Policy, PolicySpec, State};
use trimtab_core::target::{TrimOutcome, TrimWindow};
use trimtab_core::units::{Bytes, Nanos};

/// What a policy trims at a time: the block group of ext4 with blocks of 4 KiB.
const WINDOW_BYTES: u64 = 128 << 20;

/// What a replay did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the first request to the last completion, in model time.
    pub took: Nanos,
    /// The host's requests, and the policy's trims.
    pub counts: Counts,
    /// What was trimmed, by whomever.
    pub discards: Discards,
    /// Bytes that the host had freed and the drive was never told.
    pub never_told: Bytes,
    /// Bytes written to the medium over bytes written by the host, during the replay.
    pub waf: Option<f64>,
    /// The model's counters at the end.
    pub model: BTreeMap<String, u64>,
}

/// A replay under way.
pub struct Replay {
    drive: Box<dyn Model>,
    settings: Settings,
    /// `None`: trims go to the drive as they are in the trace.
    policy: Option<Box<dyn Policy>>,
    /// What holds data, as the host sees it.
    host: UnitMap,
    /// What the drive is told, and what that changed.
    ledger: Ledger,
    /// Freed by the host, and the drive does not know.
    untold: UnitMap,
    windows: Vec<TrimWindow>,
    counts: Counts,
    now: Nanos,
    started: Nanos,
    last_done: Nanos,
    /// When the rest after the trace began.
    ended: Option<Nanos>,
    ask_at: Nanos,
    last_trim: Option<TrimOutcome>,
    wait_max: Option<Nanos>,
    written: u64,
    written_before: (u64, u64),
    pace: HostPace,
}

/// When the host makes its next request.
#[derive(Default)]
struct HostPace {
    /// Completions in the recording, with those in the replay.
    open: BinaryHeap<Reverse<(Nanos, Nanos)>>,
    /// The latest completion of the recording that has been passed, and that request's completion in the replay.
    anchor: (Nanos, Nanos),
}

impl HostPace {
    fn arrival(&mut self, event: &Event) -> Nanos {
        while let Some(Reverse((recorded, replayed))) = self.open.peek().copied()
            && recorded <= event.at
        {
            self.open.pop();
            self.anchor = (recorded, self.anchor.1.max(replayed));
        }
        self.anchor.1 + event.at.saturating_sub(self.anchor.0)
    }

    fn completes(&mut self, event: &Event, done: Nanos) {
        if event.latency > Nanos::ZERO {
            self.open.push(Reverse((event.at + event.latency, done)));
        }
    }
}

impl Replay {
    /// A replay on `drive`, which may have had a life before, from `now` on. `mapped` says which of its space holds data.
    pub fn new(drive: Box<dyn Model>, settings: Settings, policy: Option<&PolicySpec>, now: Nanos, mapped: Bytes) -> Self {
        let geometry = settings.geometry;
        let mut ledger = Ledger::new(geometry.size, geometry.logical_block);
        ledger.wrote(0, mapped.0);
        let windows = (0..geometry.size.div_ceil(WINDOW_BYTES))
            .map(|n| TrimWindow { start: n * WINDOW_BYTES, len: WINDOW_BYTES.min(geometry.size - n * WINDOW_BYTES) })
            .collect();
        let written_before = drive.written();
        Self {
            untold: UnitMap::new(ledger.map().len()),
            host: ledger.map().clone(),
            ledger,
            drive,
            settings,
            // Policies count from the start of their clock.
            policy: policy.filter(|policy| !matches!(policy, PolicySpec::Online)).map(|policy| policy.build(&State::default())),
            windows,
            counts: Counts::default(),
            now,
            started: now,
            last_done: now,
            ended: None,
            ask_at: Nanos::ZERO,
            last_trim: None,
            wait_max: None,
            written: 0,
            written_before,
            pace: HostPace { open: BinaryHeap::new(), anchor: (Nanos::ZERO, now) },
        }
    }

    /// Replays one event. `Err` if it does not fit on the drive.
    pub fn event(&mut self, event: &Event) -> Result<(), String> {
        let block = u64::from(self.settings.geometry.logical_block);
        let size = self.settings.geometry.size;
        // Traces of drives with smaller blocks touch the whole of each block.
        let offset = event.offset / block * block;
        let end = event.offset.checked_add(event.len).and_then(|end| end.checked_next_multiple_of(block));
        let Some(end) = end.filter(|end| *end <= size) else {
            return Err(format!("{} bytes at {} go past the end of the drive ({size} bytes)", event.len, event.offset));
        };
        let extent = Extent { offset, len: end - offset };
        let arrival = self.pace.arrival(event);
        self.consult(arrival);
        self.now = self.now.max(arrival);
        let done = match event.kind {
            Kind::Read => self.submit(&Command::Read(extent), extent.len),
            Kind::Write => self.write(extent, event),
            Kind::Trim => self.free(event, block),
            Kind::Flush => self.submit(&Command::Flush, 0),
        };
        self.pace.completes(event, done);
        let waited = done.saturating_sub(arrival);
        self.wait_max = Some(self.wait_max.map_or(waited, |max| max.max(waited)));
        Ok(())
    }

    /// Lets the drive rest for so long after the last request, so that a policy can act; the time does not count as taken.
    pub fn rest(&mut self, duration: Nanos) {
        let ended = self.last_done.max(self.now);
        self.ended.get_or_insert(ended);
        self.consult(ended.saturating_add(duration));
    }

    /// Ends the replay.
    pub fn finish(self) -> Outcome {
        let (host_before, medium_before) = self.written_before;
        let (host, medium) = self.drive.written();
        Outcome {
            took: self.ended.unwrap_or(self.last_done.max(self.now)).saturating_sub(self.started),
            counts: self.counts,
            never_told: Bytes(self.untold.count() * self.ledger.unit()),
            discards: self.ledger.discards,
            waf: (host > host_before).then(|| (medium - medium_before) as f64 / (host - host_before) as f64),
            model: self.drive.counters(),
        }
    }

    fn submit(&mut self, command: &Command<'_>, bytes: u64) -> Nanos {
        let completion = self.drive.submit(self.now, command);
        self.counts.of(command).count(completion.result.is_ok(), bytes, completion.done.saturating_sub(self.now));
        self.last_done = self.last_done.max(completion.done);
        completion.done
    }

    fn write(&mut self, extent: Extent, event: &Event) -> Nanos {
        let units = self.touched(extent);
        self.host.insert(units.clone());
        self.untold.remove(units);
        self.ledger.wrote(extent.offset, extent.len);
        self.written += extent.len;
        let done = self.submit(&Command::Write(extent, event.class), extent.len);
        if event.fua { done.max(self.submit(&Command::Flush, 0)) } else { done }
    }

    /// The host has freed a range.
    fn free(&mut self, event: &Event, block: u64) -> Nanos {
        let (start, end) = (event.offset.next_multiple_of(block), (event.offset + event.len) / block * block);
        if start >= end {
            return self.now;
        }
        let extent = Extent { offset: start, len: end - start };
        let unit = self.ledger.unit();
        let units = start.div_ceil(unit)..end / unit;
        let mut from = units.start;
        if self.policy.is_some() {
            while let Some(run) = self.host.next_run(from, units.end) {
                from = run.end;
                self.untold.insert(run);
            }
        }
        self.host.remove(units);
        if self.policy.is_some() { self.now } else { self.tell(&[extent]) }
    }

    /// Trims, on behalf of the host or the policy.
    fn tell(&mut self, extents: &[Extent]) -> Nanos {
        let mut done = self.now;
        for command in self.settings.trim.commands(extents) {
            let bytes = command.iter().map(|range| range.len).sum();
            done = done.max(self.submit(&Command::Trim(&command), bytes));
        }
        self.ledger.command();
        for extent in extents {
            if self.settings.geometry.discard_granularity == 0 {
                self.ledger.refused(extent.len);
            } else {
                self.ledger.trimmed(extent.offset, extent.len);
            }
        }
        done
    }

    /// Asks the policy whatever it wants to be asked before `until`.
    fn consult(&mut self, until: Nanos) {
        while self.policy.is_some() && self.ask_at <= until {
            self.now = self.now.max(self.ask_at);
            let last_trim = self.last_trim.take();
            let in_flight = u32::from(self.last_done > self.now);
            let observation = Observation {
                now: self.now,
                written: Some(Bytes(self.written)),
                written_step: Bytes(1),
                free: Bytes((self.host.len() - self.host.count()) * self.ledger.unit()),
                windows: &self.windows,
                granule: Bytes(self.ledger.unit()),
                in_flight,
                idle_since: (in_flight == 0).then_some(self.last_done),
                foreground_wait_max: self.wait_max.take(),
                last_trim: last_trim.as_ref(),
                forced: false,
                shutting_down: false,
                on_battery: false,
            };
            let Some(policy) = &mut self.policy else { return };
            match policy.decide(&observation) {
                Action::Trim { window, min_extent, command_max } => self.trim_window(window, min_extent, command_max),
                // A policy that wants to be asked at once again would keep time from passing.
                Action::WaitUntil(instant) => self.ask_at = instant.max(self.now + Nanos(1)),
                Action::Nothing => {
                    self.ask_at = Nanos::MAX;
                    return;
                }
            }
        }
    }

    fn trim_window(&mut self, window: TrimWindow, min_extent: Bytes, command_max: Bytes) {
        let unit = self.ledger.unit();
        let (mut from, end) = (window.start.div_ceil(unit), (window.start + window.len).div_ceil(unit));
        let began = self.now;
        let (mut commands, mut bytes) = (0, 0);
        while let Some(run) = self.untold.next_run(from, end) {
            from = run.end;
            let extent = Extent { offset: run.start * unit, len: (run.end - run.start) * unit };
            if extent.len < min_extent.0 {
                continue;
            }
            self.untold.remove(run);
            let step = (command_max.0 / unit * unit).max(unit);
            let mut at = 0;
            while at < extent.len {
                let piece = Extent { offset: extent.offset + at, len: step.min(extent.len - at) };
                self.now = self.now.max(self.tell(&[piece]));
                at += piece.len;
                commands += 1;
                bytes += piece.len;
            }
        }
        let took = self.now.saturating_sub(began);
        self.last_trim = Some(TrimOutcome {
            asked: Bytes(window.len),
            returned: Bytes(bytes),
            device_commands: Some(commands),
            device_bytes: Some(Bytes(bytes)),
            took,
        });
        self.ask_at = self.now;
    }

    fn touched(&self, extent: Extent) -> std::ops::Range<u64> {
        let unit = self.ledger.unit();
        extent.offset / unit..(extent.offset + extent.len).div_ceil(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives::model;
    use crate::serve::pace::Speed;
    use trimtab_core::data::DataClass;

    fn replayed(events: &[Event], policy: Option<&str>) -> Outcome {
        rested(events, policy, Nanos::ZERO)
    }

    fn rested(events: &[Event], policy: Option<&str>, rest: Nanos) -> Outcome {
        let spec = crate::drives::load("ocz-vertex-le-100gb").unwrap().spec;
        let spec = model::sized(spec, Some(Bytes(512 << 20))).unwrap();
        let settings = Settings::of(&spec, Speed::Unpaced);
        let policy: Option<PolicySpec> = policy.map(|policy| policy.parse().unwrap());
        let mut replay = Replay::new(model::build(&spec, 1).unwrap(), settings, policy.as_ref(), Nanos::ZERO, Bytes::ZERO);
        events.iter().for_each(|event| replay.event(event).unwrap());
        if rest > Nanos::ZERO {
            replay.rest(rest);
        }
        replay.finish()
    }

    fn event(at: Nanos, kind: Kind, offset: u64, len: u64, latency: Nanos) -> Event {
        Event { at, kind, offset, len, class: DataClass::Random, fua: false, continues: false, latency, errno: None }
    }

    /// Writes 16 MiB, frees 8 MiB, and frees them again; then nothing but a read a day later.
    fn freeing() -> Vec<Event> {
        let ms = Nanos::from_millis;
        let mut events: Vec<Event> = (0..16).map(|n| event(ms(n), Kind::Write, n << 20, 1 << 20, Nanos::ZERO)).collect();
        events.push(event(ms(100), Kind::Trim, 4 << 20, 8 << 20, Nanos::ZERO));
        events.push(event(ms(200), Kind::Trim, 4 << 20, 8 << 20, Nanos::ZERO));
        events.push(event(Nanos::from_secs(86_400 * 8), Kind::Read, 0, 4096, Nanos::ZERO));
        events
    }

    #[test]
    fn each_policy_tells_the_drive_in_its_own_time() {
        let recorded = replayed(&freeing(), None);
        assert_eq!((recorded.discards.effective_bytes, recorded.discards.repeated_bytes), (8 << 20, 8 << 20));
        assert_eq!(replayed(&freeing(), Some("online")).discards, recorded.discards);
        let none = replayed(&freeing(), Some("none"));
        assert_eq!((none.discards.asked.bytes, none.never_told), (0, Bytes(8 << 20)));
        for policy in ["batched", "adaptive", "idle"] {
            let outcome = replayed(&freeing(), Some(policy));
            assert_eq!((outcome.discards.effective_bytes, outcome.discards.repeated_bytes), (8 << 20, 0), "{policy}");
            assert_eq!(outcome.never_told, Bytes::ZERO, "{policy}");
        }
    }

    #[test]
    fn a_rest_gives_policies_time_and_takes_none() {
        let events = &freeing()[..18];
        for policy in ["batched:every=1h", "idle"] {
            let (short, long) = (replayed(events, Some(policy)), rested(events, Some(policy), Nanos::from_secs(86_400)));
            assert_eq!((short.discards.effective_bytes, short.never_told), (0, Bytes(8 << 20)), "{policy}");
            assert_eq!((long.discards.effective_bytes, long.never_told), (8 << 20, Bytes::ZERO), "{policy}");
            assert_eq!((long.took, long.counts.write.bytes), (short.took, short.counts.write.bytes), "{policy}");
        }
    }

    #[test]
    fn what_is_written_again_is_never_trimmed() {
        let mut events = freeing();
        events.insert(18, event(Nanos::from_millis(300), Kind::Write, 6 << 20, 2 << 20, Nanos::ZERO));
        let outcome = replayed(&events, Some("batched"));
        assert_eq!(outcome.discards.effective_bytes, 6 << 20);
    }

    #[test]
    fn a_waiting_host_is_slowed_down_by_a_slower_drive() {
        // Each request was made 1 ms after the one before had been answered, which took 1 ns.
        let events: Vec<Event> = (0..50_u64).map(|n| event(Nanos::from_millis(n), Kind::Read, n << 20, 4096, Nanos(1))).collect();
        let outcome = replayed(&events, None);
        let read = outcome.counts.read.latency.mean_ns();
        let expected = 49.0 * 1e6 + 50.0 * read;
        assert!((outcome.took.as_f64() - expected).abs() < expected * 0.01, "{} for {expected}", outcome.took);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let spec = model::sized(crate::drives::load("ocz-vertex-le-100gb").unwrap().spec, Some(Bytes(512 << 20))).unwrap();
        let settings = Settings::of(&spec, Speed::Unpaced);
        let mut replay = Replay::new(model::build(&spec, 1).unwrap(), settings, None, Nanos::ZERO, Bytes::ZERO);
        for (offset, len) in [(512 << 20, 512), (u64::MAX - 4096, 4096), (u64::MAX - 100, 100)] {
            assert!(replay.event(&event(Nanos::ZERO, Kind::Write, offset, len, Nanos::ZERO)).is_err());
        }
        assert!(replay.event(&event(Nanos::ZERO, Kind::Write, 100, 10, Nanos::ZERO)).is_ok(), "smaller blocks than the drive's");
    }
}
