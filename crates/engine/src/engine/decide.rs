//! From guests' requests to operations of blocks in flight: what the front decides is given to the blocks that it concerns.

use std::ops::Range;

use lode_policy::{CopySource, Effect, Slot};
use lode_types::{Access, BlockNo, BlockRange, Buf, ByteList, Direction, Level, Origin, blocks_of, planted};

use super::Engine;
use crate::disk::RangeKind;
use crate::flight::{AccessKind, BlockAccess, BlockOp, Flight, PartEnd, RequestSlice, Reserved, Stage};
use crate::front::{Admission, Decided};
use crate::guest::{GuestError, GuestOp, Served};
use crate::waiting::Taken;
use crate::waits::WaitedFor;

/// Nothing had to be done for it.
const AT_ONCE: PartEnd = PartEnd::Served(Served::Dram);

impl Engine {
    /// Decides the next waiting request for which there is room. True: one was taken.
    pub(super) fn admit_next(&mut self) -> bool {
        self.shrink_for_bad_places();
        if self.front.is_empty() {
            return false;
        }
        if let Some((mut refused, error)) = self.front.next_refused(self.health.is_well()) {
            let key = self.admit(&mut refused);
            self.requests.fail(key, error);
            self.end_part(key, AT_ONCE);
            refused.give_up_rest();
            self.front.decided(refused, self.requests.now_ns());
            return true;
        }
        let now = self.admission();
        let Some(next) = self.front.next_admitted(&self.levels, &self.config, &now) else { return false };
        self.decide(next);
        true
    }

    /// Whether a request waits for room, or for what is dirty to become less.
    pub(super) fn is_blocked(&self) -> bool {
        !self.front.is_empty() && self.front.is_blocked(&self.levels, &self.config, &self.admission())
    }

    fn admission(&self) -> Admission {
        Admission {
            is_well: self.health.is_well(),
            has_range: self.disk.has_range() || self.groups_hold_ranges(),
            places_come: self.places_come(),
            // Where nothing is written back, because nothing can be, nobody waits for it.
            is_throttled: self.groups_hold_writes()
                || (self.drain.under_way() > 0 && self.background.is_over_max(self.blocks_to_clean())),
        }
    }

    /// Keeps the share below what places that failed have left of it, so that the reserve stays what it was.
    fn shrink_for_bad_places(&mut self) {
        let quota = self.front.quota();
        let most = self.front.used(self.levels.share_in_force(&self.config)).ssd_blocks;
        if quota.ssd_blocks > most {
            let effects = self.front.resize(quota.with(Level::Ssd, most));
            self.take_background(effects);
        }
    }

    /// Decides the next piece of a request.
    fn decide(&mut self, mut next: Taken) {
        let piece = next.next_piece(self.config.block);
        let key = self.admit(&mut next);
        self.decide_piece(key, &next.request().op, &piece);
        next.piece_decided(key, piece.end);
        let (is_last, is_access, now_ns) =
            (next.is_over(), next.request().is_access(), next.request().now_ns);
        self.front.decided(next, self.requests.now_ns());
        if !is_last {
            return;
        }
        self.end_part(key, AT_ONCE);
        if is_access {
            let effects = self.front.end_request(now_ns);
            self.take_background(effects);
        }
    }

    /// The request under way of which a piece is about to be decided, or refused, with what it has waited for until now.
    pub(super) fn admit(&mut self, next: &mut Taken) -> usize {
        let held_by = self.front.held_by(next);
        let key = match next.key() {
            Some(key) => key,
            None => {
                let key = self.begin_request(next);
                self.requests.waited_until(key, WaitedFor::Order, next.behind_until_ns());
                key
            }
        };
        self.requests.waited(key, held_by);
        key
    }

    /// Notes a request whose first piece is about to be decided. It counts as a part of its own until the last one is.
    fn begin_request(&mut self, next: &mut Taken) -> usize {
        let (start, _) = next.request().op.range();
        let block = self.config.block;
        let (data, durable) = match next.request().op {
            GuestOp::Read { offset_bytes, length_bytes } => {
                let blocks = blocks_of(block, offset_bytes, length_bytes).len();
                (self.requests.list_of(blocks), false)
            }
            GuestOp::Write { fua, .. } => (next.take_bytes(), fua && !planted("fua-ignored")),
            GuestOp::Flush => (ByteList::new(), true),
            GuestOp::Trim { .. } => (ByteList::new(), false),
            GuestOp::WriteZeroes { fua, .. } => {
                let zeroes = Buf::zeroed(block.bytes() as usize).freeze();
                (std::iter::once(zeroes).collect(), fua && !planted("fua-of-zeroes-ignored"))
            }
        };
        self.requests.begin(next.request().token, data, block.block_of(start), durable, next.since_ns())
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
                self.written.set(piece);
                self.decide_parts(request, Direction::Write, piece, buf_at);
            }
            GuestOp::Flush => {
                self.issue_all_again();
                self.cut_at_flush();
                if !self.health.is_well() {
                    self.requests.fail(request, GuestError::Io);
                }
            }
            GuestOp::Trim { .. } | GuestOp::WriteZeroes { .. } => {
                self.requests.add_part(request);
                self.decide_range(request, offset, length, op.into());
            }
        }
    }

    fn decide_parts(&mut self, request: usize, direction: Direction, piece: &Range<u64>, mut buf_at: u32) {
        let parts = blocks_of(self.config.block, piece.start, piece.end - piece.start);
        if parts.len() > 1 {
            self.front.prefetch(parts.clone().map(|part| part.block));
            if direction == Direction::Write {
                self.levels.prefer_run(parts.len() as u32);
            }
        }
        for part in parts {
            self.decide_part(request, direction, &part, buf_at);
            buf_at += part.len;
        }
    }

    /// Asks the scheme about one block and turns its answer into an operation.
    fn decide_part(&mut self, request: usize, direction: Direction, part: &BlockRange, buf_at: u32) {
        self.requests.add_part(request);
        let access = Access {
            block: part.block,
            op: direction,
            partial: (part.len as usize) < self.block_len(part.block),
            origin: self.origin_of(request),
        };
        let effects = self.front.decide(access);
        let at = RequestSlice { request, buf_at, start: part.start, len: part.len };
        if !self.serve_at_once(part.block, at, &effects) {
            self.push_access(part.block, at, direction, &effects);
        }
        self.front.give_back(effects);
    }

    /// Whoever wants it durable at once waits for it; of the others nobody knows better.
    pub(super) fn origin_of(&self, request: usize) -> Origin {
        Origin::UNKNOWN.with_sync(self.requests.is_durable(request))
    }

    /// The short way for a read that DRAM holds: no operation, and the bytes of the frame as they are.
    fn serve_at_once(&mut self, block: BlockNo, slice: RequestSlice, effects: &[Effect]) -> bool {
        let [Effect::ReadLevel { level: Level::Dram, slot }] = effects else { return false };
        if self.flights.get(block).is_some_and(Flight::changes_bytes) {
            return false;
        }
        // It may have taken the frame along.
        let in_flight = || self.flights.get(block).and_then(Flight::frame);
        let Some(frame) = self.levels.frame_in(*slot).or_else(in_flight) else { return false };
        self.requests.deliver(block, &slice, self.levels.frame_bytes(frame));
        self.end_part(slice.request, AT_ONCE);
        true
    }

    fn push_access(&mut self, block: BlockNo, slice: RequestSlice, direction: Direction, effects: &[Effect]) {
        let mut decided = Decided::default();
        for effect in effects {
            self.apply_to_slots(block, effect);
            decided.note(effect);
        }
        let kind = decided.kind(direction == Direction::Write);
        let (kind, wants) = self.past_ssd(kind, decided.wants());
        let (kind, wants) = self.by_way_of_groups(block, kind, wants);
        let reserved = self.levels.reserve(Reserved { place: wants.place && self.health.is_well(), ..wants });
        self.push_op(block, BlockOp::Access(BlockAccess { slice, kind, reserved }));
    }

    /// What a write amounts to, and what is to be set aside for it.
    fn past_ssd(&self, kind: AccessKind, wants: Reserved) -> (AccessKind, Reserved) {
        match kind {
            AccessKind::WriteBack { .. } if self.writes_around => {
                (AccessKind::WriteAround, Reserved::default())
            }
            kind => (kind, wants),
        }
    }

    /// What one effect of an access means for the slots of its block, or for other blocks.
    fn apply_to_slots(&mut self, block: BlockNo, effect: &Effect) {
        match *effect {
            Effect::Evict { .. } | Effect::Clean { .. } | Effect::Copy { .. } => self.apply_to_others(effect),
            Effect::ReadLevel { level, slot }
            | Effect::MergeLevel { level, slot }
            | Effect::WriteLevel { level, slot, hit: true, .. } => self.claim(block, level, slot),
            Effect::Fill { level, slot } | Effect::WriteLevel { level, slot, hit: false, .. } => {
                self.assign(block, level, slot);
            }
            Effect::Invalidate { level, slot } => self.release(block, level, slot),
            Effect::ReadBacking | Effect::MergeBacking | Effect::WriteBacking => {}
        }
    }

    /// Carries out what no guest asked for. `effects` is the front's own list, which it takes back.
    pub(super) fn take_background(&mut self, effects: Vec<Effect>) {
        effects.iter().for_each(|effect| self.apply_to_others(effect));
        self.front.give_back(effects);
    }

    /// Carries out an effect on a block other than the one accessed.
    pub(super) fn apply_to_others(&mut self, effect: &Effect) {
        match *effect {
            Effect::Evict { level: Level::Ssd, slot, block, .. } => {
                self.release(block, Level::Ssd, slot);
                self.push_op(block, BlockOp::Evict(Level::Ssd));
            }
            Effect::Evict { level, slot, block, .. } => {
                // After a failure it may be what stands in for the SSD.
                if self.flights.is_known(block) || !self.health.is_well() {
                    self.release(block, level, slot);
                    self.push_op(block, BlockOp::Evict(level));
                } else {
                    self.levels.empty_slot(level, slot);
                }
            }
            Effect::Clean { slot, block } if self.health.is_well() && self.ordered.is_none() => {
                self.drain.ask(block, slot, self.front.quota().ssd_blocks);
            }
            Effect::Clean { .. } => {}
            Effect::Copy { to, slot, block, from, .. } => {
                if let CopySource::Level { level, slot } = from {
                    self.claim(block, level, slot);
                }
                self.assign(block, to, slot);
                self.push_op(block, BlockOp::Copy { to, from: from.into() });
            }
            ref other => unreachable!("{other:?} concerns an accessed block"),
        }
    }

    /// Brings a copy that the scheme speaks of from its slot to the block's flight.
    pub(super) fn claim(&mut self, block: BlockNo, level: Level, slot: Slot) {
        self.enter(block);
        self.note_claimed(block, level);
        self.levels.claim(self.flights.of_mut(block), level, slot);
    }

    /// The block will have a copy in this slot.
    pub(super) fn assign(&mut self, block: BlockNo, level: Level, slot: Slot) {
        self.enter(block).set_slot(level, Some(slot));
    }

    /// The block will have no copy in this slot; its place comes to the flight, to be given up in turn.
    fn release(&mut self, block: BlockNo, level: Level, slot: Slot) {
        self.claim(block, level, slot);
        self.flights.of_mut(block).set_slot(level, None);
    }

    /// The block's flight. A new one waits if a trim or zeroing has hold of its block, and brings along all copies that a
    /// scheme with mirrors has of the block, because each may have to stand in for another one. The decisions run ahead, so
    /// that a slot may still have what was there before.
    pub(super) fn enter(&mut self, block: BlockNo) -> &mut Flight {
        if self.flights.contains(block) {
            return self.flights.of_mut(block);
        }
        let flight = self.flights.enter(block);
        if self.disk.range_holds(block) {
            flight.begin_held();
        }
        let slots = self.front.mirrored_slots(block);
        for level in Level::ALL {
            if let Some(slot) =
                slots[level.index()].filter(|&slot| self.levels.block_in(level, slot) == Some(block))
            {
                self.levels.claim(flight, level, slot);
                if let Some(ordered) = self.ordered.as_mut().filter(|_| level == Level::Ssd) {
                    ordered.note_slot(block, None);
                }
            }
        }
        flight
    }

    pub(super) fn push_op(&mut self, block: BlockNo, op: BlockOp) {
        let flight = self.enter(block);
        let is_head = flight.push(op);
        let is_copy_waited_for = flight.stage() == Stage::Turn && flight.is_waited_for();
        if is_head {
            self.flights.make_runnable(block);
        } else if is_copy_waited_for {
            self.copies.put_first(block);
        }
    }

    /// One part of a request is done.
    pub(super) fn end_part(&mut self, request: usize, end: PartEnd) {
        let now = self.durability();
        self.requests.end_part(request, end, &now);
    }

    /// Decides a trim or zeroing. Zeroes that end within a block are written like a guest's write; a trim
    /// leaves such blocks alone.
    fn decide_range(&mut self, request: usize, offset: u64, length: u64, kind: RangeKind) {
        let mut whole: Option<Range<BlockNo>> = None;
        let parts = blocks_of(self.config.block, offset, length);
        let last = parts.len() - 1;
        for (i, part) in parts.enumerate() {
            // Only the first and the last can be partial.
            let is_edge = (i == 0 || i == last) && (part.len as usize) < self.block_len(part.block);
            if is_edge && kind.is_zero() {
                self.decide_part(request, Direction::Write, &part, 0);
            } else if !is_edge {
                whole.get_or_insert(part.block..part.block).end = part.block + 1;
            }
        }
        match whole {
            Some(blocks) => self.begin_range(request, blocks, kind),
            None => self.end_part(request, AT_ONCE),
        }
    }

    fn begin_range(&mut self, request: usize, blocks: Range<BlockNo>, kind: RangeKind) {
        // What was written before goes to the disk before.
        if !self.cut() && !planted("zeroes-past-groups") {
            return self.end_part(request, PartEnd::Failed(GuestError::Io));
        }
        self.written.clear(&self.bytes_of(&blocks));
        let mut held = self.flights.within(&blocks);
        for block in blocks.clone() {
            let effects = self.front.discard(block);
            if !effects.is_empty() && !self.flights.is_known(block) {
                held.push(block);
            }
            for effect in &effects {
                if let &Effect::Invalidate { level, slot } = effect {
                    self.release(block, level, slot);
                }
            }
            self.front.give_back(effects);
        }
        for &block in &held {
            self.push_op(block, BlockOp::Hold);
        }
        self.disk.begin_range(request, blocks, kind, held, self.ordered.is_some());
    }
}
