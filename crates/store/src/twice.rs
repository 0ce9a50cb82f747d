//! Blocks that may be in more than one place. Most volumes have none, so that they are found with a bit or few a block, and no table of
//! all blocks is made. It must not know places.

use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashSet;
use lode_types::prefetch::{fetched, prefetch_within};
use lode_types::{NumberFilter, mix};
use zerocopy::FromZeros;

/// Bits for each block, where a volume has too many blocks for one each: one of 32 is taken for one that is there twice.
const BITS_PER_BLOCK: u64 = 32;

/// Which blocks were seen, and which of them may have been seen before, by bits that stand for one block each or for several.
#[derive(Debug)]
pub(crate) struct Seen {
    bits: u64,
    is_exact: bool,
    /// Nothing before there is room for what is seen.
    words: Vec<AtomicU64>,
    again: HashSet<u64>,
}

/// Bits of blocks that were seen before.
pub(crate) type Again = Vec<u64>;

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

    /// Makes room for the bits. Pages of it that no bit comes to take no memory.
    pub(crate) fn make_room(&mut self) {
        if self.words.is_empty() {
            let words = AtomicU64::new_vec_zeroed(self.bits.div_ceil(64) as usize);
            self.words = words.expect("there is memory for a bit or few a block");
        }
    }

    /// Sees blocks, for which there is room; several may see some at once. Those that were seen before are to be told to [`Seen::note_again`].
    pub(crate) fn see(&self, blocks: impl Iterator<Item = u64>, again: &mut Again) {
        let (is_exact, bits) = (self.is_exact, self.bits);
        let seen = blocks.map(|block| bit(is_exact, bits, block));
        for bit in fetched(seen, |bit| prefetch_within(&self.words, (bit / 64) as usize)) {
            let (word, mask) = (&self.words[(bit / 64) as usize], 1 << (bit % 64));
            // Nothing else is read by what this says.
            if word.fetch_or(mask, Ordering::Relaxed) & mask != 0 {
                again.push(bit);
            }
        }
    }

    /// These were seen before.
    pub(crate) fn note_again(&mut self, again: Again) {
        self.again.extend(again);
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

    /// Fetches what tells of a block, for whoever will soon ask.
    pub(crate) fn prefetch(&self, block: u64) {
        self.filter.prefetch(bit(self.is_exact, self.bits, block));
    }

    pub(crate) fn has(&self, block: u64) -> bool {
        let bit = bit(self.is_exact, self.bits, block);
        self.filter.may_have(bit) && self.found.contains(&bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever sees a block last knows that another one has seen it.
    #[test]
    fn blocks_that_several_see_are_seen_twice() {
        const BLOCKS: u64 = 40_000;
        for blocks in [BLOCKS, 1 << 50] {
            let mut seen = Seen::new(BLOCKS, blocks);
            seen.make_room();
            let is_seen_by = |block: u64, who: u64| (block + who * 2) % 6 < 3;
            let see = |who| {
                let mut again = Again::new();
                seen.see((0..BLOCKS).filter(|&block| is_seen_by(block, who)), &mut again);
                again
            };
            let again = [0, 1, 2].map(see);
            again.into_iter().for_each(|again| seen.note_again(again));
            let is_twice = |block| (0..3).filter(|&who| is_seen_by(block, who)).count() > 1;
            let twice = seen.twice();
            assert!((0..BLOCKS).filter(|&block| is_twice(block)).all(|block| twice.has(block)));
            let others = (0..BLOCKS).filter(|&block| !is_twice(block) && twice.has(block)).count();
            assert!(others as u64 <= if blocks == BLOCKS { 0 } else { BLOCKS / 8 }, "{others}");
        }
    }
}
