//! A pair of SSDs in memory with one volume: what a check says of it when either SSD rots or cannot be read, and what mending leaves when it is cut
//! short anywhere.

use lode_format::{CacheId, PairLabel, TablePage, VolumeTag};
use lode_types::{BlockSize, MediaError};

use super::*;
use crate::pair::{MEMBERS, Pair, PairArray, PairDevice, probe_pair};
use crate::spec::VolumeSpec;

const BLOCK: u64 = 4096;
const SSD_BYTES: u64 = 9 << 20;
/// The first of these are clean, the others dirty.
const CLEAN: u64 = 20;
const BLOCKS: u64 = 60;
/// Places between two blocks, so that they lie on several stripes of the pair.
const APART: u64 = 3;

/// What an SSD does not do any more.
#[derive(Clone, Default)]
struct Faults {
    /// Pages that cannot be read.
    unreadable: Vec<u64>,
    /// Writes and flushes until one fails.
    until_failure: Option<u32>,
    /// It is never written again.
    is_read_only: bool,
}

#[derive(Clone)]
struct Memory {
    bytes: Vec<u8>,
    faults: Faults,
    writes: u32,
}

impl Memory {
    fn change(&mut self) -> Result<(), MediaError> {
        self.writes += 1;
        let left = self.faults.until_failure.as_mut();
        let is_last = left.is_some_and(|left| {
            *left = left.wrapping_sub(1);
            *left == u32::MAX
        });
        if is_last || self.faults.is_read_only { Err(MediaError::Io) } else { Ok(()) }
    }
}

impl SyncDevice for Memory {
    fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let range = offset_bytes..offset_bytes + buf.len() as u64;
        if self.faults.unreadable.iter().any(|at| range.contains(at)) {
            return Err(MediaError::Io);
        }
        buf.copy_from_slice(&self.bytes[range.start as usize..range.end as usize]);
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        // A write that fails may have come half of the way.
        let outcome = self.change();
        let length = if outcome.is_ok() { bytes.len() } else { bytes.len() / 2 / 512 * 512 };
        if outcome.is_ok() || !self.faults.is_read_only {
            self.bytes[offset_bytes as usize..][..length].copy_from_slice(&bytes[..length]);
        }
        if outcome.is_ok() {
            let end_bytes = offset_bytes + bytes.len() as u64;
            self.faults.unreadable.retain(|at| !(offset_bytes..end_bytes).contains(at));
        }
        outcome
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.change()
    }
}

type Ssds = [Memory; MEMBERS];

/// Where each block is on an SSD, and what it is.
struct Site {
    ssds: Ssds,
    tag: VolumeTag,
    offsets: Vec<u64>,
    /// Where copies of pages of the place table are.
    tables: Vec<u64>,
}

fn labels(ssds: &mut Ssds) -> [Option<PairLabel>; MEMBERS] {
    ssds.each_mut().map(|ssd| probe_pair(ssd).ok())
}

fn open(ssds: &mut Ssds) -> PairDevice<&mut Memory> {
    let labels = labels(ssds);
    let pair = Pair::of(labels, Some(labels.iter().flatten().map(|label| label.generation).max().unwrap()));
    PairDevice::new(pair.unwrap(), ssds.each_mut().map(Some))
}

fn bytes_of(block: u64) -> Vec<u8> {
    (0..BLOCK).map(|at| (at / 7 + block * 31) as u8).collect()
}

/// A pair with a volume in good order.
fn site() -> Site {
    let new = || Memory { bytes: vec![0; SSD_BYTES as usize], faults: Faults::default(), writes: 0 };
    let mut ssds = [new(), new()];
    let [one, other] = &mut ssds;
    let extent = Some(1 << 20);
    PairArray::format(vec![(one, Some(other))], CacheId([7; 16]), BlockSize::KIB_4, extent).unwrap();
    let (mut array, labels) = (PairArray::new(vec![open(&mut ssds)]).unwrap(), [None; MEMBERS]);
    array.begin(&[labels], |_, _| Ok::<_, StoreError>(())).unwrap();
    let mut store = Store::open(&mut array).unwrap();
    let spec = VolumeSpec {
        name: "vm".to_owned(),
        backing_bytes: 1 << 30,
        places: 400,
        spare_places: 0,
        ready_places: 400,
        read_only: false,
        distrusts: None,
    };
    store.attach(&mut array, &spec).unwrap();
    let view = store.view();
    let (number, volume) = view.find("vm").unwrap();
    let (tag, extents) = (volume.tag, view.directory.extents_of(number).written);
    let (layout, mut offsets, mut tables) = (view.layout, Vec::new(), Vec::new());
    let places = u64::from(layout.extent.places);
    for (ordinal, &extent) in extents.iter().enumerate() {
        for page in 0..layout.extent.table_pages {
            let mut table = TablePage::empty(tag, extent, page, 3);
            table.stamp = 100;
            for within in 0..lode_format::ENTRIES_PER_PAGE as u64 {
                let place = u64::from(page) * lode_format::ENTRIES_PER_PAGE as u64 + within;
                let of_all = ordinal as u64 * places + place;
                let block = of_all / APART;
                if place >= places || !of_all.is_multiple_of(APART) || block >= BLOCKS {
                    continue;
                }
                let state = if block < CLEAN { EntryState::Clean } else { EntryState::Dirty };
                let crc = data_checksum(tag, block, &bytes_of(block));
                table.entries[within as usize] = TableEntry { state, block, version: 50, crc };
                let offset = place_offset(&layout, &extents, of_all as Place);
                array.write(offset, &bytes_of(block)).unwrap();
                offsets.push(PairLabel::DATA_START_BYTES + offset);
            }
            for sequence in [3, 4] {
                table.sequence = sequence;
                let at = layout.extent_start(extent) + layout.extent.table_page(page, table.copy());
                array.write(at, &table.encode(CacheId([7; 16]))[..]).unwrap();
                tables.push(PairLabel::DATA_START_BYTES + at);
            }
        }
    }
    drop(array);
    assert_eq!(offsets.len() as u64, BLOCKS);
    ssds.iter_mut().for_each(|ssd| ssd.writes = 0);
    Site { ssds, tag, offsets, tables }
}

impl Site {
    fn rot(&mut self, member: usize, offset_bytes: u64) {
        self.ssds[member].bytes[offset_bytes as usize + 1000] ^= 4;
    }

    fn check(&mut self) -> VolumeCheck {
        look(&mut self.ssds, false).unwrap().1
    }

    /// Blocks of which no SSD that counts has the bytes.
    fn lost(&mut self) -> Vec<u64> {
        let mut device = open(&mut self.ssds);
        let mut buf = vec![0; BLOCK as usize];
        let mut is_lost = |block: &u64| {
            let at = self.offsets[*block as usize] - PairLabel::DATA_START_BYTES;
            let is_right = |bytes: &[u8]| bytes == bytes_of(*block);
            device.read_right(at, &mut buf, &is_right).is_err() || !is_right(&buf)
        };
        (CLEAN..BLOCKS).filter(&mut is_lost).collect()
    }
}

/// Looks at a pair, and mends what one SSD has and the other one lacks.
fn look(ssds: &mut Ssds, mends: bool) -> Result<(HeadsCheck, VolumeCheck), StoreError> {
    let mut device = PairArray::new(vec![open(ssds)])?;
    let view = StoreView::read(&mut device)?;
    let heads = view.check_heads(&mut device, mends)?;
    let check = match mends {
        true => view.mend_copies(&mut device, "vm", true, &mut |_| {})?,
        false => view.check_volume(&mut device, "vm", true, &mut |_| {})?,
    };
    Ok((heads, check))
}

/// What `lode check --repair` does: what one SSD lacks first, and the rest where nothing of that is left.
fn repair(ssds: &mut Ssds) -> Result<(), StoreError> {
    look(ssds, true)?;
    let (heads, check) = look(ssds, false)?;
    if !heads.on_devices.is_whole() || !check.on_devices.is_whole() {
        return Ok(());
    }
    let found = labels(ssds);
    let mut device = PairArray::new(vec![open(ssds)])?;
    let view = StoreView::read(&mut device)?;
    device.begin(&[found], |_, _| Ok::<_, StoreError>(()))?;
    Store::begin(&mut device, view)?.mend(&mut device, &check)
}

fn of_device(all: &[CopyCounts], device: u16) -> CopyCounts {
    all.iter().find(|counts| counts.device == device).copied().unwrap_or_default()
}

#[test]
fn g9_a_check_finds_what_either_ssd_of_a_pair_lacks() {
    let mut site = site();
    let whole = site.check();
    assert_eq!((whole.clean_blocks, whole.dirty_blocks), (CLEAN, BLOCKS - CLEAN));
    assert!(whole.on_devices.is_whole() && !whole.is_mendable(), "{whole:?}");
    let [one, other, third, table] = [site.offsets[30], site.offsets[40], site.offsets[50], site.tables[0]];
    site.rot(0, one);
    site.rot(1, other);
    site.ssds[1].faults.unreadable.extend([third, table]);
    let found = site.check();
    assert_eq!(of_device(&found.on_devices.lacks, 0).dirty_blocks, 1);
    let lacks = of_device(&found.on_devices.lacks, 1);
    assert_eq!((lacks.dirty_blocks, lacks.table_pages), (2, 1), "{found:?}");
    assert_eq!((found.damaged_dirty_blocks, found.lone_table_pages), (0, 0));
    assert_eq!(site.ssds.each_ref().map(|ssd| ssd.writes), [0, 0], "looking writes nothing");
    // What neither has is lost, and a page that both lack is no page of one of them.
    site.rot(1, one);
    site.rot(0, table);
    let found = site.check();
    assert_eq!((found.damaged_dirty_blocks, found.lone_table_pages), (1, 1), "{found:?}");
    assert_eq!(of_device(&found.on_devices.lacks, 1).dirty_blocks, 2);
}

#[test]
fn g9_what_one_ssd_lacks_is_written_from_the_other_one() {
    let mut site = site();
    let blocks = [site.offsets[25], site.offsets[59]];
    let superblock = PairLabel::DATA_START_BYTES;
    let before = site.ssds.clone();
    site.rot(0, blocks[0]);
    site.rot(1, blocks[1]);
    site.rot(1, superblock);
    for table in site.tables.clone() {
        site.rot(0, table);
    }
    let (heads, mended) = look(&mut site.ssds, true).unwrap();
    assert_eq!(of_device(&heads.on_devices.mended, 1).heads, 1);
    assert_eq!(of_device(&mended.on_devices.mended, 0).dirty_blocks, 1);
    assert_eq!(of_device(&mended.on_devices.mended, 0).table_pages, site.tables.len() as u64);
    assert_eq!(of_device(&mended.on_devices.mended, 1).dirty_blocks, 1);
    for (member, before) in before.iter().enumerate() {
        assert!(site.ssds[member].bytes == before.bytes, "SSD {member} is as it was");
    }
    assert!(site.check().on_devices.is_whole());
}

/// Blocks rot on both SSDs, and metadata; then any write or flush of either fails. What could be read still can.
#[test]
fn g9_a_repair_of_a_pair_that_fails_anywhere_loses_nothing() {
    for failing in 0..MEMBERS {
        for until_failure in 0.. {
            let mut site = site();
            let [first, last] = [site.offsets[25], site.offsets[59]];
            site.rot(0, first);
            site.rot(1, last);
            let clean = site.offsets[3];
            (0..MEMBERS).for_each(|member| site.rot(member, clean));
            site.ssds[0].faults.unreadable.push(site.tables[2]);
            site.ssds[1].faults.unreadable.push(site.tables[5]);
            site.ssds[failing].faults.until_failure = Some(until_failure);
            let outcome = repair(&mut site.ssds);
            let has_failed = site.ssds[failing].writes > until_failure;
            site.ssds[failing].faults.until_failure = None;
            assert_eq!(site.lost(), [], "SSD {failing} fails its change {until_failure}: {outcome:?}");
            let found = site.check();
            assert_eq!(found.damaged_dirty_blocks, 0, "{found:?}");
            assert_eq!(found.dirty_blocks, BLOCKS - CLEAN, "{found:?}");
            if !has_failed {
                outcome.unwrap();
                assert!(found.on_devices.is_whole() && !found.is_mendable(), "{found:?}");
                assert_eq!(found.clean_blocks, CLEAN - 1);
                assert!(until_failure > 8, "a repair writes more than that");
                break;
            }
        }
    }
}

/// One SSD takes no writes. It has the only copy of something, and so it is not dropped.
#[test]
fn g9_an_ssd_that_cannot_be_written_is_not_dropped_by_a_repair() {
    let mut site = site();
    let [one, other] = [site.offsets[25], site.offsets[59]];
    site.rot(0, one);
    site.rot(1, other);
    let clean = site.offsets[3];
    (0..MEMBERS).for_each(|member| site.rot(member, clean));
    site.ssds[0].faults.is_read_only = true;
    repair(&mut site.ssds).unwrap();
    assert_eq!(labels(&mut site.ssds).map(|label| label.unwrap().in_sync), [[true; MEMBERS]; MEMBERS]);
    let found = site.check();
    assert_eq!(of_device(&found.on_devices.lacks, 0).dirty_blocks, 1);
    assert_eq!(of_device(&found.on_devices.lacks, 1).dirty_blocks, 0, "the other one was mended");
    assert_eq!((site.lost(), site.tag), (Vec::new(), found.info.tag));
}

/// A lost copy of what describes the cache is written again without a new epoch or a new generation that counts.
#[test]
fn lost_heads_are_written_again_as_older_ones() {
    let mut site = site();
    let view = |ssds: &mut Ssds| StoreView::read(&mut open(ssds)).unwrap();
    let before = view(&mut site.ssds);
    for (lost_superblock, lost_directory) in [(0, 1), (1, 0)] {
        for member in 0..MEMBERS {
            let start = PairLabel::DATA_START_BYTES;
            site.rot(member, start + lode_format::DeviceLayout::superblock(lost_superblock));
            site.rot(member, start + lode_format::DeviceLayout::directory(lost_directory));
        }
        let found = view(&mut site.ssds);
        let copies = found.check_copies(&mut open(&mut site.ssds));
        assert_eq!((copies.superblocks, copies.directories), (1, 1));
        let epoch = found.superblock.epoch;
        found.mend_heads(&mut open(&mut site.ssds)).unwrap();
        let after = view(&mut site.ssds);
        let heads = after.check_heads(&mut open(&mut site.ssds), false).unwrap();
        assert_eq!((heads.copies.superblocks, heads.copies.directories), (2, 2));
        assert!(heads.on_devices.is_whole());
        assert_eq!(
            (after.superblock, after.directory.generation),
            (found.superblock, found.directory.generation)
        );
        assert_eq!((after.superblock.epoch, epoch), (before.superblock.epoch, before.superblock.epoch));
    }
}
