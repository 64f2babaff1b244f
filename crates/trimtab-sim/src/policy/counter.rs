//! Bytes written since a point in time, from a counter that may be coarse, missing, or start again from 0.

use super::State;
use trimtab_drive::units::Bytes;

/// Adds up what a counter advances.
///
/// The sum is within one step of the truth, on either side: the counter stood anywhere within a step when the sum was set to 0, and
/// stands anywhere within one now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// What the counter said last.
    last: Option<Bytes>,
    /// Advanced since the start of the current interval.
    since: Bytes,
}

impl Written {
    pub(super) fn restore(state: &State) -> Self {
        Self { last: state.bytes("written.last"), since: state.bytes("written.since").unwrap_or_default() }
    }

    pub(super) fn save(self, state: &mut State) {
        state.set_some("written.last", self.last.map(|b| b.0));
        state.set("written.since", self.since.0);
    }

    /// Takes what the counter says now.
    pub(super) fn observe(&mut self, counter: Option<Bytes>) {
        let Some(now) = counter else { return };
        let advanced = match self.last {
            Some(last) if now >= last => now - last,
            // It started again from 0 (reboot, other drive): what it says now came after that.
            Some(_) => now,
            // Seen for the first time: what it counted before is not ours.
            None => Bytes::ZERO,
        };
        self.since = self.since.saturating_add(advanced);
        self.last = Some(now);
    }

    /// Bytes since the last [`restart`](Self::restart), or `None` while no counter has been seen.
    pub(super) fn since(&self) -> Option<Bytes> {
        self.last.map(|_| self.since)
    }

    /// Begins a new interval.
    pub(super) fn restart(&mut self) {
        self.since = Bytes::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_starts_again_loses_nothing_it_has_seen() {
        let mut written = Written::default();
        assert_eq!(written.since(), None);
        for (counter, since) in [(100, 0), (150, 50), (20, 70), (20, 70), (30, 80)] {
            written.observe(Some(Bytes(counter)));
            assert_eq!(written.since(), Some(Bytes(since)));
        }
        let mut state = State::default();
        written.save(&mut state);
        assert_eq!(Written::restore(&state), written);
        written.observe(None);
        assert_eq!(written.since(), Some(Bytes(80)));
    }
}
