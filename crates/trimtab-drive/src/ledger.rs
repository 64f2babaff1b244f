//! Discard ledger: TRIM requests of the host and their effect.

use crate::discards::{Amount, Discards};
use crate::prefetch::prefetch;
use crate::units::Bytes;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Maximum memory of the map of written units, in bytes.
const MAP_BYTES_MAX: u64 = 32 << 20;
/// Bits per chunk of the map.
const CHUNK: u64 = 1 << 16;
const WORDS: usize = (CHUNK / 64) as usize;
/// Units per bit, as a power of two, until a change needs finer resolution: 4 KiB pages
/// on drives with 512-byte logical blocks.
const SHARED: u32 = 3;

/// Set of units that hold data. Memory use grows with fragmentation.
#[derive(Clone, Debug)]
pub struct UnitMap {
    chunks: Vec<LedgerChunk>,
    units: u64,
    set: u64,
    /// Units per bit, as a power of two.
    shared: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LedgerChunk {
    Empty,
    Full,
    Some { bits: Box<[u64; WORDS]>, set: u32 },
}

impl UnitMap {
    /// Creates a map without data.
    pub fn new(units: u64) -> Self {
        let shared = if units.is_multiple_of(1 << SHARED) { SHARED } else { 0 };
        Self {
            chunks: vec![LedgerChunk::Empty; (units >> shared).div_ceil(CHUNK) as usize],
            units,
            set: 0,
            shared,
        }
    }

    /// Number of units that hold data.
    pub const fn count(&self) -> u64 {
        self.set
    }

    /// Total number of units.
    pub const fn len(&self) -> u64 {
        self.units
    }

    /// True if the map has no units.
    pub const fn is_empty(&self) -> bool {
        self.units == 0
    }

    /// True if `unit` holds data.
    pub fn contains(&self, unit: u64) -> bool {
        let bit = unit >> self.shared;
        self.chunks.get((bit / CHUNK) as usize).is_some_and(|chunk| chunk.contains(bit % CHUNK))
    }

    /// Prefetches the map entry of `unit` into the CPU cache.
    #[inline]
    pub fn prefetch(&self, unit: u64) {
        let bit = unit >> self.shared;
        if let Some(LedgerChunk::Some { bits, .. }) = self.chunks.get((bit / CHUNK) as usize) {
            prefetch(&**bits, (bit % CHUNK / 64) as usize);
        }
    }

    /// Marks units as holding data; returns how many did not before.
    pub fn insert(&mut self, units: Range<u64>) -> u64 {
        self.change(units, true)
    }

    /// Marks units as holding no data; returns how many did before.
    pub fn remove(&mut self, units: Range<u64>) -> u64 {
        self.change(units, false)
    }

    /// Maximal runs of units that hold data, in order.
    pub fn runs(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut from = 0;
        core::iter::from_fn(move || {
            let run = self.next_run(from, self.units)?;
            from = run.end;
            Some(run)
        })
    }

    /// First run of units that hold data in `from..end`.
    pub fn next_run(&self, from: u64, end: u64) -> Option<Range<u64>> {
        let start = self.next_unit(from, end, true)?;
        Some(start..self.next_unit(start, end, false).unwrap_or(end))
    }

    /// First unit in `at..end` that holds data if `held`, else the first that does not.
    fn next_unit(&self, at: u64, end: u64, held: bool) -> Option<u64> {
        let end = end.min(self.units);
        let bit = self.next_bit(at >> self.shared, end.div_ceil(1 << self.shared), held)?;
        Some(at.max(bit << self.shared)).filter(|found| *found < end)
    }

    fn next_bit(&self, mut at: u64, end: u64, held: bool) -> Option<u64> {
        while at < end {
            match &self.chunks[(at / CHUNK) as usize] {
                LedgerChunk::Empty if !held => return Some(at),
                LedgerChunk::Full if held => return Some(at),
                LedgerChunk::Empty | LedgerChunk::Full => at = (at / CHUNK + 1) * CHUNK,
                LedgerChunk::Some { bits, .. } => {
                    let word = bits[(at % CHUNK / 64) as usize];
                    let wanted = (if held { word } else { !word }) >> (at % 64);
                    if wanted != 0 {
                        return Some(at + u64::from(wanted.trailing_zeros()));
                    }
                    at = (at / 64 + 1) * 64;
                }
            }
        }
        None
    }

    fn change(&mut self, units: Range<u64>, to: bool) -> u64 {
        let (start, end) = (units.start, units.end.min(self.units));
        if start >= end {
            return 0;
        }
        if (start | end) & ((1 << self.shared) - 1) != 0 {
            self.tell_apart();
        }
        if end - start == 1 << self.shared
            && let Some(changed) = self.change_one(start >> self.shared, to)
        {
            let changed = changed << self.shared;
            self.set = if to { self.set + changed } else { self.set - changed };
            return changed;
        }
        let changed = self.change_bits(start >> self.shared..end >> self.shared, to) << self.shared;
        if to {
            self.set += changed
        } else {
            self.set -= changed
        }
        changed
    }

    /// Fast path for one bit; returns the number of changed bits. `None` if its chunk is
    /// not a bitmap, or becomes full or empty.
    #[inline]
    fn change_one(&mut self, bit: u64, to: bool) -> Option<u64> {
        let len = CHUNK.min((self.units >> self.shared) - bit / CHUNK * CHUNK);
        let Some(LedgerChunk::Some { bits, set }) = self.chunks.get_mut((bit / CHUNK) as usize)
        else {
            return None;
        };
        let (word, mask) = (&mut bits[(bit % CHUNK / 64) as usize], 1 << (bit % 64));
        if (*word & mask != 0) == to {
            return Some(0);
        }
        if u64::from(*set) == if to { len - 1 } else { 1 } {
            return None;
        }
        *word ^= mask;
        *set = if to { *set + 1 } else { *set - 1 };
        Some(1)
    }

    fn change_bits(&mut self, bits: Range<u64>, to: bool) -> u64 {
        let (mut at, end, all) = (bits.start, bits.end, self.units >> self.shared);
        let mut changed = 0;
        while at < end {
            let chunk_start = at / CHUNK * CHUNK;
            let part_end = end.min(chunk_start + CHUNK);
            let chunk_len = CHUNK.min(all - chunk_start);
            let part = at - chunk_start..part_end - chunk_start;
            changed += self.chunks[(at / CHUNK) as usize].change(part, to, chunk_len);
            at = part_end;
        }
        changed
    }

    /// Switches to one bit per unit.
    #[cold]
    fn tell_apart(&mut self) {
        let mut apart = Self {
            chunks: vec![LedgerChunk::Empty; self.units.div_ceil(CHUNK) as usize],
            shared: 0,
            ..*self
        };
        for run in self.runs() {
            apart.change_bits(run, true);
        }
        *self = apart;
    }
}

impl LedgerChunk {
    fn contains(&self, unit: u64) -> bool {
        match self {
            Self::Empty => false,
            Self::Full => true,
            Self::Some { bits, .. } => bits[(unit / 64) as usize] >> (unit % 64) & 1 == 1,
        }
    }

    /// Sets or clears the units of `range` in a chunk of `len` units; returns how many
    /// changed.
    fn change(&mut self, range: Range<u64>, to: bool, len: u64) -> u64 {
        let n = range.end - range.start;
        match (&*self, to) {
            (Self::Empty, false) | (Self::Full, true) => return 0,
            (Self::Empty, true) if n == len => {
                *self = Self::Full;
                return len;
            }
            (Self::Full, false) if n == len => {
                *self = Self::Empty;
                return len;
            }
            (Self::Empty, true) => *self = Self::Some { bits: Box::new([0; WORDS]), set: 0 },
            (Self::Full, false) => {
                let mut bits = Box::new([0; WORDS]);
                for unit in 0..len {
                    bits[(unit / 64) as usize] |= 1 << (unit % 64);
                }
                *self = Self::Some { bits, set: len as u32 };
            }
            (Self::Some { .. }, _) => {}
        }
        let Self::Some { bits, set } = self else { return 0 };
        let mut changed = 0;
        let mut at = range.start;
        while at < range.end {
            let word_end = range.end.min((at / 64 + 1) * 64);
            let mask = (u64::MAX >> (64 - (word_end - at))) << (at % 64);
            let word = &mut bits[(at / 64) as usize];
            changed += if to { (!*word & mask).count_ones() } else { (*word & mask).count_ones() };
            *word = if to { *word | mask } else { *word & !mask };
            at = word_end;
        }
        *set = if to { *set + changed } else { *set - changed };
        if *set == 0 {
            *self = Self::Empty;
        } else if u64::from(*set) == len {
            *self = Self::Full;
        }
        u64::from(changed)
    }
}

/// Size classes of TRIM ranges: upper limit in bytes, name.
pub const SIZE_CLASSES: &[(u64, &str)] = &[
    (4 << 10, "to 4 KiB"),
    (16 << 10, "to 16 KiB"),
    (64 << 10, "to 64 KiB"),
    (256 << 10, "to 256 KiB"),
    (1 << 20, "to 1 MiB"),
    (16 << 20, "to 16 MiB"),
    (128 << 20, "to 128 MiB"),
    (u64::MAX, "over 128 MiB"),
];

/// Totals. In bytes, `asked = refused + ignored + effective + repeated + partial`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Sums {
    /// TRIM commands of the host.
    pub commands: u64,
    /// Ranges: asked, refused and effective.
    #[serde(flatten)]
    pub ranges: Discards,
    /// Ranges by size class, as in [`SIZE_CLASSES`].
    pub by_size: Vec<Amount>,
    /// Bytes in TRIM ranges that already held no data.
    pub repeated_bytes: u64,
    /// Ranges that already held no data at all.
    pub repeated_ranges: u64,
    /// Bytes at the ends of ranges that cover a ledger unit only in part.
    pub partial_bytes: u64,
    /// Ranges that the drive accepted but ignored (injected fault).
    pub ignored: Amount,
}

impl Sums {
    /// Bytes that held data before a TRIM but not after.
    pub fn effective_bytes(&self) -> u64 {
        self.ranges.effective.unwrap_or_default().0
    }

    /// Bytes discarded divided by bytes freed; `None` if nothing was freed.
    pub fn amplification(&self) -> Option<f64> {
        let accepted = self.ranges.asked.bytes.saturating_sub(self.ranges.refused.bytes);
        (self.effective_bytes() > 0).then(|| accepted.as_f64() / self.effective_bytes() as f64)
    }
}

/// Tracks which units hold data and what every TRIM changed.
#[derive(Clone, Debug)]
pub struct Ledger {
    map: UnitMap,
    /// Unit size as a power of two, which avoids a division in every command.
    unit_bits: u32,
    /// Totals.
    pub sums: Sums,
}

impl Ledger {
    /// Creates a ledger for an empty drive of `size` bytes. A unit is the logical block,
    /// or a multiple of it if the map could exceed 32 MiB.
    pub fn new(size: u64, logical_block: u32) -> Self {
        let mut unit_bits = logical_block.next_power_of_two().trailing_zeros();
        while size >> unit_bits >> 3 > MAP_BYTES_MAX {
            unit_bits += 1;
        }
        let ranges = Discards { effective: Some(Bytes::ZERO), ..Discards::default() };
        let sums = Sums {
            ranges,
            by_size: vec![Amount::default(); SIZE_CLASSES.len()],
            ..Sums::default()
        };
        Self { map: UnitMap::new(size.div_ceil(1 << unit_bits)), unit_bits, sums }
    }

    /// Units that a byte range touches.
    #[inline]
    pub const fn touched(&self, offset: u64, len: u64) -> Range<u64> {
        let end = offset + len;
        offset >> self.unit_bits..(end >> self.unit_bits) + (end & (self.unit() - 1) != 0) as u64
    }

    /// Units completely within a byte range; the end is before the start if there are
    /// none.
    #[inline]
    pub const fn within(&self, offset: u64, len: u64) -> Range<u64> {
        (offset >> self.unit_bits) + (offset & (self.unit() - 1) != 0) as u64
            ..(offset + len) >> self.unit_bits
    }

    /// Unit size in bytes.
    pub const fn unit(&self) -> u64 {
        1 << self.unit_bits
    }

    /// Bytes that hold data.
    pub const fn mapped_bytes(&self) -> u64 {
        self.map.count() << self.unit_bits
    }

    /// Map of units that hold data.
    pub const fn map(&self) -> &UnitMap {
        &self.map
    }

    /// Records a write.
    pub fn wrote(&mut self, offset: u64, len: u64) {
        self.map.insert(self.touched(offset, len));
    }

    /// Records a TRIM range that the drive carried out.
    pub fn trimmed(&mut self, offset: u64, len: u64) {
        self.asked(len);
        let units = self.within(offset, len);
        let whole = units.end.saturating_sub(units.start) << self.unit_bits;
        let effective = self.map.remove(units) << self.unit_bits;
        *self.sums.ranges.effective.get_or_insert_default() += Bytes(effective);
        self.sums.repeated_bytes += whole - effective;
        self.sums.partial_bytes += len - whole;
        self.sums.repeated_ranges += u64::from(effective == 0);
    }

    /// Records a TRIM range that the drive refused.
    pub fn refused(&mut self, len: u64) {
        self.asked(len);
        self.sums.ranges.refused += Amount::new(1, len);
    }

    /// Records a TRIM range that the drive accepted but ignored.
    pub fn ignored(&mut self, len: u64) {
        self.asked(len);
        self.sums.ignored += Amount::new(1, len);
    }

    /// Records a TRIM command, successful or not.
    pub fn command(&mut self) {
        self.sums.commands += 1;
    }

    fn asked(&mut self, len: u64) {
        self.sums.ranges.asked += Amount::new(1, len);
        let class =
            SIZE_CLASSES.iter().position(|(max, _)| len <= *max).unwrap_or(SIZE_CLASSES.len() - 1);
        self.sums.by_size[class] += Amount::new(1, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ledger_bytes_add_up_to_asked() {
        let mut ledger = Ledger::new(1 << 30, 4096);
        ledger.wrote(0, 1 << 20);
        ledger.trimmed(512 << 10, 1 << 20);
        ledger.trimmed(512 << 10, 1 << 20);
        ledger.trimmed(1000, 5000);
        ledger.refused(4096);
        ledger.ignored(4096);
        let d = &ledger.sums;
        assert_eq!(d.effective_bytes(), 512 << 10);
        assert_eq!(d.repeated_bytes, (512 << 10) + (1 << 20));
        assert_eq!(d.partial_bytes, 5000, "no whole unit");
        let (asked, refused) = (d.ranges.asked, d.ranges.refused);
        assert_eq!(
            asked.bytes.0,
            d.effective_bytes()
                + d.repeated_bytes
                + d.partial_bytes
                + refused.bytes.0
                + d.ignored.bytes.0
        );
        assert_eq!(d.by_size.iter().map(|t| t.count).sum::<u64>(), asked.count);
        assert_eq!(ledger.mapped_bytes(), 512 << 10);
    }

    #[test]
    fn ledger_unit_grows_with_drive_size() {
        assert_eq!(Ledger::new(100_000_000_000, 512).unit(), 512);
        assert_eq!(Ledger::new(4_000_000_000_000, 512).unit(), 16384);
    }

    #[test]
    fn ledger_counts_ranges_by_size_class() {
        let mut ledger = Ledger::new(1 << 40, 4096);
        let (kib, mib) = (1 << 10, 1 << 20);
        let largest = [4 * kib, 16 * kib, 64 * kib, 256 * kib, mib, 16 * mib, 128 * mib];
        for (class, len) in largest.into_iter().enumerate() {
            ledger.refused(len);
            ledger.ignored(len + 1);
            assert_eq!(
                (ledger.sums.by_size[class].count, ledger.sums.by_size[class + 1].count),
                (if class == 0 { 1 } else { 2 }, 1),
                "{len}"
            );
        }
        assert_eq!(ledger.sums.by_size.last(), Some(&Amount::new(1, 128 * mib + 1)));
    }

    #[test]
    fn amplification_is_accepted_over_freed() {
        let mut ledger = Ledger::new(1 << 30, 4096);
        assert_eq!(ledger.sums.amplification(), None);
        ledger.trimmed(0, 4096);
        assert_eq!(ledger.sums.amplification(), None, "nothing was freed");
        ledger.wrote(0, 8192);
        ledger.trimmed(0, 8192);
        ledger.refused(1 << 20);
        assert_eq!(ledger.sums.amplification(), Some(1.5), "12 KiB discarded for 8 KiB freed");
        ledger.command();
        ledger.command();
        assert_eq!((ledger.sums.commands, ledger.sums.repeated_ranges), (2, 1));
    }

    #[test]
    fn ledger_result_is_independent_of_write_size() {
        // One full chunk and one of three pages.
        let units = (CHUNK + 3) * 8;
        let mut map = UnitMap::new(units);
        let pages = || (0..CHUNK + 3).map(|nth| nth * 7919 % (CHUNK + 3));
        for page in pages() {
            assert_eq!(
                (map.insert(page * 8..page * 8 + 8), map.insert(page * 8..page * 8 + 8)),
                (8, 0)
            );
        }
        assert_eq!(
            (map.count(), map.chunks.as_slice()),
            (units, [LedgerChunk::Full, LedgerChunk::Full].as_slice())
        );
        for page in pages() {
            assert_eq!(
                (map.remove(page * 8..page * 8 + 8), map.remove(page * 8..page * 8 + 8)),
                (8, 0)
            );
        }
        assert_eq!(
            (map.count(), map.chunks.as_slice()),
            (0, [LedgerChunk::Empty, LedgerChunk::Empty].as_slice())
        );
    }

    proptest! {
        /// Oracle: one flag per unit and one total per outcome.
        #[test]
        fn ledger_matches_list_of_units(
            changes in prop::collection::vec((0_u8..4, 0_u64..150_000, 1_u64..30_000), 1..60),
        ) {
            const UNIT: u64 = 512;
            let size = 180_000 / UNIT * UNIT;
            let mut ledger = Ledger::new(size, UNIT as u32);
            let mut held = vec![false; (size / UNIT) as usize];
            let (mut asked, mut effective, mut whole_bytes, mut trimmed_bytes, mut ignored) = (0, 0, 0, 0, 0);
            for (what, offset, len) in changes {
                let touched = offset / UNIT..(offset + len).div_ceil(UNIT).min(size / UNIT);
                let whole: Vec<u64> = touched.clone().filter(|unit| unit * UNIT >= offset && (unit + 1) * UNIT <= offset + len).collect();
                match what {
                    0 => {
                        ledger.wrote(offset, len);
                        held[touched.start as usize..touched.end as usize].fill(true);
                    }
                    1 | 2 => {
                        ledger.trimmed(offset, len);
                        (asked, trimmed_bytes, whole_bytes) = (asked + len, trimmed_bytes + len, whole_bytes + whole.len() as u64 * UNIT);
                        effective += whole.iter().filter(|unit| core::mem::take(&mut held[**unit as usize])).count() as u64 * UNIT;
                    }
                    _ => {
                        ledger.ignored(len);
                        (asked, ignored) = (asked + len, ignored + len);
                    }
                }
                let units = held.iter().filter(|held| **held).count() as u64;
                prop_assert_eq!(ledger.mapped_bytes(), units * UNIT);
                let sums = &ledger.sums;
                prop_assert_eq!((sums.ranges.asked.bytes.0, sums.effective_bytes(), sums.ignored.bytes.0), (asked, effective, ignored));
                prop_assert_eq!((sums.repeated_bytes, sums.partial_bytes), (whole_bytes - effective, trimmed_bytes - whole_bytes));
            }
            for (unit, held) in held.iter().enumerate() {
                prop_assert_eq!(ledger.map().contains(unit as u64), *held);
            }
            prop_assert!(!ledger.map().contains(size / UNIT + CHUNK));
            prop_assert_eq!((ledger.map().len(), ledger.map().is_empty(), UnitMap::new(0).is_empty()), (size / UNIT, false, true));
        }

        #[test]
        fn unit_map_matches_set(
            changes in prop::collection::vec((0_u64..150_000, 0_u64..140_000, any::<bool>()), 1..40),
            apart in prop_oneof![Just(None), (0_usize..40).prop_map(Some)],
        ) {
            // Whole pages of eight units, up to the first change that splits a page, if
            // any.
            let units = 140_000 * 8;
            let mut map = UnitMap::new(units);
            let mut model = vec![false; units as usize];
            let splitting = apart.filter(|nth| *nth < changes.len());
            for (nth, (start, len, insert)) in changes.into_iter().enumerate() {
                let odd = u64::from(Some(nth) == splitting);
                let range = (start * 8 + odd).min(units)..((start + len) * 8 + odd).min(units);
                let expected = model[range.start as usize..range.end as usize].iter().filter(|held| **held != insert).count() as u64;
                model[range.start as usize..range.end as usize].fill(insert);
                let got = if insert { map.insert(range) } else { map.remove(range) };
                prop_assert_eq!(got, expected);
            }
            prop_assert!(map.shared == SHARED || splitting.is_some(), "no change split a page");
            let mut listed = vec![false; units as usize];
            for run in map.runs() {
                listed[run.start as usize..run.end as usize].fill(true);
            }
            prop_assert_eq!(map.count(), model.iter().filter(|held| **held).count() as u64);
            prop_assert!(listed == model);
            let mut found = vec![false; units as usize];
            let mut from = 0;
            while let Some(run) = map.next_run(from, units) {
                found[run.start as usize..run.end as usize].fill(true);
                prop_assert!(run.end == units || !model[run.end as usize], "a run must be maximal");
                from = run.end;
            }
            prop_assert!(found == model);
        }
    }
}
