//! `itrim`: in idle time, large extents first, neighbours together.

use super::until_quiet;
use crate::policy::adaptive::Trigger;
use crate::policy::pass::{Pass, Step};
use crate::policy::{Action, Observation, Policy, Sizes, State, TrimRequest};
use trimtab_drive::units::{Bytes, Nanos};

/// Settings of [`ITrim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ITrimSettings {
    /// The device is idle when others have been quiet for this long. Default 10 ms.
    pub quiet: Nanos,
    /// Per cent of the free space that must have been written since the last pass began. Default 10, as for our idle policy.
    pub share_percent: u32,
    /// A pass begins at the latest this long after the one before. Default 1 day, as for our idle policy.
    pub at_least_every: Nanos,
    /// Free extents of this length and more come first. Default 1 MiB.
    pub large: Bytes,
    /// Commands that follow each other before it looks again. Default 8.
    pub commands: u64,
    /// The largest command. Default 2 MiB.
    pub command_max: Bytes,
    /// Whether a pass is due is looked at this often. Default 10 s.
    pub poll: Nanos,
    /// Leave smaller free extents alone. Default 0.
    pub min_extent: Bytes,
    /// Trim on battery too. Default no.
    pub on_battery: bool,
}

impl Default for ITrimSettings {
    fn default() -> Self {
        Self {
            quiet: Nanos::from_millis(10),
            share_percent: 10,
            at_least_every: Nanos::from_secs(86_400),
            large: Bytes(1 << 20),
            commands: 8,
            command_max: Bytes(2 << 20),
            poll: Nanos::from_secs(10),
            min_extent: Bytes::ZERO,
            on_battery: false,
        }
    }
}

/// Y. Liang, C. Ji, C. Fu, R. Ausavarungnirun, Q. Li, R. Pan, S. Chen, L. Shi, T.-W. Kuo and C. J. Xue: 'iTRIM: I/O-Aware TRIM for Improving User Experience
/// on Mobile Devices', IEEE Transactions on Computer-Aided Design of Integrated Circuits and Systems 40(9), 1782-1795, 2021. Known here by its abstract: the
/// time that TRIM takes is distributed to the system's idle time, and the size of a TRIM and the pattern of the logical addresses of what is to be trimmed are
/// considered, for F2FS on mobile devices.
///
/// What the abstract leaves open, and how it is filled here:
///
/// * What idle time is: no request of others in flight, and none for [`quiet`](ITrimSettings::quiet). Where there is no idle time, nothing is sent.
/// * How much is sent before it looks again, and in how large commands: 8 of up to 2 MiB, which are the limits of F2FS's own discard thread in Linux 4.18.
/// * In which order: by size, the large extents of all windows before the others; and by address, one window after another, each request going on where the
///   one before it ended, so that neighbours are sent one after another. Where small extents cannot be asked for alone, the second round sends large ones again.
/// * When there is enough to be trimmed: as for [`Idle`](crate::policy::Idle), so that a comparison is of how trims are sent.
#[derive(Clone, Debug)]
pub struct ITrim {
    settings: ITrimSettings,
    trigger: Trigger,
    pass: Pass,
    /// The large extents are done: all that are left follow.
    small_too: bool,
}

impl ITrim {
    /// The policy, as it was when `state` was taken.
    #[must_use]
    pub fn new(settings: ITrimSettings, state: &State) -> Self {
        let small_too = state.get("itrim.small-too").is_some_and(|flag| flag != 0);
        Self { settings, trigger: Trigger::restore(state), pass: Pass::restore(state), small_too }
    }

    fn min_extent(&self) -> Bytes {
        if self.small_too { self.settings.min_extent } else { self.settings.min_extent.max(self.settings.large) }
    }

    /// The next request of the pass under way; `None` if there is none.
    fn next_request(&mut self, observation: &Observation<'_>) -> Option<Action> {
        let (running, forced) = (self.pass.running(), self.pass.forced());
        match self.pass.step(observation, Bytes::MAX) {
            Step::Later(instant) => Some(Action::WaitUntil(instant)),
            Step::Window(window) => Some(match until_quiet(observation, self.settings.quiet).filter(|_| !self.pass.forced()) {
                Some(until) => Action::WaitUntil(until),
                None => {
                    let ITrimSettings { command_max, commands: commands_max, .. } = self.settings;
                    let (below, round) = if self.small_too { (self.settings.large, 1) } else { (Bytes::MAX, 0) };
                    // Where extents can be asked for by their size, nothing is sent twice.
                    let sizes = observation.by_size.then_some(Sizes { below, round, rounds: 2 });
                    self.pass.send(TrimRequest { command_max, commands_max, sizes, ..TrimRequest::whole(window, self.min_extent()) })
                }
            }),
            Step::Done if running && !self.small_too => {
                self.small_too = true;
                if forced {
                    self.pass.request(true)
                } else {
                    self.pass.start()
                }
                self.next_request(observation)
            }
            Step::Done => None,
        }
    }
}

impl Policy for ITrim {
    fn name(&self) -> &'static str {
        "itrim"
    }

    fn decide(&mut self, observation: &Observation<'_>) -> Action {
        self.pass.settle(observation);
        self.trigger.observe(observation);
        if observation.forced {
            self.trigger.fired(observation.now);
            self.small_too &= self.pass.running();
        }
        self.pass.request(observation.forced);
        if observation.shutting_down || (observation.on_battery && !self.settings.on_battery && !self.pass.forced()) {
            return Action::Nothing;
        }
        if !self.pass.running() && self.trigger.due(observation, self.settings.share_percent, Nanos::ZERO, self.settings.at_least_every) {
            self.trigger.fired(observation.now);
            self.pass.start();
            self.small_too = false;
        }
        self.next_request(observation).unwrap_or(Action::WaitUntil(observation.now.saturating_add(self.settings.poll)))
    }

    fn pass(&self) -> &Pass {
        &self.pass
    }

    fn state(&self) -> State {
        let mut state = State::default();
        self.pass.save(&mut state);
        self.trigger.save(&mut state);
        state.set("itrim.small-too", u64::from(self.small_too));
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{TrimOutcome, TrimWindow};
    use alloc::vec::Vec;
    use trimtab_drive::discards::Amount;

    const MIB: u64 = 1 << 20;
    const WINDOWS: [TrimWindow; 2] = [TrimWindow { start: 0, len: 128 * MIB }, TrimWindow { start: 128 * MIB, len: 128 * MIB }];

    /// At `seconds`, when others have been quiet for `idle_ms`, and `written` bytes were written; 100 MiB are free.
    fn at(seconds: u64, idle_ms: u64, written: u64) -> Observation<'static> {
        let now = Nanos::from_secs(seconds);
        let idle_since = Some(now.saturating_sub(Nanos::from_millis(idle_ms)));
        Observation { idle_since, written: Some(Bytes(written)), free: Bytes(100 * MIB), ..Observation::of(now, &WINDOWS) }
    }

    fn fresh() -> ITrim {
        ITrim::new(ITrimSettings::default(), &State::default())
    }

    #[test]
    fn itrim_pass_starts_at_tenth_of_free_space_after_10_ms() {
        let mut policy = fresh();
        assert_eq!(policy.decide(&at(1, 900, 0)), Action::WaitUntil(Nanos::from_secs(11)));
        assert_eq!(policy.decide(&at(11, 900, 10 * MIB - 1)), Action::WaitUntil(Nanos::from_secs(21)));
        assert_eq!(policy.decide(&at(21, 3, 10 * MIB)), Action::WaitUntil(Nanos::from_millis(21_007)));
        let request = TrimRequest { command_max: Bytes(2 * MIB), commands_max: 8, ..TrimRequest::whole(WINDOWS[0], Bytes(MIB)) };
        assert_eq!(policy.decide(&at(22, 10, 10 * MIB)), Action::Trim(request));
    }

    #[test]
    fn itrim_sends_large_extents_of_all_windows_first() {
        let mut policy = fresh();
        let mut came = Vec::new();
        let mut action = policy.decide(&Observation { forced: true, ..at(1, 20, 0) });
        while let Action::Trim(request) = action {
            came.push((request.window.start / MIB, request.window.len / MIB, request.min_extent.0));
            // Eight commands of two mebibytes, with as much in use between them, reach 32 MiB far; the small ones of a window are eight in all.
            let asked = if request.min_extent == Bytes::ZERO { request.window.len } else { request.window.len.min(32 * MIB) };
            let outcome =
                TrimOutcome { asked: Bytes(asked), counted: Some(Amount::new(8, 16 * MIB)), took: Nanos(8), ..TrimOutcome::default() };
            action = policy.decide(&Observation { last_trim: Some(&outcome), ..at(2, 20, 0) });
        }
        let large = (0..8).map(|n| (n * 32, 128 - n % 4 * 32, MIB));
        assert!(large.chain([(0, 128, 0), (128, 128, 0)]).eq(came.iter().copied()), "{came:?}");
        assert!(!policy.running());
    }

    #[test]
    fn it_goes_on_with_the_small_ones_after_a_restart() {
        let mut policy = fresh();
        let mut action = policy.decide(&Observation { forced: true, ..at(1, 20, 0) });
        for _ in 0..2 {
            let Action::Trim(request) = action else { panic!("{action:?}") };
            let outcome = TrimOutcome { asked: Bytes(request.window.len), ..TrimOutcome::default() };
            action = policy.decide(&Observation { last_trim: Some(&outcome), ..at(2, 20, 0) });
        }
        assert_eq!(
            action,
            Action::Trim(TrimRequest { command_max: Bytes(2 * MIB), commands_max: 8, ..TrimRequest::whole(WINDOWS[0], Bytes::ZERO) })
        );
        let mut again = ITrim::new(ITrimSettings::default(), &policy.state());
        assert_eq!(again.decide(&at(3, 20, 0)), action);
    }

    #[test]
    fn only_what_the_user_asks_for_disturbs_others() {
        let mut policy = fresh();
        policy.decide(&at(1, 900, 0));
        let busy = |written| Observation { in_flight: 1, idle_since: None, ..at(2, 0, written) };
        for _ in 0..1000 {
            assert_eq!(policy.decide(&busy(50 * MIB)), Action::WaitUntil(Nanos::from_millis(2_010)));
        }
        assert!(matches!(policy.decide(&Observation { forced: true, ..busy(50 * MIB) }), Action::Trim(_)));
    }
}
