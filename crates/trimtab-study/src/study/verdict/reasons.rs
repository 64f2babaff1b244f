//! Why that is recommended where months of use were not looked at: at most two reasons. They come from the same comparison as the recommendation: a difference that
//! does not count there has a doubt here that says why not.

use super::finding::{DeletingReason, LatencyAside, LatencyReason, Reason};
use crate::study::comparison::costs::{self, Part};
use crate::study::comparison::latency::WORSE;
use crate::study::comparison::{Comparison, PolicyLatency};
use crate::study::metrics::setting;
use crate::study::policy;
use crate::study::recommendation::Recommendation;
use alloc::vec;
use alloc::vec::Vec;

/// Times that differ by no more than this share are alike.
const ALIKE: f64 = 0.02;

/// What the choice costs foreground I/O, and what deleting costs otherwise. With months the rule is the reason.
pub(super) fn reasons<'a>(comparison: &Comparison<'a>, recommendation: Recommendation) -> Vec<Reason<'a>> {
    if let Some(policy) = comparison.blocked {
        return vec![Reason::Blocked { policy }];
    }
    if comparison.has_months() {
        return Vec::new();
    }
    let chosen = recommendation.policy();
    let mut reasons: Vec<Reason<'a>> = Vec::new();
    let subject = recommendation.trimming_policy();
    let latency = latency(comparison, recommendation);
    // Where it was the work that online discard slows down, and nothing else speaks against it, that is the reason.
    let slow_work = comparison.online_cost.is_some_and(|cost| cost.part.is_work());
    // That deleting is quicker where discards are sent with it is nothing that the recommendation stands on.
    let deleting = deleting(comparison, subject.unwrap_or(policy::NONE))
        .filter(|deleting| chosen == Some(policy::ONLINE) || !deleting.is_quicker_online())
        .map(Reason::Deleting);
    match (latency, deleting) {
        (Some((latency, decides)), deleting) if decides || !slow_work || deleting.is_none() => {
            reasons.push(Reason::Latency(latency));
            reasons.extend(deleting);
        }
        (latency, deleting) => {
            reasons.extend(deleting);
            reasons.extend(latency.map(|(latency, _)| Reason::Latency(latency)));
        }
    }
    reasons
}

/// The worst foreground latency under the recommended policy, and under the worst of the rest; and whether that shows a
/// policy under which it is longer.
fn latency<'a>(comparison: &Comparison<'a>, recommendation: Recommendation) -> Option<(LatencyReason<'a>, bool)> {
    let mine = recommendation.policy().map(|policy| comparison.latency(policy));
    // A policy that was left out has no latency: there is only what was compared with it.
    let untried = matches!(mine, Some(None));
    let appends = comparison.online_cost.filter(|cost| !cost.part.is_work());
    let compared = |policy: &str| policy == policy::NONE || policy == policy::ONLINE && appends.is_some();
    let all = comparison.metrics.policies.iter().filter(|policy| !untried || compared(policy));
    let all: Vec<PolicyLatency<'a>> = all.filter_map(|policy| comparison.latency(policy)).collect();
    let Some(mine) = mine.flatten() else {
        return without_choice(comparison, recommendation, all).map(|reason| (reason, false));
    };
    let others = || all.iter().copied().filter(|other| other.policy != mine.policy);
    let worse: Vec<_> = others().filter(|other| other.seconds > mine.seconds * WORSE).collect();
    let decides = !worse.is_empty();
    // The shortest and the longest of the worse ones say what the choice saves.
    let mut shown = if decides { worse } else { others().filter(|other| other.policy == policy::NONE).collect() };
    shown.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    if shown.len() > 2 {
        shown = vec![shown[0], shown[shown.len() - 1]];
    }
    // A batched trim comes now and then; online discard comes whenever files go. That was the reason if no other was.
    let online = appends.filter(|_| mine.policy != policy::ONLINE && !decides).map(|cost| cost.online_seconds);
    let load = comparison.metrics.load();
    let reason = LatencyReason { load, chosen: Some(mine), online_seconds: online, others: shown, aside: None };
    Some((reason, decides || online.is_some()))
}

/// The worst latencies where no policy is recommended, the longest first.
fn without_choice<'a>(
    comparison: &Comparison<'a>,
    recommendation: Recommendation,
    mut all: Vec<PolicyLatency<'a>>,
) -> Option<LatencyReason<'a>> {
    /// Latencies that are shown.
    const SHOWN: usize = 3;
    /// From here on two modelled latencies look different.
    const APART: f64 = 1.02;
    let no_difference = recommendation == Recommendation::NoDifference;
    if no_difference {
        all.retain(|one| [policy::NONE, policy::ONLINE, policy::BATCHED].contains(&one.policy));
    }
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let apart = |times: f64| all.first().zip(all.last()).is_some_and(|(most, least)| most.seconds > least.seconds * times);
    let others: Vec<_> = all.iter().copied().take(SHOWN).collect();
    let aside = match comparison.metrics.is_measured() {
        _ if !no_difference => None,
        false => apart(APART).then_some(LatencyAside::TooLittle),
        // One event each: under none of them there were more long ones than without trimming, or a doubt would say so.
        true => (apart(WORSE) && others.iter().all(|one| one.doubt.is_none())).then_some(LatencyAside::LongNoMoreOften),
    };
    let load = comparison.metrics.load();
    (!others.is_empty()).then_some(LatencyReason { load, chosen: None, online_seconds: None, others, aside })
}

/// What deleting takes under `mine` and with online discard, or if that is `mine` without, by what counts: where online
/// discard costs most if it costs something.
pub(super) fn deleting<'a>(comparison: &Comparison<'a>, mine: &str) -> Option<DeletingReason<'a>> {
    let metrics = &comparison.metrics;
    let cost = comparison.online_cost.filter(|cost| cost.part.is_work());
    let usual = || metrics.jobs.iter().find(|job| **job == "tree").or(metrics.jobs.first()).copied();
    let job = cost.map(|cost| cost.job).or_else(usual)?;
    let run = metrics.study.runs.iter().find(|run| run.workload == job)?;
    let files = setting(run, "files").or_else(|| setting(run, "number"));
    let time = |policy: &str| costs::deleting(metrics, job, policy);
    let none_seconds = if mine == policy::ONLINE { None } else { time(mine) }.or_else(|| time(policy::NONE));
    let online_seconds = time(policy::ONLINE);
    none_seconds.or(online_seconds)?;
    let both = none_seconds.zip(online_seconds);
    let part = cost.filter(|_| both.is_some_and(|(none, online)| online < none * WORSE));
    let alike = part.is_none() && both.is_some_and(|(none, online)| (online - none).abs() <= none * ALIKE);
    let doubt = comparison.deleting_doubt(job).filter(|_| both.is_some() && !alike);
    let other = comparison.other_generation(job, Part::Deleting).filter(|_| both.is_some() && part.is_none());
    Some(DeletingReason { files, part, none_seconds, online_seconds, alike, doubt, other })
}

#[cfg(test)]
mod tests;
