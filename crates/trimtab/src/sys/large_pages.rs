//! Large pages for large tables.

use rustix::mm::{Advice, madvise};

/// Tables smaller than this are left alone.
const LARGE: usize = 16 << 20;

/// Asks the kernel to back the tables of a new drive with huge pages where it can: random writes touch them all over, and with small pages
/// most of the time goes into address translation. To be called before the first command; without effect elsewhere.
pub fn prefer_huge_pages(tables: &[(*const u8, usize)]) {
    let page = rustix::param::page_size();
    for &(start, len) in tables {
        let skipped = start.addr().next_multiple_of(page) - start.addr();
        let whole = len.saturating_sub(skipped) / page * page;
        if whole < LARGE {
            continue;
        }
        let first = start.wrapping_add(skipped).cast_mut().cast();
        // SAFETY: the range lies within a table of a drive, and this advice changes no content. That it may be refused is fine: the result is the same.
        let _ = unsafe { madvise(first, whole, Advice::LinuxHugepage) };
    }
}
