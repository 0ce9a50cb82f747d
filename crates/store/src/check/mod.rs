//! Proving what a cache holds, byte by byte, on each device below it, and mending what costs nothing: copies that one SSD of a pair lacks and the
//! other one has, damaged copies of metadata of which the other one is whole, and copies of blocks that the backing disk has as well. Blocks
//! newer than the backing disk that no SSD has stay whatever became of them, so that guests get an error for them and never older bytes.
//!
//! It must not know configurations, or who asks.

mod copies;
mod metadata;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use lode_format::{EntryState, TableEntry, data_checksum};

pub use self::copies::{CopiesCheck, CopyCounts};
use self::copies::{Copy as CopyOfRun, Looking, What};
pub use self::metadata::{CacheCopies, HeadsCheck};
use crate::attach::RecoveredSpace;
use crate::device::{SyncDevice, flush};
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
    /// Place table pages of which only one copy can be read, on any SSD. A crash may leave some; a start writes them again.
    pub lone_table_pages: u64,
    /// Journal pages of which one SSD of a pair has an older state than the other one. A crash may leave some; a start does without.
    pub behind_journal_pages: u64,
    /// What one SSD of a pair lacks that the other one has.
    pub on_devices: CopiesCheck,
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

impl VolumeCheck {
    fn of(info: VolumeInfo) -> VolumeCheck {
        VolumeCheck {
            info,
            clean_blocks: 0,
            dirty_blocks: 0,
            lone_table_pages: 0,
            behind_journal_pages: 0,
            on_devices: CopiesCheck::default(),
            damaged_clean_blocks: 0,
            damaged_dirty_blocks: 0,
            damaged: Vec::new(),
            damaged_clean_places: HashSet::new(),
        }
    }

    /// There is something that [`Store::mend`] puts right.
    pub fn is_mendable(&self) -> bool {
        self.lone_table_pages + self.behind_journal_pages + self.damaged_clean_blocks > 0
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
    /// Recovers a volume as a start would, and with `data` reads every block that it holds and compares it with its checksum: on every
    /// SSD that is to have it. Nothing is written. `progress` is told the bytes of each block that was looked at.
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
        self.look_at_volume(device, name, (data, false), progress)
    }

    /// The same, and writes what one SSD of a pair lacks and the other one has to that one. Nothing else is written, and nobody is dropped: what
    /// cannot be written is counted as lacking. An SSD that fails later takes none of these with it, so that this comes before all else that is
    /// mended.
    ///
    /// # Errors
    /// As [`StoreView::check_volume`]; [`StoreErrorKind::Media`](crate::StoreErrorKind::Media) when what was written may not be durable.
    pub fn mend_copies(
        &self,
        device: &mut dyn SyncDevice,
        name: &str,
        data: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<VolumeCheck, StoreError> {
        self.look_at_volume(device, name, (data, true), progress)
    }

    fn look_at_volume(
        &self,
        device: &mut dyn SyncDevice,
        name: &str,
        (data, mends): (bool, bool),
        progress: &mut dyn FnMut(u64),
    ) -> Result<VolumeCheck, StoreError> {
        let (number, volume) = self.find(name)?;
        let extents = self.directory.extents_of(number).written;
        let mut check = VolumeCheck::of(self.info(number, volume));
        let mut looking = Looking::new(device, mends);
        // Before it is recovered, which may take what one SSD lacks.
        check.lone_table_pages = self.look_at_tables(&mut looking, volume, &extents);
        check.behind_journal_pages = self.look_at_journal(&mut looking, volume, &extents);
        let (extents, recovered) = self.recover_what_is_there(looking.device, number, volume)?;
        check.clean_blocks = recovered.found.count(EntryState::Clean);
        check.dirty_blocks = recovered.dirty();
        if data {
            let runs = Runs { view: self, extents: &extents, recovered: &recovered };
            runs.for_each(|run| self.look_at_run(&mut looking, &mut check, run, progress));
        }
        check.on_devices = looking.end()?;
        Ok(check)
    }

    /// Looks at places that lie one after the other: dirty blocks on every SSD, and clean ones where they are read from.
    fn look_at_run(
        &self,
        looking: &mut Looking<'_>,
        check: &mut VolumeCheck,
        run: &Run,
        progress: &mut dyn FnMut(u64),
    ) {
        let block_bytes = self.layout.extent.block.bytes();
        let homes: Vec<u16> = (run.offset_bytes..)
            .step_by(block_bytes as usize)
            .zip(&run.entries)
            .map(|(offset_bytes, _)| looking.device.home(offset_bytes))
            .collect();
        let is_dirty = |entry: &TableEntry| entry.state == EntryState::Dirty;
        // Where nothing is dirty the other SSD is not read.
        let is_read_everywhere = run.entries.iter().any(|(_, entry)| is_dirty(entry));
        let mut first = 0;
        for piece in homes.chunk_by(|one, next| is_read_everywhere || one == next) {
            let start_bytes = run.offset_bytes + first as u64 * block_bytes;
            let only = (!is_read_everywhere).then_some(piece[0]);
            let copies = looking.read_each(start_bytes, (piece.len(), block_bytes as usize), only);
            let entries = &run.entries[first..first + piece.len()];
            for (at, ((place, entry), home)) in entries.iter().zip(piece).enumerate() {
                let offset_bytes = start_bytes + at as u64 * block_bytes;
                let is_right = |bytes: &[u8]| data_checksum(check.info.tag, entry.block, bytes) == entry.crc;
                let looked_at = if is_dirty(entry) { &copies[..] } else { only_at_home(&copies, *home) };
                if !looking.compare(What::DirtyBlock, offset_bytes, (looked_at, at), &is_right) {
                    let is_unreadable = looked_at.iter().any(|copy| copy.unit(at).is_none());
                    check.note(*place, entry, offset_bytes, is_unreadable);
                }
                progress(block_bytes);
            }
            first += piece.len();
        }
    }
}

/// The copy from which a clean block is read: that of its home, or of the SSD that is there.
fn only_at_home(copies: &[CopyOfRun], home: u16) -> &[CopyOfRun] {
    let at = copies.iter().position(|copy| copy.device == home).unwrap_or(0);
    &copies[at..copies.len().min(at + 1)]
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
