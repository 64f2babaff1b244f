//! The verdict on a study, real or modelled: the last stage before the text.

mod decision;
mod evidence;
pub mod finding;
mod reasons;
#[cfg(test)]
mod tests;

use super::comparison::gains::{self, Gain, TrimTimeShare};
use super::comparison::latency::{BLINK_SECONDS, TestResult};
use super::comparison::{Comparison, PolicyLatency};
use super::metrics::{
    AppendLoad, DiscardCount, REPEATS_MIN, discard_count, effective_policy, samples,
};
use super::recommendation::Recommendation;
use super::sensitivity::Assumption;
use super::untried::OmissionReason as UntriedReason;
use super::{Study, policy};
use alloc::vec;
use alloc::vec::Vec;
pub use decision::Rule;
use finding::{Finding, RecommendationReason, UntestedPolicy};
use serde::Serialize;
use trimtab_sim::run::{Provenance, Run, metrics};

/// Smallest percentage of time spent trimming that is reported before anything is
/// applied.
const TRIMMING_TOLD_PERCENT: f64 = 1.0;

/// Confidence in a recommendation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Confidence {
    /// There is no recommendation, or no basis for a confidence.
    None,
    /// The recommended policy was not run.
    NotTried {
        /// The policy.
        policy: &'static str,
    },
    /// Based on repeated measurements.
    Repeats {
        /// Smallest number of repeats of a workload.
        repeats: usize,
        /// True if they can tell a difference from noise.
        enough: bool,
    },
    /// Assumptions were not varied.
    NotVaried,
    /// Assumptions were varied one at a time.
    Assumptions {
        /// Number of varied assumptions.
        varied: usize,
        /// Those that change the recommendation of the small studies that vary them.
        decisive: Vec<Assumption>,
        /// That recommendation with nothing varied, if it is not the study's.
        otherwise: Option<Recommendation>,
    },
}

/// Recommendation at another fill level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FillRecommendation<'a> {
    /// Fill level.
    pub fill: &'a str,
    /// The recommendation.
    pub recommendation: Recommendation,
    /// Its gain over batched trims, if both were aged.
    pub gain: Option<Gain<'a>>,
}

/// The verdict on a study.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict<'a> {
    /// The comparison behind the verdict.
    #[serde(skip)]
    pub comparison: Comparison<'a>,
    /// The recommendation.
    pub recommendation: Recommendation,
    /// The rule behind the recommendation.
    pub rule: Rule,
    /// Confidence in the recommendation.
    pub confidence: Confidence,
    /// The foreground latency under the recommended policy.
    pub latency: Option<PolicyLatency<'a>>,
    /// Gain of the recommended policy over no trimming, by fill level.
    pub gains: Vec<Gain<'a>>,
    /// Gain over batched trims, which most systems use.
    pub gains_over_batched: Vec<Gain<'a>>,
    /// Recommendations at the other fill levels.
    pub other_fills: Vec<FillRecommendation<'a>>,
    /// Time that the recommended policy spends trimming, if more than one per cent.
    pub time_trimming: Option<TrimTimeShare>,
    /// Figures of the recommendation itself.
    pub findings: Vec<Finding<'a>>,
    /// Reasons: at most two.
    #[serde(skip)]
    pub reasons: Vec<RecommendationReason<'a>>,
    /// Figures that support the verdict.
    #[serde(skip)]
    pub evidence: Vec<Finding<'a>>,
    /// Conditions that would change the verdict, and untested parts.
    #[serde(skip)]
    pub caveats: Vec<Finding<'a>>,
}

impl<'a> Verdict<'a> {
    /// Judges a study.
    #[must_use]
    pub fn of(study: &'a Study) -> Self {
        let comparison = Comparison::of(study);
        let (recommendation, rule) = decision::decide(&comparison);
        let of_chosen = |gains: &[Gain<'a>]| -> Vec<Gain<'a>> {
            gains
                .iter()
                .copied()
                .filter(|gain| Some(gain.policy) == recommendation.policy())
                .collect()
        };
        let over_batched = gains::gains(&comparison.metrics, policy::BATCHED);
        let trimming = recommendation
            .policy()
            .and_then(|policy| gains::time_trimming(&comparison.metrics, policy));
        Self {
            recommendation,
            rule,
            confidence: confidence(&comparison, own(recommendation, rule)),
            latency: recommendation.policy().and_then(|policy| comparison.latency(policy)),
            gains: of_chosen(&comparison.gains),
            gains_over_batched: of_chosen(&over_batched),
            other_fills: other_fills(&comparison, &over_batched),
            time_trimming: trimming.filter(|time| time.percent() > TRIMMING_TOLD_PERCENT),
            findings: findings(&comparison, recommendation),
            reasons: reasons::reasons(&comparison, recommendation),
            evidence: evidence::evidence(&comparison),
            caveats: evidence::caveats(&comparison, recommendation),
            comparison,
        }
    }

    /// Judges each study.
    #[must_use]
    pub fn all(studies: &'a [Study]) -> Vec<Self> {
        studies.iter().map(Self::of).collect()
    }

    /// The study.
    #[must_use]
    pub const fn study(&self) -> &'a Study {
        self.comparison.study()
    }

    /// The recommendation without regard to other drives that fit a twin.
    #[must_use]
    pub const fn own(&self) -> Recommendation {
        own(self.recommendation, self.rule)
    }

    /// The recommended policy, as named in runs.
    #[must_use]
    pub const fn policy(&self) -> Option<&'static str> {
        self.recommendation.policy()
    }

    /// The policy that was run without a counted discard, if that prevents a
    /// recommendation.
    #[must_use]
    pub fn untested(&self) -> UntestedPolicy {
        untested(&self.comparison)
    }

    /// True if every policy other than no trimming was skipped because the drive has no
    /// TRIM.
    #[must_use]
    pub fn is_without_trim(&self) -> bool {
        let untried = &self.study().untried;
        !untried.is_empty() && untried.iter().all(|untried| untried.reason == UntriedReason::NoTrim)
    }
}

const fn own(recommendation: Recommendation, rule: Rule) -> Recommendation {
    match rule {
        Rule::Undecided { twin } => twin,
        _ => recommendation,
    }
}

fn other_fills<'a>(
    comparison: &Comparison<'a>,
    over_batched: &[Gain<'a>],
) -> Vec<FillRecommendation<'a>> {
    let fills = comparison
        .metrics
        .fills
        .iter()
        .skip(1)
        .filter(|_| comparison.has_months() && !comparison.metrics.study.runs.is_empty());
    let one = |fill: &&'a str| {
        let (recommendation, _) = decision::by_months(comparison, fill);
        let gain = over_batched
            .iter()
            .find(|gain| gain.fill == *fill && Some(gain.policy) == recommendation.policy());
        FillRecommendation { fill, recommendation, gain: gain.copied() }
    };
    fills.map(one).collect()
}

fn confidence(comparison: &Comparison<'_>, recommendation: Recommendation) -> Confidence {
    let metrics = &comparison.metrics;
    let Some(first) = metrics.study.all().next().filter(|_| recommendation.is_answer()) else {
        return Confidence::None;
    };
    if let Some(policy) = recommendation.policy().filter(|policy| !metrics.was_tried(policy)) {
        return Confidence::NotTried { policy };
    }
    match (first.provenance, metrics.repeats, &metrics.study.sensitivity) {
        (Provenance::Measured, 0, _) => Confidence::None,
        (Provenance::Measured, repeats, _) => {
            Confidence::Repeats { repeats, enough: metrics.too_few_repeats().is_none() }
        }
        (_, _, None) => Confidence::NotVaried,
        (_, _, Some(sensitivity)) => Confidence::Assumptions {
            varied: sensitivity.rows.len(),
            decisive: sensitivity.decisive().iter().map(|row| row.assumption).collect(),
            otherwise: sensitivity.recommended.filter(|other| *other != recommendation),
        },
    }
}

fn findings<'a>(comparison: &Comparison<'a>, recommendation: Recommendation) -> Vec<Finding<'a>> {
    use policy::{ADAPTIVE, BATCHED, IDLE, NONE, ONLINE};
    let metrics = &comparison.metrics;
    let (trim_time, online) =
        (trim_time(comparison), comparison.online_cost.map(Finding::OnlineCost));
    let months = |policy: &'a str| months(comparison, policy);
    let mut all: Vec<Option<Finding<'a>>> = match recommendation {
        Recommendation::Use(IDLE) => match comparison.stall {
            Some(stall) => vec![Some(Finding::Stall(stall)), months(IDLE), online],
            None => vec![months(IDLE), online, Some(Finding::NotCompared { policy: BATCHED })],
        },
        Recommendation::Use(ONLINE) if comparison.has_months() => vec![months(ONLINE), online],
        Recommendation::Use(NONE) => {
            let stall =
                comparison.stall.and_then(|_| comparison.latency(BATCHED)).map(Finding::Latency);
            vec![online, stall]
        }
        Recommendation::Use(ADAPTIVE) => vec![months(ADAPTIVE), online, trim_time],
        Recommendation::Use(BATCHED) if online.is_some() => {
            vec![online, months(BATCHED), trim_time]
        }
        Recommendation::Use(BATCHED) => {
            vec![trim_time, Some(Finding::NotCompared { policy: ONLINE })]
        }
        Recommendation::Use(policy) => vec![months(policy), trim_time],
        Recommendation::NoDifference => vec![trim_time],
        Recommendation::NotTested => {
            vec![
                Some(Finding::Untested(untested(comparison))),
                trim_time.filter(|_| metrics.is_counted(BATCHED)),
            ]
        }
        Recommendation::TooFewRepeats => {
            let few = metrics.too_few_repeats();
            let few = few.map(|repeats| Finding::TooFewRepeats {
                repeats,
                needed: REPEATS_MIN,
                seen: comparison.online_cost,
            });
            vec![few, trim_time]
        }
        Recommendation::Unknown if metrics.has(BATCHED) && !metrics.has(NONE) => {
            vec![Some(Finding::NoBaseline), trim_time]
        }
        Recommendation::Unknown => {
            let trims = |run: &&Run| effective_policy(run) != NONE;
            let runs = &metrics.study.runs;
            let only = runs
                .iter()
                .find(trims)
                .or(runs.first())
                .filter(|only| runs.iter().filter(trims).all(|run| run.policy == only.policy));
            let only = only.map(|run| Finding::OnlyPolicy {
                policy: &run.policy,
                discard: evidence::mounted(run),
            });
            vec![only, trim_time]
        }
        Recommendation::NeverDone | Recommendation::Blocked | Recommendation::Undecided => {
            Vec::new()
        }
    };
    let priced = recommendation.trimming_policy().filter(|policy| *policy != IDLE);
    let sparse = priced.filter(|policy| {
        metrics
            .append_latency(policy)
            .is_some_and(|latency| latency.load == AppendLoad::EveryFiveSeconds)
    });
    let latency = sparse
        .and_then(|policy| comparison.latency(policy))
        .filter(|latency| latency.seconds > BLINK_SECONDS);
    all.push(latency.map(Finding::Latency));
    all.into_iter().flatten().collect()
}

/// Gains of `policy` over months; `None` if months of use were not run.
fn months<'a>(comparison: &Comparison<'a>, policy: &'a str) -> Option<Finding<'a>> {
    let days = comparison.metrics.days;
    let gains = comparison.gains_of(policy).copied().filter(Gain::counts).collect();
    comparison.gains_of(policy).next().map(|_| Finding::Months { policy, days, gains })
}

fn trim_time<'a>(comparison: &Comparison<'a>) -> Option<Finding<'a>> {
    let metrics = &comparison.metrics;
    let times: Vec<f64> = metrics
        .of_policy(policy::BATCHED)
        .filter_map(|run| samples(run, metrics::TRIM_SECONDS))
        .flatten()
        .copied()
        .collect();
    let longer = comparison.test(policy::BATCHED).filter(|test| test.result == TestResult::Longer);
    metrics.has(policy::BATCHED).then(|| Finding::TrimTime {
        trims: times.len(),
        least_seconds: times.iter().copied().reduce(f64::min).unwrap_or(0.0),
        most_seconds: times.iter().copied().reduce(f64::max).unwrap_or(0.0),
        append_seconds: longer.map(|test| test.longest),
    })
}

fn untested(comparison: &Comparison<'_>) -> UntestedPolicy {
    let metrics = &comparison.metrics;
    let online = metrics.has(policy::ONLINE) && !metrics.is_counted(policy::ONLINE);
    let policy = if online { policy::ONLINE } else { policy::BATCHED };
    let discards = metrics.of_policy(policy).next().map_or(DiscardCount::Unknown, discard_count);
    UntestedPolicy { policy, discards }
}
