//! How many replays at a time fit the memory. It must not know what they replay.

/// So many replays can run at the same time, whichever they are, if they need so much memory each: at most `most`, none where
/// one of them alone needs more than there is.
pub(crate) fn at_once(needs_bytes: &[u64], most: usize, memory_bytes: u64) -> usize {
    let mut needs_bytes = needs_bytes.to_vec();
    needs_bytes.sort_unstable_by(|a, b| b.cmp(a));
    let sums = needs_bytes.iter().scan(0, |sum: &mut u64, &bytes| {
        *sum = sum.saturating_add(bytes);
        Some(*sum)
    });
    // Of fewer replays than may run at a time there is no more to hold.
    let fitting = sums.take_while(|&sum| sum <= memory_bytes).count();
    if fitting == needs_bytes.len() { most } else { fitting.min(most) }
}

#[cfg(test)]
mod tests {
    use super::at_once;

    #[test]
    fn the_largest_together_fit() {
        let needs = [10, 40, 30, 30];
        for (memory, most, expected) in [
            (39, 4, 0),
            (40, 4, 1),
            (69, 4, 1),
            (70, 4, 2),
            (99, 4, 2),
            (100, 4, 3),
            (110, 4, 4),
            (110, 2, 2),
        ] {
            assert_eq!(at_once(&needs, most, memory), expected, "{memory}");
        }
        assert_eq!(at_once(&[], 3, 0), 3);
        assert_eq!(at_once(&[u64::MAX, u64::MAX], 2, u64::MAX), 2);
    }
}
