//! Unpack a source tree, sync, delete it, sync: many small files deleted at once.
//!
//! Each step is a phase. The tree is [`synthetic`](TreeList::synthetic) or an archive's.

mod list;
mod shape;

pub use self::list::{EntryKind, TreeBuilder, TreeEntry, TreeError, TreeList};
pub use self::shape::{DEFAULT_FILES, DEFAULT_SIZE};

use super::{FileStep, FileWorkload, WorkloadPlan};
use crate::op::{FileOp, Payload};
use crate::run::metrics;
use crate::run::{Better, Metric, Phase, Unit};
use alloc::sync::Arc;
use alloc::vec::Vec;
use trimtab_drive::units::Bytes;

/// Initial sync, so that earlier dirty data is not charged to the first run.
pub const SETTLE: &str = "settle";
/// Phase that creates the directories and files.
pub const UNPACK: &str = "unpack";
/// Phase that syncs them.
pub const UNPACK_SYNC: &str = "unpack-sync";
/// Phase that removes them.
pub const DELETE: &str = "delete";
/// Phase that syncs the removal, including online discards.
pub const DELETE_SYNC: &str = "delete-sync";

/// The workload.
#[derive(Clone, Debug)]
pub struct Tree {
    list: Arc<TreeList>,
    tries: u32,
    done: u32,
    part: TreeStage,
}

#[derive(Clone, Copy, Debug)]
enum TreeStage {
    Settle,
    SettleSync,
    Unpack,
    Entry(usize),
    UnpackSync,
    Delete,
    Removal(usize),
    DeleteSync,
    End,
}

impl Tree {
    /// Unpacks and deletes `list` `tries` times.
    #[must_use]
    pub fn new(list: Arc<TreeList>, tries: u32) -> Self {
        Self { list, tries, done: 0, part: TreeStage::Settle }
    }

    /// The tree.
    #[must_use]
    pub fn list(&self) -> &TreeList {
        &self.list
    }
}

impl FileWorkload for Tree {
    fn plan(&self) -> WorkloadPlan {
        let tries = u64::from(self.tries);
        let written = Bytes(self.list.size().0.saturating_mul(tries));
        // A file occupies whole blocks, a directory at least one.
        let space =
            Bytes(self.list.size().0.saturating_add(4096 * (self.list.files() + self.list.dirs())));
        WorkloadPlan {
            written,
            space,
            ops: Some(1 + tries * (2 * (self.list.files() + self.list.dirs()) + 2)),
        }
    }

    fn next_step(&mut self) -> Option<FileStep<'_>> {
        let entries = self.list.entries().len();
        let (step, next) = match self.part {
            TreeStage::Settle => (FileStep::Phase(SETTLE), TreeStage::SettleSync),
            TreeStage::SettleSync => (
                FileStep::Op(FileOp::Sync),
                if self.tries == 0 { TreeStage::End } else { TreeStage::Unpack },
            ),
            TreeStage::Unpack => (FileStep::Phase(UNPACK), TreeStage::Entry(0)),
            TreeStage::Entry(i) if i < entries => {
                (FileStep::Op(self.list.unpack(i)), TreeStage::Entry(i + 1))
            }
            TreeStage::Entry(_) => (FileStep::Phase(UNPACK_SYNC), TreeStage::UnpackSync),
            TreeStage::UnpackSync => (FileStep::Op(FileOp::Sync), TreeStage::Delete),
            TreeStage::Delete => (FileStep::Phase(DELETE), TreeStage::Removal(0)),
            TreeStage::Removal(i) if i < entries => {
                (FileStep::Op(self.list.removal(i)), TreeStage::Removal(i + 1))
            }
            TreeStage::Removal(_) => (FileStep::Phase(DELETE_SYNC), TreeStage::DeleteSync),
            TreeStage::DeleteSync => {
                self.done += 1;
                (
                    FileStep::Op(FileOp::Sync),
                    if self.done == self.tries { TreeStage::End } else { TreeStage::Unpack },
                )
            }
            TreeStage::End => return None,
        };
        self.part = next;
        Some(step)
    }
}

impl TreeList {
    fn unpack(&self, i: usize) -> FileOp<'_> {
        let entry = self.entries()[i];
        match entry.kind {
            EntryKind::Dir => FileOp::MakeDir(self.path(entry)),
            EntryKind::File { size, offset } => {
                FileOp::Create(self.path(entry), self.payload(size, offset))
            }
        }
    }

    fn payload(&self, size: u64, offset: usize) -> Payload<'_> {
        match self.content() {
            Some(content) => Payload::Bytes {
                bytes: &content[offset..offset + size as usize],
                class: self.class(),
            },
            None => Payload::Fill { len: size, class: self.class() },
        }
    }

    fn removal(&self, i: usize) -> FileOp<'_> {
        let entry = self.entries()[self.removal_order()[i] as usize];
        match entry.kind {
            EntryKind::Dir => FileOp::RemoveDir(self.path(entry)),
            EntryKind::File { .. } => FileOp::Delete(self.path(entry)),
        }
    }
}

/// Metrics of a run, one sample per try. Interrupted tries contribute their completed
/// phases.
///
/// `unpack+sync.rate` is the size over the time of unpacking and its sync in MB/s.
#[must_use]
pub fn metrics(phases: &[Phase]) -> Vec<Metric> {
    let seconds = |name: &str| -> Vec<f64> {
        phases.iter().filter(|p| p.name == name).map(|p| p.took.as_secs_f64()).collect()
    };
    let (unpack, unpack_sync, delete, delete_sync) =
        (seconds(UNPACK), seconds(UNPACK_SYNC), seconds(DELETE), seconds(DELETE_SYNC));
    let sum = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a + b).collect() };
    let unpacked = || phases.iter().filter(|p| p.name == UNPACK);
    let removed = || phases.iter().filter(|p| p.name == DELETE);
    let rate = |amounts: Vec<f64>, seconds: &[f64]| -> Vec<f64> {
        amounts.iter().zip(seconds).filter(|(_, s)| **s > 0.0).map(|(n, s)| n / s).collect()
    };
    let files = |phase: &Phase| {
        phase
            .ops
            .iter()
            .filter(|(kind, _)| {
                matches!(kind, trimtab_drive::OpKind::Create | trimtab_drive::OpKind::Delete)
            })
            .map(|(_, n)| *n as f64)
            .sum()
    };
    let both = sum(&unpack, &unpack_sync);
    let all = [
        ("unpack.seconds", Unit::Seconds, Better::Lower, unpack.clone()),
        ("unpack-sync.seconds", Unit::Seconds, Better::Lower, unpack_sync),
        (
            "unpack+sync.rate",
            Unit::MegabytesPerSecond,
            Better::Higher,
            rate(unpacked().map(|p| p.written.as_f64() / 1e6).collect(), &both),
        ),
        (
            "unpack.files.rate",
            Unit::OpsPerSecond,
            Better::Higher,
            rate(unpacked().map(files).collect(), &unpack),
        ),
        (metrics::DELETE_SECONDS, Unit::Seconds, Better::Lower, delete.clone()),
        ("delete-sync.seconds", Unit::Seconds, Better::Lower, delete_sync.clone()),
        ("delete+sync.seconds", Unit::Seconds, Better::Lower, sum(&delete, &delete_sync)),
        (
            "delete.files.rate",
            Unit::OpsPerSecond,
            Better::Higher,
            rate(removed().map(files).collect(), &delete),
        ),
    ];
    Metric::measured(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::string::String;
    use alloc::{format, vec};
    use trimtab_drive::data::DataClass;
    use trimtab_drive::units::Nanos;

    /// Replays the steps on a set of paths; panics where a filesystem would refuse.
    fn replay(mut tree: Tree) -> (Vec<String>, Vec<u64>) {
        let (mut dirs, mut files) = (BTreeSet::new(), BTreeSet::new());
        let (mut phases, mut peaks) = (Vec::new(), Vec::new());
        while let Some(step) = tree.next_step() {
            let parent = |path: &str| path.rsplit_once('/').map(|(parent, _)| String::from(parent));
            match step {
                FileStep::Phase(name) => phases.push(String::from(name)),
                FileStep::Op(FileOp::MakeDir(path)) => {
                    assert!(parent(path).is_none_or(|p| dirs.contains(&p)), "{path}");
                    assert!(dirs.insert(String::from(path)), "{path} exists");
                }
                FileStep::Op(FileOp::Create(path, _)) => {
                    assert!(parent(path).is_none_or(|p| dirs.contains(&p)), "{path}");
                    assert!(files.insert(String::from(path)), "{path} exists");
                }
                FileStep::Op(FileOp::Delete(path)) => {
                    assert!(files.remove(path), "{path} does not exist")
                }
                FileStep::Op(FileOp::RemoveDir(path)) => {
                    assert!(dirs.remove(path), "{path} does not exist");
                    let inside = format!("{path}/");
                    assert!(
                        !files
                            .range(inside.clone()..)
                            .next()
                            .is_some_and(|f| f.starts_with(&inside)),
                        "{path} is not empty"
                    );
                }
                FileStep::Op(FileOp::Sync) => peaks.push(files.len() as u64),
                step => panic!("{step:?}"),
            }
        }
        assert!(dirs.is_empty() && files.is_empty(), "files or directories are left");
        (phases, peaks)
    }

    #[test]
    fn each_try_has_four_phases_and_leaves_nothing() {
        let list =
            Arc::new(TreeList::synthetic(400, Bytes(5_000_000), DataClass::Zero, 3).unwrap());
        let tree = Tree::new(list, 2);
        let ops = tree.plan().ops.unwrap();
        let mut counting = tree.clone();
        let mut counted = 0;
        while let Some(step) = counting.next_step() {
            counted += u64::from(matches!(step, FileStep::Op(_)));
        }
        assert_eq!(counted, ops);
        let (phases, peaks) = replay(tree);
        assert_eq!(
            phases,
            [
                SETTLE,
                UNPACK,
                UNPACK_SYNC,
                DELETE,
                DELETE_SYNC,
                UNPACK,
                UNPACK_SYNC,
                DELETE,
                DELETE_SYNC
            ]
        );
        assert_eq!(peaks, [0, 400, 0, 400, 0]);
    }

    #[test]
    fn archive_contents_are_written_unchanged() {
        let mut builder = TreeBuilder::default();
        builder.file("a/x", b"hello").unwrap();
        builder.file("y", b"").unwrap();
        let tree = Tree::new(Arc::new(builder.finish(DataClass::Text)), 1);
        let mut got = Vec::new();
        let mut steps = tree.clone();
        while let Some(step) = steps.next_step() {
            if let FileStep::Op(FileOp::Create(path, Payload::Bytes { bytes, .. })) = step {
                got.push((String::from(path), bytes.to_vec()));
            }
        }
        got.sort();
        assert_eq!(got, [("tree/a/x".into(), b"hello".to_vec()), ("tree/y".into(), vec![])]);
        replay(tree);
    }

    #[test]
    fn metrics_match_published_results() {
        use trimtab_drive::OpKind;
        let phase = |name: &str, ms: u64, ops: Vec<(OpKind, u64)>, written: u64| Phase {
            name: name.into(),
            started: Nanos::ZERO,
            took: Nanos::from_millis(ms),
            ops,
            read: Bytes::ZERO,
            written: Bytes(written),
            latencies: Vec::new(),
            discards: None,
        };
        let phases = [
            phase(
                UNPACK,
                1210,
                vec![(OpKind::MakeDir, 2000), (OpKind::Create, 36_706)],
                493_000_000,
            ),
            phase(UNPACK_SYNC, 1660, vec![], 0),
            phase(DELETE, 470, vec![(OpKind::Delete, 36_706)], 0),
            phase(DELETE_SYNC, 170, vec![], 0),
        ];
        let metrics = metrics(&phases);
        let value = |name: &str| metrics.iter().find(|m| m.name == name).unwrap().samples[0];
        assert!((value("unpack+sync.rate") - 171.8).abs() < 0.1, "the published row says 172 MB/s");
        assert!((value("delete+sync.seconds") - 0.64).abs() < 1e-9);
        let online = [
            phase(DELETE, 480, vec![(OpKind::Delete, 36_706)], 0),
            phase(DELETE_SYNC, 40_410, vec![], 0),
        ];
        let online = super::metrics(&online);
        let online = online.iter().find(|m| m.name == "delete+sync.seconds").unwrap().samples[0];
        let ratio = online / value("delete+sync.seconds");
        assert!((ratio - 63.9).abs() < 0.1, "the published headline says 64 times: {ratio}");
        assert!((value("unpack.files.rate") - 36_706.0 / 1.21).abs() < 0.1);
    }
}
