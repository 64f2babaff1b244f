//! `dtrim`: early where a TRIM is cheap, lazily where it is dear.

use super::until_quiet;
use crate::policy::adaptive::Trigger;
use crate::policy::pass::{Pass, Step};
use crate::policy::{Action, Observation, Policy, State, TrimRequest};
use trimtab_drive::units::{Bytes, Nanos};

/// One of so many observations counts for the cost of a command.
const MEMORY: i64 = 8;

/// Settings of [`DTrim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DTrimSettings {
    /// A command that takes no longer than this is cheap. Default 1 ms.
    pub cheap: Nanos,
    /// Lazily: per cent of the free space that must have been written since the last pass began. Default 25.
    pub share_percent: u32,
    /// A pass begins at the latest this long after the one before. Default 1 day.
    pub at_least_every: Nanos,
    /// Lazily: others must have been quiet for this long. Default 10 ms.
    pub quiet: Nanos,
    /// Lazily: commands that follow each other before it looks again. Default 16.
    pub commands: u64,
    /// Whether a pass is due is looked at this often. Default 10 s.
    pub poll: Nanos,
    /// Leave smaller free extents alone. Default 0.
    pub min_extent: Bytes,
    /// Trim on battery too. Default no.
    pub on_battery: bool,
}

impl Default for DTrimSettings {
    fn default() -> Self {
        Self {
            cheap: Nanos::from_millis(1),
            share_percent: 25,
            at_least_every: Nanos::from_secs(86_400),
            quiet: Nanos::from_millis(10),
            commands: 16,
            poll: Nanos::from_secs(10),
            min_extent: Bytes::ZERO,
            on_battery: false,
        }
    }
}

/// L. Luo, D. Yu, H. Li, Y. Song, Y. Lv, E. H.-M. Sha and L. Shi: 'Revisiting TRIM on High-Density Flash-Based Hybrid Storage Systems', IEEE Transactions on
/// Computer-Aided Design of Integrated Circuits and Systems 43(5), 1618-1622, 2024, which calls it a differential TRIM (dTRIM). Known here by its abstract: in a
/// drive of two kinds of flash, the quick kind is trimmed early, which keeps the cost of garbage collection least, and the dense kind lazily, which tries to avoid
/// conflicts with requests of users.
///
/// What does not carry over, what the abstract leaves open, and how it is filled here:
///
/// * A filesystem does not know which flash its blocks lie on. The drive as a whole is trimmed early or lazily, by what a command takes:
///   up to [`cheap`](DTrimSettings::cheap) it is early. To know that, the first command is sent at once, alone.
/// * Early: the filesystem itself discards what it frees, as it frees it ([`Policy::online`]); whoever drives the policy has to mount accordingly, because that
///   changes when the cost becomes known. What was free before is trimmed at once, whatever others do.
/// * Lazily: when a share of the free space has been written, in idle time, a few commands at a time. Where there is no idle time, nothing is sent.
#[derive(Clone, Debug)]
pub struct DTrim {
    settings: DTrimSettings,
    trigger: Trigger,
    pass: Pass,
    /// What a command takes, on average, the last ones most.
    command: Option<Nanos>,
}

impl DTrim {
    /// The policy, as it was when `state` was taken.
    #[must_use]
    pub fn new(settings: DTrimSettings, state: &State) -> Self {
        Self { settings, trigger: Trigger::restore(state), pass: Pass::restore(state), command: state.nanos("dtrim.command") }
    }

    /// Whether a TRIM is known to be cheap.
    fn early(&self) -> bool {
        self.command.is_some_and(|command| command <= self.settings.cheap)
    }

    /// Takes what the commands of the last request took.
    fn learn(&mut self, observation: &Observation<'_>) {
        let Some((took, counted)) = observation.last_trim.and_then(|outcome| Some((outcome.took, outcome.counted?))) else { return };
        let Some(one) = took.0.checked_div(counted.count) else { return };
        let mean = self.command.map_or(one, |mean| mean.0.saturating_add_signed((one.cast_signed() - mean.0.cast_signed()) / MEMORY));
        self.command = Some(Nanos(mean));
    }

    /// The next request of the pass under way; `None` if there is none.
    fn next_request(&mut self, observation: &Observation<'_>) -> Option<Action> {
        match self.pass.step(observation, Bytes::MAX) {
            Step::Later(instant) => Some(Action::WaitUntil(instant)),
            Step::Done => None,
            Step::Window(window) => {
                let lazy = self.command.is_some() && !self.early();
                if let Some(until) = until_quiet(observation, self.settings.quiet)
                    && lazy
                    && !self.pass.forced()
                {
                    return Some(Action::WaitUntil(until));
                }
                let commands_max = match self.command {
                    None => 1,
                    Some(_) if lazy => self.settings.commands,
                    Some(_) => 0,
                };
                Some(self.pass.send(TrimRequest { commands_max, ..TrimRequest::whole(window, self.settings.min_extent) }))
            }
        }
    }
}

impl Policy for DTrim {
    fn name(&self) -> &'static str {
        "dtrim"
    }

    fn online(&self) -> bool {
        self.early()
    }

    fn decide(&mut self, observation: &Observation<'_>) -> Action {
        self.learn(observation);
        self.pass.settle(observation);
        self.trigger.observe(observation);
        if observation.forced {
            self.trigger.fired(observation.now);
        }
        self.pass.request(observation.forced);
        if observation.shutting_down || (observation.on_battery && !self.settings.on_battery && !self.pass.forced()) {
            return Action::Nothing;
        }
        if !self.pass.running() && self.trigger.due(observation, self.settings.share_percent, Nanos::ZERO, self.settings.at_least_every) {
            self.trigger.fired(observation.now);
            self.pass.start();
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
        state.set_some("dtrim.command", self.command.map(|command| command.0));
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{TrimOutcome, TrimWindow};
    use trimtab_drive::discards::Amount;

    const MIB: u64 = 1 << 20;
    const WINDOWS: [TrimWindow; 2] = [TrimWindow { start: 0, len: 128 * MIB }, TrimWindow { start: 128 * MIB, len: 128 * MIB }];

    /// At `seconds`, when others have been quiet for `idle_ms`, and `written` bytes were written; 100 MiB are free.
    fn at(seconds: u64, idle_ms: u64, written: u64) -> Observation<'static> {
        let now = Nanos::from_secs(seconds);
        let idle_since = Some(now.saturating_sub(Nanos::from_millis(idle_ms)));
        Observation { idle_since, written: Some(Bytes(written)), free: Bytes(100 * MIB), ..Observation::of(now, &WINDOWS) }
    }

    fn fresh() -> DTrim {
        DTrim::new(DTrimSettings::default(), &State::default())
    }

    /// After so many commands that reached `asked` far and took `took_us` together.
    fn outcome(asked: u64, commands: u64, took_us: u64) -> TrimOutcome {
        TrimOutcome {
            asked: Bytes(asked),
            counted: Some(Amount::new(commands, asked)),
            took: Nanos::from_micros(took_us),
            ..TrimOutcome::default()
        }
    }

    fn trim(window: TrimWindow, commands_max: u64) -> Action {
        Action::Trim(TrimRequest { commands_max, ..TrimRequest::whole(window, Bytes::ZERO) })
    }

    /// What is left of the first window.
    fn rest(from: u64) -> TrimWindow {
        TrimWindow { start: from, len: 128 * MIB - from }
    }

    #[test]
    fn lazy_dtrim_waits_for_quarter_of_free_space_and_quiet() {
        let mut policy = fresh();
        policy.decide(&at(1, 900, 0));
        assert_eq!(policy.decide(&at(2, 900, 25 * MIB - 1)), Action::WaitUntil(Nanos::from_secs(12)));
        assert_eq!(policy.decide(&at(3, 4, 25 * MIB)), trim(WINDOWS[0], 1), "nothing is known");
        // A command of 3 ms: it stays lazy, and goes on where it was.
        let dear = outcome(MIB, 1, 3_000);
        let waits = policy.decide(&Observation { last_trim: Some(&dear), ..at(5, 4, 25 * MIB) });
        assert_eq!((waits, policy.online()), (Action::WaitUntil(Nanos::from_millis(5_006)), false));
        assert_eq!(policy.decide(&at(6, 10, 25 * MIB)), trim(rest(MIB), 16));
        let dear = outcome(9 * MIB, 16, 48_000);
        assert_eq!(policy.decide(&Observation { last_trim: Some(&dear), ..at(6, 10, 25 * MIB) }), trim(rest(10 * MIB), 16));
    }

    #[test]
    fn early_it_disturbs_others_and_has_the_filesystem_discard() {
        let mut policy = fresh();
        assert_eq!((policy.decide(&Observation { forced: true, ..at(1, 100, 0) }), policy.online()), (trim(WINDOWS[0], 1), false));
        let cheap = outcome(MIB, 1, 1_000);
        let busy = Observation { last_trim: Some(&cheap), in_flight: 3, idle_since: None, ..at(2, 0, 0) };
        assert_eq!(policy.decide(&busy), trim(rest(MIB), 0));
        assert!(policy.online(), "just a millisecond");
        assert!(DTrim::new(DTrimSettings::default(), &policy.state()).online(), "also after a restart");
    }

    #[test]
    fn the_cost_of_a_command_is_the_mean_of_the_last_ones() {
        let mut policy = fresh();
        let mut learn = |commands, took_us| {
            policy.learn(&Observation { last_trim: Some(&outcome(MIB, commands, took_us)), ..Observation::of(Nanos::ZERO, &[]) });
            (policy.command.map(|command| command.0 / 1000), policy.online())
        };
        assert_eq!(learn(0, 500), (None, false), "nothing was sent");
        assert_eq!(learn(10, 8_000), (Some(800), true));
        // An eighth of 8 ms more; an eighth of 1.8 ms less; and so on down to 1 ms.
        assert_eq!(learn(1, 8_800), (Some(1_800), false));
        assert_eq!(learn(1, 0), (Some(1_575), false));
        assert_eq!(learn(2, 0), (Some(1_378), false));
        assert_eq!(learn(2, 0), (Some(1_205), false));
        assert_eq!(learn(2, 0), (Some(1_055), false));
        assert_eq!(learn(2, 0), (Some(923), true));
    }
}
