//! Trims and write-zeroes: one at a time, holding every block of the range that is cached or in flight.
//!
//! Clean copies are durably given up before the backing disk is touched and dirty ones after it durably
//! has the zeroes, so that a power cut finds either the old content or the new one.

use std::ops::Range;

use lode_policy::{Effect, Scheme};
use lode_types::{BlockNo, BlockPart, Direction, blocks_of};

use crate::blocks::{Op, SsdCopy, Stage};
use crate::command::{CommandKind, DeviceId, MediaError};
use crate::engine::Engine;
use crate::guest::{GuestError, Served};
use crate::io::Owner;

#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Operations that came before are still under way on some of the blocks.
    Gather,
    /// The loss of the clean copies is to become durable.
    Forget(u64),
    /// The backing disk is at it.
    Device,
    /// The backing disk's part is to become durable.
    Flush(u64),
    /// The loss of the dirty copies is to become durable.
    Free(u64),
}

/// The range operation under way.
#[derive(Debug)]
pub(crate) struct RangeOp {
    request: usize,
    blocks: Range<BlockNo>,
    zero: bool,
    held: Vec<BlockNo>,
    holds_left: usize,
    step: Step,
}

impl Engine {
    pub(crate) fn range_holds(&self, block: BlockNo) -> bool {
        self.range.as_ref().is_some_and(|range| range.blocks.contains(&block))
    }

    /// The backing mark that the range operation waits for; 0 if it does not.
    pub(crate) fn range_mark(&self) -> u64 {
        match self.range {
            Some(RangeOp { step: Step::Flush(mark), .. }) => mark,
            _ => 0,
        }
    }

    /// Decides a trim or zeroing. Zeroes that end within a block are written like a guest's write; a trim
    /// leaves such blocks alone.
    pub(crate) fn decide_range(&mut self, request: usize, offset: u64, length: u64, zero: bool) {
        let mut whole: Option<Range<BlockNo>> = None;
        let parts = blocks_of(self.config.block, offset, length);
        let last = parts.len() - 1;
        for (i, part) in parts.enumerate() {
            // Only the first and the last can be partial.
            let is_edge = (i == 0 || i == last) && (part.len as usize) < self.block_len(part.block);
            if is_edge && zero {
                self.zero_edge(request, &part);
            } else if !is_edge {
                whole.get_or_insert(part.block..part.block).end = part.block + 1;
            }
        }
        match whole {
            Some(blocks) => self.start_range(request, blocks, zero),
            None => self.request_part_done(request, Served::Dram),
        }
    }

    fn zero_edge(&mut self, request: usize, part: &BlockPart) {
        self.decide_part(request, Direction::Write, part, 0);
    }

    fn start_range(&mut self, request: usize, blocks: Range<BlockNo>, zero: bool) {
        let mut held = self.blocks.within(&blocks);
        let mut effects = Vec::new();
        for block in blocks.clone() {
            let before = effects.len();
            self.scheme.discard(block, &mut effects);
            if effects.len() > before && !self.blocks.is_known(block) {
                held.push(block);
            }
            for effect in effects.drain(..) {
                self.counters.effect(&effect);
                if let Effect::Invalidate { level, slot } = effect {
                    self.release(block, level, slot);
                }
            }
        }
        for &block in &held {
            self.push_op(block, Op::Hold);
        }
        let holds_left = held.len();
        self.range = Some(RangeOp { request, blocks, zero, held, holds_left, step: Step::Gather });
    }

    /// The range operation's turn on a block has come: its clean copies go. A dirty one stays with its spares until the
    /// backing disk durably has the zeroes, and for good if it never does.
    pub(crate) fn hold(&mut self, block: BlockNo) {
        if self.dirty_copy(block).is_none() {
            self.drop_frame(block);
            self.drop_mirror(block);
        }
        let flight = self.blocks.get_mut(block).expect("the block is in flight");
        flight.stage = Stage::Held;
        self.range.as_mut().expect("a range operation holds").holds_left -= 1;
        if let (Some(place), Some(ssd)) = (flight.copy.whole(), &mut self.ssd)
            && !ssd.store.places().is_dirty(place)
        {
            flight.copy = SsdCopy::None;
            ssd.store.places_mut().give_up_clean(place);
        }
    }

    /// Takes the range operation on where it can go on by itself.
    pub(crate) fn drive_range(&mut self) {
        let Some(range) = &mut self.range else { return };
        if range.step != Step::Gather || range.holds_left > 0 {
            return;
        }
        let version = self.ssd.as_ref().map_or(0, |ssd| ssd.store.places().version());
        let durable = self.ssd.as_ref().is_none_or(|ssd| ssd.store.durable_version() >= version);
        range.step = Step::Forget(version);
        if durable {
            self.range_to_device();
        } else if !self.health.is_well() {
            self.range_failed();
        }
    }

    /// The version that the range operation waits for; 0 if it does not.
    pub(crate) fn range_version(&self) -> u64 {
        match self.range {
            Some(RangeOp { step: Step::Forget(version) | Step::Free(version), .. }) => version,
            _ => 0,
        }
    }

    fn range_to_device(&mut self) {
        let Some(range) = &mut self.range else { return };
        range.step = Step::Device;
        let size = self.config.block;
        let offset_bytes = size.start_of(range.blocks.start);
        let end = size.start_of(range.blocks.end).min(self.config.volume_bytes);
        let length_bytes = end - offset_bytes;
        let kind = match range.zero {
            true => CommandKind::WriteZeroes { offset_bytes, length_bytes },
            false => CommandKind::Trim { offset_bytes, length_bytes },
        };
        self.io.command(DeviceId::Backing, kind, Owner::Range);
    }

    pub(crate) fn range_io_done(&mut self, result: Result<(), MediaError>) {
        let Some(range) = &mut self.range else { return };
        self.backing.wrote_range(range.blocks.clone());
        let holds_dirty = range
            .held
            .iter()
            .any(|&block| self.blocks.get(block).is_some_and(|flight| flight.copy.place().is_some()));
        range.step = Step::Flush(self.backing.mark());
        if result.is_err() || (holds_dirty && !self.health.is_well()) {
            self.range_failed();
        } else if !holds_dirty {
            self.range_done();
        }
    }

    /// The backing disk was flushed.
    pub(crate) fn range_flushed(&mut self) {
        let Some(range) = &mut self.range else { return };
        let Step::Flush(mark) = range.step else { return };
        if !self.backing.is_flushed(mark) {
            return;
        }
        let Some(ssd) = &mut self.ssd else { return };
        let held = range.held.clone();
        for &block in &held {
            let flight = self.blocks.get_mut(block).expect("a held block is in flight");
            if let Some(place) = std::mem::take(&mut flight.copy).place() {
                ssd.store.places_mut().give_up_dirty(place);
            }
        }
        range.step = Step::Free(ssd.store.places().version());
        for block in held {
            self.drop_frame(block);
            self.drop_mirror(block);
        }
    }

    /// The journal is durable up to `version`.
    pub(crate) fn range_durable(&mut self, version: u64) {
        match self.range.as_ref().map(|range| &range.step) {
            Some(Step::Forget(at)) if *at <= version => self.range_to_device(),
            Some(Step::Free(at)) if *at <= version => self.range_done(),
            _ => {}
        }
    }

    /// Nothing will become durable any more: a range operation that waits for it ends.
    pub(crate) fn range_failed(&mut self) {
        let waits = |range: &&RangeOp| matches!(range.step, Step::Forget(_) | Step::Flush(_) | Step::Free(_));
        if let Some(range) = self.range.as_ref().filter(waits) {
            self.fail_request(range.request, GuestError::Io);
            self.range_done();
        }
    }

    fn range_done(&mut self) {
        let Some(range) = self.range.take() else { return };
        for block in range.held {
            self.op_done(block);
        }
        // Blocks that came into flight while the range was held.
        for block in self.blocks.within(&range.blocks) {
            if self.blocks.get(block).is_some_and(|flight| matches!(flight.stage, Stage::Held)) {
                self.op_done(block);
            }
        }
        self.request_part_done(range.request, Served::Backing);
    }
}
