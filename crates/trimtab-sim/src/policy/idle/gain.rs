//! Whether it is worth while to go on with smaller free extents: what others would wait for the next gigabyte, and what the drive gains by it.
//!
//! A drive that knows less of what is free collects garbage with less space to spare, and writes more: about (L + S) / 2S bytes for each, with L bytes of data
//! and S to spare (the mean-field formula for random writes; docs/method/trim.md). So one more byte that is known to be free saves W·L / 2S² bytes while W are written.
//! What the drive writes less, others wait less: that is held against what they wait for commands.

use crate::policy::{Observation, State};
use alloc::format;
use alloc::string::String;
use trimtab_drive::units::{Bytes, Nanos};

/// Spare space that the drive has beyond what it shows, as a share of that: the least that is usual.
const SPARE: f64 = 0.07;
/// A byte that is moved takes so long, in nanoseconds: 250 MB/s, reading and writing together.
const MOVED_NS: f64 = 4.0;
/// Before so many commands nothing is said about a round.
const COMMANDS_MIN: u64 = 16;
/// And before so many requests were met: one may be chance.
const MET_MIN: f64 = 2.0;

/// What was left out of a pass, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// Free extents below this.
    below: Bytes,
    /// What others would wait for a gigabyte of them.
    waiting: Nanos,
    /// What the drive would gain by it.
    gain: Nanos,
}

impl Left {
    /// As people read it.
    pub(super) fn told(self) -> String {
        let Self { below, waiting, gain } = self;
        format!(
            "free extents below {below} were left: for each GB of them others would wait {waiting} in all, and the drive would have {gain} less to do until the next pass; \
             complete=yes sends them too"
        )
    }
}

/// What a pass has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gain {
    /// Written since the pass before began; all that is free may be new to the drive if there was none.
    written: Option<f64>,
    /// Sent in this pass.
    sent: f64,
    /// In the present round: requests that were met, others' waiting in nanoseconds, bytes and commands.
    met: f64,
    waiting_ns: f64,
    bytes: f64,
    commands: u64,
    pub(super) left: Option<Left>,
}

impl Gain {
    pub(super) fn restore(state: &State) -> Self {
        let [below, waiting, gain] = ["below", "waiting", "gain"].map(|name| state.get(&format!("idle.left.{name}")));
        let left = below.zip(waiting).zip(gain);
        let left = left.map(|((below, waiting), gain)| Left { below: Bytes(below), waiting: Nanos(waiting), gain: Nanos(gain) });
        Self { left, ..Self::default() }
    }

    pub(super) fn save(&self, state: &mut State) {
        if let Some(Left { below, waiting, gain }) = self.left {
            state.set("idle.left.below", below.0);
            state.set("idle.left.waiting", waiting.0);
            state.set("idle.left.gain", gain.0);
        }
    }

    /// A pass begins, so many bytes after the beginning of the one before.
    pub(super) fn begin(&mut self, written: Option<Bytes>) {
        *self = Self { written: written.map(Bytes::as_f64), ..Self::default() };
    }

    /// A round is over.
    pub(super) fn next_round(&mut self) {
        (self.met, self.waiting_ns, self.bytes, self.commands) = (0.0, 0.0, 0.0, 0);
    }

    /// So many commands sent so many bytes, and met so many requests, each of which waited half of `took_ns`.
    pub(super) fn add(&mut self, commands: u64, bytes: f64, met: f64, took_ns: f64) {
        self.commands += commands;
        self.bytes += bytes;
        self.sent += bytes;
        self.met += met;
        self.waiting_ns += met * took_ns / 2.0;
    }

    /// Nanoseconds that the drive gains by each byte that is sent now, until the next pass.
    fn gain_ns(&self, observation: &Observation<'_>, share_percent: u32) -> f64 {
        let size: f64 = observation.windows.iter().map(|window| window.len as f64).sum();
        let free = observation.free.as_f64().min(size).max(1.0);
        let live = size - free;
        let unknown = self.written.map_or(free, |written| written.min(free));
        // Sent are also bytes that the drive knows: they are taken to be mixed evenly.
        let spare = SPARE * size + free - unknown * (1.0 - (self.sent / free).min(1.0));
        let writes = self.written.unwrap_or(0.0).max(free * f64::from(share_percent) / 100.0);
        MOVED_NS * writes * live / (2.0 * spare * spare) * (unknown / free)
    }

    /// Whether the rest is not worth while; `below` is what the extents of this round are shorter than.
    pub(super) fn should_stop(&mut self, observation: &Observation<'_>, share_percent: u32, below: Bytes) -> bool {
        // Without the largest that there are it would be no pass.
        let is_first = self.sent <= self.bytes;
        if is_first || self.commands < COMMANDS_MIN || self.met < MET_MIN || self.bytes <= 0.0 {
            return false;
        }
        let (waiting, gain) = (self.waiting_ns / self.bytes, self.gain_ns(observation, share_percent));
        let stops = waiting > gain;
        if stops {
            let of_gb = |nanos: f64| Nanos(libm::round(nanos * 1e9) as u64);
            self.left = Some(Left { below, waiting: of_gb(waiting), gain: of_gb(gain) });
        }
        stops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TrimWindow;

    const GB: u64 = 1_000_000_000;

    /// 100 GB, of which 40 are free.
    const WINDOWS: [TrimWindow; 2] = [TrimWindow { start: 0, len: 50 * GB }, TrimWindow { start: 50 * GB, len: 50 * GB }];

    fn seen() -> Observation<'static> {
        Observation { free: Bytes(40 * GB), ..Observation::of(Nanos::ZERO, &WINDOWS) }
    }

    #[test]
    fn a_gigabyte_more_to_spare_saves_what_the_formula_says() {
        // Nothing was ever told: 7 GB to spare, 60 of data, and a tenth of the free space written until the next pass: 4 · 4e9 · 60 / (2 · 49) ns a GB.
        let mut gain = Gain::default();
        gain.begin(None);
        assert!((gain.gain_ns(&seen(), 10) * 1e9 / (4.0 * 4e9 * 60.0 / 98.0) - 1.0).abs() < 1e-9);
        // Half of it: 27 GB to spare.
        gain.sent = 20e9;
        assert!((gain.gain_ns(&seen(), 10) * 1e9 / (4.0 * 4e9 * 60.0 / (2.0 * 27.0 * 27.0)) - 1.0).abs() < 1e-9);
        // 8 GB written since the last pass: of what is free a fifth is new, and as much will be written until the next.
        gain.begin(Some(Bytes(8 * GB)));
        assert!((gain.gain_ns(&seen(), 10) * 1e9 / (4.0 * 8e9 * 60.0 / (2.0 * 39.0 * 39.0) / 5.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn pass_stops_where_latency_costs_more_than_gain() {
        let mut gain = Gain::default();
        gain.begin(Some(Bytes(8 * GB)));
        gain.add(20, 20e6, 100.0, 1.6e6);
        assert!(!gain.should_stop(&seen(), 10, Bytes(8 << 20)), "the largest are sent in any case");
        gain.next_round();
        // Gain: 4 · 8e9 · 60 / (2 · 39 · 39) / 5, 126 ms a GB. Commands of 1 MB that each meet 0.15 of a request for half of 1.6 ms: 120 ms a GB.
        gain.add(15, 15e6, 2.25, 1.6e6);
        assert!(!gain.should_stop(&seen(), 10, Bytes(2 << 20)), "too few");
        gain.add(1, 1e6, 0.15, 1.6e6);
        assert!(!gain.should_stop(&seen(), 10, Bytes(2 << 20)));
        assert_eq!(gain.left, None);
        gain.add(0, 0.0, 0.2, 1.6e6);
        assert!(gain.should_stop(&seen(), 10, Bytes(2 << 20)));
        let text = gain.left.map(Left::told).unwrap_or_default();
        assert!(text.contains("below 2.10 MB") && text.contains("130 ms") && text.contains("126 ms"), "{text}");
        let mut state = State::default();
        gain.save(&mut state);
        assert_eq!(Gain::restore(&state).left, gain.left);
        gain.next_round();
        assert!(!gain.should_stop(&seen(), 10, Bytes(2 << 20)), "of the round before");
    }

    #[test]
    fn where_nobody_waits_it_never_stops() {
        for met in [0.0, 1.9] {
            let mut gain = Gain::default();
            gain.begin(Some(Bytes(1)));
            gain.add(1_000_000, 1.0, met, 5e9);
            assert!(!gain.should_stop(&seen(), 1, Bytes::MAX), "{met}");
        }
    }
}
