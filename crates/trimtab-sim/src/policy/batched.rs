//! `batched`: full trims on a schedule, like `fstrim.timer`.

use super::pass::Pass;
use super::{Action, Observation, Policy, PolicyState};
use trimtab_drive::units::{Bytes, Nanos};

/// Schedule of a batched trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// This long after the start of the previous pass, or after the first call.
    Every(Nanos),
    /// Every 24 h at this time of day (clock modulo 24 h).
    Nightly(Nanos),
}

/// Settings of [`BatchedPolicy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchedSettings {
    /// Schedule.
    pub schedule: Schedule,
    /// Skip smaller free extents. Default 0.
    pub min_extent: Bytes,
    /// Trim on battery too. Default no.
    pub on_battery: bool,
}

impl Default for BatchedSettings {
    /// Every 7 days, the default of `fstrim.timer`.
    fn default() -> Self {
        Self {
            schedule: Schedule::Every(Nanos(7 * DAY.0)),
            min_extent: Bytes::ZERO,
            on_battery: false,
        }
    }
}

const DAY: Nanos = Nanos::from_secs(86_400);

/// Trims all windows on a schedule. Makes up for a missed time (off or on battery).
#[derive(Clone, Debug)]
pub struct BatchedPolicy {
    settings: BatchedSettings,
    pass: Pass,
    /// Time of the next pass.
    due: Option<Nanos>,
}

impl BatchedPolicy {
    /// Creates the policy with the given state.
    #[must_use]
    pub fn new(settings: BatchedSettings, state: &PolicyState) -> Self {
        Self { settings, pass: Pass::restore(state), due: state.nanos("batched.due") }
    }

    fn due_after(&self, now: Nanos) -> Nanos {
        match self.settings.schedule {
            Schedule::Every(period) => now.saturating_add(period),
            Schedule::Nightly(time) => {
                let ahead = (time.0 + DAY.0 - now.0 % DAY.0) % DAY.0;
                now.saturating_add(Nanos(if ahead == 0 { DAY.0 } else { ahead }))
            }
        }
    }

    fn must_start(&mut self, observation: &Observation<'_>) -> bool {
        let due = *self.due.get_or_insert(self.due_after(observation.now));
        observation.now >= due
    }
}

impl Policy for BatchedPolicy {
    fn name(&self) -> &'static str {
        "batched"
    }

    fn decide(&mut self, observation: &Observation<'_>) -> Action {
        self.pass.settle(observation);
        self.pass.request(observation.forced);
        if observation.on_battery && !self.settings.on_battery && !self.pass.forced() {
            return Action::Nothing;
        }
        if self.must_start(observation) && !self.pass.running() {
            self.pass.start();
            self.due = Some(self.due_after(observation.now));
        }
        self.pass
            .drive(observation, self.settings.min_extent)
            .unwrap_or(self.due.map_or(Action::Nothing, Action::WaitUntil))
    }

    fn pass(&self) -> &Pass {
        &self.pass
    }

    fn state(&self) -> PolicyState {
        let mut state = PolicyState::default();
        self.pass.save(&mut state);
        state.set_some("batched.due", self.due.map(|due| due.0));
        state
    }
}
