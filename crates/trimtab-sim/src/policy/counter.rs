//! Bytes written, from a counter that may be coarse, missing or restart from 0.

use super::PolicyState;
use trimtab_drive::units::Bytes;

/// Sums the advances of a counter.
///
/// The sum is within one counter step of the true value, on either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WrittenBytes {
    /// Last counter value.
    last: Option<Bytes>,
    /// Advance since the start of the current interval.
    since: Bytes,
}

impl WrittenBytes {
    pub(super) fn restore(state: &PolicyState) -> Self {
        Self {
            last: state.bytes("written.last"),
            since: state.bytes("written.since").unwrap_or_default(),
        }
    }

    pub(super) fn save(self, state: &mut PolicyState) {
        state.set_some("written.last", self.last.map(|b| b.0));
        state.set("written.since", self.since.0);
    }

    /// Adds the advance to the current counter value.
    pub(super) fn observe(&mut self, counter: Option<Bytes>) {
        let Some(now) = counter else { return };
        let advanced = match self.last {
            Some(last) if now >= last => now - last,
            // The counter restarted from 0 (reboot, other drive).
            Some(_) => now,
            // First reading: earlier writes do not count.
            None => Bytes::ZERO,
        };
        self.since = self.since.saturating_add(advanced);
        self.last = Some(now);
    }

    /// Bytes since the last [`restart`](Self::restart); `None` before the first counter
    /// reading.
    pub(super) fn since(&self) -> Option<Bytes> {
        self.last.map(|_| self.since)
    }

    /// Starts a new interval.
    pub(super) fn restart(&mut self) {
        self.since = Bytes::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_sum_survives_counter_restart() {
        let mut written = WrittenBytes::default();
        assert_eq!(written.since(), None);
        for (counter, since) in [(100, 0), (150, 50), (20, 70), (20, 70), (30, 80)] {
            written.observe(Some(Bytes(counter)));
            assert_eq!(written.since(), Some(Bytes(since)));
        }
        let mut state = PolicyState::default();
        written.save(&mut state);
        assert_eq!(WrittenBytes::restore(&state), written);
        written.observe(None);
        assert_eq!(written.since(), Some(Bytes(80)));
    }
}
