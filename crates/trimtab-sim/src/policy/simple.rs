//! Policies without a schedule: `now`, `none`, and the filesystem's online discard.

use super::pass::Pass;
use super::{Action, Observation, Policy, PolicyState};
use trimtab_drive::units::Bytes;

/// `none`: trims only on request.
#[derive(Clone, Debug, Default)]
pub struct ManualPolicy {
    pass: Pass,
    min_extent: Bytes,
}

impl ManualPolicy {
    /// Creates the policy with the given state.
    #[must_use]
    pub fn new(min_extent: Bytes, state: &PolicyState) -> Self {
        Self { pass: Pass::restore(state), min_extent }
    }
}

impl Policy for ManualPolicy {
    fn name(&self) -> &'static str {
        "none"
    }

    fn decide(&mut self, observation: &Observation<'_>) -> Action {
        self.pass.settle(observation);
        self.pass.request(observation.forced);
        self.pass.drive(observation, self.min_extent).unwrap_or(Action::Nothing)
    }

    fn pass(&self) -> &Pass {
        &self.pass
    }

    fn state(&self) -> PolicyState {
        let mut state = PolicyState::default();
        self.pass.save(&mut state);
        state
    }
}

/// `now`: one full trim at once, like `fstrim`; then as [`ManualPolicy`].
#[derive(Clone, Debug, Default)]
pub struct NowPolicy {
    by_hand: ManualPolicy,
    begun: bool,
}

impl NowPolicy {
    /// Creates the policy with the given state. An interrupted pass resumes.
    #[must_use]
    pub fn new(min_extent: Bytes, state: &PolicyState) -> Self {
        let by_hand = ManualPolicy::new(min_extent, state);
        Self { begun: by_hand.running(), by_hand }
    }
}

impl Policy for NowPolicy {
    fn name(&self) -> &'static str {
        "now"
    }

    fn decide(&mut self, observation: &Observation<'_>) -> Action {
        if !core::mem::replace(&mut self.begun, true) && !observation.forced {
            self.by_hand.pass.start();
        }
        self.by_hand.decide(observation)
    }

    fn pass(&self) -> &Pass {
        self.by_hand.pass()
    }

    fn state(&self) -> PolicyState {
        self.by_hand.state()
    }
}

/// `online`: the filesystem discards on free (`mount -o discard`); otherwise [`ManualPolicy`].
#[derive(Clone, Debug, Default)]
pub struct OnlinePolicy(ManualPolicy);

impl OnlinePolicy {
    /// Creates the policy with the given state.
    #[must_use]
    pub fn new(min_extent: Bytes, state: &PolicyState) -> Self {
        Self(ManualPolicy::new(min_extent, state))
    }
}

impl Policy for OnlinePolicy {
    fn name(&self) -> &'static str {
        "online"
    }

    fn online(&self) -> bool {
        true
    }

    fn decide(&mut self, observation: &Observation<'_>) -> Action {
        self.0.decide(observation)
    }

    fn pass(&self) -> &Pass {
        self.0.pass()
    }

    fn state(&self) -> PolicyState {
        self.0.state()
    }
}
