//! A volume while it is served: places, journal, and the checkpoints that keep the journal short.
//!
//! A checkpoint writes the table pages that changed since the last one or in the interval before, each to
//! its older copy, and after a flush lets go of the journal before the last one. So either copy of a page,
//! with the journal that is left, says everything, should the other be unreadable. Pages say what holds
//! *now*; that is safe because a change that destroys an entry waits until the journal is durable
//! ([`crate::places`]), and an entry whose record is not durable yet is checked against its bytes at
//! recovery.

use std::collections::VecDeque;

use lode_format::{CacheId, DeviceLayout, PlaceNo, TablePage, VolumeExtents, VolumeTag};
use lode_types::{Buf, Counter, planted};

use crate::change::ExtentsChange;
use crate::journal::{Journal, Written};
use crate::place::Place;
use crate::places::Places;
use crate::record_buffer::RecordBuffer;

pub(crate) const PAGES_IN_FLIGHT: usize = 16;
/// Records that are committed even though nobody waits for them: few enough that a volume's record buffer takes what comes
/// while the flush is under way, see [`RecordStorage::USUAL_RECORDS`](crate::RecordStorage::USUAL_RECORDS).
const MANY_RECORDS: usize = 2048;

/// A checkpoint in progress.
#[derive(Debug)]
struct Checkpoint {
    pages: Vec<u32>,
    in_flight: usize,
    /// The journal's page when it began.
    start: u64,
    /// The flush in flight was issued after the last page was written.
    covered: bool,
}

/// What a write or flush of the volume store is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// A journal page of the commit in flight.
    JournalPage,
    /// The flush that ends the commit in flight.
    JournalFlush,
    /// A page of the place table, for the checkpoint in flight.
    TablePage,
    /// Pages of the place table of an extent that was unwritten.
    NewTablePages,
    /// The flush of all that the next directory is to rely on.
    ShareFlush,
}

/// What the volume store wants done on the SSD.
#[derive(Debug)]
pub enum Output {
    /// To write a page.
    Write {
        /// What is to be told when it is written.
        what: Metadata,
        /// Offset on the device.
        offset_bytes: u64,
        /// The page.
        buf: Buf,
    },
    /// To flush the device.
    Flush {
        /// What is to be told then.
        what: Metadata,
    },
}

/// What the end of a write or flush of metadata means to those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataOutcome {
    /// Nothing that anybody waits for.
    None,
    /// More outlives the process than before, see [`VolumeStore::kept_version`].
    Kept,
    /// Everything up to this version is durable.
    Durable(u64),
}

/// What a volume has on the SSD.
#[derive(Debug)]
pub struct VolumeStore {
    pub(crate) places: Places,
    pub(crate) journal: Journal,
    pub(crate) cache: CacheId,
    pub(crate) tag: VolumeTag,
    pub(crate) layout: DeviceLayout,
    /// Those that are written, in the order of the places' numbers: ascending at a start, and those that were initialized since behind.
    pub(crate) extents: Vec<u32>,
    /// Those that are not, in the order in which they are to be, and how many of them are to stay the volume's.
    pub(crate) unwritten: Vec<u32>,
    pub(crate) unwritten_kept: u32,
    /// Sequence of the latest write of every table page.
    pub(crate) sequences: Vec<u64>,
    checkpoint: Option<Checkpoint>,
    /// Extents that come or go.
    pub(crate) change: Option<ExtentsChange>,
    /// The journal's page when the latest complete checkpoint began.
    previous_start: u64,
    /// The journal is committed as soon as possible, whether or not anybody waits.
    commit_wanted: bool,
    pub(crate) outputs: VecDeque<Output>,
}

impl VolumeStore {
    pub(crate) fn new(
        cache: CacheId,
        tag: VolumeTag,
        layout: DeviceLayout,
        VolumeExtents { written: extents, unwritten }: VolumeExtents,
        sequences: Vec<u64>,
        places: Places,
        journal: Journal,
    ) -> VolumeStore {
        VolumeStore {
            previous_start: journal.page(),
            places,
            journal,
            cache,
            tag,
            layout,
            extents,
            unwritten_kept: unwritten.len() as u32,
            unwritten,
            sequences,
            checkpoint: None,
            change: None,
            commit_wanted: false,
            outputs: VecDeque::new(),
        }
    }

    /// What stands for the volume in every checksum.
    pub fn tag(&self) -> VolumeTag {
        self.tag
    }

    /// The cache.
    pub fn cache(&self) -> CacheId {
        self.cache
    }

    /// The cache, the volume and its journal ring.
    pub(crate) fn identity(&self) -> (CacheId, VolumeTag, u64) {
        (self.cache, self.tag, self.journal.ring())
    }

    /// Offset on the device of a place.
    pub fn offset(&self, place: Place) -> u64 {
        place_offset(&self.layout, &self.extents, place)
    }

    /// What clean places hold is gone where this is true of their offset on the device ([`Places::drop_copies`]).
    pub fn drop_copies(&mut self, is_home: impl Fn(u64) -> bool) {
        self.places.drop_copies(|place| is_home(place_offset(&self.layout, &self.extents, place)));
    }

    /// The volume's places.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The volume's places, to use them. What changes is journalled in the next commit.
    pub fn places_mut(&mut self) -> &mut Places {
        &mut self.places
    }

    /// From now on records outlive the process here.
    pub(crate) fn keep_records_in(&mut self, buffer: RecordBuffer) {
        self.places.keep_records_in(buffer);
    }

    /// The next thing to do on the SSD.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The journal is to be committed at the next [`VolumeStore::commit`], whether or not anybody waits.
    pub fn want_commit(&mut self) {
        self.commit_wanted = true;
    }

    /// Starts a commit if one is wanted and none is in flight: of what is to be durable, with a flush at its end, or only
    /// of what is to outlive the process, without.
    pub fn commit(&mut self, durable_wanted: u64, kept_wanted: u64) {
        let checkpoint_ends =
            self.checkpoint.as_ref().is_some_and(|c| c.pages.is_empty() && c.in_flight == 0);
        let durably = self.commit_wanted
            || durable_wanted > self.journal.durable_version()
            || self.places.records.len() >= MANY_RECORDS
            || checkpoint_ends
            || (self.journal.has_news() && !self.places.records.is_empty());
        let is_wanted = durably || kept_wanted > self.kept_version();
        if !is_wanted || self.journal.is_committing() || self.holds_commits() {
            return;
        }
        let version = self.places.version();
        let mut pages = Vec::new();
        if !durably {
            pages = self.journal.start_unflushed(&mut self.places.records, version);
        }
        // Without room in the ring only a flush makes some.
        if pages.is_empty() {
            self.commit_wanted = false;
            pages = self.journal.start(&mut self.places.records, version);
            if pages.is_empty() {
                self.flush();
            }
        }
        if planted("place-used-when-commit-starts") {
            self.places.free_up_to(version);
        }
        let write = |(offset_bytes, buf)| Output::Write { what: Metadata::JournalPage, offset_bytes, buf };
        self.outputs.extend(pages.into_iter().map(write));
    }

    /// What was wanted is done, without an error. After an error nothing more is to be told: no version will be durable
    /// any more, see [`Places::note_journal_failed`].
    pub fn done(&mut self, what: Metadata) -> MetadataOutcome {
        match what {
            Metadata::JournalPage => self.journal_page_written(),
            Metadata::NewTablePages | Metadata::ShareFlush => {
                self.change_advanced(what);
                MetadataOutcome::None
            }
            Metadata::JournalFlush => MetadataOutcome::Durable(self.committed()),
            Metadata::TablePage => {
                self.table_page_written();
                MetadataOutcome::None
            }
        }
    }

    /// Everything up to this version is durable.
    pub fn durable_version(&self) -> u64 {
        self.journal.durable_version()
    }

    /// The version up to which everything outlives the process.
    pub fn kept_version(&self) -> u64 {
        self.places.kept_version(self.journal.written_version())
    }

    fn journal_page_written(&mut self) -> MetadataOutcome {
        match self.journal.page_written() {
            Written::Some => return MetadataOutcome::None,
            Written::AllToFlush if planted("commit-without-flush") => {
                return MetadataOutcome::Durable(self.committed());
            }
            Written::AllToFlush => self.flush(),
            Written::All => {}
        }
        MetadataOutcome::Kept
    }

    /// All pages of the commit are written: flush them, and whatever a checkpoint has written.
    fn flush(&mut self) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.covered = checkpoint.pages.is_empty() && checkpoint.in_flight == 0;
        }
        self.outputs.push_back(Output::Flush { what: Metadata::JournalFlush });
    }

    /// The commit is durable. Returns its version.
    fn committed(&mut self) -> u64 {
        let version = self.journal.flushed();
        self.places.durable(version);
        if let Some(checkpoint) = self.checkpoint.take_if(|checkpoint| checkpoint.covered) {
            let is_early = planted("tail-a-checkpoint-early");
            let tail = if is_early { checkpoint.start } else { self.previous_start };
            self.journal.checkpoint_durable(tail, version);
            self.previous_start = checkpoint.start;
            self.commit_wanted = true;
        }
        if self.hold_commits() {
            return version;
        }
        if self.checkpoint.is_none() && self.journal.wants_checkpoint() && !self.journal.has_news() {
            let pages = self.places.take_changed_pages();
            let start = self.journal.page();
            self.checkpoint = Some(Checkpoint { pages, in_flight: 0, start, covered: false });
            self.write_table_pages();
        }
        version
    }

    fn table_page_written(&mut self) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.in_flight.count_down();
            self.write_table_pages();
        } else {
            self.change_advanced(Metadata::TablePage);
        }
    }

    fn write_table_pages(&mut self) {
        while !self.holds_commits()
            && let Some(checkpoint) = self.checkpoint.as_mut().filter(|one| one.in_flight < PAGES_IN_FLIGHT)
            && let Some(page) = checkpoint.pages.pop()
        {
            checkpoint.in_flight += 1;
            self.write_table_page(page);
        }
        self.give_checkpoint_up();
    }

    /// A checkpoint that is under way when no commit may begin any more does not come to its end: what it has not written
    /// is to be written by what comes next, and what it has is not flushed.
    pub(crate) fn give_checkpoint_up(&mut self) {
        let is_held = self.holds_commits();
        if let Some(checkpoint) = self.checkpoint.take_if(|checkpoint| is_held && checkpoint.in_flight == 0) {
            self.places.mark_pages_changed(&checkpoint.pages);
            self.change_advanced(Metadata::TablePage);
        }
    }

    pub(crate) fn has_checkpoint(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// Writes what a table page should say now to its older copy. Says whether all of it is durable.
    pub(crate) fn write_table_page(&mut self, page: u32) -> bool {
        let sequence = &mut self.sequences[page as usize];
        *sequence += 1;
        let per_extent = self.layout.extent.table_pages;
        assert_eq!(self.places.durable_version(), self.journal.durable_version());
        let table = TablePage {
            volume: self.tag,
            extent: self.extents[(page / per_extent) as usize],
            page: page % per_extent,
            sequence: *sequence,
            stamp: self.journal.durable_version(),
            entries: self.places.page_entries(page),
        };
        let is_durable = table.entries.iter().all(|entry| entry.version <= table.stamp);
        let within = self.layout.extent.table_page(table.page, table.copy());
        let buf = Buf::copy_of(&table.encode(self.cache)[..]);
        let offset_bytes = self.layout.extent_start(table.extent) + within;
        self.outputs.push_back(Output::Write { what: Metadata::TablePage, offset_bytes, buf });
        is_durable
    }

    /// The journal goes on in a new ring over the extents that the volume has now. The tables say everything that is
    /// durable.
    pub(crate) fn renew_ring(&mut self) {
        let mut extents = self.extents.clone();
        extents.sort_unstable();
        self.journal = self.journal.renewed(extents, self.journal.durable_version());
        self.previous_start = self.journal.page();
        self.commit_wanted = true;
    }

    /// Whether the journal on the SSD knows everything, also how far it is durable.
    pub fn is_saved(&self) -> bool {
        self.places.records.is_empty() && !self.journal.is_behind() && !self.is_between_rings()
    }

    /// Bytes of memory that this takes.
    pub fn memory_bytes(&self) -> usize {
        self.places.memory_bytes() + self.sequences.capacity() * 8
    }
}

/// Offset on the device of a place of a volume that has these extents.
pub(crate) fn place_offset(layout: &DeviceLayout, extents: &[u32], place: Place) -> u64 {
    let (ordinal, within) = (place / layout.extent.places, place % layout.extent.places);
    layout.extent_start(extents[ordinal as usize]) + layout.extent.place(within)
}

/// The volume's place with this number on the device; `None` when the extent is not the volume's.
pub(crate) fn local_place(layout: &DeviceLayout, extents: &[u32], on_device: PlaceNo) -> Option<Place> {
    let places_per_extent = layout.extent.places;
    let ordinal = extents.binary_search(&(on_device / places_per_extent)).ok()?;
    Some(ordinal as u32 * places_per_extent + on_device % places_per_extent)
}
