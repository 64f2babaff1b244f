//! Cost of trimming for concurrent work. A slowdown counts if it is measurable and longer
//! than [`BLINK_SECONDS`]. The recommendation and its reasons use the same costs.

use super::difference::compare;
use super::latency::{BLINK_SECONDS, LatencyTest, TestResult};
use crate::study::job::Job;
use crate::study::light_work::{BUSY_WAIT, SPARSE_P95};
use crate::study::metrics::{
    AppendLoad, DiscardCount, FOREGROUND, Metrics, average, discard_count, mean, samples,
};
use crate::study::policy;
use alloc::format;
use alloc::vec::Vec;
use serde::Serialize;
use trimtab_sim::run::Run;

/// Idle trimming is worthwhile if the foreground latency exceeds this during a batched
/// trim, and is at most half as long during an idle one.
pub const STALL_SECONDS: f64 = 0.05;
/// Until its trim, `batched` does the same work as `none`; more repeats show the noise
/// better.
const SAME_WORK: [&str; 2] = [policy::NONE, policy::BATCHED];

/// The work that online discard slows down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AffectedWork {
    /// A phase of the work.
    Phase(&'static str),
    /// All of the work.
    WholeWork,
    /// All of the deleting.
    Deleting,
    /// Foreground appends: the 95th percentile of one every 5 s, the longest of 50 a
    /// second.
    Append(AppendLoad),
}

impl AffectedWork {
    /// True if it is the work itself, not foreground I/O during it.
    pub const fn is_work(self) -> bool {
        !matches!(self, Self::Append(_))
    }

    fn times(self, run: &Run) -> Option<Vec<f64>> {
        let of = |name: &str| samples(run, name).map(<[f64]>::to_vec);
        match self {
            Self::Phase(phase) => of(&format!("{phase}.seconds")),
            Self::WholeWork => of(FOREGROUND),
            Self::Append(AppendLoad::EveryFiveSeconds) => of(SPARSE_P95),
            Self::Append(AppendLoad::FiftyPerSecond) => of(BUSY_WAIT),
            Self::Deleting => {
                let phases: Vec<Vec<f64>> = Job::deleting(&run.workload)
                    .iter()
                    .filter_map(|phase| Self::Phase(phase).times(run))
                    .collect();
                let repeats = phases.iter().map(Vec::len).min().filter(|repeats| *repeats > 0)?;
                Some(
                    (0..repeats)
                        .map(|repeat| phases.iter().map(|samples| samples[repeat]).sum())
                        .collect(),
                )
            }
        }
    }
}

/// The largest cost of online discard.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OnlineCost<'a> {
    /// The workload.
    pub job: &'a str,
    /// The part that takes longer.
    pub part: AffectedWork,
    /// With online discard, seconds.
    pub online_seconds: f64,
    /// Without, seconds.
    pub none_seconds: f64,
}

impl OnlineCost<'_> {
    /// Slowdown factor.
    pub fn times(&self) -> f64 {
        self.online_seconds / self.none_seconds
    }
}

/// Foreground latency during a batched trim, if it is a stall that idle trimming avoids.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stall {
    /// During a batched trim, seconds.
    pub batched_seconds: f64,
    /// During an idle trim, seconds.
    pub idle_seconds: f64,
}

/// The stall that idle trimming avoids.
pub fn stall(metrics: &Metrics<'_>) -> Option<Stall> {
    let sparse = |policy| {
        let latency = metrics.append_latency(policy)?;
        (latency.load == AppendLoad::EveryFiveSeconds).then_some(latency)
    };
    let (batched, idle) = sparse(policy::BATCHED).zip(sparse(policy::IDLE))?;
    let (batched_seconds, idle_seconds) = (batched.seconds, idle.seconds);
    (batched_seconds > STALL_SECONDS && idle_seconds <= batched_seconds / 2.0)
        .then_some(Stall { batched_seconds, idle_seconds })
}

/// True if a batched trim delays foreground I/O; for measured runs, by more than chance
/// explains.
pub fn batched_costs(metrics: &Metrics<'_>, test: Option<&LatencyTest>) -> bool {
    let sparse = AffectedWork::Append(AppendLoad::EveryFiveSeconds);
    let modelled =
        |job: &&str| longer(metrics, job, policy::BATCHED, &[policy::NONE], sparse).is_some();
    test.is_some_and(|test| test.result == TestResult::Longer) || metrics.jobs.iter().any(modelled)
}

/// Mean total time of deleting.
pub fn deleting(metrics: &Metrics<'_>, job: &str, policy: &str) -> Option<f64> {
    AffectedWork::Deleting.times(metrics.find(job, policy)?).map(|times| average(&times))
}

/// The largest slowdown under online discard: of the work, or of foreground appends if
/// the work is not slower. `None` if there is no cost or no discard was counted.
pub fn online_cost<'a>(
    metrics: &Metrics<'a>,
    test: Option<&LatencyTest>,
) -> Option<OnlineCost<'a>> {
    fn more<'a>(a: OnlineCost<'a>, b: OnlineCost<'a>) -> OnlineCost<'a> {
        if b.times() > a.times() { b } else { a }
    }
    let sparse = AffectedWork::Append(AppendLoad::EveryFiveSeconds);
    let of_work = metrics.jobs.iter().flat_map(|job| of_work(metrics, job)).reduce(more);
    let appends = || {
        metrics
            .jobs
            .iter()
            .filter_map(|job| slowed(metrics, job, sparse, &[policy::NONE]))
            .reduce(more)
    };
    of_work.or_else(appends).or_else(|| measured(metrics, test))
}

/// Slowdowns of deleting, its phases, and the whole work under online discard.
fn of_work<'a>(metrics: &Metrics<'a>, job: &'a str) -> Vec<OnlineCost<'a>> {
    let deleting = pair(metrics, job, policy::ONLINE, &SAME_WORK, AffectedWork::Deleting);
    // A phase that is slower while another is faster by as much has no cost.
    let no_longer = deleting.is_some_and(|(online, without)| average(&online) <= average(&without));
    let phases =
        Job::deleting(job).iter().filter(|_| !no_longer).map(|phase| AffectedWork::Phase(phase));
    let parts = phases.chain([AffectedWork::WholeWork, AffectedWork::Deleting]);
    parts.filter_map(|part| slowed(metrics, job, part, &SAME_WORK)).collect()
}

/// The measured slowdown of foreground appends under online discard, if any.
fn measured<'a>(metrics: &Metrics<'a>, test: Option<&LatencyTest>) -> Option<OnlineCost<'a>> {
    let (online_seconds, none_seconds) =
        test.filter(|test| test.result == TestResult::Longer)?.longest;
    let job = metrics
        .of_policy(policy::ONLINE)
        .find(|run| mean(run, BUSY_WAIT).is_some())?
        .workload
        .as_str();
    Some(OnlineCost {
        job,
        part: AffectedWork::Append(AppendLoad::FiftyPerSecond),
        online_seconds,
        none_seconds,
    })
}

fn pair(
    metrics: &Metrics<'_>,
    job: &str,
    policy: &str,
    others: &[&str],
    part: AffectedWork,
) -> Option<(Vec<f64>, Vec<f64>)> {
    // A run without discards cannot be slow because of them.
    let mine = part.times(
        metrics.find(job, policy).filter(|run| discard_count(run) == DiscardCount::Counted)?,
    )?;
    let runs = others.iter().filter_map(|policy| metrics.find(job, policy));
    let without: Vec<f64> = runs.filter_map(|run| part.times(run)).flatten().collect();
    (!without.is_empty()).then_some((mine, without))
}

/// Mean times under `policy` and `others`, if measurably longer and by [`BLINK_SECONDS`].
fn longer(
    metrics: &Metrics<'_>,
    job: &str,
    policy: &str,
    others: &[&str],
    part: AffectedWork,
) -> Option<(f64, f64)> {
    let (mine, without) = pair(metrics, job, policy, others, part)?;
    let difference = compare(&mine, &without)?;
    let (mine, without) = (average(&mine), average(&without));
    (difference.measurable && difference.ratio > 1.0 && mine - without > BLINK_SECONDS)
        .then_some((mine, without))
}

fn slowed<'a>(
    metrics: &Metrics<'a>,
    job: &'a str,
    part: AffectedWork,
    others: &[&str],
) -> Option<OnlineCost<'a>> {
    let (online_seconds, none_seconds) = longer(metrics, job, policy::ONLINE, others, part)?;
    Some(OnlineCost { job, part, online_seconds, none_seconds })
}

/// Why a difference between deleting with and without online discard does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeletingDoubt {
    /// No discard was counted.
    NoDiscardCounted,
    /// The difference counts, but is based on only this many repeats.
    FewRepeats(usize),
    /// Too few repeats to tell.
    CannotTell(usize),
    /// Too short to notice.
    TooShort,
    /// Modelled, and too small to count.
    TooLittle,
    /// Within the scatter of the repeats.
    Scatter,
}

/// Why the difference that online discard makes to deleting does not count; `None` if it
/// counts.
pub fn doubt(
    metrics: &Metrics<'_>,
    cost: Option<&OnlineCost<'_>>,
    job: &str,
) -> Option<DeletingDoubt> {
    let uncounted = |run: &Run| discard_count(run) != DiscardCount::Counted;
    if metrics.find(job, policy::ONLINE).is_some_and(uncounted) {
        return Some(DeletingDoubt::NoDiscardCounted);
    }
    let (online, without) = pair(metrics, job, policy::ONLINE, &SAME_WORK, AffectedWork::Deleting)?;
    let more = average(&online) - average(&without);
    let counts = more > 0.0 && cost.is_some_and(|cost| cost.part.is_work() && cost.job == job);
    match (compare(&online, &without), metrics.too_few_repeats()) {
        (_, Some(few)) if counts => Some(DeletingDoubt::FewRepeats(few)),
        _ if counts => None,
        // Too few repeats for any conclusion.
        (_, Some(few)) => Some(DeletingDoubt::CannotTell(few)),
        (Some(difference), _) if difference.measurable && more.abs() > BLINK_SECONDS => None,
        (Some(difference), _) if difference.measurable => Some(DeletingDoubt::TooShort),
        _ if metrics.is_measured() => Some(DeletingDoubt::Scatter),
        _ => Some(DeletingDoubt::TooLittle),
    }
}
