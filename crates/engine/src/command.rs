//! The vocabulary between the engine and whatever carries out its device commands.
//!
//! The engine emits [`Command`]s and is told [`Completion`]s; it never learns which file, device or
//! operating system is behind a [`DeviceId`].

use crate::Buf;

/// Which of an engine's devices a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceId {
    /// The volume's slow disk.
    Backing,
    /// The cache SSD. Offsets count from the start of the whole SSD.
    Ssd,
    /// The second SSD, for reads. Offsets count from the start of the whole SSD.
    ReadSsd,
}

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

/// One device command. `id` is unique among the engine's commands in flight.
#[derive(Debug)]
pub struct Command {
    /// Comes back in the [`Completion`].
    pub id: u64,
    /// Which device.
    pub device: DeviceId,
    /// What to do.
    pub kind: CommandKind,
}

/// Why a device command failed, as far as the engine acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaError {
    /// The device could not read or write these bytes.
    Io,
    /// The device is gone or fenced off.
    Gone,
    /// The device has no room for the write.
    NoSpace,
}

/// The end of a command.
#[derive(Debug)]
pub struct Completion {
    /// The command's id.
    pub id: u64,
    /// How it ended. After a failed read the buffer's bytes mean nothing.
    pub result: Result<(), MediaError>,
    /// The buffer of a read or write, handed back.
    pub buf: Option<Buf>,
}
