//! What devices are asked to do, and how they fail.

use crate::Buf;

/// What a device is asked to do. Offsets and lengths are in bytes and multiples of 512.
#[derive(Debug)]
pub enum CommandKind {
    /// Fill the whole of `buf` from `offset_bytes`.
    Read {
        /// First byte on the device.
        offset_bytes: u64,
        /// Where the bytes go; its length is the length of the read.
        buf: Buf,
    },
    /// Write the whole of `buf` at `offset_bytes`. Durable only after a later completed `Flush`.
    Write {
        /// First byte on the device.
        offset_bytes: u64,
        /// The bytes.
        buf: Buf,
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
    },
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
