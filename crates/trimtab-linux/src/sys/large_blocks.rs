//! Allocator of the program: the system's, with huge pages for large tables. Random
//! writes of a modelled drive touch a table of a gigabyte, and with small pages address
//! translation takes most of the time.

use rustix::mm::{Advice, madvise};
use std::alloc::{GlobalAlloc, Layout, System};

/// Minimum size in bytes; smaller blocks keep small pages.
const LARGE: usize = 4 << 20;
const PAGE: usize = 4096;

/// The global allocator of the program.
#[derive(Debug)]
pub struct LargeBlocks;

/// Advises huge pages for a new block of at least [`LARGE`] bytes. The kernel may ignore
/// it.
fn advised(block: *mut u8, size: usize) -> *mut u8 {
    if size >= LARGE && !block.is_null() {
        let before = block.addr().next_multiple_of(PAGE) - block.addr();
        // SAFETY: the whole pages lie inside the block, and this advice changes no
        // content.
        let _ = unsafe {
            madvise(
                block.byte_add(before).cast(),
                (size - before) / PAGE * PAGE,
                Advice::LinuxHugepage,
            )
        };
    }
    block
}

// SAFETY: the system allocator makes and frees all blocks.
unsafe impl GlobalAlloc for LargeBlocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        advised(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        advised(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        advised(unsafe { System.realloc(block, layout, size) }, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's record of the advice: the flag `hg` of the mapping that holds
    /// `address`.
    fn has_huge_page_advice(address: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        maps.lines().any(|line| {
            let range = line.split_whitespace().next().and_then(|range| range.split_once('-'));
            let bounds = range.and_then(|(a, b)| {
                Some((usize::from_str_radix(a, 16).ok()?, usize::from_str_radix(b, 16).ok()?))
            });
            inside = bounds.map_or(inside, |(start, end)| (start..end).contains(&address));
            inside
                && line.starts_with("VmFlags:")
                && line.split_whitespace().any(|flag| flag == "hg")
        })
    }

    #[test]
    fn large_blocks_get_huge_page_advice_and_realloc_keeps_contents() {
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        // SAFETY: the block is used within its size and freed once.
        unsafe {
            let mut block = LargeBlocks.alloc_zeroed(layout(LARGE));
            assert!(
                has_huge_page_advice(block.addr() + 2 * PAGE)
                    || !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists()
            );
            assert!(std::slice::from_raw_parts(block, LARGE).iter().all(|byte| *byte == 0));
            block.write_bytes(9, 1000);
            let mut size = LARGE;
            for new in [LARGE - 1, LARGE + 1, 3 * LARGE, 2000] {
                block = LargeBlocks.realloc(block, layout(size), new);
                size = new;
                assert!(
                    std::slice::from_raw_parts(block, 1000).iter().all(|byte| *byte == 9),
                    "{new}"
                );
                block.add(size - 1).write(1);
            }
            LargeBlocks.dealloc(block, layout(size));
        }
    }
}
