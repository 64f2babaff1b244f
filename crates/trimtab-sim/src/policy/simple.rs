//! Policies without a schedule: `now`, `none`, and the filesystem's online discard.

use super::pass::Pass;
use super::{Action, Observation, Policy, State};
use trimtab_drive::units::Bytes;

/// `none`: trims only on request.
#[derive(Clone, Debug, Default)]
pub struct ByHand {
    pass: Pass,
    min_extent: Bytes,
}

impl ByHand {
    /// Creates the policy with the given state.
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

/// `now`: one full trim at once, like `fstrim`; then as [`ByHand`].
#[derive(Clone, Debug, Default)]
pub struct Now {
    by_hand: ByHand,
    begun: bool,
}

impl Now {
    /// Creates the policy with the given state. An interrupted pass resumes.
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

/// `online`: the filesystem discards on free (`mount -o discard`); otherwise [`ByHand`].
#[derive(Clone, Debug, Default)]
pub struct Online(ByHand);

impl Online {
    /// Creates the policy with the given state.
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
