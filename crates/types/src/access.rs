//! One block of one request, as the policies see it.

use crate::{BlockNo, Origin};

/// Direction of a block access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The block is read.
    Read,
    /// The block, or a part of it, is written.
    Write,
}

/// One block of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which block.
    pub block: BlockNo,
    /// Read or write.
    pub op: Direction,
    /// The request covers only a part of the block. A partial write that is kept in a cache level
    /// must first be merged with the rest of the block; a partial read fetches the whole block.
    pub partial: bool,
    /// Who accesses it.
    pub origin: Origin,
}

impl Access {
    /// Reads the whole of `block`.
    pub fn read(block: BlockNo) -> Access {
        Access { block, op: Direction::Read, partial: false, origin: Origin::UNKNOWN }
    }

    /// Writes the whole of `block`.
    pub fn write(block: BlockNo) -> Access {
        Access { block, op: Direction::Write, partial: false, origin: Origin::UNKNOWN }
    }
}

/// A cache level; the backing disk is not one. A number once given stays: the levels of most schemes come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Host memory; lost at every stop.
    Dram = 0,
    /// The cache SSD that buffers writes; survives.
    Ssd = 1,
    /// A second SSD, for reads: clean copies and mirrors of what the first one holds; its contents are lost at every
    /// stop.
    ReadSsd = 2,
}

impl Level {
    /// How many levels there are.
    pub const COUNT: usize = 3;

    /// Every level.
    pub const ALL: [Level; Level::COUNT] = [Level::Dram, Level::Ssd, Level::ReadSsd];

    /// The levels that are sized by what VMs could use of them. They are the first of [`Level::ALL`].
    pub const SIZED: [Level; 2] = [Level::Dram, Level::Ssd];

    /// Position in [`Level::ALL`], for arrays with one entry a level.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name used in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Level::Dram => "dram",
            Level::Ssd => "ssd",
            Level::ReadSsd => "read-ssd",
        }
    }
}
