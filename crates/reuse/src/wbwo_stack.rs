//! The exact hit curve of a write-back, write-only LRU cache, in which a read that misses is not inserted.
//!
//! Caches of different sizes disagree here about what a read did, so an LRU stack is not enough. This is the
//! priority stack of Mattson et al. ("Evaluation techniques for storage hierarchies", IBM Systems J. 9(2), 1970)
//! with the time of the latest access as priority: a read changes only the priority of its block; a write puts its
//! block on top and pushes the displaced entry down to the block's old depth, past every more recent one: at each depth
//! the older one of two goes on. Done as it is said, an access costs O(depth). Here it costs a few steps of O(log n):
//!
//! - A block is *in order* when no block above it is older, else it is *fixed*. A write moves blocks in order only,
//!   each to the place of the next one, because what is carried past a fixed block is older than it. So a fixed block
//!   stays at its depth until it is written, or until no block above it is older.
//! - The blocks in order fill the depths that no fixed block takes, the latest first: the depth of one is the n-th free
//!   depth, if n blocks in order are later. Nothing has to be moved.
//! - The blocks in order that are above a fixed one and older are its *slack*: as many as there are free depths
//!   above it, less the blocks in order that are later. When none is left, it comes into order.
//! - A fixed block with an older fixed one above it has no less slack than that one, and comes into order after it. The
//!   others are *guards*: the deeper a guard, the older. A write takes one from the slack of all guards that are later than
//!   the block was (or above it, if it was fixed); a read that fixes a block, of those that are later than it was and
//!   below it; a block that comes into order changes no guard's. So it is always a range of depths that changes.
//! - Who becomes a guard because another one is gone was read since that one was. So there are no more such
//!   changes than reads.
//!
//! That this is the same stack is tested against caches of every size and against the plain algorithm. It must not know
//! how hits are used.

use crate::analyser::Stack;
use crate::bits::BitRow;
use crate::error::ReuseError;
use crate::min_tree::{MinTree, NONE};
use crate::tally::DistanceTally;
use crate::timeline::{NEVER, Timeline};
use crate::tracker::{Follow, Seen, Tracker};
use lode_types::{BlockNo, Direction};
use std::cmp::Reverse;

/// Blocks that the smallest stack has room for.
const MIN_BLOCKS: usize = 64;

/// Set in the word of a fixed block, beside its depth.
const FIXED: u32 = 1 << 31;

/// Depths of reads in the stack of write-only caches of every size at once.
///
/// A read at depth d hits exactly the caches of more than d blocks.
#[derive(Clone, Debug, Default)]
pub struct WbwoStack {
    /// Every block ever written; its word is its place in `words`, its id.
    tracker: Tracker,
    /// Of a block in order the time of its latest access, of a fixed one its depth.
    words: Vec<u32>,
    /// The times of blocks in order are set, those of fixed ones are not.
    timeline: Timeline,
    /// The depths that no fixed block takes.
    free: BitRow,
    /// The ids of fixed blocks, by depth.
    fixed: Vec<u32>,
    /// The times of the latest accesses of fixed blocks, by depth.
    times: MinTree,
    /// The slack of guards, by depth.
    slack: MinTree,
    tally: DistanceTally,
}

impl WbwoStack {
    /// An analyser that has seen nothing.
    pub fn new() -> WbwoStack {
        WbwoStack::default()
    }

    /// The time of a block's latest access.
    fn time_of(&self, id: u32) -> u32 {
        let word = self.words[id as usize];
        if word & FIXED == 0 { word } else { self.times.get((word & !FIXED) as usize) as u32 }
    }

    /// Every block's id, in the order of the stack.
    fn top_to_bottom(&self) -> Vec<u32> {
        let mut in_order: Vec<u32> = Vec::new();
        let mut stack = vec![0; self.words.len()];
        for (id, &word) in (0..).zip(&self.words) {
            if word & FIXED == 0 { in_order.push(id) } else { stack[(word & !FIXED) as usize] = id }
        }
        in_order.sort_unstable_by_key(|&id| Reverse(self.words[id as usize]));
        for (later, id) in (0..).zip(in_order) {
            stack[self.free.select(later)] = id;
        }
        stack
    }

    fn clear_stack(&mut self) {
        self.words.clear();
        self.timeline.reset();
        self.free.reset();
        self.fixed.clear();
        self.times.clear();
        self.slack.clear();
    }

    /// Builds the stack of blocks with these times of their latest accesses, all different, top first; a block's id is
    /// its depth.
    fn stack_up(&mut self, times: &[u32]) {
        self.clear_stack();
        let mut oldest = NEVER;
        for (&time, depth) in times.iter().zip(0..) {
            self.lengthen();
            self.words.push(if time > oldest { depth | FIXED } else { NEVER });
            oldest = oldest.min(time);
        }
        let mut in_time: Vec<(u32, usize)> = times.iter().copied().zip(0..).collect();
        in_time.sort_unstable();
        self.timeline = Timeline::with_capacity(times.len());
        for (_, id) in in_time {
            if self.words[id] == NEVER {
                self.words[id] = self.timeline.touch(NEVER);
            } else {
                self.free.clear(id);
                self.fixed[id] = id as u32;
                self.times.replace(id, self.timeline.skip() as i32);
            }
        }
        self.find_guards(0, NONE);
    }

    /// Adds a free depth at the bottom.
    fn lengthen(&mut self) {
        self.free.push();
        if self.fixed.len() == self.fixed.capacity() {
            // A quarter at a time, instead of `Vec`'s doubling.
            let more = self.fixed.len() / 4 + MIN_BLOCKS;
            self.fixed.reserve_exact(more);
            self.words.reserve_exact(self.fixed.capacity() - self.words.len());
        }
        self.fixed.push(0);
        // One more than there are, where ranges may end.
        self.times.provide(self.free.len());
        self.slack.provide(self.free.len());
    }

    /// A read of a block that was written before; says its depth.
    #[inline]
    fn read(&mut self, id: u32) -> u32 {
        let word = self.words[id as usize];
        if word & FIXED != 0 {
            self.read_fixed((word & !FIXED) as usize);
            return word & !FIXED;
        }
        let later = self.timeline.distance(word);
        if later == 0 {
            self.words[id as usize] = self.timeline.touch(word);
            self.slack.add_before(self.first_older(word), -1);
            self.settle();
            return 0;
        }
        let depth = self.free.select(later);
        self.fix(id, depth, later);
        depth as u32
    }

    /// A read of the fixed block at `depth`: it is later than all others now.
    #[inline]
    fn read_fixed(&mut self, depth: usize) {
        let now = self.timeline.skip() as i32;
        self.times.replace(depth, now);
        if self.slack.is_some(depth) {
            let mut oldest = self.times.min_before(depth);
            if oldest == NONE {
                // The topmost fixed block is always a guard.
                self.slack.set(depth, self.free.count_before(depth) as i32);
                oldest = now;
            } else {
                self.slack.set(depth, NONE);
            }
            self.find_guards(depth + 1, oldest);
        }
    }

    /// A read of a block in order that is not on top fixes it at its depth; `later` blocks in order are above.
    fn fix(&mut self, id: u32, depth: usize, later: u32) {
        let time = self.words[id as usize];
        self.timeline.remove(time);
        self.free.clear(depth);
        let end = self.first_older(time);
        if end > depth + 1 {
            self.slack.add_before(end, -1);
            self.slack.add_before(depth + 1, 1);
        }
        self.words[id as usize] = depth as u32 | FIXED;
        self.fixed[depth] = id;
        self.times.replace(depth, self.timeline.skip() as i32);
        if self.times.first_below(NONE) == Some(depth) {
            self.slack.set(depth, later as i32);
        }
        self.settle();
    }

    /// A write of a block that was written before.
    #[inline]
    fn write(&mut self, id: u32) {
        let word = self.words[id as usize];
        if word & FIXED == 0 {
            self.words[id as usize] = self.timeline.touch(word);
            self.slack.add_before(self.first_older(word), -1);
        } else {
            self.words[id as usize] = self.timeline.touch(NEVER);
            let depth = (word & !FIXED) as usize;
            self.slack.add_before(depth, -1);
            self.free_depth(depth);
        }
        self.settle();
    }

    /// The first write of a block.
    fn write_first(&mut self, seen: Seen) -> Result<(), ReuseError> {
        self.tracker.add(seen, self.words.len() as u32)?;
        self.lengthen();
        self.words.push(self.timeline.touch(NEVER));
        self.slack.add_before(self.free.len(), -1);
        self.settle();
        Ok(())
    }

    /// The depth of the first fixed block that is older than `time`, or the depth of the whole stack; guards above it are
    /// those that are later.
    #[inline(always)]
    fn first_older(&self, time: u32) -> usize {
        self.times.first_below(time as i32).unwrap_or(self.free.len())
    }

    /// Brings the guards without slack into order, from the top on.
    #[inline(always)]
    fn settle(&mut self) {
        while let Some(depth) = self.slack.first_below_after_adding(1) {
            let time = self.times.get(depth) as u32;
            self.timeline.insert(time);
            self.words[self.fixed[depth] as usize] = time;
            self.free_depth(depth);
        }
    }

    /// The block at `depth` is fixed no more.
    fn free_depth(&mut self, depth: usize) {
        self.free.set(depth);
        self.times.replace(depth, NONE);
        if self.slack.is_some(depth) {
            self.slack.set(depth, NONE);
            self.find_guards(depth + 1, self.times.min_before(depth));
        }
    }

    /// Finds the guards from depth `from` on up to the first known one, when the oldest fixed block above is of time
    /// `oldest`.
    fn find_guards(&mut self, mut from: usize, mut oldest: i32) {
        while let Some(depth) = self.times.next_below(from, oldest) {
            if self.slack.is_some(depth) {
                return;
            }
            oldest = self.times.get(depth);
            let later = self.timeline.set_after(oldest as u32);
            self.slack.set(depth, (self.free.count_before(depth) - later) as i32);
            from = depth + 1;
        }
    }

    /// Closes the gaps in time.
    #[cold]
    fn make_room(&mut self) {
        self.times.numbers().for_each(|time| self.timeline.insert(time as u32));
        self.timeline.compact(|remap| {
            let in_order = self.words.iter_mut().filter(|word| **word & FIXED == 0);
            in_order.for_each(|time| *time = remap.new_position(*time));
            self.times.replace_all(|time| remap.new_position(time as u32) as i32);
        });
        self.times.numbers().for_each(|time| self.timeline.remove(time as u32));
    }
}

impl Follow for WbwoStack {
    #[inline(always)]
    fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    #[inline(always)]
    fn tally_mut(&mut self) -> &mut DistanceTally {
        &mut self.tally
    }

    #[inline(always)]
    fn prefetch(&self, word: u32) {
        match self.words.get(word as usize) {
            Some(word) if word & FIXED != 0 => {
                self.times.prefetch((word & !FIXED) as usize);
                self.slack.prefetch((word & !FIXED) as usize);
            }
            Some(&time) => self.timeline.prefetch(time),
            None => {}
        }
    }

    fn follow(&mut self, op: Direction, seen: Seen) -> Result<Option<u32>, ReuseError> {
        if self.timeline.is_full() {
            self.make_room();
        }
        let is_read = op == Direction::Read;
        let mut depth = None;
        match self.tracker.find(seen) {
            Some((_, id)) if is_read => depth = Some(self.read(id)),
            Some((_, id)) => self.write(id),
            None if is_read => {}
            None => self.write_first(seen)?,
        }
        self.tally.accesses += 1;
        self.tally.reads += u64::from(is_read);
        Ok(depth)
    }
}

impl Stack for WbwoStack {
    fn tally(&self) -> &DistanceTally {
        &self.tally
    }

    /// Closes the places of forgotten blocks; what these displaced stays displaced.
    fn retain_blocks(&mut self, keep: &dyn Fn(BlockNo) -> bool) {
        let mut stack = self.top_to_bottom();
        let mut is_kept = vec![true; stack.len()];
        self.tracker.retain(keep, |id| is_kept[id as usize] = false);
        stack.retain(|&id| is_kept[id as usize]);
        let times: Vec<u32> = stack.iter().map(|&id| self.time_of(id)).collect();
        let mut new_ids = vec![0; is_kept.len()];
        stack.iter().zip(0..).for_each(|(&id, depth)| new_ids[id as usize] = depth);
        self.tracker.words_mut().for_each(|id| *id = new_ids[*id as usize]);
        // Made anew, so that memory shrinks with the blocks.
        let (tracker, tally) = (std::mem::take(&mut self.tracker), std::mem::take(&mut self.tally));
        *self = WbwoStack { tracker, tally, ..WbwoStack::default() };
        self.stack_up(&times);
    }

    fn stack_bytes(&self) -> usize {
        let ids = (self.words.capacity() + self.fixed.capacity()) * size_of::<u32>();
        let order = self.timeline.memory_bytes() + self.free.memory_bytes();
        ids + order + self.times.memory_bytes() + self.slack.memory_bytes()
    }
}
