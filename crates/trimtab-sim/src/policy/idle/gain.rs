//! Weighs the foreground wait for smaller extents against the drive's gain.
//!
//! A drive that knows less free space collects garbage with less spare space and writes
//! more: about (L + S) / 2S bytes per byte, with L bytes of data and S spare (mean-field
//! formula for random writes; docs/method/trim.md). One more byte known to be free saves
//! W·L / 2S² bytes while W are written. Fewer drive writes mean less foreground wait,
//! which is weighed against the wait for commands.

use crate::policy::{Observation, PolicyState};
use alloc::format;
use alloc::string::String;
use trimtab_drive::units::{Bytes, Nanos};

/// Hidden overprovisioning as a share of the visible capacity: the usual minimum.
const SPARE: f64 = 0.07;
/// Nanoseconds to move a byte: 250 MB/s for reading and writing together.
const MOVED_NS: f64 = 4.0;
/// Minimum number of commands for a verdict on a round.
const COMMANDS_MIN: u64 = 16;
/// Minimum number of collisions: fewer may be chance.
const MET_MIN: f64 = 2.0;

/// Skipped part of a pass, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SkippedExtents {
    /// Upper limit on the size of the skipped extents.
    below: Bytes,
    /// Mean duration of a command of this round.
    took: Nanos,
    /// Foreground requests per thousand of these commands that arrived during one.
    met_per_mille: u64,
}

impl SkippedExtents {
    pub(super) fn remark(self) -> String {
        let Self { below, took, met_per_mille } = self;
        let decimals = if met_per_mille < 1000 { 2 } else { 0 };
        format!(
            "free extents below {below} were skipped: on average a command for them took \
                {took}, and about {:.decimals$} foreground requests arrived meanwhile, which costs \
                foreground I/O more time than it saves the drive; complete=yes trims them too",
            met_per_mille as f64 / 1e3
        )
    }
}

/// Balance of a pass.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PassBalance {
    /// Bytes written since the previous pass began; `None` before the first.
    written: Option<f64>,
    /// Bytes sent in this pass.
    sent: f64,
    /// In this round: collisions, foreground wait in nanoseconds, duration of commands in
    /// nanoseconds, bytes, commands.
    met: f64,
    waiting_ns: f64,
    took_ns: f64,
    bytes: f64,
    commands: u64,
    pub(super) skipped: Option<SkippedExtents>,
}

impl PassBalance {
    pub(super) fn restore(state: &PolicyState) -> Self {
        let [below, took, met] =
            ["below", "took", "met"].map(|name| state.get(&format!("idle.left.{name}")));
        let skipped = below.zip(took).zip(met);
        let skipped = skipped.map(|((below, took), met_per_mille)| SkippedExtents {
            below: Bytes(below),
            took: Nanos(took),
            met_per_mille,
        });
        Self { skipped, ..Self::default() }
    }

    pub(super) fn save(&self, state: &mut PolicyState) {
        if let Some(SkippedExtents { below, took, met_per_mille }) = self.skipped {
            state.set("idle.left.below", below.0);
            state.set("idle.left.took", took.0);
            state.set("idle.left.met", met_per_mille);
        }
    }

    /// Starts a pass; `written` counts from the start of the previous one.
    pub(super) fn begin(&mut self, written: Option<Bytes>) {
        *self = Self { written: written.map(Bytes::as_f64), ..Self::default() };
    }

    pub(super) fn next_round(&mut self) {
        (self.met, self.waiting_ns, self.took_ns) = (0.0, 0.0, 0.0);
        (self.bytes, self.commands) = (0.0, 0);
    }

    /// Adds commands, their bytes and their collisions, each with a wait of half of
    /// `took_ns`.
    pub(super) fn add(&mut self, commands: u64, bytes: f64, met: f64, took_ns: f64) {
        self.commands += commands;
        self.bytes += bytes;
        self.sent += bytes;
        self.met += met;
        self.waiting_ns += met * took_ns / 2.0;
        self.took_ns += commands as f64 * took_ns;
    }

    /// Nanoseconds saved for the drive by each byte sent now, until the next pass.
    fn gain_ns(&self, observation: &Observation<'_>, share_percent: u32) -> f64 {
        let size: f64 = observation.windows.iter().map(|window| window.len as f64).sum();
        let free = observation.free.as_f64().min(size).max(1.0);
        let live = size - free;
        let unknown = self.written.map_or(free, |written| written.min(free));
        // Bytes sent may be known to the drive already; taken as evenly mixed.
        let spare = SPARE * size + free - unknown * (1.0 - (self.sent / free).min(1.0));
        let writes = self.written.unwrap_or(0.0).max(free * f64::from(share_percent) / 100.0);
        MOVED_NS * writes * live / (2.0 * spare * spare) * (unknown / free)
    }

    /// True if the rest is not worth its cost. `below` is the size limit of this round.
    pub(super) fn should_stop(
        &mut self,
        observation: &Observation<'_>,
        share_percent: u32,
        below: Bytes,
    ) -> bool {
        // The largest extents are always sent.
        let is_first = self.sent <= self.bytes;
        if is_first || self.commands < COMMANDS_MIN || self.met < MET_MIN || self.bytes <= 0.0 {
            return false;
        }
        let (waiting, gain) =
            (self.waiting_ns / self.bytes, self.gain_ns(observation, share_percent));
        let stops = waiting > gain;
        if stops {
            let mean = |sum: f64| libm::round(sum / self.commands as f64) as u64;
            let (took, met_per_mille) = (Nanos(mean(self.took_ns)), mean(self.met * 1e3));
            self.skipped = Some(SkippedExtents { below, took, met_per_mille });
        }
        stops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TrimWindow;

    const GB: u64 = 1_000_000_000;

    /// 100 GB with 40 GB free.
    const WINDOWS: [TrimWindow; 2] =
        [TrimWindow { start: 0, len: 50 * GB }, TrimWindow { start: 50 * GB, len: 50 * GB }];

    fn seen() -> Observation<'static> {
        Observation { free: Bytes(40 * GB), ..Observation::of(Nanos::ZERO, &WINDOWS) }
    }

    #[test]
    fn gain_per_gigabyte_matches_formula() {
        // No prior trim: 7 GB spare, 60 GB of data, a tenth of the free space written
        // until the next pass: 4 · 4e9 · 60 / (2 · 49) ns per GB.
        let mut gain = PassBalance::default();
        gain.begin(None);
        assert!((gain.gain_ns(&seen(), 10) * 1e9 / (4.0 * 4e9 * 60.0 / 98.0) - 1.0).abs() < 1e-9);
        // Half of it: 27 GB spare.
        gain.sent = 20e9;
        assert!(
            (gain.gain_ns(&seen(), 10) * 1e9 / (4.0 * 4e9 * 60.0 / (2.0 * 27.0 * 27.0)) - 1.0)
                .abs()
                < 1e-9
        );
        // 8 GB written since the last pass and until the next: a fifth of the free space.
        gain.begin(Some(Bytes(8 * GB)));
        assert!(
            (gain.gain_ns(&seen(), 10) * 1e9 / (4.0 * 8e9 * 60.0 / (2.0 * 39.0 * 39.0) / 5.0)
                - 1.0)
                .abs()
                < 1e-9
        );
    }

    #[test]
    fn pass_stops_where_latency_costs_more_than_gain() {
        let mut gain = PassBalance::default();
        gain.begin(Some(Bytes(8 * GB)));
        gain.add(20, 20e6, 100.0, 1.6e6);
        assert!(!gain.should_stop(&seen(), 10, Bytes(8 << 20)), "the largest are always sent");
        gain.next_round();
        // Gain: 4 · 8e9 · 60 / (2 · 39 · 39) / 5, 126 ms per GB. 1 MB commands that each
        // meet 0.15 requests for half of 1.6 ms: 120 ms per GB.
        gain.add(15, 15e6, 2.25, 1.6e6);
        assert!(!gain.should_stop(&seen(), 10, Bytes(2 << 20)), "too few");
        gain.add(1, 1e6, 0.15, 1.6e6);
        assert!(!gain.should_stop(&seen(), 10, Bytes(2 << 20)));
        assert_eq!(gain.skipped, None);
        // 2.6 requests met 16 commands.
        gain.add(0, 0.0, 0.2, 1.6e6);
        assert!(gain.should_stop(&seen(), 10, Bytes(2 << 20)));
        let text = gain.skipped.map(SkippedExtents::remark).unwrap_or_default();
        assert!(
            text.contains("below 2.10 MB")
                && text.contains("took 1.60 ms, and about 0.16 foreground requests arrived"),
            "{text}"
        );
        let mut state = PolicyState::default();
        gain.save(&mut state);
        assert_eq!(PassBalance::restore(&state).skipped, gain.skipped);
        gain.next_round();
        assert!(!gain.should_stop(&seen(), 10, Bytes(2 << 20)), "measured in the previous round");
    }

    #[test]
    fn pass_without_collisions_never_stops() {
        for met in [0.0, 1.9] {
            let mut gain = PassBalance::default();
            gain.begin(Some(Bytes(1)));
            gain.add(1_000_000, 1.0, met, 5e9);
            assert!(!gain.should_stop(&seen(), 1, Bytes::MAX), "{met}");
        }
    }
}
