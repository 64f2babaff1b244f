//! Collection, folding and owed time.

use super::engine::{Job, Signal};
use super::{Reference, Superblock, ns};
use alloc::vec::Vec;

impl Reference {
    pub(super) fn make_room(&mut self, at: usize, now: Signal) {
        while self.slc_used() > self.slc_limit() && self.fold(now, true) {}
        let gc = self.flash.ftl.gc.clone();
        if self.free() >= gc.free_low as usize {
            return;
        }
        for _ in 0..64 * self.superblocks.len() {
            if self.free() + usize::from(self.room(at) > 0) >= gc.free_high as usize
                || !(self.collect(now, true) || self.fold(now, true))
            {
                break;
            }
        }
    }

    pub(super) fn fold(&mut self, now: Signal, waited_for: bool) -> bool {
        let block = self.slc_fifo.pop_front();
        block.into_iter().for_each(|block| self.relocate(block, now, waited_for));
        block.is_some()
    }

    pub(super) fn collect(&mut self, now: Signal, waited_for: bool) -> bool {
        let Some(block) = self.fifo.pop_front() else { return false };
        let written: usize = self.superblocks.iter().map(|block| block.slots.len()).sum();
        if written == self.map.len() {
            self.fifo.push_back(block);
            return false;
        }
        self.relocate(block, now, waited_for);
        true
    }

    pub(super) fn relocate(&mut self, block: usize, now: Signal, waited_for: bool) {
        let was_collecting = core::mem::replace(&mut self.collecting, true);
        let valid = self.valid(block);
        let mut rows: Vec<usize> =
            valid.iter().map(|unit| self.map[unit].1 / self.row_slots).collect();
        rows.dedup();
        for unit in &valid {
            let at =
                if self.heads.len() > self.host_heads() { self.host_heads() } else { self.turn[0] };
            if self.room(at) == 0 {
                self.open(at, now);
            }
            if self.push(at, Some(*unit)) {
                if let Some(row) = &mut self.heads[at].row {
                    row.after.push(now);
                    self.program(at);
                } else {
                    self.rows_moved += 1;
                }
            }
            if self.close_if_full(at) && at < self.groups {
                self.turn[0] = (self.turn[0] + 1) % self.groups;
            }
        }
        self.collecting = was_collecting;
        let nand = &self.flash.nand;
        let slc = self.flash.slc_cache.as_ref().filter(|_| self.superblocks[block].slc);
        let dies = rows.len() as u64 * slc.map_or(nand.read_ns, |slc| slc.read_ns)
            + core::mem::take(&mut self.rows_moved) * nand.program_ns
            + self.group_dies as u64 * nand.erase_ns;
        let channels = ns(2 * valid.len() as u64 * self.unit, nand.channel_bytes_per_s);
        let entry = &mut self.superblocks[block];
        *entry = Superblock {
            free: true,
            erases: entry.erases + 1,
            released: self.releases,
            ..Superblock::default()
        };
        self.releases += 1;
        let count = self.engine.servers.len();
        for (debt, servers, owed) in [(0, 0..self.dies, dies), (1, self.dies..count, channels)] {
            let debt = &mut self.debts[debt];
            if waited_for {
                debt.uncovered += owed;
            } else {
                debt.idle += owed;
            }
            let all = owed + debt.undivided;
            debt.undivided = all % servers.len() as u64;
            let each = all / servers.len() as u64;
            for server in &mut self.engine.servers[servers] {
                server.jobs.push_back(Job::Owe { from: now, ns: each });
            }
        }
    }

    pub(super) fn rows_open(&self) -> usize {
        (0..self.host_heads()).map(|head| self.room(head)).sum::<usize>() / self.row_slots
    }

    pub(super) fn spread(&mut self) {
        let rows = self.rows_open();
        for debt in &mut self.debts {
            debt.uncovered = (debt.uncovered + core::mem::take(&mut debt.idle))
                .saturating_sub(debt.share * self.programs);
            debt.share = debt.uncovered.div_ceil(rows.max(1) as u64);
        }
        self.programs = 0;
    }
}
