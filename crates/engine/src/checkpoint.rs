//! The SSD of one volume: places, journal, and the checkpoints that keep the journal short.
//!
//! A checkpoint writes the table pages that changed since the last one or in the interval before, each to
//! its older copy, and after a flush lets go of the journal before the last one. So either copy of a page,
//! with the journal that is left, says everything, should the other be unreadable. Pages say what holds
//! *now*; that is safe because a change that destroys an entry waits until the journal is durable
//! ([`crate::slots`]), and an entry whose record is not durable yet is checked against its bytes at
//! recovery.

use lode_format::{CacheId, DeviceLayout, TablePage, VolumeTag};

use crate::Buf;
use crate::blocks::Place;
use crate::command::{CommandKind, DeviceId};
use crate::engine::Engine;
use crate::io::{Io, Owner, Want};
use crate::journal::{Journal, Written};
use crate::slots::Slots;

const PAGES_IN_FLIGHT: usize = 16;
/// Records that are committed even though nobody waits for them.
const MANY_RECORDS: usize = 1000;

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

/// What a volume has on the SSD.
#[derive(Debug)]
pub(crate) struct SsdState {
    pub(crate) slots: Slots,
    pub(crate) journal: Journal,
    cache: CacheId,
    tag: VolumeTag,
    layout: DeviceLayout,
    extents: Vec<u32>,
    /// Sequence of the latest write of every table page.
    sequences: Vec<u64>,
    checkpoint: Option<Checkpoint>,
    /// The journal's page when the latest complete checkpoint began.
    previous_start: u64,
    /// The journal is committed as soon as possible, whether or not anybody waits.
    pub(crate) commit_wanted: bool,
}

impl SsdState {
    pub(crate) fn new(
        cache: CacheId,
        tag: VolumeTag,
        layout: DeviceLayout,
        extents: Vec<u32>,
        sequences: Vec<u64>,
        slots: Slots,
        journal: Journal,
    ) -> SsdState {
        SsdState {
            previous_start: journal.page(),
            slots,
            journal,
            cache,
            tag,
            layout,
            extents,
            sequences,
            checkpoint: None,
            commit_wanted: false,
        }
    }

    pub(crate) fn tag(&self) -> VolumeTag {
        self.tag
    }

    /// The cache, the volume and its journal ring.
    pub(crate) fn identity(&self) -> (CacheId, VolumeTag, u64) {
        (self.cache, self.tag, self.journal.ring())
    }

    /// Offset on the device of a place.
    pub(crate) fn offset(&self, place: Place) -> u64 {
        let (extent, within) = (place / self.layout.extent.slots, place % self.layout.extent.slots);
        self.layout.extent_start(self.extents[extent as usize]) + self.layout.extent.slot(within)
    }

    /// Starts a commit if one is wanted and none is in flight: of what is to be durable, with a flush at its end, or only
    /// of what is to outlive the process, without.
    pub(crate) fn commit(&mut self, io: &mut Io, durable_wanted: u64, kept_wanted: u64) {
        let checkpoint_ends =
            self.checkpoint.as_ref().is_some_and(|c| c.pages.is_empty() && c.in_flight == 0);
        let durably = self.commit_wanted
            || durable_wanted > self.journal.durable_version()
            || self.slots.records.len() >= MANY_RECORDS
            || checkpoint_ends
            || (self.journal.has_news() && !self.slots.records.is_empty());
        let is_wanted = durably || kept_wanted > self.kept_version();
        if !is_wanted || self.journal.is_committing() {
            return;
        }
        let version = self.slots.version();
        let mut pages = Vec::new();
        if !durably {
            pages = self.journal.start_unflushed(&mut self.slots.records, version);
        }
        // Without room in the ring only a flush makes some.
        if pages.is_empty() {
            self.commit_wanted = false;
            pages = self.journal.start(&mut self.slots.records, version);
            if pages.is_empty() {
                self.flush(io);
            }
        }
        for (offset_bytes, buf) in pages {
            let (device, owner, len) = (DeviceId::Ssd, Owner::JournalPage, buf.len());
            io.want(Want { device, offset_bytes, len, data: Some(buf), owner });
        }
    }

    /// The version up to which everything outlives the process.
    pub(crate) fn kept_version(&self) -> u64 {
        self.slots.kept_version(self.journal.written_version())
    }

    /// A page of the commit is written. True: all are, and what they say outlives the process.
    pub(crate) fn journal_page_written(&mut self, io: &mut Io) -> bool {
        match self.journal.page_written() {
            Written::Some => return false,
            Written::AllToFlush => self.flush(io),
            Written::All => {}
        }
        true
    }

    /// All pages of the commit are written: flush them, and whatever a checkpoint has written.
    pub(crate) fn flush(&mut self, io: &mut Io) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.covered = checkpoint.pages.is_empty() && checkpoint.in_flight == 0;
        }
        io.command(DeviceId::Ssd, CommandKind::Flush, Owner::JournalFlush);
    }

    /// The commit is durable. Returns its version.
    pub(crate) fn committed(&mut self, io: &mut Io) -> u64 {
        let version = self.journal.flushed();
        self.slots.durable(version);
        if let Some(checkpoint) = self.checkpoint.take_if(|checkpoint| checkpoint.covered) {
            self.journal.set_tail(self.previous_start);
            self.previous_start = checkpoint.start;
            self.commit_wanted = true;
        }
        if self.checkpoint.is_none() && self.journal.wants_checkpoint() && !self.journal.has_news() {
            let pages = self.slots.take_changed_pages();
            let start = self.journal.page();
            self.checkpoint = Some(Checkpoint { pages, in_flight: 0, start, covered: false });
            self.write_table_pages(io);
        }
        version
    }

    pub(crate) fn table_page_written(&mut self, io: &mut Io) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.in_flight -= 1;
            self.write_table_pages(io);
        }
    }

    fn write_table_pages(&mut self, io: &mut Io) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        while checkpoint.in_flight < PAGES_IN_FLIGHT
            && let Some(page) = checkpoint.pages.pop()
        {
            checkpoint.in_flight += 1;
            let sequence = &mut self.sequences[page as usize];
            *sequence += 1;
            let per_extent = self.layout.extent.table_pages;
            let extent = self.extents[(page / per_extent) as usize];
            let table = TablePage {
                volume: self.tag,
                extent,
                page: page % per_extent,
                sequence: *sequence,
                stamp: self.journal.durable_version(),
                entries: self.slots.page_entries(page),
            };
            let within = self.layout.extent.table_page(table.page, table.copy());
            let buf = Buf::copy_of(&table.encode(self.cache)[..]);
            io.want(Want {
                device: DeviceId::Ssd,
                offset_bytes: self.layout.extent_start(extent) + within,
                len: buf.len(),
                data: Some(buf),
                owner: Owner::TablePage,
            });
        }
    }

    /// Whether the journal on the SSD knows everything, also how far it is durable.
    pub(crate) fn is_saved(&self) -> bool {
        self.slots.records.is_empty() && !self.journal.is_behind()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes() + self.sequences.capacity() * 8
    }
}

/// The volume's place of a device's slot number; `None` when the extent is not the volume's.
pub(crate) fn local_place(layout: &DeviceLayout, extents: &[u32], slot: u32) -> Option<Place> {
    let slots = layout.extent.slots;
    let ordinal = extents.binary_search(&(slot / slots)).ok()?;
    Some(ordinal as u32 * slots + slot % slots)
}

impl Engine {
    /// Commits the journal if anybody waits for it or space runs short.
    pub(crate) fn drive_journal(&mut self) {
        let durable_wanted = self.durable.version_waited_for().max(self.range_version());
        let kept_wanted = self.durable.kept_waited_for();
        let pressed = self.admission_is_blocked() || self.copies.wants_places();
        if let Some(ssd) = &mut self.ssd {
            ssd.commit_wanted |= pressed && ssd.slots.waiting() > 0;
            ssd.commit(&mut self.io, durable_wanted, kept_wanted);
        }
    }
}
