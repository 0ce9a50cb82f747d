//! All blocks in flight, those whose head operation may advance, those that wait at a gate, and what is kept of blocks that
//! left flight with a copy that the scheme does not know. While a block has operations its copies are with its flight and
//! not with its logical slots; a slot may by then belong to another block. It must not know what operations do.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;

use hashbrown::HashMap;
use lode_types::{BlockNo, Counter};
use slab::Slab;

use crate::dram::Frame;
use crate::flight::{BlockOp, Flight, Place, SsdCopy};

/// Most empty queues that are kept, and most operations that there is memory for in each.
const MOST_QUEUES: usize = 1024;
const MOST_KEPT_OPS: usize = 16;

/// What a block has while it is not in flight and that is not in its slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    fn is_lost(&self) -> bool {
        self.copy.is_lost() && !self.has_spare()
    }
}

/// All blocks in flight.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    keys: HashMap<BlockNo, usize>,
    /// The block that was looked for last, and its key: most often the next look is for the same one.
    last: Cell<Option<(BlockNo, usize)>>,
    flights: Slab<Flight>,
    /// Empty queues of flights that are over, for others.
    queues: Vec<VecDeque<BlockOp>>,
    /// Blocks not in flight of which something counts that is no longer the scheme's.
    kept: HashMap<BlockNo, Kept>,
    /// Work queue of blocks whose head operation may advance; avoids recursion.
    runnable: VecDeque<BlockNo>,
    /// Blocks that wait at a gate until this version of the journal is durable.
    gates: Vec<(u64, BlockNo)>,
    /// Of the kept blocks those that are lost, and blocks in flight that are, or were when last looked at.
    lost_kept: usize,
    damaged: Vec<BlockNo>,
}

impl Flights {
    pub(crate) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// The key of the block's flight.
    fn key(&self, block: BlockNo) -> Option<usize> {
        match self.last.get() {
            Some((last, key)) if last == block => Some(key),
            _ => {
                let key = *self.keys.get(&block)?;
                self.last.set(Some((block, key)));
                Some(key)
            }
        }
    }

    pub(crate) fn contains(&self, block: BlockNo) -> bool {
        self.key(block).is_some()
    }

    /// Whether the block is in flight or kept.
    pub(crate) fn is_known(&self, block: BlockNo) -> bool {
        self.contains(block) || self.kept.contains_key(&block)
    }

    pub(crate) fn get(&self, block: BlockNo) -> Option<&Flight> {
        self.key(block).map(|key| &self.flights[key])
    }

    pub(crate) fn get_mut(&mut self, block: BlockNo) -> Option<&mut Flight> {
        self.key(block).map(|key| &mut self.flights[key])
    }

    /// The flight of a block that has one.
    pub(crate) fn of(&self, block: BlockNo) -> &Flight {
        self.get(block).expect("the block is in flight")
    }

    /// The same, to change it.
    pub(crate) fn of_mut(&mut self, block: BlockNo) -> &mut Flight {
        self.get_mut(block).expect("the block is in flight")
    }

    /// All flights, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Flight> {
        self.flights.iter().map(|(_, flight)| flight)
    }

    /// The same, to change them.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Flight> {
        self.flights.iter_mut().map(|(_, flight)| flight)
    }

    /// All flights by their blocks, in ascending order.
    pub(crate) fn all_with_blocks_mut(&mut self) -> Vec<(BlockNo, &mut Flight)> {
        let by_key: HashMap<usize, BlockNo> = self.keys.iter().map(|(&block, &key)| (key, block)).collect();
        let mut all: Vec<_> = self.flights.iter_mut().map(|(key, flight)| (by_key[&key], flight)).collect();
        all.sort_unstable_by_key(|&(block, _)| block);
        all
    }

    /// The block's flight, new if need be.
    pub(crate) fn enter(&mut self, block: BlockNo) -> &mut Flight {
        let key = self.key(block).unwrap_or_else(|| {
            let kept = self.kept.remove(&block).unwrap_or_default();
            self.lost_kept.count_down_by(usize::from(kept.is_lost()));
            let Kept { copy, frame, mirror } = kept;
            if copy.is_lost() {
                self.damaged.push(block);
            }
            let queue = self.queues.pop().unwrap_or_default();
            let key = self.flights.insert(Flight::new(queue, copy, frame, mirror));
            self.keys.insert(block, key);
            self.last.set(Some((block, key)));
            key
        });
        &mut self.flights[key]
    }

    /// Ends the flight of a block without operations.
    pub(crate) fn leave(&mut self, block: BlockNo) -> Option<Flight> {
        let key = self.keys.remove(&block)?;
        self.last.set(None);
        self.damaged.retain(|&damaged| damaged != block);
        let mut flight = self.flights.remove(key);
        let queue = flight.take_queue();
        if self.queues.len() < MOST_QUEUES && queue.capacity() <= MOST_KEPT_OPS {
            self.queues.push(queue);
        }
        Some(flight)
    }

    /// Remembers what counts of a block that leaves flight without slots for it.
    pub(crate) fn keep(&mut self, block: BlockNo, kept: Kept) {
        if kept != Kept::default() {
            self.lost_kept += usize::from(kept.is_lost());
            let before = self.kept.insert(block, kept);
            assert!(before.is_none(), "a block in flight is not kept");
        }
    }

    /// The head operation of this block may advance.
    pub(crate) fn make_runnable(&mut self, block: BlockNo) {
        self.runnable.push_back(block);
    }

    /// The next block whose head operation may advance.
    pub(crate) fn next_runnable(&mut self) -> Option<BlockNo> {
        self.runnable.pop_front()
    }

    pub(crate) fn has_runnable(&self) -> bool {
        !self.runnable.is_empty()
    }

    /// The block waits until this version is durable.
    pub(crate) fn wait_at_gate(&mut self, block: BlockNo, version: u64) {
        self.gates.push((version, block));
    }

    /// The journal version that some block waits for; 0 if none does.
    pub(crate) fn version_waited_for(&self) -> u64 {
        self.gates.iter().map(|gate| gate.0).max().unwrap_or(0)
    }

    /// The blocks whose gates open when everything up to this version is durable.
    pub(crate) fn open_gates(&mut self, version: u64) -> Vec<BlockNo> {
        let opened = self.gates.extract_if(.., |&mut (at, _)| at <= version);
        opened.map(|(_, block)| block).collect()
    }

    /// Blocks with copies on the SSD or beside it that are kept and still to be written back, damaged ones by way of another
    /// copy, in ascending order.
    pub(crate) fn to_write_back(&self) -> Vec<BlockNo> {
        let readable = self.kept.iter().filter(|(_, kept)| kept.readable().is_some());
        let mut blocks: Vec<BlockNo> = readable.map(|(&block, _)| block).collect();
        blocks.sort_unstable();
        blocks
    }

    /// Blocks that are in no slot now, are not to be moved yet and whose copies on the SSD are whole, in ascending order, with
    /// the places of these.
    pub(crate) fn to_move(&self) -> Vec<(BlockNo, Place)> {
        let whole = self.kept.iter().filter_map(|(&block, kept)| Some((block, kept.copy.whole()?)));
        let in_flight = self.keys.iter().map(|(&block, &key)| (block, &self.flights[key]));
        let stays = in_flight.filter(|(_, flight)| !flight.ops().any(|op| *op == BlockOp::Move));
        let in_flight = stays.filter_map(|(block, flight)| Some((block, flight.copy().whole()?)));
        let mut blocks: Vec<(BlockNo, Place)> = whole.chain(in_flight).collect();
        blocks.sort_unstable();
        blocks
    }

    /// Blocks in flight or kept, with their copies on the SSD and whether there are others beside them.
    fn copies(&self) -> impl Iterator<Item = (BlockNo, SsdCopy, bool)> {
        let in_flight = self.keys.iter().map(|(&block, &key)| (block, &self.flights[key]));
        let in_flight = in_flight.map(|(block, flight)| (block, flight.copy(), flight.has_spare()));
        in_flight.chain(self.kept.iter().map(|(&block, kept)| (block, kept.copy, kept.has_spare())))
    }

    /// Those of them whose bytes can be read.
    pub(crate) fn readable_copies(&self) -> impl Iterator<Item = (BlockNo, Place)> {
        self.copies().filter_map(|(block, copy, spare)| Some((block, copy.readable(spare)?)))
    }

    /// Those of them whose bytes are nowhere else, with their copies.
    pub(crate) fn alone(&self) -> impl Iterator<Item = (BlockNo, SsdCopy)> {
        self.copies().filter(|(_, _, spare)| !spare).map(|(block, copy, _)| (block, copy))
    }

    /// A copy of this block in flight was found damaged.
    pub(crate) fn note_damage(&mut self, block: BlockNo) {
        if !self.damaged.contains(&block) {
            self.damaged.push(block);
        }
    }

    /// Blocks in flight or kept that are damaged and nowhere else. It is asked for at every request.
    pub(crate) fn lost(&self) -> usize {
        let is_lost = |&&block: &&BlockNo| {
            let flight = self.of(block);
            flight.copy().is_lost() && !flight.has_spare()
        };
        let lost = self.lost_kept + self.damaged.iter().filter(is_lost).count();
        debug_assert_eq!(lost, self.count_lost());
        lost
    }

    /// The same, of all that there are.
    fn count_lost(&self) -> usize {
        self.copies().filter(|(_, copy, spare)| copy.is_lost() && !spare).count()
    }

    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Blocks in flight or kept within a range, in ascending order.
    pub(crate) fn within(&self, range: &Range<BlockNo>) -> Vec<BlockNo> {
        let known = self.keys.keys().chain(self.kept.keys());
        let mut within: Vec<BlockNo> = known.copied().filter(|block| range.contains(block)).collect();
        within.sort_unstable();
        within
    }
}
