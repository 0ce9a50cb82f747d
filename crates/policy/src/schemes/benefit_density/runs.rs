//! Runs of neighbouring blocks that are accessed one after the other, and what of them the disk would have to seek for if nothing were
//! cached: blocks that it is asked for one behind the other share a seek, and a request waits for all of its seeks at once. A block that
//! is written as a whole the disk is not asked for, so that the two ends of a long write may take a seek each.
//!
//! It must not know which blocks are cached.

use lode_types::BlockNo;

use super::frames::{Aged, FORMS, by_form};
use crate::parts::ssd_level::Id;

/// Blocks of a run that are told of their part when it ends.
const MOST_BLOCKS: usize = 256;
/// Savings that wait until the end of their run or seek is known, and seeks that do.
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
    /// Which of the seeks.
    seek: u32,
}

/// A seek of the disk, if nothing were cached.
#[derive(Clone, Copy, Debug)]
struct Seek {
    /// Blocks that the disk is asked for one behind the other.
    blocks: u32,
    /// Seeks of the request in which it began, which waits for all of them at once.
    of_request: u32,
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
    /// Write-backs that the run makes needless: where each counts, and the class of the run in which the block had come before.
    write_backs: Vec<(u32, u8)>,
    write_back_weight: f64,
    /// The one that may go on, and those of the request under way, which are the last `begun`.
    seeks: Vec<Seek>,
    begun: usize,
    /// The block behind the last one that the disk would be asked for.
    disk_next: Option<BlockNo>,
    savings: Vec<Saving>,
    cost_sums_us: [f64; CLASSES],
    counts: [f64; CLASSES],
    costs_us: [f64; CLASSES],
    /// The same by [`Aged::form`].
    costs_by_form_us: [f64; FORMS],
}

impl Runs {
    /// Without `follows` each access is a run of its own.
    pub(super) fn new(follows: bool, seek_us: f64, write_back_weight: f64) -> Runs {
        let mut runs = Runs {
            follows,
            seek_us,
            first: 0,
            last: None,
            blocks: 0,
            ids: Vec::new(),
            write_backs: Vec::new(),
            write_back_weight,
            seeks: Vec::new(),
            begun: 0,
            disk_next: None,
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

    /// The disk is asked for a block, if it is not cached: to read it, or for the rest of it beside what is written. What it was asked for
    /// just before is cached, so that to read it once more costs no seek; to write it in part may, where the write before passed the cache.
    #[inline]
    pub(super) fn note_command(&mut self, block: BlockNo, is_read: bool, count: impl FnMut(usize, f64)) {
        let is_there = is_read && self.disk_next.is_some() && self.disk_next == block.checked_add(1);
        if self.follows && is_there {
            return;
        }
        let goes_on = self.follows && self.disk_next == Some(block);
        self.disk_next = block.checked_add(1);
        if let Some(seek) = self.seeks.last_mut().filter(|_| goes_on) {
            seek.blocks += 1;
            return;
        }
        if self.seeks.len() == MOST_SAVINGS {
            self.settle_seeks(true, count);
        }
        self.seeks.push(Seek { blocks: 1, of_request: 1 });
        self.begun += 1;
    }

    /// The block that the disk is asked for saves its part of the seek, or would.
    pub(super) fn note_saving(&mut self, at: usize, run: u8, count: impl FnMut(usize, f64)) {
        let seek = self.seeks.len().saturating_sub(1) as u32;
        self.savings.push(Saving { at: at as u32, run, seek });
        if self.savings.len() == MOST_SAVINGS {
            self.settle_seeks(true, count);
        }
    }

    /// The request is over: how many seeks it takes is known.
    #[inline]
    pub(super) fn end_request(&mut self, count: impl FnMut(usize, f64)) {
        if self.begun > 0 {
            self.settle_seeks(false, count);
            self.begun = 0;
        }
    }

    /// Says for each saving that waits what it comes to, in units of what blocks of its class's runs cost; of the last seek, which may go
    /// on, only where no more can wait.
    fn settle_seeks(&mut self, with_last: bool, mut count: impl FnMut(usize, f64)) {
        let of_request = if self.follows { self.begun } else { 1 };
        self.seeks.iter_mut().rev().take(self.begun).for_each(|seek| seek.of_request = of_request as u32);
        let last = self.seeks.len().saturating_sub(1);
        let is_known = |saving: &Saving| with_last || (saving.seek as usize) < last;
        let known = self.savings.iter().rposition(is_known).map_or(0, |at| at + 1);
        for Saving { at, run, seek } in self.savings.drain(..known) {
            let Seek { blocks, of_request } = self.seeks[seek as usize];
            let (part_us, run) =
                (self.seek_us / (f64::from(blocks) * f64::from(of_request)), usize::from(run));
            self.cost_sums_us[run] += part_us;
            self.counts[run] += 1.0;
            count(at as usize, part_us / self.costs_us[run]);
        }
        self.savings.iter_mut().for_each(|saving| saving.seek = 0);
        self.seeks.drain(..last);
    }

    /// A write makes the write-back of the block needless.
    pub(super) fn note_write_back(&mut self, at: usize, run: u8, count: impl FnMut(usize, f64)) {
        self.write_backs.push((at as u32, run));
        if self.write_backs.len() == MOST_SAVINGS {
            self.settle(count);
        }
    }

    /// Says for each write-back that waits what it comes to: the run would be written back with one seek.
    pub(super) fn settle(&mut self, mut count: impl FnMut(usize, f64)) {
        let part_us = self.write_back_weight * self.seek_us / self.blocks.max(1) as f64;
        for (at, run) in self.write_backs.drain(..) {
            count(at as usize, part_us / self.costs_us[usize::from(run)]);
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
        self.ids.capacity() * size_of::<Id>()
            + self.write_backs.capacity() * size_of::<(u32, u8)>()
            + self.seeks.capacity() * size_of::<Seek>()
            + self.savings.capacity() * size_of::<Saving>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEK_US: f64 = 8000.0;

    /// What is counted for writes in part of these requests' blocks, in microseconds, once the seeks are known.
    fn counted(requests: &[&[BlockNo]]) -> Vec<f64> {
        let mut runs = Runs::new(true, SEEK_US, 0.1);
        let cost_us = runs.costs_us[0];
        let mut counted = Vec::new();
        for &request in requests.iter().chain(&[&[u64::MAX / 2][..]]) {
            for &block in request {
                runs.note_command(block, false, |_, us| counted.push(us * cost_us));
                runs.note_saving(0, 0, |_, us| counted.push(us * cost_us));
            }
            runs.end_request(|_, us| counted.push(us * cost_us));
        }
        counted
    }

    #[test]
    fn blocks_one_behind_the_other_share_a_seek_and_a_request_its_seeks() {
        assert_eq!(counted(&[&[7], &[3]]), [8000.0; 2]);
        // One behind the other, in one request or in several.
        assert_eq!(counted(&[&[4, 5, 6, 7]]), [2000.0; 4]);
        assert_eq!(counted(&[&[4, 5], &[6, 7]]), [2000.0; 4]);
        // The two ends of a long write; and a block that the head has just passed.
        assert_eq!(counted(&[&[4, 12]]), [4000.0; 2]);
        assert_eq!(counted(&[&[4], &[4]]), [8000.0; 2]);
        assert_eq!(counted(&[&[4, 12], &[13]]), [4000.0, 2000.0, 2000.0]);
    }

    #[test]
    fn what_was_just_read_is_read_again_without_a_seek() {
        let mut runs = Runs::new(true, SEEK_US, 0.1);
        for block in [4, 5, 5, 6] {
            runs.note_command(block, true, |_, _| {});
            runs.end_request(|_, _| {});
        }
        assert_eq!(runs.seeks.iter().map(|seek| seek.blocks).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let long: Vec<BlockNo> = (0..2000).map(|block| block * 2).collect();
        let one_run: Vec<BlockNo> = (0..2000).collect();
        for request in [long, one_run] {
            let mut runs = Runs::new(true, SEEK_US, 0.1);
            let mut count = 0;
            for &block in &request {
                runs.note_command(block, false, |_, _| count += 1);
                runs.note_saving(0, 0, |_, _| count += 1);
                assert!(runs.seeks.len() <= MOST_SAVINGS && runs.savings.len() <= MOST_SAVINGS);
            }
            assert!(count + runs.savings.len() == request.len());
        }
    }
}
