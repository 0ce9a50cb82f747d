//! Cache-line prefetch: a hint to the processor, never a change of meaning.
//!
//! The only unsafe code of this crate. It must not know what is being fetched.

/// Asks the processor to load the cache line of `slice[index]`; does nothing when `index` is out of range
/// or the processor has no such instruction.
#[inline(always)]
pub fn prefetch_slice<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = slice.get(index) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the pointer comes from a live reference, and a prefetch neither faults nor writes.
        // The instruction belongs to SSE, which every x86_64 processor has.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}

#[cfg(test)]
mod tests {
    use super::prefetch_slice;

    #[test]
    fn tolerates_every_index() {
        let words = [1u64, 2, 3];
        for index in [0, 2, 3, usize::MAX] {
            prefetch_slice(&words, index);
        }
        prefetch_slice::<u64>(&[], 0);
        assert_eq!(words, [1, 2, 3]);
    }
}
