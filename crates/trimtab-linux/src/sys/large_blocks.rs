//! Allocator for large tables: uses huge pages if available, and caches freed blocks for the
//! next table of the same size.
//!
//! Studies and sweeps create and drop drives with tables of a gigabyte. Random writes touch
//! the whole table, and with small pages address translation takes most of the time. Without
//! the cache, clearing a gigabyte for each new drive takes the kernel longer than the
//! simulation itself.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Mutex, PoisonError};

/// Minimum size in bytes; the system allocator handles smaller blocks.
const LARGE: usize = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;
/// Maximum size of the cache, in bytes. The kernel may reclaim cached memory when memory is
/// short.
const KEPT_BYTES_MAX: usize = 4 << 30;
const KEPT_MAX: usize = 32;

/// The global allocator of the program.
#[derive(Debug)]
pub struct LargeBlocks {
    kept: Mutex<FreeBlockCache>,
}

/// Cached free blocks, as address and length. Length 0 marks an empty slot.
#[derive(Debug)]
struct FreeBlockCache {
    blocks: [(usize, usize); KEPT_MAX],
    bytes: usize,
}

impl LargeBlocks {
    /// An allocator with an empty cache.
    pub const fn new() -> Self {
        Self { kept: Mutex::new(FreeBlockCache { blocks: [(0, 0); KEPT_MAX], bytes: 0 }) }
    }

    fn with_kept<T>(&self, what: impl FnOnce(&mut FreeBlockCache) -> T) -> T {
        what(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a block for `layout`, and true if it is all zero. The block is null if no memory
    /// is available.
    fn take(&self, layout: Layout) -> (*mut u8, bool) {
        let len = whole(layout);
        match self.with_kept(|kept| kept.take(len)) {
            Some(address) => (std::ptr::with_exposed_provenance_mut(address), false),
            None => {
                let block = map(len);
                let again = block.is_null() && self.give_back() > 0;
                (if again { map(len) } else { block }, true)
            }
        }
    }

    /// Returns the cached blocks to the kernel, for when an allocation fails because of a memory
    /// limit. Returns the number of bytes freed.
    fn give_back(&self) -> usize {
        self.with_kept(|kept| {
            for (address, len) in &mut kept.blocks {
                // SAFETY: a mapping of this length, or an empty slot; either way no code uses it.
                let _ = unsafe { munmap(std::ptr::with_exposed_provenance_mut(*address), *len) };
                *len = 0;
            }
            std::mem::take(&mut kept.bytes)
        })
    }
}

impl Default for LargeBlocks {
    fn default() -> Self {
        Self::new()
    }
}

impl FreeBlockCache {
    fn take(&mut self, len: usize) -> Option<usize> {
        let block = self.blocks.iter_mut().find(|block| block.1 == len && len > 0)?;
        self.bytes -= len;
        Some(std::mem::take(block).0)
    }

    /// Caches a free block. Returns false if the cache is full.
    fn put(&mut self, address: usize, len: usize) -> bool {
        let place = self.blocks.iter_mut().find(|block| block.1 == 0).filter(|_| len <= KEPT_BYTES_MAX - self.bytes);
        place.is_some_and(|place| {
            *place = (address, len);
            self.bytes += len;
            true
        })
    }
}

/// True if this allocator serves the layout, and not the system allocator.
const fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= HUGE_PAGE
}

/// The layout's size, rounded up to whole huge pages.
const fn whole(layout: Layout) -> usize {
    layout.size().next_multiple_of(HUGE_PAGE)
}

/// Maps a new block of `len` zero bytes, aligned to a huge page. Returns null if no memory is
/// available.
fn map(len: usize) -> *mut u8 {
    let Some(room) = len.checked_add(HUGE_PAGE) else { return std::ptr::null_mut() };
    // SAFETY: a fresh anonymous mapping at an address chosen by the kernel aliases nothing. The
    // parts that are trimmed off are not in use yet. The advice changes no content, and the
    // kernel may ignore it.
    unsafe {
        let Ok(start) = mmap_anonymous(std::ptr::null_mut(), room, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) else {
            return std::ptr::null_mut();
        };
        let before = start.addr().next_multiple_of(HUGE_PAGE) - start.addr();
        let block = start.byte_add(before);
        if before > 0 {
            let _ = munmap(start, before);
        }
        let _ = munmap(block.byte_add(len), HUGE_PAGE - before);
        let _ = madvise(block, len, Advice::LinuxHugepage);
        block.cast()
    }
}

// SAFETY: the system allocator handles small blocks. A large block is a mapping of its own,
// new or freed before. It is aligned to a huge page, the largest alignment accepted, and has
// at least the requested size. Nothing here allocates or panics.
unsafe impl GlobalAlloc for LargeBlocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return self.take(layout).0;
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !is_large(layout) {
            // SAFETY: the caller upholds the contract of `GlobalAlloc`.
            return unsafe { System.alloc_zeroed(layout) };
        }
        let (block, clean) = self.take(layout);
        if !clean {
            // SAFETY: the block has this size and is not in use yet.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !is_large(layout) {
            // SAFETY: the caller upholds the contract, and the block came from the system
            // allocator.
            return unsafe { System.dealloc(block, layout) };
        }
        let len = whole(layout);
        // SAFETY: a mapping of this length, no longer in use. Its content is not needed, so the
        // kernel may discard it.
        unsafe {
            let _ = madvise(block.cast(), len, Advice::LinuxFree);
            if !self.with_kept(|kept| kept.put(block.expose_provenance(), len)) {
                let _ = munmap(block.cast(), len);
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that the new size fits this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_large(layout), is_large(new)) {
            // SAFETY: the caller upholds the contract, and the block came from the system
            // allocator.
            (false, false) => unsafe { System.realloc(block, layout, size) },
            (true, true) if whole(layout) == whole(new) => block,
            // SAFETY: both blocks hold at least the copied bytes, and they do not overlap.
            _ => unsafe {
                let moved = self.alloc(new);
                if !moved.is_null() {
                    moved.copy_from_nonoverlapping(block, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                moved
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    #[test]
    fn freed_block_is_reused_and_zeroed_for_alloc_zeroed() {
        let blocks = LargeBlocks::new();
        let size = LARGE + 12_345;
        // SAFETY: each block is used within its size and freed once.
        unsafe {
            let first = blocks.alloc_zeroed(layout(size));
            assert!(first.is_aligned_to_huge() && std::slice::from_raw_parts(first, size).iter().all(|byte| *byte == 0));
            first.write_bytes(7, size);
            blocks.dealloc(first, layout(size));
            let again = blocks.alloc_zeroed(layout(size));
            assert_eq!(again, first);
            assert!(std::slice::from_raw_parts(again, size).iter().all(|byte| *byte == 0));
            let other = blocks.alloc(layout(size));
            assert_ne!(other, again);
            blocks.dealloc(again, layout(size));
            blocks.dealloc(other, layout(size));
        }
        assert_eq!(blocks.with_kept(|kept| kept.bytes), 2 * whole(layout(size)));
        assert_eq!((blocks.give_back(), blocks.give_back()), (2 * whole(layout(size)), 0));
    }

    #[test]
    fn realloc_keeps_contents() {
        let blocks = LargeBlocks::new();
        // SAFETY: each block is used within its size and freed once.
        unsafe {
            let mut block = blocks.alloc(layout(1000));
            block.write_bytes(9, 1000);
            let mut size = 1000;
            for new in [LARGE - 1, LARGE, LARGE + 1, 3 * LARGE, LARGE, 2000] {
                block = blocks.realloc(block, layout(size), new);
                size = new;
                assert!(std::slice::from_raw_parts(block, 1000).iter().all(|byte| *byte == 9), "{new}");
                block.add(size - 1).write(1);
            }
            blocks.dealloc(block, layout(size));
        }
    }

    #[test]
    fn free_block_cache_stays_within_its_limits() {
        let mut kept = FreeBlockCache { blocks: [(0, 0); KEPT_MAX], bytes: 0 };
        assert!(!kept.put(HUGE_PAGE, KEPT_BYTES_MAX + HUGE_PAGE));
        for at in 0..KEPT_MAX {
            assert!(kept.put((at + 1) * HUGE_PAGE, HUGE_PAGE));
        }
        assert!(!kept.put(HUGE_PAGE * 1000, HUGE_PAGE), "no place is left");
        assert_eq!(kept.take(2 * HUGE_PAGE), None);
        assert!(kept.take(HUGE_PAGE).is_some() && kept.put(HUGE_PAGE * 1000, HUGE_PAGE));
        assert_eq!(kept.bytes, KEPT_MAX * HUGE_PAGE);
    }

    trait Huge {
        fn is_aligned_to_huge(&self) -> bool;
    }

    impl Huge for *mut u8 {
        fn is_aligned_to_huge(&self) -> bool {
            self.addr().is_multiple_of(HUGE_PAGE)
        }
    }
}
