//! Where in its range a stream's blocks are. It must not know how blocks are chosen.

use lode_types::mix;

use crate::profile::Sizes;

/// Numbers 0 to n - 1 in another order, that of multiples of a number without a common divisor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scatter {
    count: u64,
    factor: u64,
}

impl Scatter {
    pub(crate) fn new(count: u64) -> Scatter {
        let count = count.max(1);
        // Near the golden section, so that neighbours come to lie far apart.
        let mut factor = (count as f64 * 0.618_033_988_749_895) as u64;
        while common_divisor(factor, count) != 1 {
            factor += 1;
        }
        Scatter { count, factor }
    }

    #[inline]
    pub(crate) fn of(&self, number: u64) -> u64 {
        (u128::from(number) * u128::from(self.factor) % u128::from(self.count)) as u64
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A stream's range, and where requests start inside blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) first_bytes: u64,
    pub(crate) block_bytes: u64,
    alignment_bytes: u64,
    /// Of 2^64, how many hashes mean that requests start with the block.
    aligned: u64,
}

impl Area {
    pub(crate) fn new(first_bytes: u64, block_bytes: u64, sizes: &Sizes) -> Area {
        let aligned = if sizes.alignment_bytes == block_bytes { 1.0 } else { sizes.aligned_share };
        // A float beyond the range becomes the largest number.
        let aligned = (aligned * (1u64 << 32) as f64 * (1u64 << 32) as f64) as u64;
        Area { first_bytes, block_bytes, alignment_bytes: sizes.alignment_bytes, aligned }
    }

    /// Bytes from the block's start to where its requests start: always the same for one block, as files and records
    /// do not move.
    #[inline]
    pub(crate) fn inside(&self, block: u64) -> u64 {
        let hash = mix(block ^ self.first_bytes);
        if hash <= self.aligned && self.aligned > 0 {
            return 0;
        }
        let places = self.block_bytes / self.alignment_bytes - 1;
        (1 + mix(hash) % places) * self.alignment_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_numbers_are_all_there() {
        for count in [1, 2, 3, 4, 8, 10, 12, 100, 1000, 4096] {
            let scatter = Scatter::new(count);
            let mut all: Vec<_> = (0..count).map(|number| scatter.of(number)).collect();
            assert!(count < 8 || (1..count).all(|at| all[at as usize].abs_diff(all[at as usize - 1]) > 1));
            all.sort_unstable();
            assert!(all.into_iter().eq(0..count), "{count}");
        }
        assert!(Scatter::new(1 << 50).of((1 << 50) - 1) < 1 << 50);
    }

    #[test]
    fn starts_inside_blocks_follow_the_share() {
        for (share, alignment_bytes) in [(0.0, 512), (0.25, 512), (1.0, 512), (0.5, 4096), (0.5, 1)] {
            let sizes = Sizes { read: Vec::new(), write: Vec::new(), aligned_share: share, alignment_bytes };
            let area = Area::new(8192, 4096, &sizes);
            let inside: Vec<_> = (0..10_000).map(|block| area.inside(block)).collect();
            assert!(inside.iter().all(|&at| at < 4096 && at % alignment_bytes == 0));
            let aligned = inside.iter().filter(|&&at| at == 0).count() as f64 / 1e4;
            let expected = if alignment_bytes == 4096 { 1.0 } else { share };
            assert!((aligned - expected).abs() < 0.02, "{aligned} of {share}");
        }
    }
}
