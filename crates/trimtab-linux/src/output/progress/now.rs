//! The current activity: the phase, its time, and discards.

use crate::output::plain;
use std::time::{Duration, Instant};
use trimtab_drive::discards::Amount;
use trimtab_drive::units::grouped;

/// Shorter phases show no time.
const QUICK: Duration = Duration::from_secs(2);

/// A source of counts of the discards that reach the drives.
pub trait DiscardCounter: std::fmt::Debug + Send {
    /// Commands and bytes so far; `None` if the drives do not count.
    fn discards(&self) -> Option<Amount>;
}

/// The state of the current activity.
#[derive(Debug, Default)]
pub struct CurrentActivity {
    phase: String,
    began: Option<Instant>,
    /// Words from the working thread.
    pub words: Vec<String>,
    /// Source of the discard counts.
    pub counter: Option<Box<dyn DiscardCounter>>,
}

impl CurrentActivity {
    /// Starts a phase.
    pub fn begin(&mut self, phase: &str) {
        self.phase = plain(phase).into_owned();
        self.began = Some(Instant::now());
    }

    /// Starts `phase`, unless it is the current one.
    pub fn go_on(&mut self, phase: &str) {
        if phase != self.phase {
            self.begin(phase);
        }
    }

    /// The phase and its figures, the most important first. Reads the counters of the
    /// drives.
    pub fn in_words(&self) -> String {
        let mut words = self.words.clone();
        let lasts = self.began.map(|began| began.elapsed()).filter(|lasts| *lasts >= QUICK);
        words.extend(lasts.map(|lasts| super::whole_seconds(lasts.as_secs_f64())));
        let discards = self.counter.as_ref().and_then(|counter| counter.discards());
        words.extend(
            discards.map(|Amount { count, bytes }| format!("discards {}, {bytes}", grouped(count))),
        );
        let colon = if self.phase.is_empty() || words.is_empty() { "" } else { ": " };
        format!("{}{colon}{}", self.phase, words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phase_shows_its_time_after_two_seconds() {
        let mut now = CurrentActivity::default();
        now.go_on("delete");
        assert_eq!(now.in_words(), "delete");
        now.began = Instant::now().checked_sub(Duration::from_secs(30));
        now.go_on("delete");
        // Rounded up.
        assert!(["delete: 30 s", "delete: 31 s"].contains(&now.in_words().as_str()));
        now.go_on("sync");
        assert_eq!(now.in_words(), "sync");
    }
}
