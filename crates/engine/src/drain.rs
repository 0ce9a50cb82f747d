//! Cleaning: what is newer than the backing disk is written back and stays in the SSD as a clean copy. A scheme asks for it
//! block by block; a drain asks for all that is dirty now.
//!
//! A drain takes stock of the dirty copies that are there when it begins and cleans them in ascending order, one
//! batch after the other. A batch is a few runs of neighbours: as much as a guest may have to wait behind. After the
//! last batch it takes stock again, and is over when none of those copies is left. A batch that failed as a whole,
//! and what is left at the end, wait for the next tick, so that a backing disk that takes nothing is asked once in a
//! while and not all the time.
//!
//! What schemes asked for is cleaned in the order in which they did, as long as no drain is under way, which does it anyway.
//! To them a block is clean from the moment they ask. If its write-back fails it stays dirty, and whoever evicts it later
//! finds that out: what is dirty is decided here and not by the scheme.
//!
//! The scheme's view runs ahead of a block's queue: it is told that a block is clean only where no write queues
//! behind the cleaning.

use std::collections::VecDeque;

use lode_policy::Scheme;
use lode_types::{BlockNo, Level};

use crate::blocks::{Op, Place};
use crate::destage::{MAX_BLOCKS_PER_JOB, MAX_JOBS};
use crate::engine::Engine;

/// Runs of neighbours in a batch: as many as are written back at once.
const MAX_RUNS_PER_BATCH: usize = MAX_JOBS;

/// Blocks that schemes asked for in a batch: scattered as they are, as many as a guest may have to wait behind.
const MAX_ASKED_PER_BATCH: usize = 64;

/// A block with a dirty copy, and the slot whose copy it is when the block is not in flight.
#[derive(Clone, Copy, Debug)]
struct Target {
    block: BlockNo,
    slot: Option<u32>,
}

/// What a drain still has to do.
#[derive(Debug)]
struct Goal {
    /// Copies with a later version came after the drain began and are not its business.
    version: u64,
    /// Ascending; those before `next` were begun.
    todo: Vec<Target>,
    next: usize,
    /// Of those begun since stock was taken, the ones that could not be written back.
    failed: u32,
    /// Some of the batch under way came to a good end.
    gets_on: bool,
    /// Nothing is begun until the next tick.
    paused: bool,
}

/// The drain, if there is one, and what schemes asked for.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    goal: Option<Goal>,
    /// What schemes asked for and is not begun.
    asked: VecDeque<Target>,
    /// Cleanings under way, those of a drain that was stopped and those that schemes asked for included.
    under_way: usize,
    pub(crate) cleaned: u64,
    pub(crate) failures: u64,
}

impl Drain {
    pub(crate) fn left(&self) -> Option<u32> {
        let goal = self.goal.as_ref()?;
        Some((goal.todo.len() - goal.next + self.under_way) as u32 + goal.failed)
    }

    /// Whether more is to come when what is under way has ended.
    pub(crate) fn goes_on(&self) -> bool {
        self.goal.is_some() || !self.asked.is_empty()
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    pub(crate) fn stop(&mut self) {
        self.goal = None;
    }

    pub(crate) fn resume(&mut self) {
        if let Some(goal) = &mut self.goal {
            goal.paused = false;
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let todo = self.goal.as_ref().map_or(0, |goal| goal.todo.capacity());
        (todo + self.asked.capacity()) * size_of::<Target>()
    }

    fn ended(&mut self, failed: bool) {
        self.under_way -= 1;
        self.failures += u64::from(failed);
        if let Some(goal) = &mut self.goal {
            goal.failed += u32::from(failed);
            goal.gets_on |= !failed;
            goal.paused |= self.under_way == 0 && !goal.gets_on;
        }
    }
}

impl Goal {
    fn next_batch(&mut self) -> Vec<Target> {
        self.gets_on = false;
        let mut batch: Vec<Target> = Vec::new();
        let (mut runs, mut in_run) = (0, 0);
        while let Some(&target) = self.todo.get(self.next) {
            let joins = batch.last().is_some_and(|last| last.block + 1 == target.block);
            if !joins || in_run == MAX_BLOCKS_PER_JOB {
                (runs, in_run) = (runs + 1, 0);
            }
            if runs > MAX_RUNS_PER_BATCH {
                break;
            }
            in_run += 1;
            batch.push(target);
            self.next += 1;
        }
        batch
    }
}

impl Engine {
    /// Begins to write back all that is newer than the backing disk now, the copies staying in the SSD. Guests go on
    /// meanwhile; what they make dirty from here on is left out. Begins anew when a drain is under way. Takes a look
    /// at every block of the SSD at once.
    pub fn drain(&mut self) {
        self.drain_up_to(self.ssd.as_ref().map_or(0, |ssd| ssd.store.places().version()));
    }

    /// As [`Engine::drain`], of the copies up to this version.
    pub(crate) fn drain_up_to(&mut self, version: u64) {
        let todo = self.take_stock(version);
        self.drain.goal = Some(Goal { version, todo, next: 0, failed: 0, gets_on: false, paused: false });
        self.run();
    }

    /// Blocks that the drain still has to write back; `None`: there is no drain, or it is over. A damaged block has
    /// nothing to write back and does not count: see [`crate::Gauges::lost_blocks`].
    pub fn drain_left(&self) -> Option<u32> {
        self.drain.left()
    }

    /// Gives the drain up. What it has under way comes to its end.
    pub fn stop_drain(&mut self) {
        self.drain.stop();
    }

    /// Dirty copies up to this version, in ascending order of their blocks.
    fn take_stock(&self, version: u64) -> Vec<Target> {
        let Some(ssd) = &self.ssd else { return Vec::new() };
        let is_due =
            |place| ssd.store.places().is_dirty(place) && ssd.store.places().entry(place).version <= version;
        let settled = ssd.shelf.iter().filter(|&(_, place)| is_due(place));
        let settled = settled.map(|(slot, place)| (ssd.store.places().entry(place).block, Some(slot)));
        let elsewhere = self.blocks.readable_copies().filter(|&(_, place)| is_due(place));
        let elsewhere = elsewhere.map(|(block, _)| (block, None));
        let mut stock: Vec<Target> =
            settled.chain(elsewhere).map(|(block, slot)| Target { block, slot }).collect();
        stock.sort_unstable_by_key(|target| target.block);
        stock
    }

    /// Begins the next batch when the last one is over.
    pub(crate) fn drive_drain(&mut self) {
        while self.drain.under_way == 0 && self.writes_back() {
            let Some(goal) = &mut self.drain.goal else { return self.begin_asked() };
            if goal.next == goal.todo.len() {
                self.end_round();
            } else if goal.paused {
                return;
            } else {
                goal.next_batch().into_iter().for_each(|target| self.start_cleaning(target, false));
            }
        }
    }

    /// The scheme wants the block in this slot cleaned. Where as much waits already as the level can hold, because the backing
    /// disk is slower than guests overwrite what was cleaned, the block stays dirty until it leaves.
    pub(crate) fn ask_to_clean(&mut self, block: BlockNo, slot: u32) {
        let has_room = self.drain.asked.len() < self.config.quota.ssd_blocks as usize;
        if has_room && self.health.is_well() {
            self.drain.asked.push_back(Target { block, slot: Some(slot) });
        }
    }

    /// Begins the next batch of what schemes asked for, if there is any. Blocks that have left since, or were written back
    /// by a drain, end at once.
    fn begin_asked(&mut self) {
        while self.drain.under_way == 0 && !self.drain.asked.is_empty() {
            let count = self.drain.asked.len().min(MAX_ASKED_PER_BATCH);
            let batch: Vec<Target> = self.drain.asked.drain(..count).collect();
            batch.into_iter().for_each(|target| self.start_cleaning(target, true));
        }
    }

    /// Everything was begun once: what is left waits for the next tick.
    fn end_round(&mut self) {
        let Some(Goal { version, .. }) = self.drain.goal else { return };
        let todo = self.take_stock(version);
        let is_over = todo.is_empty();
        let goal = Goal { version, todo, next: 0, failed: 0, gets_on: false, paused: true };
        self.drain.goal = (!is_over).then_some(goal);
    }

    fn start_cleaning(&mut self, Target { block, slot }: Target, asked: bool) {
        let Some(ssd) = &self.ssd else { return };
        match slot.filter(|&slot| ssd.block_in(slot) == Some(block)) {
            Some(slot) => self.claim(block, Level::Ssd, slot),
            None if self.blocks.is_known(block) => {}
            // The slot has another block by now; this one was written back then.
            None => return,
        }
        self.drain.under_way += 1;
        self.push_op(block, Op::Clean { asked });
    }

    /// The cleaning's turn on its block has come, or what it waited for is durable.
    pub(crate) fn start_clean(&mut self, block: BlockNo) {
        match self.dirty_copy(block) {
            Some(place) => self.write_back(block, place),
            None => self.op_done(block),
        }
    }

    /// A cleaning has left its block's queue. A scheme that asked for it knows; were it told again, what it knows of a write
    /// that came in between would depend on how fast the devices are.
    pub(crate) fn clean_done(&mut self, block: BlockNo, asked: bool) {
        let flight = self.blocks.get(block).expect("the block is in flight");
        let will_be_written = flight.queue.iter().any(|op| matches!(op, Op::Access(op) if op.is_write));
        let stays = flight.slot(Level::Ssd).is_some() && flight.copy.whole().is_some();
        let failed = self.dirty_copy(block).is_some();
        self.drain.ended(failed);
        if stays && !failed && !will_be_written && !asked {
            self.scheme.cleaned(block);
        }
    }

    /// The place of the block's copy if it is dirty and its bytes can be read.
    pub(crate) fn dirty_copy(&self, block: BlockNo) -> Option<Place> {
        let flight = self.blocks.get(block)?;
        let place = flight.copy.readable(flight.has_spare())?;
        self.ssd.as_ref()?.store.places().is_dirty(place).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(blocks: impl IntoIterator<Item = BlockNo>) -> Goal {
        let todo = blocks.into_iter().map(|block| Target { block, slot: None }).collect();
        Goal { version: 0, todo, next: 0, failed: 0, gets_on: false, paused: false }
    }

    fn batches(mut goal: Goal) -> Vec<Vec<BlockNo>> {
        let next = || {
            let batch: Vec<BlockNo> = goal.next_batch().iter().map(|target| target.block).collect();
            (!batch.is_empty()).then_some(batch)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_batch_is_a_few_runs() {
        let scattered = batches(goal((0..20).map(|block| block * 2)));
        assert_eq!(scattered.iter().map(Vec::len).collect::<Vec<_>>(), [8, 8, 4]);
        let neighbours = batches(goal(0..1000));
        assert_eq!(neighbours.iter().map(Vec::len).collect::<Vec<_>>(), [512, 488]);
        let mixed = batches(goal((0..64).chain(100..170).chain((200..216).step_by(2))));
        assert_eq!(mixed.iter().map(Vec::len).collect::<Vec<_>>(), [64 + 70 + 5, 3]);
        assert_eq!(batches(goal(0..1000)).concat(), (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn a_batch_that_fails_as_a_whole_pauses_the_drain() {
        let mut drain = Drain { goal: Some(goal(0..4)), ..Drain::default() };
        for (failures, paused) in [([true, true], true), ([true, false], false), ([false, true], false)] {
            drain.resume();
            drain.goal.as_mut().unwrap().gets_on = false;
            drain.under_way = failures.len();
            failures.into_iter().for_each(|failed| drain.ended(failed));
            assert_eq!(drain.goal.as_ref().unwrap().paused, paused, "{failures:?}");
        }
        assert_eq!((drain.left(), drain.failures), (Some(4 + 4), 4));
        // What was under way when the drain was given up comes to its end without it.
        drain.under_way = 1;
        drain.stop();
        drain.ended(true);
        assert_eq!((drain.left(), drain.under_way), (None, 0));
    }
}
