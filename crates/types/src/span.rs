//! Cutting a byte range into aligned blocks.

use crate::BlockNo;

/// Size of a cache block: a power of two between 4 KiB and 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize {
    shift: u8,
}

/// A block size that is not a power of two between [`BlockSize::MIN_BYTES`] and [`BlockSize::MAX_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizeError {
    /// What was asked for.
    pub bytes: u64,
}

impl std::fmt::Display for BlockSizeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block size {} is not a power of two from 4096 to 65536 bytes", self.bytes)
    }
}

impl std::error::Error for BlockSizeError {}

impl BlockSize {
    /// Smallest block.
    pub const MIN_BYTES: u64 = 4096;
    /// Largest block.
    pub const MAX_BYTES: u64 = 65536;
    /// The default of every scheme.
    pub const KIB_4: BlockSize = BlockSize { shift: 12 };

    /// Checks and wraps a size in bytes.
    pub fn new(bytes: u64) -> Result<BlockSize, BlockSizeError> {
        if bytes.is_power_of_two() && (Self::MIN_BYTES..=Self::MAX_BYTES).contains(&bytes) {
            Ok(BlockSize { shift: bytes.trailing_zeros() as u8 })
        } else {
            Err(BlockSizeError { bytes })
        }
    }

    /// The size in bytes.
    pub fn bytes(self) -> u64 {
        1 << self.shift
    }

    /// The block that holds the byte at `offset_bytes`.
    pub fn block_of(self, offset_bytes: u64) -> BlockNo {
        offset_bytes >> self.shift
    }

    /// The first byte of `block`.
    pub fn start_of(self, block: BlockNo) -> u64 {
        block << self.shift
    }
}

/// The part of one block that a byte range touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// Which block.
    pub block: BlockNo,
    /// First byte touched, counted from the block's start.
    pub start: u32,
    /// Number of bytes touched, at least one.
    pub len: u32,
    /// The range does not cover the whole block.
    pub partial: bool,
}

/// The blocks that `[offset_bytes, offset_bytes + length_bytes)` touches, in ascending order.
///
/// The range must end at or below 2^64; callers check with [`crate::TraceRequest::end_bytes`].
/// An empty range touches no block.
pub fn blocks_of(
    size: BlockSize,
    offset_bytes: u64,
    length_bytes: u64,
) -> impl ExactSizeIterator<Item = BlockRange> + Clone {
    let (first, count) = if length_bytes == 0 {
        (0, 0)
    } else {
        let first = size.block_of(offset_bytes);
        let last = size.block_of(offset_bytes.saturating_add(length_bytes - 1));
        (first, (last - first + 1) as usize)
    };
    let end = offset_bytes.saturating_add(length_bytes);
    (0..count).map(move |i| {
        let block = first + i as u64;
        let from = size.start_of(block);
        let start = offset_bytes.max(from) - from;
        let stop = (end - from).min(size.bytes());
        let len = stop - start;
        BlockRange { block, start: start as u32, len: len as u32, partial: len != size.bytes() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_at_block_borders() {
        let parts: Vec<_> = blocks_of(BlockSize::KIB_4, 4096 - 512, 4096 + 1024).collect();
        assert_eq!(
            parts,
            vec![
                BlockRange { block: 0, start: 3584, len: 512, partial: true },
                BlockRange { block: 1, start: 0, len: 4096, partial: false },
                BlockRange { block: 2, start: 0, len: 512, partial: true },
            ]
        );
        assert_eq!(blocks_of(BlockSize::KIB_4, 4096, 0).len(), 0);
    }

    #[test]
    fn reaches_the_last_byte_of_the_address_space() {
        let parts: Vec<_> = blocks_of(BlockSize::KIB_4, u64::MAX - 511, 511).collect();
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].start, 3584);
    }

    #[test]
    fn refuses_odd_sizes() {
        for bytes in [0, 512, 4097, 131_072] {
            assert_eq!(BlockSize::new(bytes), Err(BlockSizeError { bytes }));
        }
        assert_eq!(BlockSize::new(8192).map(BlockSize::bytes), Ok(8192));
    }
}
