//! Where guests' requests arrive: they wait until there is room for whatever the scheme may decide, are decided in order of
//! arrival as far as they have to do with the same blocks, and what was decided is counted. After that no operation waits for
//! space, so nothing can lock up. It must not know what becomes of decisions.
//!
//! What waits holds up no others than it must. A trim or zeroing waits for the one under way, and while there is too much that
//! is dirty, what may make more of it waits: both only keep back their own kind, and what has to do with their blocks. Who
//! waits for room keeps others from taking it, but for reads, which may take as much before it as it needs itself.

use lode_policy::{
    AnyScheme, Counters, Effect, LevelDemand, Points, Prefetch, PrefetchHint, Quota, Reissuing, Scheme, Slot,
    WriteBudget,
};
use lode_types::{Access, BlockNo, Level, blocks_of};
use smallvec::SmallVec;

use crate::config::EngineConfig;
use crate::flight::{AccessKind, CopyAt, Reserved};
use crate::guest::{GuestError, GuestOp, GuestRequest, MAX_PIECE_BYTES, MAX_REQUEST_BYTES};
use crate::levels::Levels;
use crate::switch::used;
use crate::waiting::{Kind, Queue, Taken, Waiting};
use crate::waits::WaitedFor;

/// Most blocks that are prefetched at a time: those of a piece, with blocks of 4 KiB.
pub(crate) const PREFETCHED: usize = 64;

/// Requests that wait, and the scheme that decides them.
#[derive(Debug)]
pub(crate) struct Front {
    scheme: AnyScheme,
    /// The levels that it uses.
    levels: &'static [Level],
    counters: Counters,
    queue: Queue,
    /// Blocks of reads that took room before what waits for it.
    passed_blocks: u32,
    /// What requests of each kind waited for when last there was none that need not wait.
    held_by: [WaitedFor; Kind::COUNT],
    effects: Vec<Effect>,
    /// At the last tick a request waited for room and nothing was under way; there will be no room.
    starving: bool,
    starved: bool,
}

/// What keeps requests waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    pub(crate) is_well: bool,
    /// A trim or zeroing is under way.
    pub(crate) has_range: bool,
    /// There is so much that is dirty that no more may become so.
    pub(crate) is_throttled: bool,
    /// Extents of the SSD are about to be initialized: a write that needs a place will have one.
    pub(crate) places_come: bool,
}

impl Admission {
    /// Whether one of this kind waits, whatever room there is.
    fn holds(&self, kind: Kind) -> bool {
        (self.has_range && kind.is_range()) || (self.is_throttled && kind.writes())
    }
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
    pub(crate) fn new(scheme: AnyScheme, levels: &'static [Level], config: &EngineConfig) -> Front {
        Front {
            scheme,
            levels,
            counters: Counters::default(),
            queue: Queue::new(config.block),
            passed_blocks: 0,
            held_by: [WaitedFor::Start; Kind::COUNT],
            effects: Vec::new(),
            starving: false,
            starved: false,
        }
    }

    /// Takes the place of another one: what waits there waits here, and what was counted there is counted on.
    pub(crate) fn take_guests_of(&mut self, before: &mut Front) {
        std::mem::swap(&mut self.counters, &mut before.counters);
        std::mem::swap(&mut self.queue, &mut before.queue);
        (self.passed_blocks, self.held_by) = (before.passed_blocks, before.held_by);
        (self.starving, self.starved) = (before.starving, before.starved);
    }

    /// The share that the scheme has.
    pub(crate) fn quota(&self) -> Quota {
        self.scheme.quota()
    }

    /// What the scheme says of itself.
    pub(crate) fn scheme(&self) -> &AnyScheme {
        &self.scheme
    }

    /// The scheme, where it issues writes again.
    pub(crate) fn reissuing(&mut self) -> Option<&mut dyn Reissuing> {
        self.scheme.reissuing()
    }

    /// Whether the hooks of such a scheme want the block's dirty copy held.
    pub(crate) fn holds_write_back(&mut self, block: BlockNo) -> bool {
        self.scheme.reissuing().is_some_and(|cache| cache.hooks().holds_destage(block))
    }

    /// What the scheme could use of its levels, where it measures that.
    pub(crate) fn demand(&mut self, points: Points) -> Option<[LevelDemand; 2]> {
        self.scheme.sizing().map(|sizing| sizing.demand(points))
    }

    /// The scheme holds to this budget of writes to the SSD, where it holds to any.
    pub(crate) fn set_host_budget(&mut self, budget: WriteBudget) {
        if let Some(budgeting) = self.scheme.budgeting() {
            budgeting.set_host_budget(budget);
        }
    }

    /// Blocks that it found worth a write without a budget, where it holds to one.
    pub(crate) fn wanted_blocks(&mut self) -> Option<u64> {
        self.scheme.budgeting().map(|budgeting| budgeting.wanted_blocks())
    }

    /// The slots of a block that a scheme with mirrors knows.
    pub(crate) fn mirrored_slots(&self, block: BlockNo) -> [Option<Slot>; Level::COUNT] {
        self.scheme.mirroring().map_or([None; Level::COUNT], |scheme| scheme.slots(block))
    }

    /// See [`Scheme::expect`].
    pub(crate) fn expect(&mut self, blocks: usize) {
        self.scheme.expect(u32::try_from(blocks).unwrap_or(u32::MAX));
    }

    /// A block is on the SSD that the scheme has not heard of. The slot that it is to have; none: it has no room.
    pub(crate) fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        self.scheme.restore(block, dirty)
    }

    /// The block's dirty copy is clean.
    pub(crate) fn cleaned(&mut self, block: BlockNo) {
        self.scheme.cleaned(block);
    }

    /// The block has no copy in this level.
    pub(crate) fn forget(&mut self, level: Level, block: BlockNo) {
        self.scheme.forget(level, block);
    }

    /// A write on its way to the backing disk is to be cached as well, where the scheme issues writes again.
    pub(crate) fn take_in(&mut self, block: BlockNo) -> Vec<Effect> {
        self.ask(|scheme, effects| {
            if let Some(cache) = scheme.reissuing() {
                cache.take_in(block, effects);
            }
        })
    }

    /// A share, as far as it is of levels that the scheme uses.
    pub(crate) fn used(&self, share: Quota) -> Quota {
        used(self.levels, share)
    }

    /// The same, of levels that it uses or another one will (`to_come`). What there is of the read SSD was divided at the start,
    /// and stays.
    pub(crate) fn share_to_have(&self, share: Quota, to_come: &[Level]) -> Quota {
        share.map(|level, blocks| match level {
            Level::ReadSsd => blocks,
            _ => self.used(share).of(level).max(used(to_come, share).of(level)),
        })
    }

    /// Takes a request to wait for its turn, unless it does not fit the volume or the limits.
    pub(crate) fn push(
        &mut self,
        request: GuestRequest,
        now_ns: u64,
        volume_bytes: u64,
    ) -> Result<(), GuestError> {
        if !is_valid(&request.op, volume_bytes) {
            return Err(GuestError::Invalid);
        }
        self.queue.push(request, now_ns);
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// What was served past the scheme counts as what it decides.
    pub(crate) fn count(&mut self, counts: &Counters) {
        self.counters.add(counts);
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The next request that is refused, or what is left of one, and why.
    pub(crate) fn next_refused(&mut self, is_well: bool) -> Option<(Taken, GuestError)> {
        if is_well {
            return None;
        }
        // Without durability there is nothing to promise a writer.
        let kind = self.queue.heads().map(|head| head.0).find(|&kind| kind != Kind::Read)?;
        Some((self.queue.take(kind)?, GuestError::Io))
    }

    /// The next request that need not wait. [`Front::decided`] is to be told what is left of it.
    pub(crate) fn next_admitted(
        &mut self,
        levels: &Levels,
        config: &EngineConfig,
        now: &Admission,
    ) -> Option<Taken> {
        let Some((kind, passed_blocks)) = self.next_due(levels, config, now) else {
            self.note_held(now);
            return None;
        };
        self.passed_blocks = passed_blocks;
        self.queue.take(kind)
    }

    /// The next read that may be served past the scheme. [`Front::decided`] is to be told when it has ended.
    pub(crate) fn next_early_read(&mut self) -> Option<Taken> {
        self.queue.take_early_read()
    }

    /// All that are ready wait.
    fn note_held(&mut self, now: &Admission) {
        for (kind, _) in self.queue.heads() {
            self.held_by[kind as usize] = match kind {
                _ if now.has_range && kind.is_range() => WaitedFor::Order,
                _ if now.is_throttled && kind.writes() => WaitedFor::DirtyLimit,
                _ => WaitedFor::Room,
            };
        }
    }

    /// What one that is decided now has waited for since nothing that came before it was in its way, if it waited.
    pub(crate) fn held_by(&self, taken: &Taken) -> WaitedFor {
        self.held_by[Kind::of(&taken.request().op) as usize]
    }

    /// Of what kind the next request is that need not wait, and what reads will then have taken before what waits for room.
    fn next_due(&self, levels: &Levels, config: &EngineConfig, now: &Admission) -> Option<(Kind, u32)> {
        // What the first one needs that waits for room.
        let mut waited_for = None;
        for (kind, next) in self.queue.heads().filter(|head| !now.holds(head.0)) {
            let needed = next.blocks_needed(config.block);
            let passed_blocks = match waited_for {
                _ if needed == 0 => self.passed_blocks,
                None => 0,
                Some(_) => self.passed_blocks + needed,
            };
            // Reads that need no room do not wait behind what does.
            let may_pass = |most| kind == Kind::Read && (self.starved || passed_blocks <= most);
            let has_turn = needed == 0 || waited_for.is_none_or(may_pass);
            if has_turn && (self.needs_no_room(kind, now) || self.has_space_for(needed, levels)) {
                return Some((kind, passed_blocks));
            }
            waited_for.get_or_insert(needed);
        }
        None
    }

    /// A piece of a request was decided, or what was left of it refused: its rest, which may be empty, has its turn after all
    /// that wait by now.
    pub(crate) fn decided(&mut self, taken: Taken, now_ns: u64) {
        self.queue.decided(taken, now_ns);
    }

    /// Whether a request waits for room, or for what is dirty to become less.
    pub(crate) fn is_blocked(&self, levels: &Levels, config: &EngineConfig, now: &Admission) -> bool {
        let waits = |(kind, next): (Kind, &Waiting)| {
            let needed = next.blocks_needed(config.block);
            (now.is_throttled && kind.writes())
                || (!self.needs_no_room(kind, now) && !self.has_space_for(needed, levels))
        };
        self.queue.heads().any(waits)
    }

    /// Without durability nothing becomes dirty, and what there is no room for is not cached. A write that needs a place fails then,
    /// unless there will be one.
    fn needs_no_room(&self, kind: Kind, now: &Admission) -> bool {
        !now.is_well || (self.starved && (kind == Kind::Read || !now.places_come))
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
    fn ask(&mut self, question: impl FnOnce(&mut AnyScheme, &mut Vec<Effect>)) -> Vec<Effect> {
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
