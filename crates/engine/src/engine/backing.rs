//! Carries write-backs and flushes between blocks in flight and the backing disk. What is written back, and when a flush is due
//! beside those that somebody waits for, the disk's own parts decide. It must not know guests.

use lode_types::{BlockNo, Buf, Bytes, MediaError};

use super::Engine;
use super::carry::AtHand;
use crate::command::{CommandKind, DeviceId};
use crate::disk::{Flushed, JobBlockId, MAX_JOBS};
use crate::flight::{BlockOp, CopyAt, Flight, Input};
use crate::io::{Owner, Want};

impl Engine {
    /// Starts write-backs while there are any and not too many are under way.
    pub(super) fn drive_destage(&mut self) {
        let yields = self.background.yields_to_guests(self.blocks_to_clean()) && !self.is_blocked();
        let most_jobs = if yields { 1 } else { MAX_JOBS };
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
            let offset_bytes = self.config.block.start_of(block);
            self.io.want(Want::write(DeviceId::Backing, offset_bytes, data, Owner::Destage(at)));
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
