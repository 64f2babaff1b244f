//! Direct I/O on files of any size.
//!
//! Whole aligned pieces bypass the page cache. An unaligned start or end goes through the
//! cache on the same descriptor; direct reads stop at the end of the file by themselves.

use super::{ReadError, piece, read_once, write_all};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use trimtab_drive::rng::Stream;
use trimtab_sim::op::Payload;

/// Alignment of offsets, lengths and memory: sufficient for every drive and filesystem.
pub const ALIGNMENT: u32 = 4096;
const ALIGN: u64 = ALIGNMENT as u64;

/// Memory aligned to [`ALIGNMENT`].
#[derive(Debug)]
pub(super) struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    pub(super) fn new(len: usize) -> Self {
        let memory = vec![0; len + ALIGNMENT as usize];
        let start = memory.as_ptr().align_offset(ALIGNMENT as usize);
        Self { memory, start }
    }

    pub(super) fn bytes(&mut self, len: usize) -> &mut [u8] {
        &mut self.memory[self.start..self.start + len]
    }
}

/// The `O_DIRECT` state of one open file.
struct Modes<'a> {
    file: &'a OwnedFd,
    flags: OFlags,
    direct: bool,
}

impl Modes<'_> {
    fn set(&mut self, direct: bool) -> Result<(), Errno> {
        if self.direct != direct {
            self.direct = direct;
            self.flags.set(OFlags::DIRECT, direct);
            rustix::fs::fcntl_setfl(self.file, self.flags)?;
        }
        Ok(())
    }
}

/// Writes all of `payload` at offset `at`, the end of the file, in calls of `block`
/// bytes. `flags` are the open flags of `file`, including [`OFlags::DIRECT`].
pub(super) fn write(
    file: &OwnedFd,
    flags: OFlags,
    at: u64,
    payload: &Payload<'_>,
    block: u64,
    data: &mut Stream,
    (buffer, bounce): (&mut Vec<u8>, &mut AlignedBuffer),
) -> Result<(), Errno> {
    let mut modes = Modes { file, flags, direct: true };
    let len = payload.len();
    let head = (at.next_multiple_of(ALIGN) - at).min(len);
    let body = (len - head) / ALIGN * ALIGN;
    let mut done = 0;
    for (end, direct) in [(head, false), (head + body, true), (len, false)] {
        while done < end {
            let size = block.min(end - done);
            modes.set(direct)?;
            let bytes = piece(payload, done, size, data, buffer);
            if direct {
                let aligned = bounce.bytes(size as usize);
                aligned.copy_from_slice(bytes);
                write_all(file, aligned)?;
            } else {
                write_all(file, bytes)?;
            }
            done += size;
            super::check_interrupt()?;
        }
    }
    Ok(())
}

/// Reads `len` bytes from the start in calls of `block` bytes, a multiple of
/// [`ALIGNMENT`].
pub(super) fn read(
    file: &OwnedFd,
    len: u64,
    block: u64,
    bounce: &mut AlignedBuffer,
) -> Result<(), ReadError> {
    let mut at = 0;
    while at < len {
        let want = block.min(len - at);
        let got = read_once(file, bounce.bytes(want.next_multiple_of(ALIGN) as usize))? as u64;
        // A truncated file, or a short read that leaves the offset unaligned.
        if got < want {
            return Err(ReadError::TooShort);
        }
        at += want;
        super::check_interrupt()?;
    }
    Ok(())
}
