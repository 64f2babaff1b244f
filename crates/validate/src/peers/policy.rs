//! Two policies of other authors, re-implemented from their abstracts.
//!
//! * `itrim`: Y. Liang, C. Ji, C. Fu, R. Ausavarungnirun, Q. Li, R. Pan, S. Chen, L. Shi,
//!   T.-W. Kuo and C. J. Xue: 'iTRIM: I/O-Aware TRIM for Improving User Experience on
//!   Mobile Devices', IEEE Transactions on Computer-Aided Design of Integrated Circuits
//!   and Systems 40(9), 1782-1795, 2021. Abstract: TRIM is distributed over idle time. It
//!   considers the size of a TRIM and the pattern of its logical addresses, for F2FS on
//!   mobile devices.
//! * `dtrim`: L. Luo, D. Yu, H. Li, Y. Song, Y. Lv, E. H.-M. Sha and L. Shi: 'Revisiting
//!   TRIM on High-Density Flash-Based Hybrid Storage Systems', same journal 43(5),
//!   1618-1622, 2024. Abstract: differential TRIM for a drive with two kinds of flash.
//!   Fast flash is trimmed early, which minimises the cost of garbage collection. Dense
//!   flash is trimmed lazily, which avoids conflicts with user requests.
//!
//! The abstracts leave details open. This implementation assumes:
//!
//! * Idle time: no request in flight, and none for 10 ms. Nothing is sent otherwise,
//!   except that `dtrim` does not wait while it trims early.
//! * Commands per request: `itrim` sends 8 of up to 2 MiB, the limits of F2FS's discard
//!   thread in Linux 4.18; `dtrim` sends 16.
//! * Order of `itrim`: extents of at least 1 MiB in all windows, then the smaller ones.
//!   Within a round, each request continues after the previous one. If the filesystem
//!   cannot select extents by size, the second round sends large ones again.
//! * A filesystem does not know which flash holds its blocks. So `dtrim` treats the drive
//!   as a whole by command time: up to 1 ms counts as early. Its first command is sent
//!   alone to measure it. While early, the filesystem uses online discard
//!   ([`Policy::online`]).
//! * A pass starts when a share of the free space was written, or after a day. The share
//!   is 10 % for `itrim`, as for [`Idle`](trimtab_sim::policy::Idle), and 25 % for
//!   `dtrim`.
//!
//! The comparison runs in virtual time on mains power, so the policies ignore forced
//! passes, batteries and restarts.

use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::policy::{
    Action, ExtentSizeClasses, Observation, Pass, PassStep, Policy, PolicyState, TrimRequest,
};
use trimtab_study::study::small::SmallDrive;

/// Maximum time between the starts of two passes.
const PASS_INTERVAL_MAX: Nanos = Nanos::from_secs(86_400);
/// Polling interval for the start of a pass.
const POLL: Nanos = Nanos::from_secs(10);
/// Minimum polling interval on a small drive.
const POLL_MIN: Nanos = Nanos::from_millis(100);
/// Time without requests after which the device counts as idle.
const QUIET: Nanos = Nanos::from_millis(10);
/// Minimum polling interval on a busy device.
const POLL_BUSY_MIN: Nanos = Nanos::from_micros(500);
/// `itrim`: minimum length of the free extents that come first.
const LARGE: Bytes = Bytes(1 << 20);
const COMMAND_MAX: Bytes = Bytes(2 << 20);
/// `dtrim`: maximum time of a cheap command.
const CHEAP: Nanos = Nanos::from_millis(1);
/// `dtrim`: inverse weight of the latest observation in the mean command time.
const COST_WEIGHT: i64 = 8;

#[derive(Clone, Copy, Debug)]
enum Rules {
    /// Trims in idle time, large extents first.
    ITrim {
        /// True once the large extents are done.
        small_too: bool,
    },
    /// Trims early if TRIM is cheap, otherwise lazily.
    DTrim {
        /// Mean command time, once known.
        command: Option<Nanos>,
    },
}

/// A policy of other authors.
#[derive(Clone, Debug)]
pub struct Peer {
    rules: Rules,
    at_least_every: Nanos,
    poll: Nanos,
    /// Start of the last pass, or the first poll.
    started: Option<Nanos>,
    /// Counter of written bytes at `started`.
    written_before: Option<Bytes>,
    pass: Pass,
}

impl Peer {
    /// Creates a policy by name, with times scaled for a small drive.
    #[must_use]
    pub fn named(name: &str, small: &SmallDrive) -> Option<Self> {
        let rules = match name {
            "itrim" => Rules::ITrim { small_too: false },
            "dtrim" => Rules::DTrim { command: None },
            _ => return None,
        };
        Some(Self::new(rules, small.sooner(PASS_INTERVAL_MAX), small.sooner(POLL).max(POLL_MIN)))
    }

    fn new(rules: Rules, at_least_every: Nanos, poll: Nanos) -> Self {
        Self {
            rules,
            at_least_every,
            poll,
            started: None,
            written_before: None,
            pass: Pass::default(),
        }
    }

    const fn share_percent(&self) -> u64 {
        match self.rules {
            Rules::ITrim { .. } => 10,
            Rules::DTrim { .. } => 25,
        }
    }

    fn early(&self) -> bool {
        matches!(self.rules, Rules::DTrim { command: Some(command) } if command <= CHEAP)
    }

    /// Records the command time of the last request.
    fn learn(&mut self, observation: &Observation<'_>) {
        let Rules::DTrim { command } = &mut self.rules else { return };
        let Some((took, counted)) =
            observation.last_trim.and_then(|outcome| Some((outcome.took, outcome.counted?)))
        else {
            return;
        };
        let Some(one) = took.0.checked_div(counted.count) else { return };
        let mean = command.map_or(one, |mean| {
            mean.0.saturating_add_signed((one.cast_signed() - mean.0.cast_signed()) / COST_WEIGHT)
        });
        *command = Some(Nanos(mean));
    }

    fn start_if_due(&mut self, observation: &Observation<'_>) {
        let started = *self.started.get_or_insert(observation.now);
        let before = self.written_before.or(observation.written);
        self.written_before = before;
        let written = observation
            .written
            .zip(before)
            .map_or(Bytes::ZERO, |(now, before)| Bytes(now.0.saturating_sub(before.0)));
        let threshold = u128::from(observation.free.0) * u128::from(self.share_percent()) / 100;
        let enough = written > Bytes::ZERO && u128::from(written.0) >= threshold;
        if !self.pass.running()
            && (enough || observation.now.saturating_sub(started) >= self.at_least_every)
        {
            (self.started, self.written_before) = (Some(observation.now), observation.written);
            self.pass.start();
            if let Rules::ITrim { small_too } = &mut self.rules {
                *small_too = false;
            }
        }
    }

    fn next_request(&mut self, observation: &Observation<'_>) -> Option<Action> {
        let running = self.pass.running();
        match (self.pass.step(observation, Bytes::MAX), &mut self.rules) {
            (PassStep::Later(instant), _) => Some(Action::WaitUntil(instant)),
            (PassStep::Done, Rules::ITrim { small_too }) if running && !*small_too => {
                *small_too = true;
                self.pass.start();
                self.next_request(observation)
            }
            (PassStep::Done, _) => None,
            (PassStep::Window(window), _) => {
                let waits = match self.rules {
                    Rules::ITrim { .. } => true,
                    Rules::DTrim { command } => command.is_some() && !self.early(),
                };
                if let Some(until) = until_quiet(observation).filter(|_| waits) {
                    return Some(Action::WaitUntil(until));
                }
                Some(self.pass.send(
                    self.request(TrimRequest::whole(window, Bytes::ZERO), observation.by_size),
                ))
            }
        }
    }

    /// Adapts a request to this policy.
    fn request(&self, whole: TrimRequest, by_size: bool) -> TrimRequest {
        match self.rules {
            Rules::ITrim { small_too } => {
                let (min_extent, below, round) =
                    if small_too { (Bytes::ZERO, LARGE, 1) } else { (LARGE, Bytes::MAX, 0) };
                // If extents can be selected by size, no extent is sent twice.
                let sizes = by_size.then_some(ExtentSizeClasses { below, round, rounds: 2 });
                TrimRequest {
                    min_extent,
                    command_max: COMMAND_MAX,
                    commands_max: 8,
                    sizes,
                    ..whole
                }
            }
            Rules::DTrim { command: None } => TrimRequest { commands_max: 1, ..whole },
            Rules::DTrim { .. } if self.early() => whole,
            Rules::DTrim { .. } => TrimRequest { commands_max: 16, ..whole },
        }
    }
}

impl Policy for Peer {
    fn name(&self) -> &'static str {
        match self.rules {
            Rules::ITrim { .. } => "itrim",
            Rules::DTrim { .. } => "dtrim",
        }
    }

    fn online(&self) -> bool {
        self.early()
    }

    fn decide(&mut self, observation: &Observation<'_>) -> Action {
        self.learn(observation);
        self.pass.settle(observation);
        self.start_if_due(observation);
        self.next_request(observation)
            .unwrap_or(Action::WaitUntil(observation.now.saturating_add(self.poll)))
    }

    fn pass(&self) -> &Pass {
        &self.pass
    }

    fn state(&self) -> PolicyState {
        PolicyState::default()
    }
}

/// Time at which the device may have been idle for [`QUIET`]; `None` if it already has
/// been.
fn until_quiet(observation: &Observation<'_>) -> Option<Nanos> {
    let now = observation.now;
    let idle = match observation.idle_since {
        Some(since) if observation.in_flight == 0 => now.saturating_sub(since),
        _ => return Some(now.saturating_add(QUIET)),
    };
    (idle < QUIET).then(|| now.saturating_add(QUIET.saturating_sub(idle).max(POLL_BUSY_MIN)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::discards::Amount;
    use trimtab_sim::target::{TrimOutcome, TrimWindow};

    const MIB: u64 = 1 << 20;
    const WINDOWS: [TrimWindow; 2] =
        [TrimWindow { start: 0, len: 128 * MIB }, TrimWindow { start: 128 * MIB, len: 128 * MIB }];

    /// An observation `idle_ms` after the last request, with 100 MiB free.
    fn at(seconds: u64, idle_ms: u64, written: u64) -> Observation<'static> {
        let now = Nanos::from_secs(seconds);
        let idle_since = Some(now.saturating_sub(Nanos::from_millis(idle_ms)));
        Observation {
            idle_since,
            written: Some(Bytes(written)),
            free: Bytes(100 * MIB),
            ..Observation::of(now, &WINDOWS)
        }
    }

    fn itrim() -> Peer {
        Peer::new(Rules::ITrim { small_too: false }, PASS_INTERVAL_MAX, POLL)
    }

    fn dtrim() -> Peer {
        Peer::new(Rules::DTrim { command: None }, PASS_INTERVAL_MAX, POLL)
    }

    /// Outcome of `commands` commands over `asked` bytes in `took_us`.
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

    /// First window from `start` on.
    fn rest(start: u64) -> TrimWindow {
        TrimWindow { start, len: 128 * MIB - start }
    }

    #[test]
    fn until_quiet_counts_from_the_last_request() {
        const MS: u64 = 1_000_000;
        let at = |idle: Option<u64>, in_flight| Observation {
            idle_since: idle.map(|idle| Nanos(100 * MS - idle)),
            in_flight,
            ..Observation::of(Nanos(100 * MS), &[])
        };
        let wait =
            |idle, in_flight| until_quiet(&at(idle, in_flight)).map(|until| until.0 - 100 * MS);
        assert_eq!([wait(Some(10 * MS), 0), wait(Some(4 * MS), 0)], [None, Some(6 * MS)]);
        assert_eq!(wait(Some(10 * MS - 1), 0), Some(500_000), "at least half a millisecond");
        assert_eq!([wait(None, 0), wait(Some(90 * MS), 1)], [Some(10 * MS); 2]);
    }

    #[test]
    fn itrim_starts_after_tenth_was_written_and_waits_for_idle() {
        let mut policy = itrim();
        assert_eq!(policy.decide(&at(1, 900, 0)), Action::WaitUntil(Nanos::from_secs(11)));
        assert_eq!(
            policy.decide(&at(11, 900, 10 * MIB - 1)),
            Action::WaitUntil(Nanos::from_secs(21))
        );
        assert_eq!(
            policy.decide(&at(21, 3, 10 * MIB)),
            Action::WaitUntil(Nanos::from_millis(21_007))
        );
        let request = TrimRequest {
            command_max: Bytes(2 * MIB),
            commands_max: 8,
            ..TrimRequest::whole(WINDOWS[0], Bytes(MIB))
        };
        assert_eq!(policy.decide(&at(22, 10, 10 * MIB)), Action::Trim(request));
    }

    #[test]
    fn itrim_sends_nothing_while_requests_are_in_flight() {
        let mut policy = itrim();
        policy.decide(&at(1, 900, 0));
        let busy = Observation { in_flight: 1, idle_since: None, ..at(2, 0, 50 * MIB) };
        for _ in 0..1000 {
            assert_eq!(policy.decide(&busy), Action::WaitUntil(Nanos::from_millis(2_010)));
        }
    }

    #[test]
    fn itrim_sends_large_extents_of_all_windows_first() {
        let mut policy = itrim();
        policy.decide(&at(1, 20, 0));
        let mut came = Vec::new();
        let mut action = policy.decide(&at(2, 20, 10 * MIB));
        while let Action::Trim(request) = action {
            came.push((request.window.start / MIB, request.window.len / MIB, request.min_extent.0));
            // Eight 2 MiB commands with equal gaps span 32 MiB; all small extents fit
            // into eight.
            let asked = if request.min_extent == Bytes::ZERO {
                request.window.len
            } else {
                request.window.len.min(32 * MIB)
            };
            action = policy.decide(&Observation {
                last_trim: Some(&outcome(asked, 8, 1)),
                ..at(2, 20, 10 * MIB)
            });
        }
        let large = (0..8).map(|n| (n * 32, 128 - n % 4 * 32, MIB));
        assert!(large.chain([(0, 128, 0), (128, 128, 0)]).eq(came.iter().copied()), "{came:?}");
        assert!(!policy.pass().running());
    }

    #[test]
    fn dtrim_with_slow_commands_waits_for_quarter_and_idle() {
        let mut policy = dtrim();
        policy.decide(&at(1, 900, 0));
        assert_eq!(
            policy.decide(&at(2, 900, 25 * MIB - 1)),
            Action::WaitUntil(Nanos::from_secs(12))
        );
        assert_eq!(policy.decide(&at(3, 4, 25 * MIB)), trim(WINDOWS[0], 1), "the cost is unknown");
        // At 3 ms per command it stays lazy and continues at the same place.
        let slow = outcome(MIB, 1, 3_000);
        let waits = policy.decide(&Observation { last_trim: Some(&slow), ..at(5, 4, 25 * MIB) });
        assert_eq!((waits, policy.online()), (Action::WaitUntil(Nanos::from_millis(5_006)), false));
        assert_eq!(policy.decide(&at(6, 10, 25 * MIB)), trim(rest(MIB), 16));
        let slow = outcome(9 * MIB, 16, 48_000);
        assert_eq!(
            policy.decide(&Observation { last_trim: Some(&slow), ..at(6, 10, 25 * MIB) }),
            trim(rest(10 * MIB), 16)
        );
    }

    #[test]
    fn dtrim_with_cheap_commands_is_online_and_does_not_wait() {
        let mut policy = dtrim();
        policy.decide(&at(1, 100, 0));
        assert_eq!(
            (policy.decide(&at(1, 100, 25 * MIB)), policy.online()),
            (trim(WINDOWS[0], 1), false)
        );
        let cheap = outcome(MIB, 1, 1_000);
        let busy = Observation {
            last_trim: Some(&cheap),
            in_flight: 3,
            idle_since: None,
            ..at(2, 0, 25 * MIB)
        };
        assert_eq!(policy.decide(&busy), trim(rest(MIB), 0));
        assert!(policy.online(), "1 ms is cheap");
    }

    #[test]
    fn dtrim_cost_is_mean_of_recent_commands() {
        let mut policy = dtrim();
        let mut learn = |commands, took_us| {
            policy.learn(&Observation {
                last_trim: Some(&outcome(MIB, commands, took_us)),
                ..Observation::of(Nanos::ZERO, &[])
            });
            let Rules::DTrim { command } = policy.rules else { panic!() };
            (command.map(|command| command.0 / 1000), policy.online())
        };
        assert_eq!(learn(0, 500), (None, false), "no command was sent");
        assert_eq!(learn(10, 8_000), (Some(800), true));
        // Moves 1/8 towards each observation, down to 1 ms.
        assert_eq!(learn(1, 8_800), (Some(1_800), false));
        assert_eq!(learn(1, 0), (Some(1_575), false));
        assert_eq!(learn(2, 0), (Some(1_378), false));
        assert_eq!(learn(2, 0), (Some(1_205), false));
        assert_eq!(learn(2, 0), (Some(1_055), false));
        assert_eq!(learn(2, 0), (Some(923), true));
    }
}
