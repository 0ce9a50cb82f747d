//! Writes that are issued again: a guest's write on its way to the backing disk that somebody comes to wait for is written
//! to the SSD as well, and answered by the first of the two (Kim et al., USENIX ATC 2015, section 4.2.2). Which writes,
//! and which completion counts, the hooks of [`lode_policy::request_oriented`] say: the same as in the simulation of
//! processes. What a guest tells of waiting is a read, a write with FUA, and a FLUSH.
//!
//! What could go wrong, and what keeps it from doing so:
//! - The disk's completion may come long after the guest was answered. Until it comes the block stays in flight, and
//!   whatever else concerns the disk waits: write-backs, cleanings, trims and zeroings, other writes of the block there.
//!   So an old write never arrives after a newer one. What the SSD serves goes on.
//! - The SSD's copy is dirty, in a place and with a journal record of its own. A restart that finds the record believes the
//!   copy and not the disk, whatever arrived there of the old write. Before the old write was sent no older copy was left
//!   that could come back, as before every write to the disk.
//! - Only the newest write of a block is issued again, and only as a whole: the rest of the block would have to come from
//!   the same slow disk.
//! - The bytes are the engine's own copy: the guest may reuse its buffer when it was answered.
//!
//! It must not know who waits and why.

use lode_policy::request_oriented::{Admission, Completion, Consequence, Device, Verdict, WriteId};
use lode_policy::schemes::request_oriented::WAITED_FOR;
use lode_policy::{Effect, Scheme};
use lode_types::{Access, BlockNo, Direction, blocks_of};
use slab::Slab;

use crate::blocks::{AccessOp, Flight, Op, Place, SsdCopy, Stage};
use crate::command::{DeviceId, MediaError};
use crate::engine::Engine;
use crate::guest::{GuestError, Served};
use crate::io::{Owner, Want};
use crate::op_read::padded;

/// A write on its way to the backing disk that the hooks know. It stays with its block until the disk is through with it,
/// also when the SSD was faster.
#[derive(Debug)]
pub(crate) struct DiskWrite {
    id: WriteId,
    /// Place and checksum of the copy on its way to the SSD.
    copy: Option<(Place, u32)>,
    /// The disk failed, and the SSD is still at it.
    error: Option<GuestError>,
}

/// The writes that the hooks know, and what became of those issued again.
#[derive(Debug, Default)]
pub(crate) struct Reissues {
    /// Their blocks, by number.
    writes: Slab<BlockNo>,
    pub(crate) issued: u64,
    pub(crate) refused: u64,
    pub(crate) discarded: u64,
}

impl Engine {
    fn hooks(&mut self) -> &mut Admission {
        self.scheme.reissuing().expect("only such schemes list writes").hooks()
    }

    /// Whether the hooks want the block's dirty copy held.
    pub(crate) fn is_destage_held(&mut self, block: BlockNo) -> bool {
        self.scheme.reissuing().is_some_and(|cache| cache.hooks().holds_destage(block))
    }

    /// A write of this block begins its way to the backing disk. The hooks hear of those that were not admitted; one that
    /// found no room is left to the disk.
    pub(crate) fn tell_hooks_of(&mut self, block: BlockNo, op: &AccessOp) {
        let partial = (op.len as usize) < self.block_len(block);
        let access = Access { block, op: Direction::Write, partial, origin: self.origin_of(op.request) };
        let Some(cache) = self.scheme.reissuing() else { return };
        if op.to_ssd.is_some() || cache.on_submit(&access) == Verdict::Cache {
            return;
        }
        let id = self.reissues.writes.insert(block) as WriteId;
        let write = cache.submitted(id, &access);
        cache.hooks().on_disk(&write);
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        debug_assert!(flight.disk_write.is_none(), "writes to the disk wait for older ones of their block");
        flight.disk_write = Some(DiskWrite { id, copy: None, error: None });
    }

    /// Somebody waits for a read or write of these bytes, and so for the writes that are ahead of it on their way to the
    /// disk. Comes before anything of it is decided; places that it may need itself are left to it.
    pub(crate) fn issue_overlapped_again(&mut self, offset: u64, length: u64) {
        if self.reissues.writes.is_empty() {
            return;
        }
        let parts = blocks_of(self.config.block, offset, length);
        let places_needed = parts.len() as u32;
        for part in parts {
            let is_on_its_way =
                |flight: &Flight| matches!(flight.stage, Stage::WriteBacking) && flight.disk_write.is_some();
            if self.blocks.get(part.block).is_some_and(is_on_its_way) {
                let mut out = Vec::new();
                self.hooks().on_overlap(WAITED_FOR, part.block, 1, &mut out);
                self.issue_again(&out, places_needed);
            }
        }
    }

    /// Somebody waits for a flush.
    pub(crate) fn issue_all_again(&mut self) {
        if !self.reissues.writes.is_empty() {
            let mut out = Vec::new();
            self.hooks().on_flush(WAITED_FOR, &mut out);
            self.issue_again(&out, 0);
        }
    }

    fn issue_again(&mut self, consequences: &[Consequence], places_needed: u32) {
        for consequence in consequences {
            // Nobody inherits anything here.
            let &Consequence::Reissue(id) = consequence else { continue };
            let block = self.reissues.writes[id as usize];
            match self.to_be_issued_again(block, places_needed) {
                Some(op) if self.take_in(block) => {
                    self.reissues.issued += 1;
                    self.write_again(block, &op);
                }
                _ => {
                    self.reissues.refused += 1;
                    self.hooks().on_no_room(id);
                }
            }
        }
    }

    /// The write at the head of the block's queue, if it can be issued again.
    fn to_be_issued_again(&self, block: BlockNo, places_needed: u32) -> Option<AccessOp> {
        let flight = self.blocks.get(block)?;
        let mut queue = flight.queue.iter();
        let Some(Op::Access(op)) = queue.next() else { return None };
        let is_whole = op.len as usize >= self.block_len(block);
        let is_newest = queue.all(|op| matches!(op, Op::Access(op) if !op.is_write));
        let is_alone = flight.copy == SsdCopy::None;
        let has_room = self.ssd.as_ref().is_some_and(|ssd| ssd.store.places().available() > places_needed);
        (is_whole && is_newest && is_alone && has_room && self.health.is_well()).then_some(*op)
    }

    /// Asks the scheme to cache the block, and carries out what follows. False: it has no room.
    fn take_in(&mut self, block: BlockNo) -> bool {
        let mut effects: Vec<Effect> = Vec::new();
        if let Some(cache) = self.scheme.reissuing() {
            cache.take_in(block, &mut effects);
        }
        let mut is_taken = false;
        for effect in &effects {
            self.counters.effect(effect);
            if let &Effect::WriteLevel { level, slot, .. } = effect {
                self.assign(block, level, slot);
                is_taken = true;
            } else {
                self.background(effect);
            }
        }
        is_taken
    }

    fn write_again(&mut self, block: BlockNo, op: &AccessOp) {
        let data = padded(self.payload(op), self.config.block.bytes() as usize);
        let ssd = self.ssd.as_mut().expect("it has a place available");
        ssd.store.places_mut().reserve();
        let place = ssd.store.places_mut().take_reserved();
        let crc = ssd.store.places().checksum(block, data.as_slice());
        let want = Want {
            device: DeviceId::Ssd,
            offset_bytes: ssd.store.offset(place),
            len: data.len(),
            data: Some(data),
            owner: Owner::Reissue(block),
        };
        self.io.want(want);
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        flight.disk_write.as_mut().expect("the hooks know it").copy = Some((place, crc));
    }

    /// The backing disk is through with a guest's write.
    pub(crate) fn disk_write_done(&mut self, block: BlockNo, result: Result<(), MediaError>) {
        let Some(flight) = self.blocks.get(block) else { return };
        let Some(&DiskWrite { id, copy, .. }) = flight.disk_write.as_ref() else {
            self.block_io_done(block, result, &[]);
            return;
        };
        let completion = self.hooks().on_complete(id, Device::Disk, result.is_ok());
        match completion {
            Completion::Discard => self.late_write_arrived(block),
            // The SSD has no part in it, or no more.
            Completion::Acknowledge | Completion::Fail if copy.is_none() => {
                self.forget_disk_write(block);
                self.block_io_done(block, result, &[]);
            }
            Completion::Acknowledge => {
                self.backing.wrote(block);
                self.set_stage(block, Stage::WriteAgain);
                let request = self.reissued(block).request;
                self.request_part_done(request, Served::Backing);
            }
            Completion::Wait | Completion::Fail => {
                self.backing.wrote(block);
                let flight = self.blocks.get_mut(block).expect("the block is in flight");
                let write = flight.disk_write.as_mut().expect("the hooks know it");
                write.error = result.err().map(GuestError::from);
            }
        }
    }

    /// The SSD is through with a write that was issued again.
    pub(crate) fn reissue_done(&mut self, block: BlockNo, result: Result<(), MediaError>) {
        let Some(flight) = self.blocks.get_mut(block) else { return };
        let Some(write) = &mut flight.disk_write else { return };
        let (id, error) = (write.id, write.error);
        let Some((place, crc)) = write.copy.take() else { return };
        // After a failure there must come nothing more that is newer than the backing disk.
        let ok = result.is_ok() && self.health.is_well();
        let mut version = 0;
        if ok {
            version = self.put_on_ssd(block, place, crc, true);
        } else {
            self.place_failed(place);
        }
        let op = self.reissued(block);
        match self.hooks().on_complete(id, Device::Cache, ok) {
            Completion::Acknowledge => {
                // Otherwise the disk still has it.
                if error.is_some() {
                    self.forget_disk_write(block);
                }
                self.requests[op.request].kept_version = version;
                self.request_part_done(op.request, Served::Ssd);
                self.op_done(block);
            }
            Completion::Wait => {}
            Completion::Discard => {
                self.reissues.discarded += 1;
                self.forget_disk_write(block);
                self.op_done(block);
            }
            Completion::Fail => {
                self.forget_disk_write(block);
                self.access_failed(block, &op, error.unwrap_or(GuestError::Io));
            }
        }
    }

    /// The operation of a write that was issued again: it is the head until one device has acknowledged it, and until the
    /// SSD is through with it.
    fn reissued(&self, block: BlockNo) -> AccessOp {
        match self.blocks.get(block).and_then(|flight| flight.queue.front()) {
            Some(&Op::Access(op)) => op,
            other => unreachable!("{other:?} is not a write that was issued again"),
        }
    }

    /// An old write is through at the backing disk, or failed there: its guest was answered, and the SSD has the block. What
    /// waited for it goes on.
    fn late_write_arrived(&mut self, block: BlockNo) {
        self.reissues.discarded += 1;
        self.backing.wrote(block);
        self.forget_disk_write(block);
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        if matches!(flight.stage, Stage::Late) {
            flight.stage = Stage::Start;
            self.runnable.push_back(block);
        }
    }

    fn forget_disk_write(&mut self, block: BlockNo) {
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        if let Some(DiskWrite { id, .. }) = flight.disk_write.take() {
            self.reissues.writes.remove(id as usize);
        }
    }
}
