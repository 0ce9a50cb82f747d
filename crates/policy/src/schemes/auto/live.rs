//! The cache that serves, while schemes follow each other. A scheme that begins takes over what the one before it holds: a few
//! blocks of the SSD after each request, the least worth first, as it would at a restart; and what is accessed or has to make
//! room in between, at once. Of DRAM it takes over what is accessed; the rest leaves as it needs the room.
//!
//! It must not know why another scheme begins.

use lode_types::{Access, BlockNo, Direction, Level};

use super::candidates::Cache;
use super::slot_map::SlotMap;
use crate::effect::{CopyReason, CopySource, Effect, Sink, Slot};
use crate::prefetch::{AccessSink, Lookahead, PrefetchHint, PrefetchedAccess};
use crate::quota::Quota;
use crate::scheme::Scheme;

/// Blocks of the SSD that are taken over after each request, and blocks of DRAM that leave when there are none.
const SSD_STEP: u32 = 64;
const DRAM_STEP: u32 = 1;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Live {
    cache: Cache,
    /// Since another scheme began.
    shared: Option<Box<Shared>>,
}

/// What two schemes have in common.
#[derive(Debug, Default)]
struct Shared {
    slots: [SlotMap; 2],
    /// The scheme before, as long as it has blocks.
    before: Option<Cache>,
    quota: Quota,
}

impl Live {
    pub(super) fn new(cache: Cache) -> Live {
        Live { cache, shared: None }
    }

    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(super) fn cache_mut(&mut self) -> &mut Cache {
        &mut self.cache
    }

    /// Whether blocks are still with the scheme before.
    pub(super) fn is_taking_over(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.before.is_some())
    }

    /// Another scheme decides from now on; no block is still with the one before.
    pub(super) fn begin(&mut self, cache: Cache) {
        let before = std::mem::replace(&mut self.cache, cache);
        let shared = self.shared.get_or_insert_default();
        shared.quota = self.cache.quota();
        for level in Level::SIZED {
            let mut in_use = Vec::with_capacity(before.resident_blocks(level) as usize);
            before.each_slot(level, &mut |slot| in_use.push(slot));
            shared.slots[level.index()].begin(in_use.into_iter());
        }
        shared.before = Some(before);
    }

    pub(super) fn access<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        let Live { cache, shared } = self;
        match shared {
            None => cache.access_prefetched(access, hint, sink),
            Some(shared) => shared.access(cache, access, hint, sink),
        }
    }

    /// As [`Lookahead::access_batch`]; nothing is being taken over.
    pub(super) fn access_batch<W: AccessSink>(&mut self, accesses: &[PrefetchedAccess], sink: &mut W) {
        match &mut self.shared {
            None => self.cache.access_batch(accesses.iter(), sink),
            Some(shared) => self.cache.access_batch(accesses.iter(), &mut Renumbered::new(shared, sink)),
        }
    }

    pub(super) fn end_request<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        match &mut self.shared {
            None => self.cache.end_request(now_ns, sink),
            Some(shared) => {
                self.cache.end_request(now_ns, &mut Renumbered::new(shared, sink));
                shared.take_some_over(&mut self.cache, SSD_STEP, DRAM_STEP, sink);
            }
        }
    }

    pub(super) fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        let Some(shared) = &mut self.shared else { return self.cache.discard(block, sink) };
        for level in Level::SIZED {
            if let Some((real, _)) = shared.take(level, block) {
                shared.slots[level.index()].free(real);
                sink.effect(Effect::Invalidate { level, slot: real });
            }
        }
        self.cache.discard(block, &mut Renumbered::new(shared, sink));
    }

    pub(super) fn forget(&mut self, level: Level, block: BlockNo) {
        if let Some(shared) = &mut self.shared
            && level != Level::ReadSsd
        {
            let (real, _) = shared.take(level, block).unzip();
            let slots = &mut shared.slots[level.index()];
            let own = self.cache.copy(level, block).map(|(slot, _)| slots.of(slot));
            real.or(own).into_iter().for_each(|real| slots.free(real));
        }
        self.cache.forget(level, block);
    }

    pub(super) fn cleaned(&mut self, block: BlockNo) {
        if let Some(before) = self.shared.as_mut().and_then(|shared| shared.before.as_mut()) {
            before.cleaned(block);
        }
        self.cache.cleaned(block);
    }

    pub(super) fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        let Some(shared) = &mut self.shared else { return self.cache.restore(block, dirty) };
        let is_there = shared.before.as_ref().is_some_and(|before| before.copy(Level::Ssd, block).is_some());
        if is_there || shared.slots[Level::Ssd.index()].used() >= shared.quota.ssd_blocks {
            return None;
        }
        let slot = self.cache.restore(block, dirty)?;
        Some(shared.slots[Level::Ssd.index()].take(slot))
    }

    pub(super) fn expect(&mut self, blocks: u32) {
        self.cache.expect(blocks);
    }

    pub(super) fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        let Some(shared) = &mut self.shared else { return self.cache.resize(quota, sink) };
        while shared.before.is_some() {
            shared.take_some_over(&mut self.cache, u32::MAX, u32::MAX, sink);
        }
        shared.quota = quota;
        self.cache.resize(quota, &mut Renumbered::new(shared, sink));
    }

    pub(super) fn resident_blocks(&self, level: Level) -> u32 {
        let before = self.shared.as_ref().and_then(|shared| shared.before.as_ref());
        self.cache.resident_blocks(level) + before.map_or(0, |before| before.resident_blocks(level))
    }

    /// Blocks that were worth a write since the scheme that decides began.
    pub(super) fn wanted_blocks(&mut self) -> u64 {
        self.cache.budgeting().map_or(0, |budgeting| budgeting.wanted_blocks())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let shared = self.shared.as_ref().map_or(0, |shared| {
            let slots = shared.slots.iter().map(SlotMap::memory_bytes).sum::<usize>();
            slots + shared.before.as_ref().map_or(0, Cache::memory_bytes) + size_of::<Shared>()
        });
        self.cache.memory_bytes() + shared
    }
}

impl Shared {
    /// Takes a block from the scheme before, and says where it really is and whether it is newer than the disk.
    fn take(&mut self, level: Level, block: BlockNo) -> Option<(Slot, bool)> {
        let before = self.before.as_mut()?;
        let (slot, dirty) = before.copy(level, block)?;
        before.forget(level, block);
        Some((self.slots[level.index()].of_before(slot), dirty))
    }

    fn access<S: Sink>(&mut self, cache: &mut Cache, access: Access, hint: PrefetchHint, sink: &mut S) {
        if let Some((real, dirty)) = self.take(Level::Ssd, access.block) {
            self.settle(cache, access.block, real, dirty, sink);
        }
        let in_dram = self.take(Level::Dram, access.block).map(|(real, _)| real);
        let mut renumbered = Renumbered { in_dram, block: access.block, ..Renumbered::new(self, sink) };
        cache.access_prefetched(access, hint, &mut renumbered);
        if let Some(slot) = renumbered.in_dram {
            let is_stale = access.op == Direction::Write;
            self.slots[Level::Dram.index()].free(slot);
            sink.effect(match is_stale {
                true => Effect::Invalidate { level: Level::Dram, slot },
                false => Effect::Evict { level: Level::Dram, slot, block: access.block, dirty: false },
            });
        }
    }

    /// The scheme that decides takes over a block of the SSD, or the block leaves.
    fn settle<S: Sink>(&mut self, cache: &mut Cache, block: BlockNo, real: Slot, dirty: bool, sink: &mut S) {
        let slots = &mut self.slots[Level::Ssd.index()];
        match cache.restore(block, dirty) {
            Some(slot) => slots.keep(slot, real),
            None => {
                slots.free(real);
                sink.effect(Effect::Evict { level: Level::Ssd, slot: real, block, dirty });
            }
        }
    }

    /// Takes over so many blocks of the SSD; when it has none, so many of DRAM leave.
    fn take_some_over<S: Sink>(&mut self, cache: &mut Cache, ssd: u32, dram: u32, sink: &mut S) {
        let Some(before) = &mut self.before else { return };
        let held = before_quota(before);
        let left = match held.ssd_blocks {
            0 => held.with(Level::Dram, held.dram_blocks.saturating_sub(dram)),
            blocks => held.with(Level::Ssd, blocks.saturating_sub(ssd)),
        };
        let mut leaving: Vec<Effect> = Vec::new();
        before.resize(left, &mut leaving);
        for effect in leaving {
            let Effect::Evict { level, slot, block, dirty } = effect else { continue };
            let real = self.slots[level.index()].of_before(slot);
            if level == Level::Ssd {
                self.settle(cache, block, real, dirty, sink);
            } else {
                self.slots[level.index()].free(real);
                sink.effect(Effect::Evict { level, slot: real, block, dirty });
            }
        }
        if left == Quota::default() {
            self.before = None;
            self.slots.iter_mut().for_each(SlotMap::end);
        }
    }

    /// Has the scheme before give up a block of a level that is full.
    fn make_room<S: Sink>(&mut self, level: Level, sink: &mut S) {
        if self.slots[level.index()].used() < self.quota.of(level) {
            return;
        }
        let Some(before) = &mut self.before else { return };
        let held = before_quota(before);
        let mut leaving: Vec<Effect> = Vec::new();
        before.resize(held.with(level, held.of(level).saturating_sub(1)), &mut leaving);
        for effect in leaving {
            if let Effect::Evict { level, slot, block, dirty } = effect {
                let slot = self.slots[level.index()].of_before(slot);
                self.slots[level.index()].free(slot);
                sink.effect(Effect::Evict { level, slot, block, dirty });
            }
        }
    }
}

/// What a scheme holds.
fn before_quota(cache: &Cache) -> Quota {
    Quota::new(cache.resident_blocks(Level::Dram), cache.resident_blocks(Level::Ssd))
}

/// Effects of the scheme that decides, with the slots that its blocks really have.
struct Renumbered<'a, S> {
    shared: &'a mut Shared,
    sink: &'a mut S,
    /// The accessed block, and its copy in DRAM that was the other scheme's, which the one that decides does not know of.
    block: BlockNo,
    in_dram: Option<Slot>,
}

impl<'a, S: Sink> Renumbered<'a, S> {
    fn new(shared: &'a mut Shared, sink: &'a mut S) -> Renumbered<'a, S> {
        Renumbered { shared, sink, block: 0, in_dram: None }
    }

    #[inline]
    fn of(&self, level: Level, slot: Slot) -> Slot {
        self.shared.slots[level.index()].of(slot)
    }

    fn put(&mut self, level: Level, slot: Slot) -> Slot {
        self.shared.make_room(level, self.sink);
        self.shared.slots[level.index()].take(slot)
    }

    fn free(&mut self, level: Level, slot: Slot) -> Slot {
        let slots = &mut self.shared.slots[level.index()];
        let real = slots.of(slot);
        slots.free(real);
        real
    }

    /// The block is written elsewhere: its copy in DRAM is stale.
    fn invalidate_in_dram(&mut self) {
        if let Some(slot) = self.in_dram.take() {
            self.shared.slots[Level::Dram.index()].free(slot);
            self.sink.effect(Effect::Invalidate { level: Level::Dram, slot });
        }
    }

    fn fill(&mut self, level: Level, slot: Slot) {
        match (level, self.in_dram) {
            // It stays where it is.
            (Level::Dram, Some(real)) => {
                self.in_dram = None;
                self.shared.slots[level.index()].keep(slot, real);
            }
            (_, Some(from)) => {
                let from = CopySource::Level { level: Level::Dram, slot: from };
                let (block, reason) = (self.block, CopyReason::Move);
                let slot = self.put(level, slot);
                self.sink.effect(Effect::Copy { to: level, slot, block, from, reason });
            }
            (_, None) => {
                let slot = self.put(level, slot);
                self.sink.effect(Effect::Fill { level, slot });
            }
        }
    }
}

impl<S: Sink> Sink for Renumbered<'_, S> {
    fn effect(&mut self, effect: Effect) {
        let effect = match effect {
            Effect::ReadLevel { level, slot } => Effect::ReadLevel { level, slot: self.of(level, slot) },
            Effect::ReadBacking => match self.in_dram {
                Some(slot) => Effect::ReadLevel { level: Level::Dram, slot },
                None => Effect::ReadBacking,
            },
            Effect::Fill { level, slot } => return self.fill(level, slot),
            Effect::WriteLevel { level, slot, hit, dirty } => {
                self.invalidate_in_dram();
                let slot = if hit { self.of(level, slot) } else { self.put(level, slot) };
                Effect::WriteLevel { level, slot, hit, dirty }
            }
            Effect::WriteBacking => {
                self.invalidate_in_dram();
                Effect::WriteBacking
            }
            Effect::MergeLevel { level, slot } => Effect::MergeLevel { level, slot: self.of(level, slot) },
            Effect::MergeBacking => match self.in_dram {
                Some(slot) => Effect::MergeLevel { level: Level::Dram, slot },
                None => Effect::MergeBacking,
            },
            Effect::Invalidate { level, slot } => Effect::Invalidate { level, slot: self.free(level, slot) },
            Effect::Evict { level, slot, block, dirty } => {
                Effect::Evict { level, slot: self.free(level, slot), block, dirty }
            }
            Effect::Clean { slot, block } => Effect::Clean { slot: self.of(Level::Ssd, slot), block },
            Effect::Copy { to, slot, block, from, reason } => {
                let from = match from {
                    CopySource::Level { level, slot } => {
                        CopySource::Level { level, slot: self.of(level, slot) }
                    }
                    CopySource::Backing => CopySource::Backing,
                };
                Effect::Copy { to, slot: self.put(to, slot), block, from, reason }
            }
        };
        self.sink.effect(effect);
    }
}

impl<S: AccessSink> AccessSink for Renumbered<'_, S> {
    fn begin_access(&mut self, access: &Access) {
        self.sink.begin_access(access);
    }

    fn end_request(&mut self, op: Direction) {
        self.sink.end_request(op);
    }
}

#[cfg(test)]
mod tests;
