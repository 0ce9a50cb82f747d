//! What blocks in flight need done: their state machines are told what happened, and what they say is next is carried to the
//! levels, to devices, to guests and to those who decide whose turn it is.

use lode_types::{BlockNo, Buf, Bytes, Level, MediaError, planted};

use super::Engine;
use crate::command::DeviceId;
use crate::flight::{
    AccessKind, Act, BlockAccess, BlockOp, CopyAt, Damage, Facts, Fill, Flight, Input, Next, Place, Put,
    RequestSlice, SsdCopy, Stage,
};
use crate::guest::GuestError;
use crate::io::{Find, Owner, Want};

/// Bytes of a block that were just read and are as they should be, with zeroes up to a whole block.
#[derive(Debug, Default)]
pub(super) enum AtHand {
    #[default]
    Nothing,
    /// To put a guest's bytes into.
    Old(Buf),
    /// For all who want them.
    Shared(Bytes),
}

impl AtHand {
    fn shared(&self) -> Option<&Bytes> {
        if let AtHand::Shared(bytes) = self { Some(bytes) } else { None }
    }
}

impl Engine {
    /// What is true of the world for this flight.
    pub(super) fn facts(&self, block: BlockNo, flight: &Flight) -> Facts {
        let store = self.levels.store();
        let retiring_from = store.and_then(|store| store.retiring_from());
        let is_recorded =
            |place| store.is_some_and(|store| store.places().recorded_at(place) <= store.durable_version());
        let is_whole = |slice: &RequestSlice| slice.len as usize >= self.block_len(block);
        Facts {
            is_well: self.health.is_well(),
            writes_back: self.health.writes_back(),
            is_ordered: self.ordered.is_some() && !planted("evicted-past-groups"),
            is_dirty: self.levels.is_dirty(flight.copy()),
            is_owed: self.ordered.as_ref().is_some_and(|ordered| ordered.is_owed(block))
                && !planted("rewritten-block-is-clean"),
            is_recorded: flight.copy().place().is_some_and(is_recorded),
            may_come_back: flight.stage() == Stage::GivenUp
                && store.is_some_and(|store| store.places().may_come_back(block)),
            is_whole: flight.access().is_some_and(|access| is_whole(&access.slice)),
            is_in_sectors: flight.access().is_some_and(|access| self.is_in_sectors(block, &access.slice)),
            leaves_extent: self.health.is_well()
                && retiring_from
                    .is_some_and(|first| flight.copy().whole().is_some_and(|place| place >= first)),
            is_read_ssd_gone: self.levels.read_ssd().is_gone(),
        }
    }

    /// Tells a block in flight what happened, and carries out what follows.
    pub(super) fn advance(&mut self, block: BlockNo, input: Input, mut at_hand: AtHand) {
        if let Some((request, cause)) = self.flights.of(block).waits_for() {
            self.requests.waited(request, cause);
        }
        let mut input = Some(input);
        while let Some(happened) = input {
            let facts = self.facts(block, self.flights.of(block));
            let next = self.flights.of_mut(block).step(happened, &facts);
            input = self.carry_out(block, next, &mut at_hand);
        }
    }

    /// Carries out what is next for a block. What happened thereby at once, if anything did.
    fn carry_out(&mut self, block: BlockNo, next: Next, at_hand: &mut AtHand) -> Option<Input> {
        let slice = self.flights.of(block).access().map(|access| access.slice);
        if let Some(damage) = next.damage {
            self.note_damage(block, damage);
        }
        if let Some(put) = next.put {
            let version = self.put_on_ssd(block, put);
            match slice {
                Some(slice) if put.dirty => self.requests.keep_until(slice.request, version),
                None if put.dirty => self.drain.moved(version),
                _ => {}
            }
        }
        if let Some(place) = next.bad_place {
            self.levels.quarantine(place);
        }
        if let Some(place) = next.give_up {
            self.levels.places().give_up_clean(place);
        }
        if let Some(place) = next.give_up_dirty {
            self.levels.places().give_up_dirty(place);
        }
        if next.deliver {
            let frame = self.flights.of(block).frame();
            let bytes = at_hand.shared().or_else(|| Some(self.levels.frame_bytes(frame?)));
            let slice = slice.expect("a read is at the head");
            self.requests.deliver(block, &slice, bytes.expect("its bytes are there"));
        }
        if next.capture {
            let frame = self.flights.of(block).frame();
            let bytes = at_hand.shared().or_else(|| Some(self.levels.frame_bytes(frame?)));
            let bytes = bytes.expect("its bytes are there").clone();
            self.captured(block, bytes);
        }
        if let Some(frame) = next.free_frame {
            self.levels.release_frame(frame);
        }
        if let Some(place) = next.free_mirror {
            self.levels.release_mirror(place);
        }
        if let Some(fill) = next.fill_frame {
            self.fill_frame(block, fill, at_hand);
        }
        if let Some(end) = next.end {
            self.end_part(slice.expect("an access is at the head").request, end);
        }
        self.act(block, next.act, at_hand)
    }

    fn act(&mut self, block: BlockNo, act: Act, at_hand: &mut AtHand) -> Option<Input> {
        match act {
            Act::Wait => {}
            Act::Proceed => return Some(Input::Proceed),
            Act::Queue => self.flights.make_runnable(block),
            Act::Leave => self.leave_flight(block),
            Act::Finish => self.finish(block),
            Act::Fetch(copy) => self.fetch(block, copy, Owner::Block(block)),
            Act::Merge => {
                self.merge(block, at_hand);
                return Some(Input::Proceed);
            }
            Act::WriteSsd => self.write_ssd(block, at_hand),
            Act::WriteReadSsd => self.write_read_ssd(block),
            Act::WriteBacking => self.write_backing(block),
            Act::AwaitGate(gate) => {
                let place = self.flights.of(block).copy().place();
                let version = self.levels.version_at(gate, place);
                return self.await_version(block, version);
            }
            Act::WriteBack => {
                assert!(!self.front.holds_write_back(block), "block {block} waits for an older write");
                self.disk.destage_mut().add(block);
            }
            Act::AwaitFlush => self.disk.await_flush(block),
            Act::NoteWrittenBack { place, stays } => {
                let copy = self.flights.of(block).copy();
                assert!(stays != (copy == SsdCopy::None), "a copy that goes is not the block's any more");
                self.drain.written_back(stays);
                let is_well = self.health.is_well();
                if !is_well {
                    // The journal takes nothing any more.
                    self.levels.places().clean_unrecorded(place);
                    return Some(Input::NeverDurable);
                }
                let version = self.levels.written_back(place, stays);
                return self.await_version(block, version);
            }
            Act::AwaitTurn => {
                self.copies.push(block);
                if self.flights.of(block).is_waited_for() {
                    self.copies.put_first(block);
                }
            }
            Act::AwaitPlace(level) => {
                let flight = self.flights.of_mut(block);
                let in_frame = |frame| self.levels.frame_bytes(frame);
                let bytes = at_hand.shared().or_else(|| flight.frame().map(in_frame)).cloned();
                flight.set_bytes(bytes);
                self.copies.wait_for_place(block, level);
            }
            Act::Hold => self.disk.range_holds_one_more(),
        }
        None
    }

    /// A copy was found damaged: it is not used again, and an operator hears of it, unless it went with an SSD of a pair.
    pub(super) fn note_damage(&mut self, block: BlockNo, damage: Damage) {
        match damage {
            Damage::Clean(place) if self.levels.places().is_dropped(place) => {
                self.gauges.dropped_clean_copies += 1;
            }
            damage => self.alarms.note_damage(damage),
        }
        // Of a pair, the SSD that does not take what is written there next is dropped, and no place fails.
        self.levels.note_damage(damage, !self.config.ssd_is_pair);
        self.flights.note_damage(block);
    }

    /// Waits at a gate until `version` is durable.
    fn await_version(&mut self, block: BlockNo, version: u64) -> Option<Input> {
        if !self.health.is_well() {
            return Some(Input::NeverDurable);
        }
        self.flights.wait_at_gate(block, version);
        None
    }

    /// The operation at the head is over.
    fn finish(&mut self, block: BlockNo) {
        match self.flights.of_mut(block).finish() {
            Some(BlockOp::Access(access)) => self.levels.unreserve(access.reserved),
            Some(BlockOp::Clean { asked }) => self.clean_ended(block, asked),
            Some(BlockOp::Copy { .. }) => self.copies.ended(),
            Some(BlockOp::Scrub) => self.scrub.ended(),
            Some(BlockOp::Capture) => self.capture_ended(block),
            Some(BlockOp::Settle) => self.settle_ended(block),
            Some(BlockOp::Move) => {
                self.copies.ended();
                self.space.move_ended();
            }
            _ => {}
        }
        self.flights.make_runnable(block);
    }

    /// A cleaning has left its block's queue. A scheme that asked for it knows; were it told again, what it knows of a write
    /// that came in between would depend on how fast the devices are.
    fn clean_ended(&mut self, block: BlockNo, asked: bool) {
        let flight = self.flights.of(block);
        let (stays, will_be_written) = (flight.stays_on_ssd(), flight.will_be_written());
        let failed = flight.dirty_copy(&self.facts(block, flight)).is_some();
        self.drain.ended(failed);
        self.background.ended(failed);
        if stays && !failed && !will_be_written && !asked {
            self.front.cleaned(block);
        }
    }

    /// The block has no more operations: its copies go to its slots.
    fn leave_flight(&mut self, block: BlockNo) {
        let Some(mut flight) = self.flights.leave(block) else { return };
        // Before anything is decided that could free what must be kept.
        let keep_spares = flight.stands_in(&self.facts(block, &flight));
        let is_dirty = self.levels.is_dirty(flight.copy());
        let slot = flight.slot(Level::Ssd).filter(|_| is_dirty && flight.stays_on_ssd());
        if slot.is_some() {
            self.note_dirty_slot(block, slot);
        }
        if flight.copy().is_lost() {
            // Out of the scheme's hands until it is repaired or overwritten, the copies beside it included.
            for level in Level::ALL {
                if flight.take_slot(level).is_some() {
                    self.front.forget(level, block);
                }
            }
        }
        let kept = self.levels.settle(flight, keep_spares, |level| self.front.forget(level, block));
        self.flights.keep(block, kept);
    }

    /// Notes a new copy on the SSD. Returns its version.
    pub(super) fn put_on_ssd(&mut self, block: BlockNo, put: Put) -> u64 {
        let (version, is_volatile) = self.levels.put(block, put, self.disk.is_unstable(block));
        if is_volatile {
            self.disk.remember_volatile(put.place, version);
        }
        version
    }

    fn fill_frame(&mut self, block: BlockNo, fill: Fill, at_hand: &AtHand) {
        let flight = self.flights.of_mut(block);
        let bytes = match (fill, flight.access(), flight.bytes()) {
            // A frame does not keep the bytes of a longer request in memory.
            (Fill::WhenWritten, Some(access), Some(bytes)) => {
                match self.requests.is_short(access.slice.request, bytes.len()) {
                    true => bytes.clone(),
                    false => Buf::copy_of(bytes).freeze(),
                }
            }
            _ => at_hand.shared().expect("what fills a frame was read").clone(),
        };
        let frame = self.levels.fill_frame(block, bytes);
        flight.fill(fill, frame);
    }

    /// Reads the block's bytes from a device.
    pub(super) fn fetch(&mut self, block: BlockNo, copy: CopyAt, owner: Owner) {
        let (device, offset_bytes, len) = match copy {
            CopyAt::Backing => (DeviceId::Backing, self.config.block.start_of(block), self.block_len(block)),
            copy => {
                let (device, offset_bytes) = self.levels.location(copy, self.flights.of(block));
                (device, offset_bytes, self.config.block.bytes() as usize)
            }
        };
        let find = self.to_find(block, copy);
        let one_copy = find.is_some() && !self.levels.is_dirty(self.flights.of(block).copy());
        self.io.want(Want { device, offset_bytes, len, data: None, owner, find, one_copy });
    }

    /// What a read of this copy is to find, for a pair of SSDs.
    fn to_find(&self, block: BlockNo, copy: CopyAt) -> Option<Find> {
        let flight = self.flights.of(block);
        let place = flight.copy().place().filter(|_| self.config.ssd_is_pair && copy == CopyAt::Ssd)?;
        let held = self.levels.store()?.places().held(place);
        let every_copy = matches!(flight.ops().next(), Some(BlockOp::Scrub));
        Some(Find { block, crc: held.crc, every_copy })
    }

    /// Puts the whole block together from the guest's bytes and, where they are a part of it, the old ones.
    fn merge(&mut self, block: BlockNo, at_hand: &mut AtHand) {
        let flight = self.flights.of_mut(block);
        let slice = flight.access().expect("a write is at the head").slice;
        let whole = self.config.block.bytes() as usize;
        let old = match (std::mem::take(at_hand), flight.frame()) {
            _ if slice.len as usize == whole => None,
            (AtHand::Old(old), _) => Some(old),
            (_, frame) => frame.map(|frame| Buf::copy_of(self.levels.frame_bytes(frame))),
        };
        flight.set_bytes(Some(self.requests.whole_block(&slice, whole, old)));
    }

    /// Writes a whole block to a place on the SSD: what was put together of it, or what was just read.
    fn write_ssd(&mut self, block: BlockNo, at_hand: &AtHand) {
        let flight = self.flights.of_mut(block);
        let data = flight.take_bytes().or_else(|| at_hand.shared().cloned());
        let data = data.expect("what is written is there");
        let (is_copy, is_dirty) =
            (flight.access().is_none(), flight.puts_dirty(self.levels.is_dirty(flight.copy())));
        let place = if is_copy { self.levels.take_place() } else { self.levels.take_reserved_place() };
        let crc = self.want_ssd_write(block, place, data, (Owner::Block(block), is_dirty));
        self.flights.of_mut(block).writes_to(place, crc);
    }

    /// Wants a block written to a place of the SSD, which `is_dirty` there or equals the backing disk. Gives its checksum.
    pub(super) fn want_ssd_write(
        &mut self,
        block: BlockNo,
        place: Place,
        data: Bytes,
        (owner, is_dirty): (Owner, bool),
    ) -> u32 {
        let store = self.levels.store().expect("a place is on an SSD");
        let crc = store.places().checksum(block, &data);
        let offset_bytes = store.offset(place);
        let one_copy = self.config.ssd_is_pair && (!is_dirty || planted("dirty-block-on-one-ssd"));
        self.io.want(Want { one_copy, ..Want::write(DeviceId::Ssd, offset_bytes, data, owner) });
        crc
    }

    fn write_read_ssd(&mut self, block: BlockNo) {
        let flight = self.flights.of_mut(block);
        let data = flight.take_bytes().expect("what is copied is there");
        let (place, crc, offset_bytes) = self.levels.take_mirror(block, &data);
        flight.writes_to(place, crc);
        self.io.want(Want::write(DeviceId::ReadSsd, offset_bytes, data, Owner::Block(block)));
    }

    /// Whether a part of a block begins and ends between sectors; the volume's last one may be short.
    fn is_in_sectors(&self, block: BlockNo, slice: &RequestSlice) -> bool {
        slice.sectors(self.block_len(block)) == (slice.start..slice.start + slice.len)
    }

    /// Writes a guest's bytes to the backing disk, and of sectors that they cut the rest with them.
    fn write_backing(&mut self, block: BlockNo) {
        let flight = self.flights.of(block);
        let access = *flight.access().expect("a write is at the head");
        let sectors = access.slice.sectors(self.block_len(block));
        let data = match self.is_in_sectors(block, &access.slice) {
            true => self.requests.payload(&access.slice),
            false => {
                let whole = flight.bytes().expect("the old bytes were merged");
                whole.slice(sectors.start as usize..sectors.end as usize)
            }
        };
        // Nothing becomes dirty past groups.
        if access.kind == AccessKind::WriteAround && self.ordered.is_none() {
            self.list_for_reissue(block, &access.slice);
        }
        let offset_bytes = self.config.block.start_of(block) + u64::from(sectors.start);
        self.io.want(Want::write(DeviceId::Backing, offset_bytes, data, Owner::DiskWrite(block)));
    }

    /// A command for the operation at the head of a block's queue has ended.
    pub(super) fn block_command_ended(&mut self, block: BlockNo, result: Result<(), MediaError>, data: Buf) {
        let Some(flight) = self.flights.get(block) else { return };
        let written = Input::Written(result.map_err(GuestError::from));
        match flight.stage() {
            Stage::Read(copy) => {
                let is_merge = flight.access().is_some_and(BlockAccess::is_write);
                let intact = self.levels.is_intact(copy, flight, result, data.as_slice())
                    || (flight.is_moving() && planted("damaged-block-moves"));
                let whole = self.config.block.bytes() as usize;
                let at_hand = match (intact, is_merge) {
                    (false, _) => AtHand::Nothing,
                    (true, true) => AtHand::Old(data.padded(whole)),
                    (true, false) => AtHand::Shared(data.padded(whole).freeze()),
                };
                self.advance(block, Input::Read { intact }, at_hand);
            }
            Stage::WriteReadSsd => {
                let at = flight.next_place().expect("a write has a place");
                self.levels.mirror_written(block, at, result);
                self.advance(block, written, AtHand::Nothing);
            }
            Stage::WriteBacking => {
                self.disk.wrote(block);
                self.advance(block, written, AtHand::Nothing);
            }
            _ => self.advance(block, written, AtHand::Nothing),
        }
    }
}
