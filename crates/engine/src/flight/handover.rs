//! What comes to a block in flight and goes from it beside its steps: operations, copies out of slots and back, bytes that are
//! written, a write that is issued again. All of its fields change here or in a step, and nowhere else.

use std::collections::VecDeque;

use lode_policy::Slot;
use lode_types::{Bytes, Level};

use super::{BlockOp, Fill, Flight, Place, Put, SsdCopy, Stage};
use crate::dram::Frame;
use crate::guest::GuestError;
use crate::reissue::DiskWrite;

impl Flight {
    /// One more operation. True: it is at the head, and may start.
    pub(crate) fn push(&mut self, op: BlockOp) -> bool {
        self.queue.push_back(op);
        let is_head = self.queue.len() == 1;
        if is_head {
            self.stage = Stage::Start;
        }
        is_head
    }

    /// A trim or zeroing had hold of the block before it came into flight.
    pub(crate) fn begin_held(&mut self) {
        assert!(self.queue.is_empty(), "its flight begins");
        self.queue.push_back(BlockOp::Hold);
        self.stage = Stage::Held;
    }

    /// The operation at the head is over, and leaves the queue.
    pub(crate) fn finish(&mut self) -> Option<BlockOp> {
        self.stage = Stage::Start;
        self.bytes = None;
        assert!(self.next_place.is_none(), "a write under way has ended");
        self.queue.pop_front()
    }

    /// The empty queue of a flight that is over, for another one.
    pub(crate) fn take_queue(&mut self) -> VecDeque<BlockOp> {
        assert!(self.queue.is_empty(), "a flight ends with its last operation");
        std::mem::take(&mut self.queue)
    }

    /// The scheme's latest decision for a level: the slot that the block's copy will have.
    pub(crate) fn set_slot(&mut self, level: Level, slot: Option<Slot>) {
        self.slots[level.index()] = slot;
    }

    /// The same; what it was before.
    pub(crate) fn take_slot(&mut self, level: Level) -> Option<Slot> {
        self.slots[level.index()].take()
    }

    /// Takes over the block's copy of a level, a frame or a place, that was in a slot, if it was not in flight yet.
    pub(crate) fn take_copy(&mut self, level: Level, copy: Option<u32>) {
        match level {
            Level::Dram => self.frame = copy.or(self.frame),
            Level::Ssd => self.copy = copy.map_or(self.copy, SsdCopy::Whole),
            Level::ReadSsd => self.mirror = copy.or(self.mirror),
        }
    }

    /// The SSD has the block here, instead of where it was.
    pub(crate) fn put(&mut self, place: Place, crc: u32, dirty: bool) -> Put {
        let old = std::mem::replace(&mut self.copy, SsdCopy::Whole(place)).place();
        Put { place, crc, dirty, old }
    }

    /// The block's bytes are in this frame now, or will be when the write under way has ended.
    pub(crate) fn fill(&mut self, fill: Fill, frame: Frame) {
        let at = match fill {
            Fill::Now => &mut self.frame,
            Fill::WhenWritten => &mut self.next_frame,
        };
        assert!(at.is_none(), "an old frame was let go of");
        *at = Some(frame);
    }

    /// The whole block as it will be written.
    pub(crate) fn set_bytes(&mut self, bytes: Option<Bytes>) {
        self.bytes = bytes;
    }

    /// The same, which is written now.
    pub(crate) fn take_bytes(&mut self) -> Option<Bytes> {
        self.bytes.take()
    }

    /// The write of the stage is on its way to this place, with this checksum.
    pub(crate) fn writes_to(&mut self, place: Place, crc: u32) {
        assert!(self.next_place.is_none(), "one write after the other");
        self.next_place = Some((place, crc));
    }

    /// The hooks know the write that is on its way to the backing disk, or do not.
    pub(crate) fn set_disk_write(&mut self, write: Option<DiskWrite>) {
        assert!(self.disk_write.is_none(), "writes to the disk wait for older ones of their block");
        self.disk_write = write;
    }

    /// The write is issued again to this place of the SSD.
    pub(crate) fn issued_again(&mut self, place: Place, crc: u32) {
        let write = self.disk_write.as_mut().expect("the hooks know it");
        assert!(write.copy.is_none(), "a write is issued again once");
        write.copy = Some((place, crc));
    }

    /// The SSD is through with what was issued again to this place.
    pub(crate) fn take_issued_again(&mut self) -> Option<(Place, u32)> {
        self.disk_write.as_mut()?.copy.take()
    }

    /// The disk is through with the write, and the SSD still at it.
    pub(crate) fn disk_ended(&mut self, error: Option<GuestError>) {
        self.disk_write.as_mut().expect("the hooks know it").error = error;
    }

    /// The write that the hooks knew is over.
    pub(crate) fn forget_disk_write(&mut self) -> Option<DiskWrite> {
        self.disk_write.take()
    }
}
