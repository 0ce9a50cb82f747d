//! The vocabulary between the engine and whatever carries out its device commands.
//!
//! The engine emits [`Command`]s and is told [`Completion`]s; it never learns which file, device or
//! operating system is behind a [`DeviceId`].

use lode_store::pair::PairOptions;
use lode_types::Bufs;

pub use lode_types::{CommandKind, MediaError};

/// Which of an engine's devices a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceId {
    /// The volume's slow disk.
    Backing,
    /// The cache SSD. Offsets count from the start of the whole SSD.
    Ssd,
    /// The second SSD, for reads. Offsets count from the start of the whole SSD.
    ReadSsd,
    /// The redo log beside the slow disk, where that is written in the order of the guest's flushes.
    Redo,
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
    /// Which copies a read or write of the SSD is about, where that is a pair ([`EngineConfig::ssd_is_pair`](crate::EngineConfig::ssd_is_pair)).
    pub options: PairOptions,
}

/// The end of a command.
#[derive(Debug)]
pub struct Completion {
    /// The command's id.
    pub id: u64,
    /// How it ended. A read that ended well has filled all its buffers; after a failed one their bytes mean nothing.
    pub result: Result<(), MediaError>,
    /// The buffers of a read, handed back.
    pub bufs: Bufs,
}
