//! How large the pieces of idle trims may be: as large as what they cost (`cost`) and how long others waited allow. Whether the device is
//! quiet is another question (`quiet`).

use super::cost::{CostFit, GROSS, MEMORY, TrimCost};
use super::{IdleSettings, whole_units};
use crate::policy::{Observation, State};
use crate::target::{TrimOutcome, TrimWindow};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use trimtab_drive::units::{Bytes, Nanos};

/// A piece is at most so many times as large as the largest of which the cost was seen: the cost of a byte may not be the same for all sizes.
const GROWTH: f64 = 8.0;
/// Where extents can be asked for by their size no more than this is tried: a tail is sent once more with its window, and what a block group costs (128 MiB) follows.
const TRIAL_MAX: Bytes = Bytes(16 << 20);
/// How far commands of a free extent that is not divided are from the piece towards the whole extent, as exponents: with less of it there are more commands, with more
/// each takes longer. Half way, where every command is dear, what commands cost together is what the bytes of one cost. The first where others are seen to get in between, the last where they wait for all of it anyway;
/// one less where a piece is within the budget.
const TOWARDS: [f64; 3] = [0.0, 0.5, 0.75];
/// With so many commands it shows whether others get in between: those who wait for no more than this share of the time do, and from the other share on they do not.
const LONG_MIN: f64 = 4.0;
const PASSES: f64 = 0.25;
const WAITS_FOR_ALL: f64 = 0.5;
/// After so many trials in a row that taught nothing, because hardly anything was free there, windows are tried at their own tails only.
pub(super) const TRIALS_VAIN: u32 = MEMORY as u32;

/// Commands are cheap where a quick one takes less than the budget divided by this, and the median at most the budget.
/// Quick commands show the drive's own time: other processes only delay a command.
const CHEAP_PARTS: f64 = 5.0;
/// Largest share of that time for one command, where bytes count.
const CHEAP_FILL: f64 = 0.75;
/// Number of recent commands that count, and the fewest that tell anything.
const RECENT: usize = 7;
const RECENT_MIN: usize = 4;

/// The search for the size of pieces by trials at the tails of windows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Search {
    /// Trials so far.
    pub(super) tried: u32,
    /// Trials in a row that taught nothing.
    pub(super) vain: u32,
    /// The window, by its start, before which its own tail was tried.
    pub(super) own: Option<u64>,
}

/// How long others wait beside trims: how many times as long as a command takes, at the most lately.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Waits {
    times: f64,
}

impl Waits {
    /// Others waited for `waited` while commands took `command_ns` each. They may wait for reasons of their own: what a command does not
    /// explain within a factor of [`GROSS`] is not put down to it.
    fn observe(&mut self, waited_ns: f64, command_ns: f64, budget_ns: f64) {
        self.times -= (self.times - 1.0) / MEMORY;
        if waited_ns > budget_ns && waited_ns <= command_ns * GROSS {
            self.times = self.times.max(waited_ns / command_ns);
        }
    }
}

/// What the last commands took: bytes and nanoseconds, newest first.
#[derive(Clone, Debug, Default)]
struct Recent(VecDeque<(f64, f64)>);

impl Recent {
    fn add(&mut self, bytes: f64, nanos: f64) {
        self.0.truncate(RECENT - 1);
        self.0.push_front((bytes, nanos));
    }

    /// Nanoseconds of the second quickest, and of the one in the middle; `None` before there are enough.
    fn usual(&self) -> Option<(f64, f64)> {
        let mut sorted: Vec<f64> = self.0.iter().map(|(_, nanos)| *nanos).collect();
        sorted.sort_by(f64::total_cmp);
        let usual = sorted.get(1).copied().zip(sorted.get(sorted.len() / 2).copied());
        usual.filter(|_| sorted.len() >= RECENT_MIN)
    }

    /// The bytes of the largest, and nanoseconds of the quickest that is at least half as large, and of the quickest.
    fn quickest(&self) -> (f64, f64, f64) {
        let largest = self.0.iter().map(|(bytes, _)| *bytes).fold(0.0, f64::max);
        let quickest = |from: f64| self.0.iter().filter(|(bytes, _)| *bytes >= from).map(|(_, nanos)| *nanos).fold(f64::INFINITY, f64::min);
        (largest, quickest(largest / 2.0), quickest(0.0))
    }
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sent {
    pub(super) commands: u64,
    pub(super) bytes: f64,
    /// 0 if nothing was sent.
    pub(super) took: Nanos,
    /// Only to learn what it costs.
    pub(super) trial: bool,
}

/// How large a piece may be.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// What a command costs.
    commands: CostFit,
    recent: Recent,
    /// Cheap commands follow each other, of this size at most.
    at_once: Option<Bytes>,
    /// Where windows can be divided: what a part of one costs, all its commands together. Others may wait for all of them.
    parts: CostFit,
    waits: Waits,
    /// Which of [`TOWARDS`].
    towards: usize,
    /// The piece that was sent and has not been answered, and whether it is a trial.
    sent: Option<(TrimWindow, bool)>,
    /// Under way until the size is known.
    pub(super) search: Option<Search>,
}

impl Pace {
    pub(super) fn restore(state: &State) -> Self {
        let commands = CostFit::restore("commands", state);
        let searching = !commands.known() || state.get("idle.searching").is_some_and(|flag| flag != 0);
        Self {
            commands,
            recent: Recent::default(),
            at_once: None,
            parts: CostFit::restore("parts", state),
            waits: Waits { times: 1.0 },
            towards: state.get("idle.towards").map_or(1, |towards| (towards as usize).min(TOWARDS.len() - 1)),
            sent: None,
            search: searching.then(Search::default),
        }
    }

    pub(super) fn save(&self, state: &mut State) {
        self.commands.save("commands", state);
        self.parts.save("parts", state);
        state.set("idle.searching", u64::from(self.search.is_some()));
        state.set("idle.towards", self.towards as u64);
    }

    /// Notes what is sent; if it is a trial, before which window.
    pub(super) fn sent(&mut self, window: TrimWindow, trial_before: Option<u64>) {
        self.sent = Some((window, trial_before.is_some()));
        if let Some(search) = self.search.as_mut().filter(|search| search.vain >= TRIALS_VAIN) {
            search.own = trial_before.or(search.own);
        }
    }

    /// Takes what the last piece cost, and how long somebody waited meanwhile. Gives what came of it, if one was sent.
    pub(super) fn learn(&mut self, settings: &IdleSettings, observation: &Observation<'_>) -> Option<Sent> {
        let (sent, trial) = self.sent.take()?;
        let (piece, largest) = (self.piece(settings), self.commands.largest());
        if observation.put_off {
            return None;
        }
        let Some(outcome) = observation.last_trim else {
            // Windows are tried again after a while, trials are not.
            self.search = self.search.filter(|_| !trial);
            return Some(Sent { commands: 0, bytes: 0.0, took: Nanos::ZERO, trial });
        };
        let discarded = sent_by(outcome, sent, piece);
        if let Some((commands, bytes)) = discarded {
            let command_ns = outcome.took.as_f64() / commands;
            self.commands.add(bytes / commands, command_ns);
            self.recent.add(bytes / commands, command_ns);
            self.decide_at_once(settings, self.at_once.is_some());
            if whole_units(piece, observation.granule).is_some() && !observation.by_size {
                self.parts.add(Bytes(outcome.asked.0.min(sent.len)).as_f64(), outcome.took.as_f64());
            }
            let waited = observation.foreground_wait_max.map_or(0.0, Nanos::as_f64);
            self.waits.observe(waited, command_ns, settings.budget.as_f64());
            if !trial && commands >= LONG_MIN && whole_units(piece, observation.granule).is_none() {
                self.let_pass(waited / outcome.took.as_f64().max(1.0));
            }
        }
        if trial {
            // A part of one may be free.
            let filled = discarded.is_some_and(|(_, bytes)| bytes >= trial_of(piece, observation).as_f64() / 2.0);
            // The size of cheap commands goes up and down with the last ones; only a larger command teaches more.
            let larger = if self.at_once.is_some() { self.commands.largest() > largest } else { self.piece(settings) > piece };
            self.search_on(filled, larger, self.piece(settings) >= settings.piece_max);
        } else if discarded.is_some() {
            // What windows cost is better than what trials would say.
            self.search = None;
        }
        let (commands, bytes) = discarded.unwrap_or_default();
        Some(Sent { commands: commands as u64, bytes, took: if discarded.is_some() { outcome.took } else { Nanos::ZERO }, trial })
    }

    /// Whether as much has been sent at once as is tried by size at most.
    pub(super) fn tried_most(&self) -> bool {
        self.commands.largest() >= TRIAL_MAX.as_f64()
    }

    /// Whether nothing is known of costs.
    pub(super) fn is_new(&self) -> bool {
        !self.commands.known()
    }

    /// Has cheap commands follow each other, if the last ones were cheap and `allowed`.
    pub(super) fn decide_at_once(&mut self, settings: &IdleSettings, allowed: bool) -> bool {
        self.at_once = self.cheap_piece(settings).filter(|_| allowed);
        self.at_once.is_some()
    }

    /// How large a cheap command may be; `None` where commands are not cheap.
    fn cheap_piece(&self, settings: &IdleSettings) -> Option<Bytes> {
        let limit = settings.budget.as_f64() / CHEAP_PARTS;
        let (quick, median) = self.recent.usual()?;
        if quick >= limit || median > settings.budget.as_f64() {
            return None;
        }
        let (bytes, large, any) = self.recent.quickest();
        // Where bytes hardly count a larger one will not take the budget, though that is the most that it can.
        let most = if large < any * 2.0 { settings.budget.as_f64() } else { limit * CHEAP_FILL };
        let piece = (bytes * most / large.max(1.0)).min(self.commands.largest() * GROWTH);
        Some(Bytes((piece as u64).min(settings.piece_max.0).max(settings.piece_min.0)))
    }

    /// What the next request is expected to take, in nanoseconds: one command while `others` are there. `longest` is how long a free extent may be that is not divided.
    pub(super) fn takes_ns(&self, settings: &IdleSettings, longest: Bytes, others: bool) -> f64 {
        let piece = self.command_of(settings, longest.0).min(longest);
        let one = if self.commands.known() { self.commands.expected(piece.as_f64()) } else { settings.budget.as_f64() };
        if others { one } else { one * self.commands_max(settings).max(1) as f64 }
    }

    /// After a trial: whether it was as large as it was meant to be, and what came of it.
    fn search_on(&mut self, filled: bool, larger: bool, largest: bool) {
        let Some(mut search) = self.search.take() else { return };
        search.tried = search.tried.saturating_add(1);
        if !filled {
            search.vain = search.vain.saturating_add(1);
        } else if search.vain < TRIALS_VAIN {
            search.vain = 0;
        } else {
            // Elsewhere there was nothing to learn: once more here.
            search.own = None;
        }
        // One alone may have waited for others.
        let sure = filled && self.commands.count() > 1.0;
        self.search = (!largest && (larger || !sure)).then_some(search);
    }

    /// Whether every command exceeds the budget: then shrinking gains nothing. What the smallest is expected to cost.
    pub(super) fn dear(&self, settings: &IdleSettings) -> Option<Nanos> {
        let smallest = self.commands.expected(settings.piece_min.as_f64());
        (smallest > settings.budget.as_f64()).then(|| Nanos(libm::round(smallest) as u64))
    }

    /// The size of a piece: the largest whose cost stays within the budget, with the error of what is expected of it.
    ///
    /// Where not even the smallest is sure to, it is the largest of which that is expected; where every command is dear, the largest whose bytes cost
    /// no more than the command itself: nobody waits for more than two of what cannot be helped, and larger ones would save half of the time at most.
    pub(super) fn piece(&self, settings: &IdleSettings) -> Bytes {
        if let Some(piece) = self.at_once {
            return piece;
        }
        let (least, most) = (settings.piece_min.0, settings.piece_max.0.max(settings.piece_min.0));
        if !self.commands.known() {
            return Bytes(least);
        }
        let most = most.min(((self.commands.largest() * GROWTH) as u64).max(least));
        let limit = self.limit(settings);
        if self.dear(settings).is_some() {
            // The first says nothing of what bytes cost, and whether larger ones are dearer is worth one to know.
            let twice = 2.0 * self.commands.line().0;
            return Bytes(if self.commands.varied() { (self.commands.expected_within(twice) as u64).clamp(least, most) } else { most });
        }
        if self.commands.upper(least as f64) > limit {
            return Bytes((self.commands.expected_within(limit) as u64).clamp(least, most));
        }
        let within = self.commands.largest_within(limit, least, most);
        // Of all commands of a part together.
        Bytes(if self.parts.known() { within.min(self.parts.largest_within(limit, least, most)) } else { within })
    }

    /// What a command may take, in nanoseconds, so that nobody waits for longer than the budget.
    fn limit(&self, settings: &IdleSettings) -> f64 {
        settings.budget.as_f64() / self.waits.times
    }

    /// Others waited for this share of the time that several commands took one after another.
    fn let_pass(&mut self, share: f64) {
        if share >= WAITS_FOR_ALL {
            self.towards = (self.towards + 1).min(TOWARDS.len() - 1);
        } else if share > 0.0 && share <= PASSES {
            self.towards = 0;
        }
    }

    /// The largest command of a free extent that is not divided, and no longer than `longest`.
    pub(super) fn command_of(&self, settings: &IdleSettings, longest: u64) -> Bytes {
        let piece = self.piece(settings);
        if piece.0 >= longest {
            return piece;
        }
        let towards = TOWARDS[if self.dear(settings).is_some() { self.towards } else { self.towards.saturating_sub(1) }];
        Bytes((libm::pow(piece.as_f64(), 1.0 - towards) * libm::pow(longest as f64, towards)) as u64)
    }

    /// How many commands may follow each other without a pause, so that all of them together stay within the budget: a device without
    /// a scheduler serves others after all of those, and one whose every TRIM is dear would never catch up between them. One less than that, because
    /// the last free extent is sent to its end.
    pub(super) fn commands_max(&self, settings: &IdleSettings) -> u64 {
        if !self.commands.known() {
            return 0;
        }
        // Where every one is dear that is below 1.
        let within = self.limit(settings) / self.commands.upper(self.commands.typical());
        (within as u64).saturating_sub(1).max(1)
    }

    /// The largest command for a window that is sent as a whole, with free extents of up to `longest`.
    pub(super) fn command_max(&self, settings: &IdleSettings, window: TrimWindow, longest: Bytes) -> Bytes {
        let command = self.command_of(settings, longest.0.min(window.len));
        if command.0 < window.len { command } else { Bytes::MAX }
    }

    /// What was learned of costs.
    pub(super) fn learned(&self) -> Option<TrimCost> {
        self.commands.shown()
    }
}

/// How much is tried where a piece may be so large.
pub(super) fn trial_of(piece: Bytes, observation: &Observation<'_>) -> Bytes {
    if observation.by_size { piece.min(TRIAL_MAX) } else { piece }
}

/// Commands and bytes that a request sent; `None` if nothing. Where they are not counted, as many as it takes.
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
        Pace::restore(&State::default())
    }

    /// Has seen one command of 64 KiB that took `nanos`.
    fn having_seen(nanos: f64) -> Pace {
        let mut pace = fresh();
        pace.commands.add(65_536.0, nanos);
        pace
    }

    #[test]
    fn what_was_sent_is_counted_or_reckoned() {
        let window = TrimWindow { start: 0, len: 10 };
        let of =
            |counted, returned| sent_by(&TrimOutcome { counted, returned: Bytes(returned), ..TrimOutcome::default() }, window, Bytes(4));
        assert_eq!(of(Some(Amount::new(3, 300)), 7), Some((3.0, 300.0)));
        assert_eq!([of(Some(Amount::new(0, 0)), 7), of(None, 0)], [None, None]);
        // Ten bytes in commands of four are three.
        assert_eq!(of(None, 7), Some((3.0, 7.0)));
        assert_eq!(sent_by(&TrimOutcome { returned: Bytes(7), ..TrimOutcome::default() }, window, Bytes(64)), Some((1.0, 7.0)));
    }

    #[test]
    fn waits_count_where_a_command_explains_them_and_fade() {
        let after = |waited: f64| {
            let mut waits = Waits { times: 1.0 };
            waits.observe(waited, 4e6, 5e6);
            waits.times
        };
        // Within the budget; twice the command; and more than that, which has another cause.
        assert_eq!([after(5e6), after(6e6), after(8e6), after(8.001e6)], [1.0, 1.5, 2.0, 1.0]);
        let mut waits = Waits { times: 2.0 };
        waits.observe(0.0, 4e6, 5e6);
        assert_eq!(waits.times, 1.968_75, "a thirty-second of what is above 1");
        waits.observe(6e6, 4e6, 5e6);
        assert_eq!(waits.times, 1.968_75 - 0.968_75 / 32.0, "less than lately changes nothing");
    }

    #[test]
    fn so_many_commands_follow_as_fit_the_budget_less_one() {
        assert_eq!(fresh().commands_max(&settings()), 0, "nothing is known");
        // Of one observation the error is a tenth, on the root of two: 1 ms is at most 1.283 ms, of which 3.9 fit; 0.4 ms 0.513 ms, 9.7.
        assert_eq!([1e6, 0.4e6, 4e6, 40e6].map(|nanos| having_seen(nanos).commands_max(&settings())), [2, 8, 1, 1]);
        let mut pace = having_seen(0.4e6);
        pace.waits.times = 2.0;
        assert_eq!(pace.commands_max(&settings()), 3, "others wait twice as long: 4.9 fit");
    }

    #[test]
    fn dear_is_what_costs_more_than_the_budget_at_its_smallest() {
        assert_eq!([4e6, 5e6].map(|nanos| having_seen(nanos).dear(&settings())), [None, None]);
        assert_eq!(having_seen(5_000_001.0).dear(&settings()), Some(Nanos(5_000_001)));
    }

    #[test]
    fn piece_size_is_bounded_by_observed_sizes() {
        assert_eq!(fresh().piece(&settings()), Bytes(65_536));
        // One size tells what others cost at most: in proportion, 1.283 ms for 64 KiB; in 5 ms 3.898 times as much.
        let sure = 65_536.0 * 5.0 / (1.0 + 0.2 * core::f64::consts::SQRT_2);
        assert_eq!(having_seen(1e6).piece(&settings()), Bytes(sure as u64));
        // Cheap: eight times what was seen, no more.
        assert_eq!(having_seen(1e3).piece(&settings()), Bytes(8 * 65_536));
        // Dear, and nothing said of bytes: the same limit, and never more than may be.
        assert_eq!(having_seen(9e6).piece(&settings()), Bytes(8 * 65_536));
        assert_eq!(having_seen(9e6).piece(&IdleSettings { piece_max: Bytes(100_000), ..settings() }), Bytes(100_000));
        // Expected to fit, but not sure to: what is expected to, which is 5/4.5 of it.
        assert_eq!(having_seen(4.5e6).piece(&settings()), Bytes((65_536.0 * 5.0 / 4.5) as u64));
        // Where parts of windows cost 2 ms for each 64 KiB, all their commands together decide.
        let mut pace = having_seen(1e3);
        pace.parts.add(65_536.0, 2e6);
        assert_eq!(pace.piece(&settings()), Bytes((65_536.0 * 2.5 / (1.0 + 0.2 * core::f64::consts::SQRT_2)) as u64));
    }

    #[test]
    fn a_window_of_one_piece_is_sent_without_a_limit() {
        let (pace, max) = (fresh(), |len| fresh().command_max(&settings(), TrimWindow { start: 0, len }, Bytes::MAX));
        assert_eq!(max(65_537), pace.piece(&settings()));
        assert_eq!([65_536, 1].map(max), [Bytes::MAX; 2]);
    }

    /// What a drive takes that needs 4 ms for a command and 4 ms for each 64 KiB that it maps, of which nobody knows beforehand whether it does: at worst as long for the commands as for the bytes of one.
    #[test]
    fn undivided_extent_cost_counts_bytes_of_all_commands() {
        let mut pace = fresh();
        (0..40).for_each(|_| [1.0, 8.0].into_iter().for_each(|units| pace.commands.add(65_536.0 * units, 4e6 + 4e6 * units)));
        assert!(pace.dear(&settings()).is_some());
        let units = |pace: &Pace, longest| pace.command_of(&settings(), longest).as_f64() / 65_536.0;
        assert!((units(&pace, 65_536) - 1.0).abs() < 0.01, "{}", units(&pace, 65_536));
        let of_group = units(&pace, 128 * MIB);
        let (commands, bytes) = (4.0 * 2048.0 / of_group, 4.0 * of_group);
        assert!((commands / bytes - 1.0).abs() < 0.05 && commands < 185.0, "{commands} ms of commands, {bytes} ms of bytes");
        // Others wait for all of it: fewer. They pass: pieces.
        pace.let_pass(0.6);
        assert!((units(&pace, 128 * MIB) / libm::pow(2048.0, 0.75) - 1.0).abs() < 0.05);
        pace.let_pass(0.9);
        assert_eq!(pace.towards, 2);
        pace.let_pass(0.3);
        pace.let_pass(0.0);
        assert_eq!(pace.towards, 2, "which says nothing, or nobody waited");
        let mut state = State::default();
        pace.save(&mut state);
        assert_eq!(Pace::restore(&state).towards, 2);
        pace.let_pass(0.2);
        assert!((units(&pace, 128 * MIB) - 1.0).abs() < 0.01);
        // Cheap ones are as large as the budget allows, until others were seen to wait for all of them.
        let mut pace = having_seen(1e6);
        assert_eq!(pace.command_of(&settings(), 128 * MIB), pace.piece(&settings()));
        pace.let_pass(0.5);
        assert!((units(&pace, 128 * MIB) / libm::sqrt(2048.0 * pace.piece(&settings()).as_f64() / 65_536.0) - 1.0).abs() < 0.01);
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
        let outcome =
            |commands, took| TrimOutcome { counted: Some(Amount::new(commands, MIB)), took: Nanos(took), ..TrimOutcome::default() };
        let nothing = Sent { commands: 0, bytes: 0.0, trial: false, took: Nanos::ZERO };
        assert_eq!(came_of(Some(&outcome(2, 7)), true), Some(Sent { commands: 2, bytes: MIB as f64, trial: false, took: Nanos(7) }));
        assert_eq!([came_of(Some(&outcome(0, 7)), true), came_of(None, true)], [Some(nothing); 2]);
        assert_eq!(came_of(Some(&outcome(2, 7)), false), None);
    }

    #[test]
    fn while_others_are_there_one_command_is_expected_at_a_time() {
        assert_eq!([true, false].map(|others| fresh().takes_ns(&settings(), Bytes(MIB), others)), [5e6; 2], "nothing is known");
        // 0.4 ms at most 0.513 ms each, of which eight follow each other.
        assert_eq!([true, false].map(|others| having_seen(0.4e6).takes_ns(&settings(), Bytes(MIB), others)), [0.4e6, 3.2e6]);
    }

    /// The pace after `commands`: bytes and nanoseconds of each.
    fn after(commands: &[(f64, f64)]) -> Pace {
        let mut pace = fresh();
        commands.iter().for_each(|(bytes, nanos)| {
            pace.commands.add(*bytes, *nanos);
            pace.recent.add(*bytes, *nanos);
        });
        pace
    }

    #[test]
    fn commands_count_as_cheap_by_quick_ones_and_median() {
        let cheap = |nanos: &[f64]| after(&nanos.iter().map(|nanos| (65_536.0, *nanos)).collect::<Vec<_>>()).cheap_piece(&settings());
        assert_eq!(cheap(&[0.2e6; 3]), None, "too few");
        assert!(cheap(&[0.2e6; 4]).is_some());
        assert!(cheap(&[0.9e6, 0.9e6, 4e6, 4e6]).is_some(), "other processes delayed two");
        assert!(cheap(&[0.9e6, 1.1e6, 1.1e6, 1.1e6]).is_none(), "one alone is chance");
        assert!(cheap(&[0.2e6, 0.2e6, 5.1e6, 5.1e6]).is_none(), "most are above the budget");
        let mut pace = after(&[(65_536.0, 0.2e6); 4]);
        assert!(pace.decide_at_once(&settings(), true) && !pace.decide_at_once(&settings(), false));
        pace.recent = Recent(pace.recent.0.iter().map(|(bytes, _)| (*bytes, 9e6)).collect());
        assert!(!pace.decide_at_once(&settings(), true), "they are not any more");
    }

    #[test]
    fn cheap_commands_grow_as_far_as_their_bytes_cost_little() {
        let piece = |commands: &[(f64, f64)]| after(commands).cheap_piece(&settings()).map(|piece| piece.0);
        assert_eq!(piece(&[(65_536.0, 0.2e6); 4]), Some(8 * 65_536), "eight times what was tried");
        let fixed: Vec<(f64, f64)> = [(65_536.0, 0.2e6); 3].into_iter().chain([(16.0 * MIB as f64, 0.21e6)]).collect();
        assert_eq!(piece(&fixed), Some(128 * MIB));
        // 0.1 ms for 64 KiB: three quarters of the fifth of the budget are 480 KiB.
        let by_bytes: Vec<(f64, f64)> = [(65_536.0, 0.1e6); 3].into_iter().chain([(262_144.0, 0.4e6)]).collect();
        assert_eq!(piece(&by_bytes), Some(480 << 10));
    }

    /// A window with much free space, in small extents, is tried again and again.
    #[test]
    fn search_among_cheap_commands_ends_once_they_stop_growing() {
        let mut pace = after(&[(65_536.0, 0.2e6); 4]);
        pace.decide_at_once(&settings(), true);
        let outcome = TrimOutcome { counted: Some(Amount::new(32, 32 * MIB)), took: Nanos(32 * 300_000), ..TrimOutcome::default() };
        let trials = (0..100).take_while(|_| {
            pace.sent(TrimWindow { start: 0, len: 128 * MIB }, Some(0));
            pace.learn(&settings(), &Observation { last_trim: Some(&outcome), ..Observation::of(Nanos::ZERO, &[]) });
            pace.search.is_some()
        });
        assert_eq!(trials.count(), 1, "the first was larger than those before");
    }

    #[test]
    fn no_command_is_expected_to_take_longer_than_its_window_does() {
        // 64 KiB take 0.1 ms, and 1 MiB 1.6 ms: pieces of up to 3 MiB fit, and so much is there.
        let mut pace = having_seen(0.1e6);
        (0..40)
            .for_each(|_| [(65_536.0, 0.1e6), (1_048_576.0, 1.6e6)].into_iter().for_each(|(bytes, nanos)| pace.commands.add(bytes, nanos)));
        let takes = |len| pace.takes_ns(&settings(), Bytes(len), true);
        assert!(pace.piece(&settings()).0 > 2 * MIB);
        assert!((takes(MIB / 2) - 0.8e6).abs() < 0.01e6 && (takes(MIB) - 1.6e6).abs() < 0.01e6, "{} {}", takes(MIB / 2), takes(MIB));
    }

    #[test]
    fn a_search_ends_with_what_is_known_or_with_what_is_found() {
        // After one trial that was full: again, as one may have waited for others; after a second one that made no larger pieces, no more.
        let mut pace = having_seen(1e6);
        assert_eq!(pace.search.map(|search| (search.tried, search.vain, search.own)), Some((0, 0, None)));
        pace.search_on(true, false, false);
        assert_eq!(pace.search.map(|search| (search.tried, search.vain)), Some((1, 0)));
        pace.commands.add(65_536.0, 1e6);
        pace.search_on(true, true, false);
        assert_eq!(pace.search.map(|search| search.tried), Some(2), "pieces grow");
        pace.search_on(false, false, false);
        assert_eq!(pace.search.map(|search| (search.tried, search.vain)), Some((3, 1)), "nothing was free there");
        pace.search_on(true, true, false);
        assert_eq!(pace.search.map(|search| search.vain), Some(0), "in a row");
        pace.search_on(true, false, false);
        assert!(pace.search.is_none());
        let mut pace = having_seen(1e6);
        pace.search_on(false, true, true);
        assert!(pace.search.is_none(), "none is larger");
        // After thirty-two in vain only the window's own tail is tried, once, and once more where that taught something.
        let mut pace = having_seen(1e6);
        (0..TRIALS_VAIN).for_each(|_| pace.search_on(false, false, false));
        pace.sent(TrimWindow { start: 7, len: 1 }, Some(3));
        assert_eq!(pace.search.map(|search| (search.vain, search.own)), Some((32, Some(3))));
        pace.search_on(true, true, false);
        assert_eq!(pace.search.map(|search| (search.vain, search.own)), Some((32, None)));
    }
}
