//! What every place holds, in nine bytes a place for volumes of up to 4 TiB (with blocks of 4 KiB), and one more for each 256
//! times that: checksum, block, state and age. An extent of which no place holds anything takes nothing. It must not know
//! versions, or what is durable; what an age means is the business of [`crate::ages`].

use std::ops::Range;

use lode_format::EntryState;
use lode_types::prefetch::prefetch_slice;
use lode_types::{BlockNo, NumberFilter};

use crate::cut::{PartOfExtent, cut};
use crate::place::Place;

const CRC_BYTES: usize = 4;
/// Bits beside the block number: two of state, eight of age.
const STATE_BITS: u32 = 2;
const AGE_BITS: u32 = 8;
/// The state of what is newer than the backing disk.
const DIRTY: u64 = 2;
/// A record is read as its checksum and a whole word, so that so much has to follow the last one.
const READ_BYTES: usize = CRC_BYTES + size_of::<u64>();

/// The block that a place holds, if it holds one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBlock {
    /// Nothing, or a copy that equals the backing disk, or one that is newer. The rest means nothing when it is free.
    pub state: EntryState,
    /// The block.
    pub block: BlockNo,
    /// Checksum of its bytes, as the volume's block.
    pub crc: u32,
}

/// What is noted of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) held: HeldBlock,
    /// A clean copy that is not in the journal: the backing disk is not known to hold the same bytes durably.
    pub(crate) is_volatile: bool,
    pub(crate) age: u8,
}

/// How records are packed.
#[derive(Clone, Copy, Debug)]
struct Packing {
    /// Bytes of a record, and those of its bits that are its own when a word is read.
    width: usize,
    mask: u64,
}

/// Records of neighbouring places of an extent that holds something.
#[derive(Debug)]
pub(crate) struct RecordsMut<'a> {
    packing: Packing,
    bytes: &'a mut [u8],
}

/// Places of a volume, by extent.
#[derive(Clone, Debug)]
pub struct Contents {
    packing: Packing,
    places_per_extent: u32,
    /// 2⁶⁴ divided by the places of an extent, rounded up: a product with it is a quotient, exact for all numbers of 32 bits
    /// (Lemire, Kaser and Kurz, "Faster remainder by direct computation", 2019, theorem 1).
    reciprocal: u128,
    /// The records of each extent; empty while it holds nothing.
    extents: Vec<Box<[u8]>>,
}

impl Packing {
    #[inline]
    fn unpack(self, bytes: &[u8]) -> Content {
        let (crc, packed) = bytes.split_at(CRC_BYTES);
        let crc = u32::from_le_bytes(crc.try_into().expect("four bytes"));
        let packed = u64::from_le_bytes(packed.try_into().expect("eight bytes")) & self.mask;
        let (state, is_volatile) = match packed & ((1 << STATE_BITS) - 1) {
            0 => return Content::default(),
            1 => (EntryState::Clean, false),
            DIRTY => (EntryState::Dirty, false),
            _ => (EntryState::Clean, true),
        };
        let (age, block) = ((packed >> STATE_BITS) as u8, packed >> (STATE_BITS + AGE_BITS));
        Content { held: HeldBlock { state, block, crc }, is_volatile, age }
    }

    /// # Panics
    /// Where the block is beyond the volume's end.
    #[inline]
    fn pack(self, content: Content, record: &mut [u8]) {
        let Content { held: HeldBlock { state, block, crc }, is_volatile, age } = content;
        let state = match (state, is_volatile) {
            (EntryState::Free, _) => return record.fill(0),
            (EntryState::Clean, false) => 1,
            (EntryState::Dirty, _) => DIRTY,
            (EntryState::Clean, true) => 3,
        };
        assert!(block <= self.mask >> (STATE_BITS + AGE_BITS), "block {block} is beyond the volume's end");
        let packed = (block << (STATE_BITS + AGE_BITS)) | (u64::from(age) << STATE_BITS) | state;
        let (crc_bytes, packed_bytes) = record.split_at_mut(CRC_BYTES);
        crc_bytes.copy_from_slice(&crc.to_le_bytes());
        packed_bytes.copy_from_slice(&packed.to_le_bytes()[..packed_bytes.len()]);
    }
}

impl RecordsMut<'_> {
    /// Notes what is held by the place of this number among them.
    #[inline]
    pub(crate) fn set(&mut self, number: usize, held: HeldBlock) {
        let at = number * self.packing.width;
        let content = Content { held, ..Content::default() };
        self.packing.pack(content, &mut self.bytes[at..at + self.packing.width]);
    }
}

impl Contents {
    /// No extents, of so many places each, for a volume of so many blocks.
    pub fn new(places_per_extent: u32, blocks: u64) -> Contents {
        let block_bits = u64::BITS - blocks.saturating_sub(1).leading_zeros();
        // 54 bits are left for blocks in the widest record: as many bytes as no disk has.
        let packed_bytes = (block_bits + STATE_BITS + AGE_BITS).div_ceil(8).clamp(5, 8);
        let mask = u64::MAX >> (u64::BITS - packed_bytes * 8);
        let places_per_extent = places_per_extent.max(1);
        let packing = Packing { width: CRC_BYTES + packed_bytes as usize, mask };
        let reciprocal = (1u128 << 64).div_ceil(places_per_extent.into());
        Contents { packing, places_per_extent, reciprocal, extents: Vec::new() }
    }

    /// Extents, empty ones included.
    pub fn extents(&self) -> usize {
        self.extents.len()
    }

    /// Places, free ones included.
    pub fn places(&self) -> u32 {
        self.extents.len() as u32 * self.places_per_extent
    }

    /// An extent that holds nothing comes to be the one of this number among the volume's.
    pub fn insert_extent(&mut self, ordinal: usize) {
        if self.extents.len() == self.extents.capacity() {
            self.extents.reserve_exact(self.extents.len() / 16 + 1);
        }
        self.extents.insert(ordinal, Box::default());
    }

    /// This extent is the volume's no more.
    pub(crate) fn remove_extent(&mut self, ordinal: usize) {
        self.extents.remove(ordinal);
    }

    /// The extent of a place, and its number there.
    #[inline]
    pub(crate) fn split(&self, place: Place) -> (u32, u32) {
        let ordinal = ((u128::from(place) * self.reciprocal) >> 64) as u32;
        (ordinal, place - ordinal * self.places_per_extent)
    }

    #[inline]
    fn locate(&self, place: Place) -> (usize, usize) {
        let (ordinal, within) = self.split(place);
        (ordinal as usize, within as usize * self.packing.width)
    }

    /// What a place holds.
    #[inline]
    pub fn held(&self, place: Place) -> HeldBlock {
        self.get(place).held
    }

    /// A place holds this from now on.
    pub fn hold(&mut self, place: Place, held: HeldBlock) {
        self.set(place, Content { held, ..Content::default() });
    }

    /// What is noted of a place.
    #[inline]
    pub(crate) fn get(&self, place: Place) -> Content {
        let (ordinal, at) = self.locate(place);
        let bytes = self.extents[ordinal].get(at..at + READ_BYTES);
        bytes.map_or(Content::default(), |bytes| self.packing.unpack(bytes))
    }

    /// Fetches what is noted of places, for whoever will soon look at it: they lie far apart, and waiting for many takes no longer than for
    /// one.
    pub(crate) fn prefetch(&self, places: &[Place]) {
        for &place in places {
            let (ordinal, at) = self.locate(place);
            prefetch_slice(&self.extents[ordinal], at);
        }
    }

    /// Notes it.
    ///
    /// # Panics
    /// Where the block is beyond the volume's end.
    #[inline]
    pub(crate) fn set(&mut self, place: Place, content: Content) {
        self.set_in(self.split(place), content);
    }

    /// As [`Contents::set`], of a place by its extent and its number there.
    #[inline]
    pub(crate) fn set_in(&mut self, (ordinal, within): (u32, u32), content: Content) {
        if content.held.state == EntryState::Free {
            return self.clear(ordinal, within);
        }
        let packing = self.packing;
        packing.pack(content, self.record_mut(ordinal, within));
    }

    fn clear(&mut self, ordinal: u32, within: u32) {
        let at = within as usize * self.packing.width;
        if let Some(bytes) = self.extents[ordinal as usize].get_mut(at..at + self.packing.width) {
            bytes.fill(0);
        }
    }

    #[inline]
    fn record_mut(&mut self, ordinal: u32, within: u32) -> &mut [u8] {
        let at = within as usize * self.packing.width;
        self.make_room(ordinal as usize);
        &mut self.extents[ordinal as usize][at..at + self.packing.width]
    }

    /// Takes memory for the records of an extent.
    #[inline]
    pub(crate) fn make_room(&mut self, ordinal: usize) {
        let records = &mut self.extents[ordinal];
        if records.is_empty() {
            let width = self.packing.width;
            let bytes = self.places_per_extent as usize * width + READ_BYTES - width;
            *records = vec![0; bytes].into_boxed_slice();
        }
    }

    /// Frees the memory of an extent that holds nothing.
    pub(crate) fn free_room(&mut self, ordinal: usize) {
        self.extents[ordinal] = Box::default();
    }

    /// The records of parts of extents, which are in ascending order and do not overlap; none of an extent for which there is no room.
    pub(crate) fn parts_mut(&mut self, parts: &[PartOfExtent]) -> Vec<RecordsMut<'_>> {
        let packing = self.packing;
        let in_bytes = |part: &PartOfExtent| PartOfExtent {
            ordinal: part.ordinal,
            range: part.range.start * packing.width..part.range.end * packing.width,
        };
        let lists = self.extents.iter_mut().map(|records| &mut records[..]);
        let cut = cut(lists, parts.iter().map(in_bytes));
        cut.into_iter().map(|bytes| RecordsMut { packing, bytes }).collect()
    }

    /// Places that hold something, in ascending order, and what.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = (Place, Content)> {
        self.occupied_in(0..self.extents.len())
    }

    /// The same of the places of these extents.
    pub(crate) fn occupied_in(&self, extents: Range<usize>) -> impl Iterator<Item = (Place, Content)> {
        let with_any = (extents.start as u32..).zip(&self.extents[extents]);
        let with_any = with_any.filter(|(_, records)| !records.is_empty());
        // Record by record: what is looked at millions of times is not located each time.
        let records = with_any.flat_map(|(ordinal, records)| {
            (ordinal * self.places_per_extent..).zip(records.windows(READ_BYTES).step_by(self.packing.width))
        });
        let is_free = |bytes: &[u8]| bytes[CRC_BYTES] & ((1 << STATE_BITS) - 1) == 0;
        records
            .filter(move |(_, bytes)| !is_free(bytes))
            .map(|(place, bytes)| (place, self.packing.unpack(bytes)))
    }

    /// Tells of the places that hold one of these blocks, and of few others, in ascending order. Of all others no more is looked at than the
    /// block.
    pub(crate) fn look_for(&self, blocks: &NumberFilter, mut found: impl FnMut(Place, HeldBlock)) {
        let Packing { width, mask } = self.packing;
        for (ordinal, records) in (0..).zip(&self.extents) {
            let (mut place, mut rest) = (ordinal * self.places_per_extent, &records[..]);
            while let Some(bytes) = rest.first_chunk::<READ_BYTES>() {
                let packed: [u8; 8] = bytes[CRC_BYTES..].try_into().expect("eight bytes");
                let block = (u64::from_le_bytes(packed) & mask) >> (STATE_BITS + AGE_BITS);
                if blocks.may_have(block) {
                    let held = self.packing.unpack(bytes).held;
                    if held.state != EntryState::Free {
                        found(place, held);
                    }
                }
                (place, rest) = (place + 1, &rest[width..]);
            }
        }
    }

    /// What places of an extent hold gets ages, asked for by the number of each place there, and whether it is dirty.
    pub(crate) fn set_ages(&mut self, ordinal: usize, mut age_of: impl FnMut(usize, bool) -> u8) {
        const AGE_MASK: u16 = ((1 << AGE_BITS) - 1) << STATE_BITS;
        for (within, record) in self.extents[ordinal].chunks_exact_mut(self.packing.width).enumerate() {
            // State and age are in the same two bytes of every record.
            let bytes = &mut record[CRC_BYTES..CRC_BYTES + size_of::<u16>()];
            let packed = u16::from_le_bytes([bytes[0], bytes[1]]);
            let state = u64::from(packed) & ((1 << STATE_BITS) - 1);
            if state != 0 {
                let aged = packed & !AGE_MASK | u16::from(age_of(within, state == DIRTY)) << STATE_BITS;
                bytes.copy_from_slice(&aged.to_le_bytes());
            }
        }
    }

    /// The most memory that so many places take, in extents of so many, of a volume of so many blocks.
    pub fn most_memory_bytes(places: u64, places_per_extent: u32, blocks: u64) -> u64 {
        let extents = places.div_ceil(places_per_extent.max(1).into());
        let width = Contents::new(places_per_extent, blocks).packing.width as u64;
        let of_extent =
            u64::from(places_per_extent.max(1)) * width + (READ_BYTES + size_of::<Box<[u8]>>()) as u64;
        // The list of extents grows by a sixteenth.
        extents * (of_extent + 2) + size_of::<Box<[u8]>>() as u64
    }

    /// Bytes of memory that this takes.
    pub fn memory_bytes(&self) -> usize {
        self.extents.iter().map(|records| records.len()).sum::<usize>()
            + self.extents.capacity() * size_of::<Box<[u8]>>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content() -> impl Strategy<Value = (u8, u64, u32, u8)> {
        (0u8..4, any::<u64>(), any::<u32>(), any::<u8>())
    }

    fn of((state, block, crc, age): (u8, u64, u32, u8), blocks: u64) -> Content {
        let held = |state| HeldBlock { state, block: block % blocks, crc };
        match state {
            0 => Content::default(),
            1 => Content { held: held(EntryState::Clean), is_volatile: false, age },
            2 => Content { held: held(EntryState::Dirty), is_volatile: false, age },
            _ => Content { held: held(EntryState::Clean), is_volatile: true, age },
        }
    }

    proptest! {
        #[test]
        fn they_are_a_plain_list(
            bits in 0u32..54,
            places_per_extent in 1u32..40,
            steps in proptest::collection::vec((any::<u32>(), content()), 1..300),
        ) {
            let blocks = 1u64 << bits;
            let (mut contents, mut plain) = (Contents::new(places_per_extent, blocks), Vec::new());
            for (at, what) in steps {
                let extents = contents.extents();
                match at % 16 {
                    _ if extents == 0 => {
                        contents.insert_extent(0);
                        plain.resize(places_per_extent as usize, Content::default());
                    }
                    0 if extents < 8 => {
                        let ordinal = at as usize / 16 % (extents + 1);
                        contents.insert_extent(ordinal);
                        let first = ordinal * places_per_extent as usize;
                        plain.splice(first..first, std::iter::repeat_n(Content::default(), places_per_extent as usize));
                    }
                    1 => {
                        let ordinal = at as usize / 16 % extents;
                        contents.remove_extent(ordinal);
                        let first = ordinal * places_per_extent as usize;
                        plain.drain(first..first + places_per_extent as usize);
                    }
                    _ => {
                        let place = at / 16 % contents.places();
                        contents.set(place, of(what, blocks));
                        plain[place as usize] = of(what, blocks);
                    }
                }
                let all: Vec<Content> = (0..contents.places()).map(|place| contents.get(place)).collect();
                prop_assert_eq!(&all, &plain);
                let is_held = |(_, content): &(u32, Content)| content.held.state != EntryState::Free;
                let held: Vec<(u32, Content)> = (0..).zip(plain.iter().copied()).filter(is_held).collect();
                prop_assert_eq!(contents.occupied().collect::<Vec<_>>(), held.clone());
                let wanted: Vec<u64> = plain.iter().map(|content| content.held.block).step_by(3).collect();
                let filter = NumberFilter::of(wanted.iter().copied(), wanted.len());
                let mut found = Vec::new();
                contents.look_for(&filter, |place, block| found.push((place, block)));
                let of_wanted = held.into_iter().filter(|(_, content)| filter.may_have(content.held.block));
                prop_assert_eq!(found, of_wanted.map(|(place, content)| (place, content.held)).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_record_is_as_wide_as_the_volume_asks_for() {
        for (blocks, width) in [(0, 9), (1 << 30, 9), ((1 << 30) + 1, 10), (1 << 38, 10), (1 << 51, 12)] {
            assert_eq!(Contents::new(4, blocks).packing.width, width);
        }
        // As many as the largest disk has.
        assert_eq!(Contents::new(4, u64::MAX / 4096).packing.width, 12);
    }

    proptest! {
        #[test]
        fn a_place_is_in_one_extent(place in any::<u32>(), places_per_extent in 1u32..1 << 21) {
            let contents = Contents::new(places_per_extent, 1);
            prop_assert_eq!(contents.split(place), (place / places_per_extent, place % places_per_extent));
            let edge = place / places_per_extent * places_per_extent;
            prop_assert_eq!(contents.split(edge), (edge / places_per_extent, 0));
            prop_assert_eq!(contents.split(u32::MAX), (u32::MAX / places_per_extent, u32::MAX % places_per_extent));
        }
    }

    #[test]
    fn what_holds_nothing_takes_nothing() {
        let mut contents = Contents::new(1000, 1 << 30);
        (0..3).for_each(|ordinal| contents.insert_extent(ordinal));
        let empty = contents.memory_bytes();
        assert!(empty < 200, "{empty}");
        contents.set(1500, Content::default());
        assert_eq!(contents.memory_bytes(), empty);
        let held = HeldBlock { state: EntryState::Dirty, block: 7, crc: 8 };
        contents.set(1500, Content { held, is_volatile: false, age: 9 });
        assert_eq!(contents.memory_bytes(), empty + 9 * 1000 + 3);
    }
}
