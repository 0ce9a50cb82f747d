//! What leaves DRAM and the SSD, and whether what leaves DRAM is written to the SSD.
//!
//! It must not know why room is needed.

use std::cmp::Reverse;

use lode_types::{BlockNo, Level};

use super::blocks::Record;
use super::{BenefitDensity, WORTH_RATE};
use crate::effect::{CopyReason, CopySource, Effect, Sink};
use crate::parts::ssd_level::Id;
use crate::quota::Quota;

/// Neighbours that leave together were accessed within so many accesses of each other's turn.
const TOGETHER: u32 = 64;
/// Most blocks that leave together.
const MOST_TOGETHER: usize = 256;
/// Blocks that are looked at together when one is to leave.
const SAMPLED_TOGETHER: usize = 32;

/// Neighbours that leave a level one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    next: BlockNo,
    /// When that block was accessed last, about.
    last: u32,
    /// They are written to the SSD, if they are not there.
    is_copied: bool,
}

impl BenefitDensity {
    /// Of some blocks of a level, `except` not among them, the one that is worth least; of equals the one that was accessed
    /// longest ago.
    pub(super) fn least_worth(&mut self, level: Level, except: Option<Id>) -> Option<Id> {
        let mut left = if self.blocks.cached(level) > 0 { self.samples } else { 0 };
        // Of equals, the one that was accessed most recently is worth most.
        let mut least: Option<(f64, Reverse<u64>, Id)> = None;
        while left > 0 {
            let mut sample = [0; SAMPLED_TOGETHER];
            let sample = &mut sample[..left.min(SAMPLED_TOGETHER as u64) as usize];
            left -= sample.len() as u64;
            self.sample(level, sample);
            for &mut id in sample {
                let candidate = (self.worth_in(level, id), Reverse(self.since(self.blocks.get(id))), id);
                if Some(id) != except
                    && least.is_none_or(|least| (candidate.0, candidate.1) < (least.0, least.1))
                {
                    least = Some(candidate);
                }
            }
        }
        least.map(|(.., id)| id)
    }

    /// Draws blocks of a level at random, with replacement. They lie anywhere in memory, so that all are prefetched before any is
    /// looked at.
    fn sample(&mut self, level: Level, ids: &mut [Id]) {
        let cached = u64::from(self.blocks.cached(level));
        for at in &mut *ids {
            *at = self.rng.below(cached) as u32;
            self.blocks.prefetch_nth(level, *at);
        }
        for id in ids {
            *id = self.blocks.nth(level, *id);
            self.blocks.prefetch_worth(*id);
        }
    }

    /// The block, if it is in the level and was accessed when its neighbour's turn would have been.
    fn neighbour(&self, level: Level, block: BlockNo, last: u32, except: Option<Id>) -> Option<Id> {
        let id = self.blocks.find_block(block)?;
        let record = self.blocks.get(id);
        let apart = record.last.wrapping_sub(last) as i32;
        let is_together = record.is_in(level) && apart.unsigned_abs() <= TOGETHER;
        (is_together && Some(id) != except).then_some(id)
    }

    /// The next block to leave a level: the one behind the last one if both were accessed together, so that what the disk reads
    /// with one seek is cached as a whole or not at all; or else the first block of what was accessed together with a block that
    /// is worth little.
    pub(super) fn next_to_leave(&mut self, level: Level, except: Option<Id>) -> Option<(Id, bool)> {
        let at = level.index();
        if let Some(leaving) = self.leaving[at] {
            if let Some(id) = self.neighbour(level, leaving.next, leaving.last, except) {
                let last = self.blocks.get(id).last.wrapping_add(1);
                self.leaving[at] = Some(Leaving { next: leaving.next.wrapping_add(1), last, ..leaving });
                return Some((id, leaving.is_copied));
            }
            self.leaving[at] = None;
        }
        let mut first = self.least_worth(level, except)?;
        if !self.runs.follows() {
            let surplus_us = self.surplus_us(self.blocks.get(first));
            let is_copied = level == Level::Dram && self.is_worth_a_write(surplus_us, 1);
            return Some((first, is_copied));
        }
        for _ in 0..MOST_TOGETHER {
            let Record { block, last, .. } = *self.blocks.get(first);
            let before = block
                .checked_sub(1)
                .and_then(|block| self.neighbour(level, block, last.wrapping_sub(1), except));
            let Some(before) = before else { break };
            first = before;
        }
        let Record { block, last, .. } = *self.blocks.get(first);
        let is_copied = level == Level::Dram && self.is_worth_copying(first);
        self.leaving[at] =
            Some(Leaving { next: block.wrapping_add(1), last: last.wrapping_add(1), is_copied });
        Some((first, is_copied))
    }

    /// Whether the blocks that leave DRAM with this one save enough on the SSD to be written there, on average.
    fn is_worth_copying(&mut self, first: Id) -> bool {
        let (mut surplus_us, mut blocks, mut next) = (0.0, 0u32, Some(first));
        for _ in 0..MOST_TOGETHER {
            let Some(id) = next else { break };
            let record = self.blocks.get(id);
            if !record.is_in(Level::Ssd) {
                surplus_us += self.surplus_us(record);
                blocks += 1;
            }
            next =
                self.neighbour(Level::Dram, record.block.wrapping_add(1), record.last.wrapping_add(1), None);
        }
        self.is_worth_a_write(surplus_us, blocks)
    }

    /// Makes room for a block on the SSD, if `except` need not leave for it.
    pub(super) fn make_room_on_ssd<S: Sink>(&mut self, except: Option<Id>, sink: &mut S) -> bool {
        if self.blocks.cached(Level::Ssd) < self.blocks.capacity(Level::Ssd) {
            return true;
        }
        let Some((id, _)) = self.next_to_leave(Level::Ssd, except) else { return false };
        self.victim_worth += (self.worth(self.blocks.get(id)) - self.victim_worth) * WORTH_RATE;
        self.evict(id, Level::Ssd, sink);
        true
    }

    /// A block leaves a level.
    pub(super) fn evict<S: Sink>(&mut self, id: Id, level: Level, sink: &mut S) {
        let record = self.blocks.get_mut(id);
        let (block, is_ssd) = (record.block, level == Level::Ssd);
        let dirty = is_ssd && std::mem::take(&mut record.dirty);
        let slot = self.blocks.take(id, level);
        sink.effect(Effect::Evict { level, slot, block, dirty });
        self.settle(id);
    }

    /// A block that may have left its last level is a ghost then.
    pub(super) fn settle(&mut self, id: Id) {
        if self.blocks.get(id).is_nowhere() {
            self.blocks.become_ghost(id);
            self.bound_ghosts();
        }
    }

    pub(super) fn bound_ghosts(&mut self) {
        let Quota { dram_blocks, ssd_blocks, .. } = self.blocks.quota();
        let most = (u64::from(dram_blocks) + u64::from(ssd_blocks)) * self.ghost_percent / 100;
        while u64::from(self.blocks.ghosts()) > most {
            let Some(oldest) = self.blocks.oldest_ghost() else { break };
            self.forget_ghost(oldest);
        }
    }

    fn forget_ghost(&mut self, id: Id) {
        let record = self.blocks.get(id);
        self.ages.note_forgotten(record.class, self.since(record));
        self.blocks.leave_ghosts(id);
        self.blocks.forget(id);
    }

    /// A block leaves DRAM, and is copied to the SSD before if it is worth that and not there; `except` does not leave for it.
    pub(super) fn demote<S: Sink>(&mut self, id: Id, is_copied: bool, except: Option<Id>, sink: &mut S) {
        let record = self.blocks.get(id);
        let block = record.block;
        let has_place = self.blocks.capacity(Level::Ssd) > 0 && !record.is_in(Level::Ssd);
        if is_copied
            && has_place
            && self.price.pay()
            && self.make_room_on_ssd(except, sink)
            && let Some(slot) = self.blocks.slot(id, Level::Dram)
        {
            let from = CopySource::Level { level: Level::Dram, slot };
            let slot = self.blocks.put(id, Level::Ssd);
            sink.effect(Effect::Copy { to: Level::Ssd, slot, block, from, reason: CopyReason::Move });
        }
        self.evict(id, Level::Dram, sink);
    }
}
