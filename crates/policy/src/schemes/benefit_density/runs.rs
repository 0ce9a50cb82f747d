//! Runs of neighbouring blocks that are accessed one after the other: the disk seeks once for all of them, so that each saves
//! its part of that.
//!
//! It must not know which blocks are cached.

use lode_types::BlockNo;

use super::frames::{Aged, FORMS, by_form};
use crate::parts::ssd_level::Id;

/// Blocks of a run that are told of their part when it ends.
const MOST_BLOCKS: usize = 256;
/// Savings that wait until their run's end is known.
const MOST_SAVINGS: usize = 512;
/// Classes of runs: 1, 2, 4, 8 … 128 blocks at most, and more.
const CLASSES: usize = 9;
/// What is known of a class's cost before anything was seen is as good as so many savings.
const UNSEEN_SAVINGS: f64 = 16.0;
/// What is left of the sums after each estimate.
const KEPT: f64 = 0.98;

/// The class of a run of so many blocks.
pub(super) fn class_of(blocks: u64) -> u8 {
    let class = u64::BITS - (blocks.max(1) - 1).leading_zeros();
    class.min(CLASSES as u32 - 1) as u8
}

/// An access that saves a part of a seek, or would.
#[derive(Clone, Copy, Debug)]
struct Saving {
    /// Where it counts.
    at: u32,
    /// Class of the run in which the block had come before.
    run: u8,
    /// How much of its part it saves.
    weight: f32,
}

/// The run that goes on, and what blocks of each class's runs cost when they came again.
#[derive(Debug)]
pub(super) struct Runs {
    follows: bool,
    seek_us: f64,
    first: BlockNo,
    last: Option<BlockNo>,
    blocks: u64,
    /// Its first blocks' records.
    ids: Vec<Id>,
    savings: Vec<Saving>,
    cost_sums_us: [f64; CLASSES],
    counts: [f64; CLASSES],
    costs_us: [f64; CLASSES],
    /// The same by [`Aged::form`].
    costs_by_form_us: [f64; FORMS],
}

impl Runs {
    /// Without `follows` each access is a run of its own.
    pub(super) fn new(follows: bool, seek_us: f64) -> Runs {
        let mut runs = Runs {
            follows,
            seek_us,
            first: 0,
            last: None,
            blocks: 0,
            ids: Vec::new(),
            savings: Vec::new(),
            cost_sums_us: [0.0; CLASSES],
            counts: [0.0; CLASSES],
            costs_us: [0.0; CLASSES],
            costs_by_form_us: [0.0; FORMS],
        };
        runs.estimate();
        runs
    }

    /// Whether the access belongs to the run: to its last block, or to the one behind it.
    pub(super) fn goes_on(&self, block: BlockNo) -> bool {
        self.follows && self.last.is_some_and(|last| block.wrapping_sub(last) <= 1)
    }

    /// The last block of the run with its record, as it was then, if this is the block behind it.
    #[inline(always)]
    pub(super) fn before(&self, block: BlockNo) -> Option<(Id, BlockNo)> {
        let last = self.last.filter(|last| self.follows && last.wrapping_add(1) == block)?;
        self.ids.get(self.blocks as usize - 1).map(|&id| (id, last))
    }

    /// Begins a run; the one before has ended.
    pub(super) fn begin(&mut self, block: BlockNo) {
        (self.first, self.last, self.blocks) = (block, Some(block), 1);
        self.ids.clear();
    }

    /// The run goes on with this block.
    pub(super) fn go_on(&mut self, block: BlockNo) {
        self.blocks += u64::from(self.last != Some(block));
        self.last = Some(block);
    }

    /// Blocks of the run up to now.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Whether runs are followed.
    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// The last block of the run has this record.
    pub(super) fn note_record(&mut self, id: Id) {
        let at = self.blocks as usize - 1;
        if let Some(known) = self.ids.get_mut(at) {
            *known = id;
        } else if at < MOST_BLOCKS {
            self.ids.push(id);
        }
    }

    /// Of the first blocks of the run each with its record, as it was then.
    pub(super) fn records(&self) -> impl Iterator<Item = (BlockNo, Id)> {
        (self.first..).zip(self.ids.iter().copied())
    }

    /// An access of the run saves a part of the seek, or would: see [`Saving`].
    pub(super) fn note_saving(&mut self, at: usize, run: u8, weight: f32, count: impl FnMut(usize, f64)) {
        self.savings.push(Saving { at: at as u32, run, weight });
        if self.savings.len() == MOST_SAVINGS {
            self.settle(count);
        }
    }

    /// Says for each saving that waits what it comes to, in units of what blocks of its class's runs cost.
    pub(super) fn settle(&mut self, mut count: impl FnMut(usize, f64)) {
        let part_us = self.seek_us / self.blocks.max(1) as f64;
        for Saving { at, run, weight } in self.savings.drain(..) {
            let run = usize::from(run);
            if weight >= 1.0 {
                self.cost_sums_us[run] += part_us;
                self.counts[run] += 1.0;
            }
            count(at as usize, f64::from(weight) * part_us / self.costs_us[run]);
        }
    }

    /// What the disk takes for a block, by the run in which it came last.
    #[inline(always)]
    pub(super) fn cost_us(&self, aged: Aged) -> f64 {
        self.costs_by_form_us[aged.form()]
    }

    /// Estimates costs anew.
    pub(super) fn estimate(&mut self) {
        for run in 0..CLASSES {
            // The mean length of runs of a class that are all equally likely.
            let blocks = (1u64 << run) as f64 * if run < 2 { 1.0 } else { 0.75 };
            let unseen = UNSEEN_SAVINGS * self.seek_us / blocks;
            self.costs_us[run] = (self.cost_sums_us[run] + unseen) / (self.counts[run] + UNSEEN_SAVINGS);
            self.cost_sums_us[run] *= KEPT;
            self.counts[run] *= KEPT;
        }
        self.costs_by_form_us = by_form(|run, _| self.costs_us.get(usize::from(run)).copied().unwrap_or(0.0));
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.ids.capacity() * size_of::<Id>() + self.savings.capacity() * size_of::<Saving>()
    }
}
