//! Reads raw blocks back, bypassing all caches of this machine, and classifies them.

use super::extents::DeviceExtent;
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Size of a classified block: filesystems allocate no smaller units for such files.
pub const BLOCK: usize = 4096;
const CHUNK: usize = 1 << 20;

/// A device open for direct reading.
#[derive(Debug)]
pub struct RawDevice {
    /// Path of the device.
    pub path: PathBuf,
    file: File,
    buffer: Vec<u8>,
}

impl RawDevice {
    /// Opens the device read-only.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file =
            openat(CWD, path, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { path: path.to_owned(), file: File::from(file), buffer: vec![0; CHUNK + BLOCK] })
    }

    /// Reads `len` bytes at `offset`, multiples of the block size, piece by piece to
    /// `see`.
    pub fn read(
        &mut self,
        offset: u64,
        len: u64,
        mut see: impl FnMut(u64, &[u8]),
    ) -> io::Result<()> {
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

/// Number of blocks by content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockContents {
    /// All bytes 0x00.
    pub zero: u64,
    /// All bits 1.
    pub ones: u64,
    /// The content written.
    pub written: u64,
    /// Any other content.
    pub other: u64,
}

impl BlockContents {
    /// Number of blocks.
    pub fn total(&self) -> u64 {
        self.zero + self.ones + self.written + self.other
    }

    /// Counts a block.
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

    /// Adds the counts of `more`.
    pub fn add(&mut self, more: &Self) {
        self.zero += more.zero;
        self.ones += more.ones;
        self.written += more.written;
        self.other += more.other;
    }
}

/// The part of a place in whole units of `unit` bytes on the device (and in whole
/// blocks), which a discard can cover. `None` if it has none.
pub fn interior(placed: &DeviceExtent, unit: u64) -> Option<DeviceExtent> {
    let unit = unit.max(BLOCK as u64);
    let start = placed.offset.checked_next_multiple_of(unit)?;
    let end = placed.offset.checked_add(placed.len)? / unit * unit;
    let len = end.checked_sub(start).filter(|len| *len > 0)?;
    Some(DeviceExtent {
        in_file: placed.in_file + (start - placed.offset),
        device: placed.device.clone(),
        offset: start,
        len,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_note_classifies_blocks() {
        let written: Vec<u8> = (0..BLOCK).map(|i| i as u8).collect();
        let mut content = BlockContents::default();
        content.note(&written, &written);
        content.note(&[0; BLOCK], &written);
        content.note(&[0xff; BLOCK], &written);
        content.note(&[0x55; BLOCK], &written);
        assert_eq!(content, BlockContents { zero: 1, ones: 1, written: 1, other: 1 });
    }

    #[test]
    fn interior_contains_only_whole_discard_units() {
        let placed =
            |offset, len| DeviceExtent { in_file: 100, device: "/dev/x".into(), offset, len };
        assert_eq!(
            interior(&placed(4096, 3 << 20), 1 << 20),
            Some(DeviceExtent { in_file: 100 + (1 << 20) - 4096, ..placed(1 << 20, 2 << 20) })
        );
        assert_eq!(interior(&placed(4096, 1 << 20), 1 << 20), None);
        assert_eq!(interior(&placed(8192, 8192), 512), Some(placed(8192, 8192)));
        assert_eq!(interior(&placed(u64::MAX - 4096, 8192), 4096), None, "absurd");
    }
}
