//! Which bytes of a read have arrived, when a server may answer in pieces of any order.
//!
//! Counting bytes would not do: an overlap and a gap of equal size cancel out, and stale bytes would be taken
//! for the disk's.

/// Most separate pieces a read may consist of at any moment.
pub(crate) const MAX_FRAGMENTS: usize = 4096;

/// Disjoint, non-touching ranges in ascending order, as start and end counted from the read's first byte.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    ranges: Vec<(u32, u32)>,
}

impl Coverage {
    /// Adds `[start, end)`, not empty. Says whether that was allowed: no byte twice, not too many pieces.
    pub(crate) fn add(&mut self, start: u32, end: u32) -> bool {
        let next = self.ranges.partition_point(|range| range.0 < start);
        let touches_next = match self.ranges.get(next) {
            Some(range) if range.0 < end => return false,
            Some(range) => range.0 == end,
            None => false,
        };
        let touches_previous = match next.checked_sub(1).map(|index| self.ranges[index]) {
            Some(range) if range.1 > start => return false,
            Some(range) => range.1 == start,
            None => false,
        };
        match (touches_previous, touches_next) {
            (true, true) => {
                self.ranges[next - 1].1 = self.ranges[next].1;
                self.ranges.remove(next);
            }
            (true, false) => self.ranges[next - 1].1 = end,
            (false, true) => self.ranges[next].0 = start,
            (false, false) if self.ranges.len() < MAX_FRAGMENTS => self.ranges.insert(next, (start, end)),
            (false, false) => return false,
        }
        true
    }

    /// Whether all of `[0, length)` is there.
    pub(crate) fn is_whole(&self, length: u32) -> bool {
        self.ranges == [(0, length)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fragments_are_limited() {
        let mut coverage = Coverage::default();
        for index in 0..MAX_FRAGMENTS as u32 {
            assert!(coverage.add(index * 2, index * 2 + 1));
        }
        assert!(!coverage.add(u32::MAX - 1, u32::MAX));
        assert!(coverage.add(1, 2), "closing a gap needs no further piece");
    }

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(pieces in prop::collection::vec((0u32..32, 1u32..8), 0..40)) {
            let mut coverage = Coverage::default();
            let mut bitmap = [false; 40];
            for (start, length) in pieces {
                let range = start as usize..(start + length) as usize;
                let free = bitmap[range.clone()].iter().all(|&there| !there);
                prop_assert_eq!(coverage.add(start, start + length), free);
                if free {
                    bitmap[range].fill(true);
                }
                for length in 1..=40 {
                    let whole = bitmap.iter().enumerate().all(|(at, &there)| there == (at < length));
                    prop_assert_eq!(coverage.is_whole(length as u32), whole);
                }
            }
        }
    }
}
