//! The transitions of a block in flight; the table is in the module above.

use lode_types::{Level, planted};

use super::{
    AccessKind, Act, BlockAccess, BlockOp, CopyAt, Facts, Flight, Gate, Input, Next, PartEnd, Place, SsdCopy,
    Stage,
};
use crate::guest::{GuestError, Served};

/// Where the bytes at hand go in DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Into the block's frame.
    Now,
    /// Into what will be the block's frame when the write under way is on the SSD.
    WhenWritten,
}

impl Next {
    fn only(act: Act) -> Next {
        Next { act, ..Next::default() }
    }
}

/// The part of the guest's request fails, and so ends its operation.
fn fail(error: GuestError) -> Next {
    Next { end: Some(PartEnd::Failed(error)), act: Act::Finish, ..Next::default() }
}

impl Flight {
    /// Takes what happened, says what is to be done. See the table in the module's documentation.
    ///
    /// # Panics
    /// When that cannot happen in this stage.
    pub(crate) fn step(&mut self, input: Input, facts: &Facts) -> Next {
        match (self.stage, input) {
            (_, Input::LateArrived) => self.late_write_arrived(),
            (Stage::Start, Input::Proceed) => self.start(facts),
            (Stage::Read(copy), Input::Read { intact: true }) => self.was_read(copy, facts),
            (Stage::Read(copy), Input::Read { intact: false }) => {
                let damage = self.damaged(copy, facts);
                Next { damage, ..self.read_another(copy, facts) }
            }
            (Stage::Merged, Input::Proceed) => self.merged(facts),
            (Stage::GivenUp, Input::Proceed) => match self.could_bring_back_older(facts) {
                true => self.await_gate(Gate::DiskWrite),
                false => self.write_backing(),
            },
            (Stage::Gate(gate), Input::Durable) => self.gate_opened(gate, facts),
            (Stage::Gate(_) | Stage::WriteBack, Input::NeverDurable) => match self.access() {
                Some(_) => fail(GuestError::Io),
                // A copy that is not written back is kept and can be read.
                None => Next::only(Act::Finish),
            },
            (Stage::WriteSsd, Input::Written(result)) => self.ssd_was_written(result.is_ok(), facts),
            (Stage::WriteReadSsd, Input::Written(result)) => {
                let (place, _) = self.next_place.take().expect("a write has a place");
                self.mirror = result.ok().map(|()| place);
                Next::only(Act::Finish)
            }
            (Stage::WriteBacking, Input::Written(Err(error))) => fail(error),
            (Stage::WriteBacking, Input::Written(Ok(()))) => self.backing_was_written(facts),
            (Stage::WriteBack, Input::OnDisk) => self.is_on_disk(),
            (Stage::WriteBack, Input::NotWrittenBack { disk_failed }) => {
                if disk_failed {
                    // What queues behind a cleaning tries for itself.
                    self.backing_failed = !matches!(self.queue.front(), Some(BlockOp::Clean { .. }));
                }
                Next::only(Act::Finish)
            }
            (Stage::WriteBack, Input::Unreadable(copy)) => {
                Next { damage: self.damaged(copy, facts), ..Next::default() }
            }
            (Stage::Turn, Input::Proceed) => self.start_copy(facts),
            (Stage::Place, Input::Proceed) => self.place_copy(),
            (Stage::Place, Input::GivenUp) | (Stage::Held, Input::Released) => Next::only(Act::Finish),
            (Stage::Held, Input::Zeroed) => Next {
                give_up_dirty: std::mem::take(&mut self.copy).place(),
                free_frame: self.frame.take(),
                free_mirror: self.mirror.take(),
                ..Next::default()
            },
            (stage, input) => self.step_reissued(stage, input),
        }
    }

    /// Whether the operation at the head, which has not started, or the end of the flight must wait for an older write to
    /// arrive at the backing disk: whatever it would do there could be undone by that one.
    fn waits_for_late_write(&self) -> bool {
        self.disk_write.is_some()
            && !planted("late-write-not-waited-for")
            && match self.access() {
                Some(access) => access.writes_disk() || self.copy.place().is_none(),
                None => true,
            }
    }

    fn start(&mut self, facts: &Facts) -> Next {
        if self.waits_for_late_write() {
            self.stage = Stage::Late;
            return Next::default();
        }
        match self.queue.front() {
            None => Next::only(Act::Leave),
            Some(BlockOp::Access(access)) if access.is_write() => self.start_write(facts),
            Some(BlockOp::Access(_)) => self.start_read(),
            Some(BlockOp::Evict(Level::Ssd)) => self.start_evict(facts),
            Some(&BlockOp::Evict(level)) => self.drop_spare(level, facts),
            Some(BlockOp::Clean { .. }) => match self.dirty_copy(facts) {
                Some(_) => self.write_back(facts),
                None => Next::only(Act::Finish),
            },
            Some(BlockOp::Repair) if self.copy.is_lost() => self.start_evict(facts),
            Some(BlockOp::Repair) => Next::only(Act::Finish),
            Some(BlockOp::Scrub) if self.copy.whole().is_some() => self.fetch(CopyAt::Ssd),
            Some(BlockOp::Scrub) => Next::only(Act::Finish),
            Some(BlockOp::Copy { .. } | BlockOp::Move) => {
                self.stage = Stage::Turn;
                Next::only(Act::AwaitTurn)
            }
            Some(BlockOp::Capture) => self.capture(facts),
            Some(BlockOp::Settle) if self.copy.place().is_some() && facts.is_dirty && !facts.is_owed => {
                self.is_on_disk()
            }
            Some(BlockOp::Settle) => Next::only(Act::Finish),
            Some(BlockOp::Hold) => self.hold(facts),
        }
    }

    fn late_write_arrived(&mut self) -> Next {
        self.disk_write = None;
        if self.stage != Stage::Late {
            return Next::default();
        }
        self.stage = Stage::Start;
        Next::only(Act::Queue)
    }

    fn fetch(&mut self, copy: CopyAt) -> Next {
        self.stage = Stage::Read(copy);
        Next::only(Act::Fetch(copy))
    }

    /// Whether the operation at the head moves the block out of an extent.
    pub(crate) fn is_moving(&self) -> bool {
        self.queue.front() == Some(&BlockOp::Move)
    }

    /// Whether what the operation at the head writes to the SSD is newer than the backing disk, when the copy there is so.
    pub(crate) fn puts_dirty(&self, is_dirty: bool) -> bool {
        let is_write_back =
            self.access().is_some_and(|access| matches!(access.kind, AccessKind::WriteBack { .. }));
        is_write_back || (self.is_moving() && is_dirty && !planted("moved-block-is-clean"))
    }

    fn head(&self) -> BlockAccess {
        *self.access().expect("an access is at the head")
    }

    fn start_read(&mut self) -> Next {
        let AccessKind::Read { from } = self.head().kind else { unreachable!("a read is at the head") };
        // A copy that failed to come about is replaced by the next one.
        match self.source(from) {
            None => fail(GuestError::Io),
            Some(CopyAt::Dram) => {
                let end = Some(PartEnd::Served(Served::Dram));
                Next { deliver: true, end, act: Act::Finish, ..Next::default() }
            }
            Some(copy) => self.fetch(copy),
        }
    }

    fn start_write(&mut self, facts: &Facts) -> Next {
        let access = self.head();
        let merge = match access.kind {
            AccessKind::WriteBack { merge } | AccessKind::WriteThrough { merge } => merge,
            AccessKind::WriteAround | AccessKind::Read { .. } => CopyAt::Backing,
        };
        let source = self.source(merge);
        // Schemes that write to the disk keep nothing dirty, but an earlier run under another scheme may have left
        // something. A lost copy has nothing to write.
        let must_write_back = access.writes_disk() && self.dirty_copy(facts).is_some();
        // Old bytes that are lost cannot be merged, and without a place there is nowhere to write to.
        let is_hopeless = (source.is_none() && !facts.is_whole)
            || ((self.backing_failed || facts.is_ordered) && must_write_back)
            || (!access.writes_disk() && !access.reserved.place);
        if is_hopeless || !facts.is_well {
            return fail(GuestError::Io);
        }
        if must_write_back {
            self.queue.push_front(BlockOp::Evict(Level::Ssd));
            return self.start_evict(facts);
        }
        match source {
            _ if access.kind == AccessKind::WriteAround && facts.is_in_sectors => self.merged(facts),
            Some(copy @ (CopyAt::ReadSsd | CopyAt::Ssd | CopyAt::Backing)) if !facts.is_whole => {
                self.fetch(copy)
            }
            _ => self.merge(),
        }
    }

    fn merge(&mut self) -> Next {
        self.stage = Stage::Merged;
        Next::only(Act::Merge)
    }

    /// The whole block is known, as far as it is needed.
    fn merged(&mut self, facts: &Facts) -> Next {
        if self.head().writes_disk() {
            if !facts.is_well {
                // It failed while the old bytes were read: what the disk makes stale could not be given up for good.
                return fail(GuestError::Io);
            }
            assert!(self.copy.is_lost() || !facts.is_dirty, "a dirty copy was written back before");
            self.stage = Stage::GivenUp;
            // A damaged copy stays until the disk durably has the new bytes: without it a power cut would bring back what
            // the disk had before.
            return Next {
                free_frame: self.frame.take(),
                free_mirror: self.mirror.take(),
                give_up: self.take_whole(),
                act: Act::Proceed,
                ..Next::default()
            };
        }
        // The copies that there are stay until the SSD has the new one: should it fail, the old bytes are theirs.
        let access = self.access_mut().expect("a write is at the head");
        let reserved = std::mem::take(&mut access.reserved);
        self.stage = Stage::WriteSsd;
        let fill_frame = reserved.frame.then_some(Fill::WhenWritten);
        Next { fill_frame, act: Act::WriteSsd, ..Next::default() }
    }

    /// Whether a power cut could leave the journal with an older copy than the disk is about to have: one that was given up,
    /// or that the lost one took the place of.
    fn could_bring_back_older(&self, facts: &Facts) -> bool {
        !planted("disk-written-before-give-up")
            && if self.copy.is_lost() { !facts.is_recorded } else { facts.may_come_back }
    }

    fn take_whole(&mut self) -> Option<Place> {
        let place = self.copy.whole()?;
        self.copy = SsdCopy::None;
        Some(place)
    }

    fn await_gate(&mut self, gate: Gate) -> Next {
        self.stage = Stage::Gate(gate);
        Next::only(Act::AwaitGate(gate))
    }

    fn write_backing(&mut self) -> Next {
        self.stage = Stage::WriteBacking;
        Next::only(Act::WriteBacking)
    }

    /// The copy that was read is as it should be.
    fn was_read(&mut self, copy: CopyAt, facts: &Facts) -> Next {
        match self.queue.front() {
            Some(&BlockOp::Copy { to, .. }) => self.await_place(to),
            Some(BlockOp::Move) => self.await_place(Level::Ssd),
            Some(BlockOp::Scrub) => Next::only(Act::Finish),
            Some(BlockOp::Capture) => Next { capture: true, act: Act::Finish, ..Next::default() },
            Some(BlockOp::Access(access)) if access.is_write() => self.merge(),
            _ => self.answer_read(copy, facts),
        }
    }

    /// Answers a read, and puts what was read where the scheme wants copies of it.
    fn answer_read(&mut self, copy: CopyAt, facts: &Facts) -> Next {
        // A dirty copy that could not be written back stays the one that counts.
        let may_fill_ssd = self.copy.place().is_none() && facts.is_well;
        let access = self.access_mut().expect("a read is at the head");
        let fills_frame = std::mem::take(&mut access.reserved.frame);
        let fills_ssd = access.reserved.place && may_fill_ssd;
        let end = Some(PartEnd::Served(copy.into()));
        let mut next = Next { deliver: true, end, act: Act::Finish, ..Next::default() };
        if fills_ssd {
            access.reserved.place = false;
            self.stage = Stage::WriteSsd;
            next.act = Act::WriteSsd;
            if planted("read-waits-for-its-fill") {
                next.end = None;
            }
        }
        if fills_frame {
            next.free_frame = self.frame.take();
            next.fill_frame = Some(Fill::Now);
        }
        next
    }

    /// A copy could not be read, or is not what it should be.
    fn read_another(&mut self, copy: CopyAt, facts: &Facts) -> Next {
        match self.queue.front() {
            Some(BlockOp::Copy { .. }) if copy == CopyAt::Backing => Next::only(Act::Finish),
            Some(BlockOp::Copy { .. } | BlockOp::Move) => self.start_copy(facts),
            Some(BlockOp::Scrub) => {
                self.replace_copy(facts);
                Next::only(Act::Finish)
            }
            Some(BlockOp::Capture) => self.capture(facts),
            _ if copy == CopyAt::Backing => fail(GuestError::Io),
            Some(BlockOp::Access(access)) if access.is_write() => self.start_write(facts),
            _ => {
                self.replace_copy(facts);
                self.start_read()
            }
        }
    }

    /// A read or a scrub found the copy on the SSD damaged. A clean one has gone, and is made again from another copy or the backing
    /// disk, unless something else is about to be done with the block. A dirty one stays, and is repaired where there is a second copy.
    fn replace_copy(&mut self, facts: &Facts) {
        let is_wanted = self.slot(Level::Ssd).is_some() && self.queue.len() == 1;
        if self.copy == SsdCopy::None && is_wanted && facts.is_well {
            self.queue.push_back(BlockOp::Copy { to: Level::Ssd, from: CopyAt::Dram });
        }
    }

    fn gate_opened(&mut self, gate: Gate, facts: &Facts) -> Next {
        match (gate, self.queue.front()) {
            (Gate::DiskWrite, _) => self.write_backing(),
            (Gate::WrittenBack, Some(BlockOp::Access(_))) => self.disk_has_it(),
            (Gate::OwnRecord, Some(BlockOp::Clean { .. })) if self.dirty_copy(facts).is_some() => {
                self.write_back(facts)
            }
            (Gate::OwnRecord, Some(BlockOp::Evict(_) | BlockOp::Repair)) if self.copy.place().is_some() => {
                self.start_evict(facts)
            }
            _ => Next::only(Act::Finish),
        }
    }

    fn ssd_was_written(&mut self, ok: bool, facts: &Facts) -> Next {
        let (place, crc) = self.next_place.take().expect("a write has a place");
        let is_write_back =
            self.access().is_some_and(|access| matches!(access.kind, AccessKind::WriteBack { .. }));
        // After a failure there must come nothing more that is newer than the backing disk.
        if !ok || (is_write_back && !facts.is_well && !planted("dirty-after-failure")) {
            let bad_place = Some(place);
            return match is_write_back {
                // What the disk got past the groups would come before what was written earlier.
                true if facts.is_ordered => {
                    let free_frame = self.next_frame.take();
                    Next { bad_place, free_frame, ..fail(GuestError::Io) }
                }
                true => Next { bad_place, ..self.write_to_disk_instead() },
                false if self.is_moving() && planted("failed-move-takes-spares") => Next {
                    bad_place,
                    free_frame: self.frame.take(),
                    free_mirror: self.mirror.take(),
                    act: Act::Finish,
                    ..Next::default()
                },
                false => Next { bad_place, act: Act::Finish, ..Next::default() },
            };
        }
        let is_move = self.is_moving();
        // A copy that was moved is as it was. After a failure the old one is, which the journal knows.
        if is_move && !facts.is_well {
            return Next { bad_place: Some(place), act: Act::Finish, ..Next::default() };
        }
        let put = Some(self.put(place, crc, self.puts_dirty(facts.is_dirty)));
        if !is_write_back {
            let is_read = self.access().is_some_and(|access| !access.is_write());
            let end = is_read.then_some(PartEnd::Served(Served::Backing));
            let end = end.filter(|_| planted("read-waits-for-its-fill"));
            return Next { put, end, act: Act::Finish, ..Next::default() };
        }
        // What the block had beside the SSD is stale.
        let free_frame = std::mem::replace(&mut self.frame, self.next_frame.take());
        let free_mirror = if planted("old-mirror-stays") { None } else { self.mirror.take() };
        let end = Some(PartEnd::Served(Served::Ssd));
        Next { put, free_frame, free_mirror, end, act: Act::Finish, ..Next::default() }
    }

    /// The SSD could not take a guest's write; the backing disk can. The block is not cached then.
    fn write_to_disk_instead(&mut self) -> Next {
        self.access_mut().expect("a write is at the head").kind = AccessKind::WriteAround;
        self.stage = Stage::Start;
        self.bytes = None;
        Next { free_frame: self.next_frame.take(), act: Act::Queue, ..Next::default() }
    }

    /// The backing disk has the guest's bytes. A lost copy is there until it has them durably.
    fn backing_was_written(&mut self, facts: &Facts) -> Next {
        if !self.copy.is_lost() {
            self.disk_has_it()
        } else if !facts.is_well {
            fail(GuestError::Io)
        } else {
            self.stage = Stage::WriteBack;
            Next::only(Act::AwaitFlush)
        }
    }

    /// The backing disk has the bytes and no older copy can come back: the guest is answered.
    fn disk_has_it(&mut self) -> Next {
        let access = self.access_mut().expect("a write is at the head");
        let mut next =
            Next { end: Some(PartEnd::Served(Served::Backing)), act: Act::Finish, ..Next::default() };
        let is_through = matches!(access.kind, AccessKind::WriteThrough { .. });
        if is_through && std::mem::take(&mut access.reserved.place) {
            self.stage = Stage::WriteSsd;
            next.act = Act::WriteSsd;
        }
        next
    }

    /// Takes the block off the SSD, by way of the backing disk if need be.
    fn start_evict(&mut self, facts: &Facts) -> Next {
        self.backing_failed = false;
        match self.dirty_copy(facts) {
            Some(_) => self.write_back(facts),
            None => Next { give_up: self.take_whole(), act: Act::Finish, ..Next::default() },
        }
    }

    /// Writes the block's dirty copy back. The disk is not touched before the journal durably knows the copy, or after a
    /// failure before the next start is sure to distrust clean copies: an older, clean copy that came back would be older
    /// than the disk.
    fn write_back(&mut self, facts: &Facts) -> Next {
        if !facts.writes_back || facts.is_ordered {
            Next::only(Act::Finish)
        } else if !facts.is_recorded && facts.is_well && !planted("written-back-before-recorded") {
            self.await_gate(Gate::OwnRecord)
        } else {
            self.stage = Stage::WriteBack;
            Next::only(Act::WriteBack)
        }
    }

    /// What was written back is there durably: the copy goes, or is clean, as soon as the journal says so.
    fn is_on_disk(&mut self) -> Next {
        let place = self.copy.place().expect("a block is written back from its place");
        let stays = match self.queue.front() {
            Some(BlockOp::Clean { .. }) => !self.copy.is_lost(),
            Some(BlockOp::Settle) => !self.copy.is_lost() && self.slot(Level::Ssd).is_some(),
            _ => false,
        };
        if !stays {
            self.copy = SsdCopy::None;
        }
        self.stage = Stage::Gate(Gate::WrittenBack);
        Next::only(Act::NoteWrittenBack { place, stays })
    }

    /// The bytes of the dirty copy, or of one that stands in for it, become a group's. Without a dirty copy, or without its
    /// bytes, there is nothing to take.
    fn capture(&mut self, facts: &Facts) -> Next {
        match self.source(CopyAt::Dram) {
            _ if self.dirty_copy(facts).is_none() => Next::only(Act::Finish),
            Some(CopyAt::Dram) => Next { capture: true, act: Act::Finish, ..Next::default() },
            Some(copy) => self.fetch(copy),
            None => Next::only(Act::Finish),
        }
    }

    /// Drops the copy in a level beside the SSD, unless it has to stand in for that of the SSD.
    fn drop_spare(&mut self, level: Level, facts: &Facts) -> Next {
        let mut next = Next::only(Act::Finish);
        if !self.stands_in(facts) || planted("stand-in-dropped") {
            match level {
                Level::Dram => next.free_frame = self.frame.take(),
                Level::ReadSsd => next.free_mirror = self.mirror.take(),
                Level::Ssd => unreachable!("what leaves the SSD is written back if need be"),
            }
        }
        next
    }

    fn start_copy(&mut self, facts: &Facts) -> Next {
        let (to, from, is_needless) = match self.queue.front() {
            Some(&BlockOp::Copy { to, from }) => match to {
                Level::Dram => (to, from, true),
                Level::Ssd => (to, from, self.copy.place().is_some() || !facts.is_well),
                Level::ReadSsd => (to, from, self.mirror.is_some() || facts.is_read_ssd_gone),
            },
            Some(BlockOp::Move) => {
                (Level::Ssd, CopyAt::Dram, self.copy.whole().is_none() || !facts.leaves_extent)
            }
            op => unreachable!("{op:?} is no copy"),
        };
        match self.source(from) {
            _ if is_needless => Next::only(Act::Finish),
            None => Next::only(Act::Finish),
            Some(CopyAt::Dram) => self.await_place(to),
            Some(copy) => self.fetch(copy),
        }
    }

    /// The bytes of a copy are there.
    fn await_place(&mut self, to: Level) -> Next {
        self.stage = Stage::Place;
        Next::only(Act::AwaitPlace(to))
    }

    fn place_copy(&mut self) -> Next {
        let (stage, act) = match self.queue.front() {
            Some(BlockOp::Copy { to: Level::ReadSsd, .. }) => (Stage::WriteReadSsd, Act::WriteReadSsd),
            _ => (Stage::WriteSsd, Act::WriteSsd),
        };
        self.stage = stage;
        Next::only(act)
    }

    /// A trim or zeroing has its turn: clean copies go. A dirty one stays with those beside it until the backing disk durably
    /// has the zeroes, and for good if it never does.
    fn hold(&mut self, facts: &Facts) -> Next {
        self.stage = Stage::Held;
        let mut next = Next::only(Act::Hold);
        if self.dirty_copy(facts).is_none() {
            next.free_frame = self.frame.take();
            next.free_mirror = self.mirror.take();
        }
        if !facts.is_dirty || planted("dirty-copy-goes-before-zeroes") {
            next.give_up = self.take_whole();
        }
        next
    }

    /// A write that was issued again (see [`crate::reissue`]): the first device to have it answers its guest.
    fn step_reissued(&mut self, stage: Stage, input: Input) -> Next {
        let end = match (stage, input) {
            (Stage::WriteBacking, Input::DiskFirst) => {
                self.stage = Stage::WriteAgain;
                return Next { end: Some(PartEnd::Served(Served::Backing)), ..Next::default() };
            }
            (Stage::WriteBacking, Input::SsdFirst) => Some(PartEnd::Served(Served::Ssd)),
            (Stage::WriteBacking, Input::BothFailed(error)) => Some(PartEnd::Failed(error)),
            (Stage::WriteAgain, Input::BothTook) => None,
            (stage, input) => unreachable!("{input:?} in {stage:?}, {:?} at the head", self.queue.front()),
        };
        Next { end, act: Act::Finish, ..Next::default() }
    }
}
