//! Memory of which little is used at most times.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

/// A private mapping that takes memory only where something was written.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for Memory {}

impl Memory {
    /// `len` bytes, all zero.
    pub fn new(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address that the kernel chooses aliases nothing.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping made above. Huge pages would take memory for what is never used.
        unsafe { libc::madvise(base, len, libc::MADV_NOHUGEPAGE) };
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { base, len })
    }

    /// Address of the byte at `at`, which lies inside.
    pub fn address(&self, at: usize) -> *mut u8 {
        assert!(at < self.len, "the byte lies inside the mapping");
        // SAFETY: checked above.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// Bytes that nobody else uses now.
    pub fn bytes(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.len, "the range lies inside the mapping");
        // SAFETY: inside the mapping (checked), initialised (anonymous memory is zero), and borrowed from `self` alone.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(range.start), range.len()) }
    }

    /// Gives all memory back to the kernel; every byte is zero then.
    pub fn give_back(&mut self) {
        // SAFETY: the mapping made in `new`, borrowed from `self` alone.
        unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, libc::MADV_DONTNEED) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, which nothing uses any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
