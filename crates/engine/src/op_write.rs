//! Writes and evictions.
//!
//! The order of a write that ends on the backing disk is what keeps a power cut harmless: first no
//! durable record may be left that would bring back an older copy from the SSD, then the disk is
//! written.

use lode_types::{BlockNo, Buf, ByteList, Bytes, Level};

use crate::blocks::{AccessOp, Op, Place, Source, SsdCopy, Stage};
use crate::command::{DeviceId, MediaError};
use crate::engine::Engine;
use crate::guest::{GuestError, Served};
use crate::io::{Owner, Want};

impl Engine {
    pub(crate) fn start_write(&mut self, block: BlockNo, op: AccessOp) {
        let whole = op.len as usize >= self.block_len(block);
        let flight = self.blocks.get(block).expect("the block is in flight");
        let must_write_back = self.must_write_back_first(block, &op);
        let source = flight.source(op.merge.unwrap_or(Source::Backing));
        // Old bytes that are lost cannot be merged, and without a place there is nowhere to write to.
        let is_hopeless = (source.is_none() && !whole)
            || (flight.backing_failed && must_write_back)
            || (!op.holds_place && !op.to_backing);
        if is_hopeless || !self.health.is_well() {
            self.access_failed(block, &op, GuestError::Io);
            return;
        }
        if must_write_back {
            let flight = self.blocks.get_mut(block).expect("the block is in flight");
            flight.queue.push_front(Op::Evict(Level::Ssd));
            self.start_evict(block);
            return;
        }
        if op.to_ssd.is_none() || whole {
            self.merged(block, op, None);
            return;
        }
        match (source, flight.frame) {
            (Some(Source::Dram), Some(frame)) => {
                let old = Buf::copy_of(self.dram.bytes(frame));
                self.merged(block, op, Some(old));
            }
            (source, _) => {
                let source = source.unwrap_or(Source::Backing);
                self.fetch(block, source, Stage::Merge(source));
            }
        }
    }

    /// Whether the block's dirty copy must reach the backing disk before this write goes there too.
    /// Schemes that write to the disk keep nothing dirty, but an earlier life under another scheme may
    /// have left something. A lost copy has nothing to write.
    fn must_write_back_first(&self, block: BlockNo, op: &AccessOp) -> bool {
        (op.to_backing || op.drop_ssd) && self.dirty_copy(block).is_some()
    }

    pub(crate) fn merge_was_read(
        &mut self,
        block: BlockNo,
        op: AccessOp,
        source: Source,
        result: Result<(), MediaError>,
        data: Buf,
    ) {
        if self.is_good(block, source, result, data.as_slice()) {
            self.merged(block, op, Some(data.padded(self.config.block.bytes() as usize)));
        } else if source == Source::Backing {
            self.access_failed(block, &op, GuestError::Io);
        } else {
            self.start_write(block, op);
        }
    }

    /// The whole block is known, as far as it is needed: drop what is stale and write.
    fn merged(&mut self, block: BlockNo, op: AccessOp, old: Option<Buf>) {
        let full = op.to_ssd.is_some().then(|| self.whole_block(&op, old));
        if !op.to_backing {
            self.write_to_ssd(block, op, full.expect("a write goes somewhere"));
            return;
        }
        self.drop_frame(block);
        self.drop_mirror(block);
        self.blocks.get_mut(block).expect("the block is in flight").full = full;
        match self.give_up_for_write(block) {
            Some(version) => self.gate(version, block),
            None => self.write_backing(block, op),
        }
    }

    /// Writes the block to the SSD, and to DRAM what shall be there too. The copies that there are stay until the SSD
    /// has the new one: should it fail, the old bytes are theirs.
    fn write_to_ssd(&mut self, block: BlockNo, mut op: AccessOp, full: Bytes) {
        if op.holds_frame {
            // A frame does not keep the bytes of a longer request in memory.
            let is_apart = self.requests[op.request].data.iter().all(|bytes| bytes.len() <= full.len());
            let bytes = if is_apart { full.clone() } else { Buf::copy_of(&full).freeze() };
            let frame = self.dram.store_reserved(block, bytes);
            self.blocks.get_mut(block).expect("the block is in flight").next_frame = Some(frame);
        }
        (op.holds_frame, op.holds_place) = (false, false);
        let place = self.take_place();
        self.update_head(block, op);
        self.write_ssd(block, place, full);
    }

    /// The block was written: what it had beside the SSD is stale.
    fn renew_spares(&mut self, block: BlockNo) {
        self.drop_frame(block);
        self.drop_mirror(block);
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        flight.frame = flight.next_frame.take();
    }

    /// Gives up the SSD's clean copy of a block that is about to be written on the backing disk. Returns
    /// the version that must be durable first, if any. A damaged copy stays until the disk durably has
    /// the new bytes: without it a power cut would bring back what the disk had before.
    fn give_up_for_write(&mut self, block: BlockNo) -> Option<u64> {
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        let ssd = self.ssd.as_mut()?;
        match flight.copy {
            SsdCopy::Lost(_) => return None,
            SsdCopy::Whole(place) => {
                flight.copy = SsdCopy::None;
                ssd.store.places_mut().give_up_clean(place);
            }
            SsdCopy::None => {}
        }
        ssd.store.places().may_come_back(block).then(|| ssd.store.places().version())
    }

    /// The bytes of a guest's write that belong to this block: where they are, if they are in one place there.
    fn payload(&self, op: &AccessOp) -> Bytes {
        let (mut skip, mut missing) = (op.buf_at as usize, op.len as usize);
        let mut found = ByteList::new();
        for bytes in &self.requests[op.request].data {
            let part = skip.min(bytes.len())..(skip + missing).min(bytes.len());
            skip -= part.start;
            missing -= part.len();
            if !part.is_empty() {
                found.push(bytes.slice(part));
            }
            if missing == 0 {
                break;
            }
        }
        if let [only] = &found[..] { only.clone() } else { Buf::copy_of(&found.concat()).freeze() }
    }

    /// The whole block as it is after a write: `old`, where the write covers only a part, with the guest's bytes in it.
    pub(crate) fn whole_block(&self, op: &AccessOp, old: Option<Buf>) -> Bytes {
        let block_bytes = self.config.block.bytes() as usize;
        let payload = self.payload(op);
        if payload.len() == block_bytes {
            return payload;
        }
        // What the volume's last block lacks to a whole one is zero.
        let mut full = old.unwrap_or_else(|| Buf::zeroed(block_bytes));
        full.as_mut_slice()[op.start as usize..][..payload.len()].copy_from_slice(&payload);
        full.freeze()
    }

    fn write_backing(&mut self, block: BlockNo, op: AccessOp) {
        let data = self.payload(&op);
        self.set_stage(block, Stage::WriteBacking);
        self.tell_hooks_of(block, &op);
        self.io.want(Want {
            device: DeviceId::Backing,
            offset_bytes: self.config.block.start_of(block) + u64::from(op.start),
            len: data.len(),
            data: Some(data),
            owner: Owner::DiskWrite(block),
        });
    }

    /// What a block waited to be durable now is.
    pub(crate) fn gate_opened(&mut self, block: BlockNo) {
        let Some(flight) = self.blocks.get(block) else { return };
        match flight.queue.front() {
            Some(Op::Evict(_) | Op::Repair) if flight.copy.place().is_some() => self.start_evict(block),
            Some(Op::Evict(_) | Op::Repair) => self.op_done(block),
            Some(Op::Clean { .. }) => self.start_clean(block),
            Some(&Op::Access(op)) if op.on_backing => self.backing_has_it(block, op),
            Some(&Op::Access(op)) => self.write_backing(block, op),
            other => unreachable!("{other:?} waits at no gate"),
        }
    }

    pub(crate) fn backing_was_written(
        &mut self,
        block: BlockNo,
        op: AccessOp,
        result: Result<(), MediaError>,
    ) {
        self.backing.wrote(block);
        if let Err(error) = result {
            self.access_failed(block, &op, error.into());
            return;
        }
        let is_lost = self.blocks.get(block).is_some_and(|flight| flight.copy.is_lost());
        if !is_lost {
            self.backing_has_it(block, op);
        } else if !self.health.is_well() {
            self.access_failed(block, &op, GuestError::Io);
        } else {
            self.update_head(block, AccessOp { on_backing: true, ..op });
            self.set_stage(block, Stage::Destage);
            self.destage.written(block, self.backing.mark());
        }
    }

    /// The backing disk has the bytes and no older copy can come back: the guest is answered.
    fn backing_has_it(&mut self, block: BlockNo, op: AccessOp) {
        self.request_part_done(op.request, Served::Backing);
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        match flight.full.take().filter(|_| op.holds_place) {
            Some(full) => {
                let place = self.take_place();
                self.update_head(block, AccessOp { holds_place: false, ..op });
                self.write_ssd(block, place, full);
            }
            None => self.op_done(block),
        }
    }

    /// A block was written to the SSD for a guest's write, a fill or a write-through.
    pub(crate) fn ssd_was_written(
        &mut self,
        block: BlockNo,
        op: AccessOp,
        place: Place,
        crc: u32,
        result: Result<(), MediaError>,
    ) {
        let waits_for_it = op.is_write && !op.to_backing;
        // After a failure there must come nothing more that is newer than the backing disk.
        if result.is_err() || (waits_for_it && !self.health.is_well()) {
            self.place_failed(place);
            if waits_for_it {
                self.write_to_disk_instead(block, op);
            } else {
                self.op_done(block);
            }
            return;
        }
        let version = self.put_on_ssd(block, place, crc, waits_for_it);
        if waits_for_it {
            self.renew_spares(block);
            self.requests[op.request].kept_version = version;
            self.request_part_done(op.request, Served::Ssd);
        }
        self.op_done(block);
    }

    /// The SSD could not take a guest's write; the backing disk can. The block is not cached then.
    fn write_to_disk_instead(&mut self, block: BlockNo, op: AccessOp) {
        self.update_head(block, AccessOp { to_ssd: None, to_backing: true, holds_place: false, ..op });
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        flight.stage = Stage::Start;
        flight.full = None;
        if let Some(frame) = flight.next_frame.take() {
            self.dram.release(frame);
        }
        self.runnable.push_back(block);
    }

    /// Notes a new copy on the SSD; it supersedes the block's old one. Returns its version.
    pub(crate) fn put_on_ssd(&mut self, block: BlockNo, place: Place, crc: u32, dirty: bool) -> u64 {
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        let old = std::mem::replace(&mut flight.copy, SsdCopy::Whole(place)).place();
        let volatile = !dirty && self.backing.is_unstable(block);
        let places = self.ssd.as_mut().expect("a place is on an SSD").store.places_mut();
        places.put(place, block, crc, dirty, volatile, old);
        let version = places.version();
        if volatile {
            self.backing.remember_volatile(place, version);
        }
        version
    }

    /// A write to this place failed: it is not used again, and the share shrinks by it.
    pub(crate) fn place_failed(&mut self, place: Place) {
        if let Some(ssd) = &mut self.ssd {
            ssd.store.places_mut().quarantine(place);
            self.lost_places += 1;
        }
    }

    /// Takes the block off the SSD, by way of the backing disk if need be.
    pub(crate) fn start_evict(&mut self, block: BlockNo) {
        let dirty = self.dirty_copy(block);
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        flight.backing_failed = false;
        if let Some(place) = dirty {
            self.write_back(block, place);
            return;
        }
        if let (Some(place), Some(ssd)) = (flight.copy.whole(), &mut self.ssd) {
            flight.copy = SsdCopy::None;
            ssd.store.places_mut().give_up_clean(place);
        }
        self.op_done(block);
    }

    /// Writes a damaged copy back from a spare one, if that is still so.
    pub(crate) fn start_repair(&mut self, block: BlockNo) {
        match self.blocks.get(block).is_some_and(|flight| flight.copy.is_lost()) {
            true => self.start_evict(block),
            false => self.op_done(block),
        }
    }

    /// Writes the block's dirty copy back. The disk is not touched before the journal durably knows the copy, or after a
    /// failure before the next start is sure to distrust clean copies: an older, clean copy that came back would be
    /// older than the disk.
    pub(crate) fn write_back(&mut self, block: BlockNo, place: Place) {
        debug_assert!(!self.is_destage_held(block), "block {block} waits for an older write");
        let ssd = self.ssd.as_ref().expect("a place is on an SSD");
        let version = ssd.store.places().entry(place).version;
        if !self.writes_back() {
            self.op_done(block);
        } else if version > ssd.store.durable_version() && self.health.is_well() {
            self.gate(version, block);
        } else {
            self.set_stage(block, Stage::Destage);
            self.destage.add(block);
        }
    }
}
