//! The DRAM level's memory: frames of one block each. Their bytes are shared with whoever is sent or writes them: what is
//! put into a frame later leaves those alone. It must not know slots, or who has set frames aside ([`crate::shelf`]).

use lode_types::{BlockNo, Bytes};

use crate::grow::{make_room, most_bytes};
use crate::shelf::PlaceSource;

/// A place in the DRAM level.
pub(crate) type Frame = u32;

/// Memory that a block in a frame takes beside its bytes: what counts those who share them.
const SHARED_BYTES: usize = 64;

/// All frames.
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
}

impl Dram {
    pub(crate) fn new(block_bytes: usize, limit: u32) -> Dram {
        Dram { frames: Vec::new(), block_bytes, owners: Vec::new(), free: Vec::new(), limit }
    }

    /// Frames that may be used at once.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// So many more frames may be used.
    pub(crate) fn add(&mut self, frames: u32) {
        self.limit += frames;
    }

    /// Gives up the frames beyond so many, as far as nobody uses them and they are not among so many free ones that are set aside.
    /// Says how many.
    pub(crate) fn give_back(&mut self, kept: u32, reserved: u32) -> u32 {
        let limit = self.limit.min(kept.max(self.used() + reserved));
        std::mem::replace(&mut self.limit, limit) - limit
    }

    fn made(&self) -> u32 {
        self.owners.len() as u32
    }

    fn used(&self) -> u32 {
        self.made() - self.free.len() as u32
    }

    /// A frame that was taken has the bytes of a whole block.
    pub(crate) fn store(&mut self, frame: Frame, block: BlockNo, bytes: Bytes) {
        assert_eq!(bytes.len(), self.block_bytes);
        self.owners[frame as usize] = block;
        self.frames[frame as usize] = bytes;
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

    /// Bytes of memory of frames in use, without what tables say of them.
    pub(crate) fn frames_bytes(&self) -> usize {
        self.used() as usize * self.block_bytes
    }

    /// Bytes of memory that frames take beside their bytes.
    pub(crate) fn table_bytes(&self) -> usize {
        self.used() as usize * SHARED_BYTES
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
}

impl PlaceSource for Dram {
    fn free(&self) -> u32 {
        self.limit.saturating_sub(self.used())
    }

    fn take(&mut self) -> Frame {
        self.free.pop().unwrap_or_else(|| self.make())
    }

    fn release(&mut self, frame: Frame) {
        self.frames[frame as usize] = Bytes::new();
        make_room(&mut self.free);
        self.free.push(frame);
    }

    fn block_at(&self, frame: Frame) -> BlockNo {
        self.owners[frame as usize]
    }
}
