//! The scheme is told of what was found on the SSD, some at a time, while guests' reads are served past it. Whatever else they ask,
//! and all that is done in the background, waits until it knows everything; what is on the SSD stays as it is until then.
//!
//! A read that does not find what it should goes to the scheme with all others, where damage and failures are dealt with.

use lode_format::EntryState;
use lode_store::{HeldBlock, Place, Places, VolumeStore};
use lode_types::{Buf, MediaError, blocks_of, planted};

use super::Engine;
use crate::command::DeviceId;
use crate::flight::PartEnd;
use crate::front::PREFETCHED;
use crate::guest::Served;
use crate::io::{Find, Owner, Want};
use crate::taking_over::{EarlyEnd, EarlyPart, NextPlaces};
use crate::waits::WaitedFor;

impl Engine {
    /// Tells the scheme of more that was found on the SSD, of `least_blocks` or a part of all, or puts a part of it in order for that. If reads
    /// came, and the last call began none, it begins them instead. True: there is more to be told, and everything but reads waits for it.
    pub fn take_over(&mut self, least_blocks: usize) -> bool {
        let Some(mut taking_over) = self.taking_over.take() else { return false };
        if !taking_over.take_due() && self.begin_early_reads() {
            taking_over.reads_have_begun();
            self.taking_over = Some(taking_over);
            return true;
        }
        if taking_over.put_in_order(self.levels.places()) {
            self.taking_over = Some(taking_over);
            return true;
        }
        match taking_over.next(least_blocks) {
            Some(NextPlaces::GiveUp(places)) => {
                self.note_found(places);
                self.give_up_settled(places);
            }
            Some(NextPlaces::Restore(places)) => {
                self.note_found(places);
                self.restore_settled(places);
            }
            None => {}
        }
        if !taking_over.is_over() {
            self.taking_over = Some(taking_over);
            return true;
        }
        drop(taking_over);
        self.run();
        false
    }

    /// Whether the scheme has not been told of everything that was found.
    pub fn is_taking_over(&self) -> bool {
        self.taking_over.is_some()
    }

    /// Tells it of the rest at once, for what cannot wait.
    pub fn take_over_the_rest(&mut self) {
        while self.take_over(usize::MAX) {}
    }

    /// What is newer on the SSD than on the disk is written. Until all of it is noted, everything may be ([`Engine::written`]).
    fn note_found(&mut self, found: &[Place]) {
        let places = self.levels.store().expect("what was found is on it").places();
        for some in found.chunks(PREFETCHED) {
            places.prefetch(some);
            for held in some.iter().map(|&place| places.held(place)) {
                if held.state == EntryState::Dirty {
                    let start = self.config.block.start_of(held.block);
                    self.written.set(&(start..start + self.config.block.bytes()));
                }
            }
        }
    }

    /// Begins the reads that need not wait for others. What came later than they and has to do with their blocks waits for them. False: there
    /// was none.
    fn begin_early_reads(&mut self) -> bool {
        let mut reads = Vec::new();
        while let Some(mut taken) = self.front.next_early_read() {
            let request = self.admit(&mut taken);
            let (offset_bytes, length_bytes) = taken.request().op.range();
            // It counts as one part by itself.
            for _ in 1..blocks_of(self.config.block, offset_bytes, length_bytes).len() {
                self.requests.add_part(request);
            }
            reads.push((request, taken));
        }
        let has_any = !reads.is_empty();
        let places = self.levels.store().expect("what was found is on it").places();
        for (number, part) in self.early_reads.begin(reads, places, self.config.block) {
            self.read_early(number, &part);
        }
        has_any
    }

    fn read_early(&mut self, number: usize, part: &EarlyPart) {
        let store = self.levels.store().expect("what was found is on it");
        let (device, offset_bytes, len, find) = match part.found {
            // Whoever deals with what went with an SSD deals with this.
            Some((place, _)) if store.places().is_dropped(place) => {
                return self.early_part_ended(number, false);
            }
            Some((place, held)) => {
                let find = Find { block: part.block, crc: held.crc, every_copy: false };
                let find = self.config.ssd_is_pair.then_some(find);
                (DeviceId::Ssd, store.offset(place), self.config.block.bytes() as usize, find)
            }
            None => {
                let offset_bytes = self.config.block.start_of(part.block);
                (DeviceId::Backing, offset_bytes, self.block_len(part.block), None)
            }
        };
        // Nothing keeps its place from being used again as soon as the scheme decides: a read of both copies would write the right one over
        // the other, and perhaps over another block.
        let one_copy = find.is_some() && !planted("early-read-repairs");
        let owner = Owner::EarlyRead(number);
        self.io.want(Want { device, offset_bytes, len, data: None, owner, find, one_copy });
    }

    /// A command for a part of an early read has ended.
    pub(super) fn early_read_ended(&mut self, number: usize, result: Result<(), MediaError>, data: Buf) {
        let EarlyPart { block, slice, found, .. } = self.early_reads.part(number);
        let is_right = |data: &[u8]| {
            let places = self.levels.store().map(VolumeStore::places);
            // By what the place held when it was looked for: others may have it since, or it may have gone with an SSD of a pair.
            let is_there = |places: &Places, (place, held): (Place, HeldBlock)| {
                !places.is_dropped(place) && places.checksum(block, data) == held.crc
            };
            found.is_none_or(|found| places.is_some_and(|places| is_there(places, found)))
        };
        let is_delivered = result.is_ok() && (is_right(data.as_slice()) || planted("early-read-unchecked"));
        let from = if found.is_some() { WaitedFor::SsdRead } else { WaitedFor::BackingRead };
        self.requests.waited(slice.request, from);
        if is_delivered {
            let bytes = data.padded(self.config.block.bytes() as usize).freeze();
            self.requests.deliver(block, &slice, &bytes);
        }
        self.early_part_ended(number, is_delivered);
    }

    fn early_part_ended(&mut self, number: usize, is_delivered: bool) {
        let EarlyPart { slice, found, .. } = self.early_reads.part(number);
        let taken = match self.early_reads.ended(number, is_delivered) {
            // The scheme decides it as if it had not been taken.
            EarlyEnd::Failed(taken) => {
                self.requests.withdraw(slice.request);
                taken
            }
            end => {
                let served = if found.is_some() { Served::Ssd } else { Served::Backing };
                self.end_part(slice.request, PartEnd::Served(served));
                let EarlyEnd::Served(taken, counts) = end else { return };
                self.front.count(&counts);
                taken
            }
        };
        self.front.decided(taken, self.requests.now_ns());
    }
}
