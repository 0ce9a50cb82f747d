//! What guests ask and what they are answered.

use lode_types::{ByteList, Bytes};

use crate::command::MediaError;
use crate::waits::Waits;

/// Most bytes of one read or write.
pub const MAX_REQUEST_BYTES: u64 = 32 * 1024 * 1024;

/// Most bytes of a read or write that are decided at once: a longer one is cut into pieces.
pub const MAX_PIECE_BYTES: u64 = 256 * 1024;

/// Most bytes of a trim or write-zeroes that are decided at once.
pub const MAX_RANGE_BYTES: u64 = 64 * 1024 * 1024;

/// One request.
#[derive(Debug)]
pub struct GuestRequest {
    /// Comes back in the [`Answer`].
    pub token: u64,
    /// What is asked.
    pub op: GuestOp,
    /// When the request arrived, on the caller's clock.
    pub now_ns: u64,
}

impl GuestRequest {
    /// Whether it is a read or a write: those are the requests that schemes and sizers count.
    pub fn is_access(&self) -> bool {
        matches!(self.op, GuestOp::Read { .. } | GuestOp::Write { .. })
    }
}

/// What is asked. Offsets and lengths are in bytes; what begins or ends within a sector of 512 bytes is merged with the rest
/// of it.
#[derive(Debug)]
pub enum GuestOp {
    /// Read.
    Read {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes, at most [`MAX_REQUEST_BYTES`].
        length_bytes: u64,
    },
    /// Write all of `data`, one after the other.
    Write {
        /// First byte.
        offset_bytes: u64,
        /// The bytes, at most [`MAX_REQUEST_BYTES`]. Blocks that are in one piece of them are not copied.
        data: ByteList,
        /// Acknowledge only when durable.
        fua: bool,
    },
    /// Everything acknowledged before this request was submitted becomes durable.
    Flush,
    /// The bytes are no longer needed.
    Trim {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes.
        length_bytes: u64,
    },
    /// The bytes read back as zeroes.
    WriteZeroes {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes.
        length_bytes: u64,
        /// Acknowledge only when durable.
        fua: bool,
        /// The backing disk may give their space back.
        unmap: bool,
    },
}

impl GuestOp {
    /// A write of bytes that are all in one place.
    pub fn write(offset_bytes: u64, data: impl Into<Bytes>, fua: bool) -> GuestOp {
        GuestOp::Write { offset_bytes, data: std::iter::once(data.into()).collect(), fua }
    }

    /// First byte and number of bytes; nothing for a flush.
    pub(crate) fn range(&self) -> (u64, u64) {
        match self {
            GuestOp::Write { offset_bytes, data, .. } => {
                (*offset_bytes, data.iter().map(|bytes| bytes.len() as u64).sum())
            }
            GuestOp::Flush => (0, 0),
            GuestOp::Read { offset_bytes, length_bytes }
            | GuestOp::Trim { offset_bytes, length_bytes }
            | GuestOp::WriteZeroes { offset_bytes, length_bytes, .. } => (*offset_bytes, *length_bytes),
        }
    }

    /// Whether it changes whole ranges.
    pub(crate) fn is_range(&self) -> bool {
        matches!(self, GuestOp::Trim { .. } | GuestOp::WriteZeroes { .. })
    }
}

/// Where the slowest part of a request was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Served {
    /// From host memory, or nothing had to be done.
    Dram,
    /// By the read SSD.
    ReadSsd,
    /// By the cache SSD.
    Ssd,
    /// By the backing disk.
    Backing,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GuestError {
    /// The request does not fit the volume or the limits.
    Invalid,
    /// A device failed, or a cached block that nothing else holds is damaged.
    Io,
    /// A device has no room.
    NoSpace,
}

impl From<MediaError> for GuestError {
    fn from(error: MediaError) -> GuestError {
        match error {
            MediaError::NoSpace => GuestError::NoSpace,
            MediaError::Io | MediaError::Gone => GuestError::Io,
        }
    }
}

/// A request is done.
#[derive(Debug)]
pub struct Answer {
    /// The request's token.
    pub token: u64,
    /// How it ended.
    pub result: Result<(), GuestError>,
    /// The bytes of a read that ended well, block by block; those of a write as they were given.
    pub data: ByteList,
    /// Where its slowest part was served.
    pub served: Served,
    /// What it waited for since it was submitted, by [`crate::Engine::set_clock`].
    pub waits: Waits,
}
