//! The one driver of trim policies: it looks at a surface, lets the policy decide, has that done, and tells the policy what came of it.
//! Clocks, sleeping, locks, saving and reports are the caller's.

use super::{Action, Observation, Policy, TrimRequest};
use crate::target::{TrimOutcome, TrimWindow};
use alloc::boxed::Box;
use core::fmt;
use trimtab_drive::units::{Bytes, Nanos};

/// What can be trimmed under a policy: a modelled drive, a modelled volume, a mounted filesystem.
pub trait Surface {
    /// Why a request was refused.
    type Refusal;

    /// What a policy may know now. [`Observation::last_trim`] and [`Observation::forced`] are left to the driver, which adds what others
    /// waited during the last request to [`Observation::foreground_wait_max`].
    fn look(&mut self) -> Observation<'_>;

    /// Carries a request out, or begins to.
    fn trim(&mut self, request: TrimRequest) -> Trim<Self::Refusal>;
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trim<R> {
    /// It is done.
    Done {
        /// What it did.
        outcome: TrimOutcome,
        /// The longest that others waited meanwhile, if that is not part of the next look.
        waited: Option<Nanos>,
    },
    /// It goes on beside others; [`Driver::settle`] takes its end.
    Begun,
    /// What had to be done first took so long that the moment may be over: the policy is to choose another one.
    PutOff,
    /// It was refused.
    Refused {
        /// What of it was tried.
        tried: TrimWindow,
        /// Why.
        reason: R,
        /// No other window will do better.
        lasting: bool,
    },
}

/// What a turn came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn<R> {
    /// A request is done. Ask again.
    Trimmed(TrimRequest),
    /// A request is under way.
    Begun(TrimRequest),
    /// A request was put off. Ask again.
    PutOff,
    /// A request was refused.
    Refused {
        /// What of it was tried.
        tried: TrimWindow,
        /// Why.
        reason: R,
        /// What follows.
        then: Then,
    },
    /// The policy wants to be asked again at this instant at the latest.
    Wait(Nanos),
    /// The policy waits for something to change.
    Nothing,
}

/// What follows on a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The policy tries the same again when it wants to.
    Again,
    /// The window is left out of this pass.
    LeftOut,
    /// It is not a place that fails: enough windows in a row were left out.
    GiveUp,
    /// No other window will do better.
    Never,
}

/// How many refusals are borne.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A window that is refused this often in a row is left out of the pass.
    pub tries: u32,
    /// When this many are left out in a row, it is given up.
    pub windows: u32,
}

impl Patience {
    /// Windows are tried again until it works, however long that takes.
    pub const ENDLESS: Self = Self { tries: u32::MAX, windows: u32::MAX };
}

/// A policy at work.
pub struct Driver {
    policy: Box<dyn Policy>,
    patience: Patience,
    forced: bool,
    /// What the policy is owed on its next look.
    last: Option<TrimOutcome>,
    put_off: bool,
    waited: Option<Nanos>,
    /// Refusals of one window, and windows left out, in a row.
    refusals: u32,
    left_out: u32,
    /// When the policy wants to be asked; `None` while it waits for something to change, or a request is under way.
    ask_at: Option<Nanos>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("policy", &self.policy.name()).field("ask_at", &self.ask_at).finish_non_exhaustive()
    }
}

impl Driver {
    /// With this policy, which is to be asked at once.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>, patience: Patience) -> Self {
        let (forced, last, waited, refusals, left_out) = (false, None, None, 0, 0);
        Self { policy, patience, forced, last, put_off: false, waited, refusals, left_out, ask_at: Some(Nanos::ZERO) }
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// True while a pass is under way.
    #[must_use]
    pub fn running(&self) -> bool {
        self.policy.running()
    }

    /// True while a pass is under way that another one is to follow without a pause.
    #[must_use]
    pub fn another_follows(&self) -> bool {
        self.policy.another_follows()
    }

    /// When the policy wants to be asked; `None` while it waits for something to change, or for the end of a request.
    #[must_use]
    pub const fn ask_at(&self) -> Option<Nanos> {
        self.ask_at
    }

    /// Whether the policy is to be asked at `now`.
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        self.ask_at.is_some_and(|at| at <= now)
    }

    /// The user wants a trim now.
    pub const fn force(&mut self) {
        self.forced = true;
        self.stir();
    }

    /// Something has changed that the policy may want to know.
    pub const fn stir(&mut self) {
        self.ask_at = Some(Nanos::ZERO);
    }

    /// Takes the end of a request that was [begun](Trim::Begun); `None` if it failed.
    pub fn settle(&mut self, outcome: Option<TrimOutcome>) {
        self.last = outcome;
        self.stir();
    }

    /// Looks, lets the policy decide, and has it done.
    pub fn turn<S: Surface>(&mut self, surface: &mut S) -> Turn<S::Refusal> {
        match self.decide(surface) {
            Action::Trim(request) => self.carry_out(surface, request),
            Action::WaitUntil(instant) => Turn::Wait(instant),
            Action::Nothing => Turn::Nothing,
        }
    }

    /// Looks, and lets the policy decide. [`Action::Trim`] has to be [carried out](Self::carry_out) next.
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
            // A policy that wants to be asked at once again must not keep virtual time from passing.
            Action::WaitUntil(instant) => Action::WaitUntil(instant.max(now.saturating_add(Nanos(1)))),
            other => other,
        };
        self.ask_at = match action {
            Action::WaitUntil(instant) => Some(instant),
            Action::Trim(_) | Action::Nothing => None,
        };
        action
    }

    /// Has done what the policy decided.
    pub fn carry_out<S: Surface>(&mut self, surface: &mut S, request: TrimRequest) -> Turn<S::Refusal> {
        match surface.trim(request) {
            Trim::Begun => Turn::Begun(request),
            Trim::PutOff => {
                self.put_off = true;
                self.stir();
                Turn::PutOff
            }
            Trim::Done { outcome, waited } => {
                (self.refusals, self.left_out) = (0, 0);
                self.waited = self.waited.max(waited);
                self.settle(Some(outcome));
                Turn::Trimmed(request)
            }
            Trim::Refused { tried, reason, lasting } => {
                let then = if lasting { Then::Never } else { self.refused(tried, request.trial) };
                self.stir();
                Turn::Refused { tried, reason, then }
            }
        }
    }

    fn refused(&mut self, tried: TrimWindow, trial: bool) -> Then {
        self.refusals += 1;
        if self.refusals < self.patience.tries {
            return Then::Again;
        }
        self.refusals = 0;
        self.left_out += 1;
        if self.left_out >= self.patience.windows {
            self.left_out = 0;
            return Then::GiveUp;
        }
        if trial {
            // Nothing of the pass: there is nothing to leave out.
            return Then::Again;
        }
        self.last = Some(TrimOutcome { asked: Bytes(tried.len), ..TrimOutcome::default() });
        Then::LeftOut
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Now, Pass, PolicySpec, State};
    use alloc::vec;
    use alloc::vec::Vec;

    /// Windows of 100 bytes, of which some are refused some times.
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

        fn trim(&mut self, request: TrimRequest) -> Trim<&'static str> {
            let start = request.window.start;
            self.asked.push(start);
            let refused = self.refuse.iter_mut().find(|(at, left)| *at == start && *left > 0);
            self.last_seen.push(refused.is_none());
            match refused {
                Some((_, left)) => {
                    *left -= 1;
                    Trim::Refused { tried: request.window, reason: "no", lasting: start == 900 }
                }
                None => Trim::Done { outcome: TrimOutcome { asked: Bytes(100), ..TrimOutcome::default() }, waited: Some(Nanos(start)) },
            }
        }
    }

    fn run(driver: &mut Driver, fake: &mut Fake) -> Vec<Turn<&'static str>> {
        let mut turns = Vec::new();
        loop {
            let turn = driver.turn(fake);
            match &turn {
                Turn::Wait(at) => fake.now = *at,
                Turn::Trimmed(_) => assert!(driver.is_due(fake.now)),
                _ => {}
            }
            let over = matches!(turn, Turn::Nothing | Turn::Refused { then: Then::GiveUp | Then::Never, .. });
            turns.push(turn);
            if over {
                return turns;
            }
        }
    }

    fn now() -> Box<dyn Policy> {
        Box::new(Now::new(Bytes::ZERO, &State::default()))
    }

    #[test]
    fn all_windows_are_trimmed_once_and_again_when_forced() {
        let (mut driver, mut fake) = (Driver::new(now(), Patience::ENDLESS), Fake::new(3, vec![]));
        assert_eq!(run(&mut driver, &mut fake).len(), 4);
        assert_eq!(fake.asked, [0, 100, 200]);
        assert!(!driver.running() && !driver.another_follows() && driver.ask_at().is_none());
        driver.force();
        assert!(driver.is_due(Nanos::ZERO));
        assert!(matches!(driver.turn(&mut fake), Turn::Trimmed(_)) && driver.running() && !driver.another_follows());
        driver.force();
        assert!(matches!(driver.turn(&mut fake), Turn::Trimmed(_)) && driver.running() && driver.another_follows());
        run(&mut driver, &mut fake);
        assert_eq!(fake.asked, [0, 100, 200, 0, 100, 200, 0, 100, 200]);
    }

    /// Puts off what begins at 100, once.
    struct PutsOff(Fake, bool);

    impl Surface for PutsOff {
        type Refusal = &'static str;

        fn look(&mut self) -> Observation<'_> {
            self.0.look()
        }

        fn trim(&mut self, request: TrimRequest) -> Trim<&'static str> {
            if request.window.start == 100 && !core::mem::replace(&mut self.1, true) {
                self.0.asked.push(1);
                return Trim::PutOff;
            }
            self.0.trim(request)
        }
    }

    #[test]
    fn what_is_put_off_is_asked_again_at_once_and_has_not_failed() {
        let (mut driver, mut surface) = (Driver::new(now(), Patience { tries: 1, windows: 1 }), PutsOff(Fake::new(3, vec![]), false));
        while driver.turn(&mut surface) != Turn::Nothing {}
        assert_eq!(surface.0.asked, [0, 1, 100, 200]);
    }

    #[test]
    fn a_window_that_fails_is_tried_again_then_left_out() {
        let patience = Patience { tries: 3, windows: 2 };
        let (mut driver, mut fake) = (Driver::new(now(), patience), Fake::new(3, vec![(100, 2)]));
        run(&mut driver, &mut fake);
        assert_eq!(fake.asked, [0, 100, 100, 100, 200], "twice is borne");
        let (mut driver, mut fake) = (Driver::new(now(), patience), Fake::new(3, vec![(100, 9)]));
        let turns = run(&mut driver, &mut fake);
        assert_eq!(fake.asked, [0, 100, 100, 100, 200], "not more than three times");
        assert!(turns.iter().any(|t| matches!(t, Turn::Refused { then: Then::LeftOut, .. })));
    }

    #[test]
    fn failing_surface_is_given_up() {
        let refuse = (0..9).map(|n| (n * 100, 9)).collect();
        let (mut driver, mut fake) = (Driver::new(now(), Patience { tries: 1, windows: 4 }), Fake::new(9, refuse));
        let turns = run(&mut driver, &mut fake);
        assert_eq!(fake.asked, [0, 100, 200, 300]);
        assert!(matches!(turns.last(), Some(Turn::Refused { then: Then::GiveUp, .. })));
        let (mut driver, mut fake) = (Driver::new(now(), Patience::ENDLESS), Fake::new(10, vec![(900, 1)]));
        assert!(matches!(run(&mut driver, &mut fake).last(), Some(Turn::Refused { then: Then::Never, .. })));
    }

    #[test]
    fn what_others_waited_and_what_the_user_wants_is_said_once() {
        struct Nosy(Vec<(bool, Option<Nanos>, bool)>, Pass);
        impl Policy for Nosy {
            fn name(&self) -> &'static str {
                "nosy"
            }
            fn decide(&mut self, o: &Observation<'_>) -> Action {
                self.0.push((o.forced, o.foreground_wait_max, o.last_trim.is_some()));
                // After the last look the record is checked by panicking on a difference.
                match self.0.len() {
                    1 => Action::Trim(TrimRequest::whole(o.windows[1], Bytes::ZERO)),
                    2 => Action::WaitUntil(Nanos(5)),
                    _ => {
                        assert_eq!(self.0, [(true, None, false), (false, Some(Nanos(100)), true), (false, None, false)]);
                        Action::Nothing
                    }
                }
            }
            fn pass(&self) -> &Pass {
                &self.1
            }
            fn state(&self) -> State {
                State::default()
            }
        }
        let (mut driver, mut fake) = (Driver::new(Box::new(Nosy(Vec::new(), Pass::default())), Patience::ENDLESS), Fake::new(2, vec![]));
        driver.force();
        driver.turn(&mut fake);
        driver.turn(&mut fake);
        assert_eq!(driver.ask_at(), Some(Nanos(5)));
        assert!(matches!(driver.turn(&mut fake), Turn::Nothing));
    }

    #[test]
    fn none_begins_nothing() {
        let mut driver = Driver::new(PolicySpec::None.build(&State::default()), Patience::ENDLESS);
        let mut fake = Fake::new(2, vec![]);
        assert!(matches!(driver.turn(&mut fake), Turn::Nothing));
        assert!(fake.asked.is_empty() && !driver.is_due(Nanos::MAX));
    }
}
