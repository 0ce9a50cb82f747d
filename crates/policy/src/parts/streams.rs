//! Sequential streams, found block by block. It must not know what is done with their blocks.

use lode_types::{Access, BlockNo, Direction};

#[derive(Clone, Copy, Debug)]
struct Stream {
    last: BlockNo,
    /// Blocks so far.
    blocks: u64,
    is_read: bool,
}

/// The streams that were continued last.
#[derive(Debug)]
pub(crate) struct Streams {
    /// The latest first.
    streams: Vec<Stream>,
    most: usize,
    /// Reads and writes do not continue each other.
    by_direction: bool,
}

impl Streams {
    /// Follows `most` streams at once.
    pub(crate) fn new(most: usize, by_direction: bool) -> Streams {
        Streams { streams: Vec::with_capacity(most), most, by_direction }
    }

    /// Notes an access. Says how many blocks its stream has, this one included: an access to the block after a stream's last
    /// one continues it, one to the last one itself is a part of it.
    pub(crate) fn note(&mut self, access: &Access) -> u64 {
        let (block, is_read) = (access.block, access.op == Direction::Read);
        let by_direction = self.by_direction;
        let continues = |stream: &Stream| {
            block.wrapping_sub(stream.last) <= 1 && (!by_direction || stream.is_read == is_read)
        };
        let at = match self.streams.iter().position(continues) {
            Some(at) => {
                let stream = &mut self.streams[at];
                stream.blocks += block - stream.last;
                stream.last = block;
                at
            }
            None => {
                let stream = Stream { last: block, blocks: 1, is_read };
                if self.streams.len() < self.most {
                    self.streams.push(stream);
                } else if let Some(oldest) = self.streams.last_mut() {
                    *oldest = stream;
                }
                self.streams.len() - 1
            }
        };
        self.streams[..=at].rotate_right(1);
        self.streams[0].blocks
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.streams.capacity() * size_of::<Stream>()
    }
}
