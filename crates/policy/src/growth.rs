//! Growth of long vectors by a quarter: doubling would leave up to half of a large table unused.

/// Elements that a small vector grows by.
const LEAST: usize = 64;

/// Elements that a vector of `len` grows by.
pub(crate) fn step(len: usize) -> usize {
    len / 4 + LEAST
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
