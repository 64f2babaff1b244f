//! One resumable pass over all windows of a filesystem; failed windows are retried later.

use super::{Action, Observation, PolicyState, TrimRequest};
use crate::target::TrimWindow;
use trimtab_drive::units::{Bytes, Nanos};

/// First retry delay of a failed window; doubles with each failure.
const RETRY_FIRST: Nanos = Nanos::from_secs(60);
/// Longest retry delay.
const RETRY_LAST: Nanos = Nanos::from_secs(86_400);

/// A pass. Everything that starts below `next` is done.
///
/// Stores a position instead of a list, so it survives restarts and windows that appear
/// or disappear (btrfs chunks). Visits windows in address order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Current position; `None` without a pass.
    next: Option<u64>,
    /// Rounds over all windows completed in this pass.
    round: u32,
    /// Total rounds, minus one.
    rounds_more: u32,
    /// Request without a reply yet.
    sent: Option<TrimWindow>,
    /// Consecutive failures at this position.
    failures: u32,
    /// Earliest time of the next retry.
    retry_at: Nanos,
    /// The user requested this pass.
    forced: bool,
    /// The user requested another pass during this one, to cover space freed behind the
    /// position.
    again: bool,
}

/// Next step of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassStep {
    /// Trim this window, or the rest of it.
    Window(TrimWindow),
    /// The last request failed; retry no earlier than this.
    Later(Nanos),
    /// All windows are done.
    Done,
}

impl Pass {
    pub(super) fn restore(state: &PolicyState) -> Self {
        let flag = |name| state.get(name).is_some_and(|value| value != 0);
        let round =
            state.get("sweep.round").and_then(|round| u32::try_from(round).ok()).unwrap_or(0);
        Self {
            next: state.get("sweep.next"),
            round,
            forced: flag("sweep.forced"),
            again: flag("sweep.again"),
            ..Self::default()
        }
    }

    pub(super) fn save(&self, state: &mut PolicyState) {
        // A window without a reply counts as not done.
        state.set_some("sweep.next", self.next);
        if self.round > 0 {
            state.set("sweep.round", u64::from(self.round));
        }
        state.set("sweep.forced", u64::from(self.forced));
        state.set("sweep.again", u64::from(self.again));
    }

    /// True while a pass is in progress.
    #[must_use]
    pub const fn running(&self) -> bool {
        self.next.is_some()
    }

    /// True if another pass starts immediately after the current one.
    pub(super) const fn another_follows(&self) -> bool {
        self.again
    }

    /// Starts a pass at the first window.
    pub fn start(&mut self) {
        *self = Self { next: Some(0), rounds_more: self.rounds_more, ..Self::default() };
    }

    /// Sets the number of rounds over all windows.
    pub(super) const fn set_rounds(&mut self, rounds: u32) {
        self.rounds_more = rounds.saturating_sub(1);
    }

    /// Index of the current round.
    pub(super) const fn round(&self) -> u32 {
        self.round
    }

    /// Position within the current round.
    pub(super) fn at(&self) -> u64 {
        self.next.unwrap_or(0)
    }

    /// Skips the rest of this pass.
    pub(super) fn end_here(&mut self) {
        if self.running() {
            (self.next, self.round) = (Some(u64::MAX), self.rounds_more);
        }
    }

    /// If `asked`, starts a pass for the user or queues another after the current one.
    pub(super) fn request(&mut self, asked: bool) {
        if asked && self.running() {
            self.again = true;
            self.forced = true;
            // An explicit request overrides the retry delay.
            self.retry_at = Nanos::ZERO;
        } else if asked {
            self.start();
            self.forced = true;
        }
    }

    /// True during a pass requested by the user, which ignores battery and schedule.
    pub(super) const fn forced(&self) -> bool {
        self.forced
    }

    /// Processes the reply to the last request, if one was sent.
    pub fn settle(&mut self, observation: &Observation<'_>) {
        let Some(sent) = self.sent.take().filter(|_| !observation.put_off) else { return };
        if let Some(outcome) = observation.last_trim {
            // A command limit may end the request early.
            let done =
                if outcome.asked == Bytes::ZERO { sent.len } else { outcome.asked.0.min(sent.len) };
            self.next = Some(sent.start.saturating_add(done));
            self.failures = 0;
        } else {
            let wait = RETRY_FIRST.0.saturating_mul(1 << self.failures.min(20)).min(RETRY_LAST.0);
            self.failures = self.failures.saturating_add(1);
            self.retry_at = observation.now.saturating_add(Nanos(wait));
        }
    }

    /// Returns the next step, at most `piece` bytes of a window.
    pub fn step(&mut self, observation: &Observation<'_>, piece: Bytes) -> PassStep {
        let Some(next) = self.next else { return PassStep::Done };
        if self.failures > 0 && observation.now < self.retry_at {
            return PassStep::Later(self.retry_at);
        }
        let is_done = |w: &TrimWindow| w.len == 0 || w.start.saturating_add(w.len) <= next;
        let first = observation.windows.partition_point(|w| w.start.saturating_add(w.len) <= next);
        let Some(window) = observation.windows[first..].iter().find(|w| !is_done(w)) else {
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
            return PassStep::Done;
        };
        PassStep::Window(rest_of(*window, next, piece))
    }

    /// A remaining window longer than `len`, `n` golden sections further on among those,
    /// and therefore far from the result for any other `n`.
    pub(super) fn scattered(
        &self,
        observation: &Observation<'_>,
        n: u32,
        len: Bytes,
    ) -> Option<TrimWindow> {
        let next = self.next?;
        let to_come = || observation.windows.iter().filter(|w| w.len > len.0 && w.start >= next);
        let count = (to_come().count() as u64).max(1);
        // Coprime, or some windows would never be visited.
        let stride = (count * 618 / 1000..).find(|stride| gcd(*stride, count) == 1)?;
        let at = u64::from(n).saturating_mul(stride).checked_rem(count)?;
        to_come().nth(usize::try_from(at).ok()?).copied()
    }

    /// Records the request as sent and returns the action.
    pub const fn send(&mut self, request: TrimRequest) -> Action {
        self.sent = Some(request.window);
        Action::Trim(request)
    }

    /// Next action of a full pass without pauses, like `fstrim`. `None` when it is over.
    pub(super) fn drive(
        &mut self,
        observation: &Observation<'_>,
        min_extent: Bytes,
    ) -> Option<Action> {
        match self.step(observation, Bytes::MAX) {
            PassStep::Window(window) => Some(self.send(TrimRequest::whole(window, min_extent))),
            PassStep::Later(instant) => Some(Action::WaitUntil(instant)),
            PassStep::Done => None,
        }
    }
}

/// Greatest common divisor of `a`, at least 1, and `b`.
const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The part of `window` from `next`, at most `piece` bytes.
fn rest_of(window: TrimWindow, next: u64, piece: Bytes) -> TrimWindow {
    let start = window.start.max(next);
    let left = window.start.saturating_add(window.len) - start;
    // Starts inside the window only after a part of it.
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
    fn pass_visits_windows_in_order_and_skips_empty_ones() {
        let windows =
            [window(0, 100), window(100, 100), window(200, 0), window(300, 50), window(350, 0)];
        let mut pass = Pass::default();
        assert!(
            matches!(pass.step(&seen(&windows), Bytes::MAX), PassStep::Done),
            "no pass in progress"
        );
        pass.start();
        let mut came = Vec::new();
        while let PassStep::Window(next) = pass.step(&seen(&windows), Bytes(60)) {
            pass.send(TrimRequest::whole(next, Bytes::ZERO));
            let outcome =
                crate::target::TrimOutcome { asked: Bytes(next.len), ..Default::default() };
            pass.settle(&Observation { last_trim: Some(&outcome), ..seen(&windows) });
            came.push((next.start, next.len));
        }
        assert_eq!(came, [(0, 60), (60, 40), (100, 60), (160, 40), (300, 50)]);
        assert!(!pass.running());
    }

    #[test]
    fn scattered_visits_every_window_far_from_the_last() {
        for count in 1..60_u64 {
            let windows: Vec<TrimWindow> = (0..count).map(|n| window(n * 100, 100)).collect();
            let mut pass = Pass::default();
            assert_eq!(pass.scattered(&seen(&windows), 0, Bytes(10)), None, "no pass in progress");
            pass.start();
            let at = |n| pass.scattered(&seen(&windows), n, Bytes(99)).map(|w| w.start / 100);
            let places: Vec<u64> = (0..count as u32).filter_map(at).collect();
            let mut sorted = places.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..count), "each once: {places:?}");
            // Consecutive golden sections lie at least a fifth of the circle apart.
            for pair in places.windows(2).filter(|_| count >= 10) {
                let apart = pair[0].abs_diff(pair[1]);
                assert!(apart.min(count - apart) * 5 >= count, "{count}: {places:?}");
            }
            assert_eq!(pass.scattered(&seen(&windows), 0, Bytes(100)), None, "no window is longer");
        }
    }

    #[test]
    fn failed_window_retry_backs_off_up_to_a_day() {
        let windows = [window(0, 100)];
        let mut pass = Pass::default();
        pass.start();
        let (mut now, mut waits) = (Nanos::ZERO, Vec::new());
        for _ in 0..14 {
            let PassStep::Window(next) =
                pass.step(&Observation { now, ..seen(&windows) }, Bytes::MAX)
            else {
                panic!("due at {now}")
            };
            pass.send(TrimRequest::whole(next, Bytes::ZERO));
            pass.settle(&Observation { now, ..seen(&windows) });
            let PassStep::Later(until) =
                pass.step(&Observation { now, ..seen(&windows) }, Bytes::MAX)
            else {
                panic!("not at once")
            };
            let just_before = Observation { now: until.saturating_sub(Nanos(1)), ..seen(&windows) };
            assert!(matches!(pass.step(&just_before, Bytes::MAX), PassStep::Later(_)));
            waits.push((until - now).0 / 1_000_000_000);
            now = until;
        }
        assert_eq!(
            waits,
            [60, 120, 240, 480, 960, 1920, 3840, 7680, 15360, 30720, 61440, 86400, 86400, 86400]
        );
    }
}
