//! Blocks in flight: their operations in arrival order and their physical places.
//!
//! While a block has operations, its places are kept here and not with its logical slots; a slot may by
//! then belong to another block. When the last operation ends the places go to the slots that the
//! scheme's latest decision gave the block.

use std::collections::VecDeque;

use hashbrown::HashMap;
use lode_policy::{CopySource, Slot};
use lode_types::{BlockNo, Bytes, Level};
use slab::Slab;

use crate::dram::Frame;
use crate::reissue::DiskWrite;

pub(crate) use lode_store::Place;

/// Where the bytes of a read, a merge or a copy come from. Fast to slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Dram,
    ReadSsd,
    Ssd,
    Backing,
}

impl Source {
    pub(crate) const ALL: [Source; 4] = [Source::Dram, Source::ReadSsd, Source::Ssd, Source::Backing];
}

impl From<Level> for Source {
    fn from(level: Level) -> Source {
        match level {
            Level::Dram => Source::Dram,
            Level::Ssd => Source::Ssd,
            Level::ReadSsd => Source::ReadSsd,
        }
    }
}

impl From<CopySource> for Source {
    fn from(from: CopySource) -> Source {
        from.level().map_or(Source::Backing, Source::from)
    }
}

/// A block's copy on the SSD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SsdCopy {
    /// There is none.
    #[default]
    None,
    /// It is at this place.
    Whole(Place),
    /// It is newer than the backing disk and damaged. Without a spare copy reads fail until the block is overwritten.
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

    /// Where it is if its bytes can be read, there or with a spare copy elsewhere.
    pub(crate) fn readable(self, has_spare: bool) -> Option<Place> {
        if has_spare { self.place() } else { self.whole() }
    }

    pub(crate) fn is_lost(self) -> bool {
        matches!(self, SsdCopy::Lost(_))
    }
}

/// One block of a guest's read or write, as decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessOp {
    pub(crate) request: usize,
    /// Place of the part in the bytes of the request's write.
    pub(crate) buf_at: u32,
    /// Place of the part in the block.
    pub(crate) start: u32,
    pub(crate) len: u32,
    pub(crate) is_write: bool,
    pub(crate) source: Source,
    pub(crate) merge: Option<Source>,
    /// DRAM gets a copy of what is read or written.
    pub(crate) fill_dram: bool,
    pub(crate) fill_ssd: bool,
    /// The write goes to the SSD; whether the copy is dirty then.
    pub(crate) to_ssd: Option<bool>,
    pub(crate) to_backing: bool,
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
    Evict(Level),
    /// The dirty copy is written back and stays as a clean one.
    Clean {
        /// The scheme asked for it, and does not need to be told.
        asked: bool,
    },
    /// A damaged dirty copy is written back from a spare one and given up.
    Repair,
    Copy {
        to: Level,
        from: Source,
    },
    /// Nothing else touches the block until the trim or zeroing in flight is over.
    Hold,
}

/// What the operation at the head waits for.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It has not started.
    Start,
    /// The block's bytes.
    Read(Source),
    /// The old bytes for a partial write.
    Merge(Source),
    /// The write to the SSD at this place, with this checksum; the bytes are already answered for when a
    /// read or write-through filled it.
    WriteSsd { place: Place, crc: u32 },
    /// The write to the read SSD at this place, with this checksum.
    WriteReadSsd { place: Place, crc: u32 },
    /// The invalidation of the SSD copy to become durable, before the backing disk is written.
    Gate,
    /// The write to the backing disk, and to the SSD where it was issued again.
    WriteBacking,
    /// The write that was issued again to the SSD; the backing disk has it.
    WriteAgain,
    /// An older write to arrive at the backing disk, whose guest was answered long ago.
    Late,
    /// A free place for a copy.
    Place(Bytes),
    /// A turn among the copies.
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
    pub(crate) copy: SsdCopy,
    /// The copies beside it, which are never newer: in DRAM, and at a place of the read SSD.
    pub(crate) frame: Option<Frame>,
    pub(crate) mirror: Option<Place>,
    /// What the frame will be when the write under way is on the SSD.
    pub(crate) next_frame: Option<Frame>,
    /// The slots of the scheme's latest decision, indexed by level.
    pub(crate) slots: [Option<Slot>; Level::COUNT],
    /// The copy on the SSD could not be written back: what must not pass it fails.
    pub(crate) backing_failed: bool,
    /// The whole block as it will be written, while a write is under way.
    pub(crate) full: Option<Bytes>,
    /// A write on its way to the backing disk that may be, or was, issued again.
    pub(crate) disk_write: Option<DiskWrite>,
}

impl Flight {
    pub(crate) fn slot(&self, level: Level) -> Option<Slot> {
        self.slots[level.index()]
    }

    /// Whether there is a copy beside the one on the SSD.
    pub(crate) fn has_spare(&self) -> bool {
        self.frame.is_some() || self.mirror.is_some()
    }

    /// Whether something is queued behind the operation at the head that is not in vain until it is over.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.queue.iter().skip(1).any(|op| !matches!(op, Op::Evict(_)))
    }

    /// Whether the operation at the head, which has not started, or the end of the flight must wait for an older write to
    /// arrive at the backing disk: whatever it would do there could be undone by that one.
    pub(crate) fn waits_for_late_write(&self) -> bool {
        self.disk_write.is_some()
            && match self.queue.front() {
                Some(Op::Access(op)) => op.to_backing || op.drop_ssd || self.copy.place().is_none(),
                _ => true,
            }
    }

    /// Where the block's newest bytes are read from: the copy that was decided on while it is there, else the fastest.
    /// `None`: the only copy is damaged.
    pub(crate) fn source(&self, decided: Source) -> Option<Source> {
        let is_there = |source: &Source| match source {
            Source::Dram => self.frame.is_some(),
            Source::ReadSsd => self.mirror.is_some(),
            Source::Ssd => self.copy.whole().is_some(),
            Source::Backing => self.copy.place().is_none(),
        };
        std::iter::once(decided).chain(Source::ALL).find(is_there)
    }
}

/// What a block has while it is not in flight and that is not in its slots.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    /// It could not be written back, or is damaged.
    pub(crate) copy: SsdCopy,
    /// What stands in for the copy on the SSD although the scheme has let go of it.
    pub(crate) frame: Option<Frame>,
    pub(crate) mirror: Option<Place>,
}

impl Kept {
    fn has_spare(&self) -> bool {
        self.frame.is_some() || self.mirror.is_some()
    }

    fn readable(&self) -> Option<Place> {
        self.copy.readable(self.has_spare())
    }
}

/// All blocks in flight.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    keys: HashMap<BlockNo, usize>,
    flights: Slab<Flight>,
    /// Blocks not in flight of which something counts that is no longer the scheme's.
    kept: HashMap<BlockNo, Kept>,
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
            let Kept { copy, frame, mirror } = kept.remove(&block).unwrap_or_default();
            flights.insert(Flight {
                queue: VecDeque::new(),
                stage: Stage::Start,
                copy,
                frame,
                mirror,
                next_frame: None,
                slots: [None; Level::COUNT],
                backing_failed: false,
                full: None,
                disk_write: None,
            })
        });
        &mut self.flights[key]
    }

    /// Ends the flight of a block without operations.
    pub(crate) fn leave(&mut self, block: BlockNo) -> Option<Flight> {
        let key = self.keys.remove(&block)?;
        Some(self.flights.remove(key))
    }

    /// Remembers what counts of a block that leaves flight without slots for it.
    pub(crate) fn keep(&mut self, block: BlockNo, kept: Kept) {
        self.kept.insert(block, kept);
    }

    /// Kept copies that are still to be written back, damaged ones by way of a spare, in ascending order.
    pub(crate) fn to_write_back(&self) -> Vec<BlockNo> {
        let readable = self.kept.iter().filter(|(_, kept)| kept.readable().is_some());
        let mut blocks: Vec<BlockNo> = readable.map(|(&block, _)| block).collect();
        blocks.sort_unstable();
        blocks
    }

    /// Blocks in flight or kept, with their copies on the SSD and whether these have spares.
    fn copies(&self) -> impl Iterator<Item = (BlockNo, SsdCopy, bool)> {
        let in_flight = self.keys.iter().map(|(&block, &key)| (block, &self.flights[key]));
        let in_flight = in_flight.map(|(block, flight)| (block, flight.copy, flight.has_spare()));
        in_flight.chain(self.kept.iter().map(|(&block, kept)| (block, kept.copy, kept.has_spare())))
    }

    /// Those of them whose bytes can be read.
    pub(crate) fn readable_copies(&self) -> impl Iterator<Item = (BlockNo, Place)> {
        self.copies().filter_map(|(block, copy, spare)| Some((block, copy.readable(spare)?)))
    }

    /// How many of them are damaged and nowhere else.
    pub(crate) fn lost(&self) -> usize {
        self.copies().filter(|(_, copy, spare)| copy.is_lost() && !spare).count()
    }

    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Blocks in flight or kept within a range, in ascending order.
    pub(crate) fn within(&self, range: &std::ops::Range<BlockNo>) -> Vec<BlockNo> {
        let known = self.keys.keys().chain(self.kept.keys());
        let mut within: Vec<BlockNo> = known.copied().filter(|block| range.contains(block)).collect();
        within.sort_unstable();
        within
    }
}
