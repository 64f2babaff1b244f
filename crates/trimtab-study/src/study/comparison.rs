//! Comparison of policies by gain and cost. The second stage: from metrics to a verdict.

pub mod costs;
pub mod difference;
pub mod gains;
pub mod latency;

use super::metrics::{DiscardCount, Metrics, discard_count, effective_policy};
use super::{Study, policy};
use alloc::vec::Vec;
use costs::{OnlineCost, Stall};
use gains::{GAIN, Gain, OverduePolicy};
use latency::{LatencyDoubt, LatencyTest};
use serde::Serialize;
use trimtab_sim::run::Run;

/// Foreground latency under a policy ([`Metrics::append_latency`]), and any doubt about
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PolicyLatency<'a> {
    /// The policy.
    pub policy: &'a str,
    /// Seconds.
    pub seconds: f64,
    /// Why it may not represent the cost of discards.
    pub doubt: Option<LatencyDoubt>,
}

/// Comparison of a study's policies.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// The figures.
    pub metrics: Metrics<'a>,
    /// Gain of each policy over no trimming, by fill level.
    pub gains: Vec<Gain<'a>>,
    /// Tests of measured foreground latency under online and batched discards.
    pub tests: Vec<LatencyTest>,
    /// The largest cost of online discard.
    pub online_cost: Option<OnlineCost<'a>>,
    /// The stall that idle trimming avoids.
    pub stall: Option<Stall>,
    /// True if a batched trim delays foreground I/O.
    pub batched_costs: bool,
    /// Policies that never finish their trims.
    pub behind: Vec<OverduePolicy<'a>>,
    /// A policy that trims, if no discard of any policy reached the device.
    pub blocked: Option<&'a str>,
}

impl<'a> Comparison<'a> {
    /// Compares the policies of `study`.
    pub fn of(study: &'a Study) -> Self {
        let metrics = Metrics::of(study);
        let tests: Vec<LatencyTest> = [policy::ONLINE, policy::BATCHED]
            .into_iter()
            .filter_map(|policy| LatencyTest::of(&metrics, policy))
            .collect();
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

    /// Gains of `policy`, by fill level.
    pub fn gains_of(&self, policy: &str) -> impl Iterator<Item = &Gain<'a>> {
        self.gains.iter().filter(move |gain| gain.policy == policy)
    }

    /// True if months of use were run both without trimming and under another policy.
    pub fn has_months(&self) -> bool {
        self.gains.iter().any(|gain| gain.policy != policy::NONE)
    }

    /// True if any policy has a cost for foreground I/O.
    pub const fn costs_something(&self) -> bool {
        self.stall.is_some() || self.online_cost.is_some() || self.batched_costs
    }

    /// True if `a` gains significantly more than `b` at some fill level, and less at
    /// none.
    pub fn beats(&self, a: &str, b: &str) -> bool {
        let ratios: Vec<f64> =
            self.gains_of(a).zip(self.gains_of(b)).map(|(a, b)| a.best() / b.best()).collect();
        ratios.iter().any(|ratio| *ratio >= GAIN) && ratios.iter().all(|ratio| *ratio > 1.0 / GAIN)
    }

    /// True unless `policy` is known to be still trimming when the next trim is due.
    pub fn finishes(&self, policy: &str) -> bool {
        self.behind.iter().all(|behind| behind.policy != policy)
    }

    /// The latency test of `policy`, if measured.
    pub fn test(&self, policy: &str) -> Option<&LatencyTest> {
        self.tests.iter().find(|test| test.policy == policy)
    }

    /// Foreground latency under `policy`, with any doubt about it.
    pub fn latency(&self, policy: &'a str) -> Option<PolicyLatency<'a>> {
        let latency = self.metrics.append_latency(policy)?;
        let uncounted = self.metrics.is_measured()
            && policy != policy::NONE
            && !self.metrics.is_counted(policy);
        let doubt = if uncounted {
            Some(LatencyDoubt::NoDiscardCounted)
        } else {
            self.test(policy).and_then(LatencyTest::doubt)
        };
        Some(PolicyLatency { policy, seconds: latency.seconds, doubt })
    }
}

/// A policy that trims, if no discard arrived. Queued discards are inconclusive.
fn blocked(study: &Study) -> Option<&str> {
    let any = study.runs.iter().any(|run| discard_count(run) == DiscardCount::Counted);
    let trims = |run: &&Run| matches!(effective_policy(run), policy::ONLINE | policy::BATCHED);
    let zero = |run: &&Run| discard_count(run) == DiscardCount::Zero;
    study.runs.iter().filter(|_| !any).filter(trims).find(zero).map(effective_policy)
}
