//! Cache-line prefetch: a hint to the processor, never a change of meaning.
//!
//! It must not know what is being fetched.

use std::hint::select_unpredictable;

use smallvec::SmallVec;

/// Asks the processor to load the cache line of `slice[index]`, of the last element when `index` is out of range;
/// does nothing when the processor has no such instruction.
#[inline(always)]
pub fn prefetch_slice<T>(slice: &[T], index: usize) {
    // Without a branch: whether an index is in range is often a coin toss.
    let last = slice.len().saturating_sub(1);
    prefetch_within(slice, select_unpredictable(index < last, index, last));
}

/// As [`prefetch_slice`], for an index that is known to be in range, or the slice to be empty: it is not looked at.
#[inline(always)]
pub fn prefetch_within<T>(slice: &[T], index: usize) {
    prefetch(slice.as_ptr().wrapping_add(index));
}

/// Asks the processor to load a value, which is not looked at.
#[inline(always)]
pub fn prefetch_ref<T>(value: &T) {
    prefetch(value);
}

/// Hands items on in their order, some at a time, after `fetch` was called for all of these: where it asks for memory that lies far apart, waiting for
/// many takes no longer than for one.
pub fn fetched<T>(items: impl Iterator<Item = T>, fetch: impl Fn(&T)) -> impl Iterator<Item = T> {
    const AT_ONCE: usize = 64;
    let (mut items, mut ahead) = (items.fuse(), SmallVec::<[T; AT_ONCE]>::new().into_iter());
    std::iter::from_fn(move || {
        if ahead.len() == 0 {
            let next: SmallVec<[T; AT_ONCE]> = items.by_ref().take(AT_ONCE).inspect(&fetch).collect();
            ahead = next.into_iter();
        }
        ahead.next()
    })
}

#[inline(always)]
fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch neither faults nor writes, whatever the address.
        // The instruction belongs to SSE, which every x86_64 processor has.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::{fetched, prefetch_slice, prefetch_within};

    #[test]
    fn tolerates_every_index() {
        let words = [1u64, 2, 3];
        for index in [0, 2, 3, usize::MAX] {
            prefetch_slice(&words, index);
        }
        prefetch_slice::<u64>(&[], 0);
        prefetch_within(&words, usize::MAX);
        assert_eq!(words, [1, 2, 3]);
    }

    #[test]
    fn all_items_come_in_their_order_and_are_fetched_before() {
        for count in [0, 1, 63, 64, 65, 200] {
            let fetched_until = std::cell::Cell::new(0);
            let fetch = |&item: &u32| {
                assert_eq!(fetched_until.get(), item);
                fetched_until.set(item + 1);
            };
            let items = fetched(0..count, fetch).inspect(|&item| assert!(item < fetched_until.get()));
            assert!(items.eq(0..count));
        }
    }
}
