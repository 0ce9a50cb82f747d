//! A set's blocks in order of arrival, each with a lower bound of its popularity, so that the first that is less popular
//! than a limit is found without a walk past those that are not.
//!
//! A tree of least bounds over the positions. Bounds decay as popularity does, each chunk of the tree when it is looked at:
//! the least of decayed bounds is the decayed least, because decay keeps order. What is accessed becomes more popular
//! than its bound, and that is noticed when a search stops there. A position may be kept out of the search: where several
//! blocks share a popularity, only the first of them has to be found. It must not know whose popularity it is.

use lode_types::prefetch::prefetch_slice;

use super::regions::{NEVER, Now};
use crate::effect::Slot;

/// Bounds of a chunk: with the epoch they fill a cache line.
const FAN: usize = 14;
/// In the place of a slot whose block has left.
const LEFT: Slot = Slot::MAX;
/// Levels of the tree over as many positions as can be numbered.
const MOST_LEVELS: usize = 9;
/// Positions beside those in use, as a share of these, at the least: what is added until holes are closed.
const SPARE: usize = 2;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Chunk {
    bounds: [u32; FAN],
    /// When the bounds were true.
    epoch: u64,
}

impl Chunk {
    fn new(now: Now) -> Chunk {
        Chunk { bounds: [NEVER; FAN], epoch: now.epoch }
    }

    #[inline(always)]
    fn refresh(&mut self, now: Now) {
        if self.epoch != now.epoch {
            self.decay(now);
        }
    }

    #[cold]
    fn decay(&mut self, now: Now) {
        now.decay_all(&mut self.bounds, now.epoch - self.epoch);
        self.epoch = now.epoch;
    }

    #[inline(always)]
    fn least(&self) -> u32 {
        self.bounds.iter().fold(NEVER, |least, &bound| least.min(bound))
    }

    #[inline(always)]
    fn first_below(&self, limit: u32) -> Option<usize> {
        self.bounds.iter().position(|&bound| bound < limit)
    }
}

/// The blocks of one set. At a position whose bound is [`NEVER`] no search stops. A position is good until the block is removed or is said to have moved.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    /// Level by level, from the bounds of the positions up to one chunk; each level has the least bounds of the chunks below.
    chunks: Vec<Chunk>,
    /// How many levels there are, and where each begins.
    levels: usize,
    starts: [u32; MOST_LEVELS],
    /// By position, also those of blocks that have left.
    slots: Vec<Slot>,
}

impl Arrivals {
    /// A block arrives whose popularity is not below `bound`: says its position. To make room others may move up, which `moved` is told.
    pub(super) fn push(&mut self, slot: Slot, bound: u32, now: Now, moved: impl FnMut(Slot, u32)) -> u32 {
        if self.slots.len() == self.leaves() * FAN {
            self.close_holes(now, moved);
        }
        let position = self.slots.len();
        self.slots.push(slot);
        // As it is anyway.
        if bound != NEVER {
            self.set_bound(position as u32, bound, now);
        }
        position as u32
    }

    /// The block at a position has a popularity not below `bound`.
    #[inline]
    pub(super) fn set_bound(&mut self, position: u32, bound: u32, now: Now) {
        let at = position as usize / FAN;
        let chunk = &mut self.chunks[at];
        chunk.refresh(now);
        let before = std::mem::replace(&mut chunk.bounds[position as usize % FAN], bound);
        if before != bound {
            self.lift(at, before, bound, now);
        }
    }

    /// The block at a position leaves.
    pub(super) fn remove(&mut self, position: u32, now: Now) {
        self.slots[position as usize] = LEFT;
        self.set_bound(position, NEVER, now);
    }

    /// Asks for what taking the block at a position out and appending one takes.
    #[inline]
    pub(super) fn prefetch(&self, position: u32) {
        for position in [position as usize, self.slots.len()] {
            prefetch_slice(&self.chunks, position / FAN);
            prefetch_slice(&self.chunks, self.starts[1] as usize + position / (FAN * FAN));
            prefetch_slice(&self.slots, position);
        }
    }

    /// The slot at a position.
    pub(super) fn slot(&self, position: u32) -> Slot {
        self.slots[position as usize]
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
            let bounds = &mut self.chunks[chunk].bounds;
            let (mut found, mut lowest_changed) = (None, None);
            for (position, held) in (first..).zip(bounds).filter(|(_, held)| **held < limit) {
                let popularity = popularity(self.slots[position]);
                if popularity != *held {
                    lowest_changed = Some(lowest_changed.unwrap_or(NEVER).min(*held));
                    *held = popularity;
                }
                if popularity < limit {
                    found = Some(position as u32);
                    break;
                }
            }
            if let Some(before) = lowest_changed {
                self.lift(chunk, before, limit, now);
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Bytes that everything takes, itself included.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Arrivals>()
            + self.chunks.capacity() * size_of::<Chunk>()
            + self.slots.capacity() * size_of::<Slot>()
    }

    /// The first chunk of positions with a bound below `limit`.
    #[inline]
    fn chunk_below(&mut self, limit: u32, now: Now) -> Option<usize> {
        if limit == 0 {
            return None;
        }
        let mut at = 0;
        for &start in self.starts[..self.levels].iter().rev() {
            let chunk = &mut self.chunks[start as usize + at];
            chunk.refresh(now);
            at = at * FAN + chunk.first_below(limit)?;
        }
        (self.levels > 0).then_some(at / FAN)
    }

    /// The chunks above a chunk of positions learn what its least bound is, after one that was `before` became `after`.
    #[inline]
    fn lift(&mut self, mut at: usize, mut before: u32, mut after: u32, now: Now) {
        let mut child = at;
        for &start in self.starts[..self.levels].iter().skip(1) {
            let parent = start as usize + at / FAN;
            self.chunks[parent].refresh(now);
            let held = self.chunks[parent].bounds[at % FAN];
            // One that became lower may be the least, and one that became higher may have been it.
            let least = if after < before {
                held.min(after)
            } else if before <= held {
                self.chunks[child].least()
            } else {
                held
            };
            if least == held {
                return;
            }
            self.chunks[parent].bounds[at % FAN] = least;
            (before, after, child) = (held, least, parent);
            at /= FAN;
        }
    }

    /// Gives those that have not left the first positions, and makes room behind them. All positions are in use, or were.
    fn close_holes(&mut self, now: Now, mut moved: impl FnMut(Slot, u32)) {
        let mut len = 0;
        for from in 0..self.leaves() {
            let chunk = &mut self.chunks[from];
            chunk.refresh(now);
            let bounds = std::mem::replace(&mut chunk.bounds, [NEVER; FAN]);
            for (place, bound) in bounds.into_iter().enumerate() {
                let slot = self.slots[from * FAN + place];
                if slot == LEFT {
                    continue;
                }
                self.chunks[len / FAN].bounds[len % FAN] = bound;
                self.slots[len] = slot;
                if len != from * FAN + place {
                    moved(slot, len as u32);
                }
                len += 1;
            }
        }
        self.slots.truncate(len);
        self.provide(len + len / SPARE + 1, now);
    }

    /// Chunks of positions.
    fn leaves(&self) -> usize {
        if self.levels > 1 { self.starts[1] as usize } else { self.levels }
    }

    /// Makes room for so many positions, and builds the levels above anew over those that are as they are `now`.
    fn provide(&mut self, positions: usize, now: Now) {
        let before = self.leaves();
        let leaves = positions.div_ceil(FAN);
        self.levels = 0;
        let mut all = 0;
        let mut level = leaves;
        loop {
            self.starts[self.levels] = all as u32;
            self.levels += 1;
            all += level;
            if level == 1 {
                break;
            }
            level = level.div_ceil(FAN);
        }
        self.chunks.truncate(leaves.min(before));
        self.chunks.reserve_exact(all - self.chunks.len());
        self.chunks.resize(leaves, Chunk::new(now));
        self.slots.reserve_exact(leaves * FAN - self.slots.len());
        for up in 1..self.levels {
            let below = self.starts[up - 1] as usize..self.starts[up] as usize;
            for first in below.clone().step_by(FAN) {
                let mut chunk = Chunk::new(now);
                let members = &self.chunks[first..below.end.min(first + FAN)];
                chunk.bounds.iter_mut().zip(members).for_each(|(bound, member)| *bound = member.least());
                self.chunks.push(chunk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;
    use crate::schemes::rpac::regions::MOST_POPULAR;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Arrive(u32),
        /// The n-th, counted round and round.
        Leave(usize),
        /// The n-th becomes more popular.
        Gain(usize, u32),
        /// The n-th is not to be found, or to be found again.
        Hide(usize),
        Show(usize),
        Decay(u64),
        Search(u32),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let popularity = || prop_oneof![8 => 0u32..20, 1 => 0..MOST_POPULAR, 1 => Just(MOST_POPULAR)];
        prop_oneof![
            8 => popularity().prop_map(Step::Arrive),
            3 => any::<usize>().prop_map(Step::Leave),
            4 => (any::<usize>(), popularity()).prop_map(|(which, gain)| Step::Gain(which, gain)),
            3 => any::<usize>().prop_map(Step::Hide),
            3 => any::<usize>().prop_map(Step::Show),
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
            let mut hidden = HashSet::new();
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
                    Step::Hide(n) => {
                        if let Some(at) = which(n) {
                            hidden.insert(plain[at].0);
                            arrivals.set_bound(positions[&plain[at].0], NEVER, now);
                        }
                    }
                    Step::Show(n) => {
                        if let Some(at) = which(n) {
                            hidden.remove(&plain[at].0);
                            arrivals.set_bound(positions[&plain[at].0], plain[at].1, now);
                        }
                    }
                    Step::Gain(n, gain) => {
                        if let Some(at) = which(n) {
                            plain[at].1 = plain[at].1.saturating_add(gain).min(MOST_POPULAR);
                        }
                    }
                    Step::Decay(epochs) => {
                        now.epoch += epochs;
                        plain.iter_mut().for_each(|entry| entry.1 = now.decayed_by(entry.1, epochs));
                    }
                    Step::Search(limit) => {
                        let popular: HashMap<Slot, u32> = plain.iter().copied().collect();
                        let found = arrivals.first_below(limit, now, |slot| popular[&slot]);
                        let is_found = |entry: &&(Slot, u32)| entry.1 < limit && !hidden.contains(&entry.0);
                        let walked = plain.iter().find(is_found).map(|entry| entry.0);
                        prop_assert_eq!(found.map(|position| arrivals.slot(position)), walked);
                    }
                }
                let order: Vec<Slot> = arrivals.slots.iter().copied().filter(|&slot| slot != LEFT).collect();
                prop_assert_eq!(order, plain.iter().map(|entry| entry.0).collect::<Vec<_>>());
            }
        }
    }
}
