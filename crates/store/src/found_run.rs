//! Runs of table pages and their places while the pages are taken in, of which several may be at once: each has its own part of what is
//! found, and what concerns all of it is counted by itself and added up afterwards. It must not know journals or devices.

use lode_format::{ENTRIES_PER_PAGE, EntryState, TableEntry};

use crate::contents::{HeldBlock, RecordsMut};
use crate::found_page::FoundPage;
use crate::twice::{Again, Seen};

/// Neighbouring pages and their places.
pub(crate) struct FoundRun<'a> {
    pub(crate) first_page: u32,
    /// Places of these pages.
    pub(crate) places: usize,
    pub(crate) records: RecordsMut<'a>,
    pub(crate) versions: &'a mut [u64],
    pub(crate) pages: &'a mut [FoundPage],
    /// For each page a version that is no earlier than those of what its places hold.
    pub(crate) latest: &'a mut [u64],
    pub(crate) seen: Option<&'a Seen>,
    pub(crate) counts: RunCounts,
}

/// What a run adds to the whole.
#[derive(Default)]
pub(crate) struct RunCounts {
    /// Places that hold something, and those of them that hold what is newer than the backing disk.
    pub(crate) used: u64,
    pub(crate) dirty: u64,
    pub(crate) again: Again,
}

impl FoundRun<'_> {
    /// Places that a page of the run, by its number in the extent, speaks of.
    pub(crate) fn places_of(&self, page: u32) -> usize {
        ENTRIES_PER_PAGE.min(self.places - self.first_place(page))
    }

    fn first_place(&self, page: u32) -> usize {
        (page - self.first_page) as usize * ENTRIES_PER_PAGE
    }

    /// What is known of a page of the run.
    pub(crate) fn page_mut(&mut self, page: u32) -> &mut FoundPage {
        &mut self.pages[(page - self.first_page) as usize]
    }

    /// The tables say that the places of a page, of which nothing was known, hold these.
    pub(crate) fn read_page(&mut self, page: u32, entries: impl Iterator<Item = TableEntry>) {
        let first = self.first_place(page);
        let with_any = (first..).zip(entries).filter(|(_, entry)| entry.state != EntryState::Free);
        let (mut blocks, mut count, mut dirty, mut latest) = ([0; ENTRIES_PER_PAGE], 0, 0, 0);
        for (at, TableEntry { state, block, crc, version }) in with_any {
            self.records.set(at, HeldBlock { state, block, crc });
            self.versions[at] = version;
            latest = version.max(latest);
            dirty += u64::from(state == EntryState::Dirty);
            (blocks[count], count) = (block, count + 1);
        }
        let of_page = &mut self.latest[(page - self.first_page) as usize];
        *of_page = latest.max(*of_page);
        self.counts.used += count as u64;
        self.counts.dirty += dirty;
        if let Some(seen) = self.seen.filter(|_| count > 0) {
            seen.see(blocks[..count].iter().copied(), &mut self.counts.again);
        }
    }
}
