//! Which blocks a sample follows (SHARDS: Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015).
//!
//! A block is followed when its hash is below a threshold, so that either all of its accesses are followed or none.
//!
//! The hash is our own: it *stratifies*. Neighbours on a disk are used alike, and a sample that happens to hold 12 or 8
//! blocks of a long run, where 10 are its share, is wrong for no good reason. Each [`STRATUM_BITS`]-aligned run of
//! blocks deals its blocks, in an order of its own, to equal slices of the range of hashes, one block a slice. So every
//! threshold takes its share of every run to within one block; each block by itself is still as likely as any other.
//! (Stratified sampling: Cochran, "Sampling Techniques", chapter 5, as recalled.) On real traces this halves the error.
//!
//! It must not know what is done with the accesses.

use lode_types::{AccessOp, BlockNo};

/// Accesses that are filtered together, their outcomes being the bits of one word.
pub(crate) const FILTERED: usize = 64;

/// Odd, without a pattern in their bits: parts of the fractions of e and of the square root of 2.
const SPREAD: u64 = 0xb7e1_5162_8aed_2a6b;
const FOLD: u64 = 0x6a09_e667_f3bc_c909;

/// Blocks of a run that are dealt together, as a power of two: rates down to one in so many profit.
const STRATUM_BITS: u32 = 10;

/// A random-like choice of a share of all blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    key: u64,
    /// The largest hash that is followed.
    threshold: u64,
}

impl Sample {
    /// Follows every block; `salt` says in which order blocks leave when the rate is lowered.
    pub(crate) fn all(salt: u64) -> Sample {
        // Without the rotation, neighbouring salts would mean neighbouring blocks.
        Sample { key: salt.wrapping_mul(SPREAD).rotate_left(29) ^ FOLD, threshold: u64::MAX }
    }

    /// Follows this share of all blocks, which must not be more than before.
    pub(crate) fn set_rate(&mut self, rate: f64) {
        // The conversion saturates at both ends.
        self.threshold = self.threshold.min((rate * 2f64.powi(64)) as u64);
    }

    /// The share of all blocks that is followed.
    pub(crate) fn rate(&self) -> f64 {
        if self.threshold == u64::MAX { 1.0 } else { (self.threshold as f64 + 1.0) * 2f64.powi(-64) }
    }

    /// The slice within the run above, what all blocks of the run share below. It has nothing in common with the hashes
    /// of the indexes: a sample must not crowd into one end of them.
    #[inline(always)]
    pub(crate) fn hash(&self, block: BlockNo) -> u64 {
        // Both halves of a product, twice, so that every bit depends on every bit of the run's number.
        let product = u128::from((block >> STRATUM_BITS) ^ self.key) * u128::from(SPREAD);
        let of_run = ((product >> 64) as u64 ^ product as u64).wrapping_mul(FOLD);
        // An odd factor permutes the blocks of the run.
        let slice = (block ^ of_run).wrapping_mul(of_run >> 32 | 1);
        slice << (u64::BITS - STRATUM_BITS) | of_run >> STRATUM_BITS
    }

    /// Which of so many groups (a power of two) a block belongs to, whatever its hash.
    #[inline(always)]
    pub(crate) fn group(block: BlockNo, groups: usize) -> usize {
        (block.wrapping_mul(SPREAD) >> 32) as usize & (groups - 1)
    }

    #[inline(always)]
    pub(crate) fn follows(&self, block: BlockNo) -> bool {
        self.hash(block) <= self.threshold
    }

    /// Bit `i` says whether access `i` of at most [`FILTERED`] is followed; and how many of all are reads.
    #[inline(always)]
    pub(crate) fn filter(&self, accesses: &[(AccessOp, BlockNo)]) -> (u64, u64) {
        debug_assert!(accesses.len() <= FILTERED);
        let (mut followed, mut reads) = (0, 0);
        // Backwards, because a shift by one is cheaper than one by the access's number.
        for &(op, block) in accesses.iter().rev() {
            followed = followed << 1 | u64::from(self.follows(block));
            reads += u64::from(op == AccessOp::Read);
        }
        (followed, reads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn share(sample: &Sample, blocks: impl Iterator<Item = u64>) -> f64 {
        let (mut all, mut followed) = (0.0, 0.0);
        for block in blocks {
            all += 1.0;
            followed += f64::from(u8::from(sample.follows(block)));
        }
        followed / all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_pattern_of_blocks_has_its_share(
            salt in any::<u64>(), first in any::<u64>(), stride_bits in 0u32..40, step in 1u64..5,
        ) {
            let stride = step << stride_bits;
            for rate in [0.5, 0.1, 0.01] {
                let mut sample = Sample::all(salt);
                sample.set_rate(rate);
                prop_assert!((sample.rate() / rate - 1.0).abs() < 1e-9);
                let blocks = (0..40_000).map(|i| first.wrapping_add(stride.wrapping_mul(i)));
                let deviation = (rate * (1.0 - rate) / 40_000.0).sqrt();
                let found = share(&sample, blocks);
                prop_assert!((found - rate).abs() < 6.0 * deviation, "{found} of stride {stride} at {rate}");
            }
        }

        #[test]
        fn runs_have_exactly_their_share(salt in any::<u64>(), run in 0u64..1 << 54, slices in 1u64..1024) {
            let mut sample = Sample::all(salt);
            sample.set_rate(slices as f64 / 1024.0);
            let followed = (0..1024).filter(|within| sample.follows(run << 10 | within)).count() as u64;
            // The slices' share of 2^64, less one hash, is what the threshold is.
            prop_assert!(followed == slices || followed == slices - 1, "{followed} of {slices}");
        }

        #[test]
        fn filters_as_it_follows(salt in any::<u64>(), blocks in prop::collection::vec((any::<bool>(), 0u64..5000), 0..64)) {
            let mut sample = Sample::all(salt);
            sample.set_rate(0.3);
            let op = |is_read| if is_read { AccessOp::Read } else { AccessOp::Write };
            let accesses: Vec<_> = blocks.iter().map(|&(is_read, block)| (op(is_read), block)).collect();
            let (followed, reads) = sample.filter(&accesses);
            prop_assert_eq!(reads, accesses.iter().filter(|a| a.0 == AccessOp::Read).count() as u64);
            for (at, &(_, block)) in accesses.iter().enumerate() {
                prop_assert_eq!(followed >> at & 1 == 1, sample.follows(block));
            }
        }
    }

    #[test]
    fn salts_choose_different_samples_and_lower_rates_choose_less_of_them() {
        let (mut one, mut other) = (Sample::all(1), Sample::all(2));
        one.set_rate(0.1);
        other.set_rate(0.1);
        let both = share(&one, (0..1 << 20).filter(|&block| other.follows(block)));
        assert!((both - 0.1).abs() < 0.01, "{both}");
        let before = one;
        one.set_rate(0.05);
        assert!((0..1 << 16).all(|block| before.follows(block) || !one.follows(block)));
        one.set_rate(0.9);
        assert!((one.rate() - 0.05).abs() < 1e-9);
    }
}
