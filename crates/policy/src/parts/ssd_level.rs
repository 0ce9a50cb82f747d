//! One cache level on the SSD: what the write policies of ETICA section 3 ask of any replacement algorithm.
//!
//! It must not know how the algorithm finds its victims, nor whether it has sets, queues or ghosts.

use lode_types::{Access, BlockNo, Direction, Level};

use crate::effect::{Effect, Sink, Slot};
use crate::prefetch::{Lookahead, Prefetch, PrefetchHint};
use crate::quota::Quota;
use crate::scheme::Scheme;
use crate::settings::{SettingInfo, Settings};

/// The setting of every scheme of one SSD level whose source does not say otherwise.
pub(crate) static SETTINGS: &[SettingInfo] = &[write_policy("wb")];

/// Of a scheme without others.
pub(crate) static TABLES: &[&[SettingInfo]] = &[SETTINGS];

/// The setting with another default.
pub(crate) const fn write_policy(default: &'static str) -> SettingInfo {
    SettingInfo::choice("write_policy", default, &["wb", "wt", "ro", "wbwo", "wa"])
        .about(
            "wb: write-back; wt: write-through; ro: writes go to the disk and invalidate; wbwo: write-back, \
             reads never allocate; wa: write-around, a cached copy is updated",
        )
        .source("ETICA section 3 (wb, ro, wbwo); common practice (wt, wa)")
}

/// What happens to reads that miss and to writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePolicy {
    /// Both allocate; writes are acknowledged from the cache.
    WriteBack,
    /// Both allocate; writes are acknowledged from the disk.
    WriteThrough,
    /// Reads allocate; writes go to the disk and invalidate.
    ReadOnly,
    /// Writes allocate and are acknowledged from the cache; reads never allocate.
    WriteBackWriteOnly,
    /// Reads allocate; writes go to the disk and update a cached copy, but do not allocate.
    WriteAround,
    /// Nothing allocates; writes go to the disk and invalidate.
    PassThrough,
}

/// What the write policy says, question by question: an answer looked up here is not worked out at every access.
#[derive(Clone, Copy, Debug)]
struct Rules {
    read_allocates: bool,
    write_allocates: bool,
    write_invalidates: bool,
    keeps_dirty: bool,
}

impl WritePolicy {
    fn from_name(name: &str) -> WritePolicy {
        match name {
            "wt" => WritePolicy::WriteThrough,
            "ro" => WritePolicy::ReadOnly,
            "wbwo" => WritePolicy::WriteBackWriteOnly,
            "wa" => WritePolicy::WriteAround,
            "pt" => WritePolicy::PassThrough,
            _ => WritePolicy::WriteBack,
        }
    }

    fn rules(self) -> Rules {
        let keeps_dirty = matches!(self, WritePolicy::WriteBack | WritePolicy::WriteBackWriteOnly);
        Rules {
            read_allocates: !matches!(self, WritePolicy::WriteBackWriteOnly | WritePolicy::PassThrough),
            write_allocates: keeps_dirty || self == WritePolicy::WriteThrough,
            write_invalidates: matches!(self, WritePolicy::ReadOnly | WritePolicy::PassThrough),
            keeps_dirty,
        }
    }
}

/// The number by which a replacement algorithm knows a block, cached or only remembered (a ghost).
pub type Id = u32;

/// A block that is not cached, and may come to be.
#[derive(Clone, Copy, Debug)]
pub struct Newcomer {
    /// Its hash in the index.
    pub hash: u32,
    /// Which block.
    pub block: BlockNo,
    /// Its record, if it is remembered.
    pub ghost: Option<Id>,
}

/// Which blocks a level holds, and which one leaves. Of accesses that neither hit nor allocate it hears by
/// [`Replacement::note`] alone.
pub trait Replacement: Prefetch {
    /// An empty level of `blocks`.
    fn new(settings: &Settings, blocks: u32) -> Self;

    /// What is known of `block`: cached, or a ghost.
    fn find(&self, hint: PrefetchHint, block: BlockNo) -> Option<Id>;

    /// Where a known block is cached; `None` for a ghost. By default a block's number is its slot.
    #[inline(always)]
    fn slot(&self, id: Id) -> Option<Slot> {
        Some(id)
    }

    /// What is known of a block, and where it is cached.
    #[inline(always)]
    fn lookup(&self, hint: PrefetchHint, block: BlockNo) -> (Option<Id>, Option<(Id, Slot)>) {
        let known = self.find(hint, block);
        (known, known.and_then(|id| self.slot(id).map(|slot| (id, slot))))
    }

    /// Comes before everything else that an access asks for, also when it neither hits nor allocates.
    #[inline(always)]
    fn note(&mut self, _hint: PrefetchHint) {}

    /// A cached block was hit.
    fn touch(&mut self, block: BlockNo, id: Id);

    /// Says that the copy in the cache is newer than the disk's, or that it is not.
    fn set_dirty(&mut self, id: Id, dirty: bool);

    /// Caches a block, clean, and evicts as many others as it takes. `None`: there is no room, or it does not enter.
    fn admit<S: Sink>(&mut self, new: Newcomer, sink: &mut S) -> Option<(Id, Slot)>;

    /// Caches a block without an eviction; `None` when that is not possible. Called from least to most recent at a restart,
    /// before anything else.
    fn restore(&mut self, new: Newcomer) -> Option<(Id, Slot)>;

    /// See [`Scheme::expect`].
    fn expect(&mut self, blocks: u32);

    /// Forgets a known block altogether.
    fn remove(&mut self, block: BlockNo, id: Id);

    /// The level has `blocks` from now on; what no longer fits is evicted.
    fn resize<S: Sink>(&mut self, blocks: u32, sink: &mut S);

    /// Blocks that the level may hold.
    fn capacity(&self) -> u32;

    /// Blocks that it holds.
    fn cached(&self) -> u32;

    /// See [`Scheme::memory_bytes`].
    fn memory_bytes(&self) -> usize;
}

/// One VM's SSD level with replacement `R`.
#[derive(Debug)]
pub struct SsdLevel<R> {
    replacement: R,
    rules: Rules,
}

impl<R: Replacement> SsdLevel<R> {
    /// A cache of `quota.ssd_blocks`; the scheme uses no DRAM.
    pub fn new(settings: &Settings, quota: Quota) -> SsdLevel<R> {
        SsdLevel::with_policy(settings, quota, WritePolicy::from_name(settings.text("write_policy")))
    }

    /// As [`SsdLevel::new`], for schemes that choose the write policy themselves.
    pub(crate) fn with_policy(settings: &Settings, quota: Quota, policy: WritePolicy) -> SsdLevel<R> {
        SsdLevel { replacement: R::new(settings, quota.ssd_blocks), rules: policy.rules() }
    }

    /// Whether writes are done once the level has them.
    pub(crate) fn keeps_dirty(&self) -> bool {
        self.rules.keeps_dirty
    }

    /// Changes the write policy. The caller has cleaned all that is dirty when the new one keeps nothing dirty.
    pub(crate) fn set_policy(&mut self, policy: WritePolicy) {
        self.rules = policy.rules();
    }

    /// Where a block is cached.
    pub(crate) fn slot_of(&self, block: BlockNo) -> Option<Slot> {
        self.cached(PrefetchHint::new(block), block).map(|(_, slot)| slot)
    }

    /// For what a scheme has to be told besides.
    pub(crate) fn replacement_mut(&mut self) -> &mut R {
        &mut self.replacement
    }

    /// Where a block that comes with this hint is cached.
    #[inline(always)]
    pub(crate) fn cached(&self, hint: PrefetchHint, block: BlockNo) -> Option<(Id, Slot)> {
        self.replacement.lookup(hint, block).1
    }

    /// Whether every block of the level is in use.
    pub(crate) fn is_full(&self) -> bool {
        self.replacement.cached() >= self.replacement.capacity()
    }

    #[inline(always)]
    fn read<S: Sink>(&mut self, block: BlockNo, hint: PrefetchHint, sink: &mut S) {
        let (ghost, cached) = self.replacement.lookup(hint, block);
        if let Some((id, slot)) = cached {
            self.replacement.touch(block, id);
            sink.effect(Effect::ReadLevel { level: Level::Ssd, slot });
            return;
        }
        sink.effect(Effect::ReadBacking);
        if self.rules.read_allocates
            && let Some((_, slot)) = self.replacement.admit(Newcomer { hash: hint.hash, block, ghost }, sink)
        {
            sink.effect(Effect::Fill { level: Level::Ssd, slot });
        }
    }

    #[inline(always)]
    fn write<S: Sink>(&mut self, block: BlockNo, partial: bool, hint: PrefetchHint, sink: &mut S) {
        let (ghost, cached) = self.replacement.lookup(hint, block);
        let dirty = self.rules.keeps_dirty;
        let target = match cached {
            Some((id, slot)) if self.rules.write_invalidates => {
                self.replacement.remove(block, id);
                sink.effect(Effect::Invalidate { level: Level::Ssd, slot });
                None
            }
            Some((id, _)) => {
                self.replacement.touch(block, id);
                cached
            }
            None if self.rules.write_allocates => {
                self.replacement.admit(Newcomer { hash: hint.hash, block, ghost }, sink)
            }
            None => None,
        };
        if let Some((id, slot)) = target {
            if partial {
                sink.effect(match cached {
                    Some((_, slot)) => Effect::MergeLevel { level: Level::Ssd, slot },
                    None => Effect::MergeBacking,
                });
            }
            if dirty {
                self.replacement.set_dirty(id, true);
            }
            sink.effect(Effect::WriteLevel { level: Level::Ssd, slot, hit: cached.is_some(), dirty });
        }
        if target.is_none() || !dirty {
            sink.effect(Effect::WriteBacking);
        }
    }
}

impl<R: Replacement> Prefetch for SsdLevel<R> {
    prefetch_by!(replacement);
}

impl<R: Replacement> Lookahead for SsdLevel<R> {
    #[inline]
    fn access_prefetched<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        self.replacement.note(hint);
        match access.op {
            Direction::Read => self.read(access.block, hint, sink),
            Direction::Write => self.write(access.block, access.partial, hint, sink),
        }
    }
}

impl<R: Replacement> Scheme for SsdLevel<R> {
    #[inline]
    fn access<S: Sink>(&mut self, access: Access, sink: &mut S) {
        self.access_prefetched(access, PrefetchHint::new(access.block), sink);
    }

    fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        let (ghost, cached) = self.replacement.lookup(PrefetchHint::new(block), block);
        if let Some(id) = ghost {
            self.replacement.remove(block, id);
        }
        if let Some((_, slot)) = cached {
            sink.effect(Effect::Invalidate { level: Level::Ssd, slot });
        }
    }

    fn forget(&mut self, level: Level, block: BlockNo) {
        if level == Level::Ssd
            && let (_, Some((id, _))) = self.replacement.lookup(PrefetchHint::new(block), block)
        {
            self.replacement.remove(block, id);
        }
    }

    fn cleaned(&mut self, block: BlockNo) {
        if let (_, Some((id, _))) = self.replacement.lookup(PrefetchHint::new(block), block) {
            self.replacement.set_dirty(id, false);
        }
    }

    fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        let hint = PrefetchHint::new(block);
        let (ghost, cached) = self.replacement.lookup(hint, block);
        // A policy that never makes blocks dirty does not expect them either: it would invalidate or
        // drop the only copy.
        let unwelcome = dirty && !self.rules.keeps_dirty;
        if unwelcome || cached.is_some() {
            return None;
        }
        let (id, slot) = self.replacement.restore(Newcomer { hash: hint.hash, block, ghost })?;
        self.replacement.set_dirty(id, dirty);
        Some(slot)
    }

    fn expect(&mut self, blocks: u32) {
        self.replacement.expect(blocks.min(self.replacement.capacity()));
    }

    fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        self.replacement.resize(quota.ssd_blocks, sink);
    }

    fn quota(&self) -> Quota {
        Quota::new(0, self.replacement.capacity())
    }

    fn resident_blocks(&self, level: Level) -> u32 {
        if level == Level::Ssd { self.replacement.cached() } else { 0 }
    }

    fn memory_bytes(&self) -> usize {
        self.replacement.memory_bytes()
    }
}
