//! The DRAM level's memory: frames of one block each. Their bytes are shared with whoever is sent or writes them: what is
//! put into a frame later leaves those alone.

use lode_types::{BlockNo, Bytes};

use crate::grow::{make_room, most_bytes};
use crate::shelf::Shelf;

/// A place in the DRAM level.
pub(crate) type Frame = u32;

/// Memory that a block in a frame takes beside its bytes: what counts those who share them.
const SHARED_BYTES: usize = 64;

/// All frames, and which logical slot has which when its block is not in flight.
#[derive(Debug)]
pub(crate) struct Dram {
    /// The bytes of every frame made; those of a free one are empty.
    frames: Vec<Bytes>,
    block_bytes: usize,
    /// The block of every frame made.
    owners: Vec<BlockNo>,
    free: Vec<Frame>,
    /// Frames that may be used at once.
    limit: u32,
    reserved: u32,
    shelf: Shelf,
}

impl Dram {
    pub(crate) fn new(block_bytes: usize, limit: u32) -> Dram {
        Dram {
            frames: Vec::new(),
            block_bytes,
            owners: Vec::new(),
            free: Vec::new(),
            limit,
            reserved: 0,
            shelf: Shelf::default(),
        }
    }

    /// Frames that nobody uses or has reserved.
    pub(crate) fn available(&self) -> u32 {
        self.limit.saturating_sub(self.needed())
    }

    /// Frames that are used or reserved.
    fn needed(&self) -> u32 {
        self.made() - self.free.len() as u32 + self.reserved
    }

    /// Frames that may be used at once.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// So many more frames may be used.
    pub(crate) fn add(&mut self, frames: u32) {
        self.limit += frames;
    }

    /// Gives up the frames beyond so many, as far as nobody uses them or has reserved them. Says how many.
    pub(crate) fn give_back(&mut self, kept: u32) -> u32 {
        let limit = self.limit.min(kept.max(self.needed()));
        std::mem::replace(&mut self.limit, limit) - limit
    }

    pub(crate) fn reserve(&mut self) {
        self.reserved += 1;
    }

    pub(crate) fn unreserve(&mut self) {
        self.reserved -= 1;
    }

    fn made(&self) -> u32 {
        self.owners.len() as u32
    }

    /// Takes a reserved frame for the bytes of a whole block.
    pub(crate) fn store_reserved(&mut self, block: BlockNo, bytes: Bytes) -> Frame {
        assert_eq!(bytes.len(), self.block_bytes);
        self.reserved -= 1;
        let frame = self.free.pop().unwrap_or_else(|| self.make());
        self.owners[frame as usize] = block;
        self.frames[frame as usize] = bytes;
        frame
    }

    fn make(&mut self) -> Frame {
        let made = self.made();
        assert!(self.free.is_empty() && made < self.limit, "a reserved frame is always there");
        make_room(&mut self.owners);
        self.owners.push(0);
        make_room(&mut self.frames);
        self.frames.push(Bytes::new());
        made
    }

    pub(crate) fn bytes(&self, frame: Frame) -> &Bytes {
        &self.frames[frame as usize]
    }

    pub(crate) fn release(&mut self, frame: Frame) {
        self.frames[frame as usize] = Bytes::new();
        make_room(&mut self.free);
        self.free.push(frame);
    }

    /// The frame of a slot whose block is not in flight, without taking it.
    pub(crate) fn peek(&self, slot: u32) -> Option<Frame> {
        self.shelf.get(slot)
    }

    /// The block that a slot holds, when it is not in flight.
    pub(crate) fn block_in(&self, slot: u32) -> Option<BlockNo> {
        self.peek(slot).map(|frame| self.owners[frame as usize])
    }

    /// Takes the frame of a slot whose block comes into flight.
    pub(crate) fn claim(&mut self, slot: u32) -> Option<Frame> {
        self.shelf.claim(slot)
    }

    /// No slot has a frame any more.
    pub(crate) fn empty_slots(&mut self) {
        let shelf = std::mem::take(&mut self.shelf);
        shelf.iter().for_each(|(_, frame)| self.release(frame));
    }

    /// Gives a slot the frame of its block that is no longer in flight.
    pub(crate) fn settle(&mut self, slot: u32, frame: Frame) {
        self.shelf.settle(slot, frame);
    }

    /// Bytes of memory of frames in use, without what tables say of them.
    pub(crate) fn frames_bytes(&self) -> usize {
        self.used() * self.block_bytes
    }

    fn used(&self) -> usize {
        self.frames.len() - self.free.len()
    }

    /// Bytes of memory that frames take beside their bytes.
    pub(crate) fn table_bytes(&self) -> usize {
        self.used() * SHARED_BYTES
            + self.frames.capacity() * size_of::<Bytes>()
            + self.owners.capacity() * size_of::<BlockNo>()
            + self.free.capacity() * size_of::<Frame>()
    }

    /// The most that this can be, of so many frames.
    pub(crate) fn most_table_bytes(frames: u64) -> u64 {
        frames * SHARED_BYTES as u64
            + most_bytes::<Bytes>(frames)
            + most_bytes::<BlockNo>(frames)
            + most_bytes::<Frame>(frames)
    }

    pub(crate) fn shelf_bytes(&self) -> usize {
        self.shelf.memory_bytes()
    }
}
