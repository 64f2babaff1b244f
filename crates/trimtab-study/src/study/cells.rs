//! The cells of a study on a modelled drive: runs as plain values, before they are made.
//! The caller runs them on any number of threads or machines; the results do not depend
//! on that.

use super::ageing::{Ageing, CHURN};
use super::job::Job;
use super::modelled::{self, Setup, VolumeFactory};
use super::problem::StudyError;
use super::small::SmallDrive;
use super::untried::{OmissionReason, OmittedPart, StudyPart};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::{Run, TargetKind};
use trimtab_sim::runner::Observer;
use trimtab_sim::runner::RunEnd;

/// File content in ageing runs: incompressible.
pub const DATA: DataClass = DataClass::Random;

/// Extent of the ageing runs.
#[derive(Debug, Clone)]
pub struct StudyExtent {
    /// Number of drive-writes.
    pub drive_writes: f64,
    /// Capacity of the modelled drive, if the real one is larger.
    pub aged: Bytes,
    /// Shares of the filesystem in use.
    pub fills: Vec<f64>,
    /// Runs the ageing part.
    pub ageing: bool,
}

/// One modelled run before it is made: exactly the inputs that decide its result. Cells
/// are independent, so they can run in any order, in parallel and on any machine.
#[derive(Clone, Debug)]
pub struct StudyCell {
    /// The question that it helps to answer.
    pub question: Question,
    /// The workload.
    pub work: StudyCellWork,
    /// The trim policy.
    pub policy: PolicySpec,
}

/// A question that a study answers by running workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Cost of deleting, and foreground latency during it.
    Deleting,
    /// Effect of months of use.
    Ageing,
}

/// The workload of a cell.
#[derive(Clone, Debug)]
pub enum StudyCellWork {
    /// A job on a filesystem in use, with foreground I/O during it.
    Job {
        /// The drive and the filesystem.
        setup: Box<Setup>,
        /// The job.
        job: Job,
        /// Limits the foreground load to what the verdict needs.
        brief: bool,
        /// Capacity of a smaller drive of the same design that stands in for a larger
        /// one.
        size: Option<Bytes>,
    },
    /// Months of use.
    Months(Box<Ageing>),
}

impl StudyCell {
    /// The drive and the filesystem.
    pub fn setup(&self) -> &Setup {
        match &self.work {
            StudyCellWork::Job { setup, .. } => setup,
            StudyCellWork::Months(ageing) => &ageing.setup,
        }
    }

    /// Maximum memory: the drive, and a copy for measurements during the run.
    pub fn memory(&self) -> Bytes {
        let full = &self.setup().drive.spec;
        let tables = match &self.work {
            StudyCellWork::Job { setup, size, .. } => setup.at_size(*size).drive.spec.table_bytes(),
            StudyCellWork::Months(ageing) => SmallDrive::of(full, ageing.size)
                .map_or_else(|_| full.table_bytes(), |small| small.spec.table_bytes()),
        };
        Bytes(2 * tables)
    }

    /// The part of a study that is listed as not tested if this cell cannot run.
    pub fn part(&self) -> StudyPart {
        let policy = self.policy.name().to_owned();
        match self.question {
            Question::Deleting => StudyPart::Policy { policy },
            Question::Ageing => StudyPart::Ageing { policy },
        }
    }

    /// Header of the run. Together with [`detail`](Self::detail), it decides the result.
    pub fn header(&self) -> Run {
        match &self.work {
            StudyCellWork::Job { setup, job, .. } => modelled::header(setup, job, &self.policy),
            StudyCellWork::Months(ageing) => {
                let setup = &ageing.setup;
                let header = Run::new(
                    CHURN,
                    Vec::new(),
                    TargetKind::ModelledVolume,
                    &setup.label,
                    self.policy.name(),
                    setup.seed,
                );
                Run { policy_settings: self.policy.settings(), ..header }
            }
        }
    }

    /// All other inputs of the result as text.
    pub fn detail(&self) -> String {
        match &self.work {
            StudyCellWork::Job { setup, brief, size, .. } => {
                let size = size.map(|size| format!("at {} bytes ", size.0)).unwrap_or_default();
                format!("{size}{}{setup:?}", if *brief { "brief " } else { "" })
            }
            StudyCellWork::Months(ageing) => format!("{ageing:?}"),
        }
    }

    /// Makes the run. The caller adds the start time and the command line.
    ///
    /// # Errors
    /// The drive or the filesystem cannot be created, or fails.
    pub fn run(&self, observer: &mut dyn Observer) -> Result<(Run, RunEnd), StudyError> {
        self.run_from(&mut Setup::in_use, observer)
    }

    /// As [`run`](Self::run), but takes the filesystem from `beginning`, which may reuse
    /// one. Cells with the same [`beginning`](Self::beginning) start from the same
    /// filesystem.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_from(
        &self,
        beginning: &mut VolumeFactory<'_>,
        observer: &mut dyn Observer,
    ) -> Result<(Run, RunEnd), StudyError> {
        match &self.work {
            StudyCellWork::Job { setup, job, brief, size } => {
                let used = setup.at_size(*size);
                let (mut run, end) =
                    modelled::run(&used, job, &self.policy, *brief, beginning, observer)?;
                if size.is_some() {
                    modelled::convert_to_full_size(&mut run, &self.policy, setup, &used);
                }
                Ok((run, end))
            }
            StudyCellWork::Months(ageing) => ageing.run(&self.policy, observer),
        }
    }

    /// All inputs of the initial filesystem as text; `None` if the cell creates its own.
    pub fn beginning(&self) -> Option<String> {
        match &self.work {
            StudyCellWork::Job { setup, size, .. } => Some(setup.at_size(*size).beginning()),
            StudyCellWork::Months(_) => None,
        }
    }
}

/// One cell for each job and each policy that the drive supports, in table order. A drive
/// of `size` stands in for a larger SSD.
pub fn deleting(
    setup: &Setup,
    jobs: &[Job],
    policies: &[PolicySpec],
    size: Option<Bytes>,
) -> Vec<StudyCell> {
    let possible = |policy: &&PolicySpec| setup.trims() || matches!(policy, PolicySpec::None);
    let spec = &setup.drive.spec;
    let size = size.filter(|size| size.0 < spec.capacity_bytes);
    let cell = |job: &Job, policy: &PolicySpec| {
        let work = StudyCellWork::Job {
            setup: Box::new(setup.clone()),
            job: job.clone(),
            brief: false,
            size,
        };
        StudyCell { question: Question::Deleting, work, policy: *policy }
    };
    jobs.iter()
        .flat_map(|job| policies.iter().filter(possible).map(move |policy| cell(job, policy)))
        .collect()
}

/// The policies that need TRIM, if the drive has none.
pub fn impossible(setup: &Setup, policies: &[PolicySpec]) -> Vec<OmittedPart> {
    let others =
        policies.iter().filter(|policy| !setup.trims() && !matches!(policy, PolicySpec::None));
    others
        .map(|policy| OmittedPart {
            part: StudyPart::policy(policy.name()),
            reason: OmissionReason::NoTrim,
        })
        .collect()
}

/// One cell for each policy and fill level.
pub fn ageing(setup: &Setup, policies: &[PolicySpec], extent: &StudyExtent) -> Vec<StudyCell> {
    let possible =
        policies.iter().filter(|policy| setup.trims() || matches!(policy, PolicySpec::None));
    let at = |fill: f64, policy: &PolicySpec| {
        let ageing = Ageing::new(setup.clone(), fill, DATA, extent.drive_writes);
        StudyCell {
            question: Question::Ageing,
            work: StudyCellWork::Months(Box::new(Ageing { size: extent.aged, ..ageing })),
            policy: *policy,
        }
    };
    possible.flat_map(|policy| extent.fills.iter().map(move |fill| at(*fill, policy))).collect()
}
