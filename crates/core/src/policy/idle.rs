//! `idle`: small pieces, one after another, only while nobody else uses the device, so small that nobody who comes along waits
//! longer than a budget. The cost of a trim is not known beforehand; it is learned from what the pieces took.

mod cost;
mod pace;
mod quiet;

use super::adaptive::Trigger;
use super::pass::{Pass, Step};
use super::{Action, Observation, Policy, State, TrimRequest};
use crate::target::TrimWindow;
use crate::units::{Bytes, Nanos};
use alloc::format;
use alloc::string::String;
pub use cost::TrimCost;
use pace::{Pace, TRIALS_VAIN};
use quiet::Quiet;

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
    /// Trim on battery too. Default no.
    pub on_battery: bool,
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
            on_battery: false,
        }
    }
}

/// Trims in pieces within idle time.
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
        }
    }

    /// The size of the pieces now: the largest that is expected to stay within the budget.
    #[must_use]
    pub fn piece(&self) -> Bytes {
        self.pace.piece(&self.settings)
    }

    /// Trims the next piece if the device is idle, or says when to look again.
    fn next_piece(&mut self, observation: &Observation<'_>) -> Option<Action> {
        // How large the piece is takes longer to say than whether there is one, and is asked for rarely: a busy device is looked at often.
        match self.pass.step(observation, Bytes::MAX) {
            Step::Done => {
                self.quiet.forget(&self.settings);
                None
            }
            Step::Later(instant) => Some(Action::WaitUntil(instant)),
            Step::Window(_) => Some(match self.quiet.must_wait(&self.settings, observation) {
                Some(until) => Action::WaitUntil(until),
                None => self.send_piece(observation),
            }),
        }
    }

    /// Trims the next piece, of which there is one.
    fn send_piece(&mut self, observation: &Observation<'_>) -> Action {
        let part = whole_units(self.piece(), observation.granule).unwrap_or(Bytes::MAX);
        let Step::Window(window) = self.pass.step(observation, part) else { return Action::Nothing };
        let tail = self.trial(observation, window);
        self.pace.sent(tail.unwrap_or(window), tail.map(|_| window.start));
        self.quiet.sent(observation.now);
        let (min_extent, commands_max) = (self.settings.min_extent, self.pace.commands_max(&self.settings));
        match tail {
            // Before anything is known one command tells enough.
            Some(tail) => {
                Action::Trim(TrimRequest { commands_max: commands_max.max(1), trial: true, ..TrimRequest::whole(tail, min_extent) })
            }
            None => {
                let command_max = self.pace.command_max(&self.settings, window);
                self.pass.send(TrimRequest { command_max, commands_max, ..TrimRequest::whole(window, min_extent) })
            }
        }
    }

    /// What is trimmed before `window` to learn what a piece costs, if that is not known and `window` cannot be divided: the tail of some
    /// window to come. Another one each time, if there are several, so that it holds data that the drive has not been told of. Where
    /// nothing was free at so many of them, or ext4 takes them for trimmed, only the window's own tail is tried, once.
    fn trial(&self, observation: &Observation<'_>, window: TrimWindow) -> Option<TrimWindow> {
        let search = self.pace.search?;
        let piece = self.piece();
        let len = whole_units(piece.max(observation.tail), observation.tail).filter(|len| len.0 < window.len)?;
        if whole_units(piece, observation.granule).is_some() || search.own == Some(window.start) {
            return None;
        }
        let chosen = if search.vain < TRIALS_VAIN { self.pass.scattered(observation, search.tried, len)? } else { window };
        Some(TrimWindow { start: chosen.start.saturating_add(chosen.len - len.0), len: len.0 })
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
        if let Some(took) = self.pace.learn(&self.settings, observation) {
            self.quiet.rest(&self.settings, observation.now, took);
        }
        self.pass.settle(observation);
        self.trigger.observe(observation);
        if observation.forced {
            self.trigger.fired(observation.now);
        }
        self.pass.request(observation.forced);
        if observation.shutting_down || (observation.on_battery && !self.settings.on_battery && !self.pass.forced()) {
            // A pass that is under way goes on later.
            return Action::Nothing;
        }
        if !self.pass.running() && self.trigger.due(observation, self.settings.share_percent, Nanos::ZERO, self.settings.at_least_every) {
            self.trigger.fired(observation.now);
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
        state
    }

    fn learned(&self) -> Option<TrimCost> {
        self.pace.learned()
    }

    fn remark(&self) -> Option<String> {
        let smallest = self.pace.dear(&self.settings)?;
        Some(format!(
            "the smallest TRIM takes {smallest} here, above the budget of {}: a request that arrives during one waits at least that long, whatever its size",
            self.settings.budget
        ))
    }
}
