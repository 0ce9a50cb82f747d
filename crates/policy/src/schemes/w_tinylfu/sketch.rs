//! How often blocks were accessed of late, in a few bits each: a count-min sketch of 4-bit counters that is halved after
//! each sample, with an optional doorkeeper before it (Einziger, Friedman and Manes, "TinyLFU: A Highly Efficient Cache
//! Admission Policy", ACM TOS 13(4), 2017).
//!
//! All counters of a block stand in one cache line (lines chosen by the first hash: Putze, Sanders and Singler, "Cache-,
//! Hash- and Space-Efficient Bloom Filters", 2007). It must not know what is cached.

use lode_types::prefetch::prefetch_slice;

/// Counters that a block has, one in each row of its line.
const ROWS: u32 = 4;
/// Bits that choose a counter in a row of 32.
const COUNTER_BITS: u32 = 5;
/// Bits of the doorkeeper that a block has, and bits that choose one of 512.
const DOORKEEPER_PROBES: u32 = 4;
const DOORKEEPER_BITS: u32 = 9;
/// Blocks for each line: 16 counters a block.
const BLOCKS_PER_LINE: u64 = 8;
/// The largest count.
const MOST: u64 = 15;
/// The low three bits of every counter.
const LOW_BITS: u64 = 0x7777_7777_7777_7777;
/// Odd, without a pattern in their bits: parts of the fractions of the square roots of 2 and 3.
const COUNTER_MIX: u64 = 0x6a09_e667_f3bc_c909;
const DOORKEEPER_MIX: u64 = 0xbb67_ae85_84ca_a73b;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// Counts of blocks by their hash in the index. Two blocks with one hash are one to it.
#[derive(Debug)]
pub struct Sketch {
    /// A power of two of them.
    counters: Vec<Line>,
    /// As many as there are lines of counters, or none.
    doorkeeper: Vec<Line>,
    /// Accesses counted, halved with the counters.
    accesses: u64,
}

impl Sketch {
    /// Nothing was accessed.
    pub(crate) fn new(has_doorkeeper: bool) -> Sketch {
        let doorkeeper = if has_doorkeeper { vec![Line([0; 8])] } else { Vec::new() };
        Sketch { counters: vec![Line([0; 8])], doorkeeper, accesses: 0 }
    }

    /// Makes it large enough for `blocks`; counts stay what they are. A line becomes two alike: blocks that had one
    /// together have the one or the other.
    #[inline]
    pub(crate) fn provide(&mut self, blocks: u64) {
        while (self.counters.len() as u64) * BLOCKS_PER_LINE < blocks {
            self.double();
        }
    }

    #[cold]
    fn double(&mut self) {
        for lines in [&mut self.counters, &mut self.doorkeeper] {
            *lines = lines.iter().flat_map(|line| [*line, *line]).collect();
        }
    }

    /// Counts one access, and halves all counts when `sample` accesses were counted.
    #[inline]
    pub(crate) fn count(&mut self, hash: u32, sample: u64) {
        if self.passes_doorkeeper(hash) {
            let line = line_of(&self.counters, hash);
            self.counters[line].increment(hash);
        }
        self.accesses += 1;
        if self.accesses >= sample {
            self.halve();
        }
    }

    /// Whether the block passed the doorkeeper before, in this sample; from now on it has.
    #[inline]
    fn passes_doorkeeper(&mut self, hash: u32) -> bool {
        if self.doorkeeper.is_empty() {
            return true;
        }
        let line = line_of(&self.doorkeeper, hash);
        self.doorkeeper[line].set_bits(hash)
    }

    #[cold]
    fn halve(&mut self) {
        self.accesses /= 2;
        for word in self.counters.iter_mut().flat_map(|line| &mut line.0) {
            *word = (*word >> 1) & LOW_BITS;
        }
        self.doorkeeper.fill(Line([0; 8]));
    }

    /// How often the block was accessed: never less than what was counted, up to 15, and one more with a doorkeeper.
    #[inline]
    pub(crate) fn frequency(&self, hash: u32) -> u64 {
        let count = self.counters[line_of(&self.counters, hash)].least(hash);
        let doorkeeper = self.doorkeeper.get(line_of(&self.doorkeeper, hash));
        count + u64::from(doorkeeper.is_some_and(|line| line.has_all_bits(hash)))
    }

    /// Asks for the block's counters.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        prefetch_slice(&self.counters, line_of(&self.counters, hash));
        if !self.doorkeeper.is_empty() {
            prefetch_slice(&self.doorkeeper, line_of(&self.doorkeeper, hash));
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        (self.counters.capacity() + self.doorkeeper.capacity()) * size_of::<Line>()
    }
}

/// By the high bits, so that a table twice as long splits each line's blocks and mixes none.
#[inline(always)]
fn line_of(lines: &[Line], hash: u32) -> usize {
    ((u64::from(hash) * lines.len() as u64) >> 32) as usize
}

/// The block's counter in each row: its word and how far it is shifted.
#[inline(always)]
fn counters_of(hash: u32) -> impl Iterator<Item = (usize, u32)> {
    let mix = u64::from(hash).wrapping_mul(COUNTER_MIX) >> (u64::BITS - ROWS * COUNTER_BITS);
    (0..ROWS).map(move |row| {
        let counter = (mix >> (row * COUNTER_BITS)) as u32 % (1 << COUNTER_BITS);
        ((row * 2 + counter / 16) as usize, counter % 16 * 4)
    })
}

/// The block's bits of the doorkeeper: word and bit.
#[inline(always)]
fn doorkeeper_bits(hash: u32) -> impl Iterator<Item = (usize, u64)> {
    let mix =
        u64::from(hash).wrapping_mul(DOORKEEPER_MIX) >> (u64::BITS - DOORKEEPER_PROBES * DOORKEEPER_BITS);
    (0..DOORKEEPER_PROBES).map(move |probe| {
        let bit = (mix >> (probe * DOORKEEPER_BITS)) as u32 % (1 << DOORKEEPER_BITS);
        ((bit / 64) as usize, 1 << (bit % 64))
    })
}

impl Line {
    #[inline(always)]
    fn least(&self, hash: u32) -> u64 {
        counters_of(hash).fold(MOST, |least, (word, shift)| least.min(self.0[word] >> shift & MOST))
    }

    /// Adds one to those of the block's counters that are the least: the others count other blocks too.
    #[inline(always)]
    fn increment(&mut self, hash: u32) {
        let least = self.least(hash);
        if least < MOST {
            for (word, shift) in counters_of(hash) {
                let is_least = self.0[word] >> shift & MOST == least;
                self.0[word] += u64::from(is_least) << shift;
            }
        }
    }

    #[inline(always)]
    fn has_all_bits(&self, hash: u32) -> bool {
        doorkeeper_bits(hash).all(|(word, bit)| self.0[word] & bit != 0)
    }

    #[inline(always)]
    fn set_bits(&mut self, hash: u32) -> bool {
        let were_set = self.has_all_bits(hash);
        doorkeeper_bits(hash).for_each(|(word, bit)| self.0[word] |= bit);
        were_set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use lode_reuse::BlockIndex;
    use proptest::prelude::*;

    use super::{BLOCKS_PER_LINE, Sketch, line_of};

    const NEVER: u64 = u64::MAX;

    /// Block `n` is accessed `n % 20` times.
    fn filled(has_doorkeeper: bool, blocks: u64) -> Sketch {
        let mut sketch = Sketch::new(has_doorkeeper);
        sketch.provide(blocks);
        for round in 0..20 {
            for block in (0..blocks).filter(|block| block % 20 > round) {
                sketch.count(BlockIndex::hash(block), NEVER);
            }
        }
        sketch
    }

    #[test]
    fn counts_are_never_too_small_and_seldom_too_large() {
        for has_doorkeeper in [false, true] {
            // As many blocks as a sample of ten accesses for each cached block would have, at 9.5 accesses each.
            let mut sketch = filled(has_doorkeeper, 10_000);
            sketch.provide(10_000);
            let mut too_large = 0;
            for block in 0..10_000u64 {
                let most = if has_doorkeeper { 16 } else { 15 };
                let (counted, true_count) =
                    (sketch.frequency(BlockIndex::hash(block)), (block % 20).min(most));
                assert!(counted >= true_count, "block {block}: {counted} of {true_count}");
                too_large += u64::from(counted > true_count);
            }
            assert!(too_large < 500, "{too_large} of 10,000 counts are too large");
        }
    }

    /// Block by block, whole numbers: what a sketch without end would say.
    #[derive(Default)]
    struct Exact {
        has_doorkeeper: bool,
        /// Counts, and what the doorkeeper holds.
        counts: BTreeMap<u64, u64>,
        doorkeeper: BTreeSet<u64>,
        accesses: u64,
    }

    impl Exact {
        fn count(&mut self, block: u64, sample: u64) {
            if !self.has_doorkeeper || !self.doorkeeper.insert(block) {
                let count = self.counts.entry(block).or_default();
                *count = (*count + 1).min(15);
            }
            self.accesses += 1;
            if self.accesses >= sample {
                self.accesses /= 2;
                self.counts.values_mut().for_each(|count| *count /= 2);
                self.doorkeeper.clear();
            }
        }

        fn frequency(&self, block: u64) -> u64 {
            self.counts.get(&block).copied().unwrap_or(0) + u64::from(self.doorkeeper.contains(&block))
        }
    }

    /// Blocks, and which of them are accessed one after the other.
    fn any_accesses(blocks: usize) -> impl Strategy<Value = (Vec<u64>, Vec<usize>)> {
        let known = prop::collection::btree_set(any::<u64>(), 1..=blocks);
        (known, prop::collection::vec(0..blocks, 0..400)).prop_map(|(known, accesses)| {
            let known: Vec<u64> = known.into_iter().collect();
            let accesses = accesses.into_iter().map(|at| at * at % known.len()).collect();
            (known, accesses)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Whatever the hash does with them: blocks that share no line are counted one by one.
        #[test]
        fn blocks_with_lines_of_their_own_are_counted_exactly(
            (blocks, accesses) in any_accesses(12), has_doorkeeper in any::<bool>(), sample in 1u64..200,
        ) {
            let mut sketch = Sketch::new(has_doorkeeper);
            sketch.provide(4096 * BLOCKS_PER_LINE);
            let lines: BTreeSet<usize> =
                blocks.iter().map(|&block| line_of(&sketch.counters, BlockIndex::hash(block))).collect();
            prop_assume!(lines.len() == blocks.len());
            let mut exact = Exact { has_doorkeeper, ..Exact::default() };
            for at in accesses {
                sketch.count(BlockIndex::hash(blocks[at]), sample);
                exact.count(blocks[at], sample);
                for &block in &blocks {
                    prop_assert_eq!(sketch.frequency(BlockIndex::hash(block)), exact.frequency(block));
                }
            }
        }

        /// However many share a line: no count is too small, and none is above what the line's blocks have together.
        #[test]
        fn a_crowded_sketch_errs_upwards_and_within_its_lines(
            (blocks, accesses) in any_accesses(200), has_doorkeeper in any::<bool>(), sample in 50u64..2000,
            lines in 1u64..5,
        ) {
            let mut sketch = Sketch::new(has_doorkeeper);
            sketch.provide(lines * BLOCKS_PER_LINE);
            let mut exact = Exact { has_doorkeeper, ..Exact::default() };
            let mut in_line: BTreeMap<usize, u64> = BTreeMap::new();
            for &at in &accesses {
                let hash = BlockIndex::hash(blocks[at]);
                sketch.count(hash, sample);
                exact.count(blocks[at], sample);
                *in_line.entry(line_of(&sketch.counters, hash)).or_default() += 1;
            }
            for &block in &blocks {
                let hash = BlockIndex::hash(block);
                let (found, least) = (sketch.frequency(hash), exact.frequency(block));
                let most = in_line.get(&line_of(&sketch.counters, hash)).copied().unwrap_or(0);
                prop_assert!(found >= least, "{}: {} of {}", block, found, least);
                prop_assert!(found <= most, "{}: {}, its line has {}", block, found, most);
            }
        }
    }

    #[test]
    fn a_sample_halves_what_was_counted() {
        let mut sketch = Sketch::new(false);
        let hash = BlockIndex::hash(7);
        for count in 1..10 {
            sketch.count(hash, 10);
            assert_eq!(sketch.frequency(hash), count);
        }
        sketch.count(hash, 10);
        assert_eq!((sketch.frequency(hash), sketch.accesses), (5, 5));
        (0..4).for_each(|_| sketch.count(hash, 10));
        assert_eq!((sketch.frequency(hash), sketch.accesses), (9, 9));
    }

    #[test]
    fn growth_keeps_every_count() {
        for has_doorkeeper in [false, true] {
            let mut sketch = filled(has_doorkeeper, 1000);
            let counts = |sketch: &Sketch| -> Vec<u64> {
                (0..2000).map(|block| sketch.frequency(BlockIndex::hash(block))).collect()
            };
            let (before, bytes) = (counts(&sketch), sketch.memory_bytes());
            sketch.provide(5000);
            assert_eq!(counts(&sketch), before);
            assert!(sketch.memory_bytes() >= 4 * bytes);
        }
    }
}
