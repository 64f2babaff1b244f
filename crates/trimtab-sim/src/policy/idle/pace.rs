//! Size of idle trim pieces, limited by their cost (`cost`) and by foreground waits. Idle
//! time of the device is the subject of `quiet`.

use super::cost::{CostFit, GROSS, MEMORY, TrimCost};
use super::{IdleSettings, whole_units};
use crate::policy::{Observation, PolicyState};
use crate::target::{TrimOutcome, TrimWindow};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cell::Cell;
use trimtab_drive::units::{Bytes, Nanos};

/// Smallest piece, and the first.
const PIECE_MIN: Bytes = Bytes(64 << 10);
/// Largest piece relative to the largest measured one: the cost per byte may vary with
/// size.
const GROWTH: f64 = 8.0;
/// Largest trial by size: tails are sent twice, and block groups (128 MiB) follow.
const TRIAL_MAX: Bytes = Bytes(16 << 20);
/// Size of commands for indivisible extents between the piece and the whole extent, as
/// exponents: smaller means more commands, larger means longer ones. Halfway, if every
/// command is expensive, the fixed costs equal the byte cost of one command. The first
/// applies if foreground I/O gets in between, the last if it waits for all commands; one
/// less if a piece fits the budget.
const TOWARDS: [f64; 3] = [0.0, 0.5, 0.75];
/// With at least this many commands, foreground waits reveal the order: below the first
/// share of the time requests pass between commands, above the second they wait for all.
const LONG_MIN: f64 = 4.0;
const PASSES: f64 = 0.25;
const WAITS_FOR_ALL: f64 = 0.5;
/// After this many vain trials in a row, only the window's own tail is tried.
pub(super) const TRIALS_VAIN: u32 = MEMORY as u32;

/// Commands are cheap if a quick one takes less than the budget divided by this, and the
/// median at most the budget. Other processes only add delay.
const CHEAP_PARTS: f64 = 5.0;
/// Largest share of that time for one command, if size matters.
const CHEAP_FILL: f64 = 0.75;
/// Number of recent commands considered, and the minimum for a verdict.
const RECENT: usize = 7;
const RECENT_MIN: usize = 4;

/// Search for the piece size by trials at the tails of windows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SizeSearch {
    pub(super) tried: u32,
    /// Consecutive trials without a measurement.
    pub(super) vain: u32,
    /// Start of the window whose own tail was tried.
    pub(super) own: Option<u64>,
}

/// Recent worst foreground wait relative to the duration of a command.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Waits {
    times: f64,
}

impl Waits {
    /// Records a foreground wait and the duration of a command. Waits beyond a factor of
    /// [`GROSS`] have another cause and are ignored.
    fn observe(&mut self, waited_ns: f64, command_ns: f64, budget_ns: f64) {
        self.times -= (self.times - 1.0) / MEMORY;
        if waited_ns > budget_ns && waited_ns <= command_ns * GROSS {
            self.times = self.times.max(waited_ns / command_ns);
        }
    }
}

/// Recent commands as bytes and nanoseconds, newest first.
#[derive(Clone, Debug, Default)]
struct RecentCommands(VecDeque<(f64, f64)>);

impl RecentCommands {
    fn add(&mut self, bytes: f64, nanos: f64) {
        self.0.truncate(RECENT - 1);
        self.0.push_front((bytes, nanos));
    }

    /// Second shortest and median duration in nanoseconds; `None` with too few commands.
    fn usual(&self) -> Option<(f64, f64)> {
        let mut sorted: Vec<f64> = self.0.iter().map(|(_, nanos)| *nanos).collect();
        sorted.sort_by(f64::total_cmp);
        let usual = sorted.get(1).copied().zip(sorted.get(sorted.len() / 2).copied());
        usual.filter(|_| sorted.len() >= RECENT_MIN)
    }

    /// Largest bytes, shortest time of at least half of that, shortest time of all.
    fn quickest(&self) -> (f64, f64, f64) {
        let largest = self.0.iter().map(|(bytes, _)| *bytes).fold(0.0, f64::max);
        let quickest = |from: f64| {
            self.0
                .iter()
                .filter(|(bytes, _)| *bytes >= from)
                .map(|(_, nanos)| *nanos)
                .fold(f64::INFINITY, f64::min)
        };
        (largest, quickest(largest / 2.0), quickest(0.0))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SentPiece {
    pub(super) commands: u64,
    pub(super) bytes: f64,
    /// 0 if nothing was sent.
    pub(super) took: Nanos,
    pub(super) trial: bool,
}

/// Limits on the piece size.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    commands: CostFit,
    recent: RecentCommands,
    /// Maximum size of cheap commands; `None` if commands are not cheap.
    cheap: Option<Bytes>,
    /// The same while they may be sent back to back.
    cheap_now: Option<Bytes>,
    /// Cost of a part of a divisible window with all its commands.
    parts: CostFit,
    waits: Waits,
    /// Index into [`TOWARDS`].
    towards: usize,
    /// Request without a reply yet, and true for a trial.
    sent: Option<(TrimWindow, bool)>,
    /// Result of [`piece`](Self::piece) for the costs learned so far.
    sized: Cell<Option<Bytes>>,
    /// Active until the size is known.
    pub(super) search: Option<SizeSearch>,
}

impl Pace {
    pub(super) fn restore(state: &PolicyState) -> Self {
        let commands = CostFit::restore("commands", state);
        let searching =
            !commands.known() || state.get("idle.searching").is_some_and(|flag| flag != 0);
        Self {
            commands,
            recent: RecentCommands::default(),
            cheap: None,
            cheap_now: None,
            parts: CostFit::restore("parts", state),
            waits: Waits { times: 1.0 },
            towards: state
                .get("idle.towards")
                .map_or(1, |towards| (towards as usize).min(TOWARDS.len() - 1)),
            sent: None,
            sized: Cell::default(),
            search: searching.then(SizeSearch::default),
        }
    }

    pub(super) fn save(&self, state: &mut PolicyState) {
        self.commands.save("commands", state);
        self.parts.save("parts", state);
        state.set("idle.searching", u64::from(self.search.is_some()));
        state.set("idle.towards", self.towards as u64);
    }

    /// Records a request. For a trial, `trial_before` is the start of the next window.
    pub(super) fn sent(&mut self, window: TrimWindow, trial_before: Option<u64>) {
        self.sent = Some((window, trial_before.is_some()));
        if let Some(search) = self.search.as_mut().filter(|search| search.vain >= TRIALS_VAIN) {
            search.own = trial_before.or(search.own);
        }
    }

    /// Processes cost and foreground wait of the last request; returns its result.
    pub(super) fn learn(
        &mut self,
        settings: &IdleSettings,
        observation: &Observation<'_>,
    ) -> Option<SentPiece> {
        let (sent, trial) = self.sent.take()?;
        let (piece, largest) = (self.piece(settings), self.commands.largest());
        self.sized.take();
        if observation.put_off {
            return None;
        }
        let Some(outcome) = observation.last_trim else {
            // Windows are retried after a while, trials are not.
            self.search = self.search.filter(|_| !trial);
            return Some(SentPiece { commands: 0, bytes: 0.0, took: Nanos::ZERO, trial });
        };
        let discarded = sent_by(outcome, sent, piece);
        if let Some((commands, bytes)) = discarded {
            let command_ns = outcome.took.as_f64() / commands;
            self.commands.add_mean(commands, bytes / commands, command_ns);
            self.recent.add(bytes / commands, command_ns);
            self.cheap = self.cheap_piece(settings);
            self.decide_cheap(self.cheap_now.is_some());
            if whole_units(piece, observation.granule).is_some() && !observation.by_size {
                self.parts
                    .add(Bytes(outcome.asked.0.min(sent.len)).as_f64(), outcome.took.as_f64());
            }
            let waited = observation.foreground_wait_max.map_or(0.0, Nanos::as_f64);
            self.waits.observe(waited, command_ns, settings.budget.as_f64());
            if !trial && commands >= LONG_MIN && whole_units(piece, observation.granule).is_none() {
                self.let_pass(waited / outcome.took.as_f64().max(1.0));
            }
        }
        if trial {
            // Part of a trial may be free.
            let filled = discarded
                .is_some_and(|(_, bytes)| bytes >= trial_of(piece, observation).as_f64() / 2.0);
            // The size of cheap commands fluctuates; only a larger command is new
            // information.
            let larger = if self.cheap_now.is_some() {
                self.commands.largest() > largest
            } else {
                self.piece(settings) > piece
            };
            self.search_on(filled, larger, self.piece(settings) >= settings.piece_max);
        } else if discarded.is_some() {
            // Whole windows give better cost measurements than trials.
            self.search = None;
        }
        let (commands, bytes) = discarded.unwrap_or_default();
        Some(SentPiece {
            commands: commands as u64,
            bytes,
            took: if discarded.is_some() { outcome.took } else { Nanos::ZERO },
            trial,
        })
    }

    /// True if the largest measured command reaches the limit of trials by size.
    pub(super) fn tried_most(&self) -> bool {
        self.commands.largest() >= TRIAL_MAX.as_f64()
    }

    pub(super) fn is_new(&self) -> bool {
        !self.commands.known()
    }

    /// Enables back-to-back commands if recent ones were cheap and `allowed` is true.
    pub(super) fn decide_cheap(&mut self, allowed: bool) -> bool {
        self.cheap_now = self.cheap.filter(|_| allowed);
        self.cheap_now.is_some()
    }

    /// Maximum size of a cheap command; `None` if commands are not cheap.
    fn cheap_piece(&self, settings: &IdleSettings) -> Option<Bytes> {
        let limit = settings.budget.as_f64() / CHEAP_PARTS;
        let (quick, median) = self.recent.usual()?;
        if quick >= limit || median > settings.budget.as_f64() {
            return None;
        }
        let (bytes, large, any) = self.recent.quickest();
        // If bytes hardly matter a larger one is unlikely to reach the budget, its upper
        // bound.
        let most = if large < any * 2.0 { settings.budget.as_f64() } else { limit * CHEAP_FILL };
        let piece = (bytes * most / large.max(1.0)).min(self.commands.largest() * GROWTH);
        Some(Bytes((piece as u64).min(settings.piece_max.0).max(PIECE_MIN.0)))
    }

    /// Expected duration of the next request in nanoseconds; of one command during
    /// `foreground` I/O. `longest` bounds the indivisible free extents.
    pub(super) fn takes_ns(
        &self,
        settings: &IdleSettings,
        longest: Bytes,
        foreground: bool,
    ) -> f64 {
        let piece = self.command_of(settings, longest.0).min(longest);
        let one = if self.commands.known() {
            self.commands.expected(piece.as_f64())
        } else {
            settings.budget.as_f64()
        };
        if foreground { one } else { one * self.commands_max(settings).max(1) as f64 }
    }

    /// Updates the search after a trial.
    fn search_on(&mut self, filled: bool, larger: bool, largest: bool) {
        let Some(mut search) = self.search.take() else { return };
        search.tried = search.tried.saturating_add(1);
        if !filled {
            search.vain = search.vain.saturating_add(1);
        } else if search.vain < TRIALS_VAIN {
            search.vain = 0;
        } else {
            // Trials elsewhere taught nothing: try once more here.
            search.own = None;
        }
        // A single trial may have been delayed by other requests.
        let sure = filled && self.commands.count() > 1.0;
        self.search = (!largest && (larger || !sure)).then_some(search);
    }

    /// Expected cost of the smallest piece, if it exceeds the budget.
    pub(super) fn smallest_over_budget(&self, settings: &IdleSettings) -> Option<Nanos> {
        let smallest = self.commands.expected(PIECE_MIN.as_f64());
        (smallest > settings.budget.as_f64()).then(|| Nanos(libm::round(smallest) as u64))
    }

    /// Piece size: the largest whose cost fits the budget, including its error.
    ///
    /// If even the smallest may not fit, the largest expected to fit. If every command
    /// exceeds the budget, the largest whose byte cost does not exceed the fixed cost:
    /// the wait at most doubles, and larger ones would save at most half of the time.
    pub(super) fn piece(&self, settings: &IdleSettings) -> Bytes {
        if let Some(piece) = self.cheap_now.or(self.sized.get()) {
            return piece;
        }
        let piece = self.size(settings);
        self.sized.set(Some(piece));
        piece
    }

    fn size(&self, settings: &IdleSettings) -> Bytes {
        let (least, most) = (PIECE_MIN.0, settings.piece_max.0.max(PIECE_MIN.0));
        if !self.commands.known() {
            return Bytes(least);
        }
        let most = most.min(((self.commands.largest() * GROWTH) as u64).max(least));
        let limit = self.limit(settings);
        if self.smallest_over_budget(settings).is_some() {
            // The first measurement does not separate byte cost; try one larger command.
            let twice = 2.0 * self.commands.line().0;
            return Bytes(if self.commands.varied() {
                (self.commands.expected_within(twice) as u64).clamp(least, most)
            } else {
                most
            });
        }
        if self.commands.upper(least as f64) > limit {
            return Bytes((self.commands.expected_within(limit) as u64).clamp(least, most));
        }
        let within = self.commands.largest_within(limit, least, most);
        // All commands of a part together.
        Bytes(if self.parts.known() {
            within.min(self.parts.largest_within(limit, least, most))
        } else {
            within
        })
    }

    /// Maximum duration of a command in nanoseconds for waits within the budget.
    fn limit(&self, settings: &IdleSettings) -> f64 {
        settings.budget.as_f64() / self.waits.times
    }

    /// Records the foreground wait as a share of the duration of consecutive commands.
    fn let_pass(&mut self, share: f64) {
        if share >= WAITS_FOR_ALL {
            self.towards = (self.towards + 1).min(TOWARDS.len() - 1);
        } else if share > 0.0 && share <= PASSES {
            self.towards = 0;
        }
    }

    /// Largest command for an indivisible free extent of at most `longest` bytes.
    pub(super) fn command_of(&self, settings: &IdleSettings, longest: u64) -> Bytes {
        let piece = self.piece(settings);
        if piece.0 >= longest {
            return piece;
        }
        let towards = TOWARDS[if self.smallest_over_budget(settings).is_some() {
            self.towards
        } else {
            self.towards.saturating_sub(1)
        }];
        Bytes(
            (libm::pow(piece.as_f64(), 1.0 - towards) * libm::pow(longest as f64, towards)) as u64,
        )
    }

    /// Number of consecutive commands that fit the budget together: a device without a
    /// scheduler queues other requests behind all of them, and one with expensive TRIMs
    /// would never catch up in between. Minus one, because the last free extent is sent
    /// to its end.
    pub(super) fn commands_max(&self, settings: &IdleSettings) -> u64 {
        if !self.commands.known() {
            return 0;
        }
        // Below 1 if every command is expensive.
        let within = self.limit(settings) / self.commands.upper(self.commands.typical());
        (within as u64).saturating_sub(1).max(1)
    }

    /// Largest command for an indivisible window with free extents of up to `longest`.
    pub(super) fn command_max(
        &self,
        settings: &IdleSettings,
        window: TrimWindow,
        longest: Bytes,
    ) -> Bytes {
        let command = self.command_of(settings, longest.0.min(window.len));
        if command.0 < window.len { command } else { Bytes::MAX }
    }

    pub(super) fn learned(&self) -> Option<TrimCost> {
        self.commands.shown()
    }
}

pub(super) fn trial_of(piece: Bytes, observation: &Observation<'_>) -> Bytes {
    if observation.by_size { piece.min(TRIAL_MAX) } else { piece }
}

/// Commands and bytes sent; `None` if nothing. Estimates uncounted commands.
fn sent_by(outcome: &TrimOutcome, window: TrimWindow, piece: Bytes) -> Option<(f64, f64)> {
    let (commands, bytes) = match outcome.counted {
        Some(counted) => (counted.count, counted.bytes),
        None if outcome.returned == Bytes::ZERO => (0, Bytes::ZERO),
        None => (window.len.div_ceil(piece.0.max(1)).max(1), outcome.returned),
    };
    (commands > 0).then(|| (commands as f64, bytes.as_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::discards::Amount;

    const MIB: u64 = 1 << 20;

    /// Pieces of 64 KiB to 1 GiB, and a budget of 5 ms.
    fn settings() -> IdleSettings {
        IdleSettings::default()
    }

    fn fresh() -> Pace {
        Pace::restore(&PolicyState::default())
    }

    /// Has measured one command of 64 KiB that took `nanos`.
    fn having_seen(nanos: f64) -> Pace {
        let mut pace = fresh();
        pace.commands.add(65_536.0, nanos);
        pace
    }

    #[test]
    fn sent_commands_are_counted_or_estimated() {
        let window = TrimWindow { start: 0, len: 10 };
        let of = |counted, returned| {
            sent_by(
                &TrimOutcome { counted, returned: Bytes(returned), ..TrimOutcome::default() },
                window,
                Bytes(4),
            )
        };
        assert_eq!(of(Some(Amount::new(3, 300)), 7), Some((3.0, 300.0)));
        assert_eq!([of(Some(Amount::new(0, 0)), 7), of(None, 0)], [None, None]);
        // Ten bytes in commands of four are three.
        assert_eq!(of(None, 7), Some((3.0, 7.0)));
        assert_eq!(
            sent_by(
                &TrimOutcome { returned: Bytes(7), ..TrimOutcome::default() },
                window,
                Bytes(64)
            ),
            Some((1.0, 7.0))
        );
    }

    #[test]
    fn waits_beyond_twice_a_command_are_ignored() {
        let after = |waited: f64| {
            let mut waits = Waits { times: 1.0 };
            waits.observe(waited, 4e6, 5e6);
            waits.times
        };
        // Within the budget; 1.5 and 2 times the command; beyond that, another cause.
        assert_eq!([after(5e6), after(6e6), after(8e6), after(8.001e6)], [1.0, 1.5, 2.0, 1.0]);
        let mut waits = Waits { times: 2.0 };
        waits.observe(0.0, 4e6, 5e6);
        assert_eq!(waits.times, 1.968_75, "a thirty-second of what is above 1");
        waits.observe(6e6, 4e6, 5e6);
        assert_eq!(
            waits.times,
            1.968_75 - 0.968_75 / 32.0,
            "a smaller wait than before changes nothing"
        );
    }

    #[test]
    fn commands_max_fits_the_budget_less_one() {
        assert_eq!(fresh().commands_max(&settings()), 0, "cost unknown");
        // A single measurement has an error of a tenth times the root of two: 1 ms is at
        // most 1.283 ms, so 3.9 fit; 0.4 ms is 0.513 ms, so 9.7.
        assert_eq!(
            [1e6, 0.4e6, 4e6, 40e6].map(|nanos| having_seen(nanos).commands_max(&settings())),
            [2, 8, 1, 1]
        );
        let mut pace = having_seen(0.4e6);
        pace.waits.times = 2.0;
        assert_eq!(
            pace.commands_max(&settings()),
            3,
            "the foreground waits twice as long: 4.9 fit"
        );
    }

    #[test]
    fn smallest_over_budget_compares_smallest_piece() {
        assert_eq!(
            [4e6, 5e6].map(|nanos| having_seen(nanos).smallest_over_budget(&settings())),
            [None, None]
        );
        assert_eq!(
            having_seen(5_000_001.0).smallest_over_budget(&settings()),
            Some(Nanos(5_000_001))
        );
    }

    #[test]
    fn piece_size_is_bounded_by_observed_sizes() {
        assert_eq!(fresh().piece(&settings()), Bytes(65_536));
        // One size bounds others in proportion: 1.283 ms for 64 KiB, 3.898 times that in
        // 5 ms.
        let sure = 65_536.0 * 5.0 / (1.0 + 0.2 * core::f64::consts::SQRT_2);
        assert_eq!(having_seen(1e6).piece(&settings()), Bytes(sure as u64));
        // Cheap: at most eight times the largest measured.
        assert_eq!(having_seen(1e3).piece(&settings()), Bytes(8 * 65_536));
        // Expensive, byte cost unknown: the same limit, and never above the maximum.
        assert_eq!(having_seen(9e6).piece(&settings()), Bytes(8 * 65_536));
        assert_eq!(
            having_seen(9e6).piece(&IdleSettings { piece_max: Bytes(100_000), ..settings() }),
            Bytes(100_000)
        );
        // Expected but not certain to fit: 5/4.5 of it.
        assert_eq!(having_seen(4.5e6).piece(&settings()), Bytes((65_536.0 * 5.0 / 4.5) as u64));
        // Where parts of windows cost 2 ms per 64 KiB, all their commands count together.
        let mut pace = having_seen(1e3);
        pace.parts.add(65_536.0, 2e6);
        assert_eq!(
            pace.piece(&settings()),
            Bytes((65_536.0 * 2.5 / (1.0 + 0.2 * core::f64::consts::SQRT_2)) as u64)
        );
    }

    #[test]
    fn command_max_is_unlimited_for_window_of_one_piece() {
        let (pace, max) = (fresh(), |len| {
            fresh().command_max(&settings(), TrimWindow { start: 0, len }, Bytes::MAX)
        });
        assert_eq!(max(65_537), pace.piece(&settings()));
        assert_eq!([65_536, 1].map(max), [Bytes::MAX; 2]);
    }

    /// A drive that needs 4 ms per command and possibly 4 ms per mapped 64 KiB: at worst
    /// the fixed costs equal the byte cost of one command.
    #[test]
    fn undivided_extent_cost_counts_bytes_of_all_commands() {
        let mut pace = fresh();
        (0..40).for_each(|_| {
            [1.0, 8.0]
                .into_iter()
                .for_each(|units| pace.commands.add(65_536.0 * units, 4e6 + 4e6 * units))
        });
        assert!(pace.smallest_over_budget(&settings()).is_some());
        let units =
            |pace: &Pace, longest| pace.command_of(&settings(), longest).as_f64() / 65_536.0;
        assert!((units(&pace, 65_536) - 1.0).abs() < 0.01, "{}", units(&pace, 65_536));
        let of_group = units(&pace, 128 * MIB);
        let (commands, bytes) = (4.0 * 2048.0 / of_group, 4.0 * of_group);
        assert!(
            (commands / bytes - 1.0).abs() < 0.05 && commands < 185.0,
            "{commands} ms of commands, {bytes} ms of bytes"
        );
        // If requests wait for all commands, fewer; if they pass in between, pieces.
        pace.let_pass(0.6);
        assert!((units(&pace, 128 * MIB) / libm::pow(2048.0, 0.75) - 1.0).abs() < 0.05);
        pace.let_pass(0.9);
        assert_eq!(pace.towards, 2);
        pace.let_pass(0.3);
        pace.let_pass(0.0);
        assert_eq!(pace.towards, 2, "inconclusive, or no foreground wait");
        let mut state = PolicyState::default();
        pace.save(&mut state);
        assert_eq!(Pace::restore(&state).towards, 2);
        pace.let_pass(0.2);
        assert!((units(&pace, 128 * MIB) - 1.0).abs() < 0.01);
        // Cheap commands are as large as the budget allows unless requests wait for all.
        let mut pace = having_seen(1e6);
        assert_eq!(pace.command_of(&settings(), 128 * MIB), pace.piece(&settings()));
        pace.let_pass(0.5);
        assert!(
            (units(&pace, 128 * MIB)
                / libm::sqrt(2048.0 * pace.piece(&settings()).as_f64() / 65_536.0)
                - 1.0)
                .abs()
                < 0.01
        );
    }

    #[test]
    fn pace_reports_outcome_of_sent_requests_only() {
        let came_of = |last_trim: Option<&TrimOutcome>, was_sent: bool| {
            let mut pace = fresh();
            if was_sent {
                pace.sent(TrimWindow { start: 0, len: MIB }, None);
            }
            pace.learn(&settings(), &Observation { last_trim, ..Observation::of(Nanos::ZERO, &[]) })
        };
        let outcome = |commands, took| TrimOutcome {
            counted: Some(Amount::new(commands, MIB)),
            took: Nanos(took),
            ..TrimOutcome::default()
        };
        let nothing = SentPiece { commands: 0, bytes: 0.0, trial: false, took: Nanos::ZERO };
        assert_eq!(
            came_of(Some(&outcome(2, 7)), true),
            Some(SentPiece { commands: 2, bytes: MIB as f64, trial: false, took: Nanos(7) })
        );
        assert_eq!([came_of(Some(&outcome(0, 7)), true), came_of(None, true)], [Some(nothing); 2]);
        assert_eq!(came_of(Some(&outcome(2, 7)), false), None);
    }

    #[test]
    fn takes_ns_expects_one_command_during_foreground_io() {
        assert_eq!(
            [true, false].map(|foreground| fresh().takes_ns(&settings(), Bytes(MIB), foreground)),
            [5e6; 2],
            "cost unknown"
        );
        // 0.4 ms is at most 0.513 ms, and eight follow each other.
        assert_eq!(
            [true, false].map(|foreground| having_seen(0.4e6).takes_ns(
                &settings(),
                Bytes(MIB),
                foreground
            )),
            [0.4e6, 3.2e6]
        );
    }

    fn after(commands: &[(f64, f64)]) -> Pace {
        let mut pace = fresh();
        commands.iter().for_each(|(bytes, nanos)| {
            pace.commands.add(*bytes, *nanos);
            pace.recent.add(*bytes, *nanos);
        });
        pace.cheap = pace.cheap_piece(&settings());
        pace
    }

    #[test]
    fn commands_count_as_cheap_by_quick_ones_and_median() {
        let cheap = |nanos: &[f64]| {
            after(&nanos.iter().map(|nanos| (65_536.0, *nanos)).collect::<Vec<_>>())
                .cheap_piece(&settings())
        };
        assert_eq!(cheap(&[0.2e6; 3]), None, "too few");
        assert!(cheap(&[0.2e6; 4]).is_some());
        assert!(cheap(&[0.9e6, 0.9e6, 4e6, 4e6]).is_some(), "two were delayed by other processes");
        assert!(cheap(&[0.9e6, 1.1e6, 1.1e6, 1.1e6]).is_none(), "a single one may be chance");
        assert!(cheap(&[0.2e6, 0.2e6, 5.1e6, 5.1e6]).is_none(), "most are above the budget");
        let mut pace = after(&[(65_536.0, 0.2e6); 4]);
        assert!(pace.decide_cheap(true) && !pace.decide_cheap(false));
        pace.recent =
            RecentCommands(pace.recent.0.iter().map(|(bytes, _)| (*bytes, 9e6)).collect());
        pace.cheap = pace.cheap_piece(&settings());
        assert!(!pace.decide_cheap(true), "no longer cheap");
    }

    #[test]
    fn cheap_commands_grow_while_bytes_cost_little() {
        let piece =
            |commands: &[(f64, f64)]| after(commands).cheap_piece(&settings()).map(|piece| piece.0);
        assert_eq!(piece(&[(65_536.0, 0.2e6); 4]), Some(8 * 65_536), "eight times what was tried");
        let fixed: Vec<(f64, f64)> =
            [(65_536.0, 0.2e6); 3].into_iter().chain([(16.0 * MIB as f64, 0.21e6)]).collect();
        assert_eq!(piece(&fixed), Some(128 * MIB));
        // 0.1 ms per 64 KiB: three quarters of a fifth of the budget are 480 KiB.
        let by_bytes: Vec<(f64, f64)> =
            [(65_536.0, 0.1e6); 3].into_iter().chain([(262_144.0, 0.4e6)]).collect();
        assert_eq!(piece(&by_bytes), Some(480 << 10));
    }

    /// A window with much free space in small extents is tried repeatedly.
    #[test]
    fn search_among_cheap_commands_ends_once_they_stop_growing() {
        let mut pace = after(&[(65_536.0, 0.2e6); 4]);
        pace.decide_cheap(true);
        let outcome = TrimOutcome {
            counted: Some(Amount::new(32, 32 * MIB)),
            took: Nanos(32 * 300_000),
            ..TrimOutcome::default()
        };
        let trials = (0..100).take_while(|_| {
            pace.sent(TrimWindow { start: 0, len: 128 * MIB }, Some(0));
            pace.learn(
                &settings(),
                &Observation { last_trim: Some(&outcome), ..Observation::of(Nanos::ZERO, &[]) },
            );
            pace.search.is_some()
        });
        assert_eq!(trials.count(), 1, "the first was larger than those before");
    }

    #[test]
    fn takes_ns_is_bounded_by_the_window() {
        // 64 KiB take 0.1 ms and 1 MiB 1.6 ms: pieces of up to 3 MiB fit and are
        // available.
        let mut pace = having_seen(0.1e6);
        (0..40).for_each(|_| {
            [(65_536.0, 0.1e6), (1_048_576.0, 1.6e6)]
                .into_iter()
                .for_each(|(bytes, nanos)| pace.commands.add(bytes, nanos))
        });
        let takes = |len| pace.takes_ns(&settings(), Bytes(len), true);
        assert!(pace.piece(&settings()).0 > 2 * MIB);
        assert!(
            (takes(MIB / 2) - 0.8e6).abs() < 0.01e6 && (takes(MIB) - 1.6e6).abs() < 0.01e6,
            "{} {}",
            takes(MIB / 2),
            takes(MIB)
        );
    }

    #[test]
    fn search_ends_when_cost_is_known() {
        // A full trial is repeated once, as it may have been delayed. The search ends
        // when the second one does not enlarge the piece.
        let mut pace = having_seen(1e6);
        assert_eq!(
            pace.search.map(|search| (search.tried, search.vain, search.own)),
            Some((0, 0, None))
        );
        pace.search_on(true, false, false);
        assert_eq!(pace.search.map(|search| (search.tried, search.vain)), Some((1, 0)));
        pace.commands.add(65_536.0, 1e6);
        pace.search_on(true, true, false);
        assert_eq!(pace.search.map(|search| search.tried), Some(2), "pieces grow");
        pace.search_on(false, false, false);
        assert_eq!(
            pace.search.map(|search| (search.tried, search.vain)),
            Some((3, 1)),
            "nothing was free there"
        );
        pace.search_on(true, true, false);
        assert_eq!(pace.search.map(|search| search.vain), Some(0), "in a row");
        pace.search_on(true, false, false);
        assert!(pace.search.is_none());
        let mut pace = having_seen(1e6);
        pace.search_on(false, true, true);
        assert!(pace.search.is_none(), "no larger piece");
        // After 32 vain trials only the window's tail is tried, twice if it is measured.
        let mut pace = having_seen(1e6);
        (0..TRIALS_VAIN).for_each(|_| pace.search_on(false, false, false));
        pace.sent(TrimWindow { start: 7, len: 1 }, Some(3));
        assert_eq!(pace.search.map(|search| (search.vain, search.own)), Some((32, Some(3))));
        pace.search_on(true, true, false);
        assert_eq!(pace.search.map(|search| (search.vain, search.own)), Some((32, None)));
    }
}
