//! The workloads of a study.

use super::problem::StudyError;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::discards::Amount;
use trimtab_drive::units::Bytes;
use trimtab_sim::run::metrics;
use trimtab_sim::run::{Better, Field, Metric, Phase, Unit};
use trimtab_sim::runner::{Events, RunOutcome, files};
use trimtab_sim::target::TrimTarget;
use trimtab_sim::workload::postmark::{Postmark, PostmarkSettings, phase as postmark_phase};
use trimtab_sim::workload::synced::{self, SyncedWorkload};
use trimtab_sim::workload::tree::{self, Tree, TreeList};
use trimtab_sim::workload::{FileWorkload as _, WorkloadPlan};

/// Phase that leaves the filesystem idle until the running trim has finished.
pub const IDLE: &str = "idle";

/// The tree deleted during foreground I/O is smaller by this factor.
const BESIDE_SHARE: u64 = 4;

/// A workload with its settings, for a single run.
#[derive(Debug, Clone)]
pub enum Job {
    /// Unpack, sync, delete, sync.
    Tree {
        /// The tree.
        list: Arc<TreeList>,
        /// Seed of its shape and data.
        seed: u64,
    },
    /// PostMark, with a sync before and after.
    Postmark(Box<SyncedWorkload<Postmark>>),
}

impl Job {
    /// PostMark with these settings.
    pub fn postmark(settings: &PostmarkSettings) -> Result<Self, StudyError> {
        Ok(Self::Postmark(Box::new(SyncedWorkload::new(Postmark::new(settings)?))))
    }

    /// Tree deleted during foreground I/O: a quarter of the files. Only the first job has
    /// one.
    pub fn beside(&self) -> Result<Option<Arc<TreeList>>, StudyError> {
        let Self::Tree { list, seed } = self else { return Ok(None) };
        let (files, size) =
            (list.files().div_ceil(BESIDE_SHARE), Bytes(list.size().0 / BESIDE_SHARE));
        Ok(Some(Arc::new(TreeList::synthetic(files, size, list.class(), *seed)?)))
    }

    /// Name of the workload.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tree { .. } => "tree",
            Self::Postmark(_) => "postmark",
        }
    }

    /// Seed.
    pub fn seed(&self) -> u64 {
        match self {
            Self::Tree { seed, .. } => *seed,
            Self::Postmark(workload) => workload.inner().settings().seed.into(),
        }
    }

    /// Settings, as stored in results.
    pub fn settings(&self) -> Vec<Field> {
        match self {
            Self::Tree { list, .. } => tree_settings(list),
            Self::Postmark(workload) => {
                let mut fields = workload.inner().settings().fields();
                fields.push(Field::new("syncs", "before and after"));
                fields
            }
        }
    }

    /// Planned writes and files.
    pub fn plan(&self) -> WorkloadPlan {
        match self {
            Self::Tree { list, .. } => Tree::new(Arc::clone(list), 1).plan(),
            Self::Postmark(workload) => workload.plan(),
        }
    }

    /// Runs the workload.
    pub fn run<T: TrimTarget, E: Events<T>>(&self, target: &mut T, events: &mut E) -> RunOutcome {
        match self {
            Self::Tree { list, .. } => {
                files::run(&mut Tree::new(Arc::clone(list), 1), target, events)
            }
            Self::Postmark(workload) => files::run(&mut workload.as_ref().clone(), target, events),
        }
    }

    /// The phases that delete files durably, in which trim policies differ.
    pub fn deleting(name: &str) -> &'static [&'static str] {
        match name {
            "tree" => &[tree::DELETE, tree::DELETE_SYNC],
            "postmark" => &[postmark_phase::TRANSACTIONS, postmark_phase::DELETE, synced::SYNC],
            _ => &[],
        }
    }
}

/// Settings of a tree, as stored in results.
pub fn tree_settings(list: &TreeList) -> Vec<Field> {
    vec![
        Field::new("files", list.files().to_string()),
        Field::new("directories", list.dirs().to_string()),
        Field::new("bytes", list.size().0.to_string()),
        Field::new("data", list.class().to_string()),
    ]
}

/// Metrics of one run of a job: time of each phase, foreground time, trim time, and
/// discards.
pub fn metrics(phases: &[Phase]) -> Vec<Metric> {
    let seconds =
        |name: &str, value: f64| Metric::single(name, Unit::Seconds, Better::Lower, value);
    let discarded =
        |name: &str, unit, value: f64| Metric::single(name, unit, Better::Neither, value);
    let mut metrics: Vec<Metric> = Vec::new();
    for phase in phases {
        metrics.push(seconds(&format!("{}.seconds", phase.name), phase.took.as_secs_f64()));
    }
    let sum = |of: fn(&Phase) -> bool| {
        phases.iter().filter(|p| of(p)).map(|p| p.took.as_secs_f64()).sum::<f64>()
    };
    metrics.push(seconds("foreground.seconds", sum(is_foreground)));
    // The first sync sends the discards of files that were deleted before the run.
    let before = [tree::SETTLE, super::policy_events::TRIM_BEFORE];
    let counted = |phase: &&Phase| !before.contains(&phase.name.as_str());
    let discards: Vec<_> =
        phases.iter().filter(counted).filter_map(|p| p.discards.as_ref()).collect();
    let accepted: Option<Amount> = discards.iter().map(|d| d.accepted).sum();
    if let Some(Amount { count, bytes }) = accepted.filter(|_| !discards.is_empty()) {
        let bytes = bytes.as_f64();
        metrics.push(discarded(metrics::DISCARD_COMMANDS, Unit::Count, count as f64));
        metrics.push(discarded(metrics::DISCARD_BYTES, Unit::Bytes, bytes));
        // A job frees everything that it writes.
        let freed: f64 = phases.iter().map(|p| p.written.as_f64()).sum();
        if freed > 0.0 {
            let ratio = bytes / freed;
            metrics.push(discarded(metrics::DISCARD_AMPLIFICATION, Unit::Ratio, ratio));
        }
    }
    metrics
}

/// True for phases that the user of the filesystem waits for.
pub fn is_foreground(phase: &Phase) -> bool {
    let background = [
        tree::SETTLE,
        super::policy_events::TRIM_BEFORE,
        super::policy_events::TRIM,
        super::policy_events::DRAIN,
        super::light_work::BUSY.phase,
        super::light_work::SPARSE.phase,
        IDLE,
    ];
    !background.contains(&phase.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::discards::Discards;
    use trimtab_drive::units::Nanos;

    /// Once, a run was charged 134 MB that the run before had deleted.
    #[test]
    fn discards_of_the_first_sync_belong_to_no_run() {
        let phase = |name: &str, written: u64, discarded: u64| Phase {
            name: name.into(),
            written: Bytes(written),
            discards: Some(Discards {
                accepted: Some(Amount::new(1, discarded)),
                ..Discards::default()
            }),
            started: Nanos::ZERO,
            took: Nanos(1),
            ops: Vec::new(),
            read: Bytes::ZERO,
            latencies: Vec::new(),
        };
        let metrics = metrics(&[
            phase(synced::SETTLE, 0, 134_000_000),
            phase("transactions", 100_000_000, 40_000_000),
            phase(synced::SYNC, 0, 20_000_000),
        ]);
        let value = |name: &str| {
            metrics.iter().find(|m| m.name == name).and_then(|m| m.samples.first()).copied()
        };
        assert_eq!(value(metrics::DISCARD_BYTES), Some(60e6));
        assert_eq!(value(metrics::DISCARD_COMMANDS), Some(2.0));
        assert_eq!(value(metrics::DISCARD_AMPLIFICATION), Some(0.6));
    }
}
