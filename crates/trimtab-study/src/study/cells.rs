//! The cells of a study on a modelled drive: runs before they are made, as plain values, and which of them answer what. Who runs them, and on how many threads or
//! machines, is the caller's matter, and decides nothing.

use super::ageing::{Ageing, CHURN};
use super::job::Job;
use super::modelled::{self, Beginning, Setup};
use super::policy;
use super::problem::Problem;
use super::scale::Scale;
use super::small::Small;
use super::untried::{Part, Reason, Untried};
use super::used::Used;
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::{Field, Run, TargetKind};
use trimtab_sim::runner::End;
use trimtab_sim::runner::header::Header;
use trimtab_sim::simulate::Watcher;
use trimtab_sim::volume::Atime;

/// Key of the setting that says which question a run of tuning belongs to.
pub const QUESTION: &str = "tuning.question";
/// Key of the setting that says what was set.
pub const CHOICE: &str = "tuning.choice";
/// What files hold in the runs of ageing: what no drive can compress.
pub const DATA: DataClass = DataClass::Random;
/// What they hold in comparison: text and programs.
const COMPRESSIBLE: DataClass = DataClass::Compressible(60);
/// Reads for 100 changes, where access times are compared.
const READ_PERCENT: u64 = 1000;
/// As often is the drive written over for a question of tuning, at most.
const TUNING_DRIVE_WRITES: f64 = 2.0;
/// Where partitions used to begin.
const SECTOR_63: Bytes = Bytes(63 * 512);

/// How much of it is done.
#[derive(Debug, Clone)]
pub struct Extent {
    /// How often the drive is written over.
    pub drive_writes: f64,
    /// The capacity at which that is modelled, if the drive is not smaller.
    pub aged: Bytes,
    /// Shares of the filesystem in use.
    pub fills: Vec<f64>,
    /// Whether to look at ageing.
    pub ageing: bool,
    /// Whether to look at data and tuning.
    pub tuning: bool,
}

/// One modelled run before it is made: everything that decides its result, and nothing else. Cells know nothing of each other, so that they can be run in
/// any order, at once, and anywhere.
#[derive(Clone, Debug)]
pub struct Cell {
    /// What it helps to answer.
    pub question: Question,
    /// What is run.
    pub work: Work,
    /// The trim policy.
    pub policy: PolicySpec,
}

/// What a study can find out by running something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// What deleting costs, and what others wait beside it.
    Deleting,
    /// What months of use do.
    Ageing,
    /// What data and tuning change.
    Tuning,
    /// What deleting costs on the other generation of the filesystem.
    Generation,
}

/// What is run.
#[derive(Clone, Debug)]
pub enum Work {
    /// A job on a filesystem in use, with others beside it.
    Job {
        /// The drive and the filesystem.
        setup: Box<Setup>,
        /// The job.
        job: Job,
        /// No more beside it than is needed to judge.
        brief: bool,
    },
    /// Months of use.
    Months(Box<Ageing>),
}

impl Cell {
    /// The drive and the filesystem.
    pub fn setup(&self) -> &Setup {
        match &self.work {
            Work::Job { setup, .. } => setup,
            Work::Months(ageing) => &ageing.setup,
        }
    }

    /// The memory that it takes at most: its drive, and a copy for what is measured beside.
    pub fn memory(&self) -> Bytes {
        let full = &self.setup().drive.spec;
        let tables = match &self.work {
            Work::Job { .. } => full.table_bytes(),
            Work::Months(ageing) => Small::of(full, ageing.size).map_or_else(|_| full.table_bytes(), |small| small.spec.table_bytes()),
        };
        Bytes(2 * tables)
    }

    /// What it is, in a few words: `x: idle at 60 % full`.
    pub fn title(&self) -> String {
        let drive = self.setup().label.trim_start_matches("drive:");
        match &self.work {
            Work::Job { job, .. } => format!("{drive}: {} under {}", job.name(), self.policy.name()),
            Work::Months(ageing) => {
                let what = Field::find(&ageing.notes, CHOICE).map(|choice| format!(", {choice}")).unwrap_or_default();
                format!("{drive}: {} at {:.0} % full{what}", self.policy.name(), ageing.fill * 100.0)
            }
        }
    }

    /// The part of a study that is not tried where it cannot be run.
    pub fn part(&self) -> Part {
        let policy = self.policy.name().to_owned();
        match self.question {
            Question::Deleting => Part::Policy { policy },
            Question::Ageing => Part::Ageing { policy },
            Question::Tuning => Part::Tuning { policy },
            Question::Generation => Part::Generation,
        }
    }

    /// What is known of its run before it begins. With [`detail`](Self::detail) this is all that decides the result.
    pub fn header(&self) -> Header {
        match &self.work {
            Work::Job { setup, job, .. } => modelled::header(setup, job, &self.policy),
            Work::Months(ageing) => {
                let setup = &ageing.setup;
                let header = Header::new(CHURN, Vec::new(), TargetKind::ModelledVolume, &setup.label, self.policy.name(), setup.seed);
                Header { policy_settings: self.policy.settings(), ..header }
            }
        }
    }

    /// Whatever else decides its result, as text.
    pub fn detail(&self) -> String {
        match &self.work {
            Work::Job { setup, brief: false, .. } => format!("{setup:?}"),
            Work::Job { setup, brief: true, .. } => format!("brief {setup:?}"),
            Work::Months(ageing) => format!("{ageing:?}"),
        }
    }

    /// Makes the run. Only its beginning, and what asked for it, are for whoever has a clock and a command line to add.
    ///
    /// # Errors
    /// A drive or a filesystem that cannot be made, or that fails.
    pub fn run(&self, watcher: &mut dyn Watcher) -> Result<(Run, End), Problem> {
        self.run_from(&mut Setup::in_use, watcher)
    }

    /// The same run for whoever may have a filesystem in use already: cells with the same [`beginning`](Self::beginning) begin with the same one.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_from(&self, beginning: &mut Beginning<'_>, watcher: &mut dyn Watcher) -> Result<(Run, End), Problem> {
        match &self.work {
            Work::Job { setup, job, brief } => modelled::run(setup, job, &self.policy, *brief, beginning, watcher),
            Work::Months(ageing) => ageing.run(&self.policy, watcher),
        }
    }

    /// All that decides the filesystem that it begins with; `None` where that is its own matter.
    pub fn beginning(&self) -> Option<String> {
        match &self.work {
            Work::Job { setup, .. } => Some(setup.beginning()),
            Work::Months(_) => None,
        }
    }
}

/// Each job under each policy that the drive can be under, in the order of the tables.
pub fn deleting(setup: &Setup, jobs: &[Job], policies: &[PolicySpec]) -> Vec<Cell> {
    let possible = |policy: &&PolicySpec| setup.trims() || matches!(policy, PolicySpec::None);
    let cell = |job: &Job, policy: &PolicySpec| Cell {
        question: Question::Deleting,
        work: Work::Job { setup: Box::new(setup.clone()), job: job.clone(), brief: false },
        policy: *policy,
    };
    jobs.iter().flat_map(|job| policies.iter().filter(possible).map(move |policy| cell(job, policy))).collect()
}

/// The policies that a drive which takes no TRIM cannot be under.
pub fn impossible(setup: &Setup, policies: &[PolicySpec]) -> Vec<Untried> {
    let others = policies.iter().filter(|policy| !setup.trims() && !matches!(policy, PolicySpec::None));
    others.map(|policy| Untried { part: Part::policy(policy.name()), reason: Reason::NoTrim }).collect()
}

/// Each policy at each fill.
pub fn ageing(setup: &Setup, policies: &[PolicySpec], extent: &Extent) -> Vec<Cell> {
    let possible = policies.iter().filter(|policy| setup.trims() || matches!(policy, PolicySpec::None));
    let at = |fill: f64, policy: &PolicySpec| {
        let ageing = Ageing::new(setup.clone(), fill, DATA, extent.drive_writes);
        Cell {
            question: Question::Ageing,
            work: Work::Months(Box::new(Ageing { size: extent.aged, pictured: true, ..ageing })),
            policy: *policy,
        }
    };
    possible.flat_map(|policy| extent.fills.iter().map(move |fill| at(*fill, policy))).collect()
}

/// One thing changed at a time.
pub fn tuning(setup: &Setup, policies: &[PolicySpec], extent: &Extent) -> Vec<Cell> {
    let batched = policies.iter().find(|policy| policy.name() == policy::BATCHED && setup.trims());
    let policy = batched.copied().unwrap_or(PolicySpec::None);
    let fill = extent.fills.first().copied().unwrap_or(0.6);
    let months = |setup: Setup, class, question: &str, choice: &str| {
        let mut ageing = Ageing::new(setup, fill, class, extent.drive_writes.min(TUNING_DRIVE_WRITES));
        ageing.size = extent.aged;
        ageing.notes = vec![Field::new(QUESTION, question), Field::new(CHOICE, choice)];
        ageing
    };
    let mut all = Vec::new();
    for (class, choice) in [(DATA, "incompressible"), (COMPRESSIBLE, "compressible by 60 %")] {
        all.push(months(setup.clone(), class, "data", choice));
    }
    for (start, choice) in [(Bytes(1 << 20), "partition from 1 MiB on"), (SECTOR_63, "partition from sector 63 on")] {
        let mut moved = setup.clone();
        moved.volume.start = start;
        all.push(months(moved, DATA, "alignment", choice));
    }
    for atime in [Atime::Strict, Atime::Relative, Atime::Never] {
        let mut changed = setup.clone();
        changed.volume.atime = atime;
        let mut ageing = months(changed, DATA, "access times", &atime.to_string());
        ageing.mix.read_percent = READ_PERCENT;
        ageing.drive_writes = extent.drive_writes.min(1.0);
        all.push(ageing);
    }
    all.into_iter().map(|ageing| Cell { question: Question::Tuning, work: Work::Months(Box::new(ageing)), policy }).collect()
}

/// The workloads on the other generation's filesystem, without discards and with online discard: today's ext4 and the one
/// that first could discard send different commands for the same files. None where online discard is not tried.
///
/// # Errors
/// A filesystem that cannot be made.
pub fn other_generation(setup: &Setup, policies: &[PolicySpec], scale: Scale) -> Result<Vec<Cell>, Problem> {
    if !setup.trims() || !policies.contains(&PolicySpec::Online) {
        return Ok(Vec::new());
    }
    let mut other = setup.clone();
    other.volume = modelled::volume_named(if setup.volume.journal.converts_after_write { "ext4-2011" } else { "ext4" });
    other.used = Used::by_churn(&other.volume, other.fill, setup.seed)?;
    let cell = |job: &Job, policy: PolicySpec| Cell {
        question: Question::Generation,
        work: Work::Job { setup: Box::new(other.clone()), job: job.clone(), brief: true },
        policy,
    };
    let jobs = scale.jobs(setup.seed)?;
    Ok(jobs.iter().flat_map(|job| [PolicySpec::None, PolicySpec::Online].map(|policy| cell(job, policy))).collect())
}
