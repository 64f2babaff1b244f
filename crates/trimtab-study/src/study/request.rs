//! The request for a study of a modelled drive, and the runs that it takes.

use super::Study;
use super::cells::{self, Question, StudyCell, StudyExtent};
use super::job::Job;
use super::modelled::{Setup, volume_named};
use super::problem::StudyError;
use super::scale::{FULL, QUICK, Scale};
use super::small;
use super::trials::Breadth;
use super::untried::OmittedPart;
use super::used::FreeExtentLengths;
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::Run;
use trimtab_sim::volume::VolumeLayout;

const FILL_DATA: DataClass = DataClass::Compressible(30);
/// Capacity of the drive that stands in for a larger one in quick studies. The
/// recommendation is the same as on the larger drive.
pub const STAND_IN: Bytes = Bytes(32_000_000_000);

/// Largest capacity that is always modelled in full.
const FULL_SIZE_MAX: u64 = 130_000_000_000;

/// Extent of a study.
#[derive(Clone, Debug)]
pub struct StudyRequest {
    /// Runs the deleting workloads.
    pub deleting: bool,
    /// Size of the deleting workloads.
    pub scale: Scale,
    /// Capacity of the drive that stands in for a larger one in the deleting workloads.
    pub stand_in: Option<Bytes>,
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
    /// Full study of one drive. Modelled results do not scatter, so each workload runs
    /// once.
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
            stand_in: quick.then_some(STAND_IN),
            only_tree: false,
            extent: StudyExtent { drive_writes, aged: small::SIZE, fills, ageing: true },
            // A quick study varies assumptions only on request.
            assumptions: (!quick).then_some(Breadth::All),
        }
    }

    /// The runs for this request, and the policies that cannot be run on a drive without
    /// TRIM.
    ///
    /// # Errors
    /// A workload cannot be created.
    pub fn cells(
        &self,
        setup: &Setup,
        policies: &[PolicySpec],
    ) -> Result<(Vec<StudyCell>, Vec<OmittedPart>), StudyError> {
        let mut all = Vec::new();
        let stand_in = self.stand_in.filter(|_| setup.drive.spec.capacity_bytes > FULL_SIZE_MAX);
        if self.deleting {
            let mut jobs = self.scale.jobs(setup.seed)?;
            jobs.retain(|job| !self.only_tree || matches!(job, Job::Tree { .. }));
            all.extend(cells::deleting(setup, &jobs, policies, stand_in));
        }
        if self.extent.ageing {
            all.extend(cells::ageing(setup, policies, &self.extent));
        }
        Ok((all, cells::impossible(setup, policies)))
    }
}

impl Setup {
    /// Sets up `drive`, called `label`, with the named filesystem. A share of `fill` is
    /// in use with the layout of `used` (see [`Used::by_churn`]; it does not depend on
    /// the drive).
    ///
    /// # Errors
    /// The filesystem does not fit on the drive.
    pub fn new(
        drive: Drive,
        label: &str,
        filesystem: &str,
        fill: f64,
        used: FreeExtentLengths,
        seed: u64,
    ) -> Result<Self, UsageError> {
        let volume = volume_named(filesystem);
        let setup = Self {
            drive,
            label: label.to_owned(),
            used,
            volume,
            fill,
            fill_class: FILL_DATA,
            seed,
        };
        let room = setup.drive.spec.capacity_bytes.saturating_sub(setup.volume.start.0);
        let size = setup.volume.size.map_or(room, |size| size.0);
        match VolumeLayout::new(&setup.volume, size) {
            Ok(_) => Ok(setup),
            Err(error) => Err(UsageError::new(format!(
                "the filesystem does not fit on {label}: {error} bytes"
            ))
            .hint(
                "a study needs a drive of at least 64 MiB; capacity_bytes sets the \
                    size in a specification",
            )),
        }
    }
}

impl Study {
    /// Adds a run for a question.
    pub fn add(&mut self, question: Question, run: Run) {
        let list = match question {
            Question::Deleting => &mut self.runs,
            Question::Ageing => &mut self.ageing,
        };
        list.push(run);
    }
}

#[cfg(test)]
mod tests {
    use super::super::comparison::latency::BLINK_SECONDS;
    use super::super::modelled;
    use super::super::policy;
    use super::super::recommendation::Recommendation;
    use super::super::verdict::{Rule, Verdict};
    use super::*;
    use alloc::collections::BTreeMap;
    use trimtab_drive::shipped::{self, drives};

    /// Runs cells that start from the same filled filesystem one after another.
    fn runs(cells: &[StudyCell]) -> Vec<Run> {
        let mut known: Option<(alloc::string::String, modelled::UsedVolume)> = None;
        let mut beginning = |setup: &Setup| {
            let name = setup.beginning();
            if known.as_ref().is_none_or(|(other, _)| *other != name) {
                known = Some((name, setup.in_use()?));
            }
            Ok(known.as_ref().expect("made above").1.clone())
        };
        cells.iter().map(|cell| cell.run_from(&mut beginning, &mut ()).unwrap().0).collect()
    }

    /// The recommendation, its rule, and for each policy whether a user notices its
    /// latency.
    type Judgement = (Recommendation, Rule, BTreeMap<&'static str, bool>);

    fn judged(request: &StudyRequest, setup: &Setup, months: &[Run]) -> Judgement {
        let policies = modelled::policies(&[]).unwrap();
        let (cells, _) = request.cells(setup, &policies).unwrap();
        let cells: Vec<StudyCell> =
            cells.into_iter().filter(|cell| cell.question == Question::Deleting).collect();
        let study = Study {
            runs: runs(&cells),
            ageing: months.to_vec(),
            complete: true,
            ..Study::default()
        };
        let verdict = Verdict::of(&study);
        let noticed = |policy: &&'static str| {
            verdict
                .comparison
                .metrics
                .append_latency(policy)
                .is_some_and(|latency| latency.seconds > BLINK_SECONDS)
        };
        let all = [policy::NONE, policy::ONLINE, policy::BATCHED, policy::ADAPTIVE, policy::IDLE];
        (
            verdict.recommendation,
            verdict.rule,
            all.iter().map(|policy| (*policy, noticed(policy))).collect(),
        )
    }

    fn check(name: &str, fill: f64) {
        let volume = volume_named("ext4");
        let used = FreeExtentLengths::by_churn(&volume, fill, 1).unwrap();
        let setup = Setup::new(shipped::drive(name), name, "ext4", fill, used, 1).unwrap();
        let policies = modelled::policies(&[]).unwrap();
        let extent = StudyExtent {
            drive_writes: 1.0,
            aged: Bytes(1_000_000_000),
            fills: vec![fill],
            ageing: true,
        };
        let months = runs(&cells::ageing(&setup, &policies, &extent));
        let quick = StudyRequest { only_tree: true, ..StudyRequest::of_one(Thoroughness::Quick) };
        let whole = StudyRequest { stand_in: None, ..quick.clone() };
        assert_eq!(quick.stand_in, Some(STAND_IN));
        assert_eq!(
            judged(&quick, &setup, &months),
            judged(&whole, &setup, &months),
            "{name} at {fill}"
        );
    }

    #[test]
    fn stand_in_gets_same_verdict_as_full_size_drive() {
        check("ocz-vertex-le-200gb", 0.6);
    }

    #[test]
    #[ignore = "fills and trims every large shipped drive at its full size"]
    fn stand_in_gets_same_verdict_on_every_large_drive() {
        let large = drives()
            .into_iter()
            .map(|drive| drive.spec)
            .filter(|spec| spec.capacity_bytes > FULL_SIZE_MAX);
        let names: Vec<_> = large.map(|spec| spec.name).collect();
        assert!(names.len() > 7, "{names:?}");
        for name in names {
            for fill in [0.6, 0.9] {
                check(&name, fill);
            }
        }
    }

    /// Trim passes are converted to the full size; online discards depend on the files
    /// alone.
    #[test]
    fn stand_in_converts_trim_passes_to_full_size() {
        let used = FreeExtentLengths::by_churn(&volume_named("ext4"), 0.6, 1).unwrap();
        let setup =
            Setup::new(shipped::drive("crucial-m4-128gb"), "x", "ext4", 0.6, used, 1).unwrap();
        let policies =
            modelled::policies(&["online", "batched"].map(alloc::borrow::ToOwned::to_owned))
                .unwrap();
        let jobs = [QUICK.jobs(1).unwrap().remove(0)];
        let of = |size: u64| runs(&cells::deleting(&setup, &jobs, &policies, Some(Bytes(size))));
        let (small, large) = (of(8_000_000_000), of(16_000_000_000));
        for (policy, metric, apart) in [
            ("batched", trimtab_sim::run::metrics::DISCARD_BYTES, 0.05),
            ("batched", trimtab_sim::run::metrics::TRIM_SECONDS, 0.3),
            ("online", trimtab_sim::run::metrics::DISCARD_BYTES, 0.3),
        ] {
            let value = |runs: &[Run]| {
                let run = runs.iter().find(|run| run.policy == policy).unwrap();
                super::super::metrics::mean(run, metric).unwrap()
            };
            let ratio = value(&large) / value(&small);
            assert!((ratio - 1.0).abs() < apart, "{policy} {metric}: {ratio}");
        }
    }
}
