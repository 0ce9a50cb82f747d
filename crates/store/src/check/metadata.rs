//! Metadata of a cache as each device below has it: superblock and directory, place tables, and the journal pages that a start needs. It must
//! not know blocks.

use std::collections::HashMap;

use lode_format::{
    DeviceLayout, Directory, JournalPage, PAGE_BYTES, Superblock, TableView, Volume, is_sealed,
};

use super::READ_BYTES;
use super::copies::{CopiesCheck, Looking, What};
use crate::device::SyncDevice;
use crate::error::StoreError;
use crate::journal::page_offset;
use crate::view::StoreView;

/// Pages of both copies of a table page, or of both sides of a journal page.
const SIDES: usize = 2;

/// Readable copies of what describes a whole cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheCopies {
    /// Of the superblock, which has two.
    pub superblocks: u32,
    /// Of the directory, which has two.
    pub directories: u32,
}

/// How it stands with what describes a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadsCheck {
    /// Copies that any device has.
    pub copies: CacheCopies,
    /// What one device lacks and another one has.
    pub on_devices: CopiesCheck,
}

impl StoreView {
    /// How many copies of superblock and directory can be read, on whichever device.
    pub fn check_copies(&self, device: &mut dyn SyncDevice) -> CacheCopies {
        self.look_at_heads(&mut Looking::new(device, false))
    }

    /// The same, and what each device has of them. With `mends`, what one lacks and another one has is written again.
    ///
    /// # Errors
    /// [`StoreErrorKind::Media`](crate::StoreErrorKind::Media) when what was written may not be durable.
    pub fn check_heads(&self, device: &mut dyn SyncDevice, mends: bool) -> Result<HeadsCheck, StoreError> {
        let mut looking = Looking::new(device, mends);
        let copies = self.look_at_heads(&mut looking);
        Ok(HeadsCheck { copies, on_devices: looking.end()? })
    }

    fn look_at_heads(&self, looking: &mut Looking<'_>) -> CacheCopies {
        let mut copies = CacheCopies { superblocks: 0, directories: 0 };
        for copy in 0..2 {
            let at = DeviceLayout::superblock(copy);
            let each = looking.read_each(at, (1, PAGE_BYTES), None);
            let is_right = |page: &[u8]| self.is_superblock(page);
            copies.superblocks += u32::from(looking.compare(What::Superblock, at, (&each, 0), &is_right));
            let at = DeviceLayout::directory(copy);
            let each = looking.read_each(at, (1, Directory::COPY_BYTES), None);
            let is_right = |bytes: &[u8]| Directory::decode(self.superblock.cache, bytes).is_ok();
            copies.directories += u32::from(looking.compare(What::Directory, at, (&each, 0), &is_right));
        }
        copies
    }

    /// Whether a copy of the superblock is as it should be. Formatting writes one.
    fn is_superblock(&self, page: &[u8]) -> bool {
        let is_new = self.superblock.generation == 1;
        let is_ours = Superblock::decode(page).is_ok_and(|one| one.cache == self.superblock.cache);
        is_ours || is_new && page.iter().all(|&byte| byte == 0)
    }

    /// Writes the copy of superblock and directory again that no device has, as older by one than the one that is there, which goes on
    /// counting: nothing changes for whoever remembers the cache, or for what memory has of its last run.
    ///
    /// # Errors
    /// [`StoreErrorKind::Media`](crate::StoreErrorKind::Media); what was there still is.
    pub fn mend_heads(&self, device: &mut dyn SyncDevice) -> Result<(), StoreError> {
        let found = self.check_copies(device);
        let (superblock, directory) = (&self.superblock, &self.directory);
        if found.superblocks < 2 {
            let lost = Superblock { generation: superblock.generation.saturating_sub(1), ..*superblock };
            write_on_each(device, DeviceLayout::superblock(1 - superblock.copy()), &lost.encode()[..])?;
        }
        if found.directories < 2 {
            // Formatting gives both copies one generation.
            let is_other_lost = self.is_directory_there(device, directory.copy());
            let copy = if is_other_lost { 1 - directory.copy() } else { directory.copy() };
            let mut lost = directory.clone();
            lost.generation = directory.generation.saturating_sub(1);
            let offset_bytes = DeviceLayout::directory(copy);
            // Pages that are left of the lost copy must not pass for pages of this one.
            write_on_each(device, offset_bytes, &vec![0; Directory::COPY_BYTES])?;
            write_on_each(device, offset_bytes, &lost.encode(superblock.cache)?)?;
        }
        Ok(())
    }

    fn is_directory_there(&self, device: &mut dyn SyncDevice, copy: u8) -> bool {
        let mut bytes = vec![0; Directory::COPY_BYTES];
        let is_read = device.read_pages(DeviceLayout::directory(copy), &mut bytes).is_ok();
        is_read && Directory::decode(self.superblock.cache, &bytes).is_ok()
    }

    /// Looks at the place tables of a volume on each device. Gives the pages of which one copy is nowhere.
    pub(super) fn look_at_tables(&self, looking: &mut Looking<'_>, volume: &Volume, extents: &[u32]) -> u64 {
        let layout = &self.layout.extent;
        let at_once = (READ_BYTES / (SIDES * PAGE_BYTES)).min(layout.table_pages as usize);
        let mut lone = 0;
        for &extent in extents {
            for first in (0..layout.table_pages).step_by(at_once) {
                let count = at_once.min((layout.table_pages - first) as usize);
                let start_bytes = self.layout.extent_start(extent) + layout.table_page(first, 0);
                let each = looking.read_each(start_bytes, (count * SIDES, PAGE_BYTES), None);
                for (at, page) in (first..).take(count).enumerate() {
                    let opens = |side: &[u8]| {
                        TableView::open(self.superblock.cache, volume.tag, extent, page, side).is_ok()
                    };
                    let whole = (at * SIDES..(at + 1) * SIDES).filter(|&side| {
                        let offset_bytes = start_bytes + (side * PAGE_BYTES) as u64;
                        looking.compare(What::TablePage, offset_bytes, (&each, side), &opens)
                    });
                    lone += u64::from(whole.count() < SIDES);
                }
            }
        }
        lone
    }

    /// Looks at the journal pages of a volume that a start needs, on each device. A page that a device lacks is written there where it has
    /// nothing in its place. Gives the pages of which one has an older state instead: which of the two counts is for a start to say.
    pub(super) fn look_at_journal(&self, looking: &mut Looking<'_>, volume: &Volume, extents: &[u32]) -> u64 {
        let layout = &self.layout.extent;
        let at_once = (READ_BYTES / (SIDES * PAGE_BYTES)).min(layout.journal_pairs as usize);
        let mut pages = JournalPages::default();
        for ordinal in 0..extents.len() as u64 {
            for within in (0..layout.journal_pairs).step_by(at_once) {
                let count = at_once.min((layout.journal_pairs - within) as usize);
                let first = ordinal * u64::from(layout.journal_pairs) + u64::from(within);
                let start_bytes = page_offset(&self.layout, extents, first, 0);
                for copy in looking.read_each(start_bytes, (count * SIDES, PAGE_BYTES), None) {
                    for (at, offset_bytes) in (0..count * SIDES).zip((start_bytes..).step_by(PAGE_BYTES)) {
                        let page = copy
                            .unit(at)
                            .and_then(|page| JournalPage::decode(self.superblock.cache, page).ok());
                        let page = page.filter(|page| page.volume == volume.tag && page.ring == volume.ring);
                        if let Some(page) = page {
                            pages.note(&page, copy.device, offset_bytes);
                        }
                    }
                }
            }
        }
        pages.needed().filter(|(best, at)| looking.mend_journal_page(*best, at)).count() as u64
    }
}

/// Writes on every device that is to have it, durably, and drops none that fails.
fn write_on_each(device: &mut dyn SyncDevice, offset_bytes: u64, bytes: &[u8]) -> Result<(), StoreError> {
    let fault = |what| move |error| StoreError::media(what, offset_bytes, error);
    for copy in device.copies(offset_bytes) {
        device.write_copy(copy, offset_bytes, bytes).map_err(fault("write"))?;
        device.flush_copy(copy).map_err(fault("flush"))?;
    }
    Ok(())
}

/// How much a state of a journal page says: its records, and what it calls durable.
type Says = (usize, u64, u64, u64, u64);
/// Where a page is, and the devices that have it there.
type PageAt = (u64, Vec<u16>);

/// Journal pages of a ring, by number: the state that says most, and where it is.
#[derive(Default)]
struct JournalPages {
    tail: u64,
    best: HashMap<u64, (Says, PageAt)>,
}

impl JournalPages {
    fn note(&mut self, page: &JournalPage, device: u16, offset_bytes: u64) {
        self.tail = self.tail.max(page.tail);
        let says =
            (page.records.len(), page.tail, page.durable_page, page.durable_version, page.durable_tables);
        let nowhere = || (says, (offset_bytes, Vec::new()));
        let (best, place) = self.best.entry(page.number).or_insert_with(nowhere);
        if says > *best {
            (*best, *place) = nowhere();
        }
        if says == *best && place.0 == offset_bytes {
            place.1.push(device);
        }
    }

    fn needed(self) -> impl Iterator<Item = PageAt> {
        let JournalPages { tail, best } = self;
        best.into_iter().filter(move |(number, _)| *number >= tail).map(|(_, (_, at))| at)
    }
}

impl Looking<'_> {
    /// Whether a device has something older in the place of this page.
    fn mend_journal_page(&mut self, offset_bytes: u64, devices: &[u16]) -> bool {
        let mut is_behind = false;
        let each = self.read_each(offset_bytes, (1, PAGE_BYTES), None);
        let Some(page) =
            each.iter().find(|copy| devices.contains(&copy.device)).and_then(|copy| copy.unit(0))
        else {
            return false;
        };
        for copy in each.iter().filter(|copy| !devices.contains(&copy.device)) {
            match copy.unit(0).is_some_and(is_sealed) {
                true => is_behind = true,
                false => self.lacks(What::JournalPage, copy.device, offset_bytes, page),
            }
        }
        is_behind
    }
}
