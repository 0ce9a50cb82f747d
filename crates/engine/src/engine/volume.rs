//! What concerns the volume as a whole: the backing disk's write-backs, flushes, trims and zeroings; the journal; copies in the
//! background; and what becomes of all of them when a device fails.
//!
//! When the SSD fails as a whole its journal takes nothing any more, so that nothing can be promised, but what it holds dirty
//! can still be brought to the backing disk, from DRAM, from the read SSD, or from the SSD itself as far as it can be read.
//! An SSD that comes back at the next start would know nothing of that. A clean copy that its journal knows may be older
//! than what was brought to the disk, so that none of them may be believed: whoever drives the engine remembers that
//! durably, and only then the disk is touched. Its dirty copies are no older than what was acknowledged as durable,
//! because nothing was after the failure, and until everything is on the disk they may be all that a power cut
//! leaves. When everything is there, they are out of date too, and that is remembered as well.

use std::ops::Range;

use lode_store::{Distrust, Metadata, Output, Progress, VolumeStore};
use lode_types::{BlockNo, Buf, Bytes, Level, MediaError, planted};

use super::Engine;
use super::carry::AtHand;
use crate::command::{CommandKind, DeviceId};
use crate::disk::{Flushed, JobBlockId, MAX_JOBS, RangeNext};
use crate::flight::{BlockOp, CopyAt, Flight, Input, PartEnd, Stage};
use crate::guest::{GuestError, Served};
use crate::io::{Io, Owner, Want};
use crate::ordered::Ordered;
use crate::waits::WaitedFor;

/// Part of the reserve of the SSD's places that copies leave to guests.
const LEFT_TO_GUESTS: u32 = 2;

/// Write-backs.
impl Engine {
    /// Starts write-backs while there are any and not too many are under way.
    pub(super) fn drive_destage(&mut self) {
        let is_polite = self.background.is_polite(self.blocks_to_clean()) && !self.is_blocked();
        let most_jobs = if is_polite { 1 } else { MAX_JOBS };
        while let Some(blocks) = self.disk.destage_mut().begin_job(most_jobs) {
            blocks.into_iter().for_each(|(at, block)| self.read_for_write_back(at, block));
        }
    }

    /// Reads a block that is written back from the fastest of its copies. Without one the block is lost and has nothing to
    /// write.
    fn read_for_write_back(&mut self, at: JobBlockId, block: BlockNo) {
        let len = self.block_len(block);
        let flight = self.flights.of(block);
        match (flight.source(CopyAt::Dram), flight.frame()) {
            (Some(CopyAt::Dram), Some(frame)) => {
                let data = self.levels.frame_bytes(frame).slice(..len);
                self.was_read_for_write_back(at, Some(data));
            }
            (Some(copy @ (CopyAt::ReadSsd | CopyAt::Ssd)), _) => {
                self.disk.destage_mut().reads_from(at, copy);
                self.fetch(block, copy, Owner::Destage(at));
            }
            _ => {
                self.was_read_for_write_back(at, None);
                self.advance(block, Input::NotWrittenBack { disk_failed: false }, AtHand::Nothing);
            }
        }
    }

    fn was_read_for_write_back(&mut self, at: JobBlockId, data: Option<Bytes>) {
        for (at, block, data) in self.disk.destage_mut().was_read(at, data) {
            let (device, offset_bytes) = (DeviceId::Backing, self.config.block.start_of(block));
            let owner = Owner::Destage(at);
            self.io.want(Want { device, offset_bytes, len: data.len(), data: Some(data), owner, find: None });
        }
    }

    /// A read or write of a block that is written back has ended.
    pub(super) fn destage_command_ended(
        &mut self,
        at: JobBlockId,
        result: Result<(), MediaError>,
        data: Buf,
    ) {
        match self.disk.destage().command_ended(at) {
            None => {}
            Some((block, Some(copy)))
                if self.levels.is_intact(copy, self.flights.of(block), result, data.as_slice()) =>
            {
                let data = data.freeze().slice(..self.block_len(block));
                self.was_read_for_write_back(at, Some(data));
            }
            Some((block, Some(copy))) => {
                self.advance(block, Input::Unreadable(copy), AtHand::Nothing);
                self.read_for_write_back(at, block);
            }
            Some((block, None)) => {
                self.disk.destage_mut().was_written(at);
                if result.is_ok() && self.health.writes_back() {
                    self.disk.written_back(block);
                } else {
                    // The copy is kept, and can be read; the next tick tries again.
                    self.advance(block, Input::NotWrittenBack { disk_failed: true }, AtHand::Nothing);
                }
            }
        }
    }

    /// Whether written-back blocks should be made final now: many are, space is short, or one of them is waited for.
    fn wants_flush(&self) -> bool {
        let destage = self.disk.destage();
        let is_waited_for = |block| {
            let flight = self.flights.get(block);
            flight.is_some_and(|flight: &Flight| flight.is_waited_for() || flight.access().is_some())
        };
        destage.unflushed().len() > 0
            && (destage.has_many_unflushed()
                || self.is_blocked()
                || self.copies.wants_places()
                || destage.unflushed().any(is_waited_for)
                || self.drain_wants_flush())
    }

    /// Whether a batch of cleanings that is not the last one has come as far as it can without a flush.
    fn drain_wants_flush(&self) -> bool {
        if !self.drain.goes_on() && !self.background.goes_on() {
            return false;
        }
        let is_cleaned = |block: &BlockNo| {
            let head = self.flights.get(*block).and_then(|flight| flight.ops().next());
            matches!(head, Some(BlockOp::Clean { .. }))
        };
        let cleaned = self.disk.destage().unflushed().filter(is_cleaned).count();
        cleaned > 0 && (cleaned == self.drain.under_way() || self.disk.destage().is_idle())
    }

    /// Flushes the backing disk if anybody waits for it.
    pub(super) fn drive_backing(&mut self) {
        if self.wants_flush() {
            self.disk.want_flush();
        }
        let waited_for = self.requests.mark_waited_for().max(self.group_mark_waited_for());
        if self.disk.begin_flush(waited_for) {
            self.io.command(DeviceId::Backing, CommandKind::Flush, Owner::BackingFlush);
        }
    }

    /// The backing disk was flushed: what it now holds for good leaves the SSD, or is clean there, as soon as the journal
    /// says so.
    pub(super) fn backing_flushed(&mut self) {
        let Flushed { copies, blocks } = self.disk.flush_done();
        if let Some(store) = self.levels.store_mut() {
            for (place, version) in copies {
                store.places_mut().make_known(place, version);
            }
        }
        for block in blocks {
            self.advance(block, Input::OnDisk, AtHand::Nothing);
        }
        self.range_flushed();
        let now = self.durability();
        self.requests.release_durable(&now);
    }
}

/// The journal.
impl Engine {
    /// Commits the journal if anybody waits for it or space runs short.
    pub(super) fn drive_journal(&mut self) {
        let waits = [self.requests.version_waited_for(), self.flights.version_waited_for()];
        let durable_wanted = waits.into_iter().fold(self.disk.version_waited_for(), u64::max);
        let durable_wanted = durable_wanted.max(self.group_version_waited_for());
        let kept_wanted = self.requests.kept_waited_for();
        let pressed = self.is_blocked() || self.copies.wants_places();
        if let Some(store) = self.levels.store_mut() {
            if pressed && store.places().waiting() > 0 && !planted("pressure-without-commit") {
                store.want_commit();
            }
            store.commit(durable_wanted, kept_wanted);
            carry_out(store, &mut self.io);
        }
    }

    /// A write or flush of the volume store is done.
    pub(super) fn metadata_written(&mut self, what: Metadata) {
        let Some(store) = self.levels.store_mut() else { return };
        let progress = store.done(what);
        carry_out(store, &mut self.io);
        match progress {
            Progress::None => {}
            Progress::Kept => {
                let now = self.durability();
                self.requests.release_kept(&now);
            }
            Progress::Durable(version) => self.journal_durable(version),
        }
    }

    fn journal_durable(&mut self, version: u64) {
        for block in self.flights.open_gates(version) {
            if self.flights.contains(block) {
                self.advance(block, Input::Durable, AtHand::Nothing);
            }
        }
        let next = self.disk.range_durable(version);
        self.carry_out_range(next);
        let now = self.durability();
        self.requests.release_durable(&now);
    }
}

/// Makes commands of what the store wants written and flushed.
fn carry_out(store: &mut VolumeStore, io: &mut Io) {
    while let Some(output) = store.next_output() {
        match output {
            Output::Write { what, offset_bytes, buf } => io.want(Want {
                device: DeviceId::Ssd,
                offset_bytes,
                len: buf.len(),
                data: Some(buf.freeze()),
                owner: Owner::Metadata(what),
                find: None,
            }),
            Output::Flush { what } => {
                io.command(DeviceId::Ssd, CommandKind::Flush, Owner::Metadata(what));
            }
        }
    }
}

/// Trims and zeroings.
impl Engine {
    /// Takes the range operation on where it can go on by itself.
    pub(super) fn drive_range(&mut self) {
        let Some(range) = self.disk.range() else { return };
        let now = self.durability();
        let is_busy = self.ordered.as_ref().is_some_and(Ordered::is_busy) && !planted("zeroes-past-groups");
        // What was written before goes to the disk before.
        match is_busy && !range.is_refused() {
            true if now.is_well => return,
            true => self.disk.refuse_range(),
            false => {}
        }
        let next = self.disk.range_gathered(now.version, now.durable, now.is_well);
        self.carry_out_range(next);
    }

    pub(super) fn range_command_ended(&mut self, result: Result<(), MediaError>) {
        let Some(range) = self.disk.range() else { return };
        let has_copy =
            |&block: &BlockNo| self.flights.get(block).is_some_and(|flight| flight.copy().place().is_some());
        // Where the disk is written in groups, what it has past them is durable before anybody is told.
        let holds_dirty = range.held().iter().any(has_copy) || self.ordered.is_some();
        let next = self.disk.range_written(result.is_ok(), holds_dirty, self.health.is_well());
        self.carry_out_range(next);
    }

    /// The backing disk was flushed.
    fn range_flushed(&mut self) {
        let Some(held) = self.disk.range_flushed() else { return };
        for block in held {
            self.advance(block, Input::Zeroed, AtHand::Nothing);
        }
        let now = self.durability();
        // There may have been nothing to give up.
        let next = self.disk.range_freed(now.version, now.durable);
        self.carry_out_range(next);
    }

    fn carry_out_range(&mut self, next: RangeNext) {
        match next {
            RangeNext::Wait => {}
            RangeNext::Device => {
                let Some(range) = self.disk.range() else { return };
                let kind = range.command(self.bytes_of(range.blocks()));
                self.io.command(DeviceId::Backing, kind, Owner::Range);
            }
            RangeNext::Done => self.end_range(PartEnd::Served(Served::Backing)),
            RangeNext::Failed => self.end_range(PartEnd::Failed(GuestError::Io)),
        }
    }

    /// The bytes of these blocks within the volume.
    pub(super) fn bytes_of(&self, blocks: &Range<BlockNo>) -> Range<u64> {
        let size = self.config.block;
        size.start_of(blocks.start)..size.start_of(blocks.end).min(self.config.volume_bytes)
    }

    fn end_range(&mut self, end: PartEnd) {
        let Some(range) = self.disk.end_range() else { return };
        if let PartEnd::Failed(_) = end {
            // What the SSD has of them stays.
            self.written.set(&self.bytes_of(range.blocks()));
        }
        for &block in range.held() {
            self.advance(block, Input::Released, AtHand::Nothing);
        }
        // Blocks that came into flight while the range was held.
        for block in self.flights.within(range.blocks()) {
            if self.flights.get(block).is_some_and(|flight| flight.stage() == Stage::Held) {
                self.advance(block, Input::Released, AtHand::Nothing);
            }
        }
        self.requests.waited(range.request(), WaitedFor::BackingWrite);
        self.end_part(range.request(), end);
    }
}

/// Copies in the background.
impl Engine {
    /// Starts copies while there is a turn for them, and gives places to those that wait for one: those that DRAM is the
    /// source of do so at once. Giving one up makes a turn.
    pub(super) fn drive_copies(&mut self) {
        loop {
            while let Some(block) = self.copies.next_turn(|block| is_waited_for(self.flights.get(block))) {
                self.advance(block, Input::Proceed, AtHand::Nothing);
            }
            let under_way = self.copies.under_way();
            for level in [Level::Ssd, Level::ReadSsd] {
                self.place_copies(level);
            }
            if self.copies.under_way() == under_way {
                break;
            }
        }
    }

    fn place_copies(&mut self, level: Level) {
        if self.is_hopeless(level) {
            self.give_up_copies(level);
        }
        // Guests take no places of the read SSD.
        let left = if level == Level::Ssd { self.config.reserve_of(level) / LEFT_TO_GUESTS } else { 0 };
        loop {
            let places = self.places_for_copies(level);
            let is_waited_for = |block| is_waited_for(self.flights.get(block));
            let Some(block) = self.copies.next_to_place(level, places, left, is_waited_for) else { break };
            self.advance(block, Input::Proceed, AtHand::Nothing);
        }
    }

    pub(super) fn give_up_copies(&mut self, to: Level) {
        for block in self.copies.give_up(to) {
            self.advance(block, Input::GivenUp, AtHand::Nothing);
        }
    }

    /// Places of a level that copies may take.
    fn places_for_copies(&self, level: Level) -> u32 {
        match level {
            Level::Dram => 0,
            Level::Ssd if !self.health.is_well() => 0,
            Level::Ssd => self.levels.available_places(),
            Level::ReadSsd => self.levels.available_mirrors(),
        }
    }

    /// Whether copies wait in vain for a place: nothing can make one, or too many places failed.
    fn is_hopeless(&self, level: Level) -> bool {
        let read_ssd = self.levels.read_ssd();
        let is_worn = || read_ssd.quarantined() > self.config.reserve_of(level) / 2;
        let are_gone = level == Level::ReadSsd && (read_ssd.is_gone() || is_worn());
        // Places come free when the group is over, those of copies beside dirty ones as well, and it may wait for this copy.
        let is_waited_for = self.groups_wait_for_blocks();
        let is_full = self.front.is_starved() || !self.health.is_well() || is_waited_for;
        self.places_for_copies(level) == 0 && (are_gone || is_full)
    }
}

fn is_waited_for(flight: Option<&Flight>) -> bool {
    flight.is_some_and(Flight::is_waited_for)
}

/// Failures.
impl Engine {
    /// A device that others use as well has failed one of them (see [`crate::SharedDevice`]), and so all of them: what this
    /// engine was told of its flushes is worth no more than what the other one was told.
    pub fn device_failed(&mut self, device: DeviceId) {
        if self.has_failed(device) {
            return;
        }
        match device {
            DeviceId::Ssd if self.levels.store().is_some() => self.fail_ssd(),
            DeviceId::Backing => self.fail_backing(),
            // What it was to keep may be lost.
            DeviceId::Redo if self.ordered.is_some() => self.fail_backing(),
            // What the read SSD holds is promised to nobody.
            DeviceId::Ssd | DeviceId::ReadSsd | DeviceId::Redo => return,
        }
        self.run();
    }

    /// Whether a device failed in a way that ends durability, so that it has failed all who use it.
    pub fn has_failed(&self, device: DeviceId) -> bool {
        self.health.has_failed(device)
    }

    /// The SSD failed, and not only a place of it.
    pub(super) fn fail_ssd(&mut self) {
        self.health.ssd_failed();
        if let Some(store) = self.levels.store_mut() {
            store.places_mut().note_journal_failed();
        }
        self.end_durability();
    }

    /// What the backing disk was told to keep may be lost: nothing more is brought to it.
    pub(super) fn fail_backing(&mut self) {
        if planted("backing-failure-told-once") {
            self.disk.forget_marks();
            return self.end_durability();
        }
        self.health.backing_failed();
        self.end_durability();
    }

    /// Durability is lost: everybody who waits for it is told, and nobody is promised it again. A failed
    /// flush is final, because what it should have covered may be gone without another error.
    fn end_durability(&mut self) {
        self.requests.end_durability();
        let gates = self.flights.open_gates(u64::MAX);
        for block in gates.into_iter().chain(self.disk.destage_mut().give_up()) {
            if self.flights.contains(block) {
                self.advance(block, Input::NeverDurable, AtHand::Nothing);
            }
        }
        self.carry_out_range(self.disk.range_never_durable());
    }

    /// After the SSD failed: what the host must remember durably for the next start ([`lode_store::VolumeSpec`]) before the
    /// engine goes on, if it is to be written now. Its end is told to [`Engine::fence_ended`]; meanwhile guests are served.
    pub fn next_fence(&mut self) -> Option<Distrust> {
        let wanted = self.wants_fence();
        self.fence.next(wanted)
    }

    /// What [`Engine::next_fence`] asked for is remembered, or could not be: then it is asked for again after the next tick.
    pub fn fence_ended(&mut self, ok: bool) {
        let Some(distrust) = self.fence.ended(ok) else { return };
        self.health.fenced(distrust);
        if self.health.is_rescue_on() {
            self.drain_up_to(u64::MAX);
        }
    }

    fn wants_fence(&self) -> Option<Distrust> {
        self.health.wants_fence(self.levels.dirty_blocks())
    }

    /// Whether the SSD failed and something of it is still on its way to the backing disk. What is not there when the
    /// host stops may be lost.
    pub fn is_rescuing(&self) -> bool {
        // A group is written as a whole, or not at all.
        let is_stuck = self.ordered.is_some() && self.flights.lost() > 0;
        let is_left = || !is_stuck && self.levels.dirty_blocks() > self.flights.lost() as u32;
        self.wants_fence().is_some() || (self.health.is_rescue_on() && is_left())
    }

    /// Goes on with what was left.
    pub(super) fn resume_rescue(&mut self) {
        if self.health.is_rescue_on() && self.drain_left().is_none() && self.is_rescuing() {
            self.drain_up_to(u64::MAX);
        }
    }
}
