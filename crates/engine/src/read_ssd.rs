//! The volume's places on the read SSD: which block each holds, and which are free. Nothing here outlives a stop, as
//! in DRAM: there is no journal and there are no tables, and what an earlier run left on the device is never read. It
//! must not know why a block has a copy here, nor slots ([`crate::shelf`]).

use lode_format::{EntryState, VolumeTag, data_checksum};
use lode_store::{Contents, HeldBlock, Place};
use lode_types::{BlockNo, BlockSize};

use crate::command::MediaError;
use crate::grow::{make_room, most_bytes};
use crate::shelf::PlaceSource;

/// Commands that fail one after the other before the device is given up for this run.
const MOST_FAILURES: u32 = 16;

/// Places for which there is memory at a time.
const PLACES_AT_ONCE: u32 = 4096;

/// All places of the volume.
#[derive(Debug)]
pub(crate) struct ReadSsd {
    tag: VolumeTag,
    block: BlockSize,
    start_bytes: u64,
    limit: u32,
    /// What is in every place that was ever taken, and how many these are.
    contents: Contents,
    taken: u32,
    free: Vec<Place>,
    /// Places that failed and are not used again.
    quarantined: u32,
    failures: u32,
    is_gone: bool,
}

impl ReadSsd {
    /// Places of `block` each, from this byte of the device, for a volume of so many blocks.
    pub(crate) fn new(
        tag: VolumeTag,
        block: BlockSize,
        start_bytes: u64,
        limit: u32,
        volume_blocks: u64,
    ) -> ReadSsd {
        ReadSsd {
            tag,
            block,
            start_bytes,
            limit,
            contents: Contents::new(PLACES_AT_ONCE, volume_blocks),
            taken: 0,
            free: Vec::new(),
            quarantined: 0,
            failures: 0,
            is_gone: false,
        }
    }

    /// The device has failed so often that nothing is put on it any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub(crate) fn quarantined(&self) -> u32 {
        self.quarantined
    }

    /// Offset on the device of a place.
    pub(crate) fn offset(&self, place: Place) -> u64 {
        self.start_bytes + u64::from(place) * self.block.bytes()
    }

    pub(crate) fn checksum(&self, block: BlockNo, bytes: &[u8]) -> u32 {
        data_checksum(self.tag, block, bytes)
    }

    /// A place taken for `block` has been written.
    pub(crate) fn put(&mut self, place: Place, block: BlockNo, crc: u32) {
        self.contents.hold(place, HeldBlock { state: EntryState::Clean, block, crc });
    }

    /// Whether these bytes are the ones the place was given.
    pub(crate) fn is_intact(&self, place: Place, bytes: &[u8]) -> bool {
        let HeldBlock { block, crc, .. } = self.contents.held(place);
        data_checksum(self.tag, block, bytes) == crc
    }

    /// The place's medium failed: it is not used again.
    pub(crate) fn quarantine(&mut self) {
        self.quarantined += 1;
    }

    /// Notes how a command ended.
    pub(crate) fn note(&mut self, result: Result<(), MediaError>) {
        self.failures = if result.is_ok() { 0 } else { self.failures + 1 };
        self.is_gone |= result == Err(MediaError::Gone) || self.failures >= MOST_FAILURES;
    }

    /// Bytes of memory of what places hold, and which are free.
    pub(crate) fn places_bytes(&self) -> usize {
        self.contents.memory_bytes() + self.free.capacity() * size_of::<Place>()
    }

    /// The most that this can be, of so many places and a volume of so many blocks.
    pub(crate) fn most_memory_bytes(places: u64, volume_blocks: u64) -> u64 {
        Contents::most_memory_bytes(places, PLACES_AT_ONCE, volume_blocks) + most_bytes::<Place>(places)
    }
}

impl PlaceSource for ReadSsd {
    fn free(&self) -> u32 {
        if self.is_gone { 0 } else { self.free.len() as u32 + (self.limit - self.taken) }
    }

    fn take(&mut self) -> Place {
        self.free.pop().unwrap_or_else(|| {
            assert!(self.taken < self.limit, "a free place was seen");
            if self.taken == self.contents.places() {
                self.contents.insert_extent(self.contents.extents());
            }
            self.taken += 1;
            self.taken - 1
        })
    }

    fn release(&mut self, place: Place) {
        make_room(&mut self.free);
        self.free.push(place);
    }

    fn block_at(&self, place: Place) -> BlockNo {
        self.contents.held(place).block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(limit: u32) -> ReadSsd {
        ReadSsd::new(VolumeTag(1), BlockSize::KIB_4, 8192, limit, 100)
    }

    #[test]
    fn places_are_bounded_and_come_back() {
        let mut ssd = places(2);
        let (a, b) = (ssd.take(), ssd.take());
        assert_eq!(ssd.free(), 0);
        assert_eq!([ssd.offset(a), ssd.offset(b)], [8192, 8192 + 4096]);
        ssd.release(a);
        assert_eq!((ssd.free(), ssd.take()), (1, a));
        ssd.quarantine();
        assert_eq!((ssd.free(), ssd.quarantined()), (0, 1));
    }

    #[test]
    fn bytes_of_another_block_are_not_believed() {
        let mut ssd = places(1);
        let (place, bytes) = (ssd.take(), [7; 4096]);
        ssd.put(place, 5, ssd.checksum(5, &bytes));
        assert!(ssd.is_intact(place, &bytes));
        assert!(!ssd.is_intact(place, &[8; 4096]));
        ssd.put(place, 6, ssd.checksum(5, &bytes));
        assert!(!ssd.is_intact(place, &bytes));
        assert_eq!(ssd.block_at(place), 6);
    }

    #[test]
    fn a_device_that_only_fails_is_given_up() {
        let mut ssd = places(8);
        for _ in 1..MOST_FAILURES {
            ssd.note(Err(MediaError::Io));
        }
        assert_eq!((ssd.is_gone(), ssd.free()), (false, 8));
        ssd.note(Ok(()));
        ssd.note(Err(MediaError::Io));
        assert!(!ssd.is_gone());
        ssd.note(Err(MediaError::Gone));
        ssd.note(Ok(()));
        assert_eq!((ssd.is_gone(), ssd.free()), (true, 0));
    }
}
