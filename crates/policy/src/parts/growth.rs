//! Growth of long vectors by an eighth: doubling would leave up to half of a large table unused.

/// Elements that a small vector grows by.
const LEAST: usize = 64;

/// Elements that a vector of `len` grows by.
pub(crate) fn step(len: usize) -> usize {
    len / 8 + LEAST
}

/// Appends `value`.
#[inline]
pub(crate) fn push<T>(to: &mut Vec<T>, value: T) {
    if to.len() == to.capacity() {
        to.reserve_exact(step(to.len()));
    }
    to.push(value);
}

/// Appends `value` to a vector that will have at most `most` elements, unless it has more already.
#[inline]
pub(crate) fn push_up_to<T>(to: &mut Vec<T>, value: T, most: usize) {
    if to.len() == to.capacity() {
        let left = most.saturating_sub(to.len());
        let step = step(to.len());
        to.reserve_exact(if left == 0 { step } else { step.min(left) });
    }
    to.push(value);
}

/// Puts `value` into a free entry, or appends it. Says where.
#[inline]
pub(crate) fn occupy<T>(entries: &mut Vec<T>, free: &mut Vec<u32>, value: T) -> u32 {
    let Some(at) = free.pop() else {
        push(entries, value);
        return entries.len() as u32 - 1;
    };
    entries[at as usize] = value;
    at
}

/// Appends as many of `value` as it takes until there is an entry `at`.
#[inline]
pub(crate) fn extend_to<T: Copy>(to: &mut Vec<T>, at: u32, value: T) {
    while to.len() <= at as usize {
        push(to, value);
    }
}
