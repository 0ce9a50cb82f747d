//! Running a block's operations, and reads.

use lode_policy::Scheme;
use lode_types::{BlockNo, Level};

use crate::Buf;
use crate::admit::copy_to;
use crate::blocks::{AccessOp, Op, Place, Source, SsdCopy, Stage};
use crate::command::{DeviceId, MediaError};
use crate::engine::Engine;
use crate::guest::{GuestError, Served};
use crate::io::{Owner, Want};

impl Engine {
    /// Starts the operation at the head of a block's queue; without one the block's flight is over.
    pub(crate) fn run_block(&mut self, block: BlockNo) {
        let Some(flight) = self.blocks.get(block) else { return };
        let Some(&op) = flight.queue.front() else {
            self.land(block);
            return;
        };
        match op {
            Op::Access(op) if op.is_write => self.start_write(block, op),
            Op::Access(op) => self.start_read(block, op),
            Op::EvictDram => {
                self.drop_frame(block);
                self.op_done(block);
            }
            Op::EvictSsd => self.start_evict(block),
            Op::Clean { .. } => self.start_clean(block),
            Op::Promote { .. } => self.queue_promotion(block),
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
            ssd.slots.unreserve();
        }
    }

    /// The block has no more operations: its places go to its slots.
    fn land(&mut self, block: BlockNo) {
        let Some(flight) = self.blocks.leave(block) else { return };
        match (flight.ssd_slot, flight.copy, &mut self.ssd) {
            (slot, SsdCopy::Lost(_), _) => {
                self.blocks.keep(block, flight.copy);
                if slot.is_some() {
                    self.scheme.forget(Level::Ssd, block);
                }
            }
            (Some(slot), SsdCopy::Whole(place), Some(ssd)) => ssd.slots.settle(slot, place),
            (Some(_), SsdCopy::None, _) => self.scheme.forget(Level::Ssd, block),
            (None, SsdCopy::Whole(place), Some(ssd)) if !ssd.slots.is_dirty(place) => {
                ssd.slots.give_up_clean(place);
            }
            // A dirty copy without a slot could not be written back.
            (None, SsdCopy::Whole(_), _) => self.blocks.keep(block, flight.copy),
            _ => {}
        }
        match (flight.dram_slot, flight.frame) {
            (Some(slot), Some(frame)) => self.dram.settle(slot, frame),
            (Some(_), None) => self.scheme.forget(Level::Dram, block),
            (None, Some(frame)) => self.dram.release(frame),
            (None, None) => {}
        }
    }

    pub(crate) fn drop_frame(&mut self, block: BlockNo) {
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        if let Some(frame) = flight.frame.take() {
            self.dram.release(frame);
        }
    }

    fn start_read(&mut self, block: BlockNo, op: AccessOp) {
        let flight = self.blocks.get(block).expect("the block is in flight");
        match (op.source, flight.frame, flight.copy) {
            (Source::Dram, Some(frame), _) => {
                let from = &self.dram.bytes(frame)[op.start as usize..(op.start + op.len) as usize];
                copy_to(&mut self.requests[op.request], op.buf_at, from);
                self.request_part_done(op.request, Served::Dram);
                self.op_done(block);
            }
            (_, _, SsdCopy::Lost(_)) => self.access_failed(block, &op, GuestError::Io),
            // A copy that failed to come about is replaced by the next slower one.
            (_, _, SsdCopy::Whole(place)) => self.read_ssd(block, place, Stage::ReadSsd),
            (_, _, SsdCopy::None) => self.read_backing(block, Stage::ReadBacking),
        }
    }

    pub(crate) fn read_ssd(&mut self, block: BlockNo, place: Place, stage: Stage) {
        self.set_stage(block, stage);
        let ssd = self.ssd.as_ref().expect("a place is on an SSD");
        let (offset_bytes, len) = (ssd.offset(place), self.config.block.bytes() as usize);
        let owner = Owner::Block(block);
        self.io.want(Want { device: DeviceId::Ssd, offset_bytes, len, data: None, owner });
    }

    pub(crate) fn read_backing(&mut self, block: BlockNo, stage: Stage) {
        self.set_stage(block, stage);
        let (offset_bytes, len) = (self.config.block.start_of(block), self.block_len(block));
        let owner = Owner::Block(block);
        self.io.want(Want { device: DeviceId::Backing, offset_bytes, len, data: None, owner });
    }

    pub(crate) fn set_stage(&mut self, block: BlockNo, stage: Stage) {
        self.blocks.get_mut(block).expect("the block is in flight").stage = stage;
    }

    /// A read or write for the operation at the head of a block's queue has ended.
    pub(crate) fn block_io_done(&mut self, block: BlockNo, result: Result<(), MediaError>, data: &[u8]) {
        let Some(flight) = self.blocks.get_mut(block) else { return };
        let stage = std::mem::replace(&mut flight.stage, Stage::Start);
        let Some(&op) = flight.queue.front() else { return };
        match (stage, op) {
            (Stage::ReadSsd, Op::Access(op)) => self.ssd_was_read(block, op, result, data),
            (Stage::ReadBacking, Op::Access(op)) => self.backing_was_read(block, op, result, data),
            (Stage::Merge(source), Op::Access(op)) => self.merge_was_read(block, op, source, result, data),
            (Stage::WriteBacking, Op::Access(op)) => self.backing_was_written(block, op, result),
            (Stage::WriteSsd { place, crc }, Op::Access(op)) => {
                self.ssd_was_written(block, op, place, crc, result);
            }
            (stage, Op::Promote { .. }) => self.promotion_io_done(block, stage, result, data),
            (stage, op) => unreachable!("{op:?} does no I/O in {stage:?}"),
        }
    }

    /// Checks what was read of a copy on the SSD. Good bytes give true. A bad clean copy is given up, so
    /// that the caller reads the backing disk; a bad dirty one makes the block lost.
    pub(crate) fn check_ssd_copy(
        &mut self,
        block: BlockNo,
        result: Result<(), MediaError>,
        data: &[u8],
    ) -> bool {
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        let place = flight.copy.place().expect("its copy was read");
        let ssd = self.ssd.as_mut().expect("a place is on an SSD");
        if result.is_ok() && ssd.slots.is_intact(place, data) {
            return true;
        }
        ssd.slots.distrust(place);
        self.lost_places += 1;
        if ssd.slots.is_dirty(place) {
            flight.copy = SsdCopy::Lost(place);
            self.alarms.damaged_dirty += 1;
        } else {
            flight.copy = SsdCopy::None;
            ssd.slots.give_up_clean(place);
            self.alarms.damaged_clean += 1;
        }
        false
    }

    fn ssd_was_read(&mut self, block: BlockNo, op: AccessOp, result: Result<(), MediaError>, data: &[u8]) {
        if self.check_ssd_copy(block, result, data) {
            self.deliver(&op, data, Served::Ssd);
            self.fill(block, op, data);
        } else if self.blocks.get(block).is_some_and(|flight| flight.copy.is_lost()) {
            self.access_failed(block, &op, GuestError::Io);
        } else {
            self.read_backing(block, Stage::ReadBacking);
        }
    }

    fn backing_was_read(
        &mut self,
        block: BlockNo,
        op: AccessOp,
        result: Result<(), MediaError>,
        data: &[u8],
    ) {
        if result.is_err() {
            self.access_failed(block, &op, GuestError::Io);
            return;
        }
        self.deliver(&op, data, Served::Backing);
        self.fill(block, op, data);
    }

    /// Answers the part of the guest's read that this block is.
    fn deliver(&mut self, op: &AccessOp, data: &[u8], served: Served) {
        let part = &data[op.start as usize..(op.start + op.len) as usize];
        copy_to(&mut self.requests[op.request], op.buf_at, part);
        self.request_part_done(op.request, served);
    }

    /// Puts what was read where the scheme wants copies of it.
    fn fill(&mut self, block: BlockNo, mut op: AccessOp, data: &[u8]) {
        if op.holds_frame {
            op.holds_frame = false;
            let frame = self.dram.store_reserved(data);
            let flight = self.blocks.get_mut(block).expect("the block is in flight");
            if let Some(old) = flight.frame.replace(frame) {
                self.dram.release(old);
            }
        }
        // A dirty copy that could not be written back stays the one that counts.
        let has_copy = self.blocks.get(block).is_some_and(|flight| flight.copy.place().is_some());
        if op.holds_place && !has_copy {
            op.holds_place = false;
            let place = self.take_place();
            self.update_head(block, op);
            self.write_ssd(block, place, padded(data, self.config.block.bytes() as usize));
        } else {
            self.update_head(block, op);
            self.op_done(block);
        }
    }

    pub(crate) fn take_place(&mut self) -> Place {
        self.ssd.as_mut().expect("the scheme uses the SSD").slots.take_reserved()
    }

    /// Stores what changed in the operation at the head.
    pub(crate) fn update_head(&mut self, block: BlockNo, op: AccessOp) {
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        if let Some(head) = flight.queue.front_mut() {
            *head = Op::Access(op);
        }
    }

    /// Writes a whole block to a place on the SSD.
    pub(crate) fn write_ssd(&mut self, block: BlockNo, place: Place, data: Buf) {
        let ssd = self.ssd.as_ref().expect("a place is on an SSD");
        let crc = ssd.slots.checksum(block, data.as_slice());
        let want = Want {
            device: DeviceId::Ssd,
            offset_bytes: ssd.offset(place),
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

/// A copy of `data` with zeroes up to `len`.
pub(crate) fn padded(data: &[u8], len: usize) -> Buf {
    let mut buf = Buf::zeroed(len);
    buf.as_mut_slice()[..data.len()].copy_from_slice(data);
    buf
}
