//! Ordered write-back carried out: cuts are made between decisions, the blocks of a group captured in their turn among the
//! operations on them, and what the group wants written and flushed carried to devices. What is decided about groups is in
//! `ordered`.

use lode_types::{BlockNo, Bytes, Level, MediaError, planted};

use super::Engine;
use crate::command::{CommandKind, DeviceId};
use crate::flight::{AccessKind, BlockOp, CopyAt, Reserved};
use crate::io::{Owner, Want};
use crate::ordered::{Behind, Gathered, Group, GroupFacts, GroupNext, GroupWrite, Identity, Ordered};

/// Decisions.
impl Engine {
    /// How far the backing disk is behind what guests wrote, where it is written in the order of their flushes.
    pub fn behind(&self) -> Option<Behind> {
        let behind = self.ordered.as_ref()?.behind();
        Some(Behind { is_stuck: self.is_stuck(), ..behind })
    }

    /// Whether a group cannot be written, as things are: a device refused it, or a block that it needs is lost.
    fn is_stuck(&self) -> bool {
        self.ordered.as_ref().is_some_and(Ordered::is_paused) || self.flights.lost() > 0
    }

    /// Whether writes have to wait: for room, because the disk is too far behind, or because they are to go past the SSD and what
    /// was written before is on its way. Where nothing is written back, because nothing can be, nobody waits for it.
    pub(super) fn groups_hold_writes(&self) -> bool {
        let Some(ordered) = &self.ordered else { return false };
        ordered.holds_writes(self.writes_around) && self.health.is_well() && !self.is_without_hope()
    }

    /// Whether a write that finds no room would wait in vain.
    fn is_without_hope(&self) -> bool {
        self.is_stuck() && !self.ordered.as_ref().is_some_and(Ordered::is_settling)
    }

    /// Whether trims and zeroings have to wait: each comes behind a group of its own.
    pub(super) fn groups_hold_ranges(&self) -> bool {
        let is_busy = self.ordered.as_ref().is_some_and(Ordered::is_busy);
        is_busy && !self.is_stuck() && !planted("zeroes-past-groups")
    }

    /// Whether a group, or a trim or zeroing before the next one, waits for its turn among the operations on blocks.
    pub(super) fn groups_wait_for_blocks(&self) -> bool {
        let Some(ordered) = &self.ordered else { return false };
        ordered.group().is_some_and(Group::is_capturing) || self.disk.has_range()
    }

    /// What a write amounts to where the disk is written in groups alone, and what is to be set aside for it: nothing goes past
    /// the SSD.
    pub(super) fn by_way_of_groups(
        &mut self,
        block: BlockNo,
        decided: AccessKind,
        wants: Reserved,
    ) -> (AccessKind, Reserved) {
        if self.ordered.is_none() {
            return (decided, wants);
        }
        let kind = match decided {
            AccessKind::Read { .. } => return (decided, wants),
            AccessKind::WriteAround if planted("write-around-past-groups") => return (decided, wants),
            AccessKind::WriteAround => AccessKind::WriteBack { merge: CopyAt::Backing },
            AccessKind::WriteThrough { merge } => AccessKind::WriteBack { merge },
            AccessKind::WriteBack { .. } => decided,
        };
        let is_without_hope = self.is_without_hope();
        let Some(ordered) = &mut self.ordered else { return (decided, wants) };
        match ordered.gather(block, self.writes_around, is_without_hope) {
            Gathered::Past => (decided, wants),
            Gathered::Taken => (kind, Reserved { place: true, ..wants }),
            // Without room, and without hope for some, the write fails.
            Gathered::Refused => (kind, Reserved { place: false, ..wants }),
        }
    }

    /// A guest flushes.
    pub(super) fn cut_at_flush(&mut self) {
        if self.ordered.as_ref().is_some_and(Ordered::is_due_at_flush) {
            self.cut();
        }
    }

    /// Makes a cut, if something gathered. False: it cannot be made.
    pub(super) fn cut(&mut self) -> bool {
        let Some(ordered) = self.ordered.as_mut().filter(|ordered| !ordered.has_gathered_nothing()) else {
            return true;
        };
        let can_write = self.health.writes_back() && self.flights.lost() == 0 && !self.disk.has_range();
        if !can_write || ordered.is_busy() {
            return false;
        }
        for block in ordered.cut() {
            self.push_on_dirty(block, BlockOp::Capture);
        }
        true
    }

    /// Queues an operation for a block that may be dirty, wherever its copy is.
    fn push_on_dirty(&mut self, block: BlockNo, op: BlockOp) {
        let slot = self.ordered.as_mut().and_then(|ordered| ordered.take_slot(block));
        if let Some(slot) = slot.filter(|_| !self.flights.contains(block)) {
            let held = self.levels.block_in(Level::Ssd, slot);
            assert_eq!(held, Some(block), "a dirty block's slot is known");
            self.claim(block, Level::Ssd, slot);
        }
        self.push_op(block, op);
    }

    /// A block takes along its copy in this level, if it was in a slot.
    pub(super) fn note_claimed(&mut self, block: BlockNo, level: Level) {
        if level == Level::Ssd {
            self.note_dirty_slot(block, None);
        }
    }

    /// A dirty block that is not in flight is in this slot, or in none.
    pub(super) fn note_dirty_slot(&mut self, block: BlockNo, slot: Option<u32>) {
        if let Some(ordered) = &mut self.ordered {
            ordered.note_slot(block, slot);
        }
    }
}

/// The group under way.
impl Engine {
    fn group(&mut self) -> Option<&mut Group> {
        self.ordered.as_mut()?.group_mut()
    }

    pub(super) fn identity(&self) -> Option<Identity> {
        let ordered = self.config.ordered?;
        let layout = ordered.redo_layout(self.config.block);
        let store = self.levels.store()?;
        Some(Identity { cache: store.cache(), volume: store.tag(), layout, generation: ordered.generation })
    }

    /// The bytes of a block as of the cut.
    pub(super) fn captured(&mut self, block: BlockNo, bytes: Bytes) {
        let Some(identity) = self.identity() else { return };
        if let Some(group) = self.group() {
            group.captured(identity.volume, block, bytes);
        }
    }

    /// A capture has left its block's queue.
    pub(super) fn capture_ended(&mut self, block: BlockNo) {
        let copy = self.flights.of(block).copy();
        let is_lost = copy.is_lost() && !self.flights.of(block).has_spare() && self.levels.is_dirty(copy);
        if let Some(group) = self.group() {
            group.capture_ended(is_lost);
        }
    }

    /// A block of a group that is on the disk has left its queue: it is clean, unless it was written again or the SSD failed.
    pub(super) fn settle_ended(&mut self, block: BlockNo) {
        let flight = self.flights.of(block);
        let (stays, will_be_written) = (flight.stays_on_ssd(), flight.will_be_written());
        let is_dirty = self.levels.is_dirty(flight.copy());
        if let Some(ordered) = &mut self.ordered {
            ordered.settled();
        }
        if stays && !is_dirty && !will_be_written {
            self.front.cleaned(block);
        }
    }

    /// Makes a cut where one is due, and takes the group under way on. Whether there is room again, or a turn for others.
    pub(super) fn drive_groups(&mut self) -> bool {
        if self.ordered.is_none() {
            return false;
        }
        let mut made_room = false;
        let pressed = self.is_blocked() || self.copies.wants_places() || self.writes_around;
        if self.ordered.as_ref().is_some_and(|ordered| ordered.is_due(pressed)) {
            self.cut();
        }
        loop {
            let now = self.durability();
            let facts = GroupFacts {
                is_well: now.is_well,
                may_begin: self.health.writes_back(),
                disk_works: !self.health.has_failed(DeviceId::Backing),
                version: now.version,
                durable: now.durable,
                mark: now.mark,
                flushed: now.flushed,
            };
            let Some(next) = self.ordered.as_mut().map(|ordered| ordered.next(&facts)) else {
                return made_room;
            };
            made_room |= matches!(next, GroupNext::Lost | GroupNext::OnDisk | GroupNext::Over);
            match next {
                GroupNext::Wait => return made_room,
                GroupNext::Lost => self.give_group_up(),
                GroupNext::Write(numbers) => {
                    numbers.into_iter().for_each(|number| self.write_of_group(number))
                }
                GroupNext::FlushLog => {
                    self.io.command(DeviceId::Redo, CommandKind::Flush, Owner::RedoFlush);
                }
                GroupNext::FlushDisk => {
                    let mark = self.disk.wrote_group();
                    if let Some(group) = self.group() {
                        group.await_disk(mark);
                    }
                }
                GroupNext::OnDisk => self.settle_group(),
                GroupNext::Over => {
                    if let Some(ordered) = &mut self.ordered {
                        ordered.group_over();
                    }
                }
            }
        }
    }

    /// What a device refused is tried again. A trim or zeroing behind it has waited long enough, and a drain behind a block that
    /// is lost.
    pub(super) fn tick_groups(&mut self) {
        if self.ordered.as_ref().is_some_and(Ordered::is_paused) {
            self.disk.refuse_range();
        }
        let is_lost = self.flights.lost() > 0;
        let Some(ordered) = &mut self.ordered else { return };
        ordered.tick();
        if is_lost {
            ordered.stop_drain();
        }
    }

    /// What was cut off gathers again; a trim or zeroing behind it cannot be carried out.
    fn give_group_up(&mut self) {
        if let Some(ordered) = &mut self.ordered {
            ordered.undo_cut();
        }
        self.disk.refuse_range();
    }

    fn write_of_group(&mut self, number: u32) {
        let Some(identity) = self.identity() else { return };
        let Some(group) = self.group() else { return };
        let (device, offset_bytes, data) = match group.write(&identity, number) {
            GroupWrite::Log(offset_bytes, data) => (DeviceId::Redo, offset_bytes, data),
            GroupWrite::Disk(block, data) => {
                let data = data.slice(..self.block_len(block));
                (DeviceId::Backing, self.config.block.start_of(block), data)
            }
        };
        self.io.want(Want::write(device, offset_bytes, data, Owner::Group(number)));
    }

    /// A write of the group under way has ended.
    pub(super) fn group_write_ended(&mut self, number: u32, result: Result<(), MediaError>) {
        let group = self.group().expect("a group stays until its writes end");
        group.write_ended(number, result.is_ok());
    }

    /// The redo log was flushed.
    pub(super) fn redo_flushed(&mut self) {
        if let Some(group) = self.group() {
            group.log_flushed();
        }
    }

    /// The disk has the group: its copies become clean, each in its block's turn.
    fn settle_group(&mut self) {
        let Some(ordered) = &mut self.ordered else { return };
        for block in ordered.take_settled() {
            self.push_on_dirty(block, BlockOp::Settle);
        }
    }

    /// What the disk holds of these blocks is not what their latest group brought there: where the SSD's copy is still to be noted
    /// as clean it is not, and the next group brings it there again.
    pub(super) fn gather_again(&mut self, blocks: &[BlockNo]) {
        let Some(ordered) = &mut self.ordered else { return };
        let is_dirty = |&&block: &&BlockNo| {
            self.flights.get(block).is_some_and(|flight| self.levels.is_dirty(flight.copy()))
        };
        blocks.iter().filter(is_dirty).for_each(|&block| ordered.dirtied(block));
    }

    /// The version of the journal that the group under way waits for; 0 if it does not.
    pub(super) fn group_version_waited_for(&self) -> u64 {
        let group = self.ordered.as_ref().and_then(Ordered::group);
        group.map_or(0, Group::version_waited_for)
    }

    /// The mark of the backing disk that it waits for; 0 if it does not.
    pub(super) fn group_mark_waited_for(&self) -> u64 {
        let group = self.ordered.as_ref().and_then(Ordered::group);
        group.map_or(0, Group::mark_waited_for)
    }
}
