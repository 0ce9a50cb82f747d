//! What devices are asked to do, and how they fail.

use bytes::Bytes;

use crate::{Buf, Bufs, ByteList};

/// What a device is asked to do. Offsets and lengths are in bytes and multiples of 512, but for the end of a device whose size is
/// none.
#[derive(Debug)]
pub enum CommandKind {
    /// Fill all of `bufs`, one after the other, from `offset_bytes`.
    Read {
        /// First byte on the device.
        offset_bytes: u64,
        /// Where the bytes go; their length is the length of the read.
        bufs: Bufs,
    },
    /// Write all of `data`, one after the other, at `offset_bytes`. Durable only after a later completed `Flush`.
    Write {
        /// First byte on the device.
        offset_bytes: u64,
        /// The bytes.
        data: ByteList,
    },
    /// Make every write that completed before this command was issued durable.
    Flush,
    /// The bytes are no longer needed; reading them back gives old bytes or zeroes.
    Trim {
        /// First byte on the device.
        offset_bytes: u64,
        /// Number of bytes.
        length_bytes: u64,
    },
    /// The bytes must read back as zeroes.
    WriteZeroes {
        /// First byte on the device.
        offset_bytes: u64,
        /// Number of bytes.
        length_bytes: u64,
        /// The device may give their space back; otherwise it keeps it, so that later writes find room.
        unmap: bool,
    },
}

impl CommandKind {
    /// A read into one buffer.
    pub fn read(offset_bytes: u64, buf: Buf) -> CommandKind {
        CommandKind::Read { offset_bytes, bufs: std::iter::once(buf).collect() }
    }

    /// A write of bytes that are all in one place.
    pub fn write(offset_bytes: u64, data: impl Into<Bytes>) -> CommandKind {
        CommandKind::Write { offset_bytes, data: std::iter::once(data.into()).collect() }
    }

    /// First byte on the device and number of bytes; nothing for a flush.
    pub fn range(&self) -> (u64, u64) {
        match self {
            CommandKind::Read { offset_bytes, bufs } => {
                (*offset_bytes, bufs.iter().map(|buf| buf.len() as u64).sum())
            }
            CommandKind::Write { offset_bytes, data } => {
                (*offset_bytes, data.iter().map(|bytes| bytes.len() as u64).sum())
            }
            CommandKind::Flush => (0, 0),
            CommandKind::Trim { offset_bytes, length_bytes }
            | CommandKind::WriteZeroes { offset_bytes, length_bytes, .. } => (*offset_bytes, *length_bytes),
        }
    }
}

/// Why a device command failed, as far as anybody acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaError {
    /// The device could not read or write these bytes.
    Io,
    /// The device is gone or fenced off.
    Gone,
    /// The device has no room for the write.
    NoSpace,
}
