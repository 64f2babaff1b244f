//! Which writes a power cut would lose: kept only when somebody asks for it.

use crate::Extent;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

/// What becomes of one write of (part of) a mapping unit at a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteFate {
    /// Number of the write, counted over all writes of units since tracking began.
    pub sequence: u64,
    /// What was written.
    pub extent: Extent,
    /// It reached the flash. The unit then holds the latest write that did, or what it held before all of them.
    pub survives: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    extent: Extent,
    /// When it is on flash; `u64::MAX` while no program holds it.
    durable: u64,
    /// Its unit held data before.
    was_mapped: bool,
}

/// What a power cut did.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut {
    pub(super) fates: Vec<WriteFate>,
    was_mapped: Vec<bool>,
}

impl Cut {
    /// Units that held nothing before the writes that were lost.
    pub(super) fn emptied_units(&self, unit_bytes: u64) -> Vec<u32> {
        let mut units: BTreeMap<u64, bool> = BTreeMap::new();
        for (fate, was_mapped) in self.fates.iter().zip(&self.was_mapped) {
            *units.entry(fate.extent.offset / unit_bytes).or_insert(*was_mapped) |= fate.survives;
        }
        units.into_iter().filter(|(_, holds_data)| !holds_data).map(|(unit, _)| unit as u32).collect()
    }
}

/// The last write of a unit that lies in a frontier's row, not yet programmed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Unprogrammed {
    /// Sequence numbers of the writes that the unit holds.
    sequences: Vec<u64>,
}

/// Writes that are not durable yet, in order.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    entries: VecDeque<Entry>,
    /// Sequence number of the first entry.
    first: u64,
    /// Per frontier, the units in its row.
    rows: Vec<VecDeque<Unprogrammed>>,
    /// Writes whose units are placed next, a unit each.
    placing: VecDeque<Unprogrammed>,
}

impl Journal {
    pub(super) fn new(frontiers: usize) -> Self {
        Self { entries: VecDeque::new(), first: 0, rows: vec![VecDeque::new(); frontiers], placing: VecDeque::new() }
    }

    /// Number of the next write.
    pub(super) fn next_sequence(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Notes a write; gives its number.
    pub(super) fn write(&mut self, extent: Extent, was_mapped: bool) -> u64 {
        self.entries.push_back(Entry { extent, durable: u64::MAX, was_mapped });
        self.next_sequence() - 1
    }

    /// The next unit that is placed holds the writes `sequences`.
    pub(super) fn place_next(&mut self, sequences: Vec<u64>) {
        self.placing.push_back(Unprogrammed { sequences });
    }

    /// `units` units were placed in the row of frontier `at`.
    pub(super) fn placed(&mut self, at: usize, units: u32) {
        for _ in 0..units {
            let unit = self.placing.pop_front().unwrap_or_default();
            self.rows[at].push_back(unit);
        }
    }

    /// The row of frontier `at` is on flash at `end`, but for its last `rest` units.
    pub(super) fn programmed(&mut self, at: usize, end: u64, rest: usize) {
        while self.rows[at].len() > rest {
            let Some(unit) = self.rows[at].pop_front() else { return };
            for sequence in unit.sequences {
                if let Some(entry) = sequence.checked_sub(self.first).and_then(|index| self.entries.get_mut(index as usize)) {
                    entry.durable = end;
                }
            }
        }
    }

    /// How many units of `unit_bytes` lie in rows that are not on flash at `now`.
    pub(super) fn units_in_rows(&self, now: u64, unit_bytes: u64) -> u64 {
        let filling: u64 = self.rows.iter().map(|row| row.len() as u64).sum();
        let under_way = self.entries.iter().filter(|entry| entry.durable > now && entry.durable != u64::MAX);
        let mut programming: Vec<(u64, u64)> = under_way.map(|entry| (entry.durable, entry.extent.offset / unit_bytes)).collect();
        // Several writes may have completed one unit.
        programming.sort_unstable();
        programming.dedup();
        filling + programming.len() as u64
    }

    /// Forgets what is durable at `now`; gives the number of the first write that is not.
    pub(super) fn settle(&mut self, now: u64) -> u64 {
        while self.entries.front().is_some_and(|entry| entry.durable <= now) {
            self.entries.pop_front();
            self.first += 1;
        }
        self.first
    }

    /// All data were erased: no write is of interest any more.
    pub(super) fn forget_all(&mut self) {
        self.cut(u64::MAX, true);
    }

    /// The power fails at `now`: what becomes of each write that was not known durable. With `protected` all survive.
    pub(super) fn cut(&mut self, now: u64, protected: bool) -> Cut {
        self.settle(now);
        let first = self.first;
        self.first = self.next_sequence();
        self.placing.clear();
        self.rows.iter_mut().for_each(VecDeque::clear);
        let mut cut = Cut::default();
        for (sequence, entry) in (first..).zip(self.entries.drain(..)) {
            cut.fates.push(WriteFate { sequence, extent: entry.extent, survives: protected || entry.durable <= now });
            cut.was_mapped.push(entry.was_mapped);
        }
        cut
    }
}
