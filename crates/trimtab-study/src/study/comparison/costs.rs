//! What trimming costs the work beside it, by what counts: measurably longer, and by more than a blink. The recommendation
//! and the reasons that are given for it both stand on this.

use super::difference::compare;
use super::latency::{BLINK_SECONDS, LatencyTest, TestResult};
use crate::study::job::Job;
use crate::study::light_work::{BUSY_WAIT, SPARSE_WAIT};
use crate::study::metrics::{AppendLoad, DiscardCount, FOREGROUND, Metrics, average, discard_count, generation, mean, samples};
use crate::study::{modelled, policy};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use serde::Serialize;
use trimtab_sim::run::Run;

/// Idle trimming is worth it where one operation takes longer than this beside a batched trim, and at most half as long
/// beside an idle one.
pub const STALL_SECONDS: f64 = 0.05;
/// Until the trim `batched` does the same work as `none`, and the more repeats, the better they show what is noise.
const SAME_WORK: [&str; 2] = [policy::NONE, policy::BATCHED];

/// What takes longer with online discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A phase of the work.
    Phase(&'static str),
    /// All of the work.
    WholeWork,
    /// All of the deleting.
    Deleting,
    /// The longest foreground append.
    Append(AppendLoad),
}

impl Part {
    /// Whether it is the work itself, not foreground I/O beside it.
    pub const fn is_work(self) -> bool {
        !matches!(self, Self::Append(_))
    }

    /// Its times in a run, one a repeat.
    fn times(self, run: &Run) -> Option<Vec<f64>> {
        let of = |name: &str| samples(run, name).map(<[f64]>::to_vec);
        match self {
            Self::Phase(phase) => of(&format!("{phase}.seconds")),
            Self::WholeWork => of(FOREGROUND),
            Self::Append(AppendLoad::EveryFiveSeconds) => of(SPARSE_WAIT),
            Self::Append(AppendLoad::FiftyPerSecond) => of(BUSY_WAIT),
            Self::Deleting => {
                let phases: Vec<Vec<f64>> = Job::deleting(&run.workload).iter().filter_map(|phase| Self::Phase(phase).times(run)).collect();
                let repeats = phases.iter().map(Vec::len).min().filter(|repeats| *repeats > 0)?;
                Some((0..repeats).map(|repeat| phases.iter().map(|samples| samples[repeat]).sum()).collect())
            }
        }
    }
}

/// Where online discard costs most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OnlineCost<'a> {
    /// The workload.
    pub job: &'a str,
    /// What takes longer.
    pub part: Part,
    /// With online discard, seconds.
    pub online_seconds: f64,
    /// Without, seconds.
    pub none_seconds: f64,
}

impl OnlineCost<'_> {
    /// How many times as long it takes.
    pub fn times(&self) -> f64 {
        self.online_seconds / self.none_seconds
    }
}

/// The worst foreground latency beside a batched trim, where that is a stall and idle trimming avoids it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stall {
    /// Beside a batched trim, seconds.
    pub batched_seconds: f64,
    /// Beside an idle trim, seconds.
    pub idle_seconds: f64,
}

/// The stall that idle trimming avoids.
pub fn stall(metrics: &Metrics<'_>) -> Option<Stall> {
    let worst = |policy| metrics.worst_latency(policy).filter(|worst| worst.load == AppendLoad::EveryFiveSeconds);
    let (batched, idle) = worst(policy::BATCHED).zip(worst(policy::IDLE))?;
    let (batched_seconds, idle_seconds) = (batched.seconds, idle.seconds);
    (batched_seconds > STALL_SECONDS && idle_seconds <= batched_seconds / 2.0).then_some(Stall { batched_seconds, idle_seconds })
}

/// Whether foreground I/O waits for a batched trim: chance aside where it was measured.
pub fn batched_costs(metrics: &Metrics<'_>, test: Option<&LatencyTest>) -> bool {
    let sparse = Part::Append(AppendLoad::EveryFiveSeconds);
    let modelled = |job: &&str| longer(metrics, job, policy::BATCHED, &[policy::NONE], sparse).is_some();
    test.is_some_and(|test| test.result == TestResult::Longer) || metrics.jobs.iter().any(modelled)
}

/// Mean time of deleting as a whole.
pub fn deleting(metrics: &Metrics<'_>, job: &str, policy: &str) -> Option<f64> {
    Part::Deleting.times(metrics.find(job, policy)?).map(|times| average(&times))
}

/// What online discard slows down most: of the work or, if it slows none of that down, of the foreground appends. `None`
/// where it costs nothing, or was not seen to discard.
pub fn online_cost<'a>(metrics: &Metrics<'a>, test: Option<&LatencyTest>) -> Option<OnlineCost<'a>> {
    fn more<'a>(a: OnlineCost<'a>, b: OnlineCost<'a>) -> OnlineCost<'a> {
        if b.times() > a.times() { b } else { a }
    }
    let sparse = Part::Append(AppendLoad::EveryFiveSeconds);
    let of_work = metrics.jobs.iter().flat_map(|job| of_work(metrics, job)).reduce(more);
    let appends = || metrics.jobs.iter().filter_map(|job| slowed(metrics, job, sparse, &[policy::NONE])).reduce(more);
    of_work.or_else(appends).or_else(|| measured(metrics, test))
}

/// The phases of deleting, all of it, and the whole work, as far as online discard slows them down.
fn of_work<'a>(metrics: &Metrics<'a>, job: &'a str) -> Vec<OnlineCost<'a>> {
    let deleting = pair(metrics, job, policy::ONLINE, &SAME_WORK, Part::Deleting);
    // What one phase takes the more and another the less costs nothing.
    let no_longer = deleting.is_some_and(|(online, without)| average(&online) <= average(&without));
    let phases = Job::deleting(job).iter().filter(|_| !no_longer).map(|phase| Part::Phase(phase));
    let parts = phases.chain([Part::WholeWork, Part::Deleting]);
    parts.filter_map(|part| slowed(metrics, job, part, &SAME_WORK)).collect()
}

/// The appends that were measured with online discard, if they take longer than without.
fn measured<'a>(metrics: &Metrics<'a>, test: Option<&LatencyTest>) -> Option<OnlineCost<'a>> {
    let (online_seconds, none_seconds) = test.filter(|test| test.result == TestResult::Longer)?.longest;
    let job = metrics.of_policy(policy::ONLINE).find(|run| mean(run, BUSY_WAIT).is_some())?.workload.as_str();
    Some(OnlineCost { job, part: Part::Append(AppendLoad::FiftyPerSecond), online_seconds, none_seconds })
}

/// Times of `job` under `policy`, and under the others together.
fn pair(metrics: &Metrics<'_>, job: &str, policy: &str, others: &[&str], part: Part) -> Option<(Vec<f64>, Vec<f64>)> {
    // A run without a discard is not slow because of one.
    let mine = part.times(metrics.find(job, policy).filter(|run| discard_count(run) == DiscardCount::Counted)?)?;
    let runs = others.iter().filter_map(|policy| metrics.find(job, policy));
    let without: Vec<f64> = runs.filter_map(|run| part.times(run)).flatten().collect();
    (!without.is_empty()).then_some((mine, without))
}

/// Means of a time of `job` under `policy` and without, if it is measurably longer, and by more than a blink.
fn longer(metrics: &Metrics<'_>, job: &str, policy: &str, others: &[&str], part: Part) -> Option<(f64, f64)> {
    let (mine, without) = pair(metrics, job, policy, others, part)?;
    let difference = compare(&mine, &without)?;
    let (mine, without) = (average(&mine), average(&without));
    (difference.measurable && difference.ratio > 1.0 && mine - without > BLINK_SECONDS).then_some((mine, without))
}

/// The same of online discard.
fn slowed<'a>(metrics: &Metrics<'a>, job: &'a str, part: Part, others: &[&str]) -> Option<OnlineCost<'a>> {
    let (online_seconds, none_seconds) = longer(metrics, job, policy::ONLINE, others, part)?;
    Some(OnlineCost { job, part, online_seconds, none_seconds })
}

/// Why the difference that online discard makes to deleting does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeletingDoubt {
    /// No discard was counted.
    NoDiscardCounted,
    /// It counts, but on so few repeats.
    FewRepeats(usize),
    /// So few repeats cannot tell.
    CannotTell(usize),
    /// Too short to notice.
    TooShort,
    /// Modelled, and too little to count.
    TooLittle,
    /// Within the scatter of the repeats.
    Scatter,
}

/// Why the difference that online discard makes to deleting does not count, where it does not.
pub fn doubt(metrics: &Metrics<'_>, cost: Option<&OnlineCost<'_>>, job: &str) -> Option<DeletingDoubt> {
    let uncounted = |run: &Run| discard_count(run) != DiscardCount::Counted;
    if metrics.find(job, policy::ONLINE).is_some_and(uncounted) {
        return Some(DeletingDoubt::NoDiscardCounted);
    }
    let (online, without) = pair(metrics, job, policy::ONLINE, &SAME_WORK, Part::Deleting)?;
    let more = average(&online) - average(&without);
    let counts = more > 0.0 && cost.is_some_and(|cost| cost.part.is_work() && cost.job == job);
    match (compare(&online, &without), metrics.too_few_repeats()) {
        (_, Some(few)) if counts => Some(DeletingDoubt::FewRepeats(few)),
        _ if counts => None,
        // So few repeats speak for nothing.
        (_, Some(few)) => Some(DeletingDoubt::CannotTell(few)),
        (Some(difference), _) if difference.measurable && more.abs() > BLINK_SECONDS => None,
        (Some(difference), _) if difference.measurable => Some(DeletingDoubt::TooShort),
        _ if metrics.is_measured() => Some(DeletingDoubt::Scatter),
        _ => Some(DeletingDoubt::TooLittle),
    }
}

/// The same work with another generation of the filesystem.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OtherGeneration {
    /// The generation: "ext4 of Linux 2.6.39".
    pub name: String,
    /// Its kernel: "Linux 2.6.39"; the generation where that is not known.
    pub kernel: String,
    /// With online discard there, seconds.
    pub online_seconds: f64,
    /// How many times as long as without.
    pub times: f64,
}

/// A time without discards and with online discard.
pub fn generation_pair(runs: &[Run], job: &str, part: Part) -> Option<(f64, f64)> {
    let of = |policy: &str| {
        let run = runs.iter().find(|run| run.workload == job && run.policy == policy)?;
        part.times(run).map(|times| average(&times))
    };
    of(policy::NONE).zip(of(policy::ONLINE)).filter(|(none, _)| *none > 0.0)
}

/// The same time on the other generation; `None` if that was not looked at.
pub fn other_generation(metrics: &Metrics<'_>, job: &str, part: Part) -> Option<OtherGeneration> {
    let runs = &metrics.study.kernels;
    let (none, online_seconds) = generation_pair(runs, job, part)?;
    let name = generation(runs.first()?);
    let kernel = modelled::kernel(name).unwrap_or(name);
    Some(OtherGeneration { name: name.to_string(), kernel: kernel.to_string(), online_seconds, times: online_seconds / none })
}
