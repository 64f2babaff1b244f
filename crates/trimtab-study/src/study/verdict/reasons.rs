//! Reasons for a recommendation when months of use were not run: at most two. They use
//! the same comparison as the recommendation. A difference that does not count there
//! carries a doubt here that explains why.

use super::finding::{DeletingReason, LatencyCaveat, LatencyReason, RecommendationReason};
use crate::study::comparison::costs;
use crate::study::comparison::latency::WORSE;
use crate::study::comparison::{Comparison, PolicyLatency};
use crate::study::metrics::setting;
use crate::study::policy;
use crate::study::recommendation::Recommendation;
use alloc::vec;
use alloc::vec::Vec;

/// Largest relative difference between times that count as equal.
const ALIKE: f64 = 0.02;

/// Reasons from foreground latency and deleting. With months of use, the rule is the
/// reason.
pub(super) fn reasons<'a>(
    comparison: &Comparison<'a>,
    recommendation: Recommendation,
) -> Vec<RecommendationReason<'a>> {
    if let Some(policy) = comparison.blocked {
        return vec![RecommendationReason::Blocked { policy }];
    }
    let open = [Recommendation::TooFewRepeats, Recommendation::Unknown];
    if comparison.has_months() || open.contains(&recommendation) {
        return Vec::new();
    }
    let chosen = recommendation.policy();
    let mut reasons: Vec<RecommendationReason<'a>> = Vec::new();
    let subject = recommendation.trimming_policy();
    let latency = latency(comparison, recommendation);
    // Slow work under online discard is the reason if there is no other argument against
    // it.
    let slow_work = comparison.online_cost.is_some_and(|cost| cost.part.is_work());
    // Faster deleting with discards does not support the recommendation.
    let deleting = deleting(comparison, subject.unwrap_or(policy::NONE))
        .filter(|deleting| chosen == Some(policy::ONLINE) || !deleting.is_quicker_online())
        .map(RecommendationReason::Deleting);
    match (latency, deleting) {
        (Some((latency, decides)), deleting) if decides || !slow_work || deleting.is_none() => {
            reasons.push(RecommendationReason::Latency(latency));
            reasons.extend(deleting);
        }
        (latency, deleting) => {
            reasons.extend(deleting);
            reasons.extend(latency.map(|(latency, _)| RecommendationReason::Latency(latency)));
        }
    }
    reasons
}

/// Foreground latency under the recommended policy and under the worst of the rest.
/// The flag is true if a policy with a longer latency exists.
fn latency<'a>(
    comparison: &Comparison<'a>,
    recommendation: Recommendation,
) -> Option<(LatencyReason<'a>, bool)> {
    let mine = recommendation.policy().map(|policy| comparison.latency(policy));
    // A policy that was not run has no latency, only a baseline.
    let untried = matches!(mine, Some(None));
    let appends = comparison.online_cost.filter(|cost| !cost.part.is_work());
    let compared =
        |policy: &str| policy == policy::NONE || policy == policy::ONLINE && appends.is_some();
    let all = comparison.metrics.policies.iter().filter(|policy| !untried || compared(policy));
    let all: Vec<PolicyLatency<'a>> = all.filter_map(|policy| comparison.latency(policy)).collect();
    let Some(mine) = mine.flatten() else {
        return without_choice(comparison, recommendation, all).map(|reason| (reason, false));
    };
    let others = || all.iter().copied().filter(|other| other.policy != mine.policy);
    let worse: Vec<_> = others().filter(|other| other.seconds > mine.seconds * WORSE).collect();
    let decides = !worse.is_empty();
    // The shortest and the longest of the worse latencies show the range that the choice
    // saves.
    let mut shown = if decides {
        worse
    } else {
        others().filter(|other| other.policy == policy::NONE).collect()
    };
    shown.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    if shown.len() > 2 {
        shown = vec![shown[0], shown[shown.len() - 1]];
    }
    // A latency well above that without trimming does not support the choice.
    shown.retain(|other| decides || mine.seconds <= other.seconds * WORSE);
    // Online discard runs on every deletion; its latency is the reason if no other
    // exists.
    let online = appends
        .filter(|_| mine.policy != policy::ONLINE && !decides)
        .map(|cost| cost.online_seconds);
    if shown.is_empty() && online.is_none() && others().next().is_some() {
        return None;
    }
    let load = comparison.metrics.load();
    let reason = LatencyReason {
        load,
        chosen: Some(mine),
        online_seconds: online,
        others: shown,
        aside: None,
    };
    Some((reason, decides || online.is_some()))
}

/// Foreground latencies when no policy is recommended, longest first.
fn without_choice<'a>(
    comparison: &Comparison<'a>,
    recommendation: Recommendation,
    mut all: Vec<PolicyLatency<'a>>,
) -> Option<LatencyReason<'a>> {
    const SHOWN: usize = 3;
    /// Ratio above which two modelled latencies look different.
    const APART: f64 = 1.02;
    let no_difference = recommendation == Recommendation::NoDifference;
    if no_difference {
        all.retain(|one| [policy::NONE, policy::ONLINE, policy::BATCHED].contains(&one.policy));
    }
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let apart = |times: f64| {
        all.first()
            .zip(all.last())
            .is_some_and(|(most, least)| most.seconds > least.seconds * times)
    };
    let others: Vec<_> = all.iter().copied().take(SHOWN).collect();
    let aside = match comparison.metrics.is_measured() {
        _ if !no_difference => None,
        false => apart(APART).then_some(LatencyCaveat::TooLittle),
        // Single events: no policy has more long appends than no trimming, or a doubt
        // would be set.
        true => (apart(WORSE) && others.iter().all(|one| one.doubt.is_none()))
            .then_some(LatencyCaveat::LongNoMoreOften),
    };
    let load = comparison.metrics.load();
    (!others.is_empty()).then_some(LatencyReason {
        load,
        chosen: None,
        online_seconds: None,
        others,
        aside,
    })
}

/// Time of deleting under `mine` and with online discard. If `mine` is online discard,
/// compares it with no discards. If online discard has a cost, uses the part where it
/// costs most.
fn deleting<'a>(comparison: &Comparison<'a>, mine: &str) -> Option<DeletingReason<'a>> {
    let metrics = &comparison.metrics;
    let cost = comparison.online_cost.filter(|cost| cost.part.is_work());
    let usual =
        || metrics.jobs.iter().find(|job| **job == "tree").or(metrics.jobs.first()).copied();
    let job = cost.map(|cost| cost.job).or_else(usual)?;
    let run = metrics.study.runs.iter().find(|run| run.workload == job)?;
    let files = setting(run, "files").or_else(|| setting(run, "number"));
    let time = |policy: &str| costs::deleting(metrics, job, policy);
    let none_seconds =
        if mine == policy::ONLINE { None } else { time(mine) }.or_else(|| time(policy::NONE));
    let online_seconds = time(policy::ONLINE);
    none_seconds.or(online_seconds)?;
    let both = none_seconds.zip(online_seconds);
    let part = cost.filter(|_| both.is_some_and(|(none, online)| online < none * WORSE));
    let alike =
        part.is_none() && both.is_some_and(|(none, online)| (online - none).abs() <= none * ALIKE);
    let doubt = costs::doubt(&comparison.metrics, comparison.online_cost.as_ref(), job)
        .filter(|_| both.is_some() && !alike);
    Some(DeletingReason { files, part, none_seconds, online_seconds, alike, doubt })
}

#[cfg(test)]
mod tests;
