//! Admission: a request is decided when everything its operations could need is there, in the order of
//! arrival. After that no operation waits for space, so nothing can lock up.

use std::ops::Range;

use lode_policy::{CopySource, Effect, Scheme, Slot};
use lode_types::{
    Access, BlockNo, BlockPart, Buf, ByteList, Bytes, Direction, Level, Origin, SECTOR_BYTES, blocks_of,
};

use crate::blocks::{AccessOp, Flight, Op, Source, SsdCopy, Stage};
use crate::engine::{Engine, PendingRequest};
use crate::guest::{
    Answer, GuestError, GuestOp, GuestRequest, MAX_PIECE_BYTES, MAX_RANGE_BYTES, MAX_REQUEST_BYTES, Served,
};

/// A request that waits for admission, or what is left of it: long ones are decided piece by piece.
#[derive(Debug)]
pub(crate) struct Waiting {
    request: GuestRequest,
    /// Bytes of the volume that are still to be decided.
    rest: Range<u64>,
    /// The request on its way, once the first piece is decided.
    key: Option<usize>,
}

impl Waiting {
    pub(crate) fn new(request: GuestRequest) -> Waiting {
        let (offset, length) = request.op.range();
        Waiting { request, rest: offset..offset.saturating_add(length), key: None }
    }
}

/// Decides the next piece of the request at the front if there is room for it. True: one was taken.
pub(crate) fn admit_next(engine: &mut Engine) -> bool {
    engine.shrink_for_lost_places();
    let Some(next) = engine.admission.front() else { return false };
    let refusal = if next.key.is_none() && !engine.is_valid(&next.request.op) {
        Some(GuestError::Invalid)
    } else if !engine.health.is_well() && !matches!(next.request.op, GuestOp::Read { .. }) {
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
    engine.decide_next();
    true
}

impl Engine {
    /// Ends the request at the front, or what is left of it, with an error.
    fn refuse_next(&mut self, error: GuestError) {
        let Some(Waiting { request, key, .. }) = self.admission.pop_front() else { return };
        if let Some(key) = key {
            self.fail_request(key, error);
            self.request_part_done(key, Served::Dram);
            return;
        }
        let (token, data, served) = (request.token, ByteList::new(), Served::Dram);
        self.events.push_back(Answer { token, result: Err(error), data, served });
    }

    /// What is decided next of a request: no block is in two pieces.
    fn next_piece(&self, next: &Waiting) -> Range<u64> {
        let most = if next.request.op.is_range() { MAX_RANGE_BYTES } else { MAX_PIECE_BYTES };
        let (size, at) = (self.config.block, next.rest.start);
        at..next.rest.end.min(size.start_of(size.block_of(at.saturating_add(most))))
    }

    /// Whether the request at the front waits for room. When there will be none, it waits no longer and
    /// does without: what is read is not cached, and a write that needs a place fails.
    pub(crate) fn admission_is_blocked(&self) -> bool {
        let Some(next) = self.admission.front() else { return false };
        if next.request.op.is_range() && self.range.is_some() {
            return true;
        }
        !self.does_without_room() && !self.has_room_for(&next.request.op, &self.next_piece(next))
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
        let read = GuestOp::Read { offset_bytes: 0, length_bytes: MAX_PIECE_BYTES };
        if self.starved && self.has_room_for(&read, &(0..MAX_PIECE_BYTES)) {
            self.starved = false;
        }
    }

    fn is_valid(&self, op: &GuestOp) -> bool {
        if matches!(op, GuestOp::Flush) {
            return true;
        }
        let (offset, length) = op.range();
        let limit = if op.is_range() { u64::MAX } else { MAX_REQUEST_BYTES };
        let fits = offset.checked_add(length).is_some_and(|end| end <= self.config.volume_bytes);
        let aligned = offset.is_multiple_of(SECTOR_BYTES) && length.is_multiple_of(SECTOR_BYTES);
        fits && aligned && length > 0 && length <= limit
    }

    /// Whether frames and places suffice for whatever the scheme may decide about a piece.
    fn has_room_for(&self, op: &GuestOp, piece: &Range<u64>) -> bool {
        let (offset, length) = match op {
            GuestOp::Flush | GuestOp::Trim { .. } => return true,
            GuestOp::Read { .. } | GuestOp::Write { .. } => (piece.start, piece.end - piece.start),
            // At most the two blocks at its ends are written.
            GuestOp::WriteZeroes { .. } => (0, 2 * self.config.block.bytes()),
        };
        let blocks = blocks_of(self.config.block, offset, length).len() as u32;
        let frames = self.config.quota.dram_blocks == 0 || self.dram.available() >= blocks;
        let needs_places = self.scheme.quota().ssd_blocks > 0;
        frames
            && self.ssd.as_ref().is_none_or(|ssd| !needs_places || ssd.store.places().available() >= blocks)
    }

    /// Decides the next piece of the request at the front.
    fn decide_next(&mut self) {
        let Some(mut next) = self.admission.pop_front() else { return };
        let piece = self.next_piece(&next);
        let key = next.key.unwrap_or_else(|| self.begin_request(&mut next));
        self.decide_piece(key, &next.request.op, &piece);
        if piece.end < next.rest.end {
            (next.key, next.rest.start) = (Some(key), piece.end);
            self.admission.push_front(next);
            return;
        }
        self.request_part_done(key, Served::Dram);
        if next.request.is_access() {
            self.counters.requests += 1;
            self.end_request(next.request.now_ns);
        }
    }

    /// Notes a request whose first piece is about to be decided. It counts as a part of its own until the last one is.
    fn begin_request(&mut self, next: &mut Waiting) -> usize {
        let block = self.config.block;
        let (data, durable) = match &mut next.request.op {
            GuestOp::Read { offset_bytes, length_bytes } => {
                let blocks = blocks_of(block, *offset_bytes, *length_bytes).len();
                (ByteList::from_elem(Bytes::new(), blocks), false)
            }
            GuestOp::Write { data, fua, .. } => (std::mem::take(data), *fua),
            GuestOp::Flush => (ByteList::new(), true),
            GuestOp::Trim { .. } => (ByteList::new(), false),
            GuestOp::WriteZeroes { fua, .. } => {
                let zeroes = Buf::zeroed(block.bytes() as usize).freeze();
                (std::iter::once(zeroes).collect(), *fua)
            }
        };
        self.requests.insert(PendingRequest {
            token: next.request.token,
            data,
            first_block: block.block_of(next.rest.start),
            parts_left: 1,
            durable,
            kept_version: 0,
            error: None,
            served: Served::Dram,
        })
    }

    fn decide_piece(&mut self, request: usize, op: &GuestOp, piece: &Range<u64>) {
        let (offset, length) = (piece.start, piece.end - piece.start);
        let buf_at = (offset - op.range().0) as u32;
        match *op {
            GuestOp::Read { .. } => {
                self.issue_overlapped_again(offset, length);
                self.decide_parts(request, Direction::Read, piece, buf_at);
            }
            GuestOp::Write { fua, .. } => {
                if fua {
                    self.issue_overlapped_again(offset, length);
                }
                self.decide_parts(request, Direction::Write, piece, buf_at);
            }
            GuestOp::Flush => {
                self.issue_all_again();
                if !self.health.is_well() {
                    self.fail_request(request, GuestError::Io);
                }
            }
            GuestOp::Trim { .. } | GuestOp::WriteZeroes { .. } => {
                self.requests[request].parts_left += 1;
                self.decide_range(request, offset, length, matches!(op, GuestOp::WriteZeroes { .. }));
            }
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

    fn decide_parts(&mut self, request: usize, direction: Direction, piece: &Range<u64>, mut buf_at: u32) {
        for part in blocks_of(self.config.block, piece.start, piece.end - piece.start) {
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
        if !self.serve_at_once(request, part, &effects) {
            self.enqueue_access(request, direction, part, buf_at, &effects);
        }
        self.effects = effects;
    }

    /// Whoever wants it durable at once waits for it; of the others nobody knows better.
    pub(crate) fn origin_of(&self, request: usize) -> Origin {
        Origin::UNKNOWN.with_sync(self.requests[request].durable)
    }

    /// The short way for a read that DRAM holds: no operation, and the bytes of the frame as they are.
    fn serve_at_once(&mut self, request: usize, part: &BlockPart, effects: &[Effect]) -> bool {
        let [Effect::ReadLevel { level: Level::Dram, slot }] = effects else { return false };
        // A cleaning changes no bytes and need not be waited for.
        let changes = |flight: &Flight| flight.queue.iter().any(|op| !matches!(op, Op::Clean { .. }));
        if self.blocks.get(part.block).is_some_and(changes) {
            return false;
        }
        // A cleaning may have taken the frame along.
        let in_flight = || self.blocks.get(part.block).and_then(|flight| flight.frame);
        let Some(frame) = self.dram.peek(*slot).or_else(in_flight) else { return false };
        let bytes = self.dram.bytes(frame).slice(part.start as usize..(part.start + part.len) as usize);
        self.requests[request].deliver(part.block, bytes);
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
        let slots = self.scheme.slots(block);
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
