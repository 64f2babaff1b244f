//! Repeats a run identically.

use super::{Postmark, PostmarkCounts};
use crate::workload::{FileStep, FileWorkload, WorkloadPlan};
use alloc::vec::Vec;
use trimtab_drive::units::Bytes;

/// A repeated run.
#[derive(Clone, Debug)]
pub struct RepeatedPostmark {
    fresh: Postmark,
    current: Postmark,
    tries: u32,
    finished: Vec<PostmarkCounts>,
}

impl RepeatedPostmark {
    /// Repeats `run`, which must not have started, `tries` times.
    #[must_use]
    pub fn new(run: Postmark, tries: u32) -> Self {
        Self { current: run.clone(), fresh: run, tries, finished: Vec::new() }
    }

    /// Counts of completed tries.
    #[must_use]
    pub fn finished(&self) -> &[PostmarkCounts] {
        &self.finished
    }

    /// The current try.
    #[must_use]
    pub const fn current(&self) -> &Postmark {
        &self.current
    }
}

impl FileWorkload for RepeatedPostmark {
    fn plan(&self) -> WorkloadPlan {
        let one = self.fresh.plan();
        let times = u64::from(self.tries);
        WorkloadPlan {
            written: Bytes(one.written.0.saturating_mul(times)),
            ops: one.ops.map(|ops| ops.saturating_mul(times)),
            ..one
        }
    }

    #[inline]
    fn next_step(&mut self) -> Option<FileStep<'_>> {
        while self.finished.len() < self.tries as usize {
            if self.current.advance() {
                return self.current.current();
            }
            self.finished.push(self.current.counts());
            if self.finished.len() < self.tries as usize {
                self.current = self.fresh.clone();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::PostmarkSettings;
    use super::*;

    #[test]
    fn postmark_tries_are_identical() {
        let run = Postmark::new(&PostmarkSettings {
            number: 20,
            transactions: 50,
            ..PostmarkSettings::default()
        })
        .unwrap();
        let mut tries = RepeatedPostmark::new(run.clone(), 3);
        let (one, all) = (run.plan(), tries.plan());
        assert_eq!(
            (all.written.0, all.space, all.ops),
            (3 * one.written.0, one.space, one.ops.map(|n| 3 * n))
        );
        let mut phases = 0;
        while let Some(step) = tries.next_step() {
            phases += usize::from(matches!(step, FileStep::Phase(_)));
        }
        assert_eq!(phases, 9);
        let [a, b, c] = tries.finished() else { panic!("three tries") };
        assert!(a == b && b == c && a.transactions == 50);
        assert!(tries.next_step().is_none());
    }
}
