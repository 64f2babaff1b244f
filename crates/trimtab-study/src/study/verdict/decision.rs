//! The rule that chooses a policy.

use crate::study::comparison::Comparison;
use crate::study::comparison::costs::STALL_SECONDS;
use crate::study::comparison::gains::GAIN;
use crate::study::comparison::latency::TestResult;
use crate::study::metrics::AgeingFigures;
use crate::study::policy;
use crate::study::recommendation::Recommendation;
use alloc::vec::Vec;
use serde::Serialize;

/// The policies from the simplest to the one that needs most, which decides where gains are alike.
const SIMPLEST_FIRST: [&str; 5] = [policy::NONE, policy::BATCHED, policy::ONLINE, policy::ADAPTIVE, policy::IDLE];

/// Why that is recommended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// No discard arrives.
    Blocked,
    /// Nothing was deleted under any policy.
    NothingDeleted,
    /// Months of use: of the policies that slow no work down and under which no foreground append takes longer than `limit_seconds`,
    /// the one with most random writes a second, then with least wear, then the simplest. Less than [`GAIN`] does not count.
    MostWrites {
        /// The longest that an append may take, seconds.
        limit_seconds: f64,
    },
    /// Over months no policy gains anything.
    GainsNothing,
    /// Too few repeats to tell what online discard costs: batches are safe.
    TooFewRepeats,
    /// Idle trimming avoids the stall of a batched trim.
    AvoidsStall,
    /// Online discard costs, and batches were not tried.
    CostsLess,
    /// Nothing costs anything, and what each gains was not looked at.
    CostsNothing,
    /// Online discard costs nothing, and a batched trim does.
    OnlyBatchedCosts,
    /// No trim of any policy is done in time.
    NeverDone,
    /// Online discard costs, batches do not.
    OnlineCosts,
    /// Online discard could not be compared.
    OnlineUntried,
    /// No discard was counted.
    NotCounted,
    /// Too little was tried.
    TooLittle,
}

/// What to do, and the rule that says so.
pub(super) fn decide(comparison: &Comparison<'_>) -> (Recommendation, Rule) {
    if comparison.blocked.is_some() {
        return (Recommendation::Blocked, Rule::Blocked);
    }
    // The costs of a policy are half of it.
    if comparison.metrics.study.runs.is_empty() {
        return (Recommendation::Unknown, Rule::NothingDeleted);
    }
    match comparison.metrics.fills.first().filter(|_| comparison.has_months()) {
        Some(fill) => by_months(comparison, fill),
        None => by_costs(comparison),
    }
}

/// What that rule says where months of use were modelled at `fill`.
pub(super) fn by_months(comparison: &Comparison<'_>, fill: &str) -> (Recommendation, Rule) {
    let metrics = &comparison.metrics;
    let aged = |name: &'static str| Some((name, metrics.aged(name, fill)?));
    let candidates: Vec<(&'static str, &AgeingFigures<'_>)> = SIMPLEST_FIRST.into_iter().filter_map(aged).collect();
    let trims = |name: &str| name != policy::NONE;
    // A modelled drive takes what it is sent, and small studies do not wait for it.
    let counted = |name: &str| !metrics.is_measured() || !metrics.has(name) || metrics.is_counted(name);
    let slows = |name: &str| name == policy::ONLINE && comparison.online_cost.is_some();
    let fits = |name: &str| !trims(name) || (counted(name) && comparison.finishes(name) && !slows(name));
    let quick: Vec<_> = candidates.iter().filter(|(name, _)| fits(name)).collect();
    let wait = |name: &str| metrics.worst_latency(name).map_or(0.0, |worst| worst.seconds);
    let least = quick.iter().filter(|(name, _)| trims(name)).map(|(name, _)| wait(name)).reduce(f64::min);
    // Where none keeps to the limit, those are as good that wait up to twice as long as the best.
    let limit_seconds = least.map_or(STALL_SECONDS, |least| if least > STALL_SECONDS { 2.0 * least } else { STALL_SECONDS });
    let quiet: Vec<_> = quick.into_iter().filter(|(name, _)| !trims(name) || wait(name) <= limit_seconds).collect();
    let rate = |figures: &AgeingFigures<'_>| figures.rate.unwrap_or(0.0);
    let wear = |figures: &AgeingFigures<'_>| figures.cycles.unwrap_or(0.0);
    let fastest = quiet.iter().map(|(_, figures)| rate(figures)).fold(0.0, f64::max);
    let fast: Vec<_> = quiet.iter().filter(|(_, figures)| rate(figures) * GAIN > fastest).collect();
    let least_wear = fast.iter().map(|(_, figures)| wear(figures)).fold(f64::INFINITY, f64::min);
    let chosen = fast.iter().find(|(_, figures)| wear(figures) < least_wear * GAIN || wear(figures) == 0.0).map(|(name, _)| *name);
    match chosen {
        Some(policy::NONE) if quiet.len() > 1 && comparison.costs_something() => (Recommendation::Use(policy::NONE), Rule::GainsNothing),
        Some(policy::NONE) if quiet.len() > 1 => (Recommendation::NoDifference, Rule::GainsNothing),
        Some(chosen) if trims(chosen) => (Recommendation::Use(chosen), Rule::MostWrites { limit_seconds }),
        // No policy is left that trims.
        _ if candidates.iter().any(|(name, _)| trims(name) && !counted(name)) => (Recommendation::NotTested, Rule::NotCounted),
        _ if candidates.iter().any(|(name, _)| trims(name) && !comparison.finishes(name)) => (Recommendation::NeverDone, Rule::NeverDone),
        // Online discard slows work down, and nothing else was tried.
        _ => (Recommendation::Use(policy::BATCHED), Rule::OnlineCosts),
    }
}

/// What the costs say where what a drive gains over months was not looked at.
fn by_costs(comparison: &Comparison<'_>) -> (Recommendation, Rule) {
    use policy::{ADAPTIVE, BATCHED, IDLE, NONE, ONLINE};
    const fn take(policy: &'static str, rule: Rule) -> (Recommendation, Rule) {
        (Recommendation::Use(policy), rule)
    }
    let metrics = &comparison.metrics;
    let (none, online, online_costs) = (metrics.has(NONE), metrics.is_counted(ONLINE), comparison.online_cost.is_some());
    if metrics.too_few_repeats().is_some() && none && online {
        return take(BATCHED, Rule::TooFewRepeats);
    }
    if comparison.stall.is_some() {
        return take(IDLE, Rule::AvoidsStall);
    }
    // A policy that was left out is not recommended where another was tried.
    if online_costs && !metrics.has(BATCHED) {
        let instead = [IDLE, ADAPTIVE].into_iter().find(|policy| metrics.is_counted(policy));
        if let Some(policy) = instead {
            return take(policy, Rule::CostsLess);
        }
    }
    if none && online && !online_costs {
        return either(comparison);
    }
    match (metrics.has(ONLINE), metrics.has(BATCHED), metrics.is_counted(BATCHED)) {
        _ if !none => (Recommendation::Unknown, Rule::TooLittle),
        _ if online => take(BATCHED, Rule::OnlineCosts),
        (false, _, true) => take(BATCHED, Rule::OnlineUntried),
        (true, ..) | (_, true, _) => (Recommendation::NotTested, Rule::NotCounted),
        (false, false, false) => (Recommendation::Unknown, Rule::TooLittle),
    }
}

/// Online discard costs nothing, and what it gains was not looked at: either will do, unless foreground I/O waits for the
/// batched trim and was seen not to wait for online discard.
fn either(comparison: &Comparison<'_>) -> (Recommendation, Rule) {
    let clear = comparison.test(policy::ONLINE).is_none_or(|test| test.result == TestResult::Alike);
    if clear && comparison.batched_costs {
        (Recommendation::Use(policy::ONLINE), Rule::OnlyBatchedCosts)
    } else {
        (Recommendation::NoDifference, Rule::CostsNothing)
    }
}
