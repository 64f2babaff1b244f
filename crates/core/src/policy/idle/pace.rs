//! How large the pieces of idle trims may be: what commands cost, learned from those before. Whether the device is quiet is another question (`quiet`).

use super::{IdleSettings, whole_units};
use crate::policy::{Observation, State};
use crate::target::{TrimOutcome, TrimWindow};
use crate::units::{Bytes, Nanos};

/// Pieces that cost little grow after this many in a row: what one piece cost says little about the next, several say more.
const GROW_AFTER: u32 = 4;
/// Where others have waited for a queue of commands that each cost less than this part of the budget, fewer commands that are as
/// many times larger will do.
const QUEUE_FACTOR: u64 = 8;
/// So many smallest pieces in a row above the budget show that no size keeps it.
const FIXED_AFTER: u32 = 4;
/// Then a piece may cost this many times the smallest.
const FIXED_FACTOR: u64 = 2;
/// A free window is not sent in more commands than these then.
const FIXED_COMMANDS: u64 = 16;
/// And after each window or trial the device is left alone for this many times what it took.
const FIXED_PAUSE: u64 = 7;

/// A trial that kept within the budget is followed by one up to so many times its size.
const TRIAL_FACTOR: u64 = 8;
/// After so many trials in a row that taught nothing, because hardly anything was free there, windows are tried at their own tails only.
pub(super) const TRIALS_VAIN: u32 = 32;
/// So many trials of one size have to be too dear before it counts: one may have waited for others.
const TRIALS_DEAR: u32 = 3;

/// The search for the size of pieces by trials at the tails of windows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Search {
    /// Trials so far.
    pub(super) tried: u32,
    /// Trials in a row that taught nothing.
    pub(super) vain: u32,
    /// Trials of the present size that were too dear to go on.
    dear: u32,
    /// The window, by its start, before which its own tail was tried.
    pub(super) own: Option<u64>,
}

/// How large a piece may be.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    pub(super) piece: Bytes,
    /// Cheap pieces in a row.
    cheap: u32,
    /// Smallest pieces in a row that cost more than the budget.
    hopeless: u32,
    /// What the cheapest piece of the smallest size cost, in nanoseconds, if that is known to be more than the budget.
    pub(super) fixed: Option<u64>,
    /// What a command cost lately, in nanoseconds: falls slowly and rises at once.
    pub(super) mean: Option<u64>,
    /// The piece that was sent and has not been answered, and whether it is a trial.
    sent: Option<(TrimWindow, bool)>,
    /// Under way until the size is known.
    pub(super) search: Option<Search>,
}

impl Pace {
    pub(super) fn restore(settings: &IdleSettings, state: &State) -> Self {
        let (least, most) = (settings.piece_min, settings.piece_max.max(settings.piece_min));
        let searching = state.get("idle.piece").is_none() || state.get("idle.searching").is_some_and(|flag| flag != 0);
        Self {
            piece: state.bytes("idle.piece").unwrap_or(least).clamp(least, most),
            cheap: 0,
            hopeless: 0,
            fixed: state.get("idle.fixed").filter(|fixed| *fixed > budget_of(settings)),
            mean: state.get("idle.mean"),
            sent: None,
            search: searching.then(Search::default),
        }
    }

    /// Notes what is sent; if it is a trial, before which window.
    pub(super) fn sent(&mut self, window: TrimWindow, trial_before: Option<u64>) {
        self.sent = Some((window, trial_before.is_some()));
        if let Some(search) = self.search.as_mut().filter(|search| search.vain >= TRIALS_VAIN) {
            search.own = trial_before.or(search.own);
        }
    }

    /// Takes what the last piece cost, and whether somebody waited too long for it. Gives how long the device is to be left alone for that.
    pub(super) fn learn(&mut self, settings: &IdleSettings, observation: &Observation<'_>) -> Nanos {
        let Some((sent, trial)) = self.sent.take() else { return Nanos::ZERO };
        let Some(outcome) = observation.last_trim else {
            if trial {
                // Windows are tried again after a while, trials are not.
                self.search = None;
            }
            return Nanos::ZERO;
        };
        if trial {
            return self.learn_from_trial(settings, outcome, sent);
        }
        let (budget, least) = (budget_of(settings), settings.piece_min);
        let most = settings.piece_max.max(least);
        let divisible = whole_units(self.piece, observation.granule).is_some();
        let Some(cost) = Cost::of(outcome, sent, self.piece, divisible) else { return Nanos::ZERO };
        // What windows cost is better than what trials would say.
        self.search = None;
        self.note_mean(cost.mean_ns);
        if self.is_fixed(settings, cost.mean_ns) {
            self.fit_fixed(&cost, least, most);
            return pause_after(outcome);
        }
        let waited = observation.foreground_wait_max.map_or(0, |wait| wait.0);
        let queue = cost.worst_ns < waited / 2 && outcome.took.0 >= waited / 2 && cost.mean_ns <= budget / QUEUE_FACTOR;
        if waited > budget && queue {
            // No single command explains the wait, all of them together do: they were in the queue before whoever waited.
            self.piece = Bytes(self.piece.0.saturating_mul(QUEUE_FACTOR)).clamp(least, most);
            self.cheap = 0;
            return Nanos::ZERO;
        }
        // Others may wait for reasons of their own: their waiting counts only where a command of the trim can explain half of it.
        let explained = waited > budget && cost.worst_ns >= waited / 2;
        let worst = if explained { cost.worst_ns.max(waited) } else { cost.worst_ns };
        if worst > budget / 10 * 9 {
            let shrunk = u128::from(self.piece.0) * u128::from(budget) / 2 / u128::from(worst);
            self.piece = Bytes(shrunk.min(u128::from(self.piece.0 / 2)) as u64).clamp(least, most);
            self.cheap = 0;
        } else if worst < budget / 10 * 4 && cost.is_of(self.piece) {
            self.cheap += 1;
            if self.cheap >= GROW_AFTER {
                self.piece = Bytes(self.piece.0.saturating_mul(2)).clamp(least, most);
                self.cheap = 0;
            }
        } else if worst >= budget / 10 * 4 {
            self.cheap = 0;
        }
        Nanos::ZERO
    }

    /// How many commands may follow each other without a pause, so that all of them together stay within the budget: a device without
    /// a scheduler serves others after all of those, and one whose every TRIM is dear would never catch up between them.
    pub(super) const fn commands_max(&self, settings: &IdleSettings) -> u64 {
        match (self.fixed, self.mean) {
            (Some(_), _) => 1,
            (None, Some(mean)) => {
                let n = budget_of(settings) / 10 * 8 / if mean == 0 { 1 } else { mean };
                if n == 0 { 1 } else { n }
            }
            (None, None) => 0,
        }
    }

    /// The largest command for a window that is sent as a whole.
    pub(super) fn command_max(&self, settings: &IdleSettings, window: TrimWindow) -> Bytes {
        // Where each is dear, many are worse than any size.
        let least = if self.fixed.is_some() { (window.len / FIXED_COMMANDS).min(settings.piece_max.0) } else { 0 };
        let most = self.piece.0.max(least);
        if most < window.len { Bytes(most) } else { Bytes::MAX }
    }

    fn note_mean(&mut self, mean: u64) {
        self.mean = Some(self.mean.map_or(mean, |before| mean.max(before - before / 8)));
    }

    /// Takes what a trial cost. It is one command, or several one after another.
    fn learn_from_trial(&mut self, settings: &IdleSettings, outcome: &TrimOutcome, sent: TrimWindow) -> Nanos {
        let Some(mut search) = self.search.take() else { return Nanos::ZERO };
        search.tried = search.tried.saturating_add(1);
        let Some(cost) = Cost::of(outcome, sent, self.piece, false) else {
            search.vain = search.vain.saturating_add(1);
            self.search = Some(search);
            return Nanos::ZERO;
        };
        self.note_mean(cost.mean_ns);
        let (budget, before) = (budget_of(settings), self.piece);
        let (least, most) = (settings.piece_min, settings.piece_max.max(settings.piece_min));
        let fixed = self.is_fixed(settings, cost.mean_ns);
        let pause = if fixed || cost.worst_ns > budget / 10 * 9 { pause_after(outcome) } else { Nanos::ZERO };
        if !cost.is_of(self.piece) {
            search.vain = search.vain.saturating_add(1);
            self.search = Some(search);
            return pause;
        }
        if search.vain < TRIALS_VAIN {
            search.vain = 0;
        } else {
            // Elsewhere there was nothing to learn: once more here.
            search.own = None;
        }
        if fixed {
            let larger = if self.is_variable(cost.mean_ns) { before.0 } else { before.0.saturating_mul(TRIAL_FACTOR) };
            self.piece = Bytes(larger).clamp(least, most);
            self.search = (self.piece > before && self.piece < most).then_some(search);
            return pause;
        }
        // As if all of the cost grew with the size: it may be less, but not more.
        let factor = (budget / 10 * 8).checked_div(cost.worst_ns).unwrap_or(TRIAL_FACTOR).min(TRIAL_FACTOR);
        let larger = if factor < 2 { 0 } else { cost.bytes.saturating_mul(1 << factor.ilog2()) };
        if larger > before.0 {
            search.dear = 0;
            self.piece = Bytes(larger).clamp(least, most);
            self.search = (self.piece < most).then_some(search);
            return pause;
        }
        search.dear += 1;
        // Whether every size costs as much takes some more to know.
        let hopeless = before <= least && cost.mean_ns > budget;
        self.search = (hopeless || search.dear < TRIALS_DEAR).then_some(search);
        if self.search.is_none() && cost.worst_ns > budget / 10 * 9 {
            self.piece = Bytes(before.0 / 2).clamp(least, most);
        }
        pause
    }

    /// Whether shrinking gains nothing, with what a command of the last window cost on average.
    fn is_fixed(&mut self, settings: &IdleSettings, mean: u64) -> bool {
        let budget = budget_of(settings);
        if mean <= budget {
            // Smaller than was thought possible: the budget can be kept after all.
            (self.fixed, self.hopeless) = (None, 0);
        } else if self.piece <= settings.piece_min {
            self.hopeless = self.hopeless.saturating_add(1);
            if self.hopeless >= FIXED_AFTER || self.fixed.is_some() {
                self.fixed = Some(self.fixed.map_or(mean, |fixed| fixed.min(mean)));
            }
        }
        self.fixed.is_some()
    }

    /// The largest piece that costs no more than [`FIXED_FACTOR`] times the smallest.
    fn fit_fixed(&mut self, cost: &Cost, least: Bytes, most: Bytes) {
        let fixed = self.fixed.unwrap_or(cost.mean_ns).min(cost.mean_ns);
        self.fixed = Some(fixed);
        if cost.mean_ns > fixed.saturating_mul(FIXED_FACTOR) {
            self.piece = Bytes(self.piece.0 / 2).clamp(least, most);
        } else if !self.is_variable(cost.mean_ns) && cost.is_of(self.piece) {
            self.piece = Bytes(self.piece.0.saturating_mul(2)).clamp(least, most);
        }
    }

    /// Whether so much of a cost is not fixed that twice the piece might cost more than [`FIXED_FACTOR`] times the smallest.
    fn is_variable(&self, mean_ns: u64) -> bool {
        mean_ns > self.fixed.unwrap_or(mean_ns).saturating_mul(FIXED_FACTOR) / 10 * 6
    }
}

/// After a window or a trial that cost more than can be helped the device is left alone for a while.
fn pause_after(outcome: &TrimOutcome) -> Nanos {
    Nanos(outcome.took.0.saturating_mul(FIXED_PAUSE))
}

const fn budget_of(settings: &IdleSettings) -> u64 {
    if settings.budget.0 == 0 { 1 } else { settings.budget.0 }
}

/// What a request cost.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Of a command on average, in nanoseconds.
    mean_ns: u64,
    /// What the dearest is taken to have cost. Only the sum is known: twice the mean, or all of it.
    worst_ns: u64,
    /// Bytes of that on average.
    bytes: u64,
}

impl Cost {
    /// `None` if nothing was sent.
    ///
    /// Of a window that can be divided further it is that of all its commands together: others may wait for all of them.
    fn of(outcome: &TrimOutcome, window: TrimWindow, piece: Bytes, divisible: bool) -> Option<Self> {
        let took = outcome.took.0;
        let commands = match outcome.counted.map(|counted| counted.count) {
            Some(0) => return None,
            Some(n) => n,
            None if outcome.returned == Bytes::ZERO => return None,
            None => window.len.div_ceil(piece.0.max(1)).max(1),
        };
        if divisible {
            return Some(Self { mean_ns: took / commands, worst_ns: took, bytes: outcome.asked.0.min(window.len) });
        }
        let mean_ns = took / commands;
        let bytes = outcome.counted.map_or(outcome.returned, |counted| counted.bytes).0 / commands;
        Some(Self { mean_ns, worst_ns: mean_ns.saturating_mul(2).min(took), bytes })
    }

    /// Whether it says what a command of `piece` costs. Of much smaller ones, which fill holes, it does not.
    const fn is_of(&self, piece: Bytes) -> bool {
        self.bytes >= piece.0 / 2
    }
}
