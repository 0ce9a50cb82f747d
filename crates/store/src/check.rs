//! Proving what a cache holds, byte by byte, and mending what costs nothing: damaged copies of metadata of which the other one
//! is whole, and copies of blocks that the backing disk has as well. Blocks newer than the backing disk stay whatever became
//! of them, so that guests get an error for them and never older bytes.
//!
//! It must not know configurations, or who asks.

use std::collections::HashSet;

use lode_format::{
    DeviceLayout, Directory, EntryState, PAGE_BYTES, Superblock, TableEntry, TableView, data_checksum,
};

use crate::attach::RecoveredSpace;
use crate::device::{SyncDevice, flush, read};
use crate::error::StoreError;
use crate::journal::first_ring_after;
use crate::place::Place;
use crate::recover::Recovered;
use crate::store::Store;
use crate::view::{StoreView, VolumeInfo};
use crate::volume::place_offset;

/// Bytes that are read at once.
const READ_BYTES: usize = 4 << 20;

/// Damaged blocks of a volume that are named; all are counted.
const MOST_NAMED: usize = 16;

/// What was found of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeCheck {
    /// Its name and space.
    pub info: VolumeInfo,
    /// Blocks that equal the backing disk.
    pub clean_blocks: u64,
    /// Blocks that are newer than it.
    pub dirty_blocks: u64,
    /// Place table pages of which only one copy can be read. A crash may leave some; a start writes them again.
    pub lone_table_pages: u64,
    /// Clean blocks whose bytes cannot be read, or are not what they were.
    pub damaged_clean_blocks: u64,
    /// The same of dirty ones: what guests wrote there is lost unless the SSD can be read again.
    pub damaged_dirty_blocks: u64,
    /// Some of the damaged blocks, in the order of their places.
    pub damaged: Vec<DamagedBlock>,
    damaged_clean_places: HashSet<Place>,
}

/// A block whose bytes are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedBlock {
    /// Its number on the volume.
    pub block: u64,
    /// Where its bytes should be on the SSD.
    pub offset_bytes: u64,
    /// It is newer than the backing disk.
    pub is_dirty: bool,
    /// The SSD gave an error; otherwise the checksum differs.
    pub is_unreadable: bool,
}

/// Readable copies of what describes a whole cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheCopies {
    /// Of the superblock, which has two.
    pub superblocks: u32,
    /// Of the directory, which has two.
    pub directories: u32,
}

impl VolumeCheck {
    fn of(info: VolumeInfo) -> VolumeCheck {
        VolumeCheck {
            info,
            clean_blocks: 0,
            dirty_blocks: 0,
            lone_table_pages: 0,
            damaged_clean_blocks: 0,
            damaged_dirty_blocks: 0,
            damaged: Vec::new(),
            damaged_clean_places: HashSet::new(),
        }
    }

    /// There is something that [`Store::mend`] puts right.
    pub fn is_mendable(&self) -> bool {
        self.lone_table_pages + self.damaged_clean_blocks > 0
    }

    fn note(&mut self, place: Place, entry: &TableEntry, offset_bytes: u64, is_unreadable: bool) {
        let is_dirty = entry.state == EntryState::Dirty;
        if is_dirty {
            self.damaged_dirty_blocks += 1;
        } else {
            self.damaged_clean_blocks += 1;
            self.damaged_clean_places.insert(place);
        }
        if self.damaged.len() < MOST_NAMED {
            self.damaged.push(DamagedBlock { block: entry.block, offset_bytes, is_dirty, is_unreadable });
        }
    }
}

impl StoreView {
    /// How many copies of superblock and directory can be read.
    pub fn check_copies(&self, device: &mut dyn SyncDevice) -> CacheCopies {
        let mut copies = CacheCopies { superblocks: 0, directories: 0 };
        let (mut page, mut directory) = (vec![0; PAGE_BYTES], vec![0; Directory::COPY_BYTES]);
        for copy in 0..2 {
            let is_read = read(device, DeviceLayout::superblock(copy), &mut page).is_ok();
            copies.superblocks += u32::from(is_read && Superblock::newest([&page, &page]).is_ok());
            let is_read = read(device, DeviceLayout::directory(copy), &mut directory).is_ok();
            let is_whole = || Directory::newest(self.superblock.cache, [&directory, &directory]).is_ok();
            copies.directories += u32::from(is_read && is_whole());
        }
        copies
    }

    /// Recovers a volume as a start would, and with `data` reads every block that it holds and compares it with its checksum.
    /// Nothing is written. `progress` is told the bytes of each block that was looked at.
    ///
    /// # Errors
    /// Metadata that a start would refuse, too.
    pub fn check_volume(
        &self,
        device: &mut dyn SyncDevice,
        name: &str,
        data: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<VolumeCheck, StoreError> {
        let (number, volume) = self.find(name)?;
        let (extents, recovered) = self.recover_what_is_there(device, number, volume)?;
        let mut check = VolumeCheck::of(self.info(number, volume));
        check.lone_table_pages = self.lone_table_pages(device, name, &extents)?;
        check.clean_blocks = recovered.found.count(EntryState::Clean);
        check.dirty_blocks = recovered.dirty();
        if data {
            let runs = Runs { view: self, extents: &extents, recovered: &recovered };
            runs.for_each(|run| self.check_run(device, &mut check, run, progress));
        }
        Ok(check)
    }

    /// Pages of the place tables of which one copy cannot be read.
    fn lone_table_pages(
        &self,
        device: &mut dyn SyncDevice,
        name: &str,
        extents: &[u32],
    ) -> Result<u64, StoreError> {
        let (_, volume) = self.find(name)?;
        let layout = &self.layout.extent;
        let at_once = (READ_BYTES / (2 * PAGE_BYTES)).min(layout.table_pages as usize);
        let mut bytes = vec![0; at_once * 2 * PAGE_BYTES];
        let mut lone = 0;
        for &extent in extents {
            for first in (0..layout.table_pages).step_by(at_once) {
                let count = at_once.min((layout.table_pages - first) as usize);
                let bytes = &mut bytes[..count * 2 * PAGE_BYTES];
                read(device, self.layout.extent_start(extent) + layout.table_page(first, 0), bytes)?;
                for (page, pair) in (first..).zip(bytes.chunks_exact(2 * PAGE_BYTES)) {
                    let opens =
                        |side| TableView::open(self.superblock.cache, volume.tag, extent, page, side).is_ok();
                    let whole = pair.chunks_exact(PAGE_BYTES).filter(|side| opens(side)).count();
                    lone += u64::from(whole < 2);
                }
            }
        }
        Ok(lone)
    }

    /// Reads places that lie one after the other; where that fails, each by itself.
    fn check_run(
        &self,
        device: &mut dyn SyncDevice,
        check: &mut VolumeCheck,
        run: &Run,
        progress: &mut dyn FnMut(u64),
    ) {
        let block_bytes = self.layout.extent.block.bytes();
        let mut bytes = vec![0; run.entries.len() * block_bytes as usize];
        let is_read = device.read(run.offset_bytes, &mut bytes).is_ok();
        let offsets = (run.offset_bytes..).step_by(block_bytes as usize);
        let blocks = bytes.chunks_exact_mut(block_bytes as usize);
        for ((place, entry), (offset_bytes, bytes)) in run.entries.iter().zip(offsets.zip(blocks)) {
            let is_right = |bytes: &[u8]| data_checksum(check.info.tag, entry.block, bytes) == entry.crc;
            if !is_read || !is_right(bytes) {
                // A pair may have it on its other SSD.
                let is_readable = device.read_right(offset_bytes, bytes, &is_right).is_ok();
                if !is_readable || !is_right(bytes) {
                    check.note(*place, entry, offset_bytes, !is_readable);
                }
            }
            progress(block_bytes);
        }
    }
}

/// Places that hold something and lie one after the other on the SSD.
struct Run {
    offset_bytes: u64,
    entries: Vec<(Place, TableEntry)>,
}

/// All places of a volume that hold something, in the order in which they lie.
struct Runs<'a> {
    view: &'a StoreView,
    extents: &'a [u32],
    recovered: &'a Recovered,
}

impl Runs<'_> {
    fn for_each(&self, mut each: impl FnMut(&Run)) {
        let block_bytes = self.view.layout.extent.block.bytes();
        let most = READ_BYTES / block_bytes as usize;
        let mut run = Run { offset_bytes: 0, entries: Vec::new() };
        for (place, entry) in self.recovered.found.occupied() {
            let offset_bytes = place_offset(&self.view.layout, self.extents, place);
            let end_bytes = run.offset_bytes + run.entries.len() as u64 * block_bytes;
            if run.entries.is_empty() || offset_bytes != end_bytes || run.entries.len() == most {
                if !run.entries.is_empty() {
                    each(&run);
                }
                run = Run { offset_bytes, entries: Vec::new() };
            }
            run.entries.push((place, entry));
        }
        if !run.entries.is_empty() {
            each(&run);
        }
    }
}

impl Store {
    /// Mends a volume of which [`StoreView::check_volume`] has found this, on a cache that nobody wrote to since: clean blocks
    /// whose bytes are not there are given up, and every page of metadata has two whole copies after it. Cut short anywhere,
    /// the volume is as it was or partly mended.
    ///
    /// # Errors
    /// As [`Store::attach`]; nothing that was durable is lost.
    pub fn mend(&mut self, device: &mut dyn SyncDevice, check: &VolumeCheck) -> Result<(), StoreError> {
        let name = &check.info.name;
        let (number, volume) = self.view.find(name)?;
        let (tag, ring, backing_bytes) = (volume.tag, first_ring_after(volume.ring), volume.backing_bytes);
        let (_, mut recovered) = self.view.recover_what_is_there(device, number, volume)?;
        let lost = &check.damaged_clean_places;
        recovered.found.forget(|place, entry| entry.state == EntryState::Clean && lost.contains(&place));
        let extents = self.view.directory.extents_of(number);
        let mut space = RecoveredSpace { extents, recovered };
        self.write_again(device, tag, &mut space)?;
        self.write_tables(device, tag, &mut space)?;
        flush(device)?;
        self.commit_volume(device, number, (tag, ring), (name, backing_bytes), &space)
    }
}
