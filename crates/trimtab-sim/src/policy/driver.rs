//! Driver of trim policies: observes a surface, calls the policy, executes its decision
//! and reports the outcome back. The caller provides clock, sleeping, locks, storage and
//! reports.

use super::{Action, Observation, Policy, TrimRequest};
use crate::target::{TrimOutcome, TrimWindow};
use alloc::boxed::Box;
use core::fmt;
use trimtab_drive::units::{Bytes, Nanos};

/// Storage under a trim policy: a modelled drive, a modelled volume, a mounted
/// filesystem.
pub trait Surface {
    /// Reason of a refusal.
    type Refusal;

    /// Current observation. The driver sets [`Observation::last_trim`] and
    /// [`Observation::forced`], and adds foreground waits during the last request to
    /// [`Observation::foreground_wait_max`].
    fn look(&mut self) -> Observation<'_>;

    /// Executes a request or starts it.
    fn trim(&mut self, request: TrimRequest) -> TrimResponse<Self::Refusal>;
}

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrimResponse<R> {
    /// Complete.
    Done {
        /// Result of the trim.
        outcome: TrimOutcome,
        /// Longest foreground wait during the trim, unless the next observation includes
        /// it.
        waited: Option<Nanos>,
    },
    /// Running in parallel with other I/O; report its end to [`Driver::settle`].
    Begun,
    /// Preparation took too long, so the moment may have passed. The policy chooses
    /// another.
    PutOff,
    /// Refused.
    Refused {
        /// Range that was tried.
        tried: TrimWindow,
        /// Reason.
        reason: R,
        /// True if every other window would fail too.
        lasting: bool,
    },
}

/// Result of one turn of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnResult<R> {
    /// Request complete; call again.
    Trimmed(TrimRequest),
    /// Request in progress.
    Begun(TrimRequest),
    /// Request postponed; call again.
    PutOff,
    /// Request refused.
    Refused {
        /// Range that was tried.
        tried: TrimWindow,
        /// Reason.
        reason: R,
        /// Consequence.
        then: RefusalAction,
    },
    /// Call again no later than this instant.
    Wait(Nanos),
    /// The policy waits for a change.
    Nothing,
}

/// Consequence of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalAction {
    /// The policy retries the same window later.
    Again,
    /// The window is skipped in this pass.
    LeftOut,
    /// Too many consecutive windows were skipped: the failure is not local.
    GiveUp,
    /// No other window will succeed.
    Never,
}

/// Limits on refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalLimits {
    /// Skip a window after this many consecutive refusals.
    pub tries: u32,
    /// Give up after this many consecutive skipped windows.
    pub windows: u32,
}

impl RefusalLimits {
    /// Retry windows without limit.
    pub const ENDLESS: Self = Self { tries: u32::MAX, windows: u32::MAX };
}

/// Runs one policy.
pub struct Driver {
    policy: Box<dyn Policy>,
    patience: RefusalLimits,
    forced: bool,
    /// Results to report in the next observation.
    last: Option<TrimOutcome>,
    put_off: bool,
    waited: Option<Nanos>,
    /// Consecutive refusals of one window, and consecutive skipped windows.
    refusals: u32,
    left_out: u32,
    /// Time of the next call; `None` while waiting for a change or the end of a request.
    ask_at: Option<Nanos>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("policy", &self.policy.name())
            .field("ask_at", &self.ask_at)
            .finish_non_exhaustive()
    }
}

impl Driver {
    /// Creates a driver whose policy is due at once.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>, patience: RefusalLimits) -> Self {
        let (forced, last, waited, refusals, left_out) = (false, None, None, 0, 0);
        Self {
            policy,
            patience,
            forced,
            last,
            put_off: false,
            waited,
            refusals,
            left_out,
            ask_at: Some(Nanos::ZERO),
        }
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// True while a pass is in progress.
    #[must_use]
    pub fn running(&self) -> bool {
        self.policy.pass().running()
    }

    /// True if another pass starts immediately after the current one.
    #[must_use]
    pub fn another_follows(&self) -> bool {
        self.policy.pass().another_follows()
    }

    /// Time of the next call; `None` while waiting for a change or the end of a request.
    #[must_use]
    pub const fn ask_at(&self) -> Option<Nanos> {
        self.ask_at
    }

    /// True if the policy is due at `now`.
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        self.ask_at.is_some_and(|at| at <= now)
    }

    /// Forces a trim for the user.
    pub const fn force(&mut self) {
        self.forced = true;
        self.stir();
    }

    /// Makes the policy due at once because something changed.
    const fn stir(&mut self) {
        self.ask_at = Some(Nanos::ZERO);
    }

    /// Reports the end of a request that was [begun](Trim::Begun); `None` if it failed.
    pub fn settle(&mut self, outcome: Option<TrimOutcome>) {
        self.last = outcome;
        self.stir();
    }

    /// Observes, lets the policy decide and executes the decision.
    pub fn turn<S: Surface>(&mut self, surface: &mut S) -> TurnResult<S::Refusal> {
        match self.decide(surface) {
            Action::Trim(request) => self.carry_out(surface, request),
            Action::WaitUntil(instant) => TurnResult::Wait(instant),
            Action::Nothing => TurnResult::Nothing,
        }
    }

    /// Observes and returns the decision. Pass [`Action::Trim`] to [`Self::carry_out`].
    pub fn decide(&mut self, surface: &mut impl Surface) -> Action {
        let seen = surface.look();
        let now = seen.now;
        let last = self.last.take();
        let observation = Observation {
            last_trim: last.as_ref(),
            put_off: core::mem::take(&mut self.put_off),
            forced: core::mem::take(&mut self.forced),
            foreground_wait_max: self.waited.take().max(seen.foreground_wait_max),
            ..seen
        };
        let action = match self.policy.decide(&observation) {
            // A policy that is due at once must not stop virtual time.
            Action::WaitUntil(instant) => {
                Action::WaitUntil(instant.max(now.saturating_add(Nanos(1))))
            }
            other => other,
        };
        self.ask_at = match action {
            Action::WaitUntil(instant) => Some(instant),
            Action::Trim(_) | Action::Nothing => None,
        };
        action
    }

    /// Executes a trim request of the policy.
    pub fn carry_out<S: Surface>(
        &mut self,
        surface: &mut S,
        request: TrimRequest,
    ) -> TurnResult<S::Refusal> {
        match surface.trim(request) {
            TrimResponse::Begun => TurnResult::Begun(request),
            TrimResponse::PutOff => {
                self.put_off = true;
                self.stir();
                TurnResult::PutOff
            }
            TrimResponse::Done { outcome, waited } => {
                (self.refusals, self.left_out) = (0, 0);
                self.waited = self.waited.max(waited);
                self.settle(Some(outcome));
                TurnResult::Trimmed(request)
            }
            TrimResponse::Refused { tried, reason, lasting } => {
                let then =
                    if lasting { RefusalAction::Never } else { self.refused(tried, request.trial) };
                self.stir();
                TurnResult::Refused { tried, reason, then }
            }
        }
    }

    fn refused(&mut self, tried: TrimWindow, trial: bool) -> RefusalAction {
        self.refusals += 1;
        if self.refusals < self.patience.tries {
            return RefusalAction::Again;
        }
        self.refusals = 0;
        self.left_out += 1;
        if self.left_out >= self.patience.windows {
            self.left_out = 0;
            return RefusalAction::GiveUp;
        }
        if trial {
            // Trials are not part of the pass, so no window is skipped.
            return RefusalAction::Again;
        }
        self.last = Some(TrimOutcome { asked: Bytes(tried.len), ..TrimOutcome::default() });
        RefusalAction::LeftOut
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{ManualPolicy, Pass, PolicySpec, PolicyState};
    use alloc::vec;
    use alloc::vec::Vec;

    /// Windows of 100 bytes; some are refused a number of times.
    struct Fake {
        windows: Vec<TrimWindow>,
        refuse: Vec<(u64, u32)>,
        asked: Vec<u64>,
        now: Nanos,
        last_seen: Vec<bool>,
    }

    impl Fake {
        fn new(windows: u64, refuse: Vec<(u64, u32)>) -> Self {
            let windows = (0..windows).map(|n| TrimWindow { start: n * 100, len: 100 }).collect();
            Self { windows, refuse, asked: Vec::new(), now: Nanos::ZERO, last_seen: Vec::new() }
        }
    }

    impl Surface for Fake {
        type Refusal = &'static str;

        fn look(&mut self) -> Observation<'_> {
            Observation { free: Bytes(1000), ..Observation::of(self.now, &self.windows) }
        }

        fn trim(&mut self, request: TrimRequest) -> TrimResponse<&'static str> {
            let start = request.window.start;
            self.asked.push(start);
            let refused = self.refuse.iter_mut().find(|(at, left)| *at == start && *left > 0);
            self.last_seen.push(refused.is_none());
            match refused {
                Some((_, left)) => {
                    *left -= 1;
                    TrimResponse::Refused {
                        tried: request.window,
                        reason: "no",
                        lasting: start == 900,
                    }
                }
                None => TrimResponse::Done {
                    outcome: TrimOutcome { asked: Bytes(100), ..TrimOutcome::default() },
                    waited: Some(Nanos(start)),
                },
            }
        }
    }

    fn run(driver: &mut Driver, fake: &mut Fake) -> Vec<TurnResult<&'static str>> {
        let mut turns = Vec::new();
        loop {
            let turn = driver.turn(fake);
            match &turn {
                TurnResult::Wait(at) => fake.now = *at,
                TurnResult::Trimmed(_) => assert!(driver.is_due(fake.now)),
                _ => {}
            }
            let over = matches!(
                turn,
                TurnResult::Nothing
                    | TurnResult::Refused {
                        then: RefusalAction::GiveUp | RefusalAction::Never,
                        ..
                    }
            );
            turns.push(turn);
            if over {
                return turns;
            }
        }
    }

    fn now() -> Box<dyn Policy> {
        Box::new(ManualPolicy::now(Bytes::ZERO, &PolicyState::default()))
    }

    #[test]
    fn driver_trims_all_windows_and_repeats_when_forced() {
        let (mut driver, mut fake) =
            (Driver::new(now(), RefusalLimits::ENDLESS), Fake::new(3, vec![]));
        assert_eq!(run(&mut driver, &mut fake).len(), 4);
        assert_eq!(fake.asked, [0, 100, 200]);
        assert!(!driver.running() && !driver.another_follows() && driver.ask_at().is_none());
        driver.force();
        assert!(driver.is_due(Nanos::ZERO));
        assert!(
            matches!(driver.turn(&mut fake), TurnResult::Trimmed(_))
                && driver.running()
                && !driver.another_follows()
        );
        driver.force();
        assert!(
            matches!(driver.turn(&mut fake), TurnResult::Trimmed(_))
                && driver.running()
                && driver.another_follows()
        );
        run(&mut driver, &mut fake);
        assert_eq!(fake.asked, [0, 100, 200, 0, 100, 200, 0, 100, 200]);
    }

    /// Postpones the request that begins at 100, once.
    struct PutsOff(Fake, bool);

    impl Surface for PutsOff {
        type Refusal = &'static str;

        fn look(&mut self) -> Observation<'_> {
            self.0.look()
        }

        fn trim(&mut self, request: TrimRequest) -> TrimResponse<&'static str> {
            if request.window.start == 100 && !core::mem::replace(&mut self.1, true) {
                self.0.asked.push(1);
                return TrimResponse::PutOff;
            }
            self.0.trim(request)
        }
    }

    #[test]
    fn driver_repeats_put_off_request_without_failure() {
        let (mut driver, mut surface) = (
            Driver::new(now(), RefusalLimits { tries: 1, windows: 1 }),
            PutsOff(Fake::new(3, vec![]), false),
        );
        while driver.turn(&mut surface) != TurnResult::Nothing {}
        assert_eq!(surface.0.asked, [0, 1, 100, 200]);
    }

    #[test]
    fn failed_window_is_retried_then_left_out() {
        let patience = RefusalLimits { tries: 3, windows: 2 };
        let (mut driver, mut fake) = (Driver::new(now(), patience), Fake::new(3, vec![(100, 2)]));
        run(&mut driver, &mut fake);
        assert_eq!(fake.asked, [0, 100, 100, 100, 200], "tolerates two refusals");
        let (mut driver, mut fake) = (Driver::new(now(), patience), Fake::new(3, vec![(100, 9)]));
        let turns = run(&mut driver, &mut fake);
        assert_eq!(fake.asked, [0, 100, 100, 100, 200], "at most three tries");
        assert!(
            turns
                .iter()
                .any(|t| matches!(t, TurnResult::Refused { then: RefusalAction::LeftOut, .. }))
        );
    }

    #[test]
    fn failing_surface_is_given_up() {
        let refuse = (0..9).map(|n| (n * 100, 9)).collect();
        let (mut driver, mut fake) =
            (Driver::new(now(), RefusalLimits { tries: 1, windows: 4 }), Fake::new(9, refuse));
        let turns = run(&mut driver, &mut fake);
        assert_eq!(fake.asked, [0, 100, 200, 300]);
        assert!(matches!(
            turns.last(),
            Some(TurnResult::Refused { then: RefusalAction::GiveUp, .. })
        ));
        let (mut driver, mut fake) =
            (Driver::new(now(), RefusalLimits::ENDLESS), Fake::new(10, vec![(900, 1)]));
        assert!(matches!(
            run(&mut driver, &mut fake).last(),
            Some(TurnResult::Refused { then: RefusalAction::Never, .. })
        ));
    }

    #[test]
    fn foreground_wait_and_force_are_reported_once() {
        struct Recording(Vec<(bool, Option<Nanos>, bool)>, Pass);
        impl Policy for Recording {
            fn name(&self) -> &'static str {
                "nosy"
            }
            fn decide(&mut self, o: &Observation<'_>) -> Action {
                self.0.push((o.forced, o.foreground_wait_max, o.last_trim.is_some()));
                // After the last observation, a difference in the record panics.
                match self.0.len() {
                    1 => Action::Trim(TrimRequest::whole(o.windows[1], Bytes::ZERO)),
                    2 => Action::WaitUntil(Nanos(5)),
                    _ => {
                        assert_eq!(
                            self.0,
                            [
                                (true, None, false),
                                (false, Some(Nanos(100)), true),
                                (false, None, false)
                            ]
                        );
                        Action::Nothing
                    }
                }
            }
            fn pass(&self) -> &Pass {
                &self.1
            }
            fn state(&self) -> PolicyState {
                PolicyState::default()
            }
        }
        let (mut driver, mut fake) = (
            Driver::new(Box::new(Recording(Vec::new(), Pass::default())), RefusalLimits::ENDLESS),
            Fake::new(2, vec![]),
        );
        driver.force();
        driver.turn(&mut fake);
        driver.turn(&mut fake);
        assert_eq!(driver.ask_at(), Some(Nanos(5)));
        assert!(matches!(driver.turn(&mut fake), TurnResult::Nothing));
    }

    #[test]
    fn none_policy_starts_no_pass() {
        let mut driver =
            Driver::new(PolicySpec::None.build(&PolicyState::default()), RefusalLimits::ENDLESS);
        let mut fake = Fake::new(2, vec![]);
        assert!(matches!(driver.turn(&mut fake), TurnResult::Nothing));
        assert!(fake.asked.is_empty() && !driver.is_due(Nanos::MAX));
    }
}
