//! RPAC: sets in order of arrival, where a newcomer replaces the oldest block whose region is clearly less popular than its
//! own, and stays outside when there is none (Ye et al., "A Regional Popularity-Aware Cache Replacement Algorithm to Improve
//! the Performance and Lifetime of SSD-based Disk Cache", Fig. 4).
//!
//! It must not know what reads and writes ask for, see [`ssd_level`]; nor how popularity is kept, see [`regions`](super::regions).

use lode_reuse::index::BlockIndex;
use lode_types::{BlockNo, Level};

use crate::effect::{Effect, Sink, Slot};
use crate::geometry::Geometry;
use crate::lists::SetLists;
use crate::scheme::Hint;
use crate::schemes::arrivals::Arrivals;
use crate::schemes::mapping;
use crate::schemes::regions::{Parameters, Place, Regions};
use crate::schemes::sets;
use crate::schemes::ssd_level::{self, Id, Replacement, SsdLevel};
use crate::settings::{SettingInfo, SettingKind, Settings};

/// Settings beside `assoc`, `map` and `write_policy`.
pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo {
        key: "region_blocks",
        default: "4",
        kind: SettingKind::Integer { min: 1, max: 1 << 20 },
        about: "blocks of a region",
        source: "RPAC: 4 (Webvm), 8 (Mail) in simulation; 160 MB, 40960 blocks of 4 KiB, in the prototype",
    },
    SettingInfo {
        key: "tree_depth",
        default: "2",
        kind: SettingKind::Integer { min: 0, max: 4 },
        about: "how often a region is halved into parts whose popularity is counted; 0: never",
        source: "RPAC: 2",
    },
    SettingInfo {
        key: "decay_interval",
        default: "1600000",
        kind: SettingKind::Integer { min: 1, max: u64::MAX },
        about: "block accesses from decay to decay, the paper's T",
        source: "RPAC: 1600000 (Webvm), 800000 (Mail) in simulation; 600 (Webproxy), 200 (Varmail) in the prototype",
    },
    SettingInfo {
        key: "alpha",
        default: "0.5",
        kind: SettingKind::Number { min: 0.0, max: 0.99 },
        about: "what popularity is multiplied by when it decays, rounded down",
        source: "RPAC: 0.5",
    },
    SettingInfo {
        key: "factor",
        default: "1.4",
        kind: SettingKind::Number { min: 1.0, max: 100.0 },
        about: "how many times as popular as the block that leaves the newcomer has to be, or more; the paper's c",
        source: "RPAC: 1.4 in simulation, 1.5 in the prototype",
    },
    SettingInfo {
        key: "most_regions",
        default: "1048576",
        kind: SettingKind::Integer { min: 1, max: 1 << 28 },
        about: "regions that have a popularity at a time; when there would be more, all decay ahead of time",
        source: "ours: the paper has no limit",
    },
];

pub(crate) static TABLES: &[&[SettingInfo]] = &[mapping::SETTINGS, ssd_level::SETTINGS, SETTINGS];

/// One VM's SSD level under RPAC.
pub type Rpac = SsdLevel<RegionSets>;

/// Up to so many blocks of a region are looked up one by one to see which are cached.
const FEW_BLOCKS: u32 = 16;

/// Sets of up to so many blocks are walked: what leads past unpopular blocks would take more memory than they do.
const FEW_WAYS: u32 = 64;

/// A block in a slot.
#[derive(Clone, Copy, Debug)]
struct Resident {
    place: Place,
    /// Among the arrivals of its set.
    position: u32,
}

/// FIFO order within each set, and the popularity of regions. A block's number here is its slot.
#[derive(Debug)]
pub struct RegionSets {
    index: BlockIndex,
    lists: SetLists<Resident>,
    /// By set: the order of its list again, in which unpopular blocks are found. Empty where sets are walked.
    arrivals: Vec<Arrivals>,
    regions: Regions,
}

/// For these sets, without their blocks.
fn arrivals_of(geometry: &Geometry) -> Vec<Arrivals> {
    // The first set is one of the widest.
    let sets = if geometry.ways(0) > FEW_WAYS { geometry.sets() } else { 0 };
    vec![Arrivals::default(); sets as usize]
}

impl RegionSets {
    /// Which slot of a full set gives way to a newcomer: the oldest that it may replace.
    fn victim(&mut self, set: u32, newcomer: Place) -> Option<Slot> {
        let RegionSets { lists, arrivals, regions, .. } = self;
        let popularity = regions.popularity(newcomer.region);
        // Below it there is no block of the newcomer's own region.
        let limit = regions.parameters().first_not_outranked(popularity);
        if arrivals.is_empty() {
            return lists.from_oldest(set).find(|&slot| {
                let place = lists.value(slot).place;
                let is_kin = place.region == newcomer.region;
                if is_kin {
                    regions.outranks_kin(newcomer, place)
                } else {
                    regions.popularity(place.region) < limit
                }
            });
        }
        let now = regions.now();
        let popularity_of = |slot| regions.popularity(lists.value(slot).place.region);
        let stranger = arrivals[set as usize].first_below(limit, now, popularity_of);
        let found = self.kin_before(stranger.unwrap_or(u32::MAX), set, newcomer).or(stranger);
        found.map(|position| self.arrivals[set as usize].slot(position))
    }

    /// The first position before `end` with a block of the newcomer's own region that gives way to it.
    fn kin_before(&self, end: u32, set: u32, newcomer: Place) -> Option<u32> {
        let regions = &self.regions;
        if !regions.may_outrank_kin(newcomer) {
            return None;
        }
        if regions.parameters().region_blocks > FEW_BLOCKS {
            let gives_way =
                |place: Place| place.region == newcomer.region && regions.outranks_kin(newcomer, place);
            let mut before = self.arrivals[set as usize].before(end);
            return before
                .find(|&(_, slot)| gives_way(self.lists.value(slot).place))
                .map(|(position, _)| position);
        }
        // A region may lie in several sets.
        let may_be_here = |block| self.lists.geometry().set_of(block) == set;
        let giving_way = regions.kin(newcomer).filter(|&(_, place)| regions.outranks_kin(newcomer, place));
        let slots = giving_way
            .filter(|&(block, _)| may_be_here(block))
            .filter_map(|(block, _)| self.slot_of(BlockIndex::hash(block), block));
        slots.map(|slot| self.lists.value(slot).position).filter(|&position| position < end).min()
    }

    #[inline]
    fn slot_of(&self, hash: u32, block: BlockNo) -> Option<Slot> {
        self.index.find(hash, |slot| self.regions.block(self.lists.value(slot).place) == block)
    }

    fn insert(&mut self, set: u32, hash: u32, place: Place) -> Slot {
        let slot = self.lists.insert(set, Resident { place, position: 0 });
        self.index.insert(hash, slot);
        self.regions.cache(place);
        if !self.arrivals.is_empty() {
            let popularity = self.regions.popularity(place.region);
            self.arrive(set, slot, popularity);
        }
        slot
    }

    /// A block that is the newest of its list is the last to have arrived, too.
    fn arrive(&mut self, set: u32, slot: Slot, popularity: u32) {
        let RegionSets { lists, arrivals, regions, .. } = self;
        let position = arrivals[set as usize].push(slot, popularity, regions.now(), |slot, position| {
            lists.value_mut(slot).position = position;
        });
        lists.value_mut(slot).position = position;
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
        let regions = Regions::new(Parameters {
            region_blocks: settings.integer("region_blocks") as u32,
            depth: settings.integer("tree_depth") as u32,
            alpha: settings.number("alpha"),
            interval: settings.integer("decay_interval"),
            factor: settings.number("factor"),
            most: settings.integer("most_regions") as u32,
        });
        RegionSets {
            index: BlockIndex::new(),
            lists: SetLists::new(geometry),
            arrivals: arrivals_of(&geometry),
            regions,
        }
    }

    #[inline]
    fn find(&self, hint: Hint, block: BlockNo) -> Option<Id> {
        sets::find(&self.index, &self.lists, hint, |resident| self.regions.block(resident.place) == block)
    }

    #[inline(always)]
    fn slot(&self, id: Id) -> Option<Slot> {
        Some(id)
    }

    #[inline]
    fn touch(&mut self, _: BlockNo, slot: Id) {
        self.regions.count_cached(self.lists.value(slot).place);
    }

    #[inline(always)]
    fn set_dirty(&mut self, slot: Id, dirty: bool) {
        self.lists.set_flag(slot, dirty);
    }

    fn admit<S: Sink>(
        &mut self,
        hash: u32,
        block: BlockNo,
        _: Option<Id>,
        sink: &mut S,
    ) -> Option<(Id, Slot)> {
        let place = self.regions.count(block);
        let set = self.lists.geometry().set_of(block);
        if self.lists.is_full(set) {
            let victim = self.victim(set, place)?;
            self.evict(victim, sink);
        }
        let slot = self.insert(set, hash, place);
        Some((slot, slot))
    }

    fn restore(&mut self, hash: u32, block: BlockNo, _: Option<Id>) -> Option<(Id, Slot)> {
        let set = self.lists.geometry().set_of(block);
        if self.lists.is_full(set) {
            return None;
        }
        let place = self.regions.place(block);
        let slot = self.insert(set, hash, place);
        Some((slot, slot))
    }

    fn remove(&mut self, block: BlockNo, slot: Id) {
        let Resident { place, position } = self.lists.value(slot);
        let set = self.lists.geometry().set_of(block);
        self.index.remove(BlockIndex::hash(block), slot);
        self.regions.uncache(place);
        if let Some(arrivals) = self.arrivals.get_mut(set as usize) {
            arrivals.remove(position, self.regions.now());
        }
        self.lists.remove(set, slot);
    }

    fn resize<S: Sink>(&mut self, blocks: u32, sink: &mut S) {
        let (sets, geometry) = (self.lists.geometry().sets(), self.lists.geometry().resized(blocks));
        let regions = &self.regions;
        self.lists.regroup(geometry, |resident| geometry.set_of(regions.block(resident.place)));
        let arrivals = arrivals_of(&geometry);
        if geometry.sets() != sets || arrivals.len() != self.arrivals.len() {
            self.arrivals = arrivals;
            for set in 0..self.arrivals.len() as u32 {
                let slots: Vec<Slot> = self.lists.from_oldest(set).collect();
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

    #[inline]
    fn announce(&self, block: BlockNo) -> Hint {
        self.regions.announce(block);
        Hint::announced(&self.index, block)
    }

    #[inline]
    fn locate<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut Hint)>) {
        for (block, hint) in blocks {
            hint.place = self.index.candidate(hint.hash);
            self.lists.prefetch(hint.place);
            self.regions.locate(block);
        }
    }

    /// A hit moves nothing.
    #[inline]
    fn follow(&self, _: impl Iterator<Item = (BlockNo, Hint)>) {}

    fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
            + self.lists.memory_bytes()
            + self.regions.memory_bytes()
            + self.arrivals.iter().map(Arrivals::memory_bytes).sum::<usize>()
    }
}
