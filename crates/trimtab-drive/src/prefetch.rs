//! A hint to the processor, and the only `unsafe` here.

/// Asks the processor for an element of a table that is needed soon. An index past the end does nothing.
#[inline(always)]
pub(crate) fn prefetch<T>(table: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = table.as_ptr().wrapping_add(index);
        // SAFETY: a prefetch is a hint; it never faults and changes nothing, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, index);
}
