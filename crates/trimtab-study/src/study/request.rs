//! The request for a study of a modelled drive, and the runs that it takes.

use super::Study;
use super::cells::{self, Question, StudyCell, StudyExtent};
use super::job::Job;
use super::modelled::{Setup, volume_named};
use super::problem::StudyError;
use super::scale::{FULL, QUICK, Scale};
use super::small;
use super::trials::Breadth;
use super::untried::{OmissionReason, OmittedPart, StudyPart};
use super::used::FreeExtentLengths;
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
use trimtab_sim::volume::VolumeLayout;

const FILL_DATA: DataClass = DataClass::Compressible(30);

/// Extent of a study.
#[derive(Clone, Debug)]
pub struct StudyRequest {
    /// Runs the deleting workloads.
    pub deleting: bool,
    /// Size of the deleting workloads.
    pub scale: Scale,
    /// Runs only the tree workload.
    pub only_tree: bool,
    /// Extent of the months of churn.
    pub extent: StudyExtent,
    /// Number of assumptions to vary.
    pub assumptions: Option<Breadth>,
}

/// Available time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// One fill level, one drive-write, smaller trees.
    Quick,
    /// The default.
    Usual,
    /// Long enough for drives whose figures take long to settle.
    Full,
}

impl StudyRequest {
    /// Full study of one drive. Modelled results do not scatter, so each workload runs once.
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
            extent: StudyExtent { drive_writes, aged: small::SIZE, fills, ageing: true, tuning: true },
            // A quick study varies assumptions only on request.
            assumptions: (!quick).then_some(Breadth::All),
        }
    }

    /// The runs for this request, and the parts that cannot be run: policies on a drive without
    /// TRIM, or another generation of the filesystem that cannot be created.
    ///
    /// # Errors
    /// A workload cannot be created.
    pub fn cells(&self, setup: &Setup, policies: &[PolicySpec]) -> Result<(Vec<StudyCell>, Vec<OmittedPart>), StudyError> {
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
                    untried.push(OmittedPart { part: StudyPart::Generation, reason: OmissionReason::Obstacle(problem.to_string()) });
                }
            }
        }
        Ok((all, untried))
    }
}

impl Setup {
    /// Sets up `drive`, called `label`, with the named filesystem. A share of `fill` is in
    /// use with the layout of `used` (see [`Used::by_churn`]; it does not depend on the drive).
    ///
    /// # Errors
    /// The filesystem does not fit on the drive.
    pub fn new(drive: Drive, label: &str, filesystem: &str, fill: f64, used: FreeExtentLengths, seed: u64) -> Result<Self, UsageError> {
        let volume = volume_named(filesystem);
        let setup = Self { drive, label: label.to_owned(), used, volume, fill, fill_class: FILL_DATA, seed };
        let room = setup.drive.spec.capacity_bytes.saturating_sub(setup.volume.start.0);
        let size = setup.volume.size.map_or(room, |size| size.0);
        match VolumeLayout::new(&setup.volume, size) {
            Ok(_) => Ok(setup),
            Err(error) => Err(UsageError::new(format!("the filesystem does not fit on {label}: {error} bytes"))
                .hint("a study needs a drive of at least 64 MiB; capacity_bytes sets the size in a specification")),
        }
    }
}

impl Study {
    /// Adds a run for a question.
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
