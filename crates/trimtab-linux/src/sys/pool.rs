//! Memory that block operations read into and write from, and that requests are served in: page-aligned, from the kernel.

use std::io;
use std::ptr::NonNull;

/// A private mapping.
#[derive(Debug)]
pub struct Pool {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for Pool {}

impl Pool {
    /// At least `len` bytes, all zero, in huge pages where the kernel has them.
    pub fn new(len: usize) -> io::Result<Self> {
        const HUGE_PAGE: usize = 2 << 20;
        if len < HUGE_PAGE {
            return Self::map(len.max(1).next_multiple_of(4096), 0);
        }
        let pool = Self::map(len.next_multiple_of(HUGE_PAGE), 0)?;
        pool.advise(libc::MADV_HUGEPAGE);
        Ok(pool)
    }

    /// `len` bytes, all zero, which take memory only where something was written.
    pub fn sparse(len: usize) -> io::Result<Self> {
        let pool = Self::map(len, libc::MAP_NORESERVE)?;
        // Huge pages would take memory for what is never used.
        pool.advise(libc::MADV_NOHUGEPAGE);
        Ok(pool)
    }

    fn map(len: usize, flags: i32) -> io::Result<Self> {
        let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh anonymous mapping at an address that the kernel chooses aliases nothing.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { base, len })
    }

    /// Only hints: whatever the kernel makes of them, everything works.
    fn advise(&self, advice: i32) {
        // SAFETY: the range is the mapping made in `map`; no advice that is given here while somebody uses its bytes changes them.
        unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, advice) };
    }

    /// Gives all memory back to the kernel; every byte is zero then.
    pub fn give_back(&mut self) {
        self.advise(libc::MADV_DONTNEED);
    }

    /// Size in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Address of the first byte.
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Address of the byte at `at`, which lies inside.
    #[inline]
    pub(super) fn address(&self, at: usize) -> *mut u8 {
        assert!(at < self.len, "the address lies inside the pool");
        // SAFETY: `at` lies inside the mapping.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// The bytes from `at`.
    #[inline]
    pub fn bytes(&mut self, at: usize, len: usize) -> &mut [u8] {
        assert!(at <= self.len && len <= self.len - at, "the range lies inside the pool");
        // SAFETY: inside the mapping (checked), initialised (anonymous memory is zero), and borrowed from `self` alone; who in this room
        // gives addresses to the kernel asks for no bytes of what is in flight.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(at), len) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, which nothing uses any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
