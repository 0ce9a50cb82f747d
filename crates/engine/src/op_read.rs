//! Running a block's operations, and reads.

use lode_policy::Scheme;
use lode_types::{BlockNo, Buf, Bytes, Level};

use crate::blocks::{AccessOp, Flight, Kept, Op, Place, Source, SsdCopy, Stage};
use crate::command::{DeviceId, MediaError};
use crate::engine::Engine;
use crate::guest::{GuestError, Served};
use crate::io::{Owner, Want};

impl Engine {
    /// Starts the operation at the head of a block's queue; without one the block's flight is over.
    pub(crate) fn run_block(&mut self, block: BlockNo) {
        let Some(flight) = self.blocks.get(block) else { return };
        if flight.waits_for_late_write() {
            self.set_stage(block, Stage::Late);
            return;
        }
        let Some(&op) = flight.queue.front() else {
            self.land(block);
            return;
        };
        match op {
            Op::Access(op) if op.is_write => self.start_write(block, op),
            Op::Access(op) => self.start_read(block, op),
            Op::Evict(Level::Ssd) => self.start_evict(block),
            Op::Evict(level) => {
                self.drop_spare(block, level);
                self.op_done(block);
            }
            Op::Clean { .. } => self.start_clean(block),
            Op::Repair => self.start_repair(block),
            Op::Copy { .. } => self.queue_copy(block),
            Op::Hold => self.hold(block),
        }
    }

    /// The operation at the head is over.
    pub(crate) fn op_done(&mut self, block: BlockNo) {
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        flight.stage = Stage::Start;
        flight.full = None;
        match flight.queue.pop_front() {
            Some(Op::Access(op)) => self.release_reserves(&op),
            Some(Op::Clean { asked }) => self.clean_done(block, asked),
            _ => {}
        }
        self.runnable.push_back(block);
    }

    /// Gives back what was set aside for an operation and not used.
    pub(crate) fn release_reserves(&mut self, op: &AccessOp) {
        if op.holds_frame {
            self.dram.unreserve();
        }
        if op.holds_place
            && let Some(ssd) = &mut self.ssd
        {
            ssd.store.places_mut().unreserve();
        }
    }

    /// The block has no more operations: its places go to its slots.
    fn land(&mut self, block: BlockNo) {
        let Some(mut flight) = self.blocks.leave(block) else { return };
        // Before anything is decided that could free what must be kept.
        let is_needed = self.stands_in(&flight);
        if flight.copy.is_lost() {
            // Out of the scheme's hands until it is repaired or overwritten, its spares included.
            for level in Level::ALL {
                if flight.slots[level.index()].take().is_some() {
                    self.scheme.forget(level, block);
                }
            }
        }
        let mut kept = Kept::default();
        match (flight.slot(Level::Ssd), flight.copy, &mut self.ssd) {
            (_, SsdCopy::Lost(_), _) => kept.copy = flight.copy,
            (Some(slot), SsdCopy::Whole(place), Some(ssd)) => ssd.shelf.settle(slot, place),
            (Some(_), SsdCopy::None, _) => self.scheme.forget(Level::Ssd, block),
            (None, SsdCopy::Whole(place), Some(ssd)) if !ssd.store.places().is_dirty(place) => {
                ssd.store.places_mut().give_up_clean(place);
            }
            // A dirty copy without a slot could not be written back.
            (None, SsdCopy::Whole(_), _) => kept.copy = flight.copy,
            _ => {}
        }
        match (flight.slot(Level::Dram), flight.frame) {
            (Some(slot), Some(frame)) => self.dram.settle(slot, frame),
            (Some(_), None) => self.scheme.forget(Level::Dram, block),
            (None, frame) if is_needed => kept.frame = frame,
            (None, Some(frame)) => self.dram.release(frame),
            (None, None) => {}
        }
        match (flight.slot(Level::ReadSsd), flight.mirror) {
            (Some(slot), Some(place)) => self.read_ssd.settle(slot, place),
            (Some(_), None) => self.scheme.forget(Level::ReadSsd, block),
            (None, place) if is_needed => kept.mirror = place,
            (None, Some(place)) => self.read_ssd.release(place),
            (None, None) => {}
        }
        if kept.copy != SsdCopy::None || kept.frame.is_some() || kept.mirror.is_some() {
            self.blocks.keep(block, kept);
        }
    }

    /// Whether the block's newest bytes may soon be nowhere else than in the copies beside the one on the SSD: that one
    /// is dirty, and damaged, on its way out, or on an SSD that failed.
    fn stands_in(&self, flight: &Flight) -> bool {
        let is_dirty = |place| self.ssd.as_ref().is_some_and(|ssd| ssd.store.places().is_dirty(place));
        match flight.copy {
            SsdCopy::None => false,
            SsdCopy::Lost(_) => true,
            SsdCopy::Whole(place) => {
                is_dirty(place) && (flight.slot(Level::Ssd).is_none() || !self.health.is_well())
            }
        }
    }

    /// Drops the copy in a level beside the SSD, unless it has to stand in for that of the SSD.
    fn drop_spare(&mut self, block: BlockNo, level: Level) {
        let flight = self.blocks.get(block).expect("the block is in flight");
        if self.stands_in(flight) {
            return;
        }
        match level {
            Level::Dram => self.drop_frame(block),
            Level::ReadSsd => self.drop_mirror(block),
            Level::Ssd => {}
        }
    }

    pub(crate) fn drop_frame(&mut self, block: BlockNo) {
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        if let Some(frame) = flight.frame.take() {
            self.dram.release(frame);
        }
    }

    pub(crate) fn drop_mirror(&mut self, block: BlockNo) {
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        if let Some(place) = flight.mirror.take() {
            self.read_ssd.release(place);
        }
    }

    fn start_read(&mut self, block: BlockNo, op: AccessOp) {
        let flight = self.blocks.get(block).expect("the block is in flight");
        // A copy that failed to come about is replaced by the next one.
        match (flight.source(op.source), flight.frame) {
            (None, _) => self.access_failed(block, &op, GuestError::Io),
            (Some(Source::Dram), Some(frame)) => {
                let data = self.dram.bytes(frame).clone();
                self.deliver(block, &op, &data, Served::Dram);
                self.op_done(block);
            }
            (Some(source), _) => self.fetch(block, source, Stage::Read(source)),
        }
    }

    /// Reads the block's bytes from a device for the operation at the head of its queue.
    pub(crate) fn fetch(&mut self, block: BlockNo, source: Source, stage: Stage) {
        self.set_stage(block, stage);
        let (device, offset_bytes, len) = self.location(block, source);
        self.io.want(Want { device, offset_bytes, len, data: None, owner: Owner::Block(block) });
    }

    /// Device, first byte and length of a copy that a command reads.
    pub(crate) fn location(&self, block: BlockNo, source: Source) -> (DeviceId, u64, usize) {
        let flight = self.blocks.get(block).expect("the block is in flight");
        let whole = self.config.block.bytes() as usize;
        match (source, flight.copy.whole(), flight.mirror, &self.ssd) {
            (Source::ReadSsd, _, Some(place), _) => (DeviceId::ReadSsd, self.read_ssd.offset(place), whole),
            (Source::Ssd, Some(place), _, Some(ssd)) => (DeviceId::Ssd, ssd.store.offset(place), whole),
            (Source::Backing, ..) => {
                (DeviceId::Backing, self.config.block.start_of(block), self.block_len(block))
            }
            (source, ..) => unreachable!("{source:?} has no copy that a command could read"),
        }
    }

    pub(crate) fn set_stage(&mut self, block: BlockNo, stage: Stage) {
        self.blocks.get_mut(block).expect("the block is in flight").stage = stage;
    }

    /// A read or write for the operation at the head of a block's queue has ended.
    pub(crate) fn block_io_done(&mut self, block: BlockNo, result: Result<(), MediaError>, data: Buf) {
        let Some(flight) = self.blocks.get_mut(block) else { return };
        let stage = std::mem::replace(&mut flight.stage, Stage::Start);
        let Some(&op) = flight.queue.front() else { return };
        match (stage, op) {
            (Stage::Read(source), Op::Access(op)) => self.was_read(block, op, source, result, data),
            (Stage::Merge(source), Op::Access(op)) => self.merge_was_read(block, op, source, result, data),
            (Stage::WriteBacking, Op::Access(op)) => self.backing_was_written(block, op, result),
            (Stage::WriteSsd { place, crc }, Op::Access(op)) => {
                self.ssd_was_written(block, op, place, crc, result);
            }
            (stage, Op::Copy { .. }) => self.copy_io_done(block, stage, result, data),
            (stage, op) => unreachable!("{op:?} does no I/O in {stage:?}"),
        }
    }

    /// Checks what was read of a copy. A bad one is given up, so that the next one is read.
    pub(crate) fn is_good(
        &mut self,
        block: BlockNo,
        source: Source,
        result: Result<(), MediaError>,
        data: &[u8],
    ) -> bool {
        match source {
            Source::Ssd => self.check_ssd_copy(block, result, data),
            Source::ReadSsd => self.check_mirror(block, result, data),
            Source::Dram | Source::Backing => result.is_ok(),
        }
    }

    /// Good bytes give true. A bad clean copy is given up. A bad dirty one is repaired from a spare one, and without one
    /// the block is lost.
    fn check_ssd_copy(&mut self, block: BlockNo, result: Result<(), MediaError>, data: &[u8]) -> bool {
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        let place = flight.copy.place().expect("its copy was read");
        let ssd = self.ssd.as_mut().expect("a place is on an SSD");
        if result.is_ok() && ssd.store.places().is_intact(place, data) {
            return true;
        }
        ssd.store.places_mut().quarantine(place);
        self.lost_places += 1;
        if !ssd.store.places().is_dirty(place) {
            flight.copy = SsdCopy::None;
            ssd.store.places_mut().give_up_clean(place);
            self.alarms.damaged_clean += 1;
        } else {
            flight.copy = SsdCopy::Lost(place);
            if flight.has_spare() {
                flight.queue.push_back(Op::Repair);
                self.alarms.damaged_mirrored += 1;
            } else {
                self.alarms.damaged_dirty += 1;
            }
        }
        false
    }

    fn check_mirror(&mut self, block: BlockNo, result: Result<(), MediaError>, data: &[u8]) -> bool {
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        let place = flight.mirror.expect("its copy was read");
        self.read_ssd.note(result);
        if result.is_ok() && self.read_ssd.is_intact(place, data) {
            return true;
        }
        flight.mirror = None;
        self.read_ssd.quarantine();
        self.alarms.damaged_clean += 1;
        if flight.copy.is_lost() && !flight.has_spare() {
            self.alarms.damaged_dirty += 1;
        }
        false
    }

    fn was_read(
        &mut self,
        block: BlockNo,
        op: AccessOp,
        source: Source,
        result: Result<(), MediaError>,
        data: Buf,
    ) {
        if self.is_good(block, source, result, data.as_slice()) {
            let data = data.padded(self.config.block.bytes() as usize).freeze();
            self.deliver(block, &op, &data, source.into());
            self.fill(block, op, data);
        } else if source == Source::Backing {
            self.access_failed(block, &op, GuestError::Io);
        } else {
            self.start_read(block, op);
        }
    }

    /// Answers the part of the guest's read that this block is.
    fn deliver(&mut self, block: BlockNo, op: &AccessOp, data: &Bytes, served: Served) {
        let part = data.slice(op.start as usize..(op.start + op.len) as usize);
        self.requests[op.request].deliver(block, part);
        self.request_part_done(op.request, served);
    }

    /// Puts what was read where the scheme wants copies of it.
    fn fill(&mut self, block: BlockNo, mut op: AccessOp, data: Bytes) {
        if op.holds_frame {
            op.holds_frame = false;
            let frame = self.dram.store_reserved(block, data.clone());
            let flight = self.blocks.get_mut(block).expect("the block is in flight");
            if let Some(old) = flight.frame.replace(frame) {
                self.dram.release(old);
            }
        }
        // A dirty copy that could not be written back stays the one that counts.
        let has_copy = self.blocks.get(block).is_some_and(|flight| flight.copy.place().is_some());
        if op.holds_place && !has_copy && self.health.is_well() {
            op.holds_place = false;
            let place = self.take_place();
            self.update_head(block, op);
            self.write_ssd(block, place, data);
        } else {
            self.update_head(block, op);
            self.op_done(block);
        }
    }

    pub(crate) fn take_place(&mut self) -> Place {
        self.ssd.as_mut().expect("the scheme uses the SSD").store.places_mut().take_reserved()
    }

    /// Stores what changed in the operation at the head.
    pub(crate) fn update_head(&mut self, block: BlockNo, op: AccessOp) {
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        if let Some(head) = flight.queue.front_mut() {
            *head = Op::Access(op);
        }
    }

    /// Writes a whole block to a place on the SSD.
    pub(crate) fn write_ssd(&mut self, block: BlockNo, place: Place, data: Bytes) {
        let ssd = self.ssd.as_ref().expect("a place is on an SSD");
        let crc = ssd.store.places().checksum(block, &data);
        let want = Want {
            device: DeviceId::Ssd,
            offset_bytes: ssd.store.offset(place),
            len: data.len(),
            data: Some(data),
            owner: Owner::Block(block),
        };
        self.set_stage(block, Stage::WriteSsd { place, crc });
        self.io.want(want);
    }

    /// The guest is told that this part failed, and the operation ends.
    pub(crate) fn access_failed(&mut self, block: BlockNo, op: &AccessOp, error: GuestError) {
        self.fail_request(op.request, error);
        self.request_part_done(op.request, Served::Backing);
        self.op_done(block);
    }
}

impl From<Source> for Served {
    fn from(source: Source) -> Served {
        match source {
            Source::Dram => Served::Dram,
            Source::ReadSsd => Served::ReadSsd,
            Source::Ssd => Served::Ssd,
            Source::Backing => Served::Backing,
        }
    }
}
