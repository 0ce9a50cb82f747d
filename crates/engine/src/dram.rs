//! The DRAM level's memory: frames of one block each.

use lode_types::BlockNo;

use crate::Buf;
use crate::shelf::Shelf;

/// A place in the DRAM level.
pub(crate) type Frame = u32;

const FRAMES_PER_CHUNK: u32 = 256;

/// All frames, and which logical slot has which when its block is not in flight.
#[derive(Debug)]
pub(crate) struct Dram {
    chunks: Vec<Buf>,
    block_bytes: usize,
    /// The block of every frame made.
    owners: Vec<BlockNo>,
    free: Vec<Frame>,
    limit: u32,
    reserved: u32,
    shelf: Shelf,
}

impl Dram {
    pub(crate) fn new(block_bytes: usize, limit: u32) -> Dram {
        Dram {
            chunks: Vec::new(),
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
        (self.free.len() as u32 + (self.limit - self.made())).saturating_sub(self.reserved)
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

    /// Takes a reserved frame and copies a block into it, padded with zeroes.
    pub(crate) fn store_reserved(&mut self, block: BlockNo, bytes: &[u8]) -> Frame {
        self.reserved -= 1;
        let frame = self.free.pop().unwrap_or_else(|| self.make());
        self.owners[frame as usize] = block;
        let to = self.bytes_mut(frame);
        to[..bytes.len()].copy_from_slice(bytes);
        to[bytes.len()..].fill(0);
        frame
    }

    fn make(&mut self) -> Frame {
        let made = self.made();
        assert!(made < self.limit, "a reserved frame is always there");
        if made.is_multiple_of(FRAMES_PER_CHUNK) {
            let frames = FRAMES_PER_CHUNK.min(self.limit - made);
            self.chunks.push(Buf::zeroed(frames as usize * self.block_bytes));
        }
        self.owners.push(0);
        made
    }

    fn place(&self, frame: Frame) -> (usize, std::ops::Range<usize>) {
        let at = (frame % FRAMES_PER_CHUNK) as usize * self.block_bytes;
        ((frame / FRAMES_PER_CHUNK) as usize, at..at + self.block_bytes)
    }

    pub(crate) fn bytes(&self, frame: Frame) -> &[u8] {
        let (chunk, range) = self.place(frame);
        &self.chunks[chunk].as_slice()[range]
    }

    fn bytes_mut(&mut self, frame: Frame) -> &mut [u8] {
        let (chunk, range) = self.place(frame);
        &mut self.chunks[chunk].as_mut_slice()[range]
    }

    pub(crate) fn release(&mut self, frame: Frame) {
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

    /// Gives a slot the frame of its block that is no longer in flight.
    pub(crate) fn settle(&mut self, slot: u32, frame: Frame) {
        self.shelf.settle(slot, frame);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.chunks.iter().map(Buf::len).sum::<usize>()
            + self.owners.capacity() * 8
            + self.shelf.memory_bytes()
            + self.free.capacity() * 4
    }
}
