//! Blocks in flight: their operations in arrival order and their physical places.
//!
//! While a block has operations, its places are kept here and not with its logical slots; a slot may by
//! then belong to another block. When the last operation ends the places go to the slots that the
//! scheme's latest decision gave the block.

use std::collections::VecDeque;

use hashbrown::HashMap;
use lode_types::BlockNo;
use slab::Slab;

use crate::Buf;
use crate::dram::Frame;

/// A place on the SSD: an index into the volume's slots.
pub(crate) type Place = u32;

/// Where the bytes of a read or a merge come from, as decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Dram,
    Ssd,
    Backing,
}

/// A block's copy on the SSD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SsdCopy {
    /// There is none.
    #[default]
    None,
    /// It is at this place.
    Whole(Place),
    /// It was the only one and is damaged: reads fail until the block is overwritten.
    Lost(Place),
}

impl SsdCopy {
    /// Where it is, damaged or not.
    pub(crate) fn place(self) -> Option<Place> {
        match self {
            SsdCopy::None => None,
            SsdCopy::Whole(place) | SsdCopy::Lost(place) => Some(place),
        }
    }

    /// Where it is if it can be used.
    pub(crate) fn whole(self) -> Option<Place> {
        if let SsdCopy::Whole(place) = self { Some(place) } else { None }
    }

    pub(crate) fn is_lost(self) -> bool {
        matches!(self, SsdCopy::Lost(_))
    }
}

/// One block of a guest's read or write, as decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessOp {
    pub(crate) request: usize,
    /// Place of the part in the request's buffer.
    pub(crate) buf_at: u32,
    /// Place of the part in the block.
    pub(crate) start: u32,
    pub(crate) len: u32,
    pub(crate) is_write: bool,
    pub(crate) source: Source,
    pub(crate) merge: Option<Source>,
    pub(crate) fill_dram: bool,
    pub(crate) fill_ssd: bool,
    /// The write goes to the SSD; whether the copy is dirty then.
    pub(crate) to_ssd: Option<bool>,
    pub(crate) to_backing: bool,
    pub(crate) drop_dram: bool,
    pub(crate) drop_ssd: bool,
    /// The backing disk's part is done.
    pub(crate) on_backing: bool,
    /// A DRAM frame and an SSD place are set aside for it.
    pub(crate) holds_frame: bool,
    pub(crate) holds_place: bool,
}

/// One operation on a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Access(AccessOp),
    EvictDram,
    EvictSsd,
    /// The dirty copy is written back and stays as a clean one.
    Clean {
        /// The scheme asked for it, and does not need to be told.
        asked: bool,
    },
    Promote {
        from_dram: bool,
    },
    /// Nothing else touches the block until the trim or zeroing in flight is over.
    Hold,
}

/// What the operation at the head waits for.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It has not started.
    Start,
    /// The copy on the SSD.
    ReadSsd,
    /// The block on the backing disk.
    ReadBacking,
    /// The old bytes for a partial write.
    Merge(Source),
    /// The write to the SSD at this place, with this checksum; the bytes are already answered for when a
    /// read or write-through filled it.
    WriteSsd { place: Place, crc: u32 },
    /// The invalidation of the SSD copy to become durable, before the backing disk is written.
    Gate,
    /// The write to the backing disk.
    WriteBacking,
    /// A free place on the SSD.
    Place(Buf),
    /// A turn among the promotions.
    Turn,
    /// Its write-back, by the destager, or the flush that makes the damaged copy superfluous.
    Destage,
    /// The range operation.
    Held,
}

/// A block with operations.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) queue: VecDeque<Op>,
    pub(crate) stage: Stage,
    pub(crate) frame: Option<Frame>,
    pub(crate) copy: SsdCopy,
    /// The slots of the scheme's latest decision.
    pub(crate) dram_slot: Option<u32>,
    pub(crate) ssd_slot: Option<u32>,
    /// The copy on the SSD could not be written back: what must not pass it fails.
    pub(crate) backing_failed: bool,
    /// The whole block as it will be written, while a write is under way.
    pub(crate) full: Option<Buf>,
}

/// All blocks in flight.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    keys: HashMap<BlockNo, usize>,
    flights: Slab<Flight>,
    /// Blocks not in flight whose only copy on the SSD is no longer the scheme's: it could not be written back, or
    /// is damaged.
    kept: HashMap<BlockNo, SsdCopy>,
}

impl Blocks {
    pub(crate) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    pub(crate) fn contains(&self, block: BlockNo) -> bool {
        self.keys.contains_key(&block)
    }

    /// Whether the block is in flight or kept.
    pub(crate) fn is_known(&self, block: BlockNo) -> bool {
        self.contains(block) || self.kept.contains_key(&block)
    }

    pub(crate) fn get(&self, block: BlockNo) -> Option<&Flight> {
        self.keys.get(&block).map(|&key| &self.flights[key])
    }

    pub(crate) fn get_mut(&mut self, block: BlockNo) -> Option<&mut Flight> {
        self.keys.get(&block).map(|&key| &mut self.flights[key])
    }

    /// The block's flight, new if need be.
    pub(crate) fn enter(&mut self, block: BlockNo) -> &mut Flight {
        let flights = &mut self.flights;
        let kept = &mut self.kept;
        let key = *self.keys.entry(block).or_insert_with(|| {
            let copy = kept.remove(&block).unwrap_or_default();
            flights.insert(Flight {
                queue: VecDeque::new(),
                stage: Stage::Start,
                frame: None,
                copy,
                dram_slot: None,
                ssd_slot: None,
                backing_failed: false,
                full: None,
            })
        });
        &mut self.flights[key]
    }

    /// Ends the flight of a block without operations.
    pub(crate) fn leave(&mut self, block: BlockNo) -> Option<Flight> {
        let key = self.keys.remove(&block)?;
        Some(self.flights.remove(key))
    }

    /// Remembers the only copy of a block that leaves flight without a slot for it.
    pub(crate) fn keep(&mut self, block: BlockNo, copy: SsdCopy) {
        self.kept.insert(block, copy);
    }

    /// Kept copies that are still to be written back, in ascending order.
    pub(crate) fn to_write_back(&self) -> Vec<BlockNo> {
        let whole = self.kept.iter().filter(|(_, copy)| !copy.is_lost());
        let mut blocks: Vec<BlockNo> = whole.map(|(&block, _)| block).collect();
        blocks.sort_unstable();
        blocks
    }

    /// Blocks in flight or kept, with their copies on the SSD.
    fn copies(&self) -> impl Iterator<Item = (BlockNo, SsdCopy)> {
        let in_flight = self.keys.iter().map(|(&block, &key)| (block, self.flights[key].copy));
        in_flight.chain(self.kept.iter().map(|(&block, &copy)| (block, copy)))
    }

    /// Those of them that are whole.
    pub(crate) fn whole_copies(&self) -> impl Iterator<Item = (BlockNo, Place)> {
        self.copies().filter_map(|(block, copy)| Some((block, copy.whole()?)))
    }

    /// How many of them are damaged and nowhere else.
    pub(crate) fn lost(&self) -> usize {
        self.copies().filter(|(_, copy)| copy.is_lost()).count()
    }

    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Blocks in flight or kept within a range, in no order.
    pub(crate) fn within(&self, range: &std::ops::Range<BlockNo>) -> Vec<BlockNo> {
        let known = self.keys.keys().chain(self.kept.keys());
        known.copied().filter(|block| range.contains(block)).collect()
    }
}
