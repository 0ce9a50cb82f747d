//! Requests as traces record them and guests issue them.

use crate::Origin;

/// What a request asks of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RequestOp {
    /// Bytes from the disk to the guest.
    Read = 0,
    /// Bytes from the guest to the disk.
    Write = 1,
    /// The guest no longer needs these bytes.
    Trim = 2,
    /// Everything acknowledged before must become durable; offset and length are zero.
    Flush = 3,
}

impl RequestOp {
    /// The operation whose discriminant is `code`, if there is one.
    pub fn from_code(code: u8) -> Option<RequestOp> {
        match code {
            0 => Some(RequestOp::Read),
            1 => Some(RequestOp::Write),
            2 => Some(RequestOp::Trim),
            3 => Some(RequestOp::Flush),
            _ => None,
        }
    }
}

/// One request of a block trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// Time of issue in nanoseconds on the trace's own clock (its origin is the trace's, not ours).
    pub time_ns: u64,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes; zero only for [`RequestOp::Flush`].
    pub length_bytes: u32,
    /// Volume within the trace: an index into the reader's list of volume names.
    pub volume: u32,
    /// What is asked.
    pub op: RequestOp,
    /// Who asks.
    pub origin: Origin,
}

/// So many are kept in memory that each byte counts.
const _: () = assert!(size_of::<TraceRequest>() == 32);

impl TraceRequest {
    /// One past the last byte, or `None` when that does not fit 64 bits.
    pub fn end_bytes(&self) -> Option<u64> {
        self.offset_bytes.checked_add(u64::from(self.length_bytes))
    }
}
