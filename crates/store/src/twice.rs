//! Blocks that may be in more than one place. Most volumes have none, so that they are found with a bit or few a block, and no table of
//! all blocks is made. It must not know places.

use hashbrown::HashSet;
use lode_types::prefetch::prefetch_within;
use lode_types::{NumberFilter, mix};
use smallvec::SmallVec;

/// Bits for each block, where a volume has too many blocks for one each: one of 32 is taken for one that is there twice.
const BITS_PER_BLOCK: u64 = 32;
/// Bits that are fetched at once: they lie far apart.
const BITS_AT_ONCE: usize = 64;

/// Which blocks were seen, and which of them may have been seen before, by bits that stand for one block each or for several.
#[derive(Debug)]
pub(crate) struct Seen {
    bits: u64,
    is_exact: bool,
    /// Nothing before a block is seen.
    words: Vec<u64>,
    again: HashSet<u64>,
}

/// Blocks that may be there twice.
pub(crate) struct Twice {
    bits: u64,
    is_exact: bool,
    found: HashSet<u64>,
    filter: NumberFilter,
}

fn bit(is_exact: bool, bits: u64, block: u64) -> u64 {
    if is_exact { block } else { mix(block) & (bits - 1) }
}

impl Seen {
    /// Nothing was seen. There will be so many at most, of a volume of so many blocks.
    pub(crate) fn new(most: u64, blocks: u64) -> Seen {
        let bits = (most * BITS_PER_BLOCK).next_power_of_two().max(64);
        let is_exact = blocks <= bits;
        let bits = if is_exact { blocks } else { bits };
        Seen { bits, is_exact, words: Vec::new(), again: HashSet::new() }
    }

    /// Sees blocks.
    pub(crate) fn see(&mut self, blocks: impl Iterator<Item = u64>) {
        let (is_exact, bits) = (self.is_exact, self.bits);
        let mut seen = blocks.map(|block| bit(is_exact, bits, block));
        loop {
            let some: SmallVec<[u64; BITS_AT_ONCE]> = seen.by_ref().take(BITS_AT_ONCE).collect();
            if self.words.is_empty() && !some.is_empty() {
                self.words = vec![0; bits.div_ceil(64) as usize];
            }
            some.iter().for_each(|bit| prefetch_within(&self.words, (bit / 64) as usize));
            for &bit in &some {
                let (word, mask) = (&mut self.words[(bit / 64) as usize], 1 << (bit % 64));
                if *word & mask != 0 {
                    self.again.insert(bit);
                }
                *word |= mask;
            }
            if some.len() < BITS_AT_ONCE {
                return;
            }
        }
    }

    /// What may have been seen more than once.
    pub(crate) fn twice(self) -> Twice {
        let Seen { bits, is_exact, again: found, .. } = self;
        let filter = NumberFilter::of(found.iter().copied(), found.len());
        Twice { bits, is_exact, found, filter }
    }
}

impl Twice {
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(crate) fn has(&self, block: u64) -> bool {
        let bit = bit(self.is_exact, self.bits, block);
        self.filter.may_have(bit) && self.found.contains(&bit)
    }
}
