//! What a start of a large volume costs in memory and time, with empty tables, with full ones, and amid writes: a device that makes up its
//! metadata when it is read, so that nothing of its size has to exist. Time spent in the device is told apart.
//! `cargo bench -p lode-store --bench start -- 1024` measures a device of so many GiB; the usual is 64.

mod tables;

use std::time::{Duration, Instant};

use lode_allocations::{CountingAllocator, held_bytes, most_bytes, restart_most};
use lode_format::{CacheId, DeviceLayout, Directory, PAGE_BYTES, TablePage, VolumeTag};
use lode_store::{Store, SyncDevice, VolumeSpec};
use lode_types::{BlockSize, MediaError};

use tables::{FullRing, full_page};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const CACHE: CacheId = CacheId([1; 16]);
/// Blocks of the disk: four times as many as an SSD of 1 TiB has.
const DISK_BLOCKS: u64 = 1 << 30;

/// A device with made-up place tables, and nothing in its journals unless it has a ring.
struct MadeUp {
    size_bytes: u64,
    head: Vec<u8>,
    layout: Option<DeviceLayout>,
    tag: VolumeTag,
    is_full: bool,
    ring: Option<FullRing>,
    spent: Duration,
}

impl MadeUp {
    fn table(&self, extent: u32, page: u32, copy: u8) -> Box<[u8; PAGE_BYTES]> {
        let layout = self.layout.expect("tables are read of volumes that exist").extent;
        let table = match self.is_full {
            true => full_page(self.tag, &layout, (extent, page, copy), DISK_BLOCKS),
            false => TablePage::empty(self.tag, extent, page, 2 + u64::from(copy)),
        };
        table.encode(CACHE)
    }

    fn fill(&self, offset_bytes: u64, buf: &mut [u8]) {
        if let Some(head) = self.head.get(offset_bytes as usize..offset_bytes as usize + buf.len()) {
            return buf.copy_from_slice(head);
        }
        let Some(layout) = self.layout else { return buf.fill(0) };
        let within = offset_bytes - layout.extent_start(0);
        let extent = (within / layout.extent.extent_bytes) as u32;
        let first = within % layout.extent.extent_bytes / PAGE_BYTES as u64;
        for (number, page) in (first as u32..).zip(buf.chunks_exact_mut(PAGE_BYTES)) {
            let pair = (number / 2).checked_sub(layout.extent.table_pages);
            match (pair, &self.ring) {
                (None, _) => page.copy_from_slice(&self.table(extent, number / 2, (number % 2) as u8)[..]),
                (Some(pair), Some(ring)) if pair < layout.extent.journal_pairs => {
                    let number = u64::from(extent) * u64::from(layout.extent.journal_pairs) + u64::from(pair);
                    page.copy_from_slice(&ring.page(number).encode(CACHE)[..]);
                }
                _ => page.fill(0),
            }
        }
    }
}

impl SyncDevice for MadeUp {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let began = Instant::now();
        self.fill(offset_bytes, buf);
        self.spent += began.elapsed();
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        if let Some(head) = self.head.get_mut(offset_bytes as usize..offset_bytes as usize + bytes.len()) {
            head.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        Ok(())
    }
}

fn attach(device: &mut MadeUp, places: u64, ready_places: u64, what: &str) {
    let spec = VolumeSpec {
        name: "vm".to_owned(),
        backing_bytes: DISK_BLOCKS * BlockSize::KIB_4.bytes(),
        places,
        spare_places: 0,
        ready_places,
        read_only: false,
        distrusts: None,
    };
    let before = held_bytes();
    restart_most();
    device.spent = Duration::ZERO;
    let began = Instant::now();
    let mut view = lode_store::StoreView::read(device).expect("it was formatted");
    view.count_as_durable();
    let mut store = Store::begin(device, view).expect("it was formatted");
    let attached = store.attach(device, &spec).expect("there is room");
    let seconds = (began.elapsed() - device.spent).as_secs_f64();
    let (blocks, dirty) = attached.recovered_blocks();
    let most = most_bytes() - before;
    device.tag = attached.tag();
    let (volume, order) = attached.into_ordered_store();
    drop(order);
    let kept = held_bytes() - before;
    println!(
        "{what}: {seconds:.2} s, {:.2} s of the device; {blocks} blocks, {dirty} dirty; {:.2} bytes a place afterwards, {:.2} \
         at most",
        device.spent.as_secs_f64(),
        kept as f64 / places as f64,
        most as f64 / places as f64,
    );
    drop(volume);
}

fn main() {
    let gib: u64 = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(64);
    let head = vec![0; DeviceLayout::directory(1) as usize + Directory::COPY_BYTES];
    let mut device = MadeUp {
        size_bytes: gib << 30,
        head,
        layout: None,
        tag: VolumeTag(0),
        is_full: false,
        ring: None,
        spent: Duration::ZERO,
    };
    let superblock = Store::format(&mut device, CACHE, BlockSize::KIB_4, None).expect("it fits");
    let layout = superblock.layout().expect("it was formatted");
    let places = u64::from(layout.extents) * u64::from(layout.extent.places);
    println!("{gib} GiB, {} extents, {places} places", layout.extents);
    let ready_places = VolumeSpec::READY_BYTES / BlockSize::KIB_4.bytes();
    attach(&mut device, places, ready_places, "a new volume");
    device.layout = Some(layout);
    attach(&mut device, places, ready_places, "an empty one");
    attach(&mut device, places, u64::MAX, "all initialized at once");
    attach(&mut device, places, ready_places, "empty tables");
    device.is_full = true;
    attach(&mut device, places, ready_places, "full tables");
    let copies =
        [0, 1].map(|copy| &device.head[DeviceLayout::directory(copy) as usize..][..Directory::COPY_BYTES]);
    let directory = Directory::newest(CACHE, copies).expect("it was formatted");
    let number = directory.volumes.iter().flatten().map(|volume| volume.ring).next().expect("there is one");
    let extents = (0..layout.extents).collect();
    let (volume, blocks, amid_writes) = (device.tag, DISK_BLOCKS, true);
    device.ring = Some(FullRing { volume, number, layout, extents, blocks, amid_writes });
    attach(&mut device, places, ready_places, "amid writes");
}
