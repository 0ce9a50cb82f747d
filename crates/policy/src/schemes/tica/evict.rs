//! How room is made in each level, and what the blocks that leave it leave behind. It must not know what asked for it.

use lode_types::Level;

use super::choice::Policy;
use super::table::{Id, List};
use super::{Choice, Tica};
use crate::effect::{CopyReason, CopySource, Effect, Sink};

impl Tica {
    /// Makes room in the read partition. A write partition that is larger than by default gives some of its blocks, the
    /// first by a copy to the read SSD if it is full: the copy is made while the read waits for the disk.
    pub(super) fn make_room_for_read<S: Sink>(&mut self, sink: &mut S) {
        if self.table.len(List::Read) < self.read_blocks() {
            return;
        }
        if !self.partition.is_grown() {
            self.evict_read(None, sink);
            return;
        }
        if self.table.len(List::Pending) >= self.partition.write_blocks() {
            self.copy_pending(sink);
        }
        self.partition.shrink(self.table.len(List::Pending));
    }

    /// Makes room in the write partition, which grows at the expense of the read partition when it is full. One that
    /// cannot grow has to wait until one of its blocks is copied. `writing` is the block that the room is for.
    pub(super) fn make_room_for_write<S: Sink>(&mut self, writing: Id, sink: &mut S) {
        if self.table.len(List::Pending) < self.partition.write_blocks() {
            return;
        }
        self.partition.grow();
        while self.table.len(List::Read) > self.read_blocks() {
            self.evict_read(Some(writing), sink);
        }
        if self.table.len(List::Pending) >= self.partition.write_blocks() {
            self.copy_pending(sink);
        }
    }

    /// Makes room on the SSD for a block that is not there: the least recently used one leaves it, and the read SSD too.
    pub(super) fn make_room_on_ssd<S: Sink>(&mut self, entering: Id, sink: &mut S) {
        while self.table.used(Level::Ssd) >= self.quota.ssd_blocks
            && let Some(victim) = self.table.oldest_on(Level::Ssd)
        {
            debug_assert_ne!(victim, entering, "a block on the SSD needs no room there");
            self.give_up(victim, sink);
        }
    }

    /// Makes room on the read SSD; says whether there is any. A block whose only other copy is dirty leaves both SSDs,
    /// by way of the disk.
    fn make_room_on_read_ssd<S: Sink>(&mut self, sink: &mut S) -> bool {
        while self.table.used(Level::ReadSsd) >= self.quota.read_ssd_blocks {
            let Some(victim) = self.table.oldest_on(Level::ReadSsd) else { return false };
            self.give_up_mirror(victim, sink);
        }
        true
    }

    fn give_up_mirror<S: Sink>(&mut self, id: Id, sink: &mut S) {
        if self.table.is_dirty(id) {
            self.give_up(id, sink);
        } else if let Some(slot) = self.table.take(Level::ReadSsd, id) {
            let block = self.table.block(id);
            sink.effect(Effect::Evict { level: Level::ReadSsd, slot, block, dirty: false });
            self.table.release_unknown(id);
        }
    }

    /// Every copy of a block leaves, a dirty one by way of the disk. What the evicted queue knows of it stays.
    pub(super) fn give_up<S: Sink>(&mut self, id: Id, sink: &mut S) {
        let (block, dirty) = (self.table.block(id), self.table.is_dirty(id));
        if self.table.list(id) != List::Evicted {
            self.leave(id);
        }
        self.set_dirty(id, false);
        for level in [Level::Ssd, Level::ReadSsd, Level::Dram] {
            if let Some(slot) = self.table.take(level, id) {
                sink.effect(Effect::Evict { level, slot, block, dirty: dirty && level == Level::Ssd });
            }
        }
        self.table.release_unknown(id);
    }

    /// The least recently used block leaves the read partition. Under WED the SSD gets a copy, unless it would take the
    /// place of the block that is being written.
    fn evict_read<S: Sink>(&mut self, writing: Option<Id>, sink: &mut S) {
        let Some(id) = self.table.oldest_in(List::Read) else { return };
        self.table.leave(id);
        let block = self.table.block(id);
        let copies = self.policy() == Policy::WriteToEnduranceDisk && self.has_space_beside(writing);
        if copies && let Some(from) = self.table.slot(Level::Dram, id) {
            self.make_room_on_ssd(id, sink);
            let slot = self.table.give(Level::Ssd, id);
            let from = CopySource::Level { level: Level::Dram, slot: from };
            let reason = CopyReason::Move;
            sink.effect(Effect::Copy { to: Level::Ssd, slot, block, from, reason });
        }
        if let Some(slot) = self.table.take(Level::Dram, id) {
            sink.effect(Effect::Evict { level: Level::Dram, slot, block, dirty: false });
        }
        self.remember(id);
    }

    /// The policy in force.
    fn policy(&self) -> Policy {
        match &self.choice {
            Choice::Fixed(policy) => *policy,
            Choice::Adaptive(adaptive) => adaptive.chooser.policy(),
        }
    }

    /// Whether the SSD has a place that the block being written does not need. That block will not be the next to leave.
    fn has_space_beside(&mut self, writing: Option<Id>) -> bool {
        let held = writing.filter(|&id| self.table.slot(Level::Ssd, id).is_some());
        held.into_iter().for_each(|id| self.table.touch(Level::Ssd, id));
        self.quota.ssd_blocks > u32::from(held.is_some())
    }

    /// A block that left the read partition, to which it came by a read that missed, enters the evicted queue.
    fn remember(&mut self, id: Id) {
        if let Choice::Adaptive(adaptive) = &self.choice {
            let most = adaptive.evicted_blocks(self.quota.ssd_blocks);
            self.table.enter(List::Evicted, id);
            self.trim_evicted(most);
        } else {
            self.table.release_unknown(id);
        }
    }

    fn trim_evicted(&mut self, most: u64) {
        while u64::from(self.table.len(List::Evicted)) > most
            && let Some(oldest) = self.table.oldest_in(List::Evicted)
        {
            self.table.leave(oldest);
            self.table.release_unknown(oldest);
        }
    }

    /// The block that waits longest in the write partition is copied to the read SSD and leaves DRAM.
    pub(super) fn copy_pending<S: Sink>(&mut self, sink: &mut S) {
        let Some(id) = self.table.oldest_in(List::Pending) else { return };
        let Some(slot) = self.table.slot(Level::Dram, id) else { return };
        // A block that the SSD lost has no use for a mirror.
        if self.table.slot(Level::Ssd, id).is_some() && !self.mirror(id, Level::Dram, slot, sink) {
            self.give_up(id, sink);
            return;
        }
        self.leave(id);
        self.table.take(Level::Dram, id);
        let block = self.table.block(id);
        sink.effect(Effect::Evict { level: Level::Dram, slot, block, dirty: false });
        self.table.release_unknown(id);
    }

    /// The block that is without a second copy for longest is copied to the read SSD.
    pub(super) fn copy_missing<S: Sink>(&mut self, sink: &mut S) {
        let Some(id) = self.table.oldest_in(List::Missing) else { return };
        let Some(slot) = self.table.slot(Level::Ssd, id) else { return };
        if self.mirror(id, Level::Ssd, slot, sink) {
            self.leave(id);
        } else {
            self.give_up(id, sink);
        }
    }

    /// Copies a block to the read SSD; says whether there was room.
    fn mirror<S: Sink>(&mut self, id: Id, level: Level, from: u32, sink: &mut S) -> bool {
        if !self.make_room_on_read_ssd(sink) {
            return false;
        }
        let slot = self.table.give(Level::ReadSsd, id);
        let from = CopySource::Level { level, slot: from };
        let reason = CopyReason::Move;
        sink.effect(Effect::Copy { to: Level::ReadSsd, slot, block: self.table.block(id), from, reason });
        true
    }

    /// Evicts what no longer fits.
    pub(super) fn shrink_to_quota<S: Sink>(&mut self, sink: &mut S) {
        let quota = self.quota;
        while self.table.used(Level::Ssd) > quota.ssd_blocks
            && let Some(victim) = self.table.oldest_on(Level::Ssd)
        {
            self.give_up(victim, sink);
        }
        while self.table.used(Level::ReadSsd) > quota.read_ssd_blocks
            && let Some(victim) = self.table.oldest_on(Level::ReadSsd)
        {
            self.give_up_mirror(victim, sink);
        }
        if quota.read_ssd_blocks == 0 {
            while let Some(alone) = self.table.oldest_in(List::Missing) {
                self.give_up(alone, sink);
            }
        }
        while self.table.len(List::Pending) > self.partition.write_blocks() {
            self.copy_pending(sink);
        }
        while self.table.len(List::Read) > self.read_blocks() {
            self.evict_read(None, sink);
        }
        if let Choice::Adaptive(adaptive) = &self.choice {
            let most = adaptive.evicted_blocks(quota.ssd_blocks);
            self.trim_evicted(most);
        }
    }
}
