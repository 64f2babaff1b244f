//! The rule that chooses a policy.

use crate::study::comparison::Comparison;
use crate::study::comparison::latency::TestResult;
use crate::study::policy;
use crate::study::recommendation::Recommendation;
use serde::Serialize;

/// Why that is recommended: the rule that decided, of those that are tried in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// No discard arrives.
    Blocked,
    /// Nothing was deleted under any policy.
    NothingDeleted,
    /// Over months no policy gains anything.
    GainsNothing,
    /// Too few repeats to tell what online discard costs: batches are safe.
    TooFewRepeats,
    /// Idle trimming avoids the stall of a batched trim.
    AvoidsStall,
    /// Online discard costs, batches were not tried, and this policy gains.
    GainsInstead,
    /// Online discard costs nothing and gains.
    OnlineIsFree,
    /// Nothing costs anything, and what each gains was not looked at.
    CostsNothing,
    /// Online discard costs nothing, and a batched trim does.
    OnlyBatchedCosts,
    /// It gains more than batches.
    GainsMore,
    /// Batches are never done in time.
    NeverDone,
    /// Batches gain nothing, and this policy does.
    BatchedGainsNothing,
    /// Online discard costs, batches do not.
    OnlineCosts,
    /// Online discard could not be compared.
    OnlineUntried,
    /// No discard was counted.
    NotCounted,
    /// It gains over months, and neither online discard nor batches were tried.
    GainsOverMonths,
    /// Too little was tried.
    TooLittle,
}

/// What to do, and the rule that says so.
pub(super) fn decide(comparison: &Comparison<'_>) -> (Recommendation, Rule) {
    use policy::{ADAPTIVE, BATCHED, IDLE, NONE, ONLINE};
    const fn take(policy: &'static str, rule: Rule) -> (Recommendation, Rule) {
        (Recommendation::Use(policy), rule)
    }
    let metrics = &comparison.metrics;
    if comparison.blocked.is_some() {
        return (Recommendation::Blocked, Rule::Blocked);
    }
    // The costs of a policy are half of it.
    if metrics.study.runs.is_empty() {
        return (Recommendation::Unknown, Rule::NothingDeleted);
    }
    let (months, stalls, online_costs) = (comparison.has_months(), comparison.stall.is_some(), comparison.online_cost.is_some());
    if months && !comparison.any_gain() {
        let costs = stalls || online_costs || comparison.batched_costs;
        return if costs { take(NONE, Rule::GainsNothing) } else { (Recommendation::NoDifference, Rule::GainsNothing) };
    }
    let (none, online) = (metrics.has(NONE), metrics.is_counted(ONLINE));
    if metrics.too_few_repeats().is_some() && !months && none && online {
        return take(BATCHED, Rule::TooFewRepeats);
    }
    // A policy that is never done is no choice, and neither is one that gains nothing where another does.
    let fits = |policy: &str| comparison.finishes(policy) && comparison.is_worth_it(policy);
    let seen = |policy: &str| metrics.is_counted(policy) && fits(policy);
    if stalls && fits(IDLE) {
        return take(IDLE, Rule::AvoidsStall);
    }
    // A policy that was left out is not recommended where another was tried.
    if online_costs && !metrics.has(BATCHED) {
        let instead = [IDLE, ADAPTIVE].into_iter().find(|policy| seen(policy));
        if let Some(policy) = instead {
            return take(policy, Rule::GainsInstead);
        }
    }
    if none && online && !online_costs && (!months || fits(ONLINE)) {
        return if months { take(ONLINE, Rule::OnlineIsFree) } else { either(comparison) };
    }
    if comparison.beats(ADAPTIVE, BATCHED) && fits(ADAPTIVE) {
        return take(ADAPTIVE, Rule::GainsMore);
    }
    if !comparison.finishes(BATCHED) {
        return (Recommendation::NeverDone, Rule::NeverDone);
    }
    if !comparison.is_worth_it(BATCHED) {
        let left = [IDLE, ADAPTIVE, ONLINE].into_iter().find(|policy| seen(policy));
        return left.map_or((Recommendation::NotTested, Rule::NotCounted), |policy| take(policy, Rule::BatchedGainsNothing));
    }
    match (metrics.has(ONLINE), metrics.has(BATCHED), metrics.is_counted(BATCHED)) {
        _ if !none => (Recommendation::Unknown, Rule::TooLittle),
        _ if online => take(BATCHED, Rule::OnlineCosts),
        (false, _, true) => take(BATCHED, Rule::OnlineUntried),
        (true, ..) | (_, true, _) => (Recommendation::NotTested, Rule::NotCounted),
        // Neither of the usual two was tried, but something that gains over months.
        (false, false, false) => {
            let gains = |policy: &&'static str| comparison.gains_of(policy).next().is_some() && fits(policy);
            let found = [IDLE, ADAPTIVE].into_iter().find(gains);
            found.map_or((Recommendation::Unknown, Rule::TooLittle), |policy| take(policy, Rule::GainsOverMonths))
        }
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
