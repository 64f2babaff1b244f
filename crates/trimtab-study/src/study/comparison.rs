//! Policies against each other: what each gains and costs. The second stage: from metrics to a verdict.

pub mod costs;
pub mod difference;
pub mod gains;
pub mod latency;

use super::cells::QUESTION;
use super::metrics::{AgeingFigures, DiscardCount, Metrics, discard_count, effective_policy, setting};
use super::{Study, policy};
use alloc::vec::Vec;
use costs::{DeletingDoubt, OnlineCost, Part, Stall};
use gains::{Behind, GAIN, Gain, TimeTrimming};
use latency::{LatencyDoubt, LatencyTest};
use serde::Serialize;
use trimtab_sim::run::Run;

/// The worst foreground latency under a policy, and what speaks against it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PolicyLatency<'a> {
    /// The policy.
    pub policy: &'a str,
    /// Seconds.
    pub seconds: f64,
    /// Why it does not stand for what discards cost.
    pub doubt: Option<LatencyDoubt>,
}

/// A study's policies, compared.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// The figures.
    pub metrics: Metrics<'a>,
    /// What each policy gains over months against no trimming, at each fill.
    pub gains: Vec<Gain<'a>>,
    /// Measured foreground latency of online and batched discards against none.
    pub tests: Vec<LatencyTest>,
    /// What online discard slows down most.
    pub online_cost: Option<OnlineCost<'a>>,
    /// The stall that idle trimming avoids.
    pub stall: Option<Stall>,
    /// Whether foreground I/O waits for a batched trim.
    pub batched_costs: bool,
    /// Policies whose trimming is never done.
    pub behind: Vec<Behind<'a>>,
    /// A policy that trims, if not one discard of any arrived.
    pub blocked: Option<&'a str>,
}

impl<'a> Comparison<'a> {
    /// Compares the policies of `study`.
    pub fn of(study: &'a Study) -> Self {
        let metrics = Metrics::of(study);
        let tests: Vec<LatencyTest> =
            [policy::ONLINE, policy::BATCHED].into_iter().filter_map(|policy| LatencyTest::of(&metrics, policy)).collect();
        let test = |policy: &str| tests.iter().find(|test| test.policy == policy);
        Self {
            gains: gains::gains(&metrics, policy::NONE),
            online_cost: costs::online_cost(&metrics, test(policy::ONLINE)),
            stall: costs::stall(&metrics),
            batched_costs: costs::batched_costs(&metrics, test(policy::BATCHED)),
            behind: gains::behind(&metrics),
            blocked: blocked(study),
            tests,
            metrics,
        }
    }

    /// The study.
    pub const fn study(&self) -> &'a Study {
        self.metrics.study
    }

    /// What `policy` gains at each fill.
    pub fn gains_of(&self, policy: &str) -> impl Iterator<Item = &Gain<'a>> {
        self.gains.iter().filter(move |gain| gain.policy == policy)
    }

    /// Whether months of use were looked at under no policy and under another.
    pub fn has_months(&self) -> bool {
        self.gains.iter().any(|gain| gain.policy != policy::NONE)
    }

    /// Whether any policy costs foreground I/O anything.
    pub const fn costs_something(&self) -> bool {
        self.stall.is_some() || self.online_cost.is_some() || self.batched_costs
    }

    /// Whether `a` gains more than `b` by what counts, at some fill, and less at none.
    pub fn beats(&self, a: &str, b: &str) -> bool {
        let ratios: Vec<f64> = self.gains_of(a).zip(self.gains_of(b)).map(|(a, b)| a.best() / b.best()).collect();
        ratios.iter().any(|ratio| *ratio >= GAIN) && ratios.iter().all(|ratio| *ratio > 1.0 / GAIN)
    }

    /// Whether the trims of `policy` are done before the next is due, as far as that was looked at.
    pub fn finishes(&self, policy: &str) -> bool {
        self.behind.iter().all(|behind| behind.policy != policy)
    }

    /// How much of the time `policy` trims, where that is known.
    pub fn time_trimming(&self, policy: &str) -> Option<TimeTrimming> {
        gains::time_trimming(&self.metrics, policy)
    }

    /// The test of the foreground latency that was measured under `policy`.
    pub fn test(&self, policy: &str) -> Option<&LatencyTest> {
        self.tests.iter().find(|test| test.policy == policy)
    }

    /// The worst foreground latency under `policy`, with what speaks against it.
    pub fn latency(&self, policy: &'a str) -> Option<PolicyLatency<'a>> {
        let worst = self.metrics.worst_latency(policy)?;
        let uncounted = self.metrics.is_measured() && policy != policy::NONE && !self.metrics.is_counted(policy);
        let doubt = if uncounted { Some(LatencyDoubt::NoDiscardCounted) } else { self.test(policy).and_then(LatencyTest::doubt) };
        Some(PolicyLatency { policy, seconds: worst.seconds, doubt })
    }

    /// Why the difference that online discard makes to deleting does not count.
    pub fn deleting_doubt(&self, job: &str) -> Option<DeletingDoubt> {
        costs::doubt(&self.metrics, self.online_cost.as_ref(), job)
    }

    /// Seconds of deleting, without discards and with online discard, with another generation of the filesystem.
    pub fn other_generation(&self, job: &str, part: Part) -> Option<costs::OtherGeneration> {
        costs::other_generation(&self.metrics, job, part)
    }

    /// How many times slower 4 KiB random writes are on a partition that begins at sector 63, if they are.
    pub fn misaligned(&self) -> Option<f64> {
        let (aligned, moved) = (self.tuned("alignment", 0)?, self.tuned("alignment", 1)?);
        let times = aligned.rate? / moved.rate.filter(|rate| *rate > 0.0)?;
        (times > GAIN).then_some(times)
    }

    /// The figures of a choice of a question of tuning.
    fn tuned(&self, question: &str, at: usize) -> Option<AgeingFigures<'a>> {
        let asked = |run: &&Run| setting(run, QUESTION) == Some(question);
        self.study().tuning.iter().filter(asked).nth(at).map(AgeingFigures::of)
    }
}

/// A policy that trims, if not one discard of any arrived. Discards that are queued for later prove nothing.
fn blocked(study: &Study) -> Option<&str> {
    let any = study.runs.iter().any(|run| discard_count(run) == DiscardCount::Counted);
    let trims = |run: &&Run| matches!(effective_policy(run), policy::ONLINE | policy::BATCHED);
    let zero = |run: &&Run| discard_count(run) == DiscardCount::Zero;
    study.runs.iter().filter(|_| !any).filter(trims).find(zero).map(effective_policy)
}
