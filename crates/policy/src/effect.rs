//! The small vocabulary in which a scheme says what follows from an access.

use lode_types::{BlockNo, Level};

/// Logical place of a block in a level: dense from zero, below the largest quota the level ever had.
///
/// The engine maps it to a physical place; a slot that is reused for another block is the same logical
/// slot but need not be the same physical one.
pub type Slot = u32;

/// One consequence of an access, an interval's end or a resize.
///
/// Effects of one access come in the order in which they must *logically* happen: an eviction before the
/// fill that takes its slot. `Read…`, `Fill`, `Write…`, `Merge…` and `Invalidate` concern the accessed
/// block; `Evict`, `Clean` and `Copy` name theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The read is served from this copy.
    ReadLevel {
        /// Level of the copy.
        level: Level,
        /// Slot of the copy.
        slot: Slot,
    },
    /// The read is served from the backing disk.
    ReadBacking,
    /// After the reader is answered, a clean copy of what it read is put here.
    Fill {
        /// Level to fill.
        level: Level,
        /// Slot to fill.
        slot: Slot,
    },
    /// The write goes here before it is acknowledged.
    WriteLevel {
        /// Level written to.
        level: Level,
        /// Slot written to.
        slot: Slot,
        /// The block was there already (a write hit).
        hit: bool,
        /// The copy is newer than the backing disk from now on.
        dirty: bool,
    },
    /// The write goes to the backing disk before it is acknowledged.
    WriteBacking,
    /// The rest of a partially written block comes from this copy.
    MergeLevel {
        /// Level of the copy.
        level: Level,
        /// Slot of the copy.
        slot: Slot,
    },
    /// The rest of a partially written block comes from the backing disk.
    MergeBacking,
    /// The accessed block's copy here is stale or unwanted and is forgotten, dirty or not.
    Invalidate {
        /// Level of the copy.
        level: Level,
        /// Slot of the copy.
        slot: Slot,
    },
    /// A block leaves a level; a dirty one is written back to the backing disk.
    Evict {
        /// Level it leaves.
        level: Level,
        /// Slot it leaves.
        slot: Slot,
        /// Which block.
        block: BlockNo,
        /// It must be written back.
        dirty: bool,
    },
    /// In the background a dirty block of the SSD is written back and stays there as a clean one. When that fails it stays
    /// dirty, whatever the scheme says of it later.
    Clean {
        /// Slot of the copy.
        slot: Slot,
        /// Which block.
        block: BlockNo,
    },
    /// In the background a clean copy of a block is put into an SSD. A later effect on the copy that it is made from
    /// happens after it.
    Copy {
        /// Level to fill.
        to: Level,
        /// Slot to fill.
        slot: Slot,
        /// Which block.
        block: BlockNo,
        /// Where its bytes come from.
        from: CopySource,
        /// What it is made for.
        reason: CopyReason,
    },
}

/// What a background copy is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyReason {
    /// The block is popular. The bytes may come from the backing disk.
    Promotion,
    /// Another level has it, and gives it up now or soon, or has the only copy where there are to be two.
    Move,
}

/// Where the bytes of a background copy come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopySource {
    /// From a copy in a level.
    Level {
        /// Level of the copy.
        level: Level,
        /// Slot of the copy.
        slot: Slot,
    },
    /// From the backing disk.
    Backing,
}

impl CopySource {
    /// The level that is read, if it is one.
    pub fn level(self) -> Option<Level> {
        match self {
            CopySource::Level { level, .. } => Some(level),
            CopySource::Backing => None,
        }
    }
}

/// Receives effects. Implementations are small and inlined into the scheme's code.
pub trait Sink {
    /// Takes one effect.
    fn effect(&mut self, effect: Effect);
}

/// Ignores every effect, for callers that only want a scheme's state to move.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

impl Sink for NullSink {
    fn effect(&mut self, _: Effect) {}
}

/// For what is asked seldom: code that is compiled once serves every sink.
impl Sink for &mut dyn Sink {
    fn effect(&mut self, effect: Effect) {
        (**self).effect(effect);
    }
}

impl Sink for Vec<Effect> {
    fn effect(&mut self, effect: Effect) {
        self.push(effect);
    }
}
