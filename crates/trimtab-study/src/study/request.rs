//! What a study of a modelled drive is asked, and which runs that takes.

use super::Study;
use super::cells::{self, Cell, Extent, Question};
use super::job::Job;
use super::modelled::{Setup, volume_named};
use super::problem::Problem;
use super::scale::{FULL, QUICK, Scale};
use super::small;
use super::trials::Breadth;
use super::untried::{Part, Reason, Untried};
use super::used::Used;
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::usage::UsageError;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::Run;
use trimtab_sim::volume::Layout;

/// How a filesystem is filled before files are deleted from it.
const FILL_DATA: DataClass = DataClass::Compressible(30);

/// How much of a study is done.
#[derive(Clone, Debug)]
pub struct StudyRequest {
    /// Whether to look at what deleting costs.
    pub deleting: bool,
    /// The size of the workloads that delete.
    pub scale: Scale,
    /// Of the workloads that delete, only the tree.
    pub only_tree: bool,
    /// Months of churn.
    pub extent: Extent,
    /// How many assumptions are changed.
    pub assumptions: Option<Breadth>,
}

/// How much time there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// One fill, one drive-write, smaller trees.
    Quick,
    /// What is usual.
    Usual,
    /// Long enough for drives whose figures settle late.
    Full,
}

impl StudyRequest {
    /// Everything about one drive. A modelled result does not scatter, so that each is run once.
    #[must_use]
    pub fn of_one(thoroughness: Thoroughness) -> Self {
        let quick = thoroughness == Thoroughness::Quick;
        let drive_writes = match thoroughness {
            Thoroughness::Quick => 1.0,
            Thoroughness::Usual => 5.0,
            Thoroughness::Full => 12.0,
        };
        let fills = if quick { vec![0.6] } else { vec![0.6, 0.9] };
        Self {
            deleting: true,
            scale: Scale { repeats: 1, ..if quick { QUICK } else { FULL } },
            only_tree: false,
            extent: Extent { drive_writes, aged: small::SIZE, fills, ageing: true, tuning: true },
            // A quick study has no time for it unless asked.
            assumptions: (!quick).then_some(Breadth::All),
        }
    }

    /// The runs that answer what is asked, and what cannot be tried: policies on a drive that takes no TRIM, another generation of the filesystem that
    /// cannot be made.
    ///
    /// # Errors
    /// A workload that cannot be made.
    pub fn cells(&self, setup: &Setup, policies: &[PolicySpec]) -> Result<(Vec<Cell>, Vec<Untried>), Problem> {
        let (mut all, mut untried) = (Vec::new(), cells::impossible(setup, policies));
        if self.deleting {
            let mut jobs = self.scale.jobs(setup.seed)?;
            jobs.retain(|job| !self.only_tree || matches!(job, Job::Tree { .. }));
            all.extend(cells::deleting(setup, &jobs, policies));
        }
        if self.extent.ageing {
            all.extend(cells::ageing(setup, policies, &self.extent));
        }
        if self.extent.tuning {
            all.extend(cells::tuning(setup, policies, &self.extent));
        }
        if self.deleting && !self.only_tree {
            match cells::other_generation(setup, policies, self.scale) {
                Ok(others) => all.extend(others),
                Err(problem) => {
                    untried.push(Untried { part: Part::Generation, reason: Reason::Obstacle(problem.to_string()) });
                }
            }
        }
        Ok((all, untried))
    }
}

impl Setup {
    /// `drive`, called `label`, with the filesystem of that name, of which `fill` is in use as `used` says ([`Used::by_churn`], which is the same for every
    /// drive).
    ///
    /// # Errors
    /// A drive that the filesystem does not fit on.
    pub fn new(drive: Drive, label: &str, filesystem: &str, fill: f64, used: Used, seed: u64) -> Result<Self, UsageError> {
        let volume = volume_named(filesystem);
        let setup = Self { drive, label: label.to_owned(), used, volume, fill, fill_class: FILL_DATA, seed };
        let room = setup.drive.spec.capacity_bytes.saturating_sub(setup.volume.start.0);
        let size = setup.volume.size.map_or(room, |size| size.0);
        match Layout::new(&setup.volume, size) {
            Ok(_) => Ok(setup),
            Err(error) => Err(UsageError::new(format!("the filesystem does not fit on {label}: {error} bytes"))
                .hint("a study needs a drive of 64 MiB at least; a specification's size is its capacity_bytes")),
        }
    }
}

impl Study {
    /// Takes a run that was made for that question.
    pub fn add(&mut self, question: Question, run: Run) {
        let list = match question {
            Question::Deleting => &mut self.runs,
            Question::Ageing => &mut self.ageing,
            Question::Tuning => &mut self.tuning,
            Question::Generation => &mut self.kernels,
        };
        list.push(run);
    }
}
