//! Pictures of a run: superblocks of a drive over time, and latencies over time.

use super::Axis;
use super::json::{Check, checked};
use alloc::borrow::ToOwned as _;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use trimtab_drive::Superblock;
use trimtab_drive::units::Nanos;

/// Pictures of a run; usually none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pictures {
    /// Contents of the drive's superblocks over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superblocks: Option<SuperblockMap>,
    /// Latencies of phases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<LatencyMap>,
}

impl Pictures {
    /// True if there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.superblocks.is_none() && self.latencies.is_empty()
    }
}

/// Resolution of shares: one character each.
pub const SHARE_MAX: u8 = 63;

/// Contents of each superblock over time: `x.len() × superblocks` values per layer,
/// ordered by time, in [`SHARE_MAX`]ths of a superblock's capacity. The rest is erased.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct SuperblockMap {
    /// Meaning of `x`.
    pub axis: Axis,
    /// Superblocks per moment; neighbours are merged above
    /// [`SuperblockMap::SUPERBLOCKS_MAX`].
    pub superblocks: u32,
    /// Moments; increasing.
    pub x: Vec<u64>,
    /// Data in use by the filesystem.
    #[serde(with = "shares")]
    pub needed: Vec<u8>,
    /// Freed data that the drive still keeps.
    #[serde(with = "shares")]
    pub unneeded: Vec<u8>,
    /// Stale.
    #[serde(with = "shares")]
    pub stale: Vec<u8>,
    /// 1 in one-bit (SLC) mode.
    #[serde(with = "shares")]
    pub one_bit: Vec<u8>,
}

impl SuperblockMap {
    /// Maximum superblocks drawn; more are merged with their neighbours.
    pub const SUPERBLOCKS_MAX: usize = 600;

    /// A map without moments.
    #[must_use]
    pub const fn new(axis: Axis) -> Self {
        Self {
            axis,
            x: Vec::new(),
            superblocks: 0,
            needed: Vec::new(),
            unneeded: Vec::new(),
            stale: Vec::new(),
            one_bit: Vec::new(),
        }
    }

    /// Adds a moment. `all` must have the same length each time.
    pub fn add(&mut self, x: u64, all: &[Superblock]) {
        let each = all.len().div_ceil(Self::SUPERBLOCKS_MAX).max(1);
        self.superblocks = all.len().div_ceil(each) as u32;
        self.x.push(x);
        for together in all.chunks(each) {
            let sum = |of: fn(&Superblock) -> u64| together.iter().map(of).sum::<u64>();
            let slots = sum(|block| block.slots).max(1);
            // Rounds cumulative sums, so that the parts never exceed the whole.
            let part = |upto: u64| {
                ((upto.min(slots) * u64::from(SHARE_MAX) * 2 + slots) / (slots * 2)) as u8
            };
            let (needed, unneeded) = (sum(|block| block.needed), sum(|block| block.unneeded));
            let (first, second, third) = (
                part(needed),
                part(needed + unneeded),
                part(needed + unneeded + sum(|block| block.stale)),
            );
            self.needed.push(first);
            self.unneeded.push(second - first);
            self.stale.push(third - second);
            self.one_bit.push(u8::from(
                together.iter().filter(|block| block.one_bit).count() * 2 > together.len(),
            ));
        }
    }
}

/// Number of operations by latency and time of issue since the start of the phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct LatencyMap {
    /// Name of the phase.
    pub phase: String,
    /// Width of a column in time.
    #[serde(rename = "every_ns")]
    pub every: Nanos,
    /// Column, bucket ([`LatencyMap::bucket`]), operations: sorted, unique, never 0.
    pub cells: Vec<(u32, u32, u64)>,
    /// Columns with a trim in progress, sorted.
    pub trimming: Vec<u32>,
    /// Longest latency; 0 in runs of older versions.
    #[serde(rename = "longest_ns", default, skip_serializing_if = "is_zero")]
    pub longest: Nanos,
}

impl LatencyMap {
    /// Buckets per octave.
    const STEPS: u32 = 4;
    /// Highest bucket.
    pub const BUCKET_MAX: u32 = 64 * Self::STEPS - 1;

    /// Bucket of a latency, four per octave.
    #[must_use]
    pub const fn bucket(Nanos(ns): Nanos) -> u32 {
        let ns = if ns < 4 { 4 } else { ns };
        let octave = ns.ilog2();
        octave * Self::STEPS + ((ns >> (octave - 2)) & 3) as u32
    }

    /// Longest latency as text; a lower bound if the run does not store it exactly.
    #[must_use]
    pub fn longest_in_words(&self) -> String {
        match self.longest {
            Nanos::ZERO => match self.cells.iter().map(|cell| Self::least(cell.1)).max() {
                Some(least) => format!("≥{least}"),
                None => Nanos::ZERO.to_string(),
            },
            longest => longest.to_string(),
        }
    }

    /// Smallest latency of a bucket, from bucket 8.
    #[must_use]
    pub const fn least(bucket: u32) -> Nanos {
        let octave = bucket / Self::STEPS;
        if octave < 2 {
            return Nanos(4);
        }
        Nanos((4 + (bucket % Self::STEPS) as u64) << (octave - 2))
    }
}

/// Creates a [`LatencyMap`] for a phase of unknown length: columns widen as it grows.
#[derive(Clone, Debug)]
pub struct LatencyRecorder {
    every: Nanos,
    cells: BTreeMap<(u32, u32), u64>,
    trimming: BTreeSet<u32>,
    longest: Nanos,
}

impl LatencyRecorder {
    /// Maximum number of columns.
    const COLUMNS_MAX: u64 = 128;

    /// An empty recorder with columns of 0.1 s.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            every: Nanos::from_millis(100),
            cells: BTreeMap::new(),
            trimming: BTreeSet::new(),
            longest: Nanos::ZERO,
        }
    }

    /// Records an operation issued `at` that took `took`, and if a trim was in progress.
    pub fn record(&mut self, at: Nanos, took: Nanos, trimming: bool) {
        while at.0 / self.every.0 >= Self::COLUMNS_MAX {
            self.every = self.every + self.every;
            let mut wider = BTreeMap::new();
            for ((column, bucket), count) in core::mem::take(&mut self.cells) {
                *wider.entry((column / 2, bucket)).or_insert(0) += count;
            }
            self.cells = wider;
            self.trimming = self.trimming.iter().map(|column| column / 2).collect();
        }
        let column = (at.0 / self.every.0) as u32;
        *self.cells.entry((column, LatencyMap::bucket(took))).or_insert(0) += 1;
        self.longest = self.longest.max(took);
        if trimming {
            self.trimming.insert(column);
        }
    }

    /// Creates the map of a phase.
    #[must_use]
    pub fn finish(self, phase: impl Into<String>) -> LatencyMap {
        let cells = self
            .cells
            .into_iter()
            .map(|((column, bucket), count)| (column, bucket, count))
            .collect();
        LatencyMap {
            phase: phase.into(),
            every: self.every,
            cells,
            trimming: self.trimming.into_iter().collect(),
            longest: self.longest,
        }
    }
}

impl Default for LatencyRecorder {
    fn default() -> Self {
        Self::new()
    }
}

/// Characters for 0 to 63.
pub const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// Shares as text with one character each, so that maps over months stay small.
pub mod shares {
    use super::{ALPHABET, SHARE_MAX};
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// One character per value.
    #[must_use]
    pub fn text(values: &[u8]) -> String {
        values.iter().map(|value| char::from(ALPHABET[usize::from(*value & SHARE_MAX)])).collect()
    }

    pub(super) fn serialize<S: Serializer>(
        values: &[u8],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text(values))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let value = |c: u8| ALPHABET.iter().position(|known| *known == c).map(|at| at as u8);
        let refused =
            |c: u8| D::Error::custom(format!("{:?} is not a share of a superblock", char::from(c)));
        String::deserialize(deserializer)?
            .bytes()
            .map(|c| value(c).ok_or_else(|| refused(c)))
            .collect()
    }
}

fn is_zero(time: &Nanos) -> bool {
    *time == Nanos::ZERO
}

checked!(SuperblockMap, LatencyMap);

impl Check for SuperblockMap {
    fn check(&self) -> Result<(), String> {
        let Self { axis: _, superblocks, x, needed, unneeded, stale, one_bit } = self;
        let all = u64::from(*superblocks) * x.len() as u64;
        for layer in [needed, unneeded, stale, one_bit] {
            if layer.len() as u64 != all {
                return Err(format!(
                    "{superblocks} superblocks at {} moments are {all} values, not {}",
                    x.len(),
                    layer.len()
                ));
            }
        }
        if *superblocks as usize > Self::SUPERBLOCKS_MAX || !x.is_sorted() {
            return Err(format!(
                "more than {} superblocks, or times that do not increase",
                Self::SUPERBLOCKS_MAX
            ));
        }
        let overfull =
            |at: usize| needed[at] + unneeded[at] + stale[at] > SHARE_MAX || one_bit[at] > 1;
        if (0..needed.len()).any(overfull) {
            return Err("the shares of a superblock exceed the whole".to_owned());
        }
        Ok(())
    }
}

impl Check for LatencyMap {
    fn check(&self) -> Result<(), String> {
        let Self { phase, every, cells, trimming, longest: _ } = self;
        let increases =
            cells.windows(2).all(|pair| (pair[0].0, pair[0].1) < (pair[1].0, pair[1].1));
        let possible =
            cells.iter().all(|(_, bucket, count)| *bucket <= Self::BUCKET_MAX && *count > 0);
        if *every == Nanos::ZERO
            || !increases
            || !possible
            || trimming.windows(2).any(|pair| pair[0] >= pair[1])
        {
            return Err(format!(
                "the latencies of '{}' are unsorted or invalid",
                phase.escape_debug()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bucket_contains_its_latency(ns in 4_u64.., shift in 0_u32..60) {
            let ns = (ns >> shift).max(4);
            let bucket = LatencyMap::bucket(Nanos(ns));
            prop_assert!(bucket <= LatencyMap::BUCKET_MAX && LatencyMap::least(bucket).0 <= ns);
            prop_assert!(bucket == LatencyMap::BUCKET_MAX || ns < LatencyMap::least(bucket + 1).0, "{ns} in {bucket}");
        }

        #[test]
        fn recorder_keeps_all_operations_in_few_columns(ops in proptest::collection::vec((0_u64..2_000_000_000_000, 1_u64..1 << 40, any::<bool>()), 1..200)) {
            let mut recorder = LatencyRecorder::new();
            ops.iter().for_each(|(at, took, trimming)| recorder.record(Nanos(*at), Nanos(*took), *trimming));
            let map = recorder.finish("load");
            prop_assert_eq!(map.cells.iter().map(|cell| cell.2).sum::<u64>(), ops.len() as u64);
            let longest = ops.iter().map(|op| op.1).max().unwrap();
            prop_assert_eq!(map.longest_in_words(), Nanos(longest).to_string(), "not where a bucket begins");
            prop_assert!(map.cells.iter().all(|cell| u64::from(cell.0) < LatencyRecorder::COLUMNS_MAX));
            for (at, took, trimming) in ops {
                let column = (at / map.every.0) as u32;
                prop_assert!(map.cells.iter().any(|cell| (cell.0, cell.1) == (column, LatencyMap::bucket(Nanos(took)))));
                prop_assert!(!trimming || map.trimming.contains(&column));
            }
        }

        #[test]
        fn shares_never_exceed_a_superblock(blocks in proptest::collection::vec((1_u64..5000, 0.0_f64..1.0, 0.0_f64..1.0, 0.0_f64..1.0), 1..1500)) {
            let block = |(slots, a, b, c): &(u64, f64, f64, f64)| {
                let needed = (*slots as f64 * a) as u64;
                let unneeded = ((slots - needed) as f64 * b) as u64;
                let stale = ((slots - needed - unneeded) as f64 * c) as u64;
                Superblock { slots: *slots, needed, unneeded, stale, one_bit: false }
            };
            let all: Vec<Superblock> = blocks.iter().map(block).collect();
            let mut map = SuperblockMap::new(Axis::BytesWritten);
            map.add(7, &all);
            prop_assert!(map.superblocks as usize <= SuperblockMap::SUPERBLOCKS_MAX && map.needed.len() == map.superblocks as usize);
            for at in 0..map.needed.len() {
                prop_assert!(map.needed[at] + map.unneeded[at] + map.stale[at] <= SHARE_MAX);
            }
            if all.len() <= SuperblockMap::SUPERBLOCKS_MAX {
                for (at, block) in all.iter().enumerate() {
                    let exact = block.needed as f64 / block.slots as f64;
                    prop_assert!((f64::from(map.needed[at]) / 63.0 - exact).abs() <= 0.5 / 63.0 + 1e-9);
                }
            }
        }
    }

    #[test]
    fn superblock_map_has_a_row_per_moment() {
        let full = Superblock { slots: 100, needed: 100, ..Superblock::default() };
        let half = Superblock {
            slots: 50,
            unneeded: 25,
            stale: 25,
            one_bit: true,
            ..Superblock::default()
        };
        let mut map = SuperblockMap::new(Axis::BytesWritten);
        map.add(0, &[Superblock { slots: 100, ..Superblock::default() }; 2]);
        map.add(5, &[full, half]);
        assert_eq!((map.x.clone(), map.superblocks), (vec![0, 5], 2));
        assert_eq!((map.needed, map.unneeded), (vec![0, 0, 63, 0], vec![0, 0, 0, 32]));
        assert_eq!((map.stale, map.one_bit), (vec![0, 0, 0, 31], vec![0, 0, 0, 1]));
    }
}
