//! The memory that block operations read into and write from: page-aligned, and in huge pages where the kernel has them.

use std::io;
use std::ptr::NonNull;

/// A private mapping.
#[derive(Debug)]
pub struct Pool {
    base: NonNull<u8>,
    len: usize,
}

impl Pool {
    /// At least `len` bytes, all zero.
    pub fn new(len: usize) -> io::Result<Self> {
        const HUGE_PAGE: usize = 2 << 20;
        let len = if len >= HUGE_PAGE { len.next_multiple_of(HUGE_PAGE) } else { len.max(1).next_multiple_of(4096) };
        // SAFETY: a fresh anonymous mapping at an address that the kernel chooses aliases nothing.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        if len >= HUGE_PAGE {
            // Only a hint: without huge pages everything works, a little slower.
            // SAFETY: the range is the mapping made above.
            unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        }
        Ok(Self { base, len })
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Address of the first byte.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Address of the byte at `at`, which lies inside.
    #[inline]
    pub fn address(&self, at: usize) -> *mut u8 {
        debug_assert!(at < self.len);
        // SAFETY: `at` lies inside the mapping.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// The bytes from `at`, as long as no operation in flight uses them.
    #[inline]
    pub fn bytes(&mut self, at: usize, len: usize) -> &mut [u8] {
        assert!(at <= self.len && len <= self.len - at, "the range lies inside the pool");
        // SAFETY: inside the mapping (checked), initialised (anonymous memory is zero), and borrowed from `self` alone;
        // the target keeps to ranges of tags that are not in flight.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(at), len) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, which nothing uses any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
