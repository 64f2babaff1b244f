//! Sensitivity studies: small studies that change one assumption at a time within a
//! plausible range, all judged by the same rules. For a twin, they also cover other
//! drives that explain the measurements.

use super::ageing::{Ageing, CHURN, CYCLES_PER_TB, DAILY, RATE_STEADY, WAF_STEADY};
use super::cells::{DATA, Question, StudyCell, StudyCellWork, StudyExtent};
use super::ensemble::{Ensemble, Fit, PolicyResult};
use super::job::Job;
use super::light_work::{BUSY_WAIT, SPARSE_P95};
use super::metrics::mean;
use super::modelled::{self, Setup};
use super::problem::StudyError;
use super::recommendation::Recommendation;
use super::scale::Scale;
use super::sensitivity::{Assumption, AssumptionResult, Sensitivity, SensitivityRow};
use super::small::SmallDrive;
use super::used::LayoutSource;
use super::verdict::Verdict;
use super::{Study, policy};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::spec::{DriveSpec, Flash};
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::{Run, TargetKind};
use trimtab_sim::workload::churn;

const SCALE: Scale = Scale { name: "assumptions", divisor: 20, repeats: 1 };
const SMALL: Months = Months { size: Bytes(1_000_000_000), drive_writes: 1.0, thorough: false };
/// Workload name in the hash of each cell.
const WORKLOAD: &str = "assumptions";
const FILL_MIN: f64 = 0.2;

/// Number of assumptions to vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breadth {
    /// None; for a twin, only other drives that fit.
    Drives,
    /// The assumptions that change a recommendation most often.
    Few,
    /// All assumptions.
    All,
}

impl Breadth {
    fn includes(self, assumption: Assumption) -> bool {
        match self {
            Self::All => true,
            Self::Few => [Assumption::TrimCost, Assumption::Fill].contains(&assumption),
            Self::Drives => false,
        }
    }

    /// Number of candidate drives of a twin to test.
    const fn members(self) -> usize {
        match self {
            Self::All => 16,
            Self::Few | Self::Drives => 8,
        }
    }
}

/// Header of the run, known before it begins.
pub fn header(setup: &Setup) -> Run {
    Run::new(
        WORKLOAD,
        Vec::new(),
        TargetKind::ModelledVolume,
        &setup.label,
        policy::NONE,
        setup.seed,
    )
}

#[derive(Debug, Clone, Copy)]
struct Months {
    size: Bytes,
    drive_writes: f64,
    thorough: bool,
}

#[derive(Debug, Clone)]
struct TrialCase {
    setup: Setup,
    mix: churn::Settings,
    daily: f64,
    months: Months,
}

impl TrialCase {
    /// The months of the main study on another drive, so that only the drive differs.
    fn member(&self, spec: &DriveSpec, extent: &StudyExtent) -> Self {
        let mut other = self.clone();
        other.setup.drive.spec = spec.clone();
        other.setup.drive.twin = None;
        other.months =
            Months { size: extent.aged, drive_writes: extent.drive_writes, thorough: true };
        other
    }

    /// The runs of the small study.
    ///
    /// # Errors
    /// The drive is impossible.
    fn cells(&self, policies: &[PolicySpec]) -> Result<Vec<StudyCell>, StudyError> {
        let small = SmallDrive::of(&self.setup.drive.spec, SMALL.size)?;
        let mut beside = self.setup.clone();
        beside.drive.spec = small.spec;
        let jobs: Vec<Job> = SCALE
            .jobs(self.setup.seed)?
            .into_iter()
            .filter(|job| matches!(job, Job::Tree { .. }))
            .collect();
        let mut cells = Vec::new();
        for policy in policies {
            for job in &jobs {
                let work = StudyCellWork::Job {
                    setup: Box::new(beside.clone()),
                    job: job.clone(),
                    brief: true,
                    size: None,
                };
                cells.push(StudyCell { question: Question::Deleting, work, policy: *policy });
            }
            let Months { size, drive_writes, thorough } = self.months;
            let mut ageing = Ageing::new(self.setup.clone(), self.setup.fill, DATA, drive_writes);
            (ageing.size, ageing.mix, ageing.daily, ageing.thorough) =
                (size, self.mix, self.daily, thorough);
            cells.push(StudyCell {
                question: Question::Ageing,
                work: StudyCellWork::Months(Box::new(ageing)),
                policy: *policy,
            });
        }
        Ok(cells)
    }
}

fn recommended(runs: Vec<Run>) -> Recommendation {
    let (ageing, runs) = runs.into_iter().partition(|run| run.workload == CHURN);
    Verdict::of(&Study { runs, ageing, complete: true, ..Study::default() }).recommendation
}

fn fit(runs: Vec<Run>) -> Fit {
    let wait = |policy: &str| {
        let of_policy = runs.iter().filter(|run| run.policy == policy);
        of_policy
            .filter_map(|run| mean(run, BUSY_WAIT).or_else(|| mean(run, SPARSE_P95)))
            .reduce(f64::max)
    };
    let shown = |run: &Run| PolicyResult {
        policy: run.policy.clone(),
        rate: mean(run, RATE_STEADY),
        waf: mean(run, WAF_STEADY),
        cycles_per_tb: mean(run, CYCLES_PER_TB),
        wait_s: wait(&run.policy),
    };
    let policies = runs.iter().filter(|run| run.workload == CHURN).map(shown).collect();
    Fit { recommended: recommended(runs), policies }
}

/// One trial: the assumption, its current value, the value to try, and the resulting
/// case.
struct Trial {
    assumption: Assumption,
    assumed: String,
    value: String,
    case: TrialCase,
}

/// Small studies to run: one with all assumptions unchanged, and one per changed
/// assumption.
pub struct Trials {
    base: TrialCase,
    trials: Vec<Trial>,
    /// For a twin: other drives that explain the measurements.
    members: Vec<TrialCase>,
    policies: Vec<PolicySpec>,
}

impl Trials {
    /// Creates the trials. Returns `None` if the drive has no TRIM.
    ///
    /// # Errors
    /// The filesystem cannot be created.
    pub fn new(
        setup: &Setup,
        policies: &[PolicySpec],
        breadth: Breadth,
        extent: &StudyExtent,
        layouts: &mut LayoutSource<'_>,
    ) -> Result<Option<Self>, StudyError> {
        let flash = &setup.drive.spec.flash;
        if !flash.trim.supported {
            return Ok(None);
        }
        let mix = churn::Settings { class: DATA, ..churn::Settings::default() };
        let mut base = TrialCase { setup: setup.clone(), mix, daily: DAILY, months: SMALL };
        if base.setup.fill < FILL_MIN {
            // An empty filesystem has no files to delete or create.
            base.setup.fill = FILL_MIN;
            base.setup.used = layouts(&setup.volume, FILL_MIN, setup.seed)?;
        }
        let mut trials = Vec::new();
        if breadth != Breadth::Drives {
            trials.extend(of_drive(&base, flash));
            trials.extend(of_use(&base, layouts)?);
            trials.retain(|trial| breadth.includes(trial.assumption));
        }
        let twin = setup.drive.twin.as_ref();
        let members = twin.map(|twin| {
            twin.members
                .iter()
                .take(breadth.members())
                .map(|member| base.member(member, extent))
                .collect()
        });
        Ok(Some(Self {
            base,
            trials,
            members: members.unwrap_or_default(),
            policies: policies.to_vec(),
        }))
    }

    /// The cells of each study. The unchanged study comes first if there are changed ones
    /// to compare with it. An item is an error if its drive is impossible.
    pub fn studies(&self) -> impl Iterator<Item = Result<Vec<StudyCell>, StudyError>> {
        let unchanged = (!self.trials.is_empty()).then_some(&self.base);
        unchanged
            .into_iter()
            .chain(self.trials.iter().map(|trial| &trial.case))
            .chain(&self.members)
            .map(|case| case.cells(&self.policies))
    }

    /// Judges the runs of each study. An impossible changed drive is skipped.
    ///
    /// # Errors
    /// The unchanged drive is impossible.
    pub fn judge<E>(
        self,
        studies: impl IntoIterator<Item = Result<Vec<Run>, E>>,
    ) -> Result<Option<Sensitivity>, E> {
        let mut studies = studies.into_iter();
        let mut sensitivity = Sensitivity::default();
        if !self.trials.is_empty() {
            let Some(unchanged) = studies.next() else { return Ok(None) };
            sensitivity.recommended = Some(recommended(unchanged?));
        }
        let mut studies = studies.map(Result::ok);
        for (trial, runs) in self.trials.into_iter().zip(studies.by_ref()) {
            // Skips impossible drives, such as one with too little spare space for its
            // open blocks.
            let Some(recommended) = runs.map(recommended) else { continue };
            let tried = AssumptionResult { value: trial.value, recommended };
            match sensitivity.rows.iter_mut().find(|row| row.assumption == trial.assumption) {
                Some(row) => row.tried.push(tried),
                None => {
                    sensitivity.rows.push(SensitivityRow {
                        assumption: trial.assumption,
                        assumed: trial.assumed,
                        tried: vec![tried],
                    });
                }
            }
        }
        let fits = studies.map(|runs| runs.map(fit)).collect();
        sensitivity.ensemble =
            self.base.setup.drive.twin.as_ref().and_then(|twin| Ensemble::new(twin, fits));
        Ok(Some(sensitivity))
    }
}

/// All inputs of the small studies as text.
pub fn detail(
    setup: &Setup,
    policies: &[PolicySpec],
    breadth: Breadth,
    extent: &StudyExtent,
) -> String {
    format!(
        "{setup:?} {policies:?} {SMALL:?} {SCALE:?} {breadth:?} {:?} {}",
        extent.aged, extent.drive_writes
    )
}

fn of_drive(base: &TrialCase, flash: &Flash) -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add =
        |assumption: Assumption, assumed: String, value: String, change: &dyn Fn(&mut Flash)| {
            let mut case = base.clone();
            change(&mut case.setup.drive.spec.flash);
            trials.push(Trial { assumption, assumed, value, case });
        };
    let gc = &flash.ftl.gc;
    for free in [2, 16] {
        add(Assumption::FreeSuperblocks, gc.idle_free.to_string(), free.to_string(), &|flash| {
            flash.ftl.gc.idle_free = free
        });
    }
    let seconds =
        |ns: Option<u64>| ns.map_or_else(|| "never".to_owned(), |ns| Nanos(ns).to_string());
    for delay in [Some(100_000_000), None] {
        add(Assumption::IdleDelay, seconds(gc.idle_delay_ns), seconds(delay), &|flash| {
            flash.ftl.gc.idle_delay_ns = delay
        });
    }
    for (times, divisor) in [(1, 2), (2, 1)] {
        let text = |spec: &DriveSpec| format!("{:.1} %", spare_percent(spec));
        let mut case = base.clone();
        case.setup.drive.spec = with_spare(&base.setup.drive.spec, times, divisor);
        let value = text(&case.setup.drive.spec);
        trials.push(Trial {
            assumption: Assumption::SpareSpace,
            assumed: text(&base.setup.drive.spec),
            value,
            case,
        });
    }
    trials.extend(of_trim(base, flash));
    trials
}

/// Trials for the cost of a TRIM: alternatives from the specification that also fit
/// published figures, otherwise a tenth and ten times the cost.
fn of_trim(base: &TrialCase, flash: &Flash) -> Vec<Trial> {
    let text = |flash: &Flash| {
        let trim = &flash.trim;
        let ns = |ns: u64| Nanos(ns);
        format!(
            "{} per command, {} per range, {} per mapped unit",
            ns(trim.command_ns),
            ns(trim.range_ns),
            ns(trim.unit_ns)
        )
    };
    let others: Vec<DriveSpec> = if base.setup.drive.alternatives.is_empty() {
        let scaled = |times: u64, divisor: u64| {
            let mut case = base.clone();
            let trim = &mut case.setup.drive.spec.flash.trim;
            for cost in
                [&mut trim.command_ns, &mut trim.range_ns, &mut trim.unit_ns, &mut trim.gb_ns]
            {
                *cost = cost.saturating_mul(times) / divisor;
            }
            case.setup.drive.spec
        };
        vec![scaled(1, 10), scaled(10, 1)]
    } else {
        base.setup.drive.alternatives.iter().map(|alternative| alternative.spec.clone()).collect()
    };
    let trial = |spec: DriveSpec| {
        let mut case = base.clone();
        case.setup.drive.spec = spec;
        let value = text(&case.setup.drive.spec.flash);
        Trial { assumption: Assumption::TrimCost, assumed: text(flash), value, case }
    };
    others.into_iter().map(trial).collect()
}

fn of_use(base: &TrialCase, layouts: &mut LayoutSource<'_>) -> Result<Vec<Trial>, StudyError> {
    let mut trials = Vec::new();
    let mut add = |assumption: Assumption,
                   assumed: String,
                   value: String,
                   change: &dyn Fn(&mut TrialCase)| {
        let mut case = base.clone();
        change(&mut case);
        trials.push(Trial { assumption, assumed, value, case });
    };
    let setup = &base.setup;
    for gib in [1_u64, 32] {
        let text = |bytes: u64| format!("{:.0} GiB", bytes as f64 / (1_u64 << 30) as f64);
        let assumed = text(setup.volume.writeback.memory.0);
        add(Assumption::HostMemory, assumed, text(gib << 30), &|case| {
            case.setup.volume.writeback.memory = Bytes(gib << 30)
        });
    }
    for (median, text) in [(8e3, "8 kB"), (400e3, "400 kB")] {
        add(Assumption::FileSize, "40 kB".to_owned(), text.to_owned(), &|case| {
            case.mix.median = median
        });
    }
    for daily in [0.01, 0.5] {
        let text = |daily: f64| format!("{:.0} % of the drive", daily * 100.0);
        add(Assumption::DailyWrites, text(base.daily), text(daily), &|case| case.daily = daily);
    }
    let other = if setup.volume.journal.converts_after_write { "ext4-2011" } else { "ext4" };
    let volume = modelled::volume_named(other);
    add(
        Assumption::Filesystem,
        modelled::generation(&setup.volume).to_owned(),
        modelled::generation(&volume).to_owned(),
        &|case| {
            case.setup.volume = volume.clone();
        },
    );
    for fill in [0.3, 0.9] {
        let used = layouts(&setup.volume, fill, setup.seed)?;
        add(
            Assumption::Fill,
            format!("{:.0} %", setup.fill * 100.0),
            format!("{:.0} %", fill * 100.0),
            &|case| {
                (case.setup.fill, case.setup.used) = (fill, used.clone());
            },
        );
    }
    Ok(trials)
}

fn spare_percent(spec: &DriveSpec) -> f64 {
    let flash = &spec.flash;
    (flash.geometry.raw_bytes() as f64 / spec.capacity_bytes.max(1) as f64 - 1.0) * 100.0
}

/// `spec` with its spare space multiplied by `times / divisor`.
fn with_spare(spec: &DriveSpec, times: u128, divisor: u128) -> DriveSpec {
    let mut spec = spec.clone();
    let flash = &mut spec.flash;
    let capacity = u128::from(spec.capacity_bytes);
    let spare = flash.geometry.raw_bytes().saturating_sub(capacity) * times / divisor;
    let permille = (spare * 1000).div_ceil(capacity.max(1));
    flash.geometry =
        flash.geometry.clone().with_over_provisioning(spec.capacity_bytes, permille as u32);
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::used::FreeExtentLengths;
    use trimtab_drive::shipped::{drive, drives};
    use trimtab_drive::spec::Trim;

    fn case(name: &str) -> TrialCase {
        let setup = Setup {
            drive: drive(name),
            label: name.to_owned(),
            volume: modelled::volume_named("ext4"),
            fill: 0.6,
            fill_class: DATA,
            used: FreeExtentLengths::by_churn(&modelled::volume_named("ext4"), 0.6, 1).unwrap(),
            seed: 1,
        };
        TrialCase {
            setup,
            mix: churn::Settings { class: DATA, ..churn::Settings::default() },
            daily: DAILY,
            months: SMALL,
        }
    }

    #[test]
    fn free_trim_is_sent_at_once_and_expensive_one_is_not() {
        let policies =
            modelled::policies(&["none", "online", "batched", "idle"].map(str::to_owned)).unwrap();
        let mut case = case("ocz-vertex-le-100gb");
        let said = |case: &TrialCase| {
            let runs = case
                .cells(&policies)
                .unwrap()
                .iter()
                .map(|cell| cell.run(&mut ()).unwrap().0)
                .collect();
            recommended(runs)
        };
        assert_ne!(said(&case), Recommendation::Use(policy::ONLINE));
        let flash = &mut case.setup.drive.spec.flash;
        flash.trim = Trim {
            command_ns: 0,
            range_ns: 0,
            unit_ns: 0,
            gb_ns: 0,
            queued: true,
            ..flash.trim.clone()
        };
        assert_eq!(said(&case), Recommendation::Use(policy::ONLINE));
    }

    #[test]
    fn each_trial_changes_one_assumption() {
        for drive in drives() {
            let flash = &drive.spec.flash;
            let case = TrialCase {
                setup: Setup { drive: drive.clone(), ..case("ocz-vertex-le-100gb").setup },
                ..case("ocz-vertex-le-100gb")
            };
            let trials = of_drive(&case, flash);
            let assumptions: std::collections::BTreeSet<_> =
                trials.iter().map(|trial| trial.assumption).collect();
            assert_eq!(assumptions.len(), 4, "{}", drive.spec.name);
            let of_use = of_use(&case, &mut FreeExtentLengths::by_churn).unwrap();
            let all: std::collections::BTreeSet<Assumption> =
                trials.iter().chain(&of_use).map(|trial| trial.assumption).collect();
            let count =
                |breadth: Breadth| all.iter().filter(|name| breadth.includes(**name)).count();
            assert_eq!((count(Breadth::Few), count(Breadth::All)), (2, 9), "{}", drive.spec.name);
            for trial in trials.iter().filter(|trial| trial.assumption == Assumption::SpareSpace) {
                let (was, is) =
                    (spare_percent(&drive.spec), spare_percent(&trial.case.setup.drive.spec));
                assert!(
                    (is / was - 2.0).abs() < 0.2 || (is / was - 0.5).abs() < 0.2,
                    "{}: {was} {is}",
                    drive.spec.name
                );
            }
        }
    }
}
