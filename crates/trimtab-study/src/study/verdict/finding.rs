//! What a study shows, as figures. The words are the renderer's.

use crate::study::comparison::PolicyLatency;
use crate::study::comparison::costs::{DeletingDoubt, OnlineCost, OtherGeneration, Stall};
use crate::study::comparison::gains::{Behind, Gain};
use crate::study::comparison::latency::{LatencyTest, TestResult};
use crate::study::metrics::{AppendLoad, DiscardCount};
use crate::study::untried::Untried;
use alloc::vec::Vec;
use serde::Serialize;

/// Something that a study shows: a part of the verdict, of its evidence or of its caveats.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum Finding<'a> {
    /// What a policy gains over months, at each fill where it counts.
    Months {
        /// The policy.
        policy: &'a str,
        /// Days of use, where known.
        days: Option<f64>,
        /// Gains that count; none where trimming makes no difference.
        gains: Vec<Gain<'a>>,
    },
    /// The stall that idle trimming avoids.
    Stall(Stall),
    /// What online discard slows down most.
    OnlineCost {
        /// What, and by how much.
        #[serde(flatten)]
        cost: OnlineCost<'a>,
        /// The generation of the filesystem.
        generation: &'a str,
        /// The same with another generation.
        other: Option<OtherGeneration>,
    },
    /// A policy that the recommendation could not be compared with.
    NotCompared {
        /// The policy.
        policy: &'static str,
    },
    /// How long batched trims took.
    TrimTime {
        /// How many; none where that is not known.
        trims: usize,
        /// The shortest, seconds.
        least_seconds: f64,
        /// The longest, seconds.
        most_seconds: f64,
        /// The longest foreground append beside them and without, seconds, where it was measured to be longer.
        append_seconds: Option<(f64, f64)>,
    },
    /// Too few repeats to tell a difference from noise.
    TooFewRepeats {
        /// How many.
        repeats: usize,
        /// How many can tell.
        needed: usize,
        /// What online discard seemed to slow down.
        seen: Option<OnlineCost<'a>>,
    },
    /// A policy that was run, but not seen to discard.
    Untested(Untested),
    /// The filesystem was mounted with online discard, and there is no run without.
    NoBaseline,
    /// Only one policy could be tried.
    OnlyPolicy {
        /// The policy.
        policy: &'a str,
        /// The discard option of a filesystem as it was mounted.
        discard: Option<&'a str>,
    },
    /// The worst latency of one durable foreground append every 5 s under a policy.
    Latency(PolicyLatency<'a>),
    /// Measured foreground appends under a policy against those without trimming.
    LatencyTest {
        /// The policy.
        policy: &'static str,
        /// What follows.
        result: TestResult,
        /// From when on an append is long, seconds.
        limit_seconds: f64,
        /// Long ones of all, under the policy.
        with: (u64, u64),
        /// Long ones of all, without trimming.
        without: (u64, u64),
        /// Probability of as many by chance.
        chance: f64,
    },
    /// A policy whose trimming is never done.
    NeverDone(Behind<'a>),
    /// Batched trims would do where such a latency may come now and then.
    BatchedWouldDo {
        /// The latency, seconds.
        seconds: f64,
        /// The limit that idle trimming was recommended for, seconds.
        limit_seconds: f64,
        /// Over months it gains as much.
        gains_as_much: bool,
    },
    /// The recommended policy gains nothing at that fill.
    GainsNothing(Gain<'a>),
    /// A part that was not tried.
    Untried(Untried),
    /// The study was interrupted.
    Interrupted,
    /// The filesystem queues its discards: they are not in the figures.
    DiscardsQueued {
        /// The workload.
        job: &'a str,
    },
    /// The files were gone before they were written out.
    NothingToDiscard {
        /// The workload.
        job: &'a str,
    },
    /// How far times of the same work differ.
    Noise {
        /// The workload.
        job: &'a str,
        /// By how much, in per cent.
        percent: f64,
    },
    /// Figures are modelled.
    Modelled,
    /// Months of use were not looked at.
    NoMonths,
}

/// A policy that was run, but not seen to discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Untested {
    /// The policy.
    pub policy: &'static str,
    /// What was counted.
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

/// A reason for the recommendation where months of use were not looked at: at most two.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason<'a> {
    /// Files were deleted under this policy, and not one discard was counted.
    Blocked {
        /// The policy.
        policy: &'a str,
    },
    /// Worst foreground latencies.
    Latency(LatencyReason<'a>),
    /// What deleting takes.
    Deleting(DeletingReason<'a>),
}

/// Worst foreground latencies of the recommended policy and of others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyReason<'a> {
    /// The load.
    pub load: AppendLoad,
    /// Under the recommended policy; `None` where none is recommended.
    pub chosen: Option<PolicyLatency<'a>>,
    /// With online discard, which slows foreground I/O down whenever files are deleted: the reason where no other is.
    pub online_seconds: Option<f64>,
    /// Under others.
    pub others: Vec<PolicyLatency<'a>>,
    /// Why the differences between them do not count.
    pub aside: Option<LatencyAside>,
}

/// Why differences between worst latencies do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyAside {
    /// Modelled, and too little to count.
    TooLittle,
    /// Measured: long ones came no more often.
    LongNoMoreOften,
}

/// What deleting takes, without discards and with online discard.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeletingReason<'a> {
    /// How many files, as the settings have it.
    pub files: Option<&'a str>,
    /// The part of the work that shows what online discard costs, where deleting as a whole does not.
    pub part: Option<OnlineCost<'a>>,
    /// Without discards, seconds.
    pub none_seconds: Option<f64>,
    /// With online discard, seconds.
    pub online_seconds: Option<f64>,
    /// Whether both take as long.
    pub alike: bool,
    /// Why a difference does not count.
    pub doubt: Option<DeletingDoubt>,
    /// On the other generation of the filesystem.
    pub other: Option<OtherGeneration>,
}

impl DeletingReason<'_> {
    /// Both times, where they differ.
    pub fn difference(&self) -> Option<(f64, f64)> {
        self.none_seconds.zip(self.online_seconds).filter(|_| !self.alike && self.part.is_none())
    }

    /// Whether deleting is measurably quicker with online discard.
    pub fn is_quicker_online(&self) -> bool {
        self.doubt.is_none() && self.difference().is_some_and(|(none, online)| online < none)
    }
}
