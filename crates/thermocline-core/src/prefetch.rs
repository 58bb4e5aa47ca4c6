//! Asks the processor for memory that will be needed soon: the only `unsafe` of this crate.
#![allow(unsafe_code, reason = "prefetching is an intrinsic; it pays in the replay loop")]

/// Fetches the cache line of `slice[index]`, or of the last element if there is no such one. An index
/// that is not known to exist takes no branch then, which a processor could not predict, and no walk
/// through page tables to an address without memory.
#[inline]
pub(crate) fn prefetch_or_last<T>(slice: &[T], index: u32) {
    prefetch(slice, (index as usize).min(slice.len().saturating_sub(1)));
}

/// Fetches the cache line of `slice[index]`. Without such an element, that has no effect but to take
/// place in the cache.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let element = slice.as_ptr().wrapping_add(index);
        // SAFETY: prefetching reads nothing and never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(element.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _unused = (slice, index);
    }
}

/// Fetches all cache lines, of 64 bytes, of `slice[index]`, for elements that are longer than one line.
#[inline]
pub fn prefetch_whole<T>(slice: &[T], index: usize) {
    let Some(element) = slice.get(index..=index) else { return };
    prefetch(element, 0);
    #[cfg(target_arch = "x86_64")]
    for offset in (64..size_of::<T>()).step_by(64) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = element.as_ptr().cast::<i8>().wrapping_add(offset);
        // SAFETY: prefetching reads nothing and never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) }
    }
}
