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

/// Policies in order of complexity. Breaks ties between equal gains.
const SIMPLEST_FIRST: [&str; 5] =
    [policy::NONE, policy::BATCHED, policy::ONLINE, policy::ADAPTIVE, policy::IDLE];

/// The rule behind a recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// No discard reaches the device.
    Blocked,
    /// The study was interrupted.
    Interrupted,
    /// No files were deleted under any policy.
    NothingDeleted,
    /// Months of use. Considers policies that do not slow work down and whose foreground
    /// latency stays within `limit_seconds`. Prefers most random writes per second, then
    /// least wear, then simplicity. Differences below [`GAIN`] do not count.
    MostWrites {
        /// Longest permitted latency, seconds.
        limit_seconds: f64,
    },
    /// No policy gains anything over months.
    GainsNothing,
    /// The drive erased nothing in the time studied, under any policy.
    NothingErased,
    /// Too few repeats to measure the cost of online discard.
    TooFewRepeats,
    /// Idle trimming avoids the stall of a batched trim.
    AvoidsStall,
    /// Online discard has a cost, and batched trims were not run.
    CostsLess,
    /// No policy has a cost, and gains were not measured.
    CostsNothing,
    /// Online discard has no cost, and a batched trim does.
    OnlyBatchedCosts,
    /// No policy finishes its trims in time.
    NeverDone,
    /// Online discard has a cost, batched trims do not.
    OnlineCosts,
    /// Drives that fit the twin's measurements do not support its own recommendation.
    Undecided {
        /// Recommendation for the twin itself.
        twin: Recommendation,
    },
    /// No discards were counted.
    NotCounted,
    /// Too few results.
    TooLittle,
}

pub(super) fn decide(comparison: &Comparison<'_>) -> (Recommendation, Rule) {
    if comparison.blocked.is_some() {
        return (Recommendation::Blocked, Rule::Blocked);
    }
    // The missing runs might decide otherwise.
    let study = comparison.study();
    if !study.complete && study.all().next().is_some() {
        return (Recommendation::Unknown, Rule::Interrupted);
    }
    // The decision needs the costs of the policies.
    if comparison.metrics.study.runs.is_empty() {
        return (Recommendation::Unknown, Rule::NothingDeleted);
    }
    let (recommendation, rule) =
        match comparison.metrics.fills.first().filter(|_| comparison.has_months()) {
            Some(fill) => by_months(comparison, fill),
            None => by_costs(comparison),
        };
    let sensitivity = comparison.study().sensitivity.as_ref();
    match sensitivity.and_then(|sensitivity| sensitivity.ensemble.as_ref()) {
        Some(drives) if recommendation.is_answer() && !drives.decides(recommendation) => {
            (Recommendation::Undecided, Rule::Undecided { twin: recommendation })
        }
        _ => (recommendation, rule),
    }
}

/// The recommendation from modelled months of use at `fill`.
pub(super) fn by_months(comparison: &Comparison<'_>, fill: &str) -> (Recommendation, Rule) {
    let metrics = &comparison.metrics;
    let aged = |name: &'static str| Some((name, metrics.aged(name, fill)?));
    let candidates: Vec<(&'static str, &AgeingFigures<'_>)> =
        SIMPLEST_FIRST.into_iter().filter_map(aged).collect();
    if candidates.len() < 2 {
        return (Recommendation::Unknown, Rule::TooLittle);
    }
    if candidates.iter().all(|(_, figures)| figures.cycles == Some(0.0)) {
        return (Recommendation::Unknown, Rule::NothingErased);
    }
    let trims = |name: &str| name != policy::NONE;
    // A modelled drive accepts every discard, and small studies do not wait for it.
    let counted =
        |name: &str| !metrics.is_measured() || !metrics.has(name) || metrics.is_counted(name);
    // Slow appends are a matter of the limit, as for every policy.
    let slows = |name: &str| {
        name == policy::ONLINE && comparison.online_cost.is_some_and(|cost| cost.part.is_work())
    };
    let fits =
        |name: &str| !trims(name) || (counted(name) && comparison.finishes(name) && !slows(name));
    let quick: Vec<_> = candidates.iter().filter(|(name, _)| fits(name)).collect();
    let wait = |name: &str| metrics.append_latency(name).map_or(0.0, |latency| latency.seconds);
    let least =
        quick.iter().filter(|(name, _)| trims(name)).map(|(name, _)| wait(name)).reduce(f64::min);
    // If no policy meets the limit, those within twice the best latency qualify.
    let limit_seconds = least.map_or(STALL_SECONDS, |least| {
        if least > STALL_SECONDS { 2.0 * least } else { STALL_SECONDS }
    });
    let quiet: Vec<_> =
        quick.into_iter().filter(|(name, _)| !trims(name) || wait(name) <= limit_seconds).collect();
    let rate = |figures: &AgeingFigures<'_>| figures.rate.unwrap_or(0.0);
    let wear = |figures: &AgeingFigures<'_>| figures.cycles.unwrap_or(0.0);
    let fastest = quiet.iter().map(|(_, figures)| rate(figures)).fold(0.0, f64::max);
    let fast: Vec<_> = quiet.iter().filter(|(_, figures)| rate(figures) * GAIN > fastest).collect();
    let least_wear = fast.iter().map(|(_, figures)| wear(figures)).fold(f64::INFINITY, f64::min);
    let chosen = fast
        .iter()
        .find(|(_, figures)| wear(figures) < least_wear * GAIN || wear(figures) == 0.0)
        .map(|(name, _)| *name);
    match chosen {
        Some(policy::NONE) if quiet.len() > 1 && comparison.costs_something() => {
            (Recommendation::Use(policy::NONE), Rule::GainsNothing)
        }
        Some(policy::NONE) if quiet.len() > 1 => (Recommendation::NoDifference, Rule::GainsNothing),
        Some(chosen) if trims(chosen) => {
            (Recommendation::Use(chosen), Rule::MostWrites { limit_seconds })
        }
        // No policy that trims is left.
        _ if candidates.iter().any(|(name, _)| trims(name) && !counted(name)) => {
            (Recommendation::NotTested, Rule::NotCounted)
        }
        _ if candidates.iter().any(|(name, _)| trims(name) && !comparison.finishes(name)) => {
            (Recommendation::NeverDone, Rule::NeverDone)
        }
        // Online discard slows work down, and no other policy was run.
        _ => (Recommendation::Use(policy::BATCHED), Rule::OnlineCosts),
    }
}

/// The recommendation from costs alone, without gains over months.
fn by_costs(comparison: &Comparison<'_>) -> (Recommendation, Rule) {
    use policy::{ADAPTIVE, BATCHED, IDLE, NONE, ONLINE};
    const fn take(policy: &'static str, rule: Rule) -> (Recommendation, Rule) {
        (Recommendation::Use(policy), rule)
    }
    let metrics = &comparison.metrics;
    let (none, online, online_costs) =
        (metrics.has(NONE), metrics.is_counted(ONLINE), comparison.online_cost.is_some());
    if metrics.too_few_repeats().is_some() && none && online {
        return (Recommendation::TooFewRepeats, Rule::TooFewRepeats);
    }
    if comparison.stall.is_some() {
        return take(IDLE, Rule::AvoidsStall);
    }
    // Prefers a policy that was run over one that was not.
    if online_costs && !metrics.has(BATCHED) {
        let instead = [IDLE, ADAPTIVE].into_iter().find(|policy| metrics.is_counted(policy));
        if let Some(policy) = instead {
            return take(policy, Rule::CostsLess);
        }
    }
    if none && online && !online_costs {
        return either(comparison);
    }
    match metrics.has(ONLINE) || metrics.has(BATCHED) && !metrics.is_counted(BATCHED) {
        _ if !none => (Recommendation::Unknown, Rule::TooLittle),
        _ if online => take(BATCHED, Rule::OnlineCosts),
        true => (Recommendation::NotTested, Rule::NotCounted),
        false => (Recommendation::Unknown, Rule::TooLittle),
    }
}

/// Online discard has no cost, and gains are unknown: either policy works. The exception
/// is a batched trim that delays foreground I/O when online discard was measured not to.
fn either(comparison: &Comparison<'_>) -> (Recommendation, Rule) {
    let clear = comparison.test(policy::ONLINE).is_none_or(|test| test.result == TestResult::Alike);
    if clear && comparison.batched_costs {
        (Recommendation::Use(policy::ONLINE), Rule::OnlyBatchedCosts)
    } else {
        (Recommendation::NoDifference, Rule::CostsNothing)
    }
}
