//! Partial sums of a fixed number of counts that change one at a time.
//!
//! A tree of groups of 16: each entry of a level is the sum of the entries before it in its group, so that the sum
//! before a place is one entry a level, and a change is added to the rest of one group a level. It must not know what is
//! counted.

/// Entries of a group: one cache line.
const FAN: usize = 16;

/// From place `FAN - 1 - at` on: masks that leave only the entries after entry `at`.
const LATER: [u32; 2 * FAN] = {
    let mut masks = [u32::MAX; 2 * FAN];
    let mut at = 0;
    while at < FAN {
        masks[at] = 0;
        at += 1;
    }
    masks
};

#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Group([u32; FAN]);

/// Sums modulo 2^32; see the module's description.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartialSums {
    /// The counts' own level first, one group last.
    levels: Vec<Vec<Group>>,
}

impl PartialSums {
    /// `len` counts of 0.
    pub(crate) fn new(len: usize) -> PartialSums {
        let mut levels = Vec::new();
        let mut entries = len;
        while entries > 1 || levels.is_empty() {
            entries = entries.div_ceil(FAN);
            levels.push(vec![Group::default(); entries]);
        }
        PartialSums { levels }
    }

    /// The sum of the counts before count number `at`.
    #[inline(always)]
    pub(crate) fn before(&self, mut at: usize) -> u32 {
        let mut sum = 0u32;
        for level in &self.levels {
            sum = sum.wrapping_add(level[at / FAN].0[at % FAN]);
            at /= FAN;
        }
        sum
    }

    /// Adds `change` to count number `at`; says the sum of the counts before it.
    #[inline(always)]
    pub(crate) fn add(&mut self, mut at: usize, change: u32) -> u32 {
        let mut sum = 0u32;
        for level in &mut self.levels {
            let later = &LATER[FAN - 1 - at % FAN..][..FAN];
            let group = &mut level[at / FAN].0;
            sum = sum.wrapping_add(group[at % FAN]);
            for (entry, mask) in group.iter_mut().zip(later) {
                *entry = entry.wrapping_add(change & mask);
            }
            at /= FAN;
        }
        sum
    }

    /// The place whose count covers `rank`: the last one that has at most `rank` before it. `rank` must be less than
    /// the sum of all counts, which must be less than 2^32.
    pub(crate) fn find(&self, mut rank: u32) -> usize {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let group = &level[at].0;
            // The first entry is 0, and entries beyond the last count hold the whole sum.
            let last = group.iter().filter(|before| **before <= rank).count() - 1;
            rank -= group[last];
            at = at * FAN + last;
        }
        at
    }

    /// Makes every count 0.
    pub(crate) fn clear(&mut self) {
        self.levels.iter_mut().for_each(|level| level.fill(Group::default()));
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<Group>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::PartialSums;

    #[test]
    fn sums_are_those_of_a_list() {
        for len in [1, 15, 16, 17, 255, 256, 257, 5000] {
            let mut sums = PartialSums::new(len);
            let mut list = vec![0u32; len];
            let mut state = 7u32;
            for _ in 0..300 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let (at, change) = (state as usize / 8 % len, state % 7);
                assert_eq!(sums.add(at, change), list[..at].iter().sum());
                list[at] += change;
            }
            let mut expected = 0;
            for (at, count) in list.iter().enumerate() {
                assert_eq!(sums.before(at), expected, "{at} of {len}");
                (expected..expected + count).for_each(|rank| assert_eq!(sums.find(rank), at, "{len}"));
                expected += count;
            }
            sums.clear();
            assert_eq!(sums.before(len - 1), 0);
        }
    }
}
