//! flashcache (Facebook, 2010 to 2017), by its administrator's guide: sets in order of arrival or of use in which only clean
//! blocks give way; dirty ones are written back when a set has too many of them, or when they were idle for long.
//!
//! It must not know what reads and writes ask for, see [`ssd_level`]; nor streams, see [`cut_off`](crate::parts::cut_off).

mod clean_runs;
mod dirty_lists;

use lode_reuse::index::BlockIndex;
use lode_types::{BlockNo, Level};

use self::clean_runs::CleanRuns;
use self::dirty_lists::DirtyLists;
use crate::effect::{Effect, Sink, Slot};
use crate::interval::Clock;
use crate::needs::Adjacency;
use crate::parts::cut_off::{Cleaner, CutOff, When};
use crate::parts::lists::SetLists;
use crate::parts::ssd_level::{self, Id, Newcomer, Replacement, SsdLevel};
use crate::parts::streams::Streams;
use crate::parts::{mapping, sets};
use crate::prefetch::{Prefetch, PrefetchHint};
use crate::quota::Quota;
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::settings::{SettingInfo, Settings};
use crate::tracked::Footprint;

/// Which blocks give way and which are written back.
pub(crate) static CLEANING: &[SettingInfo] = &[
    SettingInfo::choice("reclaim_policy", "fifo", &["fifo", "lru"])
        .about("which clean block of a full set gives way: the longest resident, or the least recently used")
        .source("flashcache: FIFO"),
    SettingInfo::integer("dirty_thresh_pct", "20", 0, 100)
        .about("per cent of a set's ways above which dirty blocks of a set that was accessed are cleaned")
        .source("flashcache: 20"),
    SettingInfo::integer("max_clean_ios_set", "2", 1, 1 << 20)
        .about("most blocks of a set that are cleaned after one request")
        .source("flashcache: 2 under way at once"),
    SettingInfo::choice("trigger", "requests", &["requests", "time"])
        .about("whether a block's idleness is counted in requests of the VM or in seconds")
        .source("ours: flashcache counts seconds; with requests no decision depends on the clock"),
    SettingInfo::scaled("fallow_delay_requests", "450000", 0, u32::MAX as u64)
        .about("requests after which an idle dirty block is cleaned; 0: never")
        .source("ours: flashcache's 900 s at 500 requests a second"),
    SettingInfo::integer("fallow_delay", "900", 0, u32::MAX as u64)
        .about("seconds after which an idle dirty block is cleaned, with trigger=time; 0: never")
        .source("flashcache: 900"),
    SettingInfo::integer("fallow_clean_speed", "2", 1, 1 << 20)
        .about(
            "most idle blocks of a set that are cleaned at a time; after each request it is the next set's \
             turn",
        )
        .source("flashcache: 2 a second and set"),
];

/// Which streams pass by.
static SKIPPING: &[SettingInfo] = &[SettingInfo::integer("skip_seq_blocks", "0", 0, 1 << 40)
    .about("blocks of a sequential stream that are cached, the rest is not; 0: all")
    .source("flashcache: skip_seq_thresh_kb, 0; it recommends 1024 KiB to begin with")];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "flashcache",
    about: "one SSD level of sets in which only clean blocks give way, and dirty ones are written back when \
            they are many or idle",
    source: "flashcache, its administrator's guide",
    tables: &[mapping::SETTINGS, ssd_level::SETTINGS, CLEANING, SKIPPING],
    build: |settings, _, quota| AnyScheme::Flashcache(Box::new(Flashcache::new(settings, quota))),
    footprint: Footprint::new(LEAN, 48).with_sets(256),
    adjacency: Some(Adjacency { key: "skip_seq_blocks", off: "0", what: "sequential streams" }),
    ..SchemeInfo::PLAIN
};

/// Streams that flashcache follows at once.
const STREAMS: usize = 32;

/// Sets of up to so many blocks are walked: what leads past dirty blocks would take more memory there than it is worth.
const FEW_WAYS: u32 = 64;

/// One VM's SSD level under flashcache.
pub type Flashcache = CutOff<CleanedSets>;

impl Flashcache {
    /// A cache of `quota.ssd_blocks`; the scheme uses no DRAM.
    pub fn new(settings: &Settings, quota: Quota) -> Flashcache {
        let skip = settings.integer("skip_seq_blocks");
        let when = if skip == 0 { When::Never } else { When::Always };
        CutOff::over(SsdLevel::new(settings, quota), Streams::new(STREAMS, false), when, skip + 1)
    }
}

/// Sets of which only clean blocks leave. A block's number here is its slot.
#[derive(Debug)]
pub struct CleanedSets {
    index: BlockIndex,
    /// The flag says that a block is dirty.
    lists: SetLists<BlockNo>,
    /// Where the clean ones are in long sets.
    clean_runs: Option<CleanRuns>,
    dirty: DirtyLists,
    by_use: bool,
    dirty_percent: u64,
    most_at_once: u64,
    clock: Clock,
    /// In the clock's unit; 0: never.
    fallow_delay: u32,
    fallow_speed: u64,
    /// Sets of accesses since the last request ended, each once, and by set whether it is one of them.
    accessed: Vec<u32>,
    is_accessed: Vec<bool>,
    /// Whose turn it is to have idle blocks cleaned.
    turn: u32,
}

fn runs_of(lists: &SetLists<BlockNo>) -> Option<CleanRuns> {
    // The first set is one of the widest.
    (lists.geometry().ways(0) > FEW_WAYS).then(|| CleanRuns::new(lists))
}

impl CleanedSets {
    /// Dirty blocks that a set may have.
    fn most_dirty(&self, set: u32) -> u32 {
        (u64::from(self.lists.geometry().ways(set)) * self.dirty_percent / 100) as u32
    }

    #[inline]
    fn note_access(&mut self, set: u32) {
        if !std::mem::replace(&mut self.is_accessed[set as usize], true) {
            self.accessed.push(set);
        }
    }

    /// Whether a set has more dirty blocks than it should, or could take no other block.
    fn is_pressed(&self, set: u32) -> bool {
        let dirty = self.dirty.len(set);
        dirty > self.most_dirty(set) || (dirty > 0 && dirty >= self.lists.geometry().ways(set))
    }

    /// The clean block that gives way in a full set. In order of arrival, dirty ones that are passed over count as newly
    /// arrived, as with a hand that goes round.
    fn victim(&mut self, set: u32) -> Option<Slot> {
        if self.dirty.len(set) == self.lists.len_of(set) {
            return None;
        }
        let victim = match &self.clean_runs {
            Some(runs) => runs.oldest_clean(set, &self.lists),
            None => self.lists.oldest_first(set).find(|&slot| !self.lists.flag(slot)),
        }?;
        if !self.by_use {
            self.lists.rotate(set, victim);
        }
        Some(victim)
    }

    #[inline]
    fn make_newest(&mut self, set: u32, slot: Slot) {
        let Some(runs) = &mut self.clean_runs else { return self.lists.touch(set, slot) };
        if self.lists.newer(slot).is_some() {
            runs.remove(set, slot, &self.lists);
            self.lists.touch(set, slot);
            runs.push(set, slot, &self.lists);
        }
    }

    /// A block becomes clean or dirty where it stands.
    #[inline]
    fn flag(&mut self, set: u32, slot: Slot, dirty: bool) {
        self.lists.set_flag(slot, dirty);
        if let Some(runs) = &mut self.clean_runs {
            runs.count(set, slot, !dirty);
        }
    }

    fn evict<S: Sink>(&mut self, slot: Slot, sink: &mut S) {
        let (block, dirty) = (self.lists.value(slot), self.lists.flag(slot));
        self.remove(block, slot);
        sink.effect(Effect::Evict { level: Level::Ssd, slot, block, dirty });
    }

    fn insert(&mut self, set: u32, hash: u32, block: BlockNo) -> (Id, Slot) {
        let slot = self.lists.insert(set, block);
        if let Some(runs) = &mut self.clean_runs {
            runs.push(set, slot, &self.lists);
        }
        self.index.insert(hash, slot, sets::hash_of(&self.lists));
        (slot, slot)
    }

    /// The dirty block of a set that is idle for longest is written back and stays.
    fn clean_oldest<S: Sink>(&mut self, set: u32, sink: &mut S) {
        if let Some((slot, _)) = self.dirty.oldest(set) {
            self.dirty.remove(set, slot);
            self.flag(set, slot, false);
            sink.effect(Effect::Clean { slot, block: self.lists.value(slot) });
        }
    }

    fn is_idle(&self, set: u32) -> bool {
        self.dirty
            .oldest(set)
            .is_some_and(|(_, used_at)| self.clock.now().wrapping_sub(used_at) >= self.fallow_delay)
    }
}

impl Cleaner for CleanedSets {
    fn is_dirty(&self, slot: Id) -> bool {
        self.lists.flag(slot)
    }

    #[inline]
    fn clean<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        self.clock.end_request(now_ns);
        self.accessed.sort_unstable();
        for at in 0..self.accessed.len() {
            let set = self.accessed[at];
            self.is_accessed[set as usize] = false;
            for _ in 0..self.most_at_once {
                if !self.is_pressed(set) {
                    break;
                }
                self.clean_oldest(set, sink);
            }
        }
        self.accessed.clear();
        if self.fallow_delay > 0 {
            let set = self.turn & (self.lists.geometry().sets() - 1);
            self.turn = set + 1;
            for _ in 0..self.fallow_speed {
                if !self.is_idle(set) {
                    break;
                }
                self.clean_oldest(set, sink);
            }
        }
    }
}

impl Prefetch for CleanedSets {
    #[inline]
    fn prefetch_index(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        blocks.for_each(|(_, hint)| self.index.prefetch(hint.hash));
    }

    #[inline]
    fn prefetch_entries<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {
        for (block, hint) in blocks {
            hint.entry = self.index.candidate(hint.hash);
            self.lists.prefetch(hint.entry);
            self.lists.prefetch(self.lists.next_to_leave(self.lists.geometry().set_of(block)));
        }
    }

    #[inline]
    fn prefetch_neighbours(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        for (block, hint) in blocks {
            let oldest = self.lists.next_to_leave(self.lists.geometry().set_of(block));
            let place = if hint.entry == PrefetchHint::NO_ENTRY { oldest } else { hint.entry };
            if let Some(moved) = self.lists.prefetch_neighbours(place) {
                self.index.prefetch(BlockIndex::hash(moved));
            }
        }
    }
}

impl Replacement for CleanedSets {
    fn new(settings: &Settings, blocks: u32) -> CleanedSets {
        let geometry = mapping::geometry(settings, blocks);
        let by_time = settings.text("trigger") == "time";
        let delay = if by_time { "fallow_delay" } else { "fallow_delay_requests" };
        let fallow_delay = settings.integer(delay) as u32;
        let lists = SetLists::new(geometry);
        let mut index = BlockIndex::new();
        index.expect(blocks as usize);
        CleanedSets {
            index,
            clean_runs: runs_of(&lists),
            lists,
            dirty: DirtyLists::new(geometry.sets()),
            by_use: settings.text("reclaim_policy") == "lru",
            dirty_percent: settings.integer("dirty_thresh_pct"),
            most_at_once: settings.integer("max_clean_ios_set"),
            clock: Clock::new(by_time, fallow_delay),
            fallow_delay,
            fallow_speed: settings.integer("fallow_clean_speed"),
            accessed: Vec::new(),
            is_accessed: vec![false; geometry.sets() as usize],
            turn: 0,
        }
    }

    #[inline]
    fn find(&self, hint: PrefetchHint, block: BlockNo) -> Option<Id> {
        sets::find(&self.index, &self.lists, hint, |value| value == block)
    }

    #[inline]
    fn touch(&mut self, block: BlockNo, slot: Id) {
        let set = self.lists.geometry().set_of(block);
        self.note_access(set);
        if self.by_use {
            self.make_newest(set, slot);
        }
        if self.lists.flag(slot) {
            self.dirty.remove(set, slot);
            self.dirty.push(set, slot, self.clock.now());
        }
    }

    fn set_dirty(&mut self, slot: Id, dirty: bool) {
        let set = self.lists.geometry().set_of(self.lists.value(slot));
        match (self.lists.flag(slot), dirty) {
            (false, true) => self.dirty.push(set, slot, self.clock.now()),
            (true, false) => self.dirty.remove(set, slot),
            _ => return,
        }
        self.flag(set, slot, dirty);
    }

    fn admit<S: Sink>(&mut self, Newcomer { hash, block, .. }: Newcomer, sink: &mut S) -> Option<(Id, Slot)> {
        let set = self.lists.geometry().set_of(block);
        self.note_access(set);
        if self.lists.is_full(set) {
            let victim = self.victim(set)?;
            self.evict(victim, sink);
        }
        Some(self.insert(set, hash, block))
    }

    fn restore(&mut self, Newcomer { hash, block, .. }: Newcomer) -> Option<(Id, Slot)> {
        let set = self.lists.geometry().set_of(block);
        (!self.lists.is_full(set)).then(|| self.insert(set, hash, block))
    }

    fn expect(&mut self, blocks: u32) {
        self.index.reserve(blocks as usize);
    }

    fn remove(&mut self, block: BlockNo, slot: Id) {
        let set = self.lists.geometry().set_of(block);
        if self.lists.flag(slot) {
            self.dirty.remove(set, slot);
        }
        if let Some(runs) = &mut self.clean_runs {
            runs.remove(set, slot, &self.lists);
        }
        self.index.remove(BlockIndex::hash(block), slot, sets::hash_of(&self.lists));
        self.lists.remove(set, slot);
    }

    fn resize<S: Sink>(&mut self, blocks: u32, sink: &mut S) {
        let geometry = self.lists.geometry().resized(blocks);
        self.lists.regroup(geometry, |block| geometry.set_of(block));
        self.index.expect(blocks as usize);
        let lists = &self.lists;
        self.dirty.regroup(geometry.sets(), |slot| geometry.set_of(lists.value(slot)));
        self.clean_runs = runs_of(&self.lists);
        self.accessed.clear();
        self.is_accessed = vec![false; geometry.sets() as usize];
        for set in 0..geometry.sets() {
            while let Some(surplus) = self.lists.surplus(set) {
                self.evict(surplus, sink);
            }
        }
    }

    fn capacity(&self) -> u32 {
        self.lists.geometry().blocks()
    }

    fn cached(&self) -> u32 {
        self.lists.len()
    }

    fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
            + self.lists.memory_bytes()
            + self.clean_runs.as_ref().map_or(0, CleanRuns::memory_bytes)
            + self.dirty.memory_bytes()
            + self.accessed.capacity() * size_of::<u32>()
            + self.is_accessed.capacity()
    }
}
