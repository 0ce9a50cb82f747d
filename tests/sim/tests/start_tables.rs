//! Guarantees 2 and 6 for the two copies of a page of the place tables at a start: of those that it writes, one is as it was until the other one
//! is durable, and both say the same afterwards. A page that goes on being right is not changed.

use std::collections::{BTreeMap, BTreeSet};

use lode_format::{
    CacheId, DeviceLayout, Directory, ENTRIES_PER_PAGE, EntryState, PAGE_BYTES, TableEntry, TablePage,
    VolumeTag,
};
use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, flush, machine, write};
use lode_sim::{Machine, Rng, SimDisk, World};
use lode_store::{Store, StoreView, SyncDevice};
use lode_types::MediaError;

/// Looks at what a start writes to table pages.
struct Watching<'a> {
    disk: &'a mut SimDisk,
    /// Of each page where its other copy is.
    twins: &'a BTreeMap<u64, u64>,
    /// Copies that have other bytes than at the last flush.
    changed: BTreeSet<u64>,
    /// Copies that got other bytes, and those that were written as they were.
    counts: [u64; 2],
}

impl SyncDevice for Watching<'_> {
    fn size_bytes(&self) -> u64 {
        self.disk.size_bytes()
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.disk.read(offset_bytes, buf)
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        for (at, page) in (offset_bytes..).step_by(PAGE_BYTES).zip(bytes.chunks(PAGE_BYTES)) {
            let Some(twin) = self.twins.get(&at) else { continue };
            let is_other = page_at(self.disk, at) != page;
            if is_other {
                assert!(
                    !self.changed.contains(twin),
                    "both copies of the page at {at} change before a flush"
                );
                self.changed.insert(at);
            }
            self.counts[usize::from(!is_other)] += 1;
        }
        self.disk.write(offset_bytes, bytes)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.changed.clear();
        self.disk.flush()
    }
}

fn page_at(disk: &SimDisk, at: u64) -> [u8; PAGE_BYTES] {
    let mut page = [0; PAGE_BYTES];
    disk.peek(at, &mut page);
    page
}

/// The pages of a volume's tables: where both copies are, the extent and the number there.
struct Tables {
    cache: CacheId,
    tag: VolumeTag,
    pages: Vec<([u64; 2], u32, u32)>,
}

impl Tables {
    fn of(disk: &mut SimDisk) -> Tables {
        let view = StoreView::read(disk).unwrap();
        let (cache, layout) = (view.superblock().cache, view.superblock().layout().unwrap());
        let tag = view.volumes().next().expect("there is one").tag;
        let copies = [0, 1].map(|copy| {
            let mut bytes = vec![0; Directory::COPY_BYTES];
            disk.peek(DeviceLayout::directory(copy), &mut bytes);
            bytes
        });
        let directory = Directory::newest(cache, [&copies[0], &copies[1]]).unwrap();
        let of_extent = |extent: u32| {
            let at = move |page, copy| layout.extent_start(extent) + layout.extent.table_page(page, copy);
            (0..layout.extent.table_pages).map(move |page| ([at(page, 0), at(page, 1)], extent, page))
        };
        let pages = directory.extents_of(0).written.into_iter().flat_map(of_extent).collect();
        Tables { cache, tag, pages }
    }

    fn twins(&self) -> BTreeMap<u64, u64> {
        self.pages.iter().flat_map(|&([one, other], ..)| [(one, other), (other, one)]).collect()
    }

    fn copies(&self, disk: &SimDisk, &(at, extent, page): &([u64; 2], u32, u32)) -> [TablePage; 2] {
        at.map(|at| TablePage::decode(self.cache, self.tag, extent, page, &page_at(disk, at)).unwrap())
    }

    /// Of some pages the newer copy says what it does in other words.
    fn say_it_otherwise(&self, disk: &mut SimDisk, rng: &mut Rng) {
        for page in self.pages.iter().filter(|_| rng.chance(30)).collect::<Vec<_>>() {
            let copies = self.copies(disk, page);
            let newer = usize::from(copies[1].sequence > copies[0].sequence);
            let mut table = copies[newer].clone();
            for entry in table.entries.iter_mut().filter(|entry| entry.state == EntryState::Free) {
                entry.block = rng.below(1000);
            }
            disk.write(page.0[newer], &table.encode(self.cache)[..]).unwrap();
        }
        disk.flush().unwrap();
    }

    /// Both copies of each page say the same of what there is.
    fn check(&self, disk: &SimDisk) {
        for page in &self.pages {
            let said = self.copies(disk, page).map(|table| {
                let of_place = |entry: &TableEntry| match entry.state {
                    EntryState::Free => TableEntry::default(),
                    _ => TableEntry { version: 0, ..*entry },
                };
                table.entries.iter().map(of_place).collect::<Vec<_>>()
            });
            assert_eq!(said[0].len(), ENTRIES_PER_PAGE);
            assert!(said[0] == said[1], "page {} of extent {}", page.2, page.1);
        }
    }
}

fn large() -> Machine {
    let mut machine = machine("lru", &["write_policy=wb"], Quota::new(0, 6_000));
    (machine.ssd_bytes, machine.config.volume_bytes) = (32 << 20, 48 << 20);
    machine
}

#[test]
fn g2_g6_a_start_changes_one_copy_of_a_table_page_before_the_other_and_leaves_both_right() {
    let mut sum = [0, 0];
    for seed in 0..24 {
        let mut rng = Rng::new(seed);
        let mut world = World::new(large(), seed).unwrap();
        // With many the ring has come to a checkpoint.
        for number in 0..[40, 400, 1500][seed as usize % 3] {
            write(&mut world, rng.below(10_000) * BLOCK, (1 + rng.below(16)) * BLOCK, number as u8).unwrap();
            if number % 20 == 0 {
                flush(&mut world).unwrap();
            }
        }
        world.go_down(seed % 2 == 0);
        let mut disk = world.ssd;
        let tables = Tables::of(&mut disk);
        let in_other_words = seed % 4 < 2;
        if in_other_words {
            tables.say_it_otherwise(&mut disk, &mut rng);
        }
        let twins = tables.twins();
        let (changed, counts) = (BTreeSet::new(), [0, 0]);
        let mut watching = Watching { disk: &mut disk, twins: &twins, changed, counts };
        let mut store = Store::open(&mut watching).unwrap();
        store.attach(&mut watching, &large().spec()).unwrap();
        sum = [sum[0] + watching.counts[0], sum[1] + watching.counts[1]];
        tables.check(&disk);
        if in_other_words {
            continue;
        }
        // Nothing is left to be done for the next one.
        let mut watching =
            Watching { disk: &mut disk, twins: &twins, changed: BTreeSet::new(), counts: [0, 0] };
        let mut store = Store::open(&mut watching).unwrap();
        store.attach(&mut watching, &large().spec()).unwrap();
        assert_eq!(watching.counts[0], 0, "seed {seed}");
    }
    println!("{} copies of pages changed, {} written as they were", sum[0], sum[1]);
    assert!(sum[0] > 1000 && sum[1] > 1000, "{sum:?}");
}
