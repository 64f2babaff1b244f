//! `adaptive`: a full trim once enough data has been written.

use super::counter::WrittenBytes;
use super::pass::Pass;
use super::{Action, Observation, Policy, PolicyState};
use trimtab_drive::units::{Bytes, Nanos};

/// Settings of [`AdaptivePolicy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveSettings {
    /// Bytes written since the last pass began, in percent of the free space, that
    /// trigger a pass. Default 75, as in ChromeOS: most free space may have been
    /// rewritten since its last trim, and the drive is about to run out of blocks known
    /// to be free.
    pub share_percent: u32,
    /// Minimum time between the starts of two passes. Default 1 min.
    pub at_most_every: Nanos,
    /// Maximum time between starts, in case the counter does not advance. Default 7 days.
    pub at_least_every: Nanos,
    /// Poll interval of the counter. Default 10 s.
    pub poll: Nanos,
    /// Skip smaller free extents. Default 0.
    pub min_extent: Bytes,
    /// Trim on battery too. Default no.
    pub on_battery: bool,
}

impl Default for AdaptiveSettings {
    fn default() -> Self {
        Self {
            share_percent: 75,
            at_most_every: Nanos::from_secs(60),
            at_least_every: Nanos::from_secs(7 * 86_400),
            poll: Nanos::from_secs(10),
            min_extent: Bytes::ZERO,
            on_battery: false,
        }
    }
}

/// Trims all windows when the bytes written reach a share of the free space.
///
/// With a stepping counter it triggers within one step of the threshold, either side.
#[derive(Clone, Debug)]
pub struct AdaptivePolicy {
    settings: AdaptiveSettings,
    trigger: Trigger,
    pass: Pass,
}

impl AdaptivePolicy {
    /// Creates the policy with the given state.
    #[must_use]
    pub fn new(settings: AdaptiveSettings, state: &PolicyState) -> Self {
        Self { settings, trigger: Trigger::restore(state), pass: Pass::restore(state) }
    }
}

impl Policy for AdaptivePolicy {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn decide(&mut self, observation: &Observation<'_>) -> Action {
        self.pass.settle(observation);
        self.trigger.observe(observation);
        if observation.forced {
            self.trigger.fired(observation.now);
        }
        self.pass.request(observation.forced);
        if !self.pass.forced() && observation.on_battery && !self.settings.on_battery {
            return Action::Nothing;
        }
        let AdaptiveSettings { share_percent, at_most_every, at_least_every, .. } = self.settings;
        if !self.pass.running()
            && self.trigger.due(observation, share_percent, at_most_every, at_least_every)
        {
            self.trigger.fired(observation.now);
            self.pass.start();
        }
        self.pass
            .drive(observation, self.settings.min_extent)
            .unwrap_or(Action::WaitUntil(observation.now.saturating_add(self.settings.poll)))
    }

    fn pass(&self) -> &Pass {
        &self.pass
    }

    fn state(&self) -> PolicyState {
        let mut state = PolicyState::default();
        self.pass.save(&mut state);
        self.trigger.save(&mut state);
        state
    }
}

/// Decides when a pass is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trigger {
    written: WrittenBytes,
    /// Start of the last pass, or the first observation.
    started: Option<Nanos>,
    /// A pass began at `started`, so the minimum interval applies.
    fired: bool,
}

impl Trigger {
    pub(super) fn restore(state: &PolicyState) -> Self {
        Self {
            written: WrittenBytes::restore(state),
            started: state.nanos("trigger.started"),
            fired: state.get("trigger.fired").is_some_and(|fired| fired != 0),
        }
    }

    pub(super) fn save(&self, state: &mut PolicyState) {
        self.written.save(state);
        state.set_some("trigger.started", self.started.map(|instant| instant.0));
        state.set("trigger.fired", u64::from(self.fired));
    }

    pub(super) fn observe(&mut self, observation: &Observation<'_>) {
        self.written.observe(observation.written);
        // A clock that went back (restored elsewhere) must not postpone passes forever.
        self.started =
            Some(self.started.map_or(observation.now, |started| started.min(observation.now)));
    }

    /// True if a pass should begin.
    pub(super) fn due(
        &self,
        observation: &Observation<'_>,
        share_percent: u32,
        at_most_every: Nanos,
        at_least_every: Nanos,
    ) -> bool {
        let Some(started) = self.started else { return false };
        let ago = observation.now.saturating_sub(started);
        if ago >= at_least_every {
            return true;
        }
        if self.fired && ago < at_most_every {
            return false;
        }
        let threshold = u128::from(observation.free.0) * u128::from(share_percent) / 100;
        // Requires some writes, so that a full, idle filesystem is not trimmed
        // repeatedly.
        self.written
            .since()
            .is_some_and(|since| since > Bytes::ZERO && u128::from(since.0) >= threshold)
    }

    /// Bytes written since the last pass began; `None` without a pass or a counter.
    pub(super) fn written_since_a_pass(&self) -> Option<Bytes> {
        self.written.since().filter(|_| self.fired)
    }

    /// Start of the last pass; `None` before the first.
    pub(super) fn last_pass(&self) -> Option<Nanos> {
        self.started.filter(|_| self.fired)
    }

    /// Records the start of a pass. Later writes count for the next pass, because this
    /// one may already be past the location they free.
    pub(super) fn fired(&mut self, now: Nanos) {
        self.started = Some(now);
        self.fired = true;
        self.written.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At `now`, with `written` bytes so far and 1,000 free.
    fn at(now: u64, written: u64) -> Observation<'static> {
        Observation {
            written: Some(Bytes(written)),
            free: Bytes(1000),
            ..Observation::of(Nanos(now), &[])
        }
    }

    /// Threshold three quarters of the free space, interval at least 10 and at most 100.
    fn due(trigger: &mut Trigger, now: u64, written: u64) -> bool {
        trigger.observe(&at(now, written));
        trigger.due(&at(now, written), 75, Nanos(10), Nanos(100))
    }

    #[test]
    fn trigger_is_due_by_bytes_written_and_by_time() {
        let mut trigger = Trigger::default();
        assert!(
            !trigger.due(&at(500, 5000), 75, Nanos(10), Nanos(100)),
            "before the first observation"
        );
        assert!(!due(&mut trigger, 500, 5000));
        assert!(
            !due(&mut trigger, 501, 5749) && due(&mut trigger, 502, 5750),
            "750 of 1,000, and no minimum interval before the first pass"
        );
        trigger.fired(Nanos(510));
        assert!(
            !due(&mut trigger, 515, 6400) && !due(&mut trigger, 519, 6500),
            "minimum interval of ten, although enough was written"
        );
        assert!(due(&mut trigger, 520, 6500), "just ten");
        trigger.fired(Nanos(530));
        assert!(
            !due(&mut trigger, 629, 6500) && due(&mut trigger, 630, 6500),
            "maximum interval of a hundred, although nothing was written"
        );
        // A clock that went back counts from there.
        assert!(
            !due(&mut trigger, 200, 6500)
                && !due(&mut trigger, 299, 6500)
                && due(&mut trigger, 300, 6500)
        );
    }

    #[test]
    fn adaptive_trims_untouched_full_filesystem_once() {
        let full = |written| Observation { free: Bytes::ZERO, ..at(20, written) };
        let mut trigger = Trigger::default();
        trigger.observe(&full(0));
        trigger.fired(Nanos(0));
        assert!(!trigger.due(&full(0), 75, Nanos(10), Nanos(100)));
        trigger.observe(&full(1));
        assert!(trigger.due(&full(1), 75, Nanos(10), Nanos(100)));
    }
}
