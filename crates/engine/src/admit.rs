//! Admission: a request is decided when everything its operations could need is there, in the order of
//! arrival. After that no operation waits for space, so nothing can lock up.

use lode_policy::{CopySource, Effect, Scheme, Slot};
use lode_types::{Access, BlockNo, BlockPart, Direction, Level, Origin, SECTOR_BYTES, blocks_of};

use crate::Buf;
use crate::blocks::{AccessOp, Flight, Op, Source, SsdCopy, Stage};
use crate::engine::{Engine, PendingRequest};
use crate::guest::{GuestError, GuestOp, GuestRequest, MAX_PIECE_BYTES, MAX_RANGE_BYTES, Served};

/// Decides the next waiting request if there is room for it. True: one was taken.
pub(crate) fn admit_next(engine: &mut Engine) -> bool {
    engine.shrink_for_lost_places();
    let Some(next) = engine.admission.front() else { return false };
    let refusal = if !engine.is_valid(&next.op) {
        Some(GuestError::Invalid)
    } else if !engine.health.is_well() && !matches!(next.op, GuestOp::Read { .. }) {
        // Without durability there is nothing to promise a writer.
        Some(GuestError::Io)
    } else {
        None
    };
    if let Some(error) = refusal {
        engine.refuse_next(error);
        return true;
    }
    if engine.admission_is_blocked() {
        return false;
    }
    let request = engine.admission.pop_front().expect("it was there");
    engine.decide(request);
    true
}

impl Engine {
    /// Answers the request at the front with an error.
    fn refuse_next(&mut self, error: GuestError) {
        let Some(GuestRequest { token, op, .. }) = self.admission.pop_front() else { return };
        let buf = if let GuestOp::Write { buf, .. } = op { Some(buf) } else { None };
        self.events.push_back(crate::Answer { token, result: Err(error), buf, served: Served::Dram });
    }

    /// Whether the request at the front waits for room. When there will be none, it waits no longer and
    /// does without: what is read is not cached, and a write that needs a place fails.
    pub(crate) fn admission_is_blocked(&self) -> bool {
        let Some(next) = self.admission.front() else { return false };
        match next.op {
            GuestOp::Trim { .. } | GuestOp::WriteZeroes { .. } if self.range.is_some() => true,
            _ => !self.does_without_room() && !self.has_room_for(&next.op),
        }
    }

    pub(crate) fn does_without_room(&self) -> bool {
        self.starved || !self.health.is_well()
    }

    /// Looks once a tick whether anything can still make room. Two ticks without, and it is given up
    /// until there is room again.
    pub(crate) fn note_starvation(&mut self) {
        let starving = self.io.is_idle() && self.admission_is_blocked();
        self.starved |= starving && self.starving;
        self.starving = starving;
        if self.starved
            && self.has_room_for(&GuestOp::Read { offset_bytes: 0, length_bytes: MAX_PIECE_BYTES })
        {
            self.starved = false;
        }
    }

    fn is_valid(&self, op: &GuestOp) -> bool {
        let (offset, length, limit) = match op {
            GuestOp::Read { offset_bytes, length_bytes } => (*offset_bytes, *length_bytes, MAX_PIECE_BYTES),
            GuestOp::Write { offset_bytes, buf, .. } => (*offset_bytes, buf.len() as u64, MAX_PIECE_BYTES),
            GuestOp::Flush => return true,
            GuestOp::Trim { offset_bytes, length_bytes }
            | GuestOp::WriteZeroes { offset_bytes, length_bytes, .. } => {
                (*offset_bytes, *length_bytes, MAX_RANGE_BYTES)
            }
        };
        let fits = offset.checked_add(length).is_some_and(|end| end <= self.config.volume_bytes);
        let aligned = offset.is_multiple_of(SECTOR_BYTES) && length.is_multiple_of(SECTOR_BYTES);
        fits && aligned && length > 0 && length <= limit
    }

    /// Whether frames and places suffice for whatever the scheme may decide.
    fn has_room_for(&self, op: &GuestOp) -> bool {
        let (offset, length) = match op {
            GuestOp::Flush => return true,
            GuestOp::Read { offset_bytes, length_bytes } => (*offset_bytes, *length_bytes),
            GuestOp::Write { offset_bytes, buf, .. } => (*offset_bytes, buf.len() as u64),
            GuestOp::Trim { .. } => return true,
            // At most the two blocks at its ends are written.
            GuestOp::WriteZeroes { .. } => (0, 2 * self.config.block.bytes()),
        };
        let blocks = blocks_of(self.config.block, offset, length).len() as u32;
        let frames = self.config.quota.dram_blocks == 0 || self.dram.available() >= blocks;
        let needs_places = self.scheme.quota().ssd_blocks > 0;
        frames
            && self.ssd.as_ref().is_none_or(|ssd| !needs_places || ssd.store.places().available() >= blocks)
    }

    fn decide(&mut self, request: GuestRequest) {
        let ends_access = request.ends_access();
        let GuestRequest { token, op, now_ns, .. } = request;
        let new = |buf, durable| {
            let served = Served::Dram;
            PendingRequest { token, buf, parts_left: 1, durable, kept_version: 0, error: None, served }
        };
        match op {
            GuestOp::Read { offset_bytes, length_bytes } => {
                self.issue_overlapped_again(offset_bytes, length_bytes);
                let request = self.requests.insert(new(Some(Buf::zeroed(length_bytes as usize)), false));
                self.decide_parts(request, Direction::Read, offset_bytes, length_bytes);
                self.request_part_done(request, Served::Dram);
            }
            GuestOp::Write { offset_bytes, buf, fua } => {
                let length = buf.len() as u64;
                if fua {
                    self.issue_overlapped_again(offset_bytes, length);
                }
                let request = self.requests.insert(new(Some(buf), fua));
                self.decide_parts(request, Direction::Write, offset_bytes, length);
                self.request_part_done(request, Served::Dram);
            }
            GuestOp::Flush => {
                self.issue_all_again();
                let request = self.requests.insert(new(None, true));
                if !self.health.is_well() {
                    self.fail_request(request, GuestError::Io);
                }
                self.request_part_done(request, Served::Dram);
            }
            GuestOp::Trim { offset_bytes, length_bytes } => {
                let request = self.requests.insert(new(None, false));
                self.decide_range(request, offset_bytes, length_bytes, false);
            }
            GuestOp::WriteZeroes { offset_bytes, length_bytes, fua } => {
                let zeroes = Buf::zeroed(self.config.block.bytes() as usize);
                let request = self.requests.insert(new(Some(zeroes), fua));
                self.decide_range(request, offset_bytes, length_bytes, true);
            }
        }
        if ends_access {
            self.counters.requests += 1;
            self.end_request(now_ns);
        }
    }

    fn end_request(&mut self, now_ns: u64) {
        let mut effects = std::mem::take(&mut self.effects);
        effects.clear();
        self.scheme.end_request(now_ns, &mut effects);
        self.take_background(effects);
    }

    /// Counts and carries out what no guest asked for. `effects` is the engine's own list, which it takes back.
    pub(crate) fn take_background(&mut self, effects: Vec<Effect>) {
        for effect in &effects {
            self.counters.effect(effect);
            self.background(effect);
        }
        self.effects = effects;
    }

    fn decide_parts(&mut self, request: usize, direction: Direction, offset: u64, length: u64) {
        let mut buf_at = 0;
        for part in blocks_of(self.config.block, offset, length) {
            self.decide_part(request, direction, &part, buf_at);
            buf_at += part.len;
        }
    }

    /// Asks the scheme about one block and turns its answer into an operation.
    pub(crate) fn decide_part(
        &mut self,
        request: usize,
        direction: Direction,
        part: &BlockPart,
        buf_at: u32,
    ) {
        self.requests[request].parts_left += 1;
        let access = Access {
            block: part.block,
            op: direction,
            partial: (part.len as usize) < self.block_len(part.block),
            origin: self.origin_of(request),
        };
        let mut effects = std::mem::take(&mut self.effects);
        effects.clear();
        self.scheme.access(access, &mut effects);
        self.counters.access(&access);
        effects.iter().for_each(|effect| self.counters.effect(effect));
        if !self.serve_at_once(request, part, buf_at, &effects) {
            self.enqueue_access(request, direction, part, buf_at, &effects);
        }
        self.effects = effects;
    }

    /// Whoever wants it durable at once waits for it; of the others nobody knows better.
    pub(crate) fn origin_of(&self, request: usize) -> Origin {
        Origin::UNKNOWN.with_sync(self.requests[request].durable)
    }

    /// The short way for a read that DRAM holds: no operation, only a copy.
    fn serve_at_once(&mut self, request: usize, part: &BlockPart, buf_at: u32, effects: &[Effect]) -> bool {
        let [Effect::ReadLevel { level: Level::Dram, slot }] = effects else { return false };
        // A cleaning changes no bytes and need not be waited for.
        let changes = |flight: &Flight| flight.queue.iter().any(|op| !matches!(op, Op::Clean { .. }));
        if self.blocks.get(part.block).is_some_and(changes) {
            return false;
        }
        // A cleaning may have taken the frame along.
        let in_flight = || self.blocks.get(part.block).and_then(|flight| flight.frame);
        let Some(frame) = self.dram.peek(*slot).or_else(in_flight) else { return false };
        let from = &self.dram.bytes(frame)[part.start as usize..(part.start + part.len) as usize];
        copy_to(&mut self.requests[request], buf_at, from);
        self.request_part_done(request, Served::Dram);
        true
    }

    fn enqueue_access(
        &mut self,
        request: usize,
        direction: Direction,
        part: &BlockPart,
        buf_at: u32,
        effects: &[Effect],
    ) {
        let block = part.block;
        let mut op = AccessOp {
            request,
            buf_at,
            start: part.start,
            len: part.len,
            is_write: direction == Direction::Write,
            source: Source::Backing,
            merge: None,
            fill_dram: false,
            fill_ssd: false,
            to_ssd: None,
            to_backing: false,
            drop_ssd: false,
            on_backing: false,
            holds_frame: false,
            holds_place: false,
        };
        for effect in effects {
            self.note_effect(block, &mut op, effect);
        }
        self.set_aside(&mut op);
        self.push_op(block, Op::Access(op));
    }

    /// Makes one effect of an access part of its operation.
    fn note_effect(&mut self, block: BlockNo, op: &mut AccessOp, effect: &Effect) {
        match *effect {
            Effect::Evict { .. } | Effect::Clean { .. } | Effect::Copy { .. } => self.background(effect),
            Effect::ReadLevel { level, slot } => {
                self.claim(block, level, slot);
                op.source = level.into();
            }
            Effect::ReadBacking => op.source = Source::Backing,
            Effect::MergeLevel { level, slot } => {
                self.claim(block, level, slot);
                op.merge = Some(level.into());
            }
            Effect::MergeBacking => op.merge = Some(Source::Backing),
            Effect::Fill { level, slot } => {
                self.assign(block, level, slot);
                match level {
                    Level::Dram => op.fill_dram = true,
                    Level::Ssd => op.fill_ssd = true,
                    Level::ReadSsd => unreachable!("the read SSD takes copies and no fills"),
                }
            }
            Effect::WriteLevel { level, slot, hit, dirty } => {
                if hit {
                    self.claim(block, level, slot);
                } else {
                    self.assign(block, level, slot);
                }
                match level {
                    Level::Dram => op.fill_dram = true,
                    Level::Ssd => op.to_ssd = Some(dirty),
                    Level::ReadSsd => unreachable!("the read SSD takes copies and no writes"),
                }
            }
            Effect::WriteBacking => op.to_backing = true,
            Effect::Invalidate { level, slot } => {
                self.release(block, level, slot);
                op.drop_ssd |= level == Level::Ssd;
            }
        }
    }

    /// Reserves what the operation needs; unless there will be no room, admission made sure that it is
    /// there.
    fn set_aside(&mut self, op: &mut AccessOp) {
        if op.fill_dram && self.dram.available() > 0 {
            self.dram.reserve();
            op.holds_frame = true;
        }
        if (op.fill_ssd || op.to_ssd.is_some())
            && self.health.is_well()
            && let Some(ssd) = &mut self.ssd
            && ssd.store.places().available() > 0
        {
            ssd.store.places_mut().reserve();
            op.holds_place = true;
        }
    }

    /// Brings a copy that the scheme speaks of from its slot to the block's flight.
    pub(crate) fn claim(&mut self, block: BlockNo, level: Level, slot: Slot) {
        self.flight(block);
        self.take_from_slot(block, level, slot);
    }

    fn take_from_slot(&mut self, block: BlockNo, level: Level, slot: Slot) {
        let flight = self.blocks.enter(block);
        flight.slots[level.index()] = Some(slot);
        match level {
            Level::Dram => flight.frame = self.dram.claim(slot).or(flight.frame),
            Level::Ssd => {
                let place = self.ssd.as_mut().and_then(|ssd| ssd.shelf.claim(slot));
                flight.copy = place.map_or(flight.copy, SsdCopy::Whole);
            }
            Level::ReadSsd => flight.mirror = self.read_ssd.claim(slot).or(flight.mirror),
        }
    }

    /// The block will have a copy in this slot.
    pub(crate) fn assign(&mut self, block: BlockNo, level: Level, slot: Slot) {
        self.flight(block).slots[level.index()] = Some(slot);
    }

    /// The block will have no copy in this slot; its place comes to the flight, to be given up in turn.
    pub(crate) fn release(&mut self, block: BlockNo, level: Level, slot: Slot) {
        self.claim(block, level, slot);
        self.flight(block).slots[level.index()] = None;
    }

    /// The block's flight; a new one waits if a trim or zeroing has hold of its block.
    pub(crate) fn flight(&mut self, block: BlockNo) -> &mut Flight {
        if !self.blocks.contains(block) {
            let is_held = self.range_holds(block);
            let flight = self.blocks.enter(block);
            if is_held {
                flight.queue.push_back(Op::Hold);
                flight.stage = Stage::Held;
            }
            self.gather(block);
        }
        self.blocks.enter(block)
    }

    /// Brings along all copies that a scheme with mirrors has of the block, because each may have to stand in for
    /// another one. The decisions run ahead, so that a slot may still have what was there before.
    fn gather(&mut self, block: BlockNo) {
        let slots = self.scheme.mirroring().map_or([None; Level::COUNT], |scheme| scheme.slots(block));
        for level in Level::ALL {
            let Some(slot) = slots[level.index()] else { continue };
            let held = match level {
                Level::Dram => self.dram.block_in(slot),
                Level::Ssd => self.ssd.as_ref().and_then(|ssd| ssd.block_in(slot)),
                Level::ReadSsd => self.read_ssd.block_in(slot),
            };
            if held == Some(block) {
                self.take_from_slot(block, level, slot);
            }
        }
    }

    pub(crate) fn push_op(&mut self, block: BlockNo, op: Op) {
        let flight = self.flight(block);
        flight.queue.push_back(op);
        if flight.queue.len() == 1 {
            flight.stage = Stage::Start;
            self.runnable.push_back(block);
        } else if matches!(flight.stage, Stage::Turn) && flight.is_waited_for() {
            self.copies.hurry(block);
        }
    }

    /// Carries out an effect on a block other than the one accessed.
    pub(crate) fn background(&mut self, effect: &Effect) {
        match *effect {
            Effect::Evict { level: Level::Ssd, slot, block, .. } => {
                self.release(block, Level::Ssd, slot);
                self.push_op(block, Op::Evict(Level::Ssd));
            }
            Effect::Evict { level, slot, block, .. } => {
                // After a failure it may be what stands in for the SSD.
                if self.blocks.is_known(block) || !self.health.is_well() {
                    self.release(block, level, slot);
                    self.push_op(block, Op::Evict(level));
                } else {
                    self.drop_from_slot(level, slot);
                }
            }
            Effect::Clean { slot, block } => self.ask_to_clean(block, slot),
            Effect::Copy { to, slot, block, from, .. } => {
                if let CopySource::Level { level, slot } = from {
                    self.claim(block, level, slot);
                }
                self.assign(block, to, slot);
                self.push_op(block, Op::Copy { to, from: from.into() });
            }
            ref other => unreachable!("{other:?} concerns an accessed block"),
        }
    }

    /// Empties the slot of a clean copy whose block is not in flight.
    fn drop_from_slot(&mut self, level: Level, slot: Slot) {
        match level {
            Level::Dram => {
                if let Some(frame) = self.dram.claim(slot) {
                    self.dram.release(frame);
                }
            }
            Level::ReadSsd => {
                if let Some(place) = self.read_ssd.claim(slot) {
                    self.read_ssd.release(place);
                }
            }
            Level::Ssd => unreachable!("what leaves the SSD goes by way of its block's queue"),
        }
    }

    /// Keeps the share below what places that failed have left of it, so that the reserve stays what it
    /// was.
    fn shrink_for_lost_places(&mut self) {
        let quota = self.scheme.quota();
        let most = self.config.quota.ssd_blocks.saturating_sub(self.lost_places);
        if quota.ssd_blocks <= most {
            return;
        }
        let smaller = quota.with(Level::Ssd, most);
        let mut effects = Vec::new();
        self.scheme.resize(smaller, &mut effects);
        for effect in &effects {
            self.counters.effect(effect);
            self.background(effect);
        }
    }
}

/// Copies bytes into a request's buffer.
pub(crate) fn copy_to(request: &mut PendingRequest, at: u32, bytes: &[u8]) {
    if let Some(buf) = &mut request.buf {
        buf.as_mut_slice()[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }
}
