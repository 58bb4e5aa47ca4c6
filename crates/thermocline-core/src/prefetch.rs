//! Asking the processor for memory that will be needed soon: the only `unsafe` of the project.
#![allow(unsafe_code, reason = "prefetching is an intrinsic; it pays in the replay loop")]

/// Fetches the cache line of `slice[index]`, if there is such an element.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call would cost more than the hint saves")]
pub fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = slice.get(index) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching reads nothing and never faults, and the pointer is in bounds.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(element).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _unused = (slice, index);
    }
}
