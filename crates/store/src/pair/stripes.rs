//! Where a cache is on several pairs: its one address space is divided over them by whole extents, in turn, so that what one volume
//! has is spread over all of them and their capacity adds up. It must not know what is on them.
//!
//! Of pairs of different sizes all get an extent in turn until the smallest is full, then the others do. Superblocks and directories
//! are on the first pair; the others keep the same room free, so that each is divided as a single SSD of its size is. No extent is
//! on two pairs.

use std::ops::Range;

use lode_format::DeviceLayout;
use lode_types::BlockSize;
use smallvec::{SmallVec, smallvec};

use super::member::{MEMBERS, home_member};
use crate::error::StoreError;

/// Some bytes of a cache on one of its pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which pair.
    pub pair: usize,
    /// The first of them there.
    pub offset_bytes: u64,
    /// How many they are.
    pub length_bytes: u64,
}

/// Pairs that get extents in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Zone {
    /// Its first extent in the cache, and where each of its pairs has its first one of the zone.
    first_extent: u64,
    first_slot: u64,
    pairs: SmallVec<[usize; 4]>,
}

/// Where a cache is on its pairs. See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripes {
    pairs: usize,
    size_bytes: u64,
    /// What lies before the first extent is at the same offsets on the first pair.
    start_bytes: u64,
    extent_bytes: u64,
    zones: SmallVec<[Zone; 1]>,
}

impl Stripes {
    /// Of a cache on one pair of so many bytes: everything is where it is on the pair.
    pub fn one(pair_bytes: u64) -> Stripes {
        let (size_bytes, start_bytes) = (pair_bytes, pair_bytes);
        Stripes { pairs: 1, size_bytes, start_bytes, extent_bytes: 1, zones: SmallVec::new() }
    }

    /// Of a cache on pairs of so many bytes each, in extents of `extent_bytes`.
    ///
    /// # Errors
    /// [`StoreErrorKind::Geometry`](crate::StoreErrorKind::Geometry) when a pair has no room for an extent, or all of them have room
    /// for more than a cache has.
    ///
    /// # Panics
    /// When there is no pair.
    pub fn new(pair_bytes: &[u64], extent_bytes: u64, block: BlockSize) -> Result<Stripes, StoreError> {
        if let &[pair_bytes] = pair_bytes {
            return Ok(Stripes::one(pair_bytes));
        }
        let pairs = pair_bytes.len();
        let layouts = pair_bytes.iter().enumerate().map(|(pair, &bytes)| {
            let layout = DeviceLayout::new(bytes, extent_bytes, block).map_err(StoreError::geometry);
            layout.map_err(|error| error.within(&format!("pair {} of {pairs}", pair + 1)))
        });
        let layouts = layouts.collect::<Result<Vec<DeviceLayout>, StoreError>>()?;
        let start_bytes = layouts.first().expect("a cache has a pair").extent_start(0);
        let slots: Vec<u64> = layouts.iter().map(|layout| layout.extents.into()).collect();
        let size_bytes = start_bytes + slots.iter().sum::<u64>() * extent_bytes;
        DeviceLayout::new(size_bytes, extent_bytes, block).map_err(StoreError::geometry)?;
        Ok(Stripes { pairs, size_bytes, start_bytes, extent_bytes, zones: zones(&slots) })
    }

    /// How many pairs there are.
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// Bytes of the cache.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Where some bytes of the cache are, in their order. Neighbours on a pair are one part.
    pub fn parts(&self, bytes: Range<u64>) -> SmallVec<[Part; 2]> {
        let mut parts: SmallVec<[Part; 2]> = smallvec![];
        let mut at = bytes.start;
        while at < bytes.end {
            let (pair, offset_bytes, end) = self.locate(at);
            let length_bytes = end.min(bytes.end) - at;
            at += length_bytes;
            match parts.last_mut() {
                Some(last) if last.pair == pair && last.offset_bytes + last.length_bytes == offset_bytes => {
                    last.length_bytes += length_bytes;
                }
                _ => parts.push(Part { pair, offset_bytes, length_bytes }),
            }
        }
        parts
    }

    /// The home of a byte of the cache: which member of all, counted by pairs ([`home_member`]).
    pub fn home(&self, offset_bytes: u64) -> u16 {
        let (pair, offset_bytes, _) = self.locate(offset_bytes);
        (pair * MEMBERS + home_member(offset_bytes)) as u16
    }

    /// What of these bytes of the cache is on a pair, as bytes of the pair, in their order.
    pub fn on_pair(&self, pair: usize, bytes: &[Range<u64>]) -> Vec<Range<u64>> {
        let parts = bytes.iter().flat_map(|range| self.parts(range.clone()));
        let on_pair = parts.filter(|part| part.pair == pair);
        on_pair.map(|part| part.offset_bytes..part.offset_bytes + part.length_bytes).collect()
    }

    /// The pair that a byte is on, where it is there, and the first byte of the cache that may be elsewhere. What lies beyond the end is
    /// beyond that of the first pair.
    fn locate(&self, at: u64) -> (usize, u64, u64) {
        if at < self.start_bytes {
            return (0, at, self.start_bytes);
        }
        if at >= self.size_bytes {
            return (0, at, u64::MAX);
        }
        let (extent, within) =
            ((at - self.start_bytes) / self.extent_bytes, (at - self.start_bytes) % self.extent_bytes);
        let zone =
            self.zones.iter().rfind(|zone| zone.first_extent <= extent).expect("the first has the first");
        let (number, width) = (extent - zone.first_extent, zone.pairs.len() as u64);
        let pair = zone.pairs[(number % width) as usize];
        let slot = zone.first_slot + number / width;
        (pair, self.start_bytes + slot * self.extent_bytes + within, at - within + self.extent_bytes)
    }
}

/// The zones of pairs with room for so many extents each.
fn zones(slots: &[u64]) -> SmallVec<[Zone; 1]> {
    let mut ends = slots.to_vec();
    ends.sort_unstable();
    ends.dedup();
    let mut zones = SmallVec::new();
    let (mut first_extent, mut first_slot) = (0, 0);
    for end in ends {
        let pairs: SmallVec<[usize; 4]> = (0..slots.len()).filter(|&pair| slots[pair] > first_slot).collect();
        let extents = (end - first_slot) * pairs.len() as u64;
        zones.push(Zone { first_extent, first_slot, pairs });
        (first_extent, first_slot) = (first_extent + extents, end);
    }
    zones
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Pair and offset there of each extent, one after the other.
    fn table(pair_bytes: &[u64], extent_bytes: u64, block: BlockSize) -> Vec<(usize, u64)> {
        let start = DeviceLayout::HEADS_BYTES.next_multiple_of(block.bytes());
        let mut ends: Vec<u64> = vec![start; pair_bytes.len()];
        let mut table = Vec::new();
        loop {
            let before = table.len();
            for (pair, end) in ends.iter_mut().enumerate() {
                if *end + extent_bytes <= pair_bytes[pair] {
                    table.push((pair, *end));
                    *end += extent_bytes;
                }
            }
            if table.len() == before {
                return table;
            }
        }
    }

    #[test]
    fn pairs_of_different_sizes_are_filled_in_turn() {
        let stripes = Stripes::new(&[3 * MIB, 4 * MIB, 2 * MIB], MIB, BlockSize::KIB_4).unwrap();
        let start = DeviceLayout::HEADS_BYTES;
        assert_eq!((stripes.pairs(), stripes.size_bytes()), (3, start + 6 * MIB));
        let part = |pair, offset_bytes, length_bytes| Part { pair, offset_bytes, length_bytes };
        assert_eq!(stripes.parts(0..start + MIB).to_vec(), [part(0, 0, start + MIB)]);
        // One, two and three extents have they room for.
        let order = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (1, 2)];
        let parts = stripes.parts(start..start + 6 * MIB);
        let mut expected: Vec<Part> =
            order.iter().map(|&(pair, slot)| part(pair, start + slot * MIB, MIB)).collect();
        // The last two are neighbours.
        expected.pop();
        expected[4].length_bytes = 2 * MIB;
        assert_eq!(parts.to_vec(), expected);
        let used = [0..start, start..start + MIB, start + 3 * MIB..start + 5 * MIB];
        assert_eq!(stripes.on_pair(0, &used), [0..start, start..start + MIB, start + MIB..start + 2 * MIB]);
        assert!(stripes.on_pair(1, &used).into_iter().eq(std::iter::once(start + MIB..start + 2 * MIB)));
        assert!(stripes.on_pair(2, &used).is_empty());
    }

    #[test]
    fn a_pair_without_room_is_refused_by_number() {
        let refused = Stripes::new(&[3 * MIB, MIB], MIB, BlockSize::KIB_4).unwrap_err();
        assert_eq!(refused.kind(), crate::StoreErrorKind::Geometry);
        assert!(refused.to_string().contains("pair 2 of 2"), "{refused}");
        // Each of them fits, and all together do not.
        let large = u64::from(DeviceLayout::MAX_EXTENTS) * MIB;
        assert!(Stripes::new(&[large; 2], MIB, BlockSize::KIB_4).is_err());
        assert!(Stripes::new(&[large / 2; 2], MIB, BlockSize::KIB_4).is_ok());
    }

    proptest! {
        #[test]
        fn everything_is_where_the_table_has_it(
            pages in prop::collection::vec(300u64..6000, 1..7),
            extent_shift in 20u32..22,
            block_shift in 12u32..17,
            looks in prop::collection::vec((any::<u64>(), 1u64..(5 << 20)), 20),
        ) {
            let (extent_bytes, block) = (1 << extent_shift, BlockSize::new(1 << block_shift).unwrap());
            let pair_bytes: Vec<u64> = pages.iter().map(|pages| pages * 4096).collect();
            let Ok(stripes) = Stripes::new(&pair_bytes, extent_bytes, block) else {
                let start = DeviceLayout::HEADS_BYTES.next_multiple_of(block.bytes());
                prop_assert!(pair_bytes.iter().any(|&bytes| bytes < start + extent_bytes));
                return Ok(());
            };
            if let [bytes] = pair_bytes[..] {
                prop_assert_eq!(stripes.size_bytes(), bytes);
                let whole = Part { pair: 0, offset_bytes: 0, length_bytes: bytes };
                prop_assert_eq!(stripes.parts(0..bytes).to_vec(), [whole]);
                return Ok(());
            }
            let table = table(&pair_bytes, extent_bytes, block);
            let layout = DeviceLayout::new(stripes.size_bytes(), extent_bytes, block).unwrap();
            prop_assert_eq!(layout.extents as usize, table.len());
            prop_assert_eq!(layout.extent_start(layout.extents), stripes.size_bytes());
            let place = |at: u64| match at.checked_sub(layout.extent_start(0)) {
                None => (0, at),
                Some(within) => {
                    let (pair, start) = table[(within / extent_bytes) as usize];
                    (pair, start + within % extent_bytes)
                }
            };
            for (at, length) in looks {
                let start = at % stripes.size_bytes();
                let end = stripes.size_bytes().min(start + length);
                let mut next = start;
                for part in stripes.parts(start..end) {
                    // A step that is none of anything finds borders that should not be there.
                    for at in (0..part.length_bytes).step_by(4093).chain([part.length_bytes - 1]) {
                        prop_assert_eq!(place(next + at), (part.pair, part.offset_bytes + at));
                    }
                    next += part.length_bytes;
                }
                prop_assert_eq!(next, end);
                let of_pairs = (0..stripes.pairs()).flat_map(|pair| {
                    let ranges = stripes.on_pair(pair, std::slice::from_ref(&(start..end)));
                    assert!(ranges.iter().all(|range| range.end <= pair_bytes[pair]));
                    ranges
                });
                prop_assert_eq!(of_pairs.map(|range| range.end - range.start).sum::<u64>(), end - start);
            }
        }
    }
}
