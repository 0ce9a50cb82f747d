//! Which blocks may have been accessed at about the same turn as a neighbour. Most of those that leave a level have not, and then
//! nobody need look their neighbours up.
//!
//! It must not know what is made of neighbours.

use lode_types::BlockNo;

/// Bits of a table's place.
const PLACE_BITS: u32 = 11;
const PLACES: usize = 1 << PLACE_BITS;
/// Odd, without a pattern in its bits: a part of the golden ratio's fraction.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// When blocks were accessed last: not whether one was accessed lately is told, but that it was not.
#[derive(Debug)]
pub(super) struct Turns {
    /// The low bits of the clock, by the blocks' hashes.
    last: Box<[u16; PLACES]>,
}

#[inline(always)]
fn place_of(block: BlockNo) -> usize {
    (block.wrapping_mul(MULTIPLIER) >> (u64::BITS - PLACE_BITS)) as usize
}

impl Turns {
    pub(super) fn new() -> Turns {
        Turns { last: Box::new([0; PLACES]) }
    }

    /// A block is accessed.
    #[inline(always)]
    pub(super) fn note(&mut self, block: BlockNo, clock: u32) {
        self.last[place_of(block)] = clock as u16;
    }

    /// False if a block was not accessed within so many accesses up to now.
    #[inline(always)]
    pub(super) fn may_be_within(&self, block: BlockNo, clock: u32, accesses: u32) -> bool {
        (clock as u16).wrapping_sub(self.last[place_of(block)]) <= accesses as u16
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_accessed_lately_is_never_denied_and_the_rest_mostly_is() {
        let mut rng = lode_types::Rng::new(5);
        let mut turns = Turns::new();
        let mut recent = std::collections::VecDeque::new();
        let mut by_chance = 0;
        // Past where the low bits come round.
        for clock in 1..150_000u32 {
            let block = rng.below(1 << 40);
            turns.note(block, clock);
            recent.push_back(block);
            if recent.len() > 66 {
                let gone = recent.pop_front().unwrap();
                by_chance += u32::from(clock > 1000 && turns.may_be_within(gone, clock, 65));
            }
            assert!(recent.iter().all(|&block| turns.may_be_within(block, clock, 65)));
        }
        assert!(by_chance < 150_000 / 20, "{by_chance}");
    }
}
