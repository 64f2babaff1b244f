//! Findings of a study as figures. The renderer puts them into words.

use crate::study::comparison::PolicyLatency;
use crate::study::comparison::costs::{DeletingDoubt, OnlineCost, Stall};
use crate::study::comparison::gains::{Gain, OverduePolicy};
use crate::study::comparison::latency::{LatencyTest, TestResult};
use crate::study::metrics::{AppendLoad, DiscardCount};
use crate::study::untried::OmittedPart;
use alloc::vec::Vec;
use serde::Serialize;

/// A finding: part of the verdict, its evidence or its caveats.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum Finding<'a> {
    /// Gains of a policy over months, at each fill level where they count.
    Months {
        /// The policy.
        policy: &'a str,
        /// Days of use, if known.
        days: Option<f64>,
        /// Gains that count; empty if trimming makes no difference.
        gains: Vec<Gain<'a>>,
    },
    /// The stall that idle trimming avoids.
    Stall(Stall),
    /// The largest slowdown under online discard.
    OnlineCost(OnlineCost<'a>),
    /// A policy that could not be compared with the recommended one.
    NotCompared {
        /// The policy.
        policy: &'static str,
    },
    /// Duration of batched trims.
    TrimTime {
        /// Number of trims; 0 if unknown.
        trims: usize,
        /// The shortest, seconds.
        least_seconds: f64,
        /// The longest, seconds.
        most_seconds: f64,
        /// The longest append during trims and without, seconds, if measurably longer.
        append_seconds: Option<(f64, f64)>,
    },
    /// Too few repeats to tell a difference from noise.
    TooFewRepeats {
        /// Number of repeats.
        repeats: usize,
        /// Number needed.
        needed: usize,
        /// Apparent slowdown under online discard.
        seen: Option<OnlineCost<'a>>,
    },
    /// A policy that was run without a counted discard.
    Untested(UntestedPolicy),
    /// The filesystem was mounted with online discard, and there is no run without it.
    NoBaseline,
    /// Only one policy could be run.
    OnlyPolicy {
        /// The policy.
        policy: &'a str,
        /// The discard mount option of a filesystem studied as mounted.
        discard: Option<&'a str>,
    },
    /// The 95th percentile of one durable foreground append every 5 s under a policy.
    Latency(PolicyLatency<'a>),
    /// Measured foreground appends under a policy, compared with no trimming.
    LatencyTest {
        /// The policy.
        policy: &'static str,
        /// Result of the test.
        result: TestResult,
        /// Threshold of a long append, seconds.
        limit_seconds: f64,
        /// Long appends and all appends under the policy.
        with: (u64, u64),
        /// Long appends and all appends without trimming.
        without: (u64, u64),
        /// Probability of that many long appends by chance.
        chance: f64,
    },
    /// A policy that never finishes its trims.
    NeverDone(OverduePolicy<'a>),
    /// Batched trims suffice if this latency is acceptable occasionally.
    BatchedWouldDo {
        /// The latency, seconds.
        seconds: f64,
        /// The limit that led to idle trimming, seconds.
        limit_seconds: f64,
        /// True if batched trims gain as much over months.
        gains_as_much: bool,
    },
    /// The recommended policy gains nothing at that fill level.
    GainsNothing(Gain<'a>),
    /// A part that was not tested.
    Untried(OmittedPart),
    /// The study was interrupted.
    Interrupted,
    /// The filesystem queues its discards, so they are not in the figures.
    DiscardsQueued {
        /// The workload.
        job: &'a str,
    },
    /// The files were deleted before they were written back.
    NothingToDiscard {
        /// The workload.
        job: &'a str,
    },
    /// Difference between times of the same work.
    Noise {
        /// The workload.
        job: &'a str,
        /// Difference in per cent.
        percent: f64,
    },
    /// Figures are modelled.
    Modelled,
    /// Months of use were not run.
    NoMonths,
}

/// A policy that was run without a counted discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UntestedPolicy {
    /// The policy.
    pub policy: &'static str,
    /// State of the discard counters.
    pub discards: DiscardCount,
}

impl From<&LatencyTest> for Finding<'_> {
    fn from(test: &LatencyTest) -> Self {
        let (with, without) = test.long;
        Self::LatencyTest {
            policy: test.policy,
            result: test.result,
            limit_seconds: test.limit,
            with: (with.hits, with.of),
            without: (without.hits, without.of),
            chance: test.chance,
        }
    }
}

/// A reason for the recommendation when months of use were not run. There are at most
/// two.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum RecommendationReason<'a> {
    /// Files were deleted under this policy, and no discard was counted.
    Blocked {
        /// The policy.
        policy: &'a str,
    },
    /// Foreground latencies.
    Latency(LatencyReason<'a>),
    /// Time of deleting.
    Deleting(DeletingReason<'a>),
}

/// Foreground latencies of the recommended policy and of other policies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyReason<'a> {
    /// The load.
    pub load: AppendLoad,
    /// Under the recommended policy; `None` where none is recommended.
    pub chosen: Option<PolicyLatency<'a>>,
    /// With online discard, which affects every deletion. Set only if there is no other
    /// reason.
    pub online_seconds: Option<f64>,
    /// Under other policies.
    pub others: Vec<PolicyLatency<'a>>,
    /// Why their differences do not count.
    pub aside: Option<LatencyCaveat>,
}

/// Why differences between foreground latencies do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyCaveat {
    /// Modelled, and too small to count.
    TooLittle,
    /// Measured: long appends were no more frequent.
    LongNoMoreOften,
}

/// Time of deleting without discards and with online discard.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeletingReason<'a> {
    /// Number of files, from the settings.
    pub files: Option<&'a str>,
    /// The part of the work that shows the cost of online discard, if deleting as a whole
    /// does not.
    pub part: Option<OnlineCost<'a>>,
    /// Without discards, seconds.
    pub none_seconds: Option<f64>,
    /// With online discard, seconds.
    pub online_seconds: Option<f64>,
    /// True if both take equally long.
    pub alike: bool,
    /// Why the difference does not count.
    pub doubt: Option<DeletingDoubt>,
}

impl DeletingReason<'_> {
    /// Both times, if they differ.
    pub fn difference(&self) -> Option<(f64, f64)> {
        self.none_seconds.zip(self.online_seconds).filter(|_| !self.alike && self.part.is_none())
    }

    /// True if deleting is measurably faster with online discard.
    pub fn is_quicker_online(&self) -> bool {
        self.doubt.is_none() && self.difference().is_some_and(|(none, online)| online < none)
    }
}
