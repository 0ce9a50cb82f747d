//! MIN: the block whose next use is farthest in the future leaves (Belady, "A study of replacement algorithms for a
//! virtual-storage computer", IBM Systems Journal 5(2), 1966). No scheme that caches a block only when it is accessed has
//! more hits: this is the bound.
//!
//! It must not know what reads and writes ask for, nor where the future comes from; see [`ssd_level`] and [`NextUses`].

use std::collections::BinaryHeap;

use lode_reuse::BlockIndex;
use lode_types::prefetch::prefetch_slice;
use lode_types::{BlockNo, Level};

use crate::effect::{Effect, Sink, Slot};
use crate::next_uses::NextUses;
use crate::parts::growth;
use crate::parts::ssd_level::{self, Id, Newcomer, Replacement, SsdLevel};
use crate::prefetch::{Prefetch, PrefetchHint};
use crate::quota::Quota;
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::settings::{SettingInfo, Settings};
use crate::tracked::Footprint;

/// Settings beside `write_policy`.
pub(crate) static SETTINGS: &[SettingInfo] = &[SettingInfo::choice("bypass", "off", &["off", "on"])
    .about("on: a block that is used again later than all of a full cache, or never, is not cached")
    .source(
        "Belady (off: every miss fills, the bound of what caches on demand); common practice (on: the bound \
         of what may leave a block out)",
    )];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "belady",
    about: "the bound: one SSD level that knows what comes next, and gives up the block whose next use is \
            farthest",
    source: "Belady, IBM Systems Journal 5(2), 1966",
    tables: &[ssd_level::SETTINGS, SETTINGS],
    build_with_future: Some(|settings, _, quota, future| {
        AnyScheme::Belady(Belady::with_future(settings, quota, future.clone()))
    }),
    footprint: Footprint::new(LEAN, 80),
    ..SchemeInfo::PLAIN
};

/// One VM's SSD level under MIN.
pub type Belady = SsdLevel<Clairvoyance>;

impl Belady {
    /// A cache of `quota.ssd_blocks` for a stream with this future.
    pub fn with_future(settings: &Settings, quota: Quota, future: NextUses) -> Belady {
        let mut level = Belady::new(settings, quota);
        level.replacement_mut().future = future;
        level
    }
}

/// A block's number here is its slot.
#[derive(Clone, Copy, Debug)]
struct Record {
    block: BlockNo,
    next_use: u32,
    cached: bool,
    dirty: bool,
}

/// Who leaves first is the greatest: by next use, then by block number, so that nothing depends on slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    next_use: u32,
    block: BlockNo,
    id: Id,
}

/// Cached blocks by their next use.
#[derive(Debug)]
pub struct Clairvoyance {
    future: NextUses,
    /// Accesses so far, and the next use of the block of the last one.
    accesses: usize,
    next_use: u32,
    bypass: bool,
    capacity: u32,
    cached: u32,
    records: Vec<Record>,
    free: Vec<Id>,
    index: BlockIndex,
    /// Every cached block with its next use, and what was true once: nearly all of that are uses that have been, which
    /// come after all others.
    candidates: BinaryHeap<Candidate>,
}

/// What the index has for a record.
#[inline(always)]
fn hash_of(records: &[Record]) -> impl Fn(Id) -> u32 {
    |id| BlockIndex::hash(records[id as usize].block)
}

impl Clairvoyance {
    /// Most candidates: half as many again as there are blocks.
    fn most_candidates(&self) -> usize {
        const SPARE: usize = 64;
        self.cached as usize + self.cached as usize / 2 + SPARE
    }

    fn candidate(&self, id: Id) -> Candidate {
        let Record { block, next_use, .. } = self.records[id as usize];
        Candidate { next_use, block, id }
    }

    fn is_true(&self, candidate: Candidate) -> bool {
        self.records[candidate.id as usize].cached && self.candidate(candidate.id) == candidate
    }

    /// Notes when a cached block is used next.
    #[inline]
    fn set_next_use(&mut self, id: Id, next_use: u32) {
        self.records[id as usize].next_use = next_use;
        if self.candidates.len() >= self.most_candidates() {
            self.keep_true();
        } else {
            let len = self.candidates.len();
            if len == self.candidates.capacity() {
                self.candidates.reserve_exact(growth::step(len));
            }
            self.candidates.push(self.candidate(id));
        }
    }

    /// Forgets candidates that are not true any more.
    #[cold]
    fn keep_true(&mut self) {
        let mut kept = std::mem::take(&mut self.candidates).into_vec();
        kept.clear();
        let cached = (0..self.records.len() as Id).filter(|&id| self.records[id as usize].cached);
        kept.extend(cached.map(|id| self.candidate(id)));
        self.candidates = BinaryHeap::from(kept);
    }

    /// The cached block whose next use is farthest.
    fn farthest(&mut self) -> Option<Candidate> {
        while let Some(&candidate) = self.candidates.peek() {
            if self.is_true(candidate) {
                return Some(candidate);
            }
            self.candidates.pop();
        }
        None
    }

    fn evict<S: Sink>(&mut self, sink: &mut S) {
        if let Some(Candidate { block, id, .. }) = self.farthest() {
            let dirty = self.records[id as usize].dirty;
            self.remove(block, id);
            sink.effect(Effect::Evict { level: Level::Ssd, slot: id, block, dirty });
        }
    }

    /// Caches a block that is not cached; there is room for it.
    fn insert(&mut self, hash: u32, block: BlockNo, next_use: u32) -> Id {
        let record = Record { block, next_use, cached: true, dirty: false };
        let id = growth::occupy(&mut self.records, &mut self.free, record);
        self.index.insert(hash, id, hash_of(&self.records));
        self.cached += 1;
        self.set_next_use(id, next_use);
        id
    }
}

impl Prefetch for Clairvoyance {
    #[inline]
    fn prefetch_index(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        blocks.for_each(|(_, hint)| self.index.prefetch(hint.hash));
    }

    #[inline]
    fn prefetch_entries<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {
        for (_, hint) in blocks {
            hint.entry = self.index.candidate(hint.hash);
            prefetch_slice(&self.records, hint.entry as usize);
        }
    }
}

impl Replacement for Clairvoyance {
    fn new(settings: &Settings, blocks: u32) -> Clairvoyance {
        Clairvoyance {
            future: NextUses::default(),
            accesses: 0,
            next_use: NextUses::NEVER,
            bypass: settings.text("bypass") == "on",
            capacity: blocks,
            cached: 0,
            records: Vec::new(),
            free: Vec::new(),
            index: BlockIndex::new(),
            candidates: BinaryHeap::new(),
        }
    }

    #[inline]
    fn find(&self, hint: PrefetchHint, block: BlockNo) -> Option<Id> {
        let is_it = |record: &Record| record.cached && record.block == block;
        if self.records.get(hint.entry as usize).is_some_and(is_it) {
            return Some(hint.entry);
        }
        self.index.find(hint.hash, |id| self.records[id as usize].block == block)
    }

    #[inline(always)]
    fn note(&mut self, _: PrefetchHint) {
        self.next_use = self.future.next_use(self.accesses);
        self.accesses += 1;
    }

    #[inline]
    fn touch(&mut self, _: BlockNo, id: Id) {
        self.set_next_use(id, self.next_use);
    }

    #[inline(always)]
    fn set_dirty(&mut self, id: Id, dirty: bool) {
        self.records[id as usize].dirty = dirty;
    }

    fn admit<S: Sink>(&mut self, Newcomer { hash, block, .. }: Newcomer, sink: &mut S) -> Option<(Id, Slot)> {
        if self.capacity == 0 {
            return None;
        }
        if self.cached >= self.capacity {
            if self.bypass && self.farthest().is_some_and(|farthest| self.next_use >= farthest.next_use) {
                return None;
            }
            self.evict(sink);
        }
        let id = self.insert(hash, block, self.next_use);
        Some((id, id))
    }

    /// The future says nothing of blocks before their first access: they leave first.
    fn restore(&mut self, Newcomer { hash, block, .. }: Newcomer) -> Option<(Id, Slot)> {
        if self.cached >= self.capacity {
            return None;
        }
        let id = self.insert(hash, block, NextUses::NEVER);
        Some((id, id))
    }

    fn expect(&mut self, blocks: u32) {
        self.index.reserve(blocks as usize);
    }

    fn remove(&mut self, block: BlockNo, id: Id) {
        self.index.remove(BlockIndex::hash(block), id, hash_of(&self.records));
        self.records[id as usize].cached = false;
        self.free.push(id);
        self.cached -= 1;
    }

    fn resize<S: Sink>(&mut self, blocks: u32, sink: &mut S) {
        self.capacity = blocks;
        while self.cached > blocks {
            self.evict(sink);
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    #[inline]
    fn cached(&self) -> u32 {
        self.cached
    }

    /// Without the future, which belongs to whoever told it.
    fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
            + self.records.capacity() * size_of::<Record>()
            + self.free.capacity() * size_of::<Id>()
            + self.candidates.capacity() * size_of::<Candidate>()
    }
}
