//! Policies without a schedule: `now`, `none`, and the filesystem's online discard.

use super::pass::Pass;
use super::{Action, Observation, Policy, PolicyState};
use trimtab_drive::units::Bytes;

/// Trims on request; `now` begins with a pass, and under `online` the filesystem discards
/// too.
#[derive(Clone, Debug)]
pub struct ManualPolicy {
    name: &'static str,
    pass: Pass,
    min_extent: Bytes,
    /// A pass starts at the first call.
    starts: bool,
}

impl ManualPolicy {
    fn new(name: &'static str, min_extent: Bytes, state: &PolicyState) -> Self {
        Self { name, pass: Pass::restore(state), min_extent, starts: false }
    }

    /// `none`: trims only on request.
    #[must_use]
    pub fn none(state: &PolicyState) -> Self {
        Self::new("none", Bytes::ZERO, state)
    }

    /// `online`: the filesystem discards on free (`mount -o discard`); otherwise as
    /// `none`.
    #[must_use]
    pub fn online(state: &PolicyState) -> Self {
        Self::new("online", Bytes::ZERO, state)
    }

    /// `now`: one full trim at once, like `fstrim`; then as `none`. An interrupted pass
    /// resumes.
    #[must_use]
    pub fn now(min_extent: Bytes, state: &PolicyState) -> Self {
        let policy = Self::new("now", min_extent, state);
        Self { starts: !policy.pass.running(), ..policy }
    }
}

impl Policy for ManualPolicy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn online(&self) -> bool {
        self.name == "online"
    }

    fn decide(&mut self, observation: &Observation<'_>) -> Action {
        if core::mem::take(&mut self.starts) && !observation.forced {
            self.pass.start();
        }
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
