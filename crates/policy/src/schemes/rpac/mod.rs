//! RPAC: sets in order of arrival, where a newcomer replaces the oldest block whose region is clearly less popular than its
//! own, and stays outside when there is none (Ye et al., "A Regional Popularity-Aware Cache Replacement Algorithm to Improve
//! the Performance and Lifetime of SSD-based Disk Cache", Fig. 4).
//!
//! It must not know what reads and writes ask for, see [`ssd_level`]; nor how popularity is kept, see [`regions`](self::regions).

mod ahead;
mod arrivals;
mod divisor;
mod expiries;
mod part_lists;
pub mod regions;

use lode_reuse::index::BlockIndex;
use lode_types::{BlockNo, Level};

use self::arrivals::Arrivals;
use self::part_lists::PartLists;
use self::regions::{Leaf, MOST_DEPTH, MOST_REGION_BLOCKS, NEVER, Parameters, RegionSpot, Regions};
use crate::effect::{Effect, Sink, Slot};
use crate::geometry::Geometry;
use crate::needs::Adjacency;
use crate::parts::lists::{SetLists, Value};
use crate::parts::ssd_level::{self, Id, Newcomer, Replacement, SsdLevel};
use crate::parts::{mapping, sets};
use crate::prefetch::PrefetchHint;
use crate::quota::Quota;
use crate::registry::{AnyScheme, SchemeInfo};
use crate::settings::{SettingInfo, Settings};
use crate::tracked::Footprint;

/// The defaults of one of the paper's two worlds.
struct World {
    region_blocks: &'static str,
    decay_interval: &'static str,
    factor: &'static str,
}

/// Settings beside `assoc`, `map` and `write_policy`.
const fn settings(world: World) -> [SettingInfo; 6] {
    [
        SettingInfo::integer("region_blocks", world.region_blocks, 1, MOST_REGION_BLOCKS as u64)
            .about("blocks of a region")
            .source(
                "RPAC: 4 (Webvm), 8 (Mail) in simulation; 160 MB, 40960 blocks of 4 KiB, in the prototype",
            ),
        SettingInfo::integer("tree_depth", "2", 0, MOST_DEPTH as u64)
            .about("how often a region is halved into parts whose popularity is counted; 0: never")
            .source("RPAC: 2"),
        SettingInfo::scaled("decay_interval", world.decay_interval, 1, u64::MAX)
            .about("block accesses from decay to decay, the paper's T")
            .source(
                "RPAC: 1600000 (Webvm), 800000 (Mail) in simulation; 600 (Webproxy), 200 (Varmail) in the \
                 prototype",
            ),
        SettingInfo::number("alpha", "0.5", 0.0, 0.99)
            .about("what popularity is multiplied by when it decays, rounded down")
            .source("RPAC: 0.5"),
        SettingInfo::number("factor", world.factor, 1.0, 100.0)
            .about(
                "how many times as popular as the block that leaves the newcomer has to be, or more; the \
                 paper's c",
            )
            .source("RPAC: 1.4 in simulation, 1.5 in the prototype"),
        SettingInfo::scaled("most_regions", "1048576", 1, 1 << 28)
            .about(
                "regions that have a popularity at a time; when there would be more, all decay ahead of \
                 time",
            )
            .source("ours: the paper has no limit"),
    ]
}

static SIMULATOR: &[SettingInfo] =
    &settings(World { region_blocks: "4", decay_interval: "1600000", factor: "1.4" });
static PROTOTYPE: &[SettingInfo] =
    &settings(World { region_blocks: "40960", decay_interval: "600", factor: "1.5" });

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "rpac",
    about: "one SSD level of sets where a newcomer replaces the oldest block of a clearly less popular \
            region, or stays outside",
    source: "RPAC (Ye et al.)",
    tables: &[mapping::SETTINGS, ssd_level::SETTINGS, SIMULATOR],
    build: |settings, _, quota| AnyScheme::Rpac(Box::new(Rpac::new(settings, quota))),
    footprint: Footprint::new(13 << 10, 80).with_sets(256).remembering(remembered),
    adjacency: Some(Adjacency { key: "region_blocks", off: "1", what: "regions of several blocks" }),
    ..SchemeInfo::PLAIN
};

/// The same with the prototype's parameters.
pub(crate) const PROTOTYPE_INFO: SchemeInfo = SchemeInfo {
    name: "rpac-prototype",
    about: "rpac with the parameters of its paper's prototype: large regions whose popularity is \
            short-lived",
    tables: &[mapping::SETTINGS, ssd_level::SETTINGS, PROTOTYPE],
    ..INFO
};

/// Regions keep what came since they last decayed.
fn remembered(settings: &Settings, share_blocks: u64, _: Quota) -> u64 {
    settings.integer("decay_interval").saturating_add(share_blocks)
}

/// One VM's SSD level under RPAC.
pub type Rpac = SsdLevel<RegionSets>;

/// Up to so many blocks of a region are looked up one by one to see which are cached; lists of them would take more memory
/// than they save time.
const FEW_BLOCKS: u32 = 16;

/// Sets of up to so many blocks are walked: what leads past unpopular blocks would take more memory than they do.
const FEW_WAYS: u32 = 64;

/// A block in a slot.
#[derive(Clone, Copy, Debug)]
struct Resident {
    place: RegionSpot,
    /// Among the arrivals of its set.
    position: u32,
}

impl Value for Resident {
    type Kept = Resident;

    #[inline(always)]
    fn kept(self) -> (Resident, u32) {
        (self, 0)
    }

    #[inline(always)]
    fn restored(kept: Resident, _: u32) -> Resident {
        kept
    }
}

/// What the index has for a slot.
#[inline(always)]
fn hash_of(lists: &SetLists<Resident>, regions: &Regions) -> impl Fn(Slot) -> u32 {
    |slot| BlockIndex::hash(regions.block(lists.value(slot).place))
}

/// What the index of the lists of parts has for a slot.
#[inline(always)]
fn list_hash_of(lists: &SetLists<Resident>, regions: &Regions) -> impl Fn(Slot) -> u32 {
    |slot| {
        let place = lists.value(slot).place;
        list_hash(lists.geometry().set_of(regions.block(place)), place.part())
    }
}

/// FIFO order within each set, and the popularity of regions. A block's number here is its slot.
#[derive(Debug)]
pub struct RegionSets {
    index: BlockIndex,
    lists: SetLists<Resident>,
    /// By set: the order of its list again, in which unpopular blocks are found. Empty where sets are walked.
    arrivals: Vec<Arrivals>,
    /// For regions of many blocks: those of each part, of which only the first is found among the arrivals.
    parts: Option<PartLists>,
    regions: Regions,
}

/// For these sets, without their blocks.
fn arrivals_of(geometry: &Geometry) -> Vec<Arrivals> {
    // The first set is one of the widest.
    let sets = if geometry.ways(0) > FEW_WAYS { geometry.sets() } else { 0 };
    vec![Arrivals::default(); sets as usize]
}

/// For the list of the blocks of a set that are in one part of a region.
#[inline]
fn list_hash(set: u32, part: Leaf) -> u32 {
    BlockIndex::hash(u64::from(set) << Leaf::NUMBER_BITS | part.number())
}

/// Whether the block of a slot is in this set and part.
#[inline]
fn is_in(lists: &SetLists<Resident>, regions: &Regions, set: u32, part: Leaf) -> impl Fn(Slot) -> bool {
    move |slot| {
        let place = lists.value(slot).place;
        place.part() == part && lists.geometry().set_of(regions.block(place)) == set
    }
}

impl RegionSets {
    /// Which slot of a full set gives way to a newcomer: the oldest that it may replace.
    fn victim(&mut self, set: u32, newcomer: RegionSpot) -> Option<Slot> {
        let RegionSets { lists, arrivals, regions, .. } = self;
        let popularity = regions.popularity(newcomer.region);
        // Below it there is no block of the newcomer's own region.
        let limit = regions.parameters().first_not_outranked(popularity);
        let mut gives_way = |slot: &Slot| {
            let place = lists.value(*slot).place;
            let is_kin = place.region == newcomer.region;
            if is_kin {
                regions.outranks_kin(newcomer, place)
            } else {
                regions.popularity(place.region) < limit
            }
        };
        if arrivals.is_empty() {
            return lists.oldest_first(set).find(gives_way);
        }
        // Often enough the oldest does.
        let oldest = lists.oldest(set).filter(&mut gives_way);
        if oldest.is_some() {
            return oldest;
        }
        let now = regions.now();
        let popularity_of = |slot| regions.popularity(lists.value(slot).place.region);
        let stranger = arrivals[set as usize].first_below(limit, now, popularity_of);
        let found = self.kin_before(stranger.unwrap_or(u32::MAX), set, newcomer).or(stranger);
        found.map(|position| self.arrivals[set as usize].slot(position))
    }

    /// The first position before `end` with a block of the newcomer's own region that gives way to it.
    fn kin_before(&self, end: u32, set: u32, newcomer: RegionSpot) -> Option<u32> {
        let RegionSets { lists, regions, .. } = self;
        let position = |slot| lists.value(slot).position;
        if !regions.is_cached(newcomer.region) || lists.oldest(set).is_none_or(|slot| position(slot) >= end) {
            return None;
        }
        if let Some(parts) = &self.parts {
            regions.parts_outranked(newcomer).for_each(|part| parts.prefetch(list_hash(set, part)));
        }
        let mut outranked = regions.parts_outranked(newcomer);
        let first = match &self.parts {
            Some(parts) => outranked
                .filter_map(|part| parts.first(list_hash(set, part), is_in(lists, regions, set, part)))
                .map(position)
                .min(),
            None => {
                outranked.next()?;
                self.kin_of_few(set, newcomer).map(position).min()
            }
        };
        first.filter(|&first| first < end)
    }

    /// The blocks of the newcomer's own small region that give way to it in a set.
    fn kin_of_few(&self, set: u32, newcomer: RegionSpot) -> impl Iterator<Item = Slot> + '_ {
        let regions = &self.regions;
        // A region may lie in several sets.
        let may_be_here = move |block| self.lists.geometry().set_of(block) == set;
        let giving_way =
            regions.kin(newcomer).filter(move |&(_, place)| regions.outranks_kin(newcomer, place));
        giving_way
            .filter(move |&(block, _)| may_be_here(block))
            .filter_map(|(block, _)| self.slot_of(BlockIndex::hash(block), block))
    }

    #[inline]
    fn slot_of(&self, hash: u32, block: BlockNo) -> Option<Slot> {
        self.index.find(hash, |slot| self.regions.block(self.lists.value(slot).place) == block)
    }

    fn insert(&mut self, set: u32, hash: u32, place: RegionSpot) -> Slot {
        let slot = self.lists.insert(set, Resident { place, position: 0 });
        self.index.insert(hash, slot, hash_of(&self.lists, &self.regions));
        self.regions.cache(place);
        if !self.arrivals.is_empty() {
            let popularity = self.regions.popularity(place.region);
            self.arrive(set, slot, popularity);
        }
        slot
    }

    /// A block that is the newest of its list is the last to have arrived, too.
    fn arrive(&mut self, set: u32, slot: Slot, popularity: u32) {
        let RegionSets { lists, arrivals, parts, regions, .. } = self;
        let part = lists.value(slot).place.part();
        let is_first = parts.as_mut().is_none_or(|parts| {
            let most = lists.geometry().blocks();
            let hash = list_hash(set, part);
            parts.push(hash, slot, most, is_in(lists, regions, set, part), list_hash_of(lists, regions))
        });
        let bound = if is_first { popularity } else { NEVER };
        let position = arrivals[set as usize].push(slot, bound, regions.now(), |slot, position| {
            lists.set_value(slot, Resident { position, ..lists.value(slot) });
        });
        lists.set_value(slot, Resident { position, ..lists.value(slot) });
    }

    /// The block of a slot leaves the arrivals of its set.
    fn depart(&mut self, set: u32, slot: Slot) {
        let RegionSets { lists, arrivals, parts, regions, .. } = self;
        let Some(arrivals) = arrivals.get_mut(set as usize) else { return };
        let Resident { place, position } = lists.value(slot);
        let next = parts
            .as_mut()
            .and_then(|parts| parts.remove(list_hash(set, place.part()), slot, list_hash_of(lists, regions)));
        if let Some(next) = next {
            let popularity = regions.popularity(place.region);
            arrivals.set_bound(lists.value(next).position, popularity, regions.now());
        }
        // Last, for the least bound is mostly that of the next one now.
        arrivals.remove(position, regions.now());
    }

    fn evict<S: Sink>(&mut self, slot: Slot, sink: &mut S) {
        let (block, dirty) = (self.regions.block(self.lists.value(slot).place), self.lists.flag(slot));
        self.remove(block, slot);
        sink.effect(Effect::Evict { level: Level::Ssd, slot, block, dirty });
    }
}

impl Replacement for RegionSets {
    fn new(settings: &Settings, blocks: u32) -> RegionSets {
        let geometry = mapping::geometry(settings, blocks);
        let region_blocks = settings.integer("region_blocks") as u32;
        let regions = Regions::new(Parameters {
            region_blocks,
            depth: settings.integer("tree_depth") as u32,
            alpha: settings.number("alpha"),
            interval: settings.integer("decay_interval"),
            factor: settings.number("factor"),
            most: settings.integer("most_regions") as u32,
        });
        let mut index = BlockIndex::new();
        index.expect(blocks as usize);
        RegionSets {
            index,
            lists: SetLists::new(geometry),
            arrivals: arrivals_of(&geometry),
            parts: (region_blocks > FEW_BLOCKS).then(PartLists::default),
            regions,
        }
    }

    #[inline]
    fn find(&self, hint: PrefetchHint, block: BlockNo) -> Option<Id> {
        sets::find(&self.index, &self.lists, hint, |resident| self.regions.block(resident.place) == block)
    }

    #[inline]
    fn touch(&mut self, _: BlockNo, slot: Id) {
        self.regions.count_cached(self.lists.value(slot).place);
    }

    #[inline(always)]
    fn set_dirty(&mut self, slot: Id, dirty: bool) {
        self.lists.set_flag(slot, dirty);
    }

    fn admit<S: Sink>(&mut self, Newcomer { hash, block, .. }: Newcomer, sink: &mut S) -> Option<(Id, Slot)> {
        let place = self.regions.count(block);
        let set = self.lists.geometry().set_of(block);
        if self.lists.is_full(set) {
            let victim = self.victim(set, place)?;
            self.prepare_eviction(victim);
            self.evict(victim, sink);
        }
        let slot = self.insert(set, hash, place);
        Some((slot, slot))
    }

    fn restore(&mut self, Newcomer { hash, block, .. }: Newcomer) -> Option<(Id, Slot)> {
        let set = self.lists.geometry().set_of(block);
        if self.lists.is_full(set) {
            return None;
        }
        let place = self.regions.place(block);
        let slot = self.insert(set, hash, place);
        Some((slot, slot))
    }

    fn expect(&mut self, blocks: u32) {
        self.index.reserve(blocks as usize);
    }

    fn remove(&mut self, block: BlockNo, slot: Id) {
        let set = self.lists.geometry().set_of(block);
        self.regions.uncache(self.lists.value(slot).place);
        self.depart(set, slot);
        self.lists.remove(set, slot);
        // Last, for its bucket is the longest on its way.
        self.index.remove(BlockIndex::hash(block), slot, hash_of(&self.lists, &self.regions));
    }

    fn resize<S: Sink>(&mut self, blocks: u32, sink: &mut S) {
        let (sets, geometry) = (self.lists.geometry().sets(), self.lists.geometry().resized(blocks));
        let regions = &self.regions;
        self.lists.regroup(geometry, |resident| geometry.set_of(regions.block(resident.place)));
        self.index.expect(blocks as usize);
        let arrivals = arrivals_of(&geometry);
        if geometry.sets() != sets || arrivals.len() != self.arrivals.len() {
            self.arrivals = arrivals;
            self.parts = self.parts.take().map(|_| PartLists::default());
            for set in 0..self.arrivals.len() as u32 {
                let slots: Vec<Slot> = self.lists.oldest_first(set).collect();
                // Nothing is less popular than that: a search finds out.
                slots.into_iter().for_each(|slot| self.arrive(set, slot, 0));
            }
        }
        for set in 0..geometry.sets() {
            while let Some(oldest) = self.lists.surplus(set) {
                self.evict(oldest, sink);
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
            + self.regions.memory_bytes()
            + self.arrivals.iter().map(Arrivals::memory_bytes).sum::<usize>()
            + self.parts.as_ref().map_or(0, PartLists::memory_bytes)
    }
}
