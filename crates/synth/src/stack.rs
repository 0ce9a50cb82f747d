//! A stack of blocks by recency that finds the block at a depth and the depth of a block in logarithmic time. It must
//! not know why a block is touched.

use lode_reuse::{NEVER, Timeline};

/// Set in a block's word when its latest touch wrote it.
const WRITTEN: u32 = 1 << 31;

/// Blocks by recency; blocks are numbered from 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    timeline: Timeline,
    /// For each block its position in the timeline, and [`WRITTEN`].
    words: Vec<u32>,
    /// For each set position the block whose it is.
    owners: Vec<u32>,
}

impl Stack {
    /// Number of blocks touched so far.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.timeline.live()
    }

    /// The block with `distance` blocks touched after it, and whether its latest touch wrote it.
    #[inline]
    pub(crate) fn at(&self, distance: u32) -> Option<(u32, bool)> {
        let position = self.timeline.at_distance(distance)?;
        let block = self.owners[position as usize];
        Some((block, self.is_written(block)))
    }

    /// Whether the latest touch of a block that has been touched wrote it.
    #[inline]
    pub(crate) fn is_written(&self, block: u32) -> bool {
        self.words.get(block as usize).is_some_and(|word| word & WRITTEN != 0)
    }

    /// Puts the block on top; says how deep it was and whether it had been written last, or `None` when it is new.
    #[inline]
    pub(crate) fn touch(&mut self, block: u32, writes: bool) -> Option<(u32, bool)> {
        if self.timeline.is_full() {
            self.make_room();
        }
        if block as usize >= self.words.len() {
            self.words.resize(block as usize + 1, NEVER);
        }
        let word = self.words[block as usize];
        let (found, position) = if word & !WRITTEN == NEVER {
            (None, self.timeline.touch(NEVER))
        } else {
            let (distance, position) = self.timeline.revisit(word & !WRITTEN);
            (Some((distance, word & WRITTEN != 0)), position)
        };
        self.words[block as usize] = position | if writes { WRITTEN } else { 0 };
        if position as usize >= self.owners.len() {
            self.owners.resize(position as usize + 1, 0);
        }
        self.owners[position as usize] = block;
        found
    }

    #[cold]
    fn make_room(&mut self) {
        let Stack { timeline, words, owners } = self;
        timeline.compact(|remap| {
            for word in words.iter_mut() {
                *word = *word & WRITTEN | remap.new_position(*word & !WRITTEN);
            }
        });
        for (block, word) in words.iter().enumerate() {
            if word & !WRITTEN != NEVER {
                owners[(word & !WRITTEN) as usize] = block as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        #[test]
        fn is_a_list_by_recency(seed in any::<u64>(), blocks in 1u64..400) {
            let (mut stack, mut list) = (Stack::default(), Vec::<(u32, bool)>::new());
            let mut rng = lode_types::Rng::new(seed);
            for _ in 0..12_000 {
                let (block, writes) = (rng.below(blocks) as u32, rng.below(2) == 0);
                let place = list.iter().rev().position(|&(other, _)| other == block);
                let expected = place.map(|at| (at as u32, list.remove(list.len() - 1 - at).1));
                prop_assert_eq!(stack.touch(block, writes), expected);
                list.push((block, writes));
                prop_assert_eq!(stack.len() as usize, list.len());
                let depth = rng.below(blocks + 1) as usize;
                prop_assert_eq!(stack.at(depth as u32), list.iter().rev().nth(depth).copied());
            }
        }
    }
}
