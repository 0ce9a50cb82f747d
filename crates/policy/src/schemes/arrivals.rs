//! A set's blocks in order of arrival, each with a lower bound of its popularity, so that the first that is less popular
//! than a limit is found without a walk past those that are not.
//!
//! A tree of least bounds over the positions. Bounds decay as popularity does, each chunk of the tree when it is looked at:
//! the least of decayed bounds is the decayed least, because decay keeps order. What is accessed becomes more popular
//! than its bound, and that is noticed when a search stops there. It must not know whose popularity it is.

use crate::effect::Slot;
use crate::schemes::regions::{MOST_POPULAR, Now};

/// Bounds of a chunk: with the epoch they fill a cache line.
const FAN: usize = 14;
/// The bound of a position whose block has left; larger than all others, and not decaying.
const HOLE: u32 = MOST_POPULAR + 1;
/// Positions beside those in use, as a share of these, at the least: what is added until holes are closed.
const SPARE: usize = 8;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Chunk {
    bounds: [u32; FAN],
    /// When the bounds were true.
    epoch: u64,
}

impl Chunk {
    fn new(now: Now) -> Chunk {
        Chunk { bounds: [HOLE; FAN], epoch: now.epoch }
    }

    #[inline(always)]
    fn refresh(&mut self, now: Now) {
        if self.epoch != now.epoch {
            self.decay(now);
        }
    }

    #[cold]
    fn decay(&mut self, now: Now) {
        for bound in self.bounds.iter_mut().filter(|bound| **bound != HOLE) {
            *bound = now.decayed(*bound, self.epoch);
        }
        self.epoch = now.epoch;
    }

    #[inline(always)]
    fn least(&self) -> u32 {
        self.bounds.iter().fold(HOLE, |least, &bound| least.min(bound))
    }

    #[inline(always)]
    fn first_below(&self, limit: u32) -> Option<usize> {
        self.bounds.iter().position(|&bound| bound < limit)
    }
}

/// The blocks of one set. A position is good until the block is removed or is said to have moved.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    /// From the bounds of the positions up to one chunk; each level has the least bounds of the chunks below.
    levels: Vec<Vec<Chunk>>,
    /// By position, also those of blocks that have left.
    slots: Vec<Slot>,
}

impl Arrivals {
    /// A block of this popularity arrives: says its position. To make room others may move up, which `moved` is told.
    pub(super) fn push(
        &mut self,
        slot: Slot,
        popularity: u32,
        now: Now,
        moved: impl FnMut(Slot, u32),
    ) -> u32 {
        let room = self.levels.first().map_or(0, |leaves| leaves.len() * FAN);
        if self.slots.len() == room {
            self.close_holes(now, moved);
        }
        let position = self.slots.len();
        self.slots.push(slot);
        self.set(position, popularity, now);
        position as u32
    }

    /// The block at a position leaves.
    pub(super) fn remove(&mut self, position: u32, now: Now) {
        self.set(position as usize, HOLE, now);
    }

    /// The slot at a position.
    pub(super) fn slot(&self, position: u32) -> Slot {
        self.slots[position as usize]
    }

    /// The positions before `end` and their slots, in order of arrival.
    pub(super) fn before(&self, end: u32) -> impl Iterator<Item = (u32, Slot)> + '_ {
        let here = |position: u32| self.levels[0][position as usize / FAN].bounds[position as usize % FAN];
        (0..end).zip(self.slots.iter().copied()).filter(move |&(position, _)| here(position) != HOLE)
    }

    /// The position of the block that arrived first of those that are less popular than `limit`; `popularity` says how
    /// popular the block of a slot is.
    pub(super) fn first_below(
        &mut self,
        limit: u32,
        now: Now,
        mut popularity: impl FnMut(Slot) -> u32,
    ) -> Option<u32> {
        while let Some(chunk) = self.chunk_below(limit, now) {
            let first = chunk * FAN;
            let bounds = &mut self.levels[0][chunk].bounds;
            let mut found = None;
            for (position, held) in (first..).zip(bounds).filter(|(_, held)| **held < limit) {
                *held = popularity(self.slots[position]);
                if *held < limit {
                    found = Some(position as u32);
                    break;
                }
            }
            self.lift(chunk, now);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Bytes that everything takes, itself included.
    pub(super) fn memory_bytes(&self) -> usize {
        let chunks: usize = self.levels.iter().map(Vec::capacity).sum();
        size_of::<Arrivals>()
            + self.levels.capacity() * size_of::<Vec<Chunk>>()
            + chunks * size_of::<Chunk>()
            + self.slots.capacity() * size_of::<Slot>()
    }

    /// The first chunk of positions with a bound below `limit`.
    #[inline]
    fn chunk_below(&mut self, limit: u32, now: Now) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = 0;
        for level in self.levels.iter_mut().rev() {
            let chunk = &mut level[at];
            chunk.refresh(now);
            at = at * FAN + chunk.first_below(limit)?;
        }
        Some(at / FAN)
    }

    #[inline]
    fn set(&mut self, position: usize, bound: u32, now: Now) {
        let chunk = &mut self.levels[0][position / FAN];
        chunk.refresh(now);
        chunk.bounds[position % FAN] = bound;
        self.lift(position / FAN, now);
    }

    /// The chunks above a chunk of positions learn what its least bound is.
    #[inline]
    fn lift(&mut self, mut at: usize, now: Now) {
        let mut least = self.levels[0][at].least();
        for level in &mut self.levels[1..] {
            let chunk = &mut level[at / FAN];
            chunk.refresh(now);
            let held = &mut chunk.bounds[at % FAN];
            if *held == least {
                return;
            }
            *held = least;
            least = chunk.least();
            at /= FAN;
        }
    }

    /// Gives those that have not left the first positions, and makes room behind them.
    fn close_holes(&mut self, now: Now, mut moved: impl FnMut(Slot, u32)) {
        let mut leaves = std::mem::take(&mut self.levels).into_iter().next().unwrap_or_default();
        let mut len = 0;
        for position in 0..self.slots.len() {
            let chunk = &mut leaves[position / FAN];
            chunk.refresh(now);
            let bound = std::mem::replace(&mut chunk.bounds[position % FAN], HOLE);
            if bound == HOLE {
                continue;
            }
            leaves[len / FAN].bounds[len % FAN] = bound;
            let slot = self.slots[position];
            self.slots[len] = slot;
            if len != position {
                moved(slot, len as u32);
            }
            len += 1;
        }
        self.slots.truncate(len);
        let chunks = (len + len / SPARE + 1).div_ceil(FAN);
        leaves.truncate(chunks);
        leaves.reserve_exact(chunks - leaves.len());
        leaves.resize(chunks, Chunk::new(now));
        self.slots.reserve_exact(chunks * FAN - len);
        self.levels = levels_over(leaves, now);
    }
}

/// All levels over these chunks of positions, which are as they are `now`.
fn levels_over(leaves: Vec<Chunk>, now: Now) -> Vec<Vec<Chunk>> {
    let mut levels = Vec::new();
    let mut level = leaves;
    while level.len() > 1 {
        let over = |below: &[Chunk]| {
            let mut chunk = Chunk::new(now);
            chunk.bounds.iter_mut().zip(below).for_each(|(bound, below)| *bound = below.least());
            chunk
        };
        let above = level.chunks(FAN).map(over).collect();
        levels.push(std::mem::replace(&mut level, above));
    }
    levels.push(level);
    levels.shrink_to_fit();
    levels
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Arrive(u32),
        /// The n-th, counted round and round.
        Leave(usize),
        /// The n-th becomes more popular.
        Gain(usize, u32),
        Decay(u64),
        Search(u32),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let popularity = || prop_oneof![8 => 0u32..20, 1 => 0..MOST_POPULAR, 1 => Just(MOST_POPULAR)];
        prop_oneof![
            8 => popularity().prop_map(Step::Arrive),
            3 => any::<usize>().prop_map(Step::Leave),
            4 => (any::<usize>(), popularity()).prop_map(|(which, gain)| Step::Gain(which, gain)),
            1 => prop_oneof![Just(1u64), 0..5u64, Just(1 << 40)].prop_map(Step::Decay),
            4 => popularity().prop_map(Step::Search),
        ]
    }

    proptest! {
        /// Beside a plain vector of slots and popularity, which is walked.
        #[test]
        fn equals_a_walk(
            alpha in prop_oneof![Just(0.5), 0.0..0.99],
            first in 0usize..600,
            steps in prop::collection::vec(any_step(), 0..400),
        ) {
            let mut now = Now { alpha, epoch: 0 };
            let mut arrivals = Arrivals::default();
            let mut positions = HashMap::new();
            let mut plain: Vec<(Slot, u32)> = Vec::new();
            let fill = (0..first).map(|n| Step::Arrive(n as u32 % 23));
            for (slot, step) in (0..).zip(fill.chain(steps)) {
                let which = |n: usize| n.checked_rem(plain.len());
                match step {
                    Step::Arrive(popularity) => {
                        let position = arrivals.push(slot, popularity, now, |slot, position| {
                            positions.insert(slot, position);
                        });
                        positions.insert(slot, position);
                        plain.push((slot, popularity));
                    }
                    Step::Leave(n) => {
                        if let Some(at) = which(n) {
                            arrivals.remove(positions[&plain.remove(at).0], now);
                        }
                    }
                    Step::Gain(n, gain) => {
                        if let Some(at) = which(n) {
                            plain[at].1 = plain[at].1.saturating_add(gain).min(MOST_POPULAR);
                        }
                    }
                    Step::Decay(epochs) => {
                        now.epoch += epochs;
                        plain.iter_mut().for_each(|entry| entry.1 = now.decayed(entry.1, now.epoch - epochs));
                    }
                    Step::Search(limit) => {
                        let popular: HashMap<Slot, u32> = plain.iter().copied().collect();
                        let found = arrivals.first_below(limit, now, |slot| popular[&slot]);
                        let walked = plain.iter().find(|entry| entry.1 < limit).map(|entry| entry.0);
                        prop_assert_eq!(found.map(|position| arrivals.slot(position)), walked);
                    }
                }
                let order: Vec<Slot> = arrivals.before(u32::MAX).map(|(_, slot)| slot).collect();
                prop_assert_eq!(order, plain.iter().map(|entry| entry.0).collect::<Vec<_>>());
            }
        }
    }
}
