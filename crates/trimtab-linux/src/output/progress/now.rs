//! The current activity: the phase, its time, and discards.

use super::lock;
use crate::output::plain;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trimtab_drive::discards::Amount;
use trimtab_drive::units::grouped;

/// Shorter phases show no time.
const QUICK: Duration = Duration::from_secs(2);
/// Above this number of names, only their number is shown.
const NAMES_MAX: usize = 4;

/// A source of counts of the discards that reach the drives.
pub trait DiscardCounter: std::fmt::Debug + Send {
    /// Commands and bytes so far; `None` if the drives do not count.
    fn discards(&self) -> Option<Amount>;
}

/// The state of the current activity.
#[derive(Debug, Default)]
pub struct CurrentActivity {
    doing: TaskList,
    phase: String,
    began: Option<Instant>,
    /// Words from the working thread.
    pub words: Vec<String>,
    /// Source of the discard counts.
    pub counter: Option<Box<dyn DiscardCounter>>,
}

impl CurrentActivity {
    pub fn new(doing: TaskList) -> Self {
        Self { doing, ..Self::default() }
    }

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
        words.extend(self.doing.in_words());
        let colon = if self.phase.is_empty() || words.is_empty() { "" } else { ": " };
        format!("{}{colon}{}", self.phase, words.join(", "))
    }
}

/// The tasks under way, shared between workers and the display. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct TaskList(Arc<Mutex<Vec<(u64, String)>>>);

/// A task that is under way until this value is dropped.
#[derive(Debug)]
pub struct TaskGuard {
    doing: TaskList,
    number: u64,
}

impl TaskList {
    /// Starts the task `what`.
    #[must_use]
    pub fn begin(&self, what: &str) -> TaskGuard {
        let mut all = lock(&self.0);
        let number = all.last().map_or(0, |(number, _)| number + 1);
        all.push((number, plain(what).into_owned()));
        TaskGuard { doing: self.clone(), number }
    }

    /// The names of the tasks, or their number.
    pub fn in_words(&self) -> Vec<String> {
        let all = lock(&self.0);
        if all.len() > NAMES_MAX {
            vec![format!("{} at once", all.len())]
        } else {
            all.iter().map(|(_, name)| name.clone()).collect()
        }
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        lock(&self.doing.0).retain(|(number, _)| *number != self.number);
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

    #[test]
    fn doing_lists_tasks_until_dropped() {
        let doing = TaskList::default();
        let first = doing.clone().begin("OCZ none, 60 % full");
        let second = doing.begin("SATA idle, 90 % full");
        assert_eq!(doing.in_words(), ["OCZ none, 60 % full", "SATA idle, 90 % full"]);
        drop(first);
        let more: Vec<TaskGuard> = (0..NAMES_MAX).map(|n| doing.begin(&n.to_string())).collect();
        assert_eq!(doing.in_words(), ["5 at once"]);
        drop((second, more));
        assert!(doing.in_words().is_empty());
    }
}
