//! The exact hit curve of a write-back, write-only LRU cache, in which a read that misses is not inserted.
//!
//! Caches of different sizes disagree here about what a read did, so an LRU stack is not enough. This is the
//! priority stack of Mattson et al. ("Evaluation techniques for storage hierarchies", IBM Systems J. 9(2), 1970)
//! with the time of the latest access as priority: a read changes only the priority of its block; a write puts its
//! block on top and pushes the displaced entry down past every more recent one. An access costs O(depth), over a
//! flat array of four bytes an entry. It must not know how hits are used.

use crate::error::ReuseError;
use crate::tally::Tally;
use crate::timeline::NEVER;
use crate::tracker::{Follow, Seen, Tracker, follow_all};
use lode_types::{AccessOp, BlockNo};

/// Entries compared at once when the stack is searched.
const SEARCH_LANES: usize = 64;

/// Depths of reads in the stack of write-only caches of every size at once.
///
/// A read at depth d hits exactly the caches of more than d blocks.
#[derive(Clone, Debug, Default)]
pub struct WbwoStack {
    /// Every block ever written; its word is the time of its latest access.
    tracker: Tracker,
    /// The stack, top first: each entry is the time of its block's latest access, which no other block shares.
    times: Vec<u32>,
    now: u32,
    tally: Tally,
}

impl WbwoStack {
    /// An analyser that has seen nothing.
    pub fn new() -> WbwoStack {
        WbwoStack::default()
    }

    /// Adds the next access of the stream; the depth of a read that large enough caches serve.
    ///
    /// # Errors
    /// [`ReuseError::TooManyBlocks`]; the access is then not counted.
    pub fn access(&mut self, op: AccessOp, block: BlockNo) -> Result<Option<u32>, ReuseError> {
        let depth = self.follow(op, Seen::of(block))?;
        if let Some(depth) = depth {
            self.tally.histogram.record(depth);
        }
        Ok(depth)
    }

    /// Adds many accesses, faster than one at a time.
    ///
    /// # Errors
    /// [`ReuseError::TooManyBlocks`]; the accesses before the offending one have then been counted.
    pub fn access_all(&mut self, batch: &[(AccessOp, BlockNo)]) -> Result<(), ReuseError> {
        follow_all(self, batch)
    }

    /// Counts so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Distinct blocks ever written.
    pub fn distinct_blocks(&self) -> usize {
        self.tracker.len()
    }

    /// Starts the counts again and keeps the history (a sizing window that carries over).
    pub fn clear_tally(&mut self) {
        self.tally.clear();
    }

    /// Starts everything again (a sizing window of its own) and keeps the memory.
    pub fn forget(&mut self) {
        self.tally.clear();
        self.tracker.clear();
        self.times.clear();
        self.now = 0;
    }

    /// Forgets the blocks that `keep` refuses and closes their places in the stack; the counts stay as they are.
    ///
    /// As long as nothing was read, depths are then those of an analyser that never saw these blocks. Beyond that they
    /// are so by expectation only, because what forgotten blocks displaced stays displaced. Costs a walk over all blocks.
    pub fn retain(&mut self, keep: impl Fn(BlockNo) -> bool) {
        let mut forgotten = Vec::new();
        self.tracker.retain(keep, |time| forgotten.push(time));
        forgotten.sort_unstable();
        self.times.retain(|time| forgotten.binary_search(time).is_err());
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        let stack = self.times.capacity() * size_of::<u32>();
        self.tracker.memory_bytes() + stack + self.tally.histogram.memory_bytes()
    }

    fn depth_of(&self, time: u32) -> usize {
        let holds = |lanes: &[u32]| lanes.iter().fold(false, |found, &t| found | (t == time));
        let first = self.times.chunks(SEARCH_LANES).take_while(|lanes| !holds(lanes)).count() * SEARCH_LANES;
        first + self.times[first..].iter().take_while(|&&t| t != time).count()
    }

    /// Puts the present on top and pushes what was there down, into the place of the entry at depth `at`.
    fn push_down(&mut self, at: usize) {
        let Some((place, above)) = self.times[..=at].split_last_mut() else { return };
        let mut carried = self.now;
        if let Some((top, between)) = above.split_first_mut() {
            std::mem::swap(top, &mut carried);
            for time in between {
                (*time, carried) = (carried.max(*time), carried.min(*time));
            }
        }
        *place = carried;
    }

    /// Replaces every time by its rank, when time has run out.
    #[cold]
    fn renumber(&mut self) {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let rank = |time: u32| sorted.partition_point(|&t| t < time) as u32;
        for time in self.tracker.words_mut().chain(&mut self.times) {
            *time = rank(*time);
        }
        self.now = sorted.len() as u32;
    }
}

impl Follow for WbwoStack {
    #[inline(always)]
    fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    #[inline(always)]
    fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    #[inline(always)]
    fn prefetch(&self, _word: u32) {}

    fn follow(&mut self, op: AccessOp, seen: Seen) -> Result<Option<u32>, ReuseError> {
        if self.now == NEVER {
            self.renumber();
        }
        let is_read = op == AccessOp::Read;
        let mut depth = None;
        match self.tracker.find(seen) {
            Some((place, time)) => {
                let at = self.depth_of(time);
                self.tracker.set_word(place, self.now);
                if is_read {
                    self.times[at] = self.now;
                    depth = Some(at as u32);
                } else {
                    self.push_down(at);
                }
            }
            None if is_read => {}
            None => {
                self.tracker.add(seen, self.now)?;
                self.times.push(self.now);
                self.push_down(self.times.len() - 1);
            }
        }
        self.now += 1;
        self.tally.accesses += 1;
        self.tally.reads += u64::from(is_read);
        Ok(depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlives_its_clock() {
        let (mut fresh, mut old) = (WbwoStack::new(), WbwoStack::new());
        let mut state = 1u32;
        for number in 0..3200 {
            if number % 500 == 499 {
                old.now = NEVER - 3;
            }
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let op = if state >> 30 == 0 { AccessOp::Write } else { AccessOp::Read };
            let block = u64::from(state >> 8) % 50;
            assert_eq!(fresh.access(op, block), old.access(op, block));
        }
        assert!(fresh.now >= 3000 && old.now < 1000);
        assert_eq!(fresh.tally.curve(), old.tally.curve());
    }
}
