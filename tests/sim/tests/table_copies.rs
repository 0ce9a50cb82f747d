//! Guarantee 4 for the two copies of a page of the place tables, whatever a volume is at: one of them is durable before the other one is
//! touched, so that a power cut takes only one; and what the journal calls durable of them is. Random work on one volume, with commands
//! that end in any order.

use std::collections::{BTreeMap, BTreeSet};

use lode_format::{CacheId, DeviceLayout, JournalPage, TableView};
use lode_sim::SimDisk;
use lode_store::{Metadata, MetadataOutcome, Output, Place, Store, VolumeSpec, VolumeStore};
use lode_types::{BlockSize, Rng};

/// A command under way. A flush covers the writes that had ended when it was sent.
enum UnderWay {
    Write(Metadata, u64),
    Flush(Metadata, BTreeSet<u64>),
}

/// One volume at work, and which of its table pages may be lost.
struct Work {
    store: VolumeStore,
    layout: DeviceLayout,
    free: Vec<u32>,
    /// Where each block is.
    places: BTreeMap<u64, Place>,
    under_way: Vec<UnderWay>,
    /// Table pages that were written and no flush covers.
    volatile: BTreeSet<u64>,
    /// The stamp of each table page's latest write.
    stamps: BTreeMap<u64, u64>,
    changes: u32,
    table_pages: u32,
    /// Journal pages that call table pages durable while others are not.
    told: u32,
    rng: Rng,
}

const EXTENTS: u32 = 5;
const CACHE: CacheId = CacheId([3; 16]);

impl Work {
    fn new(seed: u64) -> Work {
        const EXTENT_BYTES: u64 = 1 << 20;
        let bytes = DeviceLayout::HEADS_BYTES + u64::from(EXTENTS) * EXTENT_BYTES;
        let mut device = SimDisk::new(bytes);
        let block = BlockSize::new(4096).unwrap();
        let superblock = Store::format(&mut device, CACHE, block, Some(EXTENT_BYTES)).unwrap();
        let mut store = Store::open(&mut device).unwrap();
        let spec = VolumeSpec {
            name: "vm".to_owned(),
            backing_bytes: 1 << 30,
            places: 600,
            spare_places: 0,
            ready_places: u64::MAX,
            read_only: false,
            distrusts: None,
        };
        let (store, _) = store.attach(&mut device, &spec).unwrap().into_ordered_store();
        Work {
            free: (store.extents()..EXTENTS).collect(),
            store,
            layout: superblock.layout().unwrap(),
            places: BTreeMap::new(),
            under_way: Vec::new(),
            volatile: BTreeSet::new(),
            stamps: BTreeMap::new(),
            changes: 0,
            table_pages: 0,
            told: 0,
            rng: Rng::new(seed),
        }
    }

    /// The other copy, of an offset that is a table page's.
    fn twin(&self, offset_bytes: u64) -> Option<u64> {
        let extent = &self.layout.extent;
        let within = (offset_bytes - self.layout.extent_start(0)) % extent.extent_bytes;
        let (page, copy) = ((within / 8192) as u32, (within / 4096 % 2) as u8);
        let start = offset_bytes - within;
        (page < extent.table_pages).then(|| start + extent.table_page(page, 1 - copy))
    }

    fn stamp(&self, offset_bytes: u64, page: &[u8]) -> u64 {
        let (first, bytes) = (self.layout.extent_start(0), self.layout.extent.extent_bytes);
        let (extent, within) = ((offset_bytes - first) / bytes, (offset_bytes - first) % bytes);
        TableView::open(CACHE, self.store.tag(), extent as u32, (within / 8192) as u32, page).unwrap().stamp
    }

    /// What a journal page says of table pages is true when it is written.
    fn check_told(&mut self, page: &[u8]) {
        let told = JournalPage::decode(CACHE, page).unwrap().durable_tables;
        let written = self.under_way.iter().filter_map(|one| match one {
            UnderWay::Write(Metadata::TablePage, at) => Some(at),
            _ => None,
        });
        let not_durable: Vec<u64> =
            written.chain(&self.volatile).filter_map(|at| self.stamps.get(at)).copied().collect();
        assert!(not_durable.iter().all(|&stamp| stamp >= told), "{told} of {not_durable:?}");
        self.told += u32::from(told > 0 && !not_durable.is_empty());
    }

    fn take_outputs(&mut self) {
        while let Some(output) = self.store.next_output() {
            match output {
                Output::Flush { what } => {
                    self.under_way.push(UnderWay::Flush(what, self.volatile.clone()));
                }
                Output::Write { what, offset_bytes, buf } => {
                    match what {
                        Metadata::JournalPage => self.check_told(buf.as_slice()),
                        Metadata::TablePage => {
                            let stamp = self.stamp(offset_bytes, buf.as_slice());
                            self.stamps.insert(offset_bytes, stamp);
                        }
                        Metadata::NewTablePages => {
                            let new = offset_bytes..offset_bytes + buf.as_slice().len() as u64;
                            self.stamps.retain(|at, _| !new.contains(at));
                        }
                        _ => {}
                    }
                    if let Some(twin) = self.twin(offset_bytes)
                        && what != Metadata::NewTablePages
                    {
                        let is_written =
                            |one: &UnderWay| matches!(one, UnderWay::Write(_, at) if *at == twin);
                        assert!(
                            !self.volatile.contains(&twin) && !self.under_way.iter().any(is_written),
                            "a table page at {offset_bytes} is written while its other copy may be lost"
                        );
                        self.table_pages += 1;
                    }
                    self.under_way.push(UnderWay::Write(what, offset_bytes));
                }
            }
        }
    }

    /// One of the commands under way ends.
    fn end_one(&mut self) -> bool {
        if self.under_way.is_empty() {
            return false;
        }
        let at = self.rng.below(self.under_way.len() as u64) as usize;
        let what = match self.under_way.swap_remove(at) {
            UnderWay::Write(what, offset_bytes) => {
                if self.twin(offset_bytes).is_some() {
                    self.volatile.insert(offset_bytes);
                }
                what
            }
            UnderWay::Flush(what, covered) => {
                self.volatile.retain(|offset_bytes| !covered.contains(offset_bytes));
                what
            }
        };
        let outcome = self.store.done(what);
        if let MetadataOutcome::Durable(version) = outcome {
            assert!(version <= self.store.places().version());
        }
        self.take_outputs();
        true
    }

    fn put(&mut self) {
        let block = self.rng.below(220);
        let old = self.places.get(&block).copied();
        if self.store.places().free() == 0 || self.rng.chance(20) {
            return self.give_up(block);
        }
        let places = self.store.places_mut();
        let place = places.take();
        places.put(place, block, 9, true, false, old);
        self.places.insert(block, place);
    }

    /// Extents come or go, step by step.
    fn change(&mut self) {
        if let Some(change) = self.store.next_change() {
            let extents = change.extents.written.iter().chain(&change.extents.unwritten);
            let mine: BTreeSet<u32> = extents.copied().collect();
            self.free = (0..EXTENTS).filter(|extent| !mine.contains(extent)).collect();
            self.store.changed();
            self.changes += 1;
        } else if self.store.waits_for_turn() {
            self.store.begin_change();
        } else if !self.store.is_changing() {
            self.store.initialize();
            let wants_more = self.rng.chance(50) && self.store.retiring_extents().0 == 0;
            if self.store.is_changing() {
            } else if wants_more && !self.free.is_empty() {
                self.store.gain(vec![self.free[0]]);
            } else if self.store.extents() > 1 {
                self.store.circulate(self.store.extents() - 1, 0);
                self.leave();
                self.store.give_up_empty();
            }
        }
    }

    /// Gives up what is in extents that are to go.
    fn leave(&mut self) {
        let Some(from) = self.store.retiring_from() else { return };
        let leaving: Vec<u64> =
            self.places.iter().filter(|(_, place)| **place >= from).map(|(block, _)| *block).collect();
        leaving.into_iter().for_each(|block| self.give_up(block));
    }

    fn give_up(&mut self, block: u64) {
        let Some(place) = self.places.remove(&block) else { return };
        let places = self.store.places_mut();
        match places.is_dirty(place) {
            true => _ = places.give_up_dirty(place),
            false => places.give_up_clean(place),
        }
    }
}

#[test]
fn g4_one_copy_of_a_table_page_is_durable_before_the_other_one_is_touched() {
    let (mut changes, mut table_pages, mut told) = (0, 0, 0);
    for seed in 0..40 {
        let mut work = Work::new(seed);
        for _ in 0..3000 {
            match work.rng.below(100) {
                // Many, so that the journal is full before extents change hands, and a checkpoint is under way then.
                0..30 => (0..100).for_each(|_| work.put()),
                30..33 => work.change(),
                33..40 => work.store.want_commit(),
                _ => _ = work.end_one(),
            }
            let version = if work.rng.chance(10) { work.store.places().version() } else { 0 };
            work.store.commit(version, 0);
            work.take_outputs();
        }
        changes += work.changes;
        table_pages += work.table_pages;
        told += work.told;
    }
    println!(
        "{changes} changes of extents, {table_pages} table pages written, {told} times some called durable and not all"
    );
    assert!(changes > 400 && table_pages > 4000 && told > 400, "{changes} {table_pages} {told}");
}
