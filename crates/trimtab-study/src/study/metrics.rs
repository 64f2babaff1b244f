//! Figures of the runs of a study: by job, by policy, by fill. The first stage after the runs.

use super::ageing::{BEHIND, CYCLES_PER_TB, RATE_STEADY, TRIM_TIME, WAF_STEADY};
use super::light_work::{BUSY_WAIT, SPARSE_WAIT};
use super::{Study, policy};
use alloc::vec::Vec;
use serde::Serialize;
use trimtab_sim::run::{Field, Provenance, Run, metrics};

/// Metric of the time that the user of the filesystem waits.
pub const FOREGROUND: &str = "foreground.seconds";
/// Key of the environment that names the generation of the filesystem.
pub const GENERATION: &str = "fs.generation";
/// With fewer repeats no difference decides.
pub const REPEATS_MIN: usize = 3;

/// Mean of a metric's repeats; `None` if the run has none of that name.
pub fn mean(run: &Run, metric: &str) -> Option<f64> {
    samples(run, metric).map(average)
}

/// A metric's repeats, if there are any.
pub fn samples<'a>(run: &'a Run, metric: &str) -> Option<&'a [f64]> {
    run.metrics.iter().find(|m| m.name == metric && !m.samples.is_empty()).map(|m| m.samples.as_slice())
}

/// The mean; 0 of none.
pub fn average(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

/// A setting of a run.
pub fn setting<'a>(run: &'a Run, key: &str) -> Option<&'a str> {
    Field::find(&run.settings, key)
}

/// Names in order of first appearance.
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

/// The fills of runs of ageing, in order of first appearance.
pub fn fills(runs: &[Run]) -> Vec<&str> {
    distinct(runs.iter().filter_map(|run| setting(run, "fill")))
}

/// Whether the rate of random writes under load became steady.
pub fn is_steady(run: &Run) -> bool {
    !run.warnings.iter().any(|warning| warning.code.starts_with("steady-state."))
}

/// The generation of the filesystem of a run.
pub fn generation(run: &Run) -> &str {
    Field::find(&run.environment, GENERATION).unwrap_or("?")
}

/// The name of the drive of a run: its description is a name, or a name and details behind a colon.
pub fn drive_name(run: &Run) -> Option<&str> {
    let description = Field::find(&run.environment, "drive.model")?;
    Some(description.split_once(": ").map_or(description, |(name, _)| name))
}

/// The policy that a run amounts to: `as-mounted` is `none` or `online`, as the filesystem was mounted.
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

/// What the device's counters say of the discards of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiscardCount {
    /// Discards were counted.
    Counted,
    /// The counters did not move.
    Zero,
    /// The counters did not move, and the filesystem sends its discards minutes later.
    Queued,
    /// There are no counters.
    Unknown,
}

/// What was counted of the discards of a run.
pub fn discard_count(run: &Run) -> DiscardCount {
    let queued = || run.policy_settings.iter().any(|f| f.key == policy::DISCARD && f.value == "discard=async");
    match samples(run, metrics::DISCARD_COMMANDS) {
        None if queued() => DiscardCount::Queued,
        None => DiscardCount::Unknown,
        Some(counts) if counts.iter().any(|count| *count > 0.0) => DiscardCount::Counted,
        Some(_) if queued() => DiscardCount::Queued,
        Some(_) => DiscardCount::Zero,
    }
}

/// Which load the latency of foreground appends belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AppendLoad {
    /// One durable append every 5 s.
    EveryFiveSeconds,
    /// 50 durable appends a second.
    FiftyPerSecond,
}

/// The longest time of one foreground append, from issue to completion.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WorstLatency<'a> {
    /// Seconds.
    pub seconds: f64,
    /// The workload beside which it was seen.
    pub job: &'a str,
    /// The load.
    pub load: AppendLoad,
}

/// Months of use under one policy at one fill.
#[derive(Clone, Copy, Debug)]
pub struct AgeingFigures<'a> {
    /// The run.
    pub run: &'a Run,
    /// The policy.
    pub policy: &'a str,
    /// How full: `60%`.
    pub fill: &'a str,
    /// Random writes a second under load.
    pub rate: Option<f64>,
    /// Whether that rate became steady.
    pub steady: bool,
    /// Write amplification of the churn.
    pub waf: Option<f64>,
    /// Erase cycles for each 10^12 bytes written.
    pub cycles: Option<f64>,
    /// Sessions of a hundred after which the trimming was not done when the next began.
    pub behind_percent: Option<f64>,
    /// Time spent trimming, seconds.
    pub trim_seconds: Option<f64>,
}

impl<'a> AgeingFigures<'a> {
    /// The figures of a run of ageing or tuning.
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
    /// Policies with a run of deleting or ageing, in the order of the runs.
    pub policies: Vec<&'a str>,
    /// The workloads that delete.
    pub jobs: Vec<&'a str>,
    /// The fills that were aged.
    pub fills: Vec<&'a str>,
    /// Months of use, each policy at each fill.
    pub ageing: Vec<AgeingFigures<'a>>,
    /// Days of use that were modelled.
    pub days: Option<f64>,
    /// Fewest repeats of a workload that deletes.
    pub repeats: usize,
}

impl<'a> Metrics<'a> {
    /// The figures of `study`.
    pub fn of(study: &'a Study) -> Self {
        let number = |key: &str| setting(study.ageing.first()?, key)?.parse::<f64>().ok();
        Self {
            study,
            policies: distinct(study.runs.iter().chain(&study.ageing).map(effective_policy)),
            jobs: jobs(&study.runs),
            fills: fills(&study.ageing),
            ageing: study.ageing.iter().map(AgeingFigures::of).collect(),
            days: number("drive-writes").zip(number("drive-writes-a-day")).map(|(all, daily)| all / daily.max(1e-9)),
            repeats: study.runs.iter().filter_map(|run| samples(run, FOREGROUND)).map(<[f64]>::len).min().unwrap_or(0),
        }
    }

    /// The run of a job under a policy.
    pub fn find(&self, job: &str, policy: &str) -> Option<&'a Run> {
        self.study.runs.iter().find(|run| run.workload == job && effective_policy(run) == policy)
    }

    /// The runs of deleting under a policy.
    pub fn of_policy(&self, policy: &str) -> impl Iterator<Item = &'a Run> {
        self.study.runs.iter().filter(move |run| effective_policy(run) == policy)
    }

    /// Whether files were deleted under a policy.
    pub fn has(&self, policy: &str) -> bool {
        self.of_policy(policy).next().is_some()
    }

    /// Whether discards of a policy were counted: a policy that was not seen to discard cannot be judged.
    pub fn is_counted(&self, policy: &str) -> bool {
        self.of_policy(policy).any(|run| discard_count(run) == DiscardCount::Counted)
    }

    /// Whether any run of the study is under `policy`.
    pub fn was_tried(&self, policy: &str) -> bool {
        self.study.all().any(|run| effective_policy(run) == policy)
    }

    /// Whether any run of deleting was measured.
    pub fn is_measured(&self) -> bool {
        self.study.runs.iter().any(|run| run.provenance == Provenance::Measured)
    }

    /// The repeats of the runs that were measured, where they are too few to tell a difference from noise.
    pub fn too_few_repeats(&self) -> Option<usize> {
        let measured = self.study.runs.iter().filter(|run| run.provenance == Provenance::Measured);
        let few = measured.filter_map(|run| samples(run, FOREGROUND)).map(<[f64]>::len).min();
        few.filter(|repeats| *repeats < REPEATS_MIN)
    }

    /// Months of use under `policy` at `fill`.
    pub fn aged(&self, policy: &str, fill: &str) -> Option<&AgeingFigures<'a>> {
        self.ageing.iter().find(|figures| figures.policy == policy && figures.fill == fill)
    }

    /// The load whose latencies are shown: the sparser, which only modelled drives have.
    pub fn load(&self) -> AppendLoad {
        let sparse = self.study.runs.iter().any(|run| mean(run, SPARSE_WAIT).is_some());
        if sparse { AppendLoad::EveryFiveSeconds } else { AppendLoad::FiftyPerSecond }
    }

    /// The worst foreground latency under `policy`, over all workloads and repeats: the one figure for it wherever it stands.
    pub fn worst_latency(&self, policy: &str) -> Option<WorstLatency<'a>> {
        let of = |metric: &str, load: AppendLoad| {
            let all = self.of_policy(policy).flat_map(|run| {
                let latencies = samples(run, metric).unwrap_or_default();
                latencies.iter().map(|seconds| WorstLatency { seconds: *seconds, job: &run.workload, load })
            });
            all.reduce(|a, b| if b.seconds > a.seconds { b } else { a })
        };
        of(SPARSE_WAIT, AppendLoad::EveryFiveSeconds).or_else(|| of(BUSY_WAIT, AppendLoad::FiftyPerSecond))
    }
}
