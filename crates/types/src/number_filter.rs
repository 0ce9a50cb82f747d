//! A set of numbers that may say of others that they are in it, for whoever looks through millions for few: most that are not are told
//! with one look into a table that the processor keeps at hand. It must not know what the numbers are.

use crate::prefetch::prefetch_within;

/// See the module's documentation. A Bloom filter (Bloom, "Space/time trade-offs in hash coding with allowable errors", CACM 1970)
/// with one hash function: one in sixteen others or fewer are taken for one of them.
#[derive(Clone, Debug)]
pub struct NumberFilter {
    words: Vec<u64>,
    shift: u32,
}

impl NumberFilter {
    /// Bits for each number, and least bits.
    const BITS_PER_NUMBER: usize = 16;
    const LEAST_BITS: usize = 1 << 12;

    /// Of these numbers, which are about so many.
    pub fn of(numbers: impl Iterator<Item = u64>, count: usize) -> NumberFilter {
        let bits = (count * NumberFilter::BITS_PER_NUMBER).next_power_of_two().max(NumberFilter::LEAST_BITS);
        let shift = u64::BITS - bits.trailing_zeros();
        let mut filter = NumberFilter { words: vec![0; bits / 64], shift };
        for number in numbers {
            let bit = filter.bit(number);
            filter.words[bit / 64] |= 1 << (bit % 64);
        }
        filter
    }

    /// Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4).
    #[inline]
    fn bit(&self, number: u64) -> usize {
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// Fetches what tells of a number, for whoever will soon ask.
    #[inline]
    pub fn prefetch(&self, number: u64) {
        prefetch_within(&self.words, self.bit(number) / 64);
    }

    /// Whether it may be one of them. False: it is none.
    #[inline]
    pub fn may_have(&self, number: u64) -> bool {
        let bit = self.bit(number);
        self.words[bit / 64] >> (bit % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn it_has_all_and_few_others() {
        for (count, stride) in [(0, 1), (1, 1), (1000, 1), (1000, 4096), (100_000, 3)] {
            let mut rng = Rng::new(count);
            let numbers: Vec<u64> = (0..count).map(|number| number * stride + rng.below(stride)).collect();
            let filter = NumberFilter::of(numbers.iter().copied(), numbers.len());
            assert!(numbers.iter().all(|&number| filter.may_have(number)));
            let others = (0..10_000).map(|_| count * stride + rng.below(1 << 40));
            let taken = others.filter(|&other| filter.may_have(other)).count();
            assert!(taken <= 10_000 / 12, "{count}, {stride}: {taken}");
        }
    }
}
