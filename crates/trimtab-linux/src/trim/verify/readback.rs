//! Reading raw blocks back, past all caches of this machine, and telling what is in them.

use super::extents::Placed;
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Blocks are told apart in this size: no filesystem here allocates less at a time for files of this size.
pub const BLOCK: usize = 4096;
/// Bytes read at once.
const CHUNK: usize = 1 << 20;

/// A device open for direct reading.
#[derive(Debug)]
pub struct RawDevice {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
}

impl RawDevice {
    /// Opens it, for reading only.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = openat(CWD, path, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { path: path.to_owned(), file: File::from(file), buffer: vec![0; CHUNK + BLOCK] })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads `len` bytes at `offset`, both multiples of the block size, in pieces, and hands each to `see`.
    pub fn read(&mut self, offset: u64, len: u64, mut see: impl FnMut(u64, &[u8])) -> io::Result<()> {
        let start = self.buffer.as_ptr().align_offset(BLOCK);
        let mut done = 0;
        while done < len {
            let part = usize::try_from((len - done).min(CHUNK as u64)).unwrap_or(CHUNK);
            let piece = &mut self.buffer[start..start + part];
            self.file.read_exact_at(piece, offset + done)?;
            see(done, piece);
            done += part as u64;
        }
        Ok(())
    }
}

/// How many blocks read as what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Content {
    /// All zeroes.
    pub zero: u64,
    /// All ones.
    pub ones: u64,
    /// What was written.
    pub written: u64,
    /// Something else.
    pub other: u64,
}

impl Content {
    /// All blocks.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.zero + self.ones + self.written + self.other
    }

    /// Counts one block.
    pub fn note(&mut self, found: &[u8], written: &[u8]) {
        let counter = if found == written {
            &mut self.written
        } else if found.iter().all(|b| *b == 0) {
            &mut self.zero
        } else if found.iter().all(|b| *b == 0xff) {
            &mut self.ones
        } else {
            &mut self.other
        };
        *counter += 1;
    }

    /// Adds `more`.
    pub fn add(&mut self, more: &Self) {
        self.zero += more.zero;
        self.ones += more.ones;
        self.written += more.written;
        self.other += more.other;
    }
}

/// The part of a place that consists of whole units of `unit` bytes on the device (and of whole blocks): what a discard of
/// that unit can cover. `None` if there is no such part.
#[must_use]
pub fn interior(placed: &Placed, unit: u64) -> Option<Placed> {
    let unit = unit.max(BLOCK as u64);
    let start = placed.offset.checked_next_multiple_of(unit)?;
    let end = placed.offset.checked_add(placed.len)? / unit * unit;
    let len = end.checked_sub(start).filter(|len| *len > 0)?;
    Some(Placed { in_file: placed.in_file + (start - placed.offset), device: placed.device.clone(), offset: start, len })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_told_apart() {
        let written: Vec<u8> = (0..BLOCK).map(|i| i as u8).collect();
        let mut content = Content::default();
        content.note(&written, &written);
        content.note(&[0; BLOCK], &written);
        content.note(&[0xff; BLOCK], &written);
        content.note(&[0x55; BLOCK], &written);
        assert_eq!(content, Content { zero: 1, ones: 1, written: 1, other: 1 });
    }

    #[test]
    fn only_whole_units_can_be_expected_to_be_discarded() {
        let placed = |offset, len| Placed { in_file: 100, device: "/dev/x".into(), offset, len };
        assert_eq!(interior(&placed(4096, 3 << 20), 1 << 20), Some(Placed { in_file: 100 + (1 << 20) - 4096, ..placed(1 << 20, 2 << 20) }));
        assert_eq!(interior(&placed(4096, 1 << 20), 1 << 20), None);
        assert_eq!(interior(&placed(8192, 8192), 512), Some(placed(8192, 8192)));
        assert_eq!(interior(&placed(u64::MAX - 4096, 8192), 4096), None, "absurd");
    }
}
