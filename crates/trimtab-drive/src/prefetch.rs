//! CPU prefetch hint; the only `unsafe` code of the crate.

/// Prefetches `table[index]`. An index past the end has no effect.
#[inline(always)]
pub(crate) fn prefetch<T>(table: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = table.as_ptr().wrapping_add(index);
        // SAFETY: a prefetch is a hint. It never faults and changes nothing, for any
        // address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, index);
}
