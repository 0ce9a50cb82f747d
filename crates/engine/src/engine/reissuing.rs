//! Writes that are issued again, for blocks in flight: see [`crate::reissue`].

use lode_policy::Effect;
use lode_policy::criticality::{CompletionVerdict, Device, WriteId};
use lode_types::{Access, BlockNo, Buf, Direction, MediaError, blocks_of, planted};

use super::Engine;
use super::carry::AtHand;
use crate::flight::{Flight, Input, RequestSlice, Stage};
use crate::guest::GuestError;
use crate::io::Owner;
use crate::reissue::DiskWrite;

impl Engine {
    /// A guest's write begins its way to the backing disk, and may be issued again from now on.
    pub(super) fn list_for_reissue(&mut self, block: BlockNo, slice: &RequestSlice) {
        let partial = (slice.len as usize) < self.block_len(block);
        let origin = self.origin_of(slice.request);
        // Those that are listed already hold up the scheme that is to come, and what was issued again is dirty.
        if self.is_switching() || self.writes_around {
            return;
        }
        let (Some(reissues), Some(cache)) = (&mut self.reissues, self.front.reissuing()) else { return };
        let access = Access { block, op: Direction::Write, partial, origin };
        let write = reissues.list(cache, &access);
        let flight = self.flights.of_mut(block);
        flight.set_disk_write(write);
    }

    /// Somebody waits for a read or write of these bytes, and so for the writes that are ahead of it on their way to the
    /// disk. Comes before anything of it is decided; places that it may need itself are left to it.
    pub(super) fn issue_overlapped_again(&mut self, offset: u64, length: u64) {
        if self.reissues.as_ref().is_none_or(|reissues| reissues.is_empty()) {
            return;
        }
        let parts = blocks_of(self.config.block, offset, length);
        let places_needed = parts.len() as u32;
        for part in parts {
            let is_on_its_way =
                |flight: &Flight| flight.stage() == Stage::WriteBacking && flight.disk_write().is_some();
            if self.flights.get(part.block).is_some_and(is_on_its_way)
                && let (Some(reissues), Some(cache)) = (&self.reissues, self.front.reissuing())
            {
                let writes = reissues.overlapped(cache, part.block);
                self.issue_again(&writes, places_needed);
            }
        }
    }

    /// Somebody waits for a flush.
    pub(super) fn issue_all_again(&mut self) {
        if let Some(reissues) = self.reissues.as_ref().filter(|reissues| !reissues.is_empty())
            && let Some(cache) = self.front.reissuing()
        {
            let writes = reissues.flushed(cache);
            self.issue_again(&writes, 0);
        }
    }

    fn issue_again(&mut self, writes: &[WriteId], places_needed: u32) {
        for &id in writes {
            let Some(reissues) = &self.reissues else { return };
            let block = reissues.block(id);
            let slice = self.to_be_issued_again(block, places_needed).filter(|_| self.take_in(block));
            let (Some(reissues), Some(cache)) = (&mut self.reissues, self.front.reissuing()) else { return };
            match slice {
                Some(slice) => {
                    reissues.issued();
                    self.write_again(block, &slice);
                }
                None => reissues.refuse(cache, id),
            }
        }
    }

    /// The write at the head of the block's queue, if it can be issued again.
    fn to_be_issued_again(&self, block: BlockNo, places_needed: u32) -> Option<RequestSlice> {
        let slice = self.flights.get(block)?.newest_access_off_ssd()?.slice;
        let is_whole = slice.len as usize >= self.block_len(block);
        let has_place = self.levels.available_places() > places_needed;
        let may_be_dirty = self.health.is_well() && !self.writes_around;
        (is_whole && has_place && may_be_dirty).then_some(slice)
    }

    /// Asks the scheme to cache the block, and carries out what follows. False: it has no room.
    fn take_in(&mut self, block: BlockNo) -> bool {
        let effects = self.front.take_in(block);
        let mut is_taken = false;
        for effect in &effects {
            if let &Effect::WriteLevel { level, slot, .. } = effect {
                self.assign(block, level, slot);
                is_taken = true;
            } else {
                self.apply_to_others(effect);
            }
        }
        self.front.give_back(effects);
        is_taken
    }

    fn write_again(&mut self, block: BlockNo, slice: &RequestSlice) {
        let data = self.requests.whole_block(slice, self.config.block.bytes() as usize, None);
        let place = self.levels.take_place();
        let crc = self.want_ssd_write(block, place, data, (Owner::Reissue(block), true));
        self.flights.of_mut(block).issued_again(place, crc);
    }

    /// The backing disk is through with a guest's write.
    pub(super) fn disk_write_ended(&mut self, block: BlockNo, result: Result<(), MediaError>) {
        let Some(flight) = self.flights.get(block) else { return };
        let (Some(write), Some(reissues), Some(cache)) =
            (flight.disk_write(), &mut self.reissues, self.front.reissuing())
        else {
            self.block_command_ended(block, result, Buf::zeroed(0));
            return;
        };
        let completion = reissues.completed(cache, write.id, Device::Disk, result.is_ok());
        match completion {
            // The SSD has no part in it, or no more.
            CompletionVerdict::Acknowledge | CompletionVerdict::Fail if write.copy.is_none() => {
                self.forget_disk_write(block);
                self.block_command_ended(block, result, Buf::zeroed(0));
            }
            // Its guest was answered, and the SSD has the block. What waited for it goes on.
            CompletionVerdict::Discard => {
                self.disk.wrote(block);
                self.forget_disk_write(block);
                self.advance(block, Input::LateArrived, AtHand::Nothing);
            }
            CompletionVerdict::Acknowledge => {
                self.disk.wrote(block);
                self.advance(block, Input::DiskFirst, AtHand::Nothing);
            }
            CompletionVerdict::Wait | CompletionVerdict::Fail => {
                self.disk.wrote(block);
                self.flights.of_mut(block).disk_ended(result.err().map(GuestError::from));
            }
        }
    }

    /// The SSD is through with a write that was issued again.
    pub(super) fn reissue_ended(&mut self, block: BlockNo, result: Result<(), MediaError>) {
        let Some(flight) = self.flights.get_mut(block) else { return };
        let Some(DiskWrite { id, error, .. }) = flight.disk_write() else { return };
        let Some((place, crc)) = flight.take_issued_again() else { return };
        // After a failure there must come nothing more that is newer than the backing disk.
        let ok = result.is_ok() && self.health.is_well();
        let request = flight.access().expect("a write that was issued again is at the head").slice.request;
        let mut version = 0;
        if ok {
            let put = flight.put(place, crc, !planted("reissued-block-is-clean"));
            version = self.put_on_ssd(block, put);
        } else {
            self.levels.quarantine(place);
        }
        let reissues = self.reissues.as_mut().expect("it was listed");
        let cache = self.front.reissuing().expect("only such schemes list writes");
        let input = match reissues.completed(cache, id, Device::Cache, ok) {
            CompletionVerdict::Wait => return,
            CompletionVerdict::Acknowledge => {
                self.requests.keep_until(request, version);
                Input::SsdFirst
            }
            CompletionVerdict::Discard => Input::BothTook,
            CompletionVerdict::Fail => Input::BothFailed(error.unwrap_or(GuestError::Io)),
        };
        // Unless the disk still has it.
        if input != Input::SsdFirst || error.is_some() {
            self.forget_disk_write(block);
        }
        self.advance(block, input, AtHand::Nothing);
    }

    fn forget_disk_write(&mut self, block: BlockNo) {
        let write = self.flights.of_mut(block).forget_disk_write();
        if let (Some(write), Some(reissues)) = (write, &mut self.reissues) {
            reissues.forget(write);
        }
    }
}
