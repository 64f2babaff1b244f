//! The policies without settings of when: once and at once, not at all, and the filesystem's own online discard.

use super::pass::Pass;
use super::{Action, Observation, Policy, State};
use trimtab_drive::units::Bytes;

/// `none`: trims only when the user asks for it.
#[derive(Clone, Debug, Default)]
pub struct ByHand {
    pass: Pass,
    min_extent: Bytes,
}

impl ByHand {
    /// The policy, as it was when `state` was taken.
    #[must_use]
    pub fn new(min_extent: Bytes, state: &State) -> Self {
        Self { pass: Pass::restore(state), min_extent }
    }
}

impl Policy for ByHand {
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

    fn state(&self) -> State {
        let mut state = State::default();
        self.pass.save(&mut state);
        state
    }
}

/// `now`: everything at once, one time, as `fstrim` does it; then as [`ByHand`].
#[derive(Clone, Debug, Default)]
pub struct Now {
    by_hand: ByHand,
    begun: bool,
}

impl Now {
    /// The policy, as it was when `state` was taken: a pass that was interrupted goes on.
    #[must_use]
    pub fn new(min_extent: Bytes, state: &State) -> Self {
        let by_hand = ByHand::new(min_extent, state);
        Self { begun: by_hand.running(), by_hand }
    }
}

impl Policy for Now {
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

    fn state(&self) -> State {
        self.by_hand.state()
    }
}

/// `online`: the filesystem discards what it frees (`mount -o discard`); beyond that as [`ByHand`].
#[derive(Clone, Debug, Default)]
pub struct Online(ByHand);

impl Online {
    /// The policy, as it was when `state` was taken.
    #[must_use]
    pub fn new(min_extent: Bytes, state: &State) -> Self {
        Self(ByHand::new(min_extent, state))
    }
}

impl Policy for Online {
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

    fn state(&self) -> State {
        self.0.state()
    }
}
