//! Page-aligned memory from the kernel, for the data of block operations and of served
//! requests.

use std::io;
use std::ptr::NonNull;

/// A private anonymous mapping.
#[derive(Debug)]
pub struct Pool {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for Pool {}

impl Pool {
    /// Maps at least `len` zero bytes, in huge pages if available.
    pub fn new(len: usize) -> io::Result<Self> {
        const HUGE_PAGE: usize = 2 << 20;
        if len < HUGE_PAGE {
            return Self::map(len.max(1).next_multiple_of(4096), 0);
        }
        let pool = Self::map(len.next_multiple_of(HUGE_PAGE), 0)?;
        pool.advise(libc::MADV_HUGEPAGE);
        Ok(pool)
    }

    /// Maps `len` zero bytes. Only pages that are written take memory.
    pub fn sparse(len: usize) -> io::Result<Self> {
        let pool = Self::map(len, libc::MAP_NORESERVE)?;
        // Huge pages would allocate memory that is never used.
        pool.advise(libc::MADV_NOHUGEPAGE);
        Ok(pool)
    }

    fn map(len: usize, flags: i32) -> io::Result<Self> {
        let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh anonymous mapping at an address that the kernel chooses aliases
        // nothing.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { base, len })
    }

    /// Gives the kernel a hint. Ignores failure: correctness does not depend on it.
    fn advise(&self, advice: i32) {
        // SAFETY: the range is the mapping made in `map`. Advice that changes content is
        // given only by `give_back`, which borrows the pool exclusively.
        unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, advice) };
    }

    /// Returns all memory to the kernel. Every byte is zero afterwards.
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

    /// Address of the byte at offset `at`. Panics if `at` is outside the pool.
    #[inline]
    pub(super) fn address(&self, at: usize) -> *mut u8 {
        assert!(at < self.len, "the address lies inside the pool");
        // SAFETY: `at` is inside the mapping.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// The `len` bytes from offset `at`. Panics if the range is outside the pool.
    #[inline]
    pub fn bytes(&mut self, at: usize, len: usize) -> &mut [u8] {
        assert!(at <= self.len && len <= self.len - at, "the range lies inside the pool");
        // SAFETY: the range is inside the mapping (checked), initialised (anonymous
        // memory is zero), and borrowed from `self` alone. Modules that give addresses to
        // the kernel never borrow the bytes of an operation in flight.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(at), len) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, which is not used again.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
