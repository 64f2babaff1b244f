//! Durability journal: which writes a power cut would lose. Kept only if requested.

use crate::Extent;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

/// Fate of one write of a mapping unit, or part of one, at a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteFate {
    /// Sequence number of the write, counted over all unit writes since tracking began.
    pub sequence: u64,
    /// Range of the write.
    pub extent: Extent,
    /// True if the write reached the flash. The unit then holds the latest surviving
    /// write, or its content from before all of them.
    pub survives: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JournalEntry {
    pub(super) extent: Extent,
    /// Time at which the write is on flash; `u64::MAX` until its program is scheduled.
    pub(super) durable: u64,
    was_mapped: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PowerCut {
    pub(super) fates: Vec<WriteFate>,
    was_mapped: Vec<bool>,
}

impl PowerCut {
    /// Units that held no data before the lost writes.
    pub(super) fn emptied_units(&self, unit_bytes: u64) -> Vec<u32> {
        let mut units: BTreeMap<u64, bool> = BTreeMap::new();
        for (fate, was_mapped) in self.fates.iter().zip(&self.was_mapped) {
            *units.entry(fate.extent.offset / unit_bytes).or_insert(*was_mapped) |= fate.survives;
        }
        units
            .into_iter()
            .filter(|(_, holds_data)| !holds_data)
            .map(|(unit, _)| unit as u32)
            .collect()
    }
}

/// The last write of a unit in a frontier's row that is not yet programmed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UnprogrammedWrite {
    /// Sequence numbers of the writes merged into the unit.
    sequences: Vec<u64>,
}

/// Writes that are not durable yet, in order.
#[derive(Clone, Debug)]
pub(super) struct DurabilityJournal {
    pub(super) entries: VecDeque<JournalEntry>,
    first: u64,
    /// Units in the row of each frontier.
    pub(super) rows: Vec<VecDeque<UnprogrammedWrite>>,
    /// Writes whose units are placed next, one entry per unit.
    placing: VecDeque<UnprogrammedWrite>,
}

impl DurabilityJournal {
    pub(super) fn new(frontiers: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
            rows: vec![VecDeque::new(); frontiers],
            placing: VecDeque::new(),
        }
    }

    pub(super) fn next_sequence(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Records a write; returns its sequence number.
    pub(super) fn write(&mut self, extent: Extent, was_mapped: bool) -> u64 {
        self.entries.push_back(JournalEntry { extent, durable: u64::MAX, was_mapped });
        self.next_sequence() - 1
    }

    /// Declares that the next placed unit holds the writes `sequences`.
    pub(super) fn place_next(&mut self, sequences: Vec<u64>) {
        self.placing.push_back(UnprogrammedWrite { sequences });
    }

    /// Records that `units` units were placed in the row of frontier `at`.
    pub(super) fn placed(&mut self, at: usize, units: u32) {
        for _ in 0..units {
            let unit = self.placing.pop_front().unwrap_or_default();
            self.rows[at].push_back(unit);
        }
    }

    /// Records that the row of frontier `at`, except its last `rest` units, is on flash
    /// at `end`.
    pub(super) fn programmed(&mut self, at: usize, end: u64, rest: usize) {
        while self.rows[at].len() > rest {
            let Some(unit) = self.rows[at].pop_front() else { return };
            for sequence in unit.sequences {
                if let Some(entry) = sequence
                    .checked_sub(self.first)
                    .and_then(|index| self.entries.get_mut(index as usize))
                {
                    entry.durable = end;
                }
            }
        }
    }

    /// Drops writes that are durable at `now`; returns the number of the first that is
    /// not.
    pub(super) fn settle(&mut self, now: u64) -> u64 {
        while self.entries.front().is_some_and(|entry| entry.durable <= now) {
            self.entries.pop_front();
            self.first += 1;
        }
        self.first
    }

    /// Cuts power at `now`; returns the fate of each pending write. All survive if
    /// `protected`.
    pub(super) fn cut(&mut self, now: u64, protected: bool) -> PowerCut {
        self.settle(now);
        let first = self.first;
        self.first = self.next_sequence();
        self.placing.clear();
        self.rows.iter_mut().for_each(VecDeque::clear);
        let mut cut = PowerCut::default();
        for (sequence, entry) in (first..).zip(self.entries.drain(..)) {
            cut.fates.push(WriteFate {
                sequence,
                extent: entry.extent,
                survives: protected || entry.durable <= now,
            });
            cut.was_mapped.push(entry.was_mapped);
        }
        cut
    }
}
