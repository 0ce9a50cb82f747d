//! Where guests' requests arrive: they wait until there is room for whatever the scheme may decide, are decided in order of
//! arrival, and what was decided is counted. After that no operation waits for space, so nothing can lock up. It must not
//! know what becomes of decisions.

use std::collections::VecDeque;
use std::ops::Range;

use lode_policy::{AnyScheme, Counters, Effect, Prefetch, PrefetchHint, Quota, Scheme};
use lode_types::{Access, BlockNo, Level, blocks_of};
use smallvec::SmallVec;

use crate::config::EngineConfig;
use crate::flight::{AccessKind, CopyAt, Reserved};
use crate::guest::{GuestError, GuestOp, GuestRequest, MAX_PIECE_BYTES, MAX_RANGE_BYTES, MAX_REQUEST_BYTES};
use crate::levels::Levels;
use crate::switch::used;

/// Most blocks that are prefetched at a time: those of a piece, with blocks of 4 KiB.
pub(crate) const PREFETCHED: usize = 64;

/// A request that waits for admission, or what is left of it: long ones are decided piece by piece.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) request: GuestRequest,
    /// Bytes of the volume that are still to be decided.
    pub(crate) rest: Range<u64>,
    /// The request under way, once its first piece is decided.
    pub(crate) key: Option<usize>,
}

impl Waiting {
    fn new(request: GuestRequest) -> Waiting {
        let (offset, length) = request.op.range();
        Waiting { request, rest: offset..offset.saturating_add(length), key: None }
    }

    /// What is decided next of it: no block is in two pieces.
    pub(crate) fn next_piece(&self, config: &EngineConfig) -> Range<u64> {
        let most = if self.request.op.is_range() { MAX_RANGE_BYTES } else { MAX_PIECE_BYTES };
        let (size, at) = (config.block, self.rest.start);
        at..self.rest.end.min(size.start_of(size.block_of(at.saturating_add(most))))
    }

    /// The blocks that the next piece may need frames and places for.
    fn blocks_needed(&self, config: &EngineConfig) -> u32 {
        match self.request.op {
            GuestOp::Flush | GuestOp::Trim { .. } => 0,
            // At most the two blocks at its ends are written.
            GuestOp::WriteZeroes { .. } => 2,
            GuestOp::Read { .. } | GuestOp::Write { .. } => {
                let piece = self.next_piece(config);
                blocks_of(config.block, piece.start, piece.end - piece.start).len() as u32
            }
        }
    }
}

/// Requests that wait, and the scheme that decides them.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) scheme: AnyScheme,
    /// The levels that it uses.
    levels: &'static [Level],
    counters: Counters,
    waiting: VecDeque<Waiting>,
    effects: Vec<Effect>,
    /// At the last tick a request waited for room and nothing was under way; there will be no room.
    starving: bool,
    starved: bool,
}

/// What an access amounts to, beside what happens to other blocks and to slots.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Decided {
    read: Option<CopyAt>,
    merge: Option<CopyAt>,
    to_ssd: bool,
    to_backing: bool,
    wants: Reserved,
}

impl Decided {
    /// Takes note of one effect on the accessed block.
    pub(crate) fn note(&mut self, effect: &Effect) {
        match *effect {
            Effect::ReadLevel { level, .. } => self.read = Some(level.into()),
            Effect::ReadBacking => self.read = Some(CopyAt::Backing),
            Effect::MergeLevel { level, .. } => self.merge = Some(level.into()),
            Effect::MergeBacking => self.merge = Some(CopyAt::Backing),
            Effect::Fill { level, .. } => self.want(level),
            Effect::WriteLevel { level, .. } => {
                self.want(level);
                self.to_ssd |= level == Level::Ssd;
            }
            Effect::WriteBacking => self.to_backing = true,
            _ => {}
        }
    }

    fn want(&mut self, level: Level) {
        match level {
            Level::Dram => self.wants.frame = true,
            Level::Ssd => self.wants.place = true,
            Level::ReadSsd => unreachable!("the read SSD takes copies, and no fills or writes"),
        }
    }

    /// What is to be set aside for it.
    pub(crate) fn wants(&self) -> Reserved {
        self.wants
    }

    pub(crate) fn kind(&self, is_write: bool) -> AccessKind {
        let merge = self.merge.unwrap_or(CopyAt::Backing);
        match (is_write, self.to_ssd, self.to_backing) {
            (false, false, false) => AccessKind::Read { from: self.read.unwrap_or(CopyAt::Backing) },
            (true, true, false) => AccessKind::WriteBack { merge },
            (true, true, true) => AccessKind::WriteThrough { merge },
            (true, false, true) => AccessKind::WriteAround,
            (true, false, false) => unreachable!("a write goes somewhere"),
            (false, ..) => unreachable!("a read writes nothing"),
        }
    }
}

/// Whether a request fits the volume and the limits.
fn is_valid(op: &GuestOp, volume_bytes: u64) -> bool {
    if matches!(op, GuestOp::Flush) {
        return true;
    }
    let (offset, length) = op.range();
    let limit = if op.is_range() { u64::MAX } else { MAX_REQUEST_BYTES };
    let fits = offset.checked_add(length).is_some_and(|end| end <= volume_bytes);
    fits && length > 0 && length <= limit
}

impl Front {
    pub(crate) fn new(scheme: AnyScheme, levels: &'static [Level]) -> Front {
        Front {
            scheme,
            levels,
            counters: Counters::default(),
            waiting: VecDeque::new(),
            effects: Vec::new(),
            starving: false,
            starved: false,
        }
    }

    /// Takes the place of another one: what waits there waits here, and what was counted there is counted on.
    pub(crate) fn take_guests_of(&mut self, before: &mut Front) {
        std::mem::swap(&mut self.counters, &mut before.counters);
        std::mem::swap(&mut self.waiting, &mut before.waiting);
        (self.starving, self.starved) = (before.starving, before.starved);
    }

    /// A share, as far as it is of levels that the scheme uses.
    pub(crate) fn used(&self, share: Quota) -> Quota {
        used(self.levels, share)
    }

    pub(crate) fn push(&mut self, request: GuestRequest) {
        self.waiting.push_back(Waiting::new(request));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The request whose turn it is, if it, or what is left of it, is refused, and why.
    pub(crate) fn next_refused(&mut self, volume_bytes: u64, is_well: bool) -> Option<(Waiting, GuestError)> {
        let next = self.waiting.front()?;
        let error = if next.key.is_none() && !is_valid(&next.request.op, volume_bytes) {
            GuestError::Invalid
        } else if !is_well && !matches!(next.request.op, GuestOp::Read { .. }) {
            // Without durability there is nothing to promise a writer.
            GuestError::Io
        } else {
            return None;
        };
        Some((self.waiting.pop_front()?, error))
    }

    /// The request whose turn it is, if it need not wait.
    pub(crate) fn next_admitted(&mut self, is_blocked: bool) -> Option<Waiting> {
        if is_blocked { None } else { self.waiting.pop_front() }
    }

    /// Whether the request whose turn it is may make blocks dirty.
    pub(crate) fn writes_next(&self) -> bool {
        let next = self.waiting.front();
        next.is_some_and(|next| {
            matches!(next.request.op, GuestOp::Write { .. } | GuestOp::WriteZeroes { .. })
        })
    }

    /// A piece of a request was decided, and the rest has its turn next.
    pub(crate) fn push_rest(&mut self, rest: Waiting) {
        self.waiting.push_front(rest);
    }

    /// Whether the request whose turn it is waits for room, or for a range operation to end. When there will be no room, it
    /// waits no longer and does without: what is read is not cached, and a write that needs a place fails.
    pub(crate) fn is_blocked(
        &self,
        levels: &Levels,
        config: &EngineConfig,
        is_well: bool,
        has_range: bool,
    ) -> bool {
        let Some(next) = self.waiting.front() else { return false };
        if next.request.op.is_range() && has_range {
            return true;
        }
        is_well && !self.starved && !self.has_space_for(next.blocks_needed(config), levels)
    }

    fn has_space_for(&self, blocks: u32, levels: &Levels) -> bool {
        blocks == 0 || levels.have_space_for(blocks, self.scheme.quota())
    }

    /// Nothing is free, and nothing can be freed.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Looks once a tick whether anything can still make room, which `is_idle` says nothing does. Two ticks without, and it
    /// is given up until there is room again.
    pub(crate) fn note_starvation(
        &mut self,
        is_idle: bool,
        is_blocked: bool,
        levels: &Levels,
        config: &EngineConfig,
    ) {
        let starving = is_idle && is_blocked;
        self.starved |= starving && self.starving;
        self.starving = starving;
        let largest = blocks_of(config.block, 0, MAX_PIECE_BYTES).len() as u32;
        self.starved &= !self.has_space_for(largest, levels);
    }

    /// Fetches what the scheme knows of blocks that it will soon be asked about: their table entries lie far apart, and
    /// waiting for many at a time takes no longer than for one.
    pub(crate) fn prefetch(&self, blocks: impl Iterator<Item = BlockNo>) {
        let mut hints: SmallVec<[_; PREFETCHED]> =
            blocks.take(PREFETCHED).map(|block| (block, PrefetchHint::new(block))).collect();
        self.scheme.prefetch_index(hints.iter().copied());
        self.scheme.prefetch_entries(hints.iter_mut().map(|(block, hint)| (*block, hint)));
        self.scheme.prefetch_neighbours(hints.iter().copied());
    }

    /// Asks the scheme about one access, and counts what it says.
    pub(crate) fn decide(&mut self, access: Access) -> Vec<Effect> {
        self.counters.access(&access);
        self.ask(|scheme, effects| scheme.access(access, effects))
    }

    /// A request is over.
    pub(crate) fn end_request(&mut self, now_ns: u64) -> Vec<Effect> {
        self.counters.requests += 1;
        self.ask(|scheme, effects| scheme.end_request(now_ns, effects))
    }

    pub(crate) fn resize(&mut self, quota: Quota) -> Vec<Effect> {
        self.ask(|scheme, effects| scheme.resize(quota, effects))
    }

    pub(crate) fn discard(&mut self, block: BlockNo) -> Vec<Effect> {
        self.ask(|scheme, effects| scheme.discard(block, effects))
    }

    /// What the scheme says to a question, counted. The list is to be handed back with [`Front::give_back`].
    pub(crate) fn ask(&mut self, question: impl FnOnce(&mut AnyScheme, &mut Vec<Effect>)) -> Vec<Effect> {
        let mut effects = std::mem::take(&mut self.effects);
        effects.clear();
        question(&mut self.scheme, &mut effects);
        effects.iter().for_each(|effect| self.counters.effect(effect));
        effects
    }

    /// Takes a list of effects back, to be used again.
    pub(crate) fn give_back(&mut self, effects: Vec<Effect>) {
        self.effects = effects;
    }
}
