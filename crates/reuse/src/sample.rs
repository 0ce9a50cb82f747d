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
//! A sample of fixed size begins with every block. When more blocks than allowed are followed, the threshold sinks by
//! an eighth (the paper lowers it to the largest hash that is followed, one block at a time): the rate is a little
//! lower than it could be, and the walk over all followed blocks that a lower rate needs comes up seldom.
//!
//! A sample of fixed rate begins in the same way and sinks no further than the rate that was asked for. The error hangs on
//! the number of blocks and hardly on the rate, so that small streams keep [`LEAST_BLOCKS`] and large ones end at the
//! rate. (Our own addition; the paper takes the rate from the beginning.)
//!
//! It must not know what is done with the accesses.

use crate::error::ReuseError;
use crate::profiler::Method;
use lode_types::prefetch::prefetch_slice;
use lode_types::{BlockNo, Direction};

/// Fewest blocks that a sample may be limited to, and fewest that are left when a rate is halved.
pub const MIN_FOLLOWED_BLOCKS: u32 = 64;

/// A fixed rate is not lowered, on its way down to what was asked for, before more blocks than these are followed. With so
/// many, the mean absolute error stayed below 0.01 on every real trace at hand (see `docs/curves.md`).
pub const LEAST_BLOCKS: u32 = 8192;

/// What is left of the rate when a sample of fixed size has become too large.
const RATE_STEP: f64 = 7.0 / 8.0;

/// Below this rate no block is given up any more: who chooses blocks by their hashes gets what he chose.
const MIN_RATE: f64 = 1e-15;

/// Accesses that are filtered together, their outcomes being the bits of one word.
pub(crate) const FILTERED: usize = 64;

/// How many accesses before they are filtered their memory is asked for. The processor's own look-ahead stops at each
/// page's end.
const AHEAD: usize = 2 * FILTERED;

/// Accesses of a cache line of 64 bytes.
const IN_LINE: usize = 64 / size_of::<(Direction, BlockNo)>();

/// Odd, without a pattern in their bits: parts of the fractions of e and of the square root of 2.
const SPREAD: u64 = 0xb7e1_5162_8aed_2a6b;
const FOLD: u64 = 0x6a09_e667_f3bc_c909;

/// Odd: the order in which blocks are dealt. Part of the fraction of the golden ratio, which spreads neighbours evenly.
const DEAL: u64 = 0x9e37_79b9_7f4a_7c15;

/// Blocks of a run that are dealt together, as a power of two: rates down to one in so many profit.
const STRATUM_BITS: u32 = 10;

/// A random-like choice of a share of all blocks.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    key: u64,
    /// The largest hash that is followed.
    threshold: u64,
    /// Blocks beyond which the threshold sinks.
    most: usize,
    /// Where it stops sinking for that reason.
    least_threshold: u64,
}

impl Sample {
    /// The sample that a method asks for, with every block to begin with; `salt` says which blocks are chosen later on.
    ///
    /// # Errors
    /// [`ReuseError::InvalidMethod`] when the parameter is out of range, or the method does not take samples.
    pub fn new(method: Method, salt: u64) -> Result<Sample, ReuseError> {
        let mut sample = Sample::of_all(salt);
        let reason = match method {
            Method::Exact => return Ok(sample),
            Method::LeastRate(rate) if is_rate(rate) => {
                sample.most = LEAST_BLOCKS as usize;
                sample.least_threshold = threshold_of(rate);
                return Ok(sample);
            }
            Method::Size(blocks) if blocks >= MIN_FOLLOWED_BLOCKS => {
                sample.most = blocks as usize;
                sample.least_threshold = threshold_of(MIN_RATE);
                return Ok(sample);
            }
            Method::LeastRate(_) => RATE_RANGE,
            Method::Size(_) => "A sample follows at least 64 blocks",
            Method::Aet | Method::CounterStacks(_) => "A model keeps no stack to be sampled",
        };
        Err(ReuseError::InvalidMethod { reason })
    }

    /// The sample of exactly this share of all blocks from the beginning, however few they are.
    ///
    /// # Errors
    /// [`ReuseError::InvalidMethod`] when the rate is not above 0 and at most 1.
    pub fn at_rate(rate: f64, salt: u64) -> Result<Sample, ReuseError> {
        if !is_rate(rate) {
            return Err(ReuseError::InvalidMethod { reason: RATE_RANGE });
        }
        Ok(Sample { threshold: threshold_of(rate), ..Sample::of_all(salt) })
    }

    fn of_all(salt: u64) -> Sample {
        // Without the rotation, neighbouring salts would mean neighbouring blocks.
        let key = salt.wrapping_mul(SPREAD).rotate_left(29) ^ FOLD;
        Sample { key, threshold: u64::MAX, most: usize::MAX, least_threshold: u64::MAX }
    }

    /// How many more blocks may be followed than now.
    pub(crate) fn remaining(&self, followed: usize) -> usize {
        self.most.saturating_sub(followed)
    }

    /// Lowers the rate by a step when more blocks are followed than may be; says whether it did. Blocks that are followed no
    /// more are then to be forgotten.
    #[inline(always)]
    pub fn lower_to_limit(&mut self, followed: usize) -> bool {
        let is_above = followed > self.most && self.threshold > self.least_threshold;
        if is_above {
            self.threshold = threshold_of(self.rate() * RATE_STEP).max(self.least_threshold);
        }
        is_above
    }

    /// Halves the rate and the limit, unless few blocks are followed; says whether it did.
    pub(crate) fn halve(&mut self, followed: usize) -> bool {
        let is_worth_it = followed >= 2 * MIN_FOLLOWED_BLOCKS as usize && self.rate() > MIN_RATE;
        if is_worth_it {
            if self.most < usize::MAX {
                self.most = (self.most / 2).max(MIN_FOLLOWED_BLOCKS as usize);
            }
            self.threshold = threshold_of(self.rate() / 2.0);
        }
        is_worth_it
    }

    /// The share of all blocks that is followed.
    pub fn rate(&self) -> f64 {
        if self.threshold == u64::MAX { 1.0 } else { (self.threshold as f64 + 1.0) * 2f64.powi(-64) }
    }

    /// What a block is dealt by: followed are the blocks whose hash is at most the rate's share of 2^64. The slice within the
    /// run is in the upper ten bits. It has nothing in common with the hashes of the indexes: a
    /// sample must not crowd into one end of them.
    #[inline(always)]
    pub fn hash(&self, block: BlockNo) -> u64 {
        // Both halves of a product: their middle bits, where the slice comes from, depend on all of the run's number.
        let product = u128::from((block >> STRATUM_BITS) ^ self.key) * u128::from(SPREAD);
        let of_run = (product >> 64) as u64 ^ product as u64;
        // An odd factor permutes the blocks of a run, and so does a pattern of the run's own.
        (of_run ^ block.wrapping_mul(DEAL)).rotate_right(STRATUM_BITS)
    }

    /// Which of so many groups (a power of two) a block belongs to, whatever its hash.
    #[inline(always)]
    pub(crate) fn group(block: BlockNo, groups: usize) -> usize {
        (block.wrapping_mul(SPREAD) >> 32) as usize & (groups - 1)
    }

    /// Whether accesses to `block` are followed.
    #[inline(always)]
    pub fn follows(&self, block: BlockNo) -> bool {
        self.hash(block) <= self.threshold
    }

    /// Which of the next accesses, from number `first` of `batch` on, are followed.
    #[inline(always)]
    pub(crate) fn filter(&self, batch: &[(Direction, BlockNo)], first: usize) -> Filtered {
        let accesses = &batch[first..batch.len().min(first + FILTERED)];
        for line in 0..FILTERED / IN_LINE {
            prefetch_slice(batch, first + AHEAD + line * IN_LINE);
        }
        let (mut refused, mut writes) = (0u64, 0);
        // What is refused, because it is the carry of the comparison, and moves in with one instruction.
        for &(op, block) in accesses {
            refused = refused << 1 | u64::from(self.threshold < self.hash(block));
            writes += u64::from(op == Direction::Write);
        }
        let len = accesses.len() as u64;
        let followed = (!refused).checked_shl((FILTERED as u64 - len) as u32).unwrap_or(0);
        Filtered { first, followed, len, reads: len - writes }
    }
}

/// What a filter made of at most [`FILTERED`] accesses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filtered {
    first: usize,
    /// One bit an access, the first one on top.
    followed: u64,
    /// Accesses that were filtered, followed or not.
    pub(crate) len: u64,
    /// Of these, reads.
    pub(crate) reads: u64,
}

impl Iterator for Filtered {
    type Item = usize;

    /// The number, within the batch, of the next access that is followed.
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let at = self.followed.leading_zeros();
        self.followed &= !(1u64 << (FILTERED - 1)).checked_shr(at)?;
        Some(self.first + at as usize)
    }
}

const RATE_RANGE: &str = "A sampling rate is above 0 and at most 1";

fn is_rate(rate: f64) -> bool {
    rate > 0.0 && rate <= 1.0
}

/// The largest hash that is followed at this rate.
fn threshold_of(rate: f64) -> u64 {
    // The conversion saturates at both ends.
    (rate * 2f64.powi(64)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

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

        /// Strides as disks have them: 40,000 blocks of the longest are petabytes. Of strides that are longer still, one product leaves some in step.
        #[test]
        fn every_pattern_of_blocks_has_its_share(
            salt in any::<u64>(), first in any::<u64>(), stride_bits in 0u32..26, step in 1u64..5,
        ) {
            let stride = step << stride_bits;
            for rate in [0.5, 0.1, 0.01] {
                let sample = Sample::at_rate(rate, salt).expect("in range");
                prop_assert!((sample.rate() / rate - 1.0).abs() < 1e-9);
                let blocks = (0..40_000).map(|i| first.wrapping_add(stride.wrapping_mul(i)));
                // Blocks of one run are dealt together, at worst all of them alike.
                let runs = blocks.clone().map(|block| block >> STRATUM_BITS).collect::<HashSet<_>>().len();
                let deviation = (rate * (1.0 - rate) / runs as f64).sqrt();
                let found = share(&sample, blocks);
                // The hash is one product: a few strides between runs meet it in step, and are a little off.
                let tolerance = 6.0 * deviation + 0.1 * rate;
                prop_assert!((found - rate).abs() < tolerance, "{found} of stride {stride} at {rate}");
            }
        }

        #[test]
        fn runs_have_exactly_their_share(salt in any::<u64>(), run in 0u64..1 << 54, slices in 1u64..1024) {
            let sample = Sample::at_rate(slices as f64 / 1024.0, salt).expect("in range");
            let followed = (0..1024).filter(|within| sample.follows(run << 10 | within)).count() as u64;
            // The slices' share of 2^64, less one hash, is what the threshold is.
            prop_assert!(followed == slices || followed == slices - 1, "{followed} of {slices}");
        }

        #[test]
        fn filters_as_it_follows(salt in any::<u64>(), blocks in prop::collection::vec((any::<bool>(), 0u64..5000), 0..200)) {
            let op = |is_read| if is_read { Direction::Read } else { Direction::Write };
            let accesses: Vec<_> = blocks.iter().map(|&(is_read, block)| (op(is_read), block)).collect();
            for sample in [Sample::at_rate(0.3, salt), Sample::new(Method::Exact, salt)].map(|s| s.expect("in range")) {
                let (mut found, mut len, mut reads) = (Vec::new(), 0, 0);
                for first in (0..accesses.len()).step_by(FILTERED) {
                    let filtered = sample.filter(&accesses, first);
                    (len, reads) = (len + filtered.len, reads + filtered.reads);
                    found.extend(filtered);
                }
                prop_assert_eq!(len, accesses.len() as u64);
                prop_assert_eq!(reads, accesses.iter().filter(|a| a.0 == Direction::Read).count() as u64);
                let expected: Vec<_> = (0..accesses.len()).filter(|&at| sample.follows(accesses[at].1)).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn a_rate_sinks_to_what_was_asked_for_and_stays() {
        let mut sample = Sample::new(Method::LeastRate(0.3), 7).expect("in range");
        assert_eq!(sample.rate(), 1.0);
        assert!(!sample.lower_to_limit(LEAST_BLOCKS as usize));
        while sample.lower_to_limit(LEAST_BLOCKS as usize + 1) {}
        let plain = Sample::at_rate(0.3, 7).expect("in range");
        assert_eq!((sample.threshold, sample.key), (plain.threshold, plain.key));
        assert!(sample.halve(1000) && (sample.rate() - 0.15).abs() < 1e-9);
        assert!(!sample.lower_to_limit(usize::MAX));
        assert!(
            (0..10_000)
                .all(|block| Sample::new(Method::LeastRate(1.0), 7).is_ok_and(|all| all.follows(block)))
        );
    }

    #[test]
    fn salts_choose_different_samples_and_lower_rates_choose_less_of_them() {
        let sample = |salt| Sample::at_rate(0.1, salt).expect("in range");
        let (mut one, other) = (sample(1), sample(2));
        let both = share(&one, (0..1 << 20).filter(|&block| other.follows(block)));
        // A run is dealt as one, so that two samples agree there widely or hardly.
        assert!((both - 0.1).abs() < 0.03, "{both}");
        let before = one;
        assert!(one.halve(1000) && !one.halve(100));
        assert!((0..1 << 16).all(|block| before.follows(block) || !one.follows(block)));
        assert!((one.rate() - 0.05).abs() < 1e-9);
    }
}
