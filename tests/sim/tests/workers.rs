//! A start whose table pages are taken in on several threads finds and writes what one on a single thread does (guarantees 1, 2 and 5), also
//! where pages are damaged or blocks are in several places.

use std::thread;

use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, flush, machine, write};
use lode_sim::{Machine, SimDisk, World};
use lode_store::{HeldBlock, PagesRead, Place, Store, StoreView, SyncDevice, Task, Workers};
use lode_types::{MediaError, Rng};

/// A thread for each task.
struct Threads;

impl Workers for Threads {
    fn run(&self, tasks: &mut [Task<'_>]) {
        thread::scope(|scope| {
            for task in tasks {
                scope.spawn(task);
            }
        });
    }
}

struct OnThreads<'a>(&'a mut SimDisk, usize);

impl SyncDevice for OnThreads<'_> {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.0.read(offset_bytes, buf)
    }

    fn read_pages_beside(
        &mut self,
        parts: &mut [(u64, &mut [u8])],
        meanwhile: &mut dyn FnMut(&dyn Workers),
    ) -> PagesRead {
        self.1 = parts.len().max(self.1);
        let result = self.read_pages_at_once(parts);
        meanwhile(&Threads);
        result
    }

    fn with_workers(&self, work: &mut dyn FnMut(&dyn Workers)) {
        work(&Threads);
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.0.write(offset_bytes, bytes)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.0.flush()
    }
}

/// What a start finds in places and in order, or why it is refused.
type Found = Result<(Vec<(Place, HeldBlock)>, Vec<Place>), String>;

fn start(device: &mut dyn SyncDevice, machine: &Machine) -> Found {
    let attached = Store::open(&mut *device).and_then(|mut store| store.attach(device, &machine.spec()));
    let (store, order) = attached.map_err(|error| error.to_string())?.into_ordered_store();
    Ok((store.places().held_all().collect(), order))
}

fn bytes_of(disk: &SimDisk) -> Vec<u8> {
    let mut bytes = vec![0; disk.size_bytes() as usize];
    disk.peek(0, &mut bytes);
    bytes
}

/// Offsets of pages of place tables, in pairs.
fn table_pages(disk: &mut SimDisk) -> Vec<[u64; 2]> {
    let view = StoreView::read(disk).unwrap();
    let layout = view.superblock().layout().unwrap();
    let pages = (0..layout.extents).flat_map(|extent| {
        (0..layout.extent.table_pages).map(move |page| {
            [0, 1].map(|copy| layout.extent_start(extent) + layout.extent.table_page(page, copy))
        })
    });
    pages.collect()
}

#[test]
fn g1_g5_tables_that_are_taken_in_at_once_are_as_those_taken_in_one_by_one() {
    let mut machine = machine("lru", &["write_policy=wb"], Quota::new(0, 6_000));
    (machine.ssd_bytes, machine.config.volume_bytes) = (32 << 20, 48 << 20);
    let (mut most_at_once, mut refused, mut held) = (0, 0, 0);
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let mut world = World::new(machine.clone(), seed).unwrap();
        for number in 0..400 {
            write(&mut world, rng.below(10_000) * BLOCK, (1 + rng.below(16)) * BLOCK, number as u8).unwrap();
            if number % 40 == 0 {
                flush(&mut world).unwrap();
            }
        }
        world.go_down(seed % 2 == 0);
        let tables = table_pages(&mut world.ssd);
        // Of some pages a copy is damaged, and in one run of four both copies of one.
        for pair in tables.iter().filter(|_| rng.below(6) == 0).collect::<Vec<_>>() {
            world.ssd.flip_bit(pair[rng.below(2) as usize] + 200, 3);
        }
        if seed % 4 == 3 {
            tables[rng.below(tables.len() as u64 / 2) as usize]
                .iter()
                .for_each(|&at| world.ssd.flip_bit(at + 300, 1));
        }
        let (mut one, mut other) = (world.ssd.clone(), world.ssd);
        let mut on_threads = OnThreads(&mut other, 0);
        let (found, expected) = (start(&mut on_threads, &machine), start(&mut one, &machine));
        most_at_once = on_threads.1.max(most_at_once);
        assert_eq!(found, expected, "seed {seed}");
        assert!(bytes_of(&one) == bytes_of(&other), "seed {seed}");
        refused += u32::from(found.is_err());
        held += found.map_or(0, |(places, _)| places.len());
    }
    assert!(
        most_at_once > 4 && refused > 0 && held > 10_000,
        "{most_at_once} at once, {refused} refused, {held} held"
    );
}
