//! `idle`: small pieces, one after another, only while nobody else uses the device, so small that nobody who comes along waits
//! longer than a budget. The cost of a trim is not known beforehand; it is learned from what the pieces took.

mod cost;
mod gain;
mod gaps;
mod moments;
mod pace;
mod quiet;

use super::adaptive::Trigger;
use super::pass::{Pass, Step};
use super::{Action, Observation, Policy, Sizes, State, TrimRequest};
use crate::target::TrimWindow;
use alloc::format;
use alloc::string::String;
pub use cost::TrimCost;
use gain::{Gain, Left};
use gaps::Gaps;
use pace::{Pace, TRIALS_VAIN, trial_of};
use quiet::Quiet;
use trimtab_drive::units::{Bytes, Nanos};

/// The least free extents of each round but the last, which takes all: most of the space is in the largest.
const ROUNDS: [Bytes; 4] = [Bytes(16 << 20), Bytes(2 << 20), Bytes(256 << 10), Bytes(32 << 10)];

/// What is known of others is good for so long: windows in which there is nothing to send are gone over meanwhile.
const GOES_ON: Nanos = Nanos::from_millis(10);
/// How many requests may meet a command, of a thousand, unless somebody says otherwise; their waiting counts for what it is then.
const MET_PER_MILLE: u32 = 5;
/// The first free extent that is tried is no longer than this.
const FIRST_TRIAL: u64 = 256 << 10;

/// Settings of [`Idle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleSettings {
    /// The longest that a request of others may wait because of a trim. Default 5 ms.
    pub budget: Nanos,
    /// Per cent of the free space that must have been written since the last pass began. Default 10: idle trimming costs little,
    /// so it may come early.
    pub share_percent: u32,
    /// A pass begins at the latest this long after the one before. Default 1 day.
    pub at_least_every: Nanos,
    /// The device must have been idle this long before a piece is sent, to begin with; shorter if it never is. Default 100 ms.
    pub quiet: Nanos,
    /// A piece is sent all the same when none could be for this long, so that a device that is never idle gets trimmed too.
    /// It still keeps to the budget. Default 1 min.
    pub patience: Nanos,
    /// The first, and smallest, piece. Default 64 KiB.
    pub piece_min: Bytes,
    /// The largest piece. Default 1 GiB.
    pub piece_max: Bytes,
    /// Whether a pass is due is looked at this often. Default 10 s.
    pub poll: Nanos,
    /// Leave smaller free extents alone. Default 0.
    pub min_extent: Bytes,
    /// So many of a thousand requests of others may meet a command, where they are counted; then free extents are also asked for by their size. Default 5, half as
    /// many as nobody notices, since in a short pass there may be more by chance. 0 for neither: what is quiet enough is told by quiet alone.
    pub met_per_mille: u32,
    /// A pass is to be over within this time, whatever others have of that; 0 if it may take as long as it takes. Default 0.
    pub finish_within: Nanos,
    /// All is to be trimmed, also where others would wait for it longer than the drive gains by it. Default no.
    pub complete: bool,
    /// Trim on battery too. Default no.
    pub on_battery: bool,
    /// Rests are so many times shorter than those of the drive for which this one stands ([`Small`](trimtab_study::study::small::Small)), and end as many times more often for each command: who ends one
    /// counts for as much less. Default 1; no setting of users.
    pub rests_shorter: u32,
}

impl Default for IdleSettings {
    fn default() -> Self {
        Self {
            budget: Nanos::from_millis(5),
            share_percent: 10,
            at_least_every: Nanos::from_secs(86_400),
            quiet: Nanos::from_millis(100),
            patience: Nanos::from_secs(60),
            piece_min: Bytes(64 << 10),
            piece_max: Bytes(1 << 30),
            poll: Nanos::from_secs(10),
            min_extent: Bytes::ZERO,
            met_per_mille: MET_PER_MILLE,
            finish_within: Nanos::ZERO,
            complete: false,
            on_battery: false,
            rests_shorter: 1,
        }
    }
}

/// Trims in pieces within idle time.
///
/// With [`IdleSettings::met_per_mille`] fewer than so many of others' requests may meet a command (`gaps`): gaps between them are used, and where there are none commands take less than a
/// hundredth of the time. While others are there one command is sent at a time, so that nobody waits for more than one at once; a free extent that is longer than a
/// command and cannot be divided takes several.
///
/// The largest free extents come first, where they can be asked for: most of the space is known to the drive after a small part of the commands. What is left
/// is left where others would wait longer for it than the drive gains by it (`gain`), and [`Policy::remark`] says so.
///
/// Commands that take a small part of the budget are cheap. As a request waits for no more than one of them, they follow each other without waiting for gaps. To
/// keep the share of requests that meet one, commands of both passes take no more than that share of the time since the pass before began; the first pass has no such bound.
///
/// A command costs something, and each of its bytes; both are fitted to what commands took ([`Policy::learned`] says what, and the error of that),
/// and a piece is as large as its cost lies within the budget with two standard errors to spare. Where even the smallest pieces cost more than the
/// budget, because every TRIM costs as much whatever its size, shrinking gains nothing: then the pieces are the largest that cost no more than twice
/// the smallest, there are pauses between them, and [`Policy::remark`] says so.
///
/// A piece bounds two things: the part of a window that is trimmed by one request, where windows can be divided, and the largest discard
/// command meanwhile, where they cannot. A request that arrives in the middle waits for one command at most if the device lets it pass
/// the others, and that is what is kept within the budget. Where it does not, many small commands are worse than few large ones; that is
/// learned from how long others waited. Windows that cannot be divided can still be tried at their tails (see
/// [`Observation::tail`]): so the size of the first commands is found before a whole window is sent in commands that may be far too small.
#[derive(Clone, Debug)]
pub struct Idle {
    settings: IdleSettings,
    trigger: Trigger,
    pass: Pass,
    pace: Pace,
    quiet: Quiet,
    gaps: Gaps,
    gain: Gain,
    /// When the pass began, or went on after a restart.
    began: Option<Nanos>,
    /// What the next request is expected to take; worked out when it is asked for.
    next_takes_ns: Option<f64>,
    /// Until then a request may follow one that had nothing to send.
    goes_on_until: Option<Nanos>,
    /// The time in which the pass was to be done is over.
    overdue: bool,
    /// When the pass before began; `None` before the first.
    pass_before: Option<Nanos>,
    /// Time in commands of the pass before, and of this one.
    spent: [Nanos; 2],
    /// Commands are cheap and need not wait for gaps.
    at_once: bool,
}

impl Idle {
    /// The policy, as it was when `state` was taken.
    #[must_use]
    pub fn new(settings: IdleSettings, state: &State) -> Self {
        Self {
            settings,
            trigger: Trigger::restore(state),
            pass: Pass::restore(state),
            pace: Pace::restore(state),
            quiet: Quiet::new(&settings),
            gaps: Gaps::new(),
            gain: Gain::restore(state),
            began: None,
            next_takes_ns: None,
            goes_on_until: None,
            overdue: false,
            pass_before: None,
            spent: [Nanos::ZERO; 2],
            at_once: false,
        }
    }

    /// The size of the pieces now: the largest that is expected to stay within the budget, or to be cheap where commands are.
    #[must_use]
    pub fn piece(&self) -> Bytes {
        self.pace.piece(&self.settings)
    }

    /// Whether commands, where they are cheap, may follow each other: those of this pass and the one before have taken no more than their share of the time since that began.
    fn may_go_at_once(&self, observation: &Observation<'_>) -> bool {
        let share = f64::from(self.settings.met_per_mille) / 1000.0;
        let spent: f64 = self.spent.iter().map(|spent| spent.as_f64()).sum();
        let since = self.pass_before.map(|began| observation.now.saturating_sub(began).as_f64());
        observation.by_size && observation.requests.is_some() && since.is_none_or(|since| spent <= share * since)
    }

    /// The least free extents of each round of a pass.
    fn rounds(&self, by_size: bool) -> impl Iterator<Item = Bytes> {
        let least = self.settings.min_extent;
        ROUNDS.into_iter().filter(move |round| by_size && *round > least).chain([least])
    }

    /// A pass begins, or is to begin once more: then it has its time from now on.
    fn begin(&mut self, now: Nanos) {
        let written = self.trigger.written_since_a_pass();
        (self.pass_before, self.spent) = (self.trigger.last_pass(), [self.spent[1], Nanos::ZERO]);
        self.trigger.fired(now);
        self.gain.begin(written);
        (self.began, self.overdue) = (Some(now), false);
    }

    /// Takes what came of the last request, and what others do.
    fn learn(&mut self, observation: &Observation<'_>) {
        if observation.put_off {
            // Another moment is better only beside others, and what can wait no longer cannot wait for it.
            let at_once = !self.gaps.others(observation.now) || self.gaps.sent_urgently();
            self.goes_on_until = at_once.then(|| observation.now.saturating_add(GOES_ON));
        }
        let sent = self.pace.learn(&self.settings, observation);
        let met = self.gaps.observe(&self.settings, observation, sent.map(|sent| sent.took));
        if let Some(sent) = sent {
            self.goes_on_until = self.goes_on_until.filter(|_| sent.commands == 0 && observation.by_size);
            self.next_takes_ns = None;
            self.spent[1] = self.spent[1].saturating_add(sent.took);
            if observation.requests.is_none() && sent.took.as_f64() > sent.commands as f64 * self.settings.budget.as_f64() {
                self.quiet.rest(&self.settings, observation.now, sent.took);
            }
            // Where the settings let more requests meet a command, each counts for less. A cheap command delays none for long.
            let met = if self.at_once { 0.0 } else { met * f64::from(MET_PER_MILLE) / f64::from(self.settings.met_per_mille.max(1)) };
            // Trials are small, and say nothing of what others wait for a gigabyte.
            if !sent.trial {
                self.gain.add(sent.commands, sent.bytes, met, sent.took.as_f64() / (sent.commands as f64).max(1.0));
            }
        }
    }

    /// Trims the next piece if the device is idle, or says when to look again.
    fn next_piece(&mut self, observation: &Observation<'_>) -> Option<Action> {
        // How large the piece is takes longer to say than whether there is one, and is asked for rarely: a busy device is looked at often.
        let round = self.pass.round();
        self.pass.set_rounds(self.rounds(observation.by_size).count() as u32);
        let step = self.pass.step(observation, Bytes::MAX);
        if self.pass.round() != round {
            self.gain.next_round();
        }
        match step {
            Step::Done => {
                self.quiet.forget(&self.settings);
                self.gaps.rest();
                (self.began, self.overdue) = (None, false);
                None
            }
            Step::Later(instant) => Some(Action::WaitUntil(instant)),
            Step::Window(_) if self.not_worth_while(observation) => {
                self.pass.end_here();
                self.next_piece(observation)
            }
            Step::Window(window) if self.overdue => {
                self.pace.sent(window, None);
                Some(self.pass.send(TrimRequest::whole(window, self.settings.min_extent)))
            }
            // To look whether there is something to send nobody has to be waited for.
            Step::Window(_) if self.at_once || self.goes_on_until.is_some_and(|until| observation.now <= until) => {
                Some(self.send_piece(observation))
            }
            Step::Window(window) => Some(match self.must_wait(observation, window) {
                Some(until) => Action::WaitUntil(until),
                None => {
                    self.goes_on_until = Some(observation.now.saturating_add(GOES_ON));
                    self.send_piece(observation)
                }
            }),
        }
    }

    /// Whether what is left of the pass is to be left.
    fn not_worth_while(&mut self, observation: &Observation<'_>) -> bool {
        let IdleSettings { share_percent, complete, finish_within, .. } = self.settings;
        if complete || finish_within > Nanos::ZERO {
            return false;
        }
        let (_, below) = self.sizes(observation.by_size);
        self.gain.should_stop(observation, share_percent, below)
    }

    /// Once the time that the pass has is over, all that is left is sent at once: whole windows in commands as long as the device takes them. Where it went by
    /// size, every window has something left; so all of them are gone over.
    fn look_whether_overdue(&mut self, observation: &Observation<'_>) {
        let within = self.settings.finish_within;
        let elapsed = self.began.map_or(Nanos::ZERO, |began| observation.now.saturating_sub(began));
        if within == Nanos::ZERO || self.overdue || !self.pass.running() || elapsed < within {
            return;
        }
        self.overdue = true;
        if observation.by_size {
            self.pass.go_over_again();
        }
    }

    /// Until when a piece of `window` has to wait, if it has to.
    fn must_wait(&mut self, observation: &Observation<'_>, window: TrimWindow) -> Option<Nanos> {
        let began = *self.began.get_or_insert(observation.now);
        let late = self.is_late(observation, observation.now.saturating_sub(began));
        let takes_ns = match self.next_takes_ns {
            Some(takes_ns) => takes_ns,
            None => {
                let divides = whole_units(self.piece(), observation.granule).map(|piece| piece.min(Bytes(window.len)));
                let longest = divides.unwrap_or(self.sizes(observation.by_size).1.min(Bytes(window.len)));
                *self.next_takes_ns.insert(self.pace.takes_ns(&self.settings, longest, self.gaps.others(observation.now)))
            }
        };
        let met = self.gaps.must_wait(&self.settings, observation, takes_ns).filter(|_| !late);
        let quiet = self.quiet.must_wait(&self.settings, observation);
        // Who knows how long gaps are need not ask for quiet as well.
        let quiet = quiet.filter(|_| if late { observation.in_flight > 0 } else { !self.gaps.know() });
        met.max(quiet)
    }

    /// Whether the pass is behind what would have it done in the time that it has. Each round counts for as much as any other.
    fn is_late(&self, observation: &Observation<'_>, elapsed: Nanos) -> bool {
        let within = self.settings.finish_within;
        if within == Nanos::ZERO {
            return false;
        }
        let (size, before) = observation.windows.iter().fold((0.0, 0.0), |(size, before), window| {
            let len = window.len as f64;
            (size + len, before + (self.pass.at().saturating_sub(window.start) as f64).min(len))
        });
        let rounds = self.rounds(observation.by_size).count() as f64;
        let done = (f64::from(self.pass.round()) + before / f64::max(size, 1.0)) / rounds;
        // A little early: the last piece takes its time, too.
        elapsed.as_f64() > 0.9 * within.as_f64() * done
    }

    /// Which free extents this round is for: from so long on, and shorter than that.
    fn sizes(&self, by_size: bool) -> (Bytes, Bytes) {
        let round = self.pass.round() as usize;
        let least = self.rounds(by_size).nth(round).unwrap_or(self.settings.min_extent);
        let below = round.checked_sub(1).and_then(|before| self.rounds(by_size).nth(before)).unwrap_or(Bytes::MAX);
        (least, below)
    }

    /// Trims the next piece, of which there is one.
    fn send_piece(&mut self, observation: &Observation<'_>) -> Action {
        let by_size = observation.by_size;
        let piece = whole_units(self.piece(), observation.granule);
        // Where extents can be asked for by their size, the device's side of a window is bounded by commands.
        let part = piece.filter(|_| !by_size).unwrap_or(Bytes::MAX);
        let Step::Window(window) = self.pass.step(observation, part) else { return Action::Nothing };
        let trial = self.trial(observation, window);
        let others = self.gaps.others(observation.now);
        self.pace.sent(trial.map_or(window, |trial| trial.window), trial.map(|_| window.start));
        self.quiet.sent(observation.now);
        self.gaps.sent(&self.settings, observation.now, self.at_once);
        // Before anything is known one command tells enough, and while others are there nobody is to wait for two.
        let known = self.pace.commands_max(&self.settings);
        let commands_max = if others || (known == 0 && by_size) { 1 } else { known };
        if let Some(trial) = trial {
            return Action::Trim(TrimRequest { commands_max: commands_max.max(1), ..trial });
        }
        let (min_extent, below) = self.sizes(by_size);
        let command_max = match piece {
            Some(piece) if by_size => piece,
            _ => self.pace.command_max(&self.settings, window, below),
        };
        let (round, rounds) = (self.pass.round(), self.rounds(by_size).count() as u32);
        let sizes = by_size.then_some(Sizes { below, round, rounds });
        self.pass.send(TrimRequest { command_max, commands_max, sizes, ..TrimRequest::whole(window, min_extent) })
    }

    /// What is trimmed before `window` to learn what a piece costs, if that is not known and `window` cannot be divided: a free extent of about that size in some
    /// window to come, where they can be asked for by their size; else the tail of one. Another window each time, if there are several, so that it holds data that the drive
    /// has not been told of. Where nothing was free at so many of them, or ext4 takes them for trimmed, only the window's own tail is tried, once.
    fn trial(&self, observation: &Observation<'_>, window: TrimWindow) -> Option<TrimRequest> {
        let search = self.pace.search?;
        let piece = trial_of(self.piece(), observation);
        if whole_units(piece, observation.granule).is_some() || (observation.by_size && self.pace.tried_most()) {
            return None;
        }
        // In turns: an extent of that size costs nothing more than to be sent twice, and where all are larger only tails tell.
        if observation.by_size && search.tried.is_multiple_of(2) {
            let chosen = self.pass.scattered(observation, search.tried, Bytes::ZERO).filter(|_| search.vain < TRIALS_VAIN)?;
            // Of the first nothing is known, and it tells most if there is one.
            let below = Bytes(if self.pace.is_new() { FIRST_TRIAL } else { piece.0 }.saturating_add(1));
            let least = self.settings.min_extent.max(Bytes(piece.0 / 2));
            let sizes = Some(Sizes { below, round: 0, rounds: u32::MAX });
            return (least < below).then_some(TrimRequest { sizes, trial: true, ..TrimRequest::whole(chosen, least) });
        }
        let len = whole_units(piece.max(observation.tail), observation.tail).filter(|len| len.0 < window.len)?;
        if search.own == Some(window.start) {
            return None;
        }
        let chosen = if search.vain < TRIALS_VAIN { self.pass.scattered(observation, search.tried, len)? } else { window };
        let tail = TrimWindow { start: chosen.start.saturating_add(chosen.len - len.0), len: len.0 };
        Some(TrimRequest { trial: true, ..TrimRequest::whole(tail, self.settings.min_extent) })
    }
}

/// The largest multiple of `unit` up to `size`; `None` if that is 0.
fn whole_units(size: Bytes, unit: Bytes) -> Option<Bytes> {
    let unit = unit.0.max(1);
    (unit <= size.0).then(|| Bytes(size.0 / unit * unit))
}

impl Policy for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn decide(&mut self, observation: &Observation<'_>) -> Action {
        let counts = self.settings.met_per_mille > 0;
        let requests = observation.requests.filter(|_| counts);
        let observation = &Observation { by_size: observation.by_size && counts, requests, ..observation.clone() };
        self.learn(observation);
        self.at_once = self.pace.decide_at_once(&self.settings, self.may_go_at_once(observation));
        self.pass.settle(observation);
        self.look_whether_overdue(observation);
        let observation = &Observation { by_size: observation.by_size && !self.overdue, ..observation.clone() };
        self.trigger.observe(observation);
        if observation.forced {
            self.begin(observation.now);
        }
        self.pass.request(observation.forced);
        if observation.shutting_down || (observation.on_battery && !self.settings.on_battery && !self.pass.forced()) {
            // A pass that is under way goes on later.
            return Action::Nothing;
        }
        if !self.pass.running() && self.trigger.due(observation, self.settings.share_percent, Nanos::ZERO, self.settings.at_least_every) {
            self.begin(observation.now);
            self.pass.start();
        }
        self.next_piece(observation).unwrap_or(Action::WaitUntil(observation.now.saturating_add(self.settings.poll)))
    }

    fn pass(&self) -> &Pass {
        &self.pass
    }

    fn state(&self) -> State {
        let mut state = State::default();
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
        let dear = self.pace.dear(&self.settings).map(|smallest| {
            format!(
                "the smallest TRIM takes {smallest} here, above the budget of {}: a request that arrives during one waits at least that long, whatever its size",
                self.settings.budget
            )
        });
        let left = self.gain.left.map(Left::told);
        match (dear, left) {
            (Some(dear), Some(left)) => Some(format!("{dear}; {left}")),
            (dear, left) => dear.or(left),
        }
    }
}
