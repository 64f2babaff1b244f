//! Adds a sync before and after a workload that does not sync itself.

use super::{FileStep, FileWorkload, Plan};
use crate::op::FileOp;

/// Initial sync, so that earlier dirty data is not charged to the workload.
pub const SETTLE: &str = "settle";
/// Final sync of the workload's own dirty data.
pub const SYNC: &str = "sync";

/// The steps of `inner` between two phases of one sync each.
#[derive(Clone, Debug)]
pub struct Synced<W> {
    inner: W,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Settle,
    SettleSync,
    Inner,
    Sync,
    End,
}

impl<W> Synced<W> {
    /// Wraps `inner`.
    pub const fn new(inner: W) -> Self {
        Self { inner, state: State::Settle }
    }

    /// The wrapped workload.
    pub const fn inner(&self) -> &W {
        &self.inner
    }
}

impl<W: FileWorkload> FileWorkload for Synced<W> {
    fn plan(&self) -> Plan {
        let plan = self.inner.plan();
        Plan { ops: plan.ops.map(|ops| ops + 2), ..plan }
    }

    fn next_step(&mut self) -> Option<FileStep<'_>> {
        let (step, next) = match self.state {
            State::Settle => (FileStep::Phase(SETTLE), State::SettleSync),
            State::SettleSync => (FileStep::Op(FileOp::Sync), State::Inner),
            State::Inner => match self.inner.next_step() {
                Some(step) => return Some(step),
                None => (FileStep::Phase(SYNC), State::Sync),
            },
            State::Sync => (FileStep::Op(FileOp::Sync), State::End),
            State::End => return None,
        };
        self.state = next;
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::postmark::{Postmark, Settings};
    use alloc::string::String;
    use alloc::vec::Vec;

    #[test]
    fn synced_keeps_the_workload_unchanged() {
        let settings = Settings { number: 20, transactions: 30, ..Settings::default() };
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
        let mut synced = Synced::new(postmark.clone());
        let ops = synced.plan().ops.unwrap();
        let got = text(&mut synced);
        let mut inner = postmark;
        assert_eq!(got[2..got.len() - 2], text(&mut inner)[..]);
        assert_eq!(got[..2], ["Phase(\"settle\")", "Sync 0"]);
        assert_eq!(got[got.len() - 2..], ["Phase(\"sync\")", "Sync 0"]);
        assert_eq!(got.iter().filter(|s| !s.starts_with("Phase")).count() as u64, ops);
    }
}
