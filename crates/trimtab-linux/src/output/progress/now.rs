//! The current activity: the phase, rates, and discards.

use super::lock;
use crate::output::plain;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trimtab_drive::discards::Amount;
use trimtab_drive::units::{Bytes, grouped, three_digits};
use trimtab_sim::runner;

const WINDOW: Duration = Duration::from_secs(3);
/// After this time without an update, the last values are outdated.
const STALE_AFTER: Duration = Duration::from_secs(2);
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
    samples: VecDeque<ProgressSample>,
    /// Words from the working thread.
    pub words: Vec<String>,
    /// Source of the discard counts.
    pub counter: Option<Box<dyn DiscardCounter>>,
}

/// A sample of a run: time, operations and bytes.
#[derive(Debug)]
struct ProgressSample {
    at: Instant,
    ops: u64,
    moved: u64,
}

impl CurrentActivity {
    pub fn new(doing: TaskList) -> Self {
        Self { doing, ..Self::default() }
    }

    /// Starts a phase.
    pub fn begin(&mut self, phase: &str) {
        self.phase = plain(phase).into_owned();
        self.began = Some(Instant::now());
        self.samples.clear();
    }

    /// Adds a sample of a run.
    pub fn look(&mut self, at: Instant, run: &runner::RunProgress<'_>) {
        if run.phase != self.phase {
            self.begin(run.phase);
        }
        // Enough samples for a window, at negligible cost.
        if self
            .samples
            .back()
            .is_some_and(|last| at.saturating_duration_since(last.at) < WINDOW / 6)
        {
            return;
        }
        while self
            .samples
            .get(1)
            .is_some_and(|second| at.saturating_duration_since(second.at) >= WINDOW)
        {
            self.samples.pop_front();
        }
        self.samples.push_back(ProgressSample {
            at,
            ops: run.ops,
            moved: run.read.0 + run.written.0,
        });
    }

    /// The phase and its figures, the most important first. Reads the counters of the
    /// drives.
    pub fn in_words(&self, at: Instant) -> String {
        let mut words = self.words.clone();
        if let (Some(first), Some(last)) = (self.samples.front(), self.samples.back())
            && last.at > first.at
            && at.saturating_duration_since(last.at) < STALE_AFTER
        {
            let seconds = last.at.duration_since(first.at).as_secs_f64();
            words.push(format!(
                "{}/s",
                three_digits(last.ops.saturating_sub(first.ops) as f64 / seconds)
            ));
            let moved = last.moved.saturating_sub(first.moved);
            words.extend(
                (moved > 0).then(|| format!("{}/s", Bytes((moved as f64 / seconds) as u64))),
            );
        } else if let Some(began) =
            self.began.filter(|began| at.saturating_duration_since(*began) >= STALE_AFTER)
        {
            // One long call: a sync, a trim.
            words.push(super::whole_seconds(at.saturating_duration_since(began).as_secs_f64()));
        }
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
    fn now_shows_last_seconds_not_whole_phase() {
        let (mut now, mut ops, began) = (CurrentActivity::default(), 0, Instant::now());
        // Ten seconds of 100 operations a second, then five of 10.
        for tenth in 0_u64..150 {
            ops += if tenth >= 100 { 1 } else { 10 };
            let run =
                runner::RunProgress { phase: "delete", ops, ..runner::RunProgress::default() };
            now.look(began + Duration::from_millis(tenth * 100), &run);
        }
        let at = began + Duration::from_millis(14_900);
        assert_eq!(now.in_words(at), "delete: 10.0/s");
        // After 30 s without an update, the display shows the time since the last one.
        let silent = now.in_words(at + Duration::from_secs(30));
        assert!(
            silent.starts_with("delete: ") && silent.ends_with(" s") && !silent.contains(','),
            "{silent}"
        );
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
