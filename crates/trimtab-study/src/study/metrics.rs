//! Figures of the runs of a study by job, policy and fill level. The first stage after
//! the runs.

use super::ageing::{BEHIND, CYCLES_PER_TB, RATE_STEADY, TRIM_TIME, WAF_STEADY};
use super::light_work::{BUSY, BUSY_WAIT, SPARSE, SPARSE_P95};
use super::{Study, policy};
use alloc::vec::Vec;
use serde::Serialize;
use trimtab_sim::run::{Field, Phase, Provenance, Run, metrics};

/// Metric: time that the user of the filesystem waits.
pub const FOREGROUND: &str = "foreground.seconds";
/// Minimum number of repeats for a difference to count.
pub const REPEATS_MIN: usize = 3;

/// Mean of a metric's repeats; `None` if the run does not have the metric.
pub fn mean(run: &Run, metric: &str) -> Option<f64> {
    samples(run, metric).map(average)
}

/// A metric's repeats; `None` if there are none.
pub fn samples<'a>(run: &'a Run, metric: &str) -> Option<&'a [f64]> {
    run.metrics
        .iter()
        .find(|m| m.name == metric && !m.samples.is_empty())
        .map(|m| m.samples.as_slice())
}

/// The mean; 0 for an empty slice.
pub fn average(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

/// Value of a setting of a run.
pub fn setting<'a>(run: &'a Run, key: &str) -> Option<&'a str> {
    Field::find(&run.settings, key)
}

/// Distinct values in order of first appearance.
pub fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut names = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Names of the workloads in order of first appearance.
pub fn jobs(runs: &[Run]) -> Vec<&str> {
    distinct(runs.iter().map(|run| run.workload.as_str()))
}

/// Fill levels of ageing runs in order of first appearance.
pub fn fills(runs: &[Run]) -> Vec<&str> {
    distinct(runs.iter().filter_map(|run| setting(run, "fill")))
}

/// True if the rate of sustained random writes became steady.
pub fn is_steady(run: &Run) -> bool {
    !run.warnings.iter().any(|warning| warning.code.starts_with("steady-state."))
}

/// Name of the drive of a run: its description up to the first colon.
pub fn drive_name(run: &Run) -> Option<&str> {
    let description = Field::find(&run.environment, "drive.model")?;
    Some(description.split_once(": ").map_or(description, |(name, _)| name))
}

/// The effective policy: `as-mounted` is `none` or `online`, depending on mount options.
pub fn effective_policy(run: &Run) -> &str {
    if run.policy != policy::AS_MOUNTED {
        return &run.policy;
    }
    match Field::find(&run.policy_settings, policy::DISCARD) {
        Some("nodiscard") => policy::NONE,
        Some(_) => policy::ONLINE,
        None => policy::AS_MOUNTED,
    }
}

/// Discards of a run according to the device's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiscardCount {
    /// Discards were counted.
    Counted,
    /// The counters did not move.
    Zero,
    /// The counters did not move, but the filesystem sends its discards minutes later.
    Queued,
    /// The device has no counters.
    Unknown,
}

/// State of the discard counters of a run.
pub fn discard_count(run: &Run) -> DiscardCount {
    let queued = || {
        run.policy_settings.iter().any(|f| f.key == policy::DISCARD && f.value == "discard=async")
    };
    match samples(run, metrics::DISCARD_COMMANDS) {
        None if queued() => DiscardCount::Queued,
        None => DiscardCount::Unknown,
        Some(counts) if counts.iter().any(|count| *count > 0.0) => DiscardCount::Counted,
        Some(_) if queued() => DiscardCount::Queued,
        Some(_) => DiscardCount::Zero,
    }
}

/// The load of foreground appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AppendLoad {
    /// One durable append every 5 s.
    EveryFiveSeconds,
    /// 50 durable appends a second.
    FiftyPerSecond,
}

/// The latency of a foreground append from issue to completion: the 95th percentile of one
/// every 5 s, or the longest of 50 a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AppendLatency<'a> {
    /// Seconds.
    pub seconds: f64,
    /// The workload during which it occurred.
    pub job: &'a str,
    /// The load.
    pub load: AppendLoad,
    /// Number of appends, if recorded. Of fewer than 20, the 95th percentile is the longest.
    pub appends: Option<u64>,
}

/// Figures of months of use under one policy at one fill level.
#[derive(Clone, Copy, Debug)]
pub struct AgeingFigures<'a> {
    /// The run.
    pub run: &'a Run,
    /// The policy.
    pub policy: &'a str,
    /// Fill level: `60%`.
    pub fill: &'a str,
    /// Sustained random writes per second.
    pub rate: Option<f64>,
    /// True if that rate became steady.
    pub steady: bool,
    /// Write amplification of the churn.
    pub waf: Option<f64>,
    /// Erase cycles per 10^12 bytes written.
    pub cycles: Option<f64>,
    /// Percentage of sessions that began before the previous trimming had finished.
    pub behind_percent: Option<f64>,
    /// Time spent trimming, seconds.
    pub trim_seconds: Option<f64>,
}

impl<'a> AgeingFigures<'a> {
    /// Extracts the figures of an ageing run.
    pub fn of(run: &'a Run) -> Self {
        let of = |metric: &str| mean(run, metric);
        Self {
            run,
            policy: &run.policy,
            fill: setting(run, "fill").unwrap_or_default(),
            rate: of(RATE_STEADY),
            steady: is_steady(run),
            waf: of(WAF_STEADY),
            cycles: of(CYCLES_PER_TB),
            behind_percent: of(BEHIND),
            trim_seconds: of(TRIM_TIME),
        }
    }
}

/// The figures of a study.
#[derive(Clone, Debug)]
pub struct Metrics<'a> {
    /// The runs.
    pub study: &'a Study,
    /// Policies with a deleting or ageing run, in run order.
    pub policies: Vec<&'a str>,
    /// The workloads that delete.
    pub jobs: Vec<&'a str>,
    /// Fill levels of the ageing runs.
    pub fills: Vec<&'a str>,
    /// Months of use, by policy and fill level.
    pub ageing: Vec<AgeingFigures<'a>>,
    /// Days of use that were modelled.
    pub days: Option<f64>,
    /// Smallest number of repeats of a deleting workload.
    pub repeats: usize,
}

impl<'a> Metrics<'a> {
    /// Extracts the figures of `study`.
    pub fn of(study: &'a Study) -> Self {
        let number = |key: &str| setting(study.ageing.first()?, key)?.parse::<f64>().ok();
        Self {
            study,
            policies: distinct(study.runs.iter().chain(&study.ageing).map(effective_policy)),
            jobs: jobs(&study.runs),
            fills: fills(&study.ageing),
            ageing: study.ageing.iter().map(AgeingFigures::of).collect(),
            days: number("drive-writes")
                .zip(number("drive-writes-a-day"))
                .map(|(all, daily)| all / daily.max(1e-9)),
            repeats: study
                .runs
                .iter()
                .filter_map(|run| samples(run, FOREGROUND))
                .map(<[f64]>::len)
                .min()
                .unwrap_or(0),
        }
    }

    /// The run of a job under a policy.
    pub fn find(&self, job: &str, policy: &str) -> Option<&'a Run> {
        self.study.runs.iter().find(|run| run.workload == job && effective_policy(run) == policy)
    }

    /// The deleting runs under a policy.
    pub fn of_policy(&self, policy: &str) -> impl Iterator<Item = &'a Run> {
        self.study.runs.iter().filter(move |run| effective_policy(run) == policy)
    }

    /// True if there is a deleting run under `policy`.
    pub fn has(&self, policy: &str) -> bool {
        self.of_policy(policy).next().is_some()
    }

    /// True if discards of `policy` were counted; otherwise it cannot be judged.
    pub fn is_counted(&self, policy: &str) -> bool {
        self.of_policy(policy).any(|run| discard_count(run) == DiscardCount::Counted)
    }

    /// True if any run of the study is under `policy`.
    pub fn was_tried(&self, policy: &str) -> bool {
        self.study.all().any(|run| effective_policy(run) == policy)
    }

    /// True if any deleting run was measured.
    pub fn is_measured(&self) -> bool {
        self.study.runs.iter().any(|run| run.provenance == Provenance::Measured)
    }

    /// Number of measured repeats, if too few to tell a difference from noise.
    pub fn too_few_repeats(&self) -> Option<usize> {
        let measured = self.study.runs.iter().filter(|run| run.provenance == Provenance::Measured);
        let few = measured.filter_map(|run| samples(run, FOREGROUND)).map(<[f64]>::len).min();
        few.filter(|repeats| *repeats < REPEATS_MIN)
    }

    /// Months of use under `policy` at `fill`.
    pub fn aged(&self, policy: &str, fill: &str) -> Option<&AgeingFigures<'a>> {
        self.ageing.iter().find(|figures| figures.policy == policy && figures.fill == fill)
    }

    /// The load whose latencies are shown: the sparser one, which only modelled drives
    /// have.
    pub fn load(&self) -> AppendLoad {
        let sparse = self.study.runs.iter().any(|run| mean(run, SPARSE_P95).is_some());
        if sparse { AppendLoad::EveryFiveSeconds } else { AppendLoad::FiftyPerSecond }
    }

    /// The foreground latency under `policy`, of the workload where it is longest. All
    /// parts of a report use this figure.
    pub fn append_latency(&self, policy: &str) -> Option<AppendLatency<'a>> {
        let of = |metric: &str, load: AppendLoad| {
            let phase = match load {
                AppendLoad::EveryFiveSeconds => SPARSE.phase,
                AppendLoad::FiftyPerSecond => BUSY.phase,
            };
            let of_phase =
                |run: &Run| run.phases.iter().find(|one| one.name == phase).map(Phase::ops_total);
            let all = self.of_policy(policy).flat_map(|run| {
                let latencies = samples(run, metric).unwrap_or_default();
                latencies.iter().map(|seconds| AppendLatency {
                    seconds: *seconds,
                    job: &run.workload,
                    load,
                    appends: of_phase(run),
                })
            });
            all.reduce(|a, b| if b.seconds > a.seconds { b } else { a })
        };
        of(SPARSE_P95, AppendLoad::EveryFiveSeconds)
            .or_else(|| of(BUSY_WAIT, AppendLoad::FiftyPerSecond))
    }
}
