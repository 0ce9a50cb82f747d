//! What the places of a volume are found to hold before it is served, with the exact version of each, and what its tables say
//! meanwhile. Memory follows what places hold: an extent with nothing in it takes next to none, whatever its size.
//!
//! It must not know journals or devices.

use std::collections::BTreeMap;
use std::ops::Range;

use hashbrown::HashMap;
use lode_format::{ENTRIES_PER_PAGE, EntryState, TableEntry};
use lode_types::prefetch::fetched;
use lode_types::{Counter, planted};

use crate::contents::{Content, Contents, HeldBlock};
use crate::cut::{PartOfExtent, cut};
use crate::found_page::{FoundPage, RightCopies, Says};
use crate::found_run::{FoundRun, RunCounts};
use crate::latest_versions::LatestVersions;
use crate::order::FoundOrder;
use crate::place::Place;
use crate::table_runs::TableRun;
use crate::twice::{Again, Seen, Twice};

/// The places of a volume as they are found, by extent.
#[derive(Debug)]
pub(crate) struct FoundPlaces {
    places_per_extent: u32,
    pages_per_extent: u32,
    contents: Contents,
    /// The versions of each extent's places; none of one that holds nothing.
    versions: Vec<Box<[u64]>>,
    pages: Vec<FoundPage>,
    /// What each page said of places of which something else was found since, by their numbers in it and in ascending order.
    before: Vec<Vec<(u8, TableEntry)>>,
    /// For each page a version that is no earlier than those of what its places hold.
    latest: Vec<u64>,
    /// Places that hold something, and those of them that hold what is newer than the backing disk.
    used: u64,
    dirty: u64,
    /// Blocks of the volume.
    blocks: u64,
    /// The blocks of which pages spoke, as long as nothing else was found: they are seen while further pages are on their way.
    seen: Option<Seen>,
}

impl FoundPlaces {
    /// No extents yet, of so many places and table pages each, of a volume of so many blocks.
    pub(crate) fn new(places_per_extent: u32, pages_per_extent: u32, blocks: u64) -> FoundPlaces {
        let contents = Contents::new(places_per_extent, blocks);
        let (versions, pages, before, latest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (used, dirty, seen) = (0, 0, None);
        FoundPlaces {
            places_per_extent,
            pages_per_extent,
            contents,
            versions,
            pages,
            before,
            latest,
            used,
            dirty,
            blocks,
            seen,
        }
    }

    /// An extent comes to be the one of this number, with pages that say nothing.
    pub(crate) fn insert_extent(&mut self, ordinal: usize, page: FoundPage) {
        self.contents.insert_extent(ordinal);
        self.versions.insert(ordinal, Box::default());
        let pages = self.pages_per_extent as usize;
        let at = ordinal * pages;
        self.pages.splice(at..at, std::iter::repeat_n(page, pages));
        self.before.splice(at..at, std::iter::repeat_n(Vec::new(), pages));
        self.latest.splice(at..at, std::iter::repeat_n(0, pages));
    }

    /// This extent is the volume's no more. Those behind move up.
    pub(crate) fn remove_extent(&mut self, ordinal: usize) {
        for place in self.places_of_extent(ordinal) {
            self.discount(self.contents.get(place).held.state);
        }
        self.contents.remove_extent(ordinal);
        self.versions.remove(ordinal);
        let pages = self.pages_per_extent as usize;
        self.pages.drain(ordinal * pages..(ordinal + 1) * pages);
        self.before.drain(ordinal * pages..(ordinal + 1) * pages);
        self.latest.drain(ordinal * pages..(ordinal + 1) * pages);
    }

    /// Places, free ones included.
    pub(crate) fn places(&self) -> Place {
        self.contents.places()
    }

    /// The places of an extent.
    pub(crate) fn places_of_extent(&self, ordinal: usize) -> Range<Place> {
        ordinal as u32 * self.places_per_extent..(ordinal as u32 + 1) * self.places_per_extent
    }

    /// The places that a page speaks of; pages are numbered over all extents.
    pub(crate) fn places_of_page(&self, page: usize) -> Range<Place> {
        let (ordinal, page) = (page as u32 / self.pages_per_extent, page as u32 % self.pages_per_extent);
        let first = ordinal * self.places_per_extent + page * ENTRIES_PER_PAGE as u32;
        first..(first + ENTRIES_PER_PAGE as u32).min((ordinal + 1) * self.places_per_extent)
    }

    fn page_of(&self, place: Place) -> usize {
        self.split(place).0
    }

    /// The page that speaks of a place, and its number there.
    fn split(&self, place: Place) -> (usize, u8) {
        let (ordinal, within) = self.contents.split(place);
        let (page, number) = (within / ENTRIES_PER_PAGE as u32, within % ENTRIES_PER_PAGE as u32);
        ((ordinal * self.pages_per_extent + page) as usize, number as u8)
    }

    /// What is known of a page; they are numbered over all extents.
    pub(crate) fn page(&self, page: usize) -> FoundPage {
        self.pages[page]
    }

    pub(crate) fn page_mut(&mut self, page: usize) -> &mut FoundPage {
        &mut self.pages[page]
    }

    /// Version up to which a place's page speaks of durable things only.
    pub(crate) fn stamp(&self, place: Place) -> u64 {
        self.pages[self.page_of(place)].stamp
    }

    fn version(&self, place: Place) -> u64 {
        let (ordinal, within) = self.contents.split(place);
        self.versions[ordinal as usize].get(within as usize).copied().unwrap_or(0)
    }

    /// What a place holds.
    pub(crate) fn entry(&self, place: Place) -> TableEntry {
        match self.contents.get(place).held {
            HeldBlock { state: EntryState::Free, .. } => TableEntry::default(),
            HeldBlock { state, block, crc } => TableEntry { state, block, crc, version: self.version(place) },
        }
    }

    fn discount(&mut self, state: EntryState) {
        self.used.count_down_by(u64::from(state != EntryState::Free));
        self.dirty.count_down_by(u64::from(state == EntryState::Dirty));
    }

    /// A place of a page, by its extent and its number there, holds something from now on, and did not before.
    #[inline]
    fn fill(&mut self, page: usize, (ordinal, within): (u32, u32), entry: TableEntry) {
        let TableEntry { state, block, crc, version } = entry;
        let held = HeldBlock { state, block, crc };
        self.make_room(ordinal as usize);
        self.contents.set_in((ordinal, within), Content { held, ..Content::default() });
        self.versions[ordinal as usize][within as usize] = version;
        self.latest[page] = version.max(self.latest[page]);
        self.used += 1;
        self.dirty += u64::from(state == EntryState::Dirty);
    }

    /// These runs of pages, which are in ascending order and do not overlap, with their places, of which nothing is known; and whether any page
    /// of them may hold something.
    pub(crate) fn runs(&mut self, runs: &[(&TableRun, bool)]) -> Vec<FoundRun<'_>> {
        for (run, _) in runs.iter().filter(|(_, may_hold)| *may_hold) {
            if self.used == 0 && self.seen.is_none() {
                self.seen = Some(Seen::new(self.contents.places().into(), self.blocks));
            }
            self.seen.iter_mut().for_each(Seen::make_room);
            self.make_room(run.ordinal);
        }
        let part = |ordinal, range| PartOfExtent { ordinal, range };
        let of_run = |run: &TableRun| part(run.ordinal, run.pages.start as usize..run.pages.end as usize);
        let pages: Vec<PartOfExtent> = runs.iter().map(|(run, _)| of_run(run)).collect();
        let first_place = |page: usize| (page * ENTRIES_PER_PAGE).min(self.places_per_extent as usize);
        let places_of = |PartOfExtent { ordinal, range }: &PartOfExtent| {
            part(*ordinal, first_place(range.start)..first_place(range.end))
        };
        let places: Vec<PartOfExtent> = pages.iter().map(places_of).collect();
        let per_extent = self.pages_per_extent as usize;
        let versions = cut(self.versions.iter_mut().map(|list| &mut list[..]), places.iter().cloned());
        let latest = cut(self.latest.chunks_mut(per_extent), pages.iter().cloned());
        let known = cut(self.pages.chunks_mut(per_extent), pages.iter().cloned());
        let (of_pages, seen) = (known.into_iter().zip(latest), self.seen.as_ref());
        let of_places = self.contents.parts_mut(&places).into_iter().zip(versions).zip(places);
        let mut runs = Vec::with_capacity(pages.len());
        for ((((records, versions), places), (pages, latest)), part) in of_places.zip(of_pages).zip(pages) {
            let (first_page, places, counts) =
                (part.range.start as u32, places.range.len(), RunCounts::default());
            runs.push(FoundRun { first_page, places, records, versions, pages, latest, seen, counts });
        }
        runs
    }

    /// There is room for what places of an extent hold.
    fn make_room(&mut self, ordinal: usize) {
        self.contents.make_room(ordinal);
        let versions = &mut self.versions[ordinal];
        if versions.is_empty() {
            *versions = vec![0; self.places_per_extent as usize].into_boxed_slice();
        }
    }

    /// All runs were read: extents with nothing in them take nothing.
    pub(crate) fn free_unused_room(&mut self) {
        let per_extent = self.pages_per_extent as usize;
        for ordinal in 0..self.versions.len() {
            let is_latest_of_none =
                self.latest[ordinal * per_extent..][..per_extent].iter().all(|&of| of == 0);
            if is_latest_of_none && self.contents.occupied_in(ordinal..ordinal + 1).next().is_none() {
                self.contents.free_room(ordinal);
                self.versions[ordinal] = Box::default();
            }
        }
    }

    /// So much was found in a run.
    pub(crate) fn add_counts(&mut self, RunCounts { used, dirty, again }: RunCounts) {
        self.used += used;
        self.dirty += dirty;
        if let Some(seen) = &mut self.seen
            && !planted("seen-again-goes-untold")
        {
            seen.note_again(again);
        }
    }

    /// A place holds something else than was thought, and than the tables say.
    pub(crate) fn set(&mut self, place: Place, entry: TableEntry) {
        let before = self.entry(place);
        if before == entry {
            return;
        }
        if !planted("seen-twice-by-pages-alone") {
            self.seen = None;
        }
        let (page, number) = self.split(place);
        let noted = &mut self.before[page];
        if let Err(at) = noted.binary_search_by_key(&number, |&(number, _)| number) {
            noted.insert(at, (number, before));
        }
        let right = match planted("changed-page-taken-for-right") {
            true => self.pages[page].right.min(RightCopies::Newer),
            false => RightCopies::Neither,
        };
        self.pages[page].right = right;
        self.discount(before.state);
        match entry.state {
            EntryState::Free => self.contents.set(place, Content::default()),
            _ => self.fill(page, self.contents.split(place), entry),
        }
    }

    /// What a page says of its places when it says this.
    pub(crate) fn entries_of_page(&self, page: usize, says: Says) -> Vec<TableEntry> {
        let mut entries: Vec<TableEntry> = self.places_of_page(page).map(|place| self.entry(place)).collect();
        for &(number, before) in self.before[page].iter().filter(|_| says != Says::Found) {
            let entry = &mut entries[usize::from(number)];
            if says == Says::Before || entry.state == EntryState::Free {
                *entry = before;
            }
        }
        entries
    }

    /// The pages of an extent of which a copy may have been written and no flush is known to cover it, those between them included; by their numbers in it.
    pub(crate) fn recent_pages(&self, ordinal: usize, within: Range<u32>) -> Range<u32> {
        let pages = &self.pages[ordinal * self.pages_per_extent as usize..];
        let mut recent = within.filter(|&page| pages[page as usize].is_recent);
        let Some(first) = recent.next() else { return 0..0 };
        first..recent.next_back().unwrap_or(first) + 1
    }

    /// Pages whose copies do not both say what was found, numbered over all extents.
    pub(crate) fn unsettled(&self) -> Vec<usize> {
        (0..self.pages.len()).filter(|&page| self.pages[page].right < RightCopies::Both).collect()
    }

    /// Those of these pages with places that hold what is newer than this version.
    pub(crate) fn later_than(&self, version: u64, pages: &[usize]) -> Vec<usize> {
        pages.iter().copied().filter(|&page| self.latest[page] > version).collect()
    }

    /// Those of these pages whose newer copy does not say what was found, or not that all of it is durable.
    pub(crate) fn with_newer_wrong(&self, pages: &[usize]) -> Vec<usize> {
        pages.iter().copied().filter(|&page| self.pages[page].right < RightCopies::Newer).collect()
    }

    /// Both copies of these pages, which are all that were not settled, say what was found, and that it is durable.
    pub(crate) fn settle(&mut self, pages: &[usize]) {
        for &page in pages {
            self.pages[page].right = RightCopies::Both;
        }
        // What they say now is what was said before anything else is found.
        self.pages.iter_mut().for_each(|page| page.says = Says::Before);
        self.before.iter_mut().for_each(|noted| *noted = Vec::new());
    }

    /// Places that hold something, in ascending order, and what.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = (Place, TableEntry)> {
        self.contents.occupied().map(|(place, content)| {
            let HeldBlock { state, block, crc } = content.held;
            (place, TableEntry { state, block, crc, version: self.version(place) })
        })
    }

    /// Places that hold what is not known to be durable by the stamps of their pages, in ascending order, and what.
    pub(crate) fn beyond_stamps(&self) -> impl Iterator<Item = (Place, TableEntry)> {
        let stamps = self.pages.iter().map(|page| page.stamp);
        let pages = stamps.zip(&self.latest).enumerate().filter(|(_, (stamp, latest))| *latest > stamp);
        let entries = pages.flat_map(move |(page, (stamp, _))| {
            self.places_of_page(page).map(move |place| (place, self.entry(place), stamp))
        });
        let is_beyond = |(_, entry, stamp): &(Place, TableEntry, u64)| entry.version > *stamp;
        entries.filter(is_beyond).map(|(place, entry, _)| (place, entry))
    }

    /// Of [`FoundPlaces::beyond_stamps`] those that hold what is newer than the backing disk, and than this version.
    pub(crate) fn dirty_later_than(&self, version: u64) -> impl Iterator<Item = (Place, TableEntry)> {
        let is_later = move |entry: &TableEntry| entry.state == EntryState::Dirty && entry.version > version;
        self.beyond_stamps().filter(move |(_, entry)| is_later(entry))
    }

    /// Places that hold something in this state.
    pub(crate) fn count(&self, state: EntryState) -> u64 {
        match state {
            EntryState::Free => u64::from(self.places()) - self.used,
            EntryState::Clean => self.used - self.dirty,
            EntryState::Dirty => self.dirty,
        }
    }

    /// Forgets what a condition is true of.
    pub(crate) fn forget(&mut self, mut goes: impl FnMut(Place, &TableEntry) -> bool) {
        let gone: Vec<Place> =
            self.occupied().filter(|(place, entry)| goes(*place, entry)).map(|(place, _)| place).collect();
        gone.into_iter().for_each(|place| self.set(place, TableEntry::default()));
    }

    /// Of several places that hold the same block, keeps the newest; an older one may also have been superseded by a copy that
    /// is gone since. Where a start moved a block and was cut short, two have the same version: `choose` says which of these stays.
    pub(crate) fn keep_newest(
        &mut self,
        superseded: &LatestVersions,
        mut choose: impl FnMut(&[(Place, TableEntry)]) -> Place,
    ) {
        if !superseded.is_empty() {
            self.forget_versions_before(superseded, |_| true);
        }
        let twice = self.twice();
        if twice.is_empty() {
            return;
        }
        let held = self.contents.occupied().map(|(place, content)| (place, content.held.block));
        let held = fetched(held, |&(_, block)| twice.prefetch(block));
        let perhaps: Vec<(Place, u64)> = held.filter(|&(_, block)| twice.has(block)).collect();
        let mut newest: HashMap<u64, (u64, Place)> = HashMap::new();
        let mut equals: BTreeMap<u64, Vec<Place>> = BTreeMap::new();
        for &(place, block) in &perhaps {
            let version = self.version(place);
            let at = newest.entry(block).or_insert((version, place));
            if version > at.0 {
                *at = (version, place);
                equals.remove(&block);
            } else if version == at.0 && place != at.1 {
                equals.entry(block).or_insert_with(|| vec![at.1]).push(place);
            }
        }
        for (block, places) in equals {
            let copies: Vec<(Place, TableEntry)> =
                places.iter().map(|&place| (place, self.entry(place))).collect();
            newest.entry(block).and_modify(|at| at.1 = choose(&copies));
        }
        let older = perhaps.into_iter().filter(|(place, block)| newest[block].1 != *place);
        older.for_each(|(place, _)| self.set(place, TableEntry::default()));
    }

    /// Forgets of blocks what has an earlier version than these, where a condition is true of it.
    pub(crate) fn forget_versions_before(
        &mut self,
        versions: &LatestVersions,
        goes: impl Fn(&TableEntry) -> bool,
    ) {
        let filter = versions.filter();
        let is_before = |(_, entry): &(Place, TableEntry)| {
            versions.get(entry.block).is_some_and(|version| entry.version < version) && goes(entry)
        };
        let perhaps = fetched(self.occupied(), |(_, entry)| filter.prefetch(entry.block))
            .filter(|(_, entry)| filter.may_have(entry.block));
        let gone = fetched(perhaps, |(_, entry)| versions.prefetch(entry.block)).filter(is_before);
        let gone: Vec<Place> = gone.map(|(place, _)| place).collect();
        gone.into_iter().for_each(|place| self.set(place, TableEntry::default()));
    }

    /// Blocks that may be in more than one place.
    fn twice(&mut self) -> Twice {
        let seen = self.seen.take().unwrap_or_else(|| {
            let (mut seen, mut again) = (Seen::new(self.used, self.blocks), Again::new());
            if self.used > 0 {
                seen.make_room();
            }
            seen.see(self.contents.occupied().map(|(_, content)| content.held.block), &mut again);
            seen.note_again(again);
            seen
        });
        seen.twice()
    }

    /// For a volume that is served, with versions up to this one: what places hold, and how many of them are dirty; the places that hold
    /// something, which are still to be put in order; and the sequence of each table page.
    pub(crate) fn into_contents(self, version: u64) -> ((Contents, u32), FoundOrder, Vec<u64>) {
        let order = FoundOrder::new(self.versions, version, self.used as usize);
        let sequences = self.pages.iter().map(|page| page.sequence).collect();
        ((self.contents, self.dirty as u32), order, sequences)
    }
}

#[cfg(test)]
mod tests;
