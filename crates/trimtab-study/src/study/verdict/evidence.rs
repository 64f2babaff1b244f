//! Evidence for a verdict, and its caveats.

use super::finding::Finding;
use crate::study::comparison::Comparison;
use crate::study::comparison::costs::STALL_SECONDS;
use crate::study::comparison::difference::compare;
use crate::study::comparison::latency::TestResult;
use crate::study::metrics::{DiscardCount, FOREGROUND, Metrics, discard_count, samples};
use crate::study::policy;
use crate::study::recommendation::Recommendation;
use alloc::vec::Vec;
use trimtab_sim::run::{Field, Provenance, Run};

/// Ratio between times of the same work above which the difference is reported.
const NOISE: f64 = 1.1;

/// The discard mount option of a run on a filesystem studied as mounted.
pub(super) fn mounted(run: &Run) -> Option<&str> {
    Field::find(&run.policy_settings, policy::DISCARD).filter(|_| run.policy == policy::AS_MOUNTED)
}

/// Figures that support the verdict, in addition to those of the runs.
pub(super) fn evidence<'a>(comparison: &Comparison<'a>) -> Vec<Finding<'a>> {
    comparison
        .tests
        .iter()
        .filter(|test| test.result != TestResult::TooFew)
        .map(Finding::from)
        .collect()
}

/// Conditions that would change the verdict, and untested parts.
pub(super) fn caveats<'a>(
    comparison: &Comparison<'a>,
    recommendation: Recommendation,
) -> Vec<Finding<'a>> {
    let study = comparison.study();
    let mut all: Vec<Finding<'a>> = comparison
        .tests
        .iter()
        .filter(|test| test.result == TestResult::TooFew)
        .map(Finding::from)
        .collect();
    all.extend(comparison.behind.iter().map(|behind| Finding::NeverDone(*behind)));
    if let Some(policy) = recommendation.policy() {
        changes(comparison, policy, &mut all);
    }
    all.extend(study.untried.iter().cloned().map(Finding::Untried));
    if !study.complete {
        all.push(Finding::Interrupted);
    }
    all.extend(comparison.metrics.of_policy(policy::ONLINE).filter_map(|run| match discard_count(
        run,
    ) {
        DiscardCount::Queued => Some(Finding::DiscardsQueued { job: &run.workload }),
        DiscardCount::Zero if comparison.blocked.is_none() => {
            Some(Finding::NothingToDiscard { job: &run.workload })
        }
        _ => None,
    }));
    all.extend(comparison.metrics.jobs.iter().filter_map(|job| noise(&comparison.metrics, job)));
    if study.runs.iter().any(|run| run.provenance == Provenance::Modelled) {
        all.push(Finding::Modelled);
    }
    if !study.runs.is_empty() && !comparison.has_months() {
        all.push(Finding::NoMonths);
    }
    all
}

/// Difference between batched and no trimming before the trim: the noise of equal work.
fn noise<'a>(metrics: &Metrics<'a>, job: &'a str) -> Option<Finding<'a>> {
    let times = |policy: &str| samples(metrics.find(job, policy)?, FOREGROUND);
    let ratio = compare(times(policy::BATCHED)?, times(policy::NONE)?)?.ratio;
    let most = ratio.max(1.0 / ratio);
    (most > NOISE).then_some(Finding::Noise { job, percent: (most - 1.0) * 100.0 })
}

fn changes<'a>(comparison: &Comparison<'a>, chosen: &str, all: &mut Vec<Finding<'a>>) {
    if let Some(stall) = comparison.stall.filter(|_| chosen == policy::IDLE) {
        let gains_as_much =
            comparison.has_months() && !comparison.beats(policy::IDLE, policy::BATCHED);
        all.push(Finding::BatchedWouldDo {
            seconds: stall.batched_seconds,
            limit_seconds: STALL_SECONDS,
            gains_as_much,
        });
    }
    all.extend(
        comparison
            .gains_of(chosen)
            .filter(|gain| !gain.counts())
            .map(|gain| Finding::GainsNothing(*gain)),
    );
}
