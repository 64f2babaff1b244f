//! `batched`: everything at once at set times, as `fstrim.timer` does it.

use super::pass::Pass;
use super::{Action, Observation, Policy, State};
use trimtab_drive::units::{Bytes, Nanos};

/// When a batched trim is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// This long after the start of the one before. The first is due this long after the policy first ran.
    Every(Nanos),
    /// Every 24 h at this time of the day (instants of the clock modulo 24 h).
    Nightly(Nanos),
    /// When the system goes down.
    AtShutdown,
}

/// Settings of [`Batched`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchedSettings {
    /// When.
    pub schedule: Schedule,
    /// Leave smaller free extents alone. Default 0.
    pub min_extent: Bytes,
    /// Trim on battery too. Default no.
    pub on_battery: bool,
}

impl Default for BatchedSettings {
    /// Every 7 days: what `fstrim.timer` ships with.
    fn default() -> Self {
        Self { schedule: Schedule::Every(Nanos::from_secs(7 * DAY_S)), min_extent: Bytes::ZERO, on_battery: false }
    }
}

const DAY_S: u64 = 86_400;
const DAY: Nanos = Nanos::from_secs(DAY_S);

/// Trims all windows, one after the other without pause, at set times. A time that is missed (the machine was off, or on battery) is made
/// up for at the next opportunity.
#[derive(Clone, Debug)]
pub struct Batched {
    settings: BatchedSettings,
    pass: Pass,
    /// When the next pass is due.
    due: Option<Nanos>,
    /// The pass of this shutdown has begun.
    at_shutdown: bool,
}

impl Batched {
    /// The policy, as it was when `state` was taken.
    #[must_use]
    pub fn new(settings: BatchedSettings, state: &State) -> Self {
        Self { settings, pass: Pass::restore(state), due: state.nanos("batched.due"), at_shutdown: false }
    }

    /// The first due instant after `now`.
    fn due_after(&self, now: Nanos) -> Nanos {
        match self.settings.schedule {
            Schedule::Every(period) => now.saturating_add(period),
            Schedule::Nightly(time) => {
                let ahead = (time.0 + DAY.0 - now.0 % DAY.0) % DAY.0;
                now.saturating_add(Nanos(if ahead == 0 { DAY.0 } else { ahead }))
            }
            Schedule::AtShutdown => Nanos::MAX,
        }
    }

    /// Whether a pass has to begin now.
    fn must_start(&mut self, observation: &Observation<'_>) -> bool {
        let due = *self.due.get_or_insert(self.due_after(observation.now));
        let last_chance = observation.shutting_down && self.settings.schedule == Schedule::AtShutdown && !self.at_shutdown;
        self.at_shutdown = observation.shutting_down && (self.at_shutdown || last_chance);
        observation.now >= due || last_chance
    }
}

impl Policy for Batched {
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
        if observation.shutting_down && !self.at_shutdown && !self.pass.forced() {
            // A pass that is under way goes on after the restart.
            return Action::Nothing;
        }
        self.pass.drive(observation, self.settings.min_extent).unwrap_or(match self.due {
            Some(due) if due != Nanos::MAX => Action::WaitUntil(due),
            _ => Action::Nothing,
        })
    }

    fn pass(&self) -> &Pass {
        &self.pass
    }

    fn state(&self) -> State {
        let mut state = State::default();
        self.pass.save(&mut state);
        state.set_some("batched.due", self.due.map(|due| due.0));
        state
    }
}
