//! A block in flight: its operations in order of arrival, its copies, and what the operation at the head waits for, as a
//! pure state machine. [`Flight::step`] is told what happened and says what is to be done next; the engine does that and
//! tells it the outcome. Copies change hands in this module and nowhere else: in a step, or in one of the methods by which they
//! come from their slots (`handover`). It carries bytes and slots, and looks at neither; it must not know devices, queues or
//! schemes.
//!
//! What the operation at the head does in each stage ([`Stage`]), by what happens ([`Input`]); anything else is a mistake
//! of the engine, and a panic:
//!
//! | stage | input | what follows |
//! |---|---|---|
//! | `Start` | `Proceed` | nothing queued: the flight is over. An older write is still on its way to the disk, and this would meet it: `Late`. Read: from DRAM at once, else `Read`. Write: fails without a place or after a failure; an older dirty copy is written back first; the rest of a partial block is read (`Read`), of a write past the SSD only where it cuts a sector, else `Merged`. Eviction from the SSD, and repair of a lost copy: with a dirty copy a write-back, which is left out where the disk is written in groups, else the copy goes. Eviction from DRAM or the read SSD: the copy there goes unless it stands in for the SSD's. Cleaning: with a dirty copy a write-back, else over, and the copy stays. Capture: over without a dirty copy; the frame's bytes at once, else `Read`. Settle: with a dirty copy that the disk is not owed again `Gate(WrittenBack)`, else over. Copy, move: `Turn`. Scrub: `Read` of a whole copy, else over. Hold: `Held` |
//! | `Read` | `Read` | intact: a read is answered, and what it fills is written (`WriteSsd`); a write is `Merged`; a copy waits for a place (`Place`). Not intact: that copy goes, or is lost, and the next one is read. A capture has its bytes. A scrub is over. A clean copy that went is made again by a copy, behind a read or a scrub |
//! | `Merged` | `Proceed` | write-back: `WriteSsd`. Others fail after a failure, and else give up what the disk is about to make stale: `GivenUp` |
//! | `GivenUp` | `Proceed` | an older copy could come back: `Gate(DiskWrite)`, else `WriteBacking` |
//! | `WriteSsd` | `Written` | the copy is there, clean or dirty; a write-back is answered. Failed: the place is given up, and a write-back goes to the disk instead; it fails where that is written in groups |
//! | `WriteReadSsd` | `Written` | the copy is there, or its place is given up |
//! | `WriteBacking` | `Written` | failed: so does the write. With a lost copy in place: `WriteBack`, until the disk has it durably. Else answered, and a write-through goes on to the SSD |
//! | `WriteBacking` | `DiskFirst` | answered; the SSD is still at the same write: `WriteAgain` |
//! | `WriteBacking` | `SsdFirst`, `BothFailed` | over, and answered |
//! | `WriteAgain` | `BothTook` | over |
//! | `WriteBack` | `OnDisk` | the copy goes, or is clean: `Gate(WrittenBack)`. `NotWrittenBack`: over, the copy stays. `Unreadable`: that copy goes, or is lost, and the next one is read |
//! | `Gate(OwnRecord)` | `Durable` | the write-back begins |
//! | `Gate(DiskWrite)` | `Durable` | `WriteBacking` |
//! | `Gate(WrittenBack)` | `Durable` | over; a write whose lost copy it was is answered first, and a write-through goes on to the SSD |
//! | `Gate(_)`, `WriteBack` | `NeverDurable` | a guest's write fails; others are over, and the copy stays |
//! | `Turn` | `Proceed` | a copy or move that is needed no more is over. From DRAM: `Place`, else `Read` |
//! | `Place` | `Proceed` | `WriteSsd` or `WriteReadSsd`. `GivenUp`: over, and a move leaves the block where it is |
//! | `Late` | `LateArrived` | `Start` |
//! | any | `LateArrived` | the older write has arrived; nothing changes for the operation at the head |
//! | `Held` | `Zeroed` | the dirty copy goes, and those beside it. `Released`: over |

mod copies;
mod handover;
mod step;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;

use lode_policy::Slot;
use lode_types::{Bytes, Level, SECTOR_BYTES};

use crate::dram::Frame;
use crate::guest::{GuestError, Served};
use crate::reissue::DiskWrite;
use crate::waits::WaitedFor;

pub(crate) use copies::{CopyAt, SsdCopy};
pub(crate) use lode_store::Place;
pub(crate) use step::Fill;

/// The slice of a guest's request that concerns one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestSlice {
    pub(crate) request: usize,
    /// First byte in the bytes of the request's write.
    pub(crate) buf_at: u32,
    /// First byte in the block.
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl RequestSlice {
    /// Bytes of the sectors that it touches, in a block with so many bytes.
    pub(crate) fn sectors(&self, block_len: usize) -> Range<u32> {
        const SECTOR: u32 = SECTOR_BYTES as u32;
        let end = (self.start + self.len).next_multiple_of(SECTOR).min(block_len as u32);
        self.start / SECTOR * SECTOR..end
    }
}

/// What a guest's access does, as decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessKind {
    /// Reads this copy, while it is there.
    Read { from: CopyAt },
    /// Writes to the SSD alone, where the block is dirty then. The rest of a partial block comes from this copy.
    WriteBack { merge: CopyAt },
    /// Writes to the backing disk, and then to the SSD.
    WriteThrough { merge: CopyAt },
    /// Writes to the backing disk alone.
    WriteAround,
}

/// What was set aside for an access when it was decided, and is not used yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub(crate) frame: bool,
    pub(crate) place: bool,
}

/// One block of a guest's read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockAccess {
    pub(crate) slice: RequestSlice,
    pub(crate) kind: AccessKind,
    pub(crate) reserved: Reserved,
}

impl BlockAccess {
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.kind, AccessKind::Read { .. })
    }

    fn writes_disk(&self) -> bool {
        matches!(self.kind, AccessKind::WriteThrough { .. } | AccessKind::WriteAround)
    }
}

/// One operation on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockOp {
    Access(BlockAccess),
    /// The copy in this level goes.
    Evict(Level),
    /// The dirty copy is written back and stays as a clean one.
    Clean {
        /// The scheme asked for it, and does not need to be told.
        asked: bool,
    },
    /// A damaged dirty copy is written back from another copy and given up.
    Repair,
    /// A level gets a copy.
    Copy {
        to: Level,
        from: CopyAt,
    },
    /// The copy on the SSD goes to another place there, dirty or clean as it is.
    Move,
    /// The copy on the SSD is read, to see whether it is as it should be.
    Scrub,
    /// The bytes of the dirty copy become a group's.
    Capture,
    /// The backing disk durably has the dirty copy, by way of a group.
    Settle,
    /// Nothing else touches the block until the trim or zeroing in flight is over.
    Hold,
}

impl BlockOp {
    fn access(&self) -> Option<&BlockAccess> {
        if let BlockOp::Access(access) = self { Some(access) } else { None }
    }
}

/// What must be durable before the operation at the head goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// The record of its dirty copy, before the backing disk is written with it.
    OwnRecord,
    /// That no older copy comes back, before the backing disk is written by a guest.
    DiskWrite,
    /// That the dirty copy is clean or gone, now that the backing disk has it.
    WrittenBack,
}

/// What the operation at the head waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its turn.
    #[default]
    Start,
    /// The bytes of this copy: for a guest, for the rest of a partial write, or for another copy.
    Read(CopyAt),
    /// Nothing: the whole block is put together.
    Merged,
    /// Nothing: what the backing disk makes stale is given up.
    GivenUp,
    /// The journal.
    Gate(Gate),
    /// The write to a place on the SSD.
    WriteSsd,
    /// The write to a place on the read SSD.
    WriteReadSsd,
    /// The write to the backing disk, and to the SSD where it was issued again.
    WriteBacking,
    /// The write that was issued again to the SSD; the backing disk has it.
    WriteAgain,
    /// The write-back of its dirty copy, or the flush that makes a lost copy superfluous.
    WriteBack,
    /// An older write to arrive at the backing disk, whose guest was answered long ago.
    Late,
    /// A turn among the copies.
    Turn,
    /// A free place for a copy whose bytes are there.
    Place,
    /// The trim or zeroing in flight.
    Held,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// What was waited for is there, or the last action is carried out.
    Proceed,
    /// The copy was read.
    Read { intact: bool },
    /// The write to the device that the stage names has ended.
    Written(Result<(), GuestError>),
    /// What the gate stands for is durable.
    Durable,
    /// It never will be.
    NeverDurable,
    /// The backing disk durably has the block's newest bytes.
    OnDisk,
    /// The block could not be written back.
    NotWrittenBack {
        /// The disk failed; otherwise there was nothing that could be read.
        disk_failed: bool,
    },
    /// This copy of a block that is written back could not be read, or is not what it should be.
    Unreadable(CopyAt),
    /// There will be no place for the copy.
    GivenUp,
    /// The backing disk durably has the zeroes that take the place of a dirty copy, or has trimmed its block.
    Zeroed,
    /// The trim or zeroing is over.
    Released,
    /// Of a write on two devices the backing disk was first.
    DiskFirst,
    /// Of a write on two devices the SSD was first.
    SsdFirst,
    /// The SSD has a write that was answered when the backing disk had it.
    BothTook,
    /// Neither device took the write.
    BothFailed(GuestError),
    /// An older write has arrived at the backing disk, or failed there.
    LateArrived,
}

/// What is true of the world when something happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// What is acknowledged as durable is.
    pub(crate) is_well: bool,
    /// Dirty blocks may be written to the backing disk.
    pub(crate) writes_back: bool,
    /// The backing disk is written in groups alone.
    pub(crate) is_ordered: bool,
    /// The copy on the SSD is newer than the backing disk.
    pub(crate) is_dirty: bool,
    /// The disk is to get it with a group, although it may have got it with an earlier one.
    pub(crate) is_owed: bool,
    /// The journal durably knows the copy on the SSD.
    pub(crate) is_recorded: bool,
    /// After a restart, an older copy could be found on the SSD.
    pub(crate) may_come_back: bool,
    /// The access at the head covers the whole block.
    pub(crate) is_whole: bool,
    /// The copy on the SSD is in an extent that is to be given up, and may be moved.
    pub(crate) leaves_extent: bool,
    /// It begins and ends between sectors, which a disk can write.
    pub(crate) is_in_sectors: bool,
    /// Nothing is put on the read SSD any more.
    pub(crate) is_read_ssd_gone: bool,
}

/// How a part of a guest's request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartEnd {
    Served(Served),
    Failed(GuestError),
}

/// A copy that a read found damaged or unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// On the SSD and no newer than the backing disk: it goes.
    Clean(Place),
    /// On the SSD and dirty, with another copy to repair it from.
    Mirrored(Place),
    /// On the SSD and dirty, and nowhere else.
    Lost(Place),
    /// On the read SSD: it goes.
    Mirror {
        /// The dirty copy on the SSD had been damaged before, so that the block is lost.
        last: bool,
    },
}

/// A new copy on the SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Put {
    pub(crate) place: Place,
    pub(crate) crc: u32,
    pub(crate) dirty: bool,
    /// The one that it takes the place of.
    pub(crate) old: Option<Place>,
}

/// What is to be done, in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    /// What the read found.
    pub(crate) damage: Option<Damage>,
    /// The SSD has the block here now.
    pub(crate) put: Option<Put>,
    /// A write to this place on the SSD failed.
    pub(crate) bad_place: Option<Place>,
    /// The frame is free.
    pub(crate) free_frame: Option<Frame>,
    /// The place on the read SSD is free.
    pub(crate) free_mirror: Option<Place>,
    /// The clean copy at this place of the SSD is given up.
    pub(crate) give_up: Option<Place>,
    /// The same of a dirty one.
    pub(crate) give_up_dirty: Option<Place>,
    /// The bytes at hand go to the guest.
    pub(crate) deliver: bool,
    /// The bytes at hand, or of the frame, become a group's.
    pub(crate) capture: bool,
    /// The bytes at hand go into the frame that was set aside.
    pub(crate) fill_frame: Option<Fill>,
    /// The part of the guest's request at the head is done.
    pub(crate) end: Option<PartEnd>,
    /// And then.
    pub(crate) act: Act,
}

/// The last thing to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Act {
    /// Nothing: something else will happen.
    #[default]
    Wait,
    /// [`Input::Proceed`], by the facts of then.
    Proceed,
    /// The same, in its turn.
    Queue,
    /// The flight is over.
    Leave,
    /// The operation at the head is over.
    Finish,
    /// This copy is read.
    Fetch(CopyAt),
    /// The whole block is put together from this copy, or the bytes at hand; then [`Input::Proceed`].
    Merge,
    /// The block is written to a place that is free, or was set aside.
    WriteSsd,
    /// The same on the read SSD.
    WriteReadSsd,
    /// The guest's bytes are written to the backing disk, in whole sectors.
    WriteBacking,
    /// The gate is waited at.
    AwaitGate(Gate),
    /// The copy joins those that are written back.
    WriteBack,
    /// The backing disk has the block's newest bytes, and is to have them durably.
    AwaitFlush,
    /// The copy on the SSD is noted as clean, or as given up, and that waited for.
    NoteWrittenBack { place: Place, stays: bool },
    /// It queues for a turn among the copies.
    AwaitTurn,
    /// The bytes of the copy are there: it waits for a place.
    AwaitPlace(Level),
    /// The trim or zeroing has hold of it.
    Hold,
}

/// A block with operations.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Flight {
    queue: VecDeque<BlockOp>,
    stage: Stage,
    copy: SsdCopy,
    /// The copies beside it, which are never newer: in DRAM, and at a place of the read SSD.
    frame: Option<Frame>,
    mirror: Option<Place>,
    /// What the frame will be when the write under way is on the SSD.
    next_frame: Option<Frame>,
    /// Place and checksum of the write under way to the SSD or the read SSD.
    next_place: Option<(Place, u32)>,
    /// The slots of the scheme's latest decision, indexed by level.
    slots: [Option<Slot>; Level::COUNT],
    /// The copy on the SSD could not be written back: what must not pass it fails.
    backing_failed: bool,
    /// The whole block as it will be written, while a write or a copy is under way.
    bytes: Option<Bytes>,
    /// A write on its way to the backing disk that may be, or was, issued again.
    disk_write: Option<DiskWrite>,
}

impl Flight {
    /// A flight of a block with these copies and no operations: `queue` is empty.
    pub(crate) fn new(
        queue: VecDeque<BlockOp>,
        copy: SsdCopy,
        frame: Option<Frame>,
        mirror: Option<Place>,
    ) -> Flight {
        Flight {
            queue,
            stage: Stage::Start,
            copy,
            frame,
            mirror,
            next_frame: None,
            next_place: None,
            slots: [None; Level::COUNT],
            backing_failed: false,
            bytes: None,
            disk_write: None,
        }
    }

    /// Whether an operation that is queued or under way makes its copy on the SSD dirty.
    pub(crate) fn may_become_dirty(&self) -> bool {
        let is_write_back = |op: &BlockOp| matches!(op, BlockOp::Access(access) if matches!(access.kind, AccessKind::WriteBack { .. }));
        self.queue.iter().any(is_write_back) || self.disk_write.is_some_and(|write| write.copy.is_some())
    }

    /// Whether the copy on the SSD will be newer than the backing disk when all operations are over and nothing has failed.
    /// What is so then the places say; a scheme that was told otherwise finds out as after a cleaning that failed.
    pub(crate) fn will_be_dirty(&self, is_dirty: bool) -> bool {
        self.ops().fold(is_dirty, |is_dirty, op| match op {
            BlockOp::Access(access) => match access.kind {
                AccessKind::Read { .. } => is_dirty,
                AccessKind::WriteBack { .. } => true,
                AccessKind::WriteThrough { .. } | AccessKind::WriteAround => false,
            },
            BlockOp::Clean { .. } | BlockOp::Evict(Level::Ssd) | BlockOp::Repair | BlockOp::Settle => false,
            BlockOp::Evict(_)
            | BlockOp::Copy { .. }
            | BlockOp::Move
            | BlockOp::Scrub
            | BlockOp::Capture
            | BlockOp::Hold => is_dirty,
        })
    }

    /// Its operations, in order of arrival.
    pub(crate) fn ops(&self) -> impl Iterator<Item = &BlockOp> {
        self.queue.iter()
    }

    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// The copy on the SSD.
    pub(crate) fn copy(&self) -> SsdCopy {
        self.copy
    }

    /// The copy in DRAM.
    pub(crate) fn frame(&self) -> Option<Frame> {
        self.frame
    }

    /// The copy on the read SSD.
    pub(crate) fn mirror(&self) -> Option<Place> {
        self.mirror
    }

    /// The whole block as it will be written.
    pub(crate) fn bytes(&self) -> Option<&Bytes> {
        self.bytes.as_ref()
    }

    /// Place and checksum of the write under way to the SSD or the read SSD.
    pub(crate) fn next_place(&self) -> Option<(Place, u32)> {
        self.next_place
    }

    /// A write on its way to the backing disk that may be, or was, issued again.
    pub(crate) fn disk_write(&self) -> Option<DiskWrite> {
        self.disk_write
    }

    pub(crate) fn slot(&self, level: Level) -> Option<Slot> {
        self.slots[level.index()]
    }

    /// The access at the head.
    pub(crate) fn access(&self) -> Option<&BlockAccess> {
        self.queue.front().and_then(BlockOp::access)
    }

    /// A guest's request that is not answered yet, and what it waits for here: the one at the head, or the first one behind
    /// operations that are no guest's, which waits for what these do.
    pub(crate) fn waits_for(&self) -> Option<(usize, WaitedFor)> {
        let head = self.access();
        let is_behind = head.is_none();
        let access = head.or_else(|| self.queue.iter().find_map(BlockOp::access))?;
        let writes_ssd = matches!(access.kind, AccessKind::WriteBack { .. });
        let cause = match self.stage {
            Stage::Start | Stage::Late | Stage::Held => WaitedFor::Order,
            Stage::Read(CopyAt::ReadSsd) => WaitedFor::ReadSsdRead,
            Stage::Read(CopyAt::Ssd) => WaitedFor::SsdRead,
            Stage::Read(CopyAt::Backing) => WaitedFor::BackingRead,
            Stage::Gate(_) => WaitedFor::Journal,
            Stage::WriteSsd if is_behind || writes_ssd => WaitedFor::SsdWrite,
            Stage::WriteReadSsd | Stage::WriteAgain if is_behind => WaitedFor::SsdWrite,
            Stage::WriteBacking | Stage::WriteBack => WaitedFor::BackingWrite,
            Stage::Turn if is_behind => WaitedFor::Order,
            Stage::Place if is_behind => WaitedFor::Room,
            // What the one at the head does then is for copies of what was answered.
            Stage::WriteSsd | Stage::WriteReadSsd | Stage::WriteAgain | Stage::Turn | Stage::Place => {
                return None;
            }
            Stage::Read(CopyAt::Dram) | Stage::Merged | Stage::GivenUp => return None,
        };
        Some((access.slice.request, cause))
    }

    fn access_mut(&mut self) -> Option<&mut BlockAccess> {
        if let Some(BlockOp::Access(access)) = self.queue.front_mut() { Some(access) } else { None }
    }

    /// Whether a guest's write is queued, the head included.
    pub(crate) fn will_be_written(&self) -> bool {
        self.queue.iter().any(|op| matches!(op, BlockOp::Access(access) if access.is_write()))
    }

    /// Whether anything is queued that changes what a read gets, or waits for it: a cleaning, a capture, a move and a scrub do not.
    pub(crate) fn changes_bytes(&self) -> bool {
        let leaves_them = |op: &BlockOp| {
            matches!(
                op,
                BlockOp::Clean { .. } | BlockOp::Move | BlockOp::Scrub | BlockOp::Capture | BlockOp::Settle
            )
        };
        self.queue.iter().any(|op| !leaves_them(op))
    }

    /// Whether the block has a slot of the SSD, and a copy there that can be read.
    pub(crate) fn stays_on_ssd(&self) -> bool {
        self.slot(Level::Ssd).is_some() && self.copy().whole().is_some()
    }

    /// The access at the head, where nothing comes after it but reads, and nothing of the block is on the SSD.
    pub(crate) fn newest_access_off_ssd(&self) -> Option<&BlockAccess> {
        let is_read = |op: &BlockOp| matches!(op, BlockOp::Access(access) if !access.is_write());
        let is_newest = self.queue.iter().skip(1).all(is_read);
        self.access().filter(|_| is_newest && self.copy() == SsdCopy::None)
    }

    /// Whether something is queued behind the operation at the head that is not in vain until it is over.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.queue.iter().skip(1).any(|op| !matches!(op, BlockOp::Evict(_)))
    }
}
