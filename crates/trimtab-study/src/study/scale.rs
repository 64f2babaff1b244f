//! Size of a study: bytes written, and repeats.

use super::job::Job;
use super::light_work;
use super::problem::StudyError;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;
use trimtab_sim::workload::WorkloadPlan;
use trimtab_sim::workload::postmark::PostmarkSettings;
use trimtab_sim::workload::tree::{DEFAULT_FILES, DEFAULT_SIZE, TreeList};

/// Compressibility of a source tree; docs/method/tree.md describes the measurement.
pub const TREE_DATA: DataClass = DataClass::Compressible(68);

/// The size of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Name in settings.
    pub name: &'static str,
    /// Divisor of the published workload sizes.
    pub divisor: u32,
    /// Repeats of each job under each policy.
    pub repeats: u32,
}

/// The published sizes, three repeats.
pub const FULL: Scale = Scale { name: "full", divisor: 1, repeats: 3 };
/// A quarter of the published sizes, three repeats.
pub const DEFAULT: Scale = Scale { name: "default", divisor: 4, repeats: 3 };
/// A tenth of the published sizes, one repeat: under a minute.
pub const QUICK: Scale = Scale { name: "quick", divisor: 10, repeats: 1 };

impl Scale {
    /// The jobs.
    pub fn jobs(&self, seed: u64) -> Result<Vec<Job>, StudyError> {
        let files = DEFAULT_FILES / u64::from(self.divisor);
        let size = Bytes(DEFAULT_SIZE.0 / u64::from(self.divisor));
        let list = Arc::new(TreeList::synthetic(files, size, TREE_DATA, seed)?);
        let published = PostmarkSettings::published();
        let settings = PostmarkSettings {
            number: published.number / self.divisor,
            transactions: published.transactions / self.divisor,
            ..published
        };
        Ok(vec![Job::Tree { list, seed }, Job::postmark(&settings)?])
    }

    /// Planned writes for `policies` policies on a real filesystem. Includes one warm-up
    /// run of the first job, and the files deleted during foreground I/O.
    pub fn plan(&self, jobs: &[Job], policies: usize) -> WorkloadPlan {
        let times = u64::from(self.repeats) * policies as u64;
        let plans: Vec<WorkloadPlan> = jobs.iter().map(Job::plan).collect();
        let beside = |job: &Job| {
            job.beside()
                .ok()
                .flatten()
                .map_or(0, |list| list.size().0 + light_work::APPENDS_MAX * light_work::BLOCK)
        };
        let each = |job: &Job, plan: &WorkloadPlan| plan.written.0 + beside(job);
        let once: u64 = jobs.iter().zip(&plans).map(|(job, plan)| each(job, plan)).sum();
        let warm_up = jobs.first().zip(plans.first()).map_or(0, |(job, plan)| each(job, plan));
        WorkloadPlan {
            written: Bytes(once.saturating_mul(times).saturating_add(warm_up)),
            space: plans.iter().map(|p| p.space).max().unwrap_or_default(),
            ops: plans
                .iter()
                .map(|p| p.ops)
                .sum::<Option<u64>>()
                .map(|ops| ops.saturating_mul(times)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_scale_matches_published_sizes() {
        let jobs = FULL.jobs(1).unwrap();
        let plan = FULL.plan(&jobs, 2);
        // In addition, a quarter of the tree is deleted once more during 2,500 foreground
        // appends.
        let beside = 493_000_000 / 4 + 2500 * 4096;
        assert_eq!(
            plan.written,
            Bytes((493_000_000 + beside + 1_222_242_297) * 6 + 493_000_000 + beside)
        );
        let quick = QUICK.plan(&QUICK.jobs(1).unwrap(), 3);
        assert!(quick.written < Bytes(700_000_000), "{}", quick.written);
    }
}
