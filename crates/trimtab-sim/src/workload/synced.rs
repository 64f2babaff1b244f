//! Adds a sync before and after a workload that does not sync itself.

use super::{FileStep, FileWorkload, WorkloadPlan};
use crate::op::FileOp;

/// Initial sync, so that earlier dirty data is not charged to the workload.
pub const SETTLE: &str = "settle";
/// Final sync of the workload's own dirty data.
pub const SYNC: &str = "sync";

/// The steps of `inner` between two phases of one sync each.
#[derive(Clone, Debug)]
pub struct SyncedWorkload<W> {
    inner: W,
    state: SyncStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncStage {
    Settle,
    SettleSync,
    Inner,
    Sync,
    End,
}

impl<W> SyncedWorkload<W> {
    /// Wraps `inner`.
    pub const fn new(inner: W) -> Self {
        Self { inner, state: SyncStage::Settle }
    }

    /// The wrapped workload.
    pub const fn inner(&self) -> &W {
        &self.inner
    }
}

impl<W: FileWorkload> FileWorkload for SyncedWorkload<W> {
    fn plan(&self) -> WorkloadPlan {
        let plan = self.inner.plan();
        WorkloadPlan { ops: plan.ops.map(|ops| ops + 2), ..plan }
    }

    fn next_step(&mut self) -> Option<FileStep<'_>> {
        let (step, next) = match self.state {
            SyncStage::Settle => (FileStep::Phase(SETTLE), SyncStage::SettleSync),
            SyncStage::SettleSync => (FileStep::Op(FileOp::Sync), SyncStage::Inner),
            SyncStage::Inner => match self.inner.next_step() {
                Some(step) => return Some(step),
                None => (FileStep::Phase(SYNC), SyncStage::Sync),
            },
            SyncStage::Sync => (FileStep::Op(FileOp::Sync), SyncStage::End),
            SyncStage::End => return None,
        };
        self.state = next;
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::postmark::{Postmark, PostmarkSettings};
    use alloc::string::String;
    use alloc::vec::Vec;

    #[test]
    fn synced_keeps_the_workload_unchanged() {
        let settings =
            PostmarkSettings { number: 20, transactions: 30, ..PostmarkSettings::default() };
        let postmark = Postmark::new(&settings).unwrap();
        let text = |workload: &mut dyn FileWorkload| -> Vec<String> {
            core::iter::from_fn(|| {
                workload.next_step().map(|step| match step {
                    FileStep::Op(op) => alloc::format!("{:?} {}", op.kind(), op.bytes()),
                    step => alloc::format!("{step:?}"),
                })
            })
            .collect()
        };
        let mut synced = SyncedWorkload::new(postmark.clone());
        let ops = synced.plan().ops.unwrap();
        let got = text(&mut synced);
        let mut inner = postmark;
        assert_eq!(got[2..got.len() - 2], text(&mut inner)[..]);
        assert_eq!(got[..2], ["Phase(\"settle\")", "Sync 0"]);
        assert_eq!(got[got.len() - 2..], ["Phase(\"sync\")", "Sync 0"]);
        assert_eq!(got.iter().filter(|s| !s.starts_with("Phase")).count() as u64, ops);
    }
}
