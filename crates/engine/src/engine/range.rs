//! Carries a trim or zeroing between the blocks that it holds and the backing disk. What its next step is, the disk's own part
//! decides. It must not know bytes.

use std::ops::Range;

use lode_format::RedoRanges;
use lode_types::{BlockNo, Buf, Bytes, MediaError, planted};

use super::Engine;
use super::carry::AtHand;
use crate::command::DeviceId;
use crate::disk::RangeNext;
use crate::flight::{Input, PartEnd, Stage};
use crate::guest::{GuestError, Served};
use crate::io::{Owner, Want};
use crate::ordered::Ordered;
use crate::waits::WaitedFor;

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
        // What failed may hold less than it says, and is told nothing more.
        if self.ordered.is_some() && self.has_failed(DeviceId::Backing) {
            self.disk.refuse_range();
        }
        let next = self.disk.range_gathered(now.version, now.durable, now.is_well);
        self.carry_out_range(next);
    }

    pub(super) fn range_command_ended(&mut self, result: Result<(), MediaError>) {
        let range = self.disk.range().expect("a range stays until its command ends");
        let has_copy =
            |&block: &BlockNo| self.flights.get(block).is_some_and(|flight| flight.copy().place().is_some());
        // Where the disk is written in groups, what it has past them is durable before anybody is told.
        let holds_dirty = range.held().iter().any(has_copy) || self.ordered.is_some();
        let next = self.disk.range_written(result.is_ok(), holds_dirty, self.health.is_well());
        self.carry_out_range(next);
    }

    /// The backing disk was flushed.
    pub(super) fn range_flushed(&mut self) {
        let Some(held) = self.disk.range_flushed() else { return };
        for block in held {
            self.advance(block, Input::Zeroed, AtHand::Nothing);
        }
        let now = self.durability();
        // There may have been nothing to give up.
        let next = self.disk.range_freed(now.version, now.durable);
        self.carry_out_range(next);
    }

    pub(super) fn carry_out_range(&mut self, next: RangeNext) {
        match next {
            RangeNext::Wait => {}
            RangeNext::Note => match self.ranges_page() {
                Some(page) => {
                    let write = Want::write(DeviceId::Redo, RedoRanges::AT, page, Owner::RedoRanges);
                    self.io.want(write);
                }
                None => self.ranges_noted(false),
            },
            RangeNext::Device => {
                let Some(range) = self.disk.range() else { return };
                let kind = range.command(self.bytes_of(range.blocks()));
                self.io.command(DeviceId::Backing, kind, Owner::Range);
            }
            RangeNext::Done => self.end_range(PartEnd::Served(Served::Backing)),
            RangeNext::Failed => self.end_range(PartEnd::Failed(GuestError::Io)),
        }
    }

    /// What the redo log is to say of ranges that may not be durable. None: there is no room for them before a flush.
    fn ranges_page(&mut self) -> Option<Bytes> {
        let ranges = self.disk.ranges_to_note();
        if ranges.len() > RedoRanges::MOST {
            self.disk.want_flush();
            return None;
        }
        let identity = self.identity()?;
        let group = self.ordered.as_ref()?.behind().group;
        let page = RedoRanges { volume: identity.volume, group, ranges }.encode(identity.cache);
        Some(Buf::copy_of(&page[..]).freeze())
    }

    /// The redo log says so, or could not be told. A disk that failed meanwhile is not asked.
    pub(super) fn ranges_noted(&mut self, ok: bool) {
        let next = self.disk.range_noted(ok && !self.has_failed(DeviceId::Backing));
        self.carry_out_range(next);
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
            if range.has_reached_disk() && !planted("settled-behind-failed-zeroes") {
                self.gather_again(range.held());
            }
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
