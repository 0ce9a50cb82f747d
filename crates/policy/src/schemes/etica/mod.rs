//! ETICA: a read-only DRAM level over a write-buffering SSD level for one VM (ETICA sections 3 and 4;
//! our readings of its ambiguities are in `docs/schemes/etica.md`).
//!
//! * DRAM holds clean blocks only. A read that misses DRAM is copied into it; a write invalidates.
//! * The SSD takes writes. What it does with a write to a block it does not hold is the *mode*.
//! * In the `full` modes nothing leaves the SSD on demand. Every promotion interval the most popular
//!   blocks outside take the place of the least popular blocks inside.
//! * The policy-optimised reuse distance (POD) of the stream is measured as it passes; the sizer asks for
//!   it at every sizing interval.

mod config;
mod heap;
mod npe;
mod pod;
mod popularity;
mod promote;
mod records;
mod sampled_pods;
mod sets;
mod table;
mod worst;

use lode_types::{Access, BlockNo, Direction, Level};

use self::config::{Config, Mode, TABLES, check_alone, host_interval, remembered_blocks, track_limit};
pub use self::npe::Npe;
use self::pod::Pods;
use self::popularity::Popularity;
use self::records::LAST_NUMBER;
use self::sets::SsdSets;
use self::table::Table;
use crate::effect::{Effect, Sink, Slot};
use crate::interval::Interval;
use crate::parts::lists::SetLists;
use crate::prefetch::{Lookahead, Prefetch, PrefetchHint};
use crate::quota::Quota;
use crate::registry::{AnyScheme, SchemeInfo};
use crate::scheme::{HostTimed, LevelDemand, Points, Scheme, Sizing};
use crate::settings::Settings;
use crate::tracked::Footprint;

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "etica",
    about: "read-only DRAM over a write-buffering SSD, shares by policy-optimised reuse distance; in its \
            full modes promotion and eviction by popularity",
    source: "ETICA",
    tables: TABLES,
    build: |settings, physical, quota| {
        let config = Config::new(settings);
        match config.needs_history() {
            true => AnyScheme::Etica(Box::new(Etica::new(settings, physical, quota))),
            false => AnyScheme::EticaNpe(Box::new(Npe::new(settings, &config, physical, quota))),
        }
    },
    footprint: Footprint::new(88 << 10, 40)
        .with_history(72)
        .with_sets(128)
        .remembering(|settings, _, physical| remembered_blocks(settings, physical)),
    levels: &[Level::Dram, Level::Ssd],
    variants: &["promotion_clock", "evict", "popularity", "window"],
    alone: check_alone,
    host_interval,
    ..SchemeInfo::PLAIN
};

/// Blocks whose history the processor's caches keep near by themselves: following their links ahead of time would cost more
/// than it brings. Measured, see `docs/performance/2026-11-22.md`.
const NEAR_BLOCKS: usize = 1 << 18;

/// One VM's ETICA cache.
#[derive(Debug)]
pub struct Etica {
    config: Config,
    table: Table,
    dram: SetLists<u32>,
    ssd: SsdSets,
    pods: Pods,
    popularity: Popularity,
    quota: Quota,
    accesses_in_window: u64,
    writes_in_window: u64,
    promotions: Interval,
    /// Number of the latest access, from 1.
    now: u32,
    /// Number of the first access of the promotion interval.
    interval_start: u32,
}

impl Etica {
    /// A cache with this share. `physical` is what the host has of each level, which bounds the share
    /// the VM may ever get and so the history worth keeping.
    pub fn new(settings: &Settings, physical: Quota, quota: Quota) -> Etica {
        let config = Config::new(settings);
        let limit = track_limit(settings, physical);
        Etica {
            table: Table::new(limit),
            dram: SetLists::new(config.geometry(quota.dram_blocks)),
            ssd: SsdSets::new(config.geometry(quota.ssd_blocks), config.mode != Mode::Npe),
            pods: Pods::new(&config),
            popularity: Popularity::new(&config),
            quota,
            accesses_in_window: 0,
            writes_in_window: 0,
            promotions: config.promotion_interval(),
            now: 0,
            interval_start: 1,
            config,
        }
    }

    /// The record of `block`, new or known. A table at its limit forgets an old block that neither
    /// level holds.
    #[inline]
    fn record_of(&mut self, block: BlockNo, hint: PrefetchHint) -> u32 {
        if let Some(id) = self.table.find(hint, block) {
            return id;
        }
        if self.table.is_at_limit()
            && let Some(old) = self.table.oldest_outside(self.interval_start)
        {
            self.forget_record(old);
        }
        self.table.insert(hint.hash, block)
    }

    /// Gives an access the next number.
    #[inline]
    fn note_access(&mut self, id: u32) {
        if self.now == LAST_NUMBER {
            self.renumber();
        }
        self.now += 1;
        let record = &mut self.table.records[id as usize];
        self.popularity.inside.access(record, id);
        record.set_seen(self.now);
    }

    /// Gives last accesses new numbers, in the same order, when there are no more.
    #[cold]
    fn renumber(&mut self) {
        (self.now, self.interval_start) = self.table.renumber(self.interval_start);
        self.popularity.inside.clear();
        self.ssd.fill_heaps(&self.table.records);
    }

    /// Forgets all that is known of a block that neither level holds.
    fn forget_record(&mut self, id: u32) {
        self.pods.forget(&self.table.records[id as usize], id);
        self.popularity.untrack(&mut self.table.records, id);
        self.table.remove(id);
    }

    fn read<S: Sink>(&mut self, id: u32, sink: &mut S) {
        let record = &mut self.table.records[id as usize];
        let (block, in_dram, in_ssd) = (record.block, record.dram_slot(), record.ssd_slot());
        let pod = self.pods.read(record, id, in_dram.is_some());
        self.popularity.add(record, id, pod, self.quota.ssd_blocks);
        let set = self.dram.geometry().set_of(block);
        if let Some(slot) = in_dram {
            self.dram.touch(set, slot);
            sink.effect(Effect::ReadLevel { level: Level::Dram, slot });
            return;
        }
        match in_ssd {
            Some(slot) => {
                self.ssd.touch(block, slot);
                sink.effect(Effect::ReadLevel { level: Level::Ssd, slot });
            }
            None => sink.effect(Effect::ReadBacking),
        }
        self.fill_dram(id, set, sink);
    }

    fn fill_dram<S: Sink>(&mut self, id: u32, set: u32, sink: &mut S) {
        let slot = if self.dram.is_full(set) {
            let Some((slot, old, _)) = self.dram.replace_oldest(set, id) else { return };
            let old = &mut self.table.records[old as usize];
            old.set_dram_slot(None);
            sink.effect(Effect::Evict { level: Level::Dram, slot, block: old.block, dirty: false });
            slot
        } else {
            self.dram.insert(set, id)
        };
        self.table.records[id as usize].set_dram_slot(Some(slot));
        sink.effect(Effect::Fill { level: Level::Dram, slot });
    }

    fn evict_from_dram<S: Sink>(&mut self, set: u32, sink: &mut S) {
        if let Some(slot) = self.dram.oldest(set) {
            let block = self.drop_from_dram(self.dram.value(slot));
            sink.effect(Effect::Evict { level: Level::Dram, slot, block, dirty: false });
        }
    }

    fn drop_from_dram(&mut self, id: u32) -> BlockNo {
        let record = &mut self.table.records[id as usize];
        let block = record.block;
        if let Some(slot) = record.dram_slot() {
            record.set_dram_slot(None);
            self.dram.remove(self.dram.geometry().set_of(block), slot);
        }
        block
    }

    fn write<S: Sink>(&mut self, id: u32, partial: bool, sink: &mut S) {
        let record = &mut self.table.records[id as usize];
        let (block, in_dram, in_ssd) = (record.block, record.dram_slot(), record.ssd_slot());
        let pod = self.pods.write(record, id);
        self.popularity.add(record, id, pod, self.quota.ssd_blocks);
        let slot = in_ssd.or_else(|| self.allocate_for_write(id, sink));
        if let Some(slot) = slot {
            if partial {
                sink.effect(match (in_dram, in_ssd) {
                    (Some(slot), _) => Effect::MergeLevel { level: Level::Dram, slot },
                    (None, Some(slot)) => Effect::MergeLevel { level: Level::Ssd, slot },
                    (None, None) => Effect::MergeBacking,
                });
            }
            self.ssd.touch(block, slot);
            self.table.records[id as usize].set_dirty(true);
        }
        if let Some(slot) = in_dram {
            self.drop_from_dram(id);
            sink.effect(Effect::Invalidate { level: Level::Dram, slot });
        }
        sink.effect(match slot {
            Some(slot) => Effect::WriteLevel { level: Level::Ssd, slot, hit: in_ssd.is_some(), dirty: true },
            None => Effect::WriteBacking,
        });
    }

    /// What the mode does with a write to a block that the SSD does not hold.
    fn allocate_for_write<S: Sink>(&mut self, id: u32, sink: &mut S) -> Option<Slot> {
        let set = self.ssd.lists.geometry().set_of(self.table.records[id as usize].block);
        if self.config.mode == Mode::FullStrict || self.ssd.lists.is_closed(set) {
            return None;
        }
        if self.ssd.lists.is_full(set) {
            if self.config.mode != Mode::Npe {
                return None;
            }
            let victim = self.ssd.lists.oldest(set)?;
            self.evict_from_ssd(victim, sink);
        }
        Some(self.put_in_ssd(id))
    }

    fn put_in_ssd(&mut self, id: u32) -> Slot {
        self.popularity.enter(&mut self.table.records, id);
        let record = &mut self.table.records[id as usize];
        let slot = self.ssd.insert(record, id);
        record.set_ssd_slot(slot);
        slot
    }

    fn evict_from_ssd<S: Sink>(&mut self, slot: Slot, sink: &mut S) {
        let id = self.ssd.lists.value(slot);
        let dirty = self.table.records[id as usize].is_dirty();
        let block = self.drop_from_ssd(id, slot);
        sink.effect(Effect::Evict { level: Level::Ssd, slot, block, dirty });
    }

    fn drop_from_ssd(&mut self, id: u32, slot: Slot) -> BlockNo {
        let block = self.table.records[id as usize].block;
        self.ssd.remove(block, slot);
        self.table.records[id as usize].clear_ssd();
        self.popularity.leave(&mut self.table.records, id);
        block
    }

    #[inline(never)]
    fn end_interval<S: Sink>(&mut self, sink: &mut S) {
        self.interval_start = self.now + 1;
        if self.config.promotes() {
            self.promote(sink);
        }
    }

    fn shrink_ssd<S: Sink>(&mut self, sink: &mut S) {
        let geometry = *self.ssd.lists.geometry();
        for set in 0..geometry.sets() {
            while self.ssd.lists.len_of(set) > geometry.ways(set) {
                let victim = self.ssd.least_wanted(set, &self.table.records);
                self.evict_from_ssd(victim.slot, sink);
            }
        }
    }

    fn find(&self, block: BlockNo) -> Option<u32> {
        self.table.find(PrefetchHint::new(block), block)
    }
}

impl Prefetch for Etica {
    #[inline]
    fn prefetch_index(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        blocks.for_each(|(_, hint)| self.table.index.prefetch(hint.hash));
    }

    #[inline]
    fn prefetch_entries<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {
        let are_links_far = self.are_links_far();
        for (block, hint) in blocks {
            hint.entry = self.table.index.candidate(hint.hash);
            self.table.records.prefetch(hint.entry);
            if are_links_far {
                self.dram.prefetch(self.dram_victim(block));
            }
        }
    }

    #[inline]
    fn prefetch_neighbours(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        if self.are_links_far() {
            self.prefetch_links(blocks);
        }
    }
}

impl Sizing for Etica {
    fn demand(&mut self, points: Points) -> [LevelDemand; 2] {
        let accesses = std::mem::take(&mut self.accesses_in_window);
        let mut demands = self.pods.close_window(accesses, points);
        demands[Level::Ssd.index()].buffered_writes = std::mem::take(&mut self.writes_in_window);
        demands
    }
}

impl HostTimed for Etica {
    fn end_host_interval(&mut self, mut sink: &mut dyn Sink) {
        self.end_interval(&mut sink);
    }
}

impl Lookahead for Etica {
    #[inline]
    fn access_prefetched<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        self.pods.make_room(&mut self.table.records);
        self.accesses_in_window += 1;
        self.writes_in_window += u64::from(access.op == Direction::Write);
        let id = self.record_of(access.block, hint);
        self.note_access(id);
        match access.op {
            Direction::Read => self.read(id, sink),
            Direction::Write => self.write(id, access.partial, sink),
        }
    }
}

impl Scheme for Etica {
    #[inline]
    fn access<S: Sink>(&mut self, access: Access, sink: &mut S) {
        self.access_prefetched(access, PrefetchHint::new(access.block), sink);
    }

    #[inline]
    fn end_request<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        if self.promotions.ends_with(now_ns) {
            self.end_interval(sink);
        }
    }

    fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        let Some(id) = self.find(block) else { return };
        let record = self.table.records[id as usize];
        if let Some(slot) = record.dram_slot() {
            self.drop_from_dram(id);
            sink.effect(Effect::Invalidate { level: Level::Dram, slot });
        }
        if let Some(slot) = record.ssd_slot() {
            self.drop_from_ssd(id, slot);
            sink.effect(Effect::Invalidate { level: Level::Ssd, slot });
        }
        self.forget_record(id);
    }

    fn forget(&mut self, level: Level, block: BlockNo) {
        let Some(id) = self.find(block) else { return };
        match (level, self.table.records[id as usize].ssd_slot()) {
            (Level::Dram, _) => {
                self.drop_from_dram(id);
            }
            (Level::Ssd, Some(slot)) => {
                self.drop_from_ssd(id, slot);
            }
            (Level::Ssd, None) | (Level::ReadSsd, _) => {}
        }
    }

    fn cleaned(&mut self, block: BlockNo) {
        if let Some(id) = self.find(block) {
            self.table.records[id as usize].set_dirty(false);
        }
    }

    fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        let set = self.ssd.lists.geometry().set_of(block);
        if self.ssd.lists.is_full(set) || self.find(block).is_some_and(|id| self.holds(id)) {
            return None;
        }
        let id = self.record_of(block, PrefetchHint::new(block));
        self.note_access(id);
        let slot = self.put_in_ssd(id);
        self.table.records[id as usize].set_dirty(dirty);
        Some(slot)
    }

    fn expect(&mut self, blocks: u32) {
        self.table.expect(blocks.min(self.quota.ssd_blocks));
    }

    fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        self.quota = quota;
        let records = &self.table.records;
        let dram = self.dram.geometry().resized(quota.dram_blocks);
        self.dram.regroup(dram, |id| dram.set_of(records[id as usize].block));
        self.ssd.resize(quota.ssd_blocks, records);
        for set in 0..dram.sets() {
            while self.dram.len_of(set) > dram.ways(set) {
                self.evict_from_dram(set, sink);
            }
        }
        self.shrink_ssd(sink);
    }

    fn quota(&self) -> Quota {
        self.quota
    }

    fn resident_blocks(&self, level: Level) -> u32 {
        match level {
            Level::Dram => self.dram.len(),
            Level::Ssd => self.ssd.lists.len(),
            Level::ReadSsd => 0,
        }
    }

    fn sizing(&mut self) -> Option<&mut dyn Sizing> {
        if self.config.measures_demand { Some(self) } else { None }
    }

    fn host_timed(&mut self) -> Option<&mut dyn HostTimed> {
        if self.config.is_by_host() { Some(self) } else { None }
    }

    fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
            + self.dram.memory_bytes()
            + self.ssd.memory_bytes()
            + self.pods.memory_bytes()
            + self.popularity.memory_bytes()
    }
}

impl Etica {
    fn holds(&self, id: u32) -> bool {
        self.table.records[id as usize].ssd_slot().is_some()
    }

    /// Whether it pays to load what the records lead to ahead of time.
    fn are_links_far(&self) -> bool {
        self.table.records.len() > NEAR_BLOCKS
    }

    /// Loads what the records lead to: places on the timelines, and the DRAM slot that will move to the front of its
    /// set with its neighbours.
    fn prefetch_links(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        let slots = blocks.map(|(block, hint)| {
            let victim = self.dram_victim(block);
            let Some(record) = self.table.records.get(hint.entry) else { return victim };
            self.pods.prefetch(record);
            let slot = record.dram_slot_or(victim);
            self.dram.prefetch(slot);
            slot
        });
        for slot in slots.collect::<Vec<_>>() {
            if let Some(id) = self.dram.prefetch_neighbours(slot) {
                self.table.records.prefetch(id);
            }
        }
    }

    /// The DRAM slot that gives way when `block` enters.
    #[inline]
    fn dram_victim(&self, block: BlockNo) -> Slot {
        self.dram.next_to_leave(self.dram.geometry().set_of(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::SchemeInfo;

    fn popular(evict: &str) -> Etica {
        let mut settings = SchemeInfo::find("etica").expect("a scheme").settings();
        let pairs =
            ["mode=full-hybrid", "popularity=any", "promotion_interval=20", "assoc=16", "queue_percent=20"];
        pairs.iter().for_each(|pair| settings.set_pair(pair).expect("a setting"));
        settings.set("evict", evict).expect("a setting");
        let quota = Quota::new(10, 40);
        Etica::new(&settings, quota, quota)
    }

    /// One that has counted nearly as many accesses as it can gives them new numbers soon, and many times, and does the same
    /// as one that does not have to.
    #[test]
    fn new_numbers_of_accesses_change_nothing() {
        for evict in ["swap", "literal"] {
            let (mut young, mut old) = (popular(evict), popular(evict));
            let (mut random, mut promoted) = (1u64, 0);
            for access in 0..6000 {
                if access % 700 == 600 {
                    // As if so many others had passed.
                    old.now += LAST_NUMBER - old.now - 50;
                }
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let block = ((random >> 33) % 150) * ((random >> 50) % 2) + (random >> 40) % 60;
                let access = if (random >> 60) < 6 { Access::write(block) } else { Access::read(block) };
                let effects = [&mut young, &mut old].map(|etica| {
                    let mut effects = Vec::new();
                    etica.access(access, &mut effects);
                    etica.end_request(0, &mut effects);
                    effects
                });
                assert_eq!(effects[0], effects[1]);
                promoted += effects[0].iter().filter(|effect| matches!(effect, Effect::Copy { .. })).count();
            }
            assert!(promoted > 100, "{promoted}");
            assert!(old.now < 10_000, "{}", old.now);
        }
    }
}
