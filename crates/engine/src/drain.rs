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

use lode_types::{BlockNo, Counter};

use crate::disk::{MAX_BLOCKS_PER_JOB, MAX_JOBS};

/// Runs of neighbours in a batch: as many as are written back at once.
const MAX_RUNS_PER_BATCH: usize = MAX_JOBS;

/// Blocks that schemes asked for in a batch: scattered as they are, as many as a guest may have to wait behind.
const MAX_ASKED_PER_BATCH: usize = 64;

/// Blocks that schemes asked for and that wait, at most.
const MOST_ASKED: usize = 1 << 16;

/// Bytes of memory that cleanings take at most, of a volume with so many places on the SSD.
pub(crate) fn most_memory_bytes(places: u64) -> u64 {
    // What schemes asked for is kept in a list that doubles, as is what the background has found.
    (places + 3 * places.min(MOST_ASKED as u64)) * size_of::<Target>() as u64
}

/// A block with a dirty copy, and the slot whose copy it is when the block is not in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) block: BlockNo,
    pub(crate) slot: Option<u32>,
}

/// What is to be done for cleanings, while none is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DrainNext {
    /// Nothing now.
    Wait,
    /// These are cleaned, because the scheme `asked` for them or the drain has come to them.
    Clean { targets: Vec<Target>, asked: bool },
    /// Everything was begun once: [`Drain::begin_round`] is to be told what is dirty up to this version.
    TakeStock { version: u64 },
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
    made_progress: bool,
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
    /// Blocks that were written back and stay as clean ones, and cleanings that failed.
    cleaned: u64,
    failures: u64,
}

impl Drain {
    /// A drain of these copies begins, which are all that are dirty up to this version.
    pub(crate) fn begin(&mut self, version: u64, todo: Vec<Target>) {
        self.goal = Some(Goal { version, todo, next: 0, failed: 0, made_progress: false, paused: false });
    }

    /// These are left when everything was begun once: they wait for the next tick. Without any the drain is over.
    pub(crate) fn begin_round(&mut self, version: u64, todo: Vec<Target>) {
        let is_over = todo.is_empty();
        let goal = Goal { version, todo, next: 0, failed: 0, made_progress: false, paused: true };
        self.goal = (!is_over).then_some(goal);
    }

    /// What is next. To be asked again after it was done, until something is under way or there is nothing more.
    pub(crate) fn next(&mut self) -> DrainNext {
        if self.under_way > 0 {
            return DrainNext::Wait;
        }
        match &mut self.goal {
            None if self.asked.is_empty() => DrainNext::Wait,
            None => {
                let count = self.asked.len().min(MAX_ASKED_PER_BATCH);
                DrainNext::Clean { targets: self.asked.drain(..count).collect(), asked: true }
            }
            Some(goal) if goal.next == goal.todo.len() => DrainNext::TakeStock { version: goal.version },
            Some(goal) if goal.paused => DrainNext::Wait,
            Some(goal) => DrainNext::Clean { targets: goal.next_batch(), asked: false },
        }
    }

    /// The scheme wants the block in this slot cleaned. Where as much waits already as is kept, because the
    /// backing disk is slower than guests overwrite what was cleaned, the block stays dirty until it leaves.
    pub(crate) fn ask(&mut self, block: BlockNo, slot: u32, level_blocks: u32) {
        if self.asked.len() < MOST_ASKED.min(level_blocks as usize) {
            self.asked.push_back(Target { block, slot: Some(slot) });
        }
    }

    /// Slots mean other blocks now, and to another scheme what was asked for is dirty still. The version up to which a drain,
    /// if there is one, is to be told what is dirty.
    pub(crate) fn forget_slots(&mut self) -> Option<u64> {
        self.asked.clear();
        self.goal.as_ref().map(|goal| goal.version)
    }

    /// All that is left for the drain to do.
    pub(crate) fn go_on_with(&mut self, todo: Vec<Target>) {
        if let Some(goal) = &mut self.goal {
            (goal.todo, goal.next) = (todo, 0);
        }
    }

    /// A dirty copy has another place, and with it a later version. It may be one that the drain is to clean.
    pub(crate) fn moved(&mut self, version: u64) {
        if let Some(goal) = &mut self.goal {
            goal.version = goal.version.max(version);
        }
    }

    /// A dirty block is on the backing disk durably, and `stays` on the SSD.
    pub(crate) fn written_back(&mut self, stays: bool) {
        self.cleaned += u64::from(stays);
    }

    /// Blocks that were written back and stay on the SSD.
    pub(crate) fn cleaned(&self) -> u64 {
        self.cleaned
    }

    /// Cleanings that failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }

    /// A cleaning is queued.
    pub(crate) fn began(&mut self) {
        self.under_way += 1;
    }

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

    /// A cleaning has left its block's queue.
    pub(crate) fn ended(&mut self, failed: bool) {
        self.under_way.count_down();
        self.failures += u64::from(failed);
        if let Some(goal) = &mut self.goal {
            goal.failed += u32::from(failed);
            goal.made_progress |= !failed;
            goal.paused |= self.under_way == 0 && !goal.made_progress;
        }
    }
}

impl Goal {
    fn next_batch(&mut self) -> Vec<Target> {
        self.made_progress = false;
        let rest = &self.todo[self.next..];
        let batch = rest[..batch_len(rest, MAX_RUNS_PER_BATCH)].to_vec();
        self.next += batch.len();
        batch
    }
}

/// How many of these, which are in ascending order, make a batch of so many runs of neighbours.
pub(crate) fn batch_len(targets: &[Target], most_runs: usize) -> usize {
    let (mut runs, mut in_run, mut last) = (0, 0, None);
    for (at, target) in targets.iter().enumerate() {
        if last.is_none_or(|last| last + 1 != target.block) || in_run == MAX_BLOCKS_PER_JOB {
            (runs, in_run) = (runs + 1, 0);
        }
        if runs > most_runs {
            return at;
        }
        in_run += 1;
        last = Some(target.block);
    }
    targets.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(blocks: impl IntoIterator<Item = BlockNo>) -> Goal {
        let todo = blocks.into_iter().map(|block| Target { block, slot: None }).collect();
        Goal { version: 0, todo, next: 0, failed: 0, made_progress: false, paused: false }
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

    /// A block whose cleaning fails is found again although its copy has moved, and has a later version.
    #[test]
    fn a_copy_that_moves_stays_what_the_drain_is_about() {
        let mut drain = Drain::default();
        drain.begin(5, Vec::new());
        assert_eq!(drain.next(), DrainNext::TakeStock { version: 5 });
        drain.moved(9);
        assert_eq!(drain.next(), DrainNext::TakeStock { version: 9 });
        drain.moved(3);
        assert_eq!(drain.next(), DrainNext::TakeStock { version: 9 });
    }

    #[test]
    fn a_batch_that_fails_as_a_whole_pauses_the_drain() {
        let mut drain = Drain { goal: Some(goal(0..4)), ..Drain::default() };
        for (failures, paused) in [([true, true], true), ([true, false], false), ([false, true], false)] {
            drain.resume();
            drain.goal.as_mut().unwrap().made_progress = false;
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
