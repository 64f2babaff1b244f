//! `idle`: trims small pieces in idle time, so small that no foreground request waits
//! longer than a budget. The cost of a trim is learned from the pieces themselves.

mod cost;
mod gain;
mod gaps;
mod moments;
mod pace;
mod quiet;

use super::adaptive::Trigger;
use super::pass::{Pass, PassStep};
use super::{Action, ExtentSizeClasses, Observation, Policy, PolicyState, TrimRequest};
use crate::target::TrimWindow;
use alloc::format;
use alloc::string::String;
pub use cost::TrimCost;
use gain::{PassBalance, SkippedExtents};
use gaps::Gaps;
use pace::{Pace, TRIALS_VAIN, trial_of};
use quiet::QuietTracker;
use trimtab_drive::units::{Bytes, Nanos};

/// Minimum extents of each round but the last. Most space is in large extents.
const ROUNDS: [Bytes; 4] = [Bytes(16 << 20), Bytes(2 << 20), Bytes(256 << 10), Bytes(32 << 10)];

/// Validity of an observation of foreground I/O while windows without work are skipped.
const GOES_ON: Nanos = Nanos::from_millis(10);
/// Default permille of foreground requests that may meet a command.
const MET_PER_MILLE: u32 = 5;
/// Upper limit on the first extent tried.
const FIRST_TRIAL: u64 = 256 << 10;

/// Settings of [`IdlePolicy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleSettings {
    /// Longest wait of a foreground request because of a trim. Default 5 ms.
    pub budget: Nanos,
    /// Bytes written since the last pass began, in percent of the free space, that
    /// trigger a pass. Default 10: idle trimming is cheap, so it may run early.
    pub share_percent: u32,
    /// Maximum time between the starts of two passes. Default 1 day.
    pub at_least_every: Nanos,
    /// Longest wait of a piece for idle time; it is then sent anyway, within the budget,
    /// so that a busy device gets trimmed too. Default 1 min.
    pub patience: Nanos,
    /// Interval between checks for a due pass. Default 10 s.
    pub poll: Nanos,
    /// Finish a pass within this time even if foreground I/O slows down. Default 0: no
    /// limit.
    pub finish_within: Nanos,
    /// Trim everything, even if the foreground waits longer than the drive gains. Default
    /// no.
    pub complete: bool,
    /// Trim on battery too. Default no.
    pub on_battery: bool,
    // No user settings.
    /// Skip smaller free extents. Default 0.
    pub min_extent: Bytes,
    /// Largest piece. Default 1 GiB.
    pub piece_max: Bytes,
    /// Permille of foreground requests that may meet a command, where requests are
    /// counted; also enables selection of extents by size. Default 5, half of what is
    /// noticeable, since a short pass may exceed it by chance. 0 disables both: idle time
    /// alone decides.
    pub met_per_mille: u32,
    /// Idle periods are this many times shorter than on the drive that this one
    /// represents ([`Small`](trimtab_study::study::small::Small)), so they end that many
    /// times more often per command, and a request that ends one counts for less by this
    /// factor. Default 1.
    pub rests_shorter: u32,
}

impl Default for IdleSettings {
    fn default() -> Self {
        Self {
            budget: Nanos::from_millis(5),
            share_percent: 10,
            at_least_every: Nanos::from_secs(86_400),
            patience: Nanos::from_secs(60),
            poll: Nanos::from_secs(10),
            finish_within: Nanos::ZERO,
            complete: false,
            on_battery: false,
            min_extent: Bytes::ZERO,
            piece_max: Bytes(1 << 30),
            met_per_mille: MET_PER_MILLE,
            rests_shorter: 1,
        }
    }
}

/// Trims in pieces within idle time.
///
/// With [`IdleSettings::met_per_mille`] at most that share of foreground requests meets a
/// command (`gaps`). Commands go into gaps between requests. Without gaps, commands take
/// less than a hundredth of the time. While foreground I/O is active, one command is sent
/// at a time. A free extent that is indivisible and longer than a command takes several.
///
/// Where extents can be selected by size, the largest come first: few commands cover most
/// of the space. The rest is skipped if its foreground wait exceeds the gain for the
/// drive (`gain`); [`Policy::remark`] reports this.
///
/// Commands that take a small part of the budget are cheap. They wait for a gap for at
/// most the budget, because a request waits for at most one command. To keep the share of
/// requests that meet one, the commands of this pass and the previous one take at most
/// that share of the time since the previous pass began. The first pass has no such
/// bound.
///
/// A command has a fixed cost and a cost per byte, both fitted to measured times
/// ([`Policy::learned`] returns them with their error). A piece is as large as the budget
/// allows, with two standard errors to spare. If even the smallest piece exceeds the
/// budget, shrinking gains nothing: pieces are then the largest that cost at most twice
/// the smallest, with pauses between them, and [`Policy::remark`] says so.
///
/// The piece limits the range of one request if windows are divisible, and the largest
/// discard command otherwise. A request that arrives during a trim waits for one command
/// if the device serves it between commands. If not, few large commands are better than
/// many small ones; the policy learns this from foreground waits. Indivisible windows can
/// still be tried at their tails ([`Observation::tail`]), so the command size is known
/// before a whole window is sent.
#[derive(Clone, Debug)]
pub struct IdlePolicy {
    settings: IdleSettings,
    trigger: Trigger,
    pass: Pass,
    pace: Pace,
    quiet: QuietTracker,
    gaps: Gaps,
    gain: PassBalance,
    /// Time at which the pass began, or resumed after a restart.
    began: Option<Nanos>,
    /// Expected duration of the next request, computed on demand.
    next_takes_ns: Option<f64>,
    /// Until then a request may follow one that had nothing to send.
    goes_on_until: Option<Nanos>,
    /// The deadline of the pass has expired, in this round. The next one is the last.
    overdue: Option<u32>,
    /// Start of the previous pass; `None` before the first.
    pass_before: Option<Nanos>,
    /// Time spent in commands by the previous pass and by this one.
    spent: [Nanos; 2],
    /// Commands are cheap and wait only briefly for gaps.
    cheap: bool,
}

impl IdlePolicy {
    /// Creates the policy with the given state.
    #[must_use]
    pub fn new(settings: IdleSettings, state: &PolicyState) -> Self {
        Self {
            settings,
            trigger: Trigger::restore(state),
            pass: Pass::restore(state),
            pace: Pace::restore(state),
            quiet: QuietTracker::new(),
            gaps: Gaps::new(),
            gain: PassBalance::restore(state),
            began: None,
            next_takes_ns: None,
            goes_on_until: None,
            overdue: None,
            pass_before: None,
            spent: [Nanos::ZERO; 2],
            cheap: false,
        }
    }

    /// Current piece size: the largest expected to fit the budget, or to stay cheap.
    #[must_use]
    pub fn piece(&self) -> Bytes {
        self.pace.piece(&self.settings)
    }

    /// True if cheap commands may wait only briefly: this pass and the previous one spent
    /// at most their share of the time since the previous began. Not while requests are in
    /// flight: on a device that always has some, the next command may be an expensive one.
    fn may_count_as_cheap(&self, observation: &Observation<'_>) -> bool {
        let share = f64::from(self.settings.met_per_mille) / 1000.0;
        let spent: f64 = self.spent.iter().map(|spent| spent.as_f64()).sum();
        let since = self.pass_before.map(|began| observation.now.saturating_sub(began).as_f64());
        observation.by_size
            && observation.in_flight == 0
            && observation.requests.is_some()
            && since.is_none_or(|since| spent <= share * since)
    }

    /// Minimum extent of each round of a pass.
    fn rounds(&self, by_size: bool) -> impl Iterator<Item = Bytes> {
        let least = self.settings.min_extent;
        let until_overdue = self.overdue.map_or(usize::MAX, |round| round as usize + 1);
        let rounds = ROUNDS.into_iter().filter(move |round| by_size && *round > least);
        rounds.take(until_overdue).chain([least])
    }

    /// Starts a pass, or restarts it with a new deadline.
    fn begin(&mut self, now: Nanos) {
        let written = self.trigger.written_since_a_pass();
        (self.pass_before, self.spent) = (self.trigger.last_pass(), [self.spent[1], Nanos::ZERO]);
        self.trigger.fired(now);
        self.gain.begin(written);
        self.began = Some(now);
        // After its first round, an overdue pass continues to its end.
        self.overdue = self.overdue.filter(|_| self.pass.round() > 0);
    }

    /// Processes the result of the last request and the observed foreground I/O.
    fn learn(&mut self, observation: &Observation<'_>) {
        if observation.put_off {
            // Without foreground I/O no moment is better; urgent requests cannot wait.
            let at_once =
                !self.gaps.foreground_active(observation.now) || self.gaps.sent_urgently();
            self.goes_on_until = at_once.then(|| observation.now.saturating_add(GOES_ON));
        }
        let sent = self.pace.learn(&self.settings, observation);
        let met = self.gaps.observe(&self.settings, observation, sent.map(|sent| sent.took));
        if let Some(sent) = sent {
            self.goes_on_until =
                self.goes_on_until.filter(|_| sent.commands == 0 && observation.by_size);
            self.next_takes_ns = None;
            self.spent[1] = self.spent[1].saturating_add(sent.took);
            if observation.requests.is_none()
                && sent.took.as_f64() > sent.commands as f64 * self.settings.budget.as_f64()
            {
                self.quiet.rest(&self.settings, observation.now, sent.took);
            }
            // A higher permitted share lowers the weight. Cheap commands delay none for
            // long.
            let met = if self.cheap {
                0.0
            } else {
                met * f64::from(MET_PER_MILLE) / f64::from(self.settings.met_per_mille.max(1))
            };
            // Trials are small and say nothing about the wait per gigabyte.
            if !sent.trial {
                self.gain.add(
                    sent.commands,
                    sent.bytes,
                    met,
                    sent.took.as_f64() / (sent.commands as f64).max(1.0),
                );
            }
        }
    }

    /// Trims the next piece if the device is idle, or returns the time of the next check.
    fn next_piece(&mut self, observation: &Observation<'_>) -> Option<Action> {
        // Checking for work is cheaper than computing the piece size.
        let round = self.pass.round();
        self.pass.set_rounds(self.rounds(observation.by_size).count() as u32);
        let step = self.pass.step(observation, Bytes::MAX);
        if self.pass.round() != round {
            self.gain.next_round();
        }
        if self.pass.round() < round {
            // Another pass follows.
            self.overdue = None;
        }
        match step {
            PassStep::Done => {
                self.quiet.forget();
                self.gaps.rest();
                (self.began, self.overdue) = (None, None);
                None
            }
            PassStep::Later(instant) => Some(Action::WaitUntil(instant)),
            PassStep::Window(_) if self.not_worth_while(observation) => {
                self.pass.end_here();
                self.next_piece(observation)
            }
            PassStep::Window(window) if self.overdue.is_some() => {
                self.pace.sent(window, None);
                let (min_extent, sizes) = self.selection(observation.by_size);
                Some(
                    self.pass.send(TrimRequest { sizes, ..TrimRequest::whole(window, min_extent) }),
                )
            }
            // Checking for work needs no waiting.
            PassStep::Window(_)
                if (self.cheap && !self.gaps.foreground_active(observation.now))
                    || self.goes_on_until.is_some_and(|until| observation.now <= until) =>
            {
                Some(self.send_piece(observation))
            }
            PassStep::Window(window) => Some(match self.must_wait(observation, window) {
                Some(until) => Action::WaitUntil(until),
                None => {
                    self.goes_on_until = Some(observation.now.saturating_add(GOES_ON));
                    self.send_piece(observation)
                }
            }),
        }
    }

    /// True if the rest of the pass should be skipped.
    fn not_worth_while(&mut self, observation: &Observation<'_>) -> bool {
        let IdleSettings { share_percent, complete, finish_within, .. } = self.settings;
        if complete || finish_within > Nanos::ZERO {
            return false;
        }
        let (_, below) = self.sizes(observation.by_size);
        self.gain.should_stop(observation, share_percent, below)
    }

    /// After the deadline, sends the rest at once, without a limit on commands. In rounds
    /// by size, this round continues and one more sends everything smaller.
    fn look_whether_overdue(&mut self, observation: &Observation<'_>) {
        let within = self.settings.finish_within;
        let elapsed = self.began.map_or(Nanos::ZERO, |began| observation.now.saturating_sub(began));
        if within > Nanos::ZERO && self.pass.running() && elapsed >= within {
            self.overdue = self.overdue.or(Some(self.pass.round()));
        }
    }

    /// Time until which a piece of `window` must wait, if at all.
    fn must_wait(&mut self, observation: &Observation<'_>, window: TrimWindow) -> Option<Nanos> {
        let began = *self.began.get_or_insert(observation.now);
        let late = self.is_late(observation, observation.now.saturating_sub(began));
        let takes_ns = match self.next_takes_ns {
            Some(takes_ns) => takes_ns,
            None => {
                let divides = whole_units(self.piece(), observation.granule)
                    .map(|piece| piece.min(Bytes(window.len)));
                let longest =
                    divides.unwrap_or(self.sizes(observation.by_size).1.min(Bytes(window.len)));
                *self.next_takes_ns.insert(self.pace.takes_ns(
                    &self.settings,
                    longest,
                    self.gaps.foreground_active(observation.now),
                ))
            }
        };
        let met = self
            .gaps
            .must_wait(&self.settings, observation, takes_ns, self.cheap)
            .filter(|_| !late);
        let quiet = self.quiet.must_wait(&self.settings, observation);
        // Known gap lengths replace the required quiet.
        let quiet =
            quiet.filter(|_| if late { observation.in_flight > 0 } else { !self.gaps.know() });
        met.max(quiet)
    }

    /// True if the pass is behind schedule for its deadline. All rounds count equally.
    fn is_late(&self, observation: &Observation<'_>, elapsed: Nanos) -> bool {
        let within = self.settings.finish_within;
        if within == Nanos::ZERO {
            return false;
        }
        let (size, before) =
            observation.windows.iter().fold((0.0, 0.0), |(size, before), window| {
                let len = window.len as f64;
                (size + len, before + (self.pass.at().saturating_sub(window.start) as f64).min(len))
            });
        let rounds = self.rounds(observation.by_size).count() as f64;
        let done = (f64::from(self.pass.round()) + before / f64::max(size, 1.0)) / rounds;
        // A margin for the last piece.
        elapsed.as_f64() > 0.9 * within.as_f64() * done
    }

    /// Extent sizes of this round: the minimum, inclusive, and the limit, exclusive.
    fn sizes(&self, by_size: bool) -> (Bytes, Bytes) {
        let round = self.pass.round() as usize;
        let least = self.rounds(by_size).nth(round).unwrap_or(self.settings.min_extent);
        let below = round
            .checked_sub(1)
            .and_then(|before| self.rounds(by_size).nth(before))
            .unwrap_or(Bytes::MAX);
        (least, below)
    }

    /// Minimum extent and size class of this round.
    fn selection(&self, by_size: bool) -> (Bytes, Option<ExtentSizeClasses>) {
        let (min_extent, below) = self.sizes(by_size);
        let (round, rounds) = (self.pass.round(), self.rounds(by_size).count() as u32);
        (min_extent, by_size.then_some(ExtentSizeClasses { below, round, rounds }))
    }

    /// Sends the next piece; the caller has checked that one exists.
    fn send_piece(&mut self, observation: &Observation<'_>) -> Action {
        let by_size = observation.by_size;
        let piece = whole_units(self.piece(), observation.granule);
        // With selection by size, the number of commands bounds the load on the device.
        let part = piece.filter(|_| !by_size).unwrap_or(Bytes::MAX);
        let PassStep::Window(window) = self.pass.step(observation, part) else {
            return Action::Nothing;
        };
        let trial = self.trial(observation, window);
        let foreground = self.gaps.foreground_active(observation.now);
        self.pace.sent(trial.map_or(window, |trial| trial.window), trial.map(|_| window.start));
        self.quiet.sent(observation.now);
        self.gaps.sent(&self.settings, observation.now, self.cheap);
        // One command before the cost is known, and during foreground I/O.
        let known = self.pace.commands_max(&self.settings);
        let commands_max = if foreground || (known == 0 && by_size) { 1 } else { known };
        if let Some(trial) = trial {
            return Action::Trim(TrimRequest { commands_max: commands_max.max(1), ..trial });
        }
        let (min_extent, sizes) = self.selection(by_size);
        let below = sizes.map_or(Bytes::MAX, |sizes| sizes.below);
        let command_max = match piece {
            Some(piece) if by_size => piece,
            _ => self.pace.command_max(&self.settings, window, below),
        };
        self.pass.send(TrimRequest {
            command_max,
            commands_max,
            sizes,
            ..TrimRequest::whole(window, min_extent)
        })
    }

    /// Trial before an indivisible `window` of unknown cost: a free extent of about the
    /// piece size in a later window if selectable by size, otherwise the tail of one.
    /// Each trial uses another window if possible, so that the drive does not know its
    /// free space yet. After too many trials without free space only the window's own
    /// tail is tried, once.
    fn trial(&self, observation: &Observation<'_>, window: TrimWindow) -> Option<TrimRequest> {
        let search = self.pace.search?;
        let piece = trial_of(self.piece(), observation);
        if whole_units(piece, observation.granule).is_some()
            || (observation.by_size && self.pace.tried_most())
        {
            return None;
        }
        // Alternates: extents of that size are cheapest, but only tails work if all are
        // larger.
        if observation.by_size && search.tried.is_multiple_of(2) {
            let chosen = self
                .pass
                .scattered(observation, search.tried, Bytes::ZERO)
                .filter(|_| search.vain < TRIALS_VAIN)?;
            // The first trial has no estimate, and a small extent tells most.
            let below =
                Bytes(if self.pace.is_new() { FIRST_TRIAL } else { piece.0 }.saturating_add(1));
            let least = self.settings.min_extent.max(Bytes(piece.0 / 2));
            let sizes = Some(ExtentSizeClasses { below, round: 0, rounds: u32::MAX });
            return (least < below).then_some(TrimRequest {
                sizes,
                trial: true,
                ..TrimRequest::whole(chosen, least)
            });
        }
        let len = whole_units(piece.max(observation.tail), observation.tail)
            .filter(|len| len.0 < window.len)?;
        if search.own == Some(window.start) {
            return None;
        }
        let chosen = if search.vain < TRIALS_VAIN {
            self.pass.scattered(observation, search.tried, len)?
        } else {
            window
        };
        let tail =
            TrimWindow { start: chosen.start.saturating_add(chosen.len - len.0), len: len.0 };
        Some(TrimRequest { trial: true, ..TrimRequest::whole(tail, self.settings.min_extent) })
    }
}

/// The largest multiple of `unit` up to `size`; `None` if that is 0.
fn whole_units(size: Bytes, unit: Bytes) -> Option<Bytes> {
    let unit = unit.0.max(1);
    (unit <= size.0).then(|| Bytes(size.0 / unit * unit))
}

impl Policy for IdlePolicy {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn decide(&mut self, observation: &Observation<'_>) -> Action {
        let counts = self.settings.met_per_mille > 0;
        let requests = observation.requests.filter(|_| counts);
        let observation = &Observation {
            by_size: observation.by_size && counts,
            requests,
            ..observation.clone()
        };
        self.learn(observation);
        self.cheap = self.pace.decide_cheap(self.may_count_as_cheap(observation));
        self.pass.settle(observation);
        self.look_whether_overdue(observation);
        self.trigger.observe(observation);
        if observation.forced {
            self.begin(observation.now);
        }
        self.pass.request(observation.forced);
        if observation.on_battery && !self.settings.on_battery && !self.pass.forced() {
            // A pass in progress resumes later.
            return Action::Nothing;
        }
        if !self.pass.running()
            && self.trigger.due(
                observation,
                self.settings.share_percent,
                Nanos::ZERO,
                self.settings.at_least_every,
            )
        {
            self.begin(observation.now);
            self.pass.start();
        }
        self.next_piece(observation)
            .unwrap_or(Action::WaitUntil(observation.now.saturating_add(self.settings.poll)))
    }

    fn pass(&self) -> &Pass {
        &self.pass
    }

    fn state(&self) -> PolicyState {
        let mut state = PolicyState::default();
        self.pass.save(&mut state);
        self.trigger.save(&mut state);
        self.pace.save(&mut state);
        self.gain.save(&mut state);
        state
    }

    fn learned(&self) -> Option<TrimCost> {
        self.pace.learned()
    }

    fn remark(&self) -> Option<String> {
        let expensive = self.pace.smallest_over_budget(&self.settings).map(|smallest| {
            format!(
                "the smallest TRIM takes {smallest} here, above the budget of {}: a foreground \
                    request that arrives during one may wait for all of it",
                self.settings.budget
            )
        });
        let skipped = self.gain.skipped.map(SkippedExtents::remark);
        match (expensive, skipped) {
            (Some(expensive), Some(skipped)) => Some(format!("{expensive}; {skipped}")),
            (expensive, skipped) => expensive.or(skipped),
        }
    }
}
