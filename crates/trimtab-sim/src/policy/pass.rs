//! One pass over all windows of a filesystem, resumable, with windows that failed kept for later.

use super::{Action, Observation, State, TrimRequest};
use crate::target::TrimWindow;
use trimtab_drive::units::{Bytes, Nanos};

/// A window that fails is tried again after this long, then twice as long, and so on …
const RETRY_FIRST: Nanos = Nanos::from_secs(60);
/// … up to this long.
const RETRY_LAST: Nanos = Nanos::from_secs(86_400);

/// A pass: everything that starts below `next` is done.
///
/// Keeps a position, not a list, so that it survives restarts and windows that come and go meanwhile (btrfs chunks). Windows are visited
/// in order of their addresses, whatever order the observation gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Where it goes on; `None` when no pass is under way.
    next: Option<u64>,
    /// How often all windows have been gone over in this pass.
    round: u32,
    /// How often they will be, less one.
    rounds_more: u32,
    /// What was sent and has not been answered.
    sent: Option<TrimWindow>,
    /// Failures in a row at this position.
    failures: u32,
    /// Not before.
    retry_at: Nanos,
    /// The user asked for this pass.
    forced: bool,
    /// The user asked for one while this one was under way: space that was freed behind its back is still to be trimmed.
    again: bool,
}

/// The next step of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Trim this window, or the rest of it.
    Window(TrimWindow),
    /// The last one failed; nothing before this.
    Later(Nanos),
    /// All windows are done.
    Done,
}

impl Pass {
    pub(super) fn restore(state: &State) -> Self {
        let flag = |name| state.get(name).is_some_and(|value| value != 0);
        let round = state.get("sweep.round").and_then(|round| u32::try_from(round).ok()).unwrap_or(0);
        Self { next: state.get("sweep.next"), round, forced: flag("sweep.forced"), again: flag("sweep.again"), ..Self::default() }
    }

    pub(super) fn save(&self, state: &mut State) {
        // A window that was sent and not answered counts as not done.
        state.set_some("sweep.next", self.next);
        if self.round > 0 {
            state.set("sweep.round", u64::from(self.round));
        }
        state.set("sweep.forced", u64::from(self.forced));
        state.set("sweep.again", u64::from(self.again));
    }

    /// True while a pass is under way.
    #[must_use]
    pub const fn running(&self) -> bool {
        self.next.is_some()
    }

    /// True while a pass is under way that another one is to follow without a pause.
    pub(super) const fn another_follows(&self) -> bool {
        self.again
    }

    /// Begins a pass at the first window.
    pub fn start(&mut self) {
        *self = Self { next: Some(0), rounds_more: self.rounds_more, ..Self::default() };
    }

    /// All windows are to be gone over so many times.
    pub(super) const fn set_rounds(&mut self, rounds: u32) {
        self.rounds_more = rounds.saturating_sub(1);
    }

    /// How often all windows have been gone over.
    pub(super) const fn round(&self) -> u32 {
        self.round
    }

    /// Where in the present round it is.
    pub(super) fn at(&self) -> u64 {
        self.next.unwrap_or(0)
    }

    /// Leaves out what is left of this pass.
    pub(super) fn end_here(&mut self) {
        if self.running() {
            (self.next, self.round) = (Some(u64::MAX), self.rounds_more);
        }
    }

    /// All windows once more, and once only.
    pub(super) const fn go_over_again(&mut self) {
        (self.next, self.round, self.rounds_more) = (Some(0), 0, 0);
    }

    /// Begins a pass because the user asked for one, or makes another follow the one under way. Does nothing if `asked` is false.
    pub(super) fn request(&mut self, asked: bool) {
        if asked && self.running() {
            self.again = true;
            self.forced = true;
            // The user knows why the last try failed, and that it may do better now.
            self.retry_at = Nanos::ZERO;
        } else if asked {
            self.start();
            self.forced = true;
        }
    }

    /// True while a pass is under way that the user asked for: neither battery nor schedule hold it back.
    pub(super) const fn forced(&self) -> bool {
        self.forced
    }

    /// Takes the answer to the window that was sent, if one was.
    pub fn settle(&mut self, observation: &Observation<'_>) {
        let Some(sent) = self.sent.take().filter(|_| !observation.put_off) else { return };
        if let Some(outcome) = observation.last_trim {
            // Less than was asked for, if the number of commands was limited.
            let done = if outcome.asked == Bytes::ZERO { sent.len } else { outcome.asked.0.min(sent.len) };
            self.next = Some(sent.start.saturating_add(done));
            self.failures = 0;
        } else {
            let wait = RETRY_FIRST.0.saturating_mul(1 << self.failures.min(20)).min(RETRY_LAST.0);
            self.failures = self.failures.saturating_add(1);
            self.retry_at = observation.now.saturating_add(Nanos(wait));
        }
    }

    /// The next step. With a `piece` below a window's length the window comes in pieces of that many bytes.
    pub fn step(&mut self, observation: &Observation<'_>, piece: Bytes) -> Step {
        let Some(next) = self.next else { return Step::Done };
        if self.failures > 0 && observation.now < self.retry_at {
            return Step::Later(self.retry_at);
        }
        let ends_after = |w: &&TrimWindow| w.len > 0 && w.start.saturating_add(w.len) > next;
        let Some(window) = observation.windows.iter().filter(ends_after).min_by_key(|w| w.start) else {
            if self.round < self.rounds_more {
                (self.round, self.next) = (self.round + 1, Some(0));
                return self.step(observation, piece);
            }
            let again = self.again;
            *self = Self { rounds_more: self.rounds_more, ..Self::default() };
            if again {
                self.request(true);
                return self.step(observation, piece);
            }
            return Step::Done;
        };
        Step::Window(rest_of(*window, next, piece))
    }

    /// One of the windows to come that are longer than `len`, which is `n` golden sections of them further on: far from those of other `n`.
    pub(super) fn scattered(&self, observation: &Observation<'_>, n: u32, len: Bytes) -> Option<TrimWindow> {
        let next = self.next?;
        let to_come = || observation.windows.iter().filter(|w| w.len > len.0 && w.start >= next);
        let count = (to_come().count() as u64).max(1);
        // Coprime, or some windows would never come.
        let stride = (count * 618 / 1000..).find(|stride| gcd(*stride, count) == 1)?;
        let at = u64::from(n).saturating_mul(stride).checked_rem(count)?;
        to_come().nth(usize::try_from(at).ok()?).copied()
    }

    /// Remembers that this is being trimmed, and says so.
    pub const fn send(&mut self, request: TrimRequest) -> Action {
        self.sent = Some(request.window);
        Action::Trim(request)
    }

    /// A whole pass without pauses, window by window: what `fstrim` does. `None` when it is over.
    pub(super) fn drive(&mut self, observation: &Observation<'_>, min_extent: Bytes) -> Option<Action> {
        match self.step(observation, Bytes::MAX) {
            Step::Window(window) => Some(self.send(TrimRequest::whole(window, min_extent))),
            Step::Later(instant) => Some(Action::WaitUntil(instant)),
            Step::Done => None,
        }
    }
}

/// Of at least 1 and `b`.
const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The part of `window` from `next` on, at most `piece` long.
fn rest_of(window: TrimWindow, next: u64, piece: Bytes) -> TrimWindow {
    let start = window.start.max(next);
    let left = window.start.saturating_add(window.len) - start;
    // Inside a window only after a part of it.
    TrimWindow { start, len: left.min(piece.0.max(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn seen(windows: &[TrimWindow]) -> Observation<'_> {
        Observation { free: Bytes(1000), ..Observation::of(Nanos::ZERO, windows) }
    }

    fn window(start: u64, len: u64) -> TrimWindow {
        TrimWindow { start, len }
    }

    #[test]
    fn windows_are_ordered_by_address_and_empty_skipped() {
        let windows = [window(300, 50), window(0, 100), window(200, 0), window(100, 100)];
        let mut pass = Pass::default();
        assert!(matches!(pass.step(&seen(&windows), Bytes::MAX), Step::Done), "none is under way");
        pass.start();
        let mut came = Vec::new();
        while let Step::Window(next) = pass.step(&seen(&windows), Bytes(60)) {
            pass.send(TrimRequest::whole(next, Bytes::ZERO));
            let outcome = crate::target::TrimOutcome { asked: Bytes(next.len), ..Default::default() };
            pass.settle(&Observation { last_trim: Some(&outcome), ..seen(&windows) });
            came.push((next.start, next.len));
        }
        assert_eq!(came, [(0, 60), (60, 40), (100, 60), (160, 40), (300, 50)]);
        assert!(!pass.running());
    }

    #[test]
    fn scattered_windows_are_all_of_them_and_far_from_each_other() {
        for count in 1..60_u64 {
            let windows: Vec<TrimWindow> = (0..count).map(|n| window(n * 100, 100)).collect();
            let mut pass = Pass::default();
            assert_eq!(pass.scattered(&seen(&windows), 0, Bytes(10)), None, "none is under way");
            pass.start();
            let at = |n| pass.scattered(&seen(&windows), n, Bytes(99)).map(|w| w.start / 100);
            let places: Vec<u64> = (0..count as u32).filter_map(at).collect();
            let mut sorted = places.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..count), "each once: {places:?}");
            // The golden section of a circle leaves at least a fifth of it between neighbours, as long as there are several.
            for pair in places.windows(2).filter(|_| count >= 10) {
                let apart = pair[0].abs_diff(pair[1]);
                assert!(apart.min(count - apart) * 5 >= count, "{count}: {places:?}");
            }
            assert_eq!(pass.scattered(&seen(&windows), 0, Bytes(100)), None, "none is longer than that");
        }
    }

    #[test]
    fn failed_window_retry_backs_off_up_to_a_day() {
        let windows = [window(0, 100)];
        let mut pass = Pass::default();
        pass.start();
        let (mut now, mut waits) = (Nanos::ZERO, Vec::new());
        for _ in 0..14 {
            let Step::Window(next) = pass.step(&Observation { now, ..seen(&windows) }, Bytes::MAX) else { panic!("due at {now}") };
            pass.send(TrimRequest::whole(next, Bytes::ZERO));
            pass.settle(&Observation { now, ..seen(&windows) });
            let Step::Later(until) = pass.step(&Observation { now, ..seen(&windows) }, Bytes::MAX) else { panic!("not at once") };
            let just_before = Observation { now: until.saturating_sub(Nanos(1)), ..seen(&windows) };
            assert!(matches!(pass.step(&just_before, Bytes::MAX), Step::Later(_)));
            waits.push((until - now).0 / 1_000_000_000);
            now = until;
        }
        assert_eq!(waits, [60, 120, 240, 480, 960, 1920, 3840, 7680, 15360, 30720, 61440, 86400, 86400, 86400]);
    }
}
