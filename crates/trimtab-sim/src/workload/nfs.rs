//! An emulation of the operation mix of SPECsfs2008 (NFSv3), not SPEC's benchmark.
//!
//! The mix is exactly the published one. SPEC's tables of file and transfer sizes are not
//! public, so the tables come from filebench's `netsfs` workload, which was modelled on
//! them. The figures compare drives, filesystems and trim policies with each other, not
//! with published SPECsfs results.
//!
//! Every stream (SPEC's processes) has its own directories of 20 file names; 60 % exist
//! at the start. Names are selected by an exponential popularity. Writes fill new files
//! up to their size or overwrite existing ones, so the set of files has a constant size.

mod figures;
mod files;
mod response;
mod tables;

pub use figures::{RequestedLoad, metrics, point};
pub use response::{Point, overall_response_time};
pub use tables::{FILE_SIZES, MIX, READ_SIZES, SizeClass, WRITE_SIZES, mean_size};

use self::files::FileSet;
use crate::op::NfsOp;
use crate::op::Payload;
use crate::target::{NfsTarget, TargetResult};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::OpKind;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::Bytes;

/// Names per directory, excluding its link.
pub const FILES_PER_DIR: u32 = 20;
/// Percent of the names that exist at the start.
pub const EXISTING_PERCENT: u32 = 60;
/// Alignment of reads.
const READ_ALIGNMENT: u64 = 8192;
/// Maximum draws to find a file that is large enough for a write.
const DRAWS_MAX: u32 = 64;

/// Settings of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NfsSettings {
    /// File names per stream; at least 1.
    pub files: u32,
    /// Class of written data.
    pub data: DataClass,
    /// Seed of all streams.
    pub seed: u64,
}

/// Mean bytes written per operation (upper bound).
#[must_use]
pub fn written_per_op() -> f64 {
    let share =
        MIX.iter().find(|(kind, _)| *kind == OpKind::Write).map_or(0, |(_, percent)| *percent);
    f64::from(share) / 100.0 * mean_size(&WRITE_SIZES)
}

/// A stream of operations and its files.
#[derive(Clone, Debug)]
pub struct NfsStream {
    files: FileSet,
    data: DataClass,
    rng: Stream,
    /// The next operations: the mix, shuffled, so every hundred operations match it
    /// exactly.
    deck: Vec<OpKind>,
    path: String,
}

impl NfsStream {
    /// Creates stream `index`.
    #[must_use]
    pub fn new(settings: &NfsSettings, index: u32) -> Self {
        let mut rng = Stream::new(settings.seed, &format!("nfs-{index}"));
        let files = FileSet::new(format!("s{index:03}"), settings.files.max(1), &mut rng);
        Self { files, data: settings.data, rng, deck: Vec::new(), path: String::new() }
    }

    /// Bytes in its files now.
    #[must_use]
    pub fn size(&self) -> Bytes {
        self.files.size()
    }

    /// Creates directories, links and files on `target`; calls `made` with the bytes of
    /// each.
    pub fn prepare<T: NfsTarget + ?Sized>(
        &mut self,
        target: &mut T,
        mut made: impl FnMut(u64) -> TargetResult,
    ) -> TargetResult {
        target.make_dir(self.files.root())?;
        for dir in 0..self.files.dirs() {
            self.files.dir_path(dir, &mut self.path);
            target.make_dir(&self.path)?;
            let link = format!("{}/link", self.path);
            target.symlink(&link, "f00")?;
        }
        for file in 0..self.files.names() {
            if let Some(len) = self.files.existing_size(file) {
                self.files.path(file, &mut self.path);
                target.create(&self.path, &Payload::Fill { len, class: self.data })?;
                made(len)?;
            }
        }
        Ok(())
    }

    /// Next operation; the stream is endless.
    pub fn next_op(&mut self) -> NfsOp<'_> {
        let kind = self.draw_kind();
        let (mut offset, mut len) = (0, 0);
        match kind {
            OpKind::FsStat => self.path.clear(),
            OpKind::ReadDir | OpKind::ReadDirPlus | OpKind::ReadLink => {
                let dir = self.rng.below(u64::from(self.files.dirs())) as u32;
                self.files.dir_path(dir, &mut self.path);
                if kind == OpKind::ReadLink {
                    self.path.push_str("/link");
                }
            }
            OpKind::Create => {
                let file = self.files.create(&mut self.rng);
                self.files.path(file, &mut self.path);
            }
            OpKind::Delete => {
                let file = self.files.remove(&mut self.rng);
                self.files.path(file, &mut self.path);
            }
            OpKind::Write => {
                let want = tables::draw(&WRITE_SIZES, &mut self.rng);
                let place = self.files.place_write(want, DRAWS_MAX, &mut self.rng);
                (offset, len) = (place.offset, place.len);
                self.files.path(place.file, &mut self.path);
            }
            OpKind::Read => {
                let file = self.files.popular(&mut self.rng);
                let size = self.files.current_size(file);
                offset = self.rng.below(size.div_ceil(READ_ALIGNMENT)) * READ_ALIGNMENT;
                len = tables::draw(&READ_SIZES, &mut self.rng).min(size - offset);
                self.files.path(file, &mut self.path);
            }
            _ => {
                let file = self.files.popular(&mut self.rng);
                self.files.path(file, &mut self.path);
            }
        }
        NfsOp { kind, path: &self.path, offset, len }
    }

    /// Class of written data.
    #[must_use]
    pub const fn data(&self) -> DataClass {
        self.data
    }

    /// Next kind from the deck. An impossible create or remove becomes its counterpart.
    fn draw_kind(&mut self) -> OpKind {
        if self.deck.is_empty() {
            for (kind, percent) in MIX {
                self.deck.extend(core::iter::repeat_n(kind, percent as usize));
            }
            self.rng.shuffle(&mut self.deck);
        }
        match self.deck.pop() {
            Some(OpKind::Create) if !self.files.can_create() => OpKind::Delete,
            Some(OpKind::Delete) if !self.files.can_remove() => OpKind::Create,
            Some(kind) => kind,
            None => OpKind::GetAttr,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::string::ToString;
    use proptest::prelude::*;

    fn settings(files: u32, seed: u64) -> NfsSettings {
        NfsSettings { files, data: DataClass::Random, seed }
    }

    /// Files of a stream as on a filesystem.
    fn tree(stream: &NfsStream) -> BTreeMap<String, u64> {
        let mut path = String::new();
        (0..stream.files.names())
            .filter_map(|file| {
                stream.files.path(file, &mut path);
                Some((path.clone(), stream.files.existing_size(file)?))
            })
            .collect()
    }

    /// Mean initial bytes of `files` names.
    fn size_of_files(files: u64) -> Bytes {
        Bytes((files as f64 * f64::from(EXISTING_PERCENT) / 100.0 * mean_size(&FILE_SIZES)) as u64)
    }

    #[test]
    fn every_hundred_operations_match_the_mix_exactly() {
        assert_eq!(MIX.iter().map(|(_, percent)| percent).sum::<u32>(), 100);
        let mut stream = NfsStream::new(&settings(2000, 1), 0);
        for _ in 0..50 {
            let mut counts: BTreeMap<OpKind, u32> = BTreeMap::new();
            for _ in 0..100 {
                *counts.entry(stream.next_op().kind).or_default() += 1;
            }
            assert_eq!(counts, MIX.into_iter().collect());
        }
    }

    #[test]
    fn streams_differ_and_are_reproducible() {
        let ops = |seed, index| {
            let mut stream = NfsStream::new(&settings(500, seed), index);
            (0..300).map(|_| format!("{:?}", stream.next_op())).collect::<Vec<_>>()
        };
        assert_eq!(ops(1, 0), ops(1, 0));
        assert_ne!(ops(1, 0), ops(2, 0));
        assert_ne!(ops(1, 0), ops(1, 1));
    }

    #[test]
    fn file_set_size_stays_constant() {
        let mut stream = NfsStream::new(&settings(3000, 7), 0);
        let (files, size) = (tree(&stream).len() as f64, stream.size().as_f64());
        let expected = size_of_files(3000).as_f64();
        assert!((size / expected - 1.0).abs() < 0.25, "{size} of {expected}");
        for _ in 0..400_000 {
            stream.next_op();
        }
        let (files_after, size_after) = (tree(&stream).len() as f64, stream.size().as_f64());
        assert!((files_after / files - 1.0).abs() < 0.1, "{files} {files_after}");
        assert!((size_after / size - 1.0).abs() < 0.3, "{size} {size_after}");
    }

    #[test]
    fn nfs_write_sizes_follow_table_for_large_files() {
        let mut stream = NfsStream::new(&settings(5000, 3), 0);
        let (mut bytes, mut writes) = (0, 0);
        for _ in 0..100_000 {
            let op = stream.next_op();
            if op.kind == OpKind::Write {
                bytes += op.len;
                writes += 1;
            }
        }
        let mean = bytes as f64 / f64::from(writes);
        // New files are filled with smaller writes, so the mean is below the table's.
        assert!(
            mean <= mean_size(&WRITE_SIZES) * 1.02 && mean > mean_size(&WRITE_SIZES) * 0.7,
            "{mean}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn operations_are_always_possible(files in 1_u32..400, seed in any::<u64>()) {
            let mut stream = NfsStream::new(&settings(files, seed), 0);
            let mut tree = tree(&stream);
            for _ in 0..3000 {
                let op = stream.next_op();
                let (kind, path, offset, len) = (op.kind, op.path.to_string(), op.offset, op.len);
                match kind {
                    OpKind::FsStat => prop_assert!(path.is_empty()),
                    OpKind::ReadDir | OpKind::ReadDirPlus => prop_assert!(!path.contains("/f")),
                    OpKind::ReadLink => prop_assert!(path.ends_with("/link")),
                    OpKind::Create => prop_assert!(tree.insert(path, 0).is_none(), "created twice"),
                    OpKind::Delete => prop_assert!(tree.remove(&path).is_some(), "removed a missing file"),
                    _ => {
                        let size = tree.get_mut(&path);
                        prop_assert!(size.is_some(), "{kind:?} of {path}, a missing file");
                        let size = size.unwrap();
                        if kind == OpKind::Read {
                            prop_assert!(offset + len <= *size);
                        }
                        if kind == OpKind::Write {
                            prop_assert!(len > 0 && offset <= *size, "no holes");
                            *size = (*size).max(offset + len);
                        }
                    }
                }
            }
            prop_assert_eq!(tree.values().sum::<u64>(), stream.size().0);
        }
    }
}
