//! What guests ask and what they are answered.

use crate::Buf;
use crate::command::MediaError;

/// Most bytes of one read or write handed to the engine at once; larger requests are cut by the caller
/// into pieces, the last one marked.
pub const MAX_PIECE_BYTES: u64 = 256 * 1024;

/// Most bytes of one trim or write-zeroes handed to the engine at once.
pub const MAX_RANGE_BYTES: u64 = 64 * 1024 * 1024;

/// One request, or one piece of a request.
#[derive(Debug)]
pub struct GuestRequest {
    /// Comes back in the [`Answer`].
    pub token: u64,
    /// What is asked.
    pub op: GuestOp,
    /// The last (or only) piece of its request: the scheme's intervals count requests.
    pub last: bool,
    /// When the request arrived, on the caller's clock.
    pub now_ns: u64,
}

impl GuestRequest {
    /// Whether a read or write is complete with this piece: those are the requests that schemes and sizers count.
    pub fn ends_access(&self) -> bool {
        self.last && matches!(self.op, GuestOp::Read { .. } | GuestOp::Write { .. })
    }
}

/// What is asked. Offsets and lengths are in bytes and multiples of 512.
#[derive(Debug)]
pub enum GuestOp {
    /// Read.
    Read {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes, at most [`MAX_PIECE_BYTES`].
        length_bytes: u64,
    },
    /// Write the whole of `buf`.
    Write {
        /// First byte.
        offset_bytes: u64,
        /// The bytes, at most [`MAX_PIECE_BYTES`].
        buf: Buf,
        /// Acknowledge only when durable.
        fua: bool,
    },
    /// Everything acknowledged before this request was submitted becomes durable.
    Flush,
    /// The bytes are no longer needed.
    Trim {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes, at most [`MAX_RANGE_BYTES`].
        length_bytes: u64,
    },
    /// The bytes read back as zeroes.
    WriteZeroes {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes, at most [`MAX_RANGE_BYTES`].
        length_bytes: u64,
        /// Acknowledge only when durable.
        fua: bool,
    },
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
    /// The request does not fit the volume or the limits, or is not aligned to 512 bytes.
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
    /// The bytes of a read; the buffer of a write, to be used again.
    pub buf: Option<Buf>,
    /// Where its slowest part was served.
    pub served: Served,
}
