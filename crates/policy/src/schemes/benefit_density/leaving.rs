//! What leaves DRAM and the SSD, and whether what leaves DRAM is written to the SSD.
//!
//! It must not know why room is needed.

use lode_types::{BlockNo, Level};

use super::frames::{Aged, Frame};
use super::{BenefitDensity, Order, WORTH_RATE};
use crate::effect::{CopyReason, CopySource, Effect, Sink};
use crate::parts::ssd_level::Id;
use crate::quota::Quota;

/// Neighbours that leave together were accessed within so many accesses of each other's turn.
const TOGETHER: u32 = 64;
/// Then they were accessed within so many accesses.
pub(super) const COMPANY: u32 = TOGETHER + 1;
/// Most blocks that leave together.
const MOST_TOGETHER: usize = 256;
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
    /// The block, if it is in the level and was accessed when its neighbour's turn would have been.
    fn neighbour(&self, level: Level, block: BlockNo, last: u32, except: Option<Id>) -> Option<Id> {
        let id = self.blocks.find_block(block)?;
        let record = self.blocks.get(id);
        let apart = record.aged().last.wrapping_sub(last) as i32;
        let is_together = record.is_in(level) && apart.unsigned_abs() <= TOGETHER;
        (is_together && Some(id) != except).then_some(id)
    }

    /// Notes that a block is accessed: whether it and a neighbour are accessed at about the same turn, which the neighbour is told,
    /// too. `before` is the record of the block before it, if that was accessed just before.
    #[inline(always)]
    pub(super) fn note_company(&mut self, block: BlockNo, before: Option<Id>) -> bool {
        let Some(turns) = &mut self.turns else { return false };
        let clock = self.clock as u32;
        turns.note(block, clock);
        let next = block.wrapping_add(1);
        let may_be_next = turns.may_be_within(next, clock, COMPANY);
        let is_after = match before {
            Some(id) => self.tell(id),
            None => {
                let previous = block.wrapping_sub(1);
                turns.may_be_within(previous, clock, COMPANY) && self.join(previous)
            }
        };
        may_be_next && self.join(next) || is_after
    }

    /// Tells a block that a neighbour is accessed now, if it was accessed at about the same turn.
    #[inline(never)]
    fn join(&mut self, block: BlockNo) -> bool {
        self.blocks.find_block(block).is_some_and(|id| self.tell(id))
    }

    #[inline(always)]
    fn tell(&mut self, id: Id) -> bool {
        let aged = self.blocks.get(id).aged();
        let has_company = self.since(aged) <= COMPANY;
        if has_company && !aged.has_company() {
            self.blocks.set_aged(id, aged.with_company(true));
        }
        has_company
    }

    /// Whether no neighbour of a block leaves with it, now or after it.
    #[inline(always)]
    fn is_alone(&self, aged: Aged) -> bool {
        let since = self.since(aged);
        // Later a neighbour may be accessed that still is near enough.
        !aged.has_company() && since > COMPANY && self.clock - u64::from(since) >= self.all_noted_from
    }

    /// The next block to leave a level: the one behind the last one if both were accessed together, so that what the disk reads
    /// with one seek is cached as a whole or not at all; or else the first block of what was accessed together with a block that
    /// is worth little. By recency it is always the one that was accessed longest ago.
    pub(super) fn next_to_leave(&mut self, level: Level, except: Option<Id>) -> Option<(Id, bool)> {
        if self.order == Order::Recency {
            return self.oldest(level, except).map(|frame| (frame.id, level == Level::Dram));
        }
        let at = level.index();
        if let Some(leaving) = self.leaving[at] {
            if let Some(id) = self.neighbour(level, leaving.next, leaving.last, except) {
                let last = self.blocks.get(id).aged().last.wrapping_add(1);
                self.leaving[at] = Some(Leaving { next: leaving.next.wrapping_add(1), last, ..leaving });
                return Some((id, leaving.is_copied));
            }
            self.leaving[at] = None;
        }
        let Frame { id: mut first, aged, .. } = self.least_worth(level, except, f64::INFINITY)?;
        if !self.runs.follows() {
            let is_copied = level == Level::Dram && self.is_worth_a_write(self.surplus_us(aged), 1);
            return Some((first, is_copied));
        }
        if self.is_alone(aged) {
            let is_copied =
                level == Level::Dram && !aged.is_double() && self.is_worth_a_write(self.surplus_us(aged), 1);
            return Some((first, is_copied));
        }
        self.blocks.prefetch_neighbours(first);
        for _ in 0..MOST_TOGETHER {
            let (block, last) = self.turn_of(first);
            let before = block
                .checked_sub(1)
                .and_then(|block| self.neighbour(level, block, last.wrapping_sub(1), except));
            let Some(before) = before else { break };
            first = before;
        }
        let (block, last) = self.turn_of(first);
        let is_copied = level == Level::Dram && self.is_worth_copying(first);
        self.leaving[at] =
            Some(Leaving { next: block.wrapping_add(1), last: last.wrapping_add(1), is_copied });
        Some((first, is_copied))
    }

    /// Which block it is, and when it was accessed last.
    #[inline(always)]
    fn turn_of(&self, id: Id) -> (BlockNo, u32) {
        let record = self.blocks.get(id);
        (record.block, record.aged().last)
    }

    /// Whether the blocks that leave DRAM with this one save enough on the SSD to be written there, on average.
    fn is_worth_copying(&mut self, first: Id) -> bool {
        let (mut surplus_us, mut blocks, mut next) = (0.0, 0u32, Some(first));
        for _ in 0..MOST_TOGETHER {
            let Some(id) = next else { break };
            let record = self.blocks.get(id);
            if !record.is_in(Level::Ssd) {
                surplus_us += self.surplus_us(record.aged());
                blocks += 1;
            }
            next = self.neighbour(
                Level::Dram,
                record.block.wrapping_add(1),
                record.aged().last.wrapping_add(1),
                None,
            );
        }
        self.is_worth_a_write(surplus_us, blocks)
    }

    /// Makes room for a block on the SSD, if `except` need not leave for it; by recency, if that was not accessed after `newcomer`, which
    /// leaves DRAM.
    pub(super) fn make_room_on_ssd<S: Sink>(
        &mut self,
        except: Option<Id>,
        newcomer: Option<Id>,
        sink: &mut S,
    ) -> bool {
        if self.blocks.cached(Level::Ssd) < self.blocks.capacity(Level::Ssd) {
            return true;
        }
        let Some((id, _)) = self.next_to_leave(Level::Ssd, except) else { return false };
        match self.order {
            Order::Benefit => {
                let worth = self.worth(self.blocks.get(id).aged());
                self.victim_worth += (worth - self.victim_worth) * WORTH_RATE;
            }
            // What leaves by recency says nothing of what a place is worth by benefit.
            Order::Recency => {
                if newcomer.is_some_and(|newcomer| self.is_older(newcomer, id)) {
                    return false;
                }
            }
        }
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
        self.ages.note_forgotten(record.aged().class, self.since(record.aged()));
        self.blocks.leave_ghosts(id);
        self.blocks.forget(id);
        self.blocks.prefetch_oldest_ghosts();
    }

    /// A block leaves DRAM, and is copied to the SSD before if it is worth that and not there; `except` does not leave for it.
    pub(super) fn demote<S: Sink>(&mut self, id: Id, is_copied: bool, except: Option<Id>, sink: &mut S) {
        let record = self.blocks.get(id);
        let block = record.block;
        let has_place = self.blocks.capacity(Level::Ssd) > 0 && !record.is_in(Level::Ssd);
        if is_copied
            && has_place
            && self.price.pay()
            && self.make_room_on_ssd(except, Some(id), sink)
            && let Some(slot) = self.blocks.slot(id, Level::Dram)
        {
            let from = CopySource::Level { level: Level::Dram, slot };
            let slot = self.blocks.put(id, Level::Ssd);
            sink.effect(Effect::Copy { to: Level::Ssd, slot, block, from, reason: CopyReason::Move });
        }
        self.evict(id, Level::Dram, sink);
    }
}
