//! File names of a stream: existence and sizes.

use super::tables::{FILE_SIZES, draw};
use super::{EXISTING_PERCENT, FILES_PER_DIR};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::Bytes;

/// Mean of the exponential popularity: a fifth of the files get 63 % of the accesses.
const POPULARITY_MEAN: f64 = 0.2;

#[derive(Clone, Debug)]
pub(super) struct FileSet {
    root: String,
    /// Size of each existing name.
    sizes: Vec<Option<u64>>,
    /// Existing names by popularity, and missing ones.
    existing: Vec<u32>,
    missing: Vec<u32>,
    /// New files below their final size: name, final size.
    filling: VecDeque<(u32, u64)>,
}

/// Target of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteRange {
    pub(super) file: u32,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl FileSet {
    pub(super) fn new(root: String, names: u32, rng: &mut Stream) -> Self {
        // One file always stays; creating or removing another needs a second name.
        let names = names.max(2);
        let mut order: Vec<u32> = (0..names).collect();
        rng.shuffle(&mut order);
        let exist = (u64::from(names) * u64::from(EXISTING_PERCENT)).div_ceil(100) as usize;
        let missing = order.split_off(exist);
        let mut sizes = vec![None; names as usize];
        for &file in &order {
            sizes[file as usize] = Some(draw(&FILE_SIZES, rng));
        }
        Self { root, sizes, existing: order, missing, filling: VecDeque::new() }
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    pub(super) fn names(&self) -> u32 {
        self.sizes.len() as u32
    }

    pub(super) fn dirs(&self) -> u32 {
        self.names().div_ceil(FILES_PER_DIR)
    }

    pub(super) fn size(&self) -> Bytes {
        self.sizes.iter().flatten().copied().map(Bytes).sum()
    }

    pub(super) fn existing_size(&self, file: u32) -> Option<u64> {
        self.sizes[file as usize]
    }

    pub(super) fn current_size(&self, file: u32) -> u64 {
        self.existing_size(file).unwrap_or(0)
    }

    pub(super) fn dir_path(&self, dir: u32, path: &mut String) {
        path.clear();
        let _ = write!(path, "{}/d{dir:04}", self.root);
    }

    pub(super) fn path(&self, file: u32, path: &mut String) {
        self.dir_path(file / FILES_PER_DIR, path);
        let _ = write!(path, "/f{:02}", file % FILES_PER_DIR);
    }

    pub(super) fn can_create(&self) -> bool {
        !self.missing.is_empty()
    }

    /// True if a file may be removed; one always stays for other operations.
    pub(super) fn can_remove(&self) -> bool {
        self.existing.len() > 1
    }

    /// An existing file, by popularity.
    pub(super) fn popular(&self, rng: &mut Stream) -> u32 {
        let n = self.existing.len() as f64;
        let place = -libm::log(1.0 - rng.unit()) * POPULARITY_MEAN * n;
        self.existing[place as usize % self.existing.len()]
    }

    /// Creates a missing name as an empty file.
    pub(super) fn create(&mut self, rng: &mut Stream) -> u32 {
        let file = self.missing.swap_remove(rng.below(self.missing.len() as u64) as usize);
        self.existing.push(file);
        self.sizes[file as usize] = Some(0);
        self.filling.push_back((file, draw(&FILE_SIZES, rng)));
        file
    }

    /// Removes an existing file.
    pub(super) fn remove(&mut self, rng: &mut Stream) -> u32 {
        let file = self.existing.swap_remove(rng.below(self.existing.len() as u64) as usize);
        self.missing.push(file);
        self.sizes[file as usize] = None;
        self.filling.retain(|(filling, _)| *filling != file);
        file
    }

    /// Target for `want` bytes: the end of a file being filled, or part of a large enough
    /// one.
    pub(super) fn place_write(&mut self, want: u64, draws: u32, rng: &mut Stream) -> WriteRange {
        if let Some(&(file, target)) = self.filling.front() {
            let offset = self.current_size(file);
            let len = want.min(target - offset);
            self.sizes[file as usize] = Some(offset + len);
            if offset + len == target {
                self.filling.pop_front();
            }
            return WriteRange { file, offset, len };
        }
        let mut largest = self.popular(rng);
        for _ in 1..draws {
            if self.current_size(largest) >= want {
                break;
            }
            let other = self.popular(rng);
            if self.current_size(other) > self.current_size(largest) {
                largest = other;
            }
        }
        let size = self.current_size(largest);
        let len = want.min(size);
        let offset = rng.below((size - len) / 1024 + 1) * 1024;
        WriteRange { file: largest, offset, len }
    }
}
