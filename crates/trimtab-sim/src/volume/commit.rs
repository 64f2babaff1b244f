//! Commit of a transaction in stages, as in jbd2, and making room in the journal.

use super::journal::CommitTransaction;
use super::queue::{Ticket, Urgency};
use super::spec::BLOCK;
use super::{Discard, Volume};
use alloc::vec::Vec;
use trimtab_drive::Device;
use trimtab_drive::units::{Bytes, Nanos};

#[derive(Clone, Debug)]
pub(super) struct Commit {
    pub(super) transaction: CommitTransaction,
    stage: CommitStage,
    /// Last batch in progress when the transaction was closed.
    batches: u64,
}

#[derive(Clone, Debug)]
enum CommitStage {
    /// Contents allocated in the transaction must precede its metadata.
    Ordered,
    /// Descriptors and metadata blocks.
    Log(Ticket),
    /// Cache flush before the commit record.
    Flush(Ticket),
    /// The commit record.
    Record(Ticket),
    /// Cache flush that includes the commit record.
    FlushRecord(Ticket),
    /// Late writes of removed files to blocks about to be freed.
    Stragglers,
    /// Discards inside the commit: remaining runs, and completion of the current one.
    Discards(Vec<(u32, u32)>, Nanos),
}

impl<D: Device + ?Sized> Volume<D> {
    /// Time at which the commit can continue; `None` while its requests are queued.
    pub(super) fn commit_ready(&self, commit: &Commit) -> Option<Nanos> {
        match &commit.stage {
            CommitStage::Ordered | CommitStage::Stragglers => {
                (!self.batches_under_way(commit.batches)).then_some(self.now)
            }
            CommitStage::Log(ticket)
            | CommitStage::Flush(ticket)
            | CommitStage::Record(ticket)
            | CommitStage::FlushRecord(ticket) => self.queue.done(*ticket),
            CommitStage::Discards(_, until) => Some(*until),
        }
    }

    fn batches_under_way(&self, up_to: u64) -> bool {
        self.batches.front().is_some_and(|batch| batch.number <= up_to)
    }

    /// Commits the running, non-empty transaction; no other commit may be running.
    pub(super) fn start_commit(&mut self) {
        debug_assert!(self.commit.is_none() && self.journal.anything_running());
        let transaction = self.journal.close();
        let commit =
            Commit { transaction, stage: CommitStage::Ordered, batches: self.batches_begun };
        let ordered = !self.spec.journal.converts_after_write;
        self.commit = Some(commit);
        self.batch_open = false;
        if !ordered || !self.batches_under_way(self.batches_begun) {
            self.write_log();
        }
    }

    fn write_log(&mut self) {
        let Some(commit) = &mut self.commit else { return };
        let ticket = self.queue.ticket();
        let blocks = commit.transaction.log_blocks - 1;
        commit.stage = CommitStage::Log(ticket);
        self.write_journal(blocks, ticket);
    }

    fn write_journal(&mut self, blocks: u32, ticket: Ticket) {
        self.queue.unplug();
        for (start, len) in self.journal.append(blocks) {
            self.write_blocks(start, len, self.spec.metadata_class, ticket, Urgency::Sync);
        }
        self.queue.unplug();
        self.counters.journal_written += Bytes(u64::from(blocks) * BLOCK);
    }

    /// Ends the current stage and begins the next.
    pub(super) fn commit_step(&mut self) {
        let Some(mut commit) = self.commit.take() else { return };
        match commit.stage {
            CommitStage::Ordered => {
                self.commit = Some(commit);
                self.write_log();
                return;
            }
            CommitStage::Log(ticket) => {
                self.queue.finish(ticket);
                commit.stage = CommitStage::Flush(self.flush_cache());
            }
            CommitStage::Flush(ticket) => {
                self.queue.finish(ticket);
                let ticket = self.queue.ticket();
                self.write_journal(1, ticket);
                commit.stage = CommitStage::Record(ticket);
            }
            CommitStage::Record(ticket) => {
                self.queue.finish(ticket);
                commit.stage = CommitStage::FlushRecord(self.flush_cache());
            }
            CommitStage::FlushRecord(ticket) => {
                self.queue.finish(ticket);
                commit.stage = CommitStage::Stragglers;
                // Only freed blocks need this wait.
                if commit.transaction.freed.blocks() == 0 || !self.batches_under_way(commit.batches)
                {
                    return self.after_stragglers(commit);
                }
            }
            CommitStage::Stragglers => return self.after_stragglers(commit),
            CommitStage::Discards(ref mut left, ref mut until) => {
                if left.is_empty() {
                    return self.end_commit(commit);
                }
                *until = self.discard_next(left);
            }
        }
        self.commit = Some(commit);
    }

    fn after_stragglers(&mut self, mut commit: Commit) {
        if self.spec.discard == Discard::Freed
            && self.queue.drive.supports_trim()
            && commit.transaction.freed.blocks() > 0
        {
            let mut freed: Vec<(u32, u32)> = commit.transaction.freed.iter().collect();
            freed.reverse();
            commit.stage = CommitStage::Discards(freed, self.now);
            self.commit = Some(commit);
        } else {
            self.end_commit(commit);
        }
    }

    /// Marks the transaction durable and frees its blocks.
    fn end_commit(&mut self, commit: Commit) {
        let Commit { transaction, .. } = commit;
        self.journal.committed(&transaction, self.now);
        self.durable = transaction.id;
        self.counters.commits += 1;
        self.release(transaction.freed);
        // An operation may be waiting for room: commit a full transaction at once.
        if self.journal.running_blocks() >= self.journal.transaction_max {
            self.start_commit();
        }
    }

    /// Waits until all changes are durable. Returns true if there were any.
    pub(super) fn commit_and_wait(&mut self) -> bool {
        let target = if self.journal.anything_running() {
            self.journal.id
        } else if self.commit.is_some() {
            self.journal.id - 1
        } else {
            return false;
        };
        self.wait_durable(target);
        true
    }

    /// Waits until transaction `id` is durable.
    pub(super) fn wait_durable(&mut self, id: u64) {
        while self.durable < id {
            if self.commit.is_none() && self.journal.anything_running() {
                self.start_commit();
            } else {
                self.step();
            }
        }
    }

    /// True if another change has room; otherwise starts making room.
    pub(super) fn journal_ready(&mut self) -> bool {
        if self.journal.running_blocks() >= self.journal.transaction_max {
            if self.commit.is_some() {
                return false;
            }
            self.start_commit();
        }
        if self.journal.has_room() {
            return true;
        }
        if self.checkpoint.is_some() {
            return false;
        }
        let blocks = self.journal.take_home(true);
        if blocks.is_empty() {
            // A running transaction has changed all remaining blocks again.
            if self.commit.is_none() && self.journal.anything_running() {
                self.start_commit();
            }
            return self.commit.is_none();
        }
        self.counters.checkpoints += 1;
        let ticket = self.queue.ticket();
        self.write_home(&blocks, ticket, Urgency::Sync);
        self.checkpoint = Some(ticket);
        false
    }

    /// Blocks the foreground until its next change has room in the journal.
    pub(super) fn wait_for_journal(&mut self) {
        while !self.journal_ready() {
            self.step();
        }
    }

    /// Ends a checkpoint: the journal's superblock records the new start of the log.
    pub(super) fn checkpoint_done(&mut self) {
        if let Some(ticket) = self.checkpoint.take() {
            self.queue.finish(ticket);
            self.write_journal_superblock();
        }
    }

    fn write_journal_superblock(&mut self) {
        // Not waited for: the flush before it takes the time, and the next commit flushes
        // again.
        let ticket = self.queue.ticket();
        self.queue.flush(self.now, ticket);
        self.write_blocks(
            self.journal.superblock(),
            1,
            self.spec.metadata_class,
            ticket,
            Urgency::Sync,
        );
        self.queue.unplug();
        self.counters.journal_written += Bytes(BLOCK);
        self.queue.forget(ticket);
    }

    pub(super) fn flush_cache(&mut self) -> Ticket {
        let ticket = self.queue.ticket();
        self.queue.flush(self.now, ticket);
        ticket
    }

    pub(super) fn write_home(&mut self, blocks: &[u32], ticket: Ticket, urgency: Urgency) {
        self.queue.unplug();
        for block in blocks {
            self.write_blocks(*block, 1, self.spec.metadata_class, ticket, urgency);
        }
        self.queue.unplug();
        self.counters.metadata_written += Bytes(blocks.len() as u64 * BLOCK);
    }
}
