//! A study with what follows from it: found out once, and handed to whatever shows it.

use super::Study;
use super::verdict::{self, Recommendation};
use crate::document::Verdict;
use alloc::vec::Vec;
use core::ops::Deref;

/// A study and its verdict.
#[derive(Debug, Clone)]
pub struct Judged<'a> {
    study: &'a Study,
    /// What to do.
    pub recommendation: Recommendation,
    /// The same in full.
    pub verdict: Verdict,
}

impl<'a> Judged<'a> {
    /// Judges a study.
    pub fn of(study: &'a Study) -> Self {
        let recommendation = verdict::recommendation(study);
        Self { study, recommendation, verdict: verdict::of(study, recommendation) }
    }

    /// Judges each of several.
    pub fn all(studies: &'a [Study]) -> Vec<Self> {
        studies.iter().map(Self::of).collect()
    }

    /// The policy that the recommendation is about, as runs name it.
    pub const fn policy(&self) -> Option<&'static str> {
        self.recommendation.policy()
    }
}

impl Deref for Judged<'_> {
    type Target = Study;

    fn deref(&self) -> &Study {
        self.study
    }
}
