//! Extents that come to a volume or leave it while it is served.
//!
//! The volume's journal is a ring over all of its extents, so that another set of extents needs a new ring, and a new ring
//! needs tables that say everything. So a change goes through these steps, and a power cut between any two writes finds the
//! volume as it was before or as it is after:
//!
//! 1. An extent that goes holds nothing any more ([`crate::circulation`]). One that comes gets new tables in both copies: of what
//!    was there nothing is read again.
//! 2. With its turn ([`VolumeStore::begin_change`]) the volume lets a commit end durably, and begins no other one.
//! 3. What a checkpoint has written that was given up is flushed. All that the tables do not say yet is written to the older
//!    copy of each page and flushed, then to the other one and flushed. Now both say everything that is durable, and the old
//!    ring is not needed any more. It still counts, and agrees.
//! 4. The directory is replaced ([`VolumeStore::next_change`], [`crate::SpaceDirectory`]): it names the new owner of the extents and
//!    the volume's new ring.
//! 5. Commits go on, in the new ring ([`VolumeStore::changed`]). Records that were made meanwhile are its first.

use lode_format::{TablePage, VolumeTag};
use lode_types::{Counter, planted};

use crate::place::Place;
use crate::volume::{Metadata, PAGES_IN_FLIGHT, VolumeStore};

/// What the directory is to say of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryChange {
    /// The volume.
    pub volume: VolumeTag,
    /// All of its extents, ascending.
    pub extents: Vec<u32>,
    /// Its journal ring.
    pub ring: u64,
}

/// How far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Tables of extents that come are written: pages by their number over these extents, and copies of them.
    NewTables {
        next: u32,
        in_flight: usize,
    },
    /// Its turn is waited for.
    Ready,
    /// The commit under way has to end, or a last one has to be made.
    LastCommit,
    /// What the tables lack is written.
    Tables {
        pages: Vec<u32>,
        in_flight: usize,
        copy: TableCopy,
    },
    Flush {
        copy: TableCopy,
    },
    /// The directory has to be replaced, and nobody was told yet.
    Directory,
    /// It is being replaced.
    Told,
}

/// Which copy of table pages was written since the last flush. One has to be durable before the other one is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableCopy {
    /// The older ones of some pages, by a checkpoint that was given up.
    OfCheckpoint,
    First,
    Second,
}

/// A change of a volume's extents.
#[derive(Debug)]
pub(crate) struct ExtentsChange {
    step: Step,
    /// So many of the last extents go.
    leaving: u32,
    /// These come.
    coming: Vec<u32>,
    /// Table pages that spoke of what is not durable yet, and have to be written once more in the new ring.
    ahead: Vec<u32>,
}

impl VolumeStore {
    /// Extents that are the volume's, those that are about to go included.
    pub fn extents(&self) -> u32 {
        self.extents.len() as u32
    }

    /// Extents that take so many places.
    pub fn extents_for(&self, places: u64) -> u32 {
        self.layout.extents_for(places) as u32
    }

    /// Bytes of an extent.
    pub fn extent_bytes(&self) -> u64 {
        self.layout.extent.extent_bytes
    }

    /// Hands out the places of so many extents, and none of those behind, as far as what is in these fits into the others beside
    /// so many (`reserved`) of their free places that others rely on. Gives how many extents it is now. While extents come or go
    /// nothing changes.
    pub fn circulate(&mut self, extents: u32, reserved: u32) -> u32 {
        let circulation = self.places.circulation_mut();
        if self.change.is_none() {
            match extents >= circulation.extents() {
                true => circulation.reinstate(extents),
                false => circulation.retire(extents, reserved),
            }
        }
        circulation.extents()
    }

    /// The first place that is to be left, of a volume that gives extents up.
    pub fn retiring_from(&self) -> Option<Place> {
        let circulation = self.places.circulation();
        (circulation.extents() < circulation.all_extents()).then(|| circulation.end())
    }

    /// Places that are handed out, or in use, of the extents that stay. Those that failed are not among them.
    pub fn usable_places(&self) -> u32 {
        let end = self.places.circulation().end();
        self.places.circulation().capacity().saturating_sub(self.places.quarantined_before(end))
    }

    /// Extents that retire, and how many of them hold nothing any more.
    pub fn retiring_extents(&self) -> (u32, u32) {
        let circulation = self.places.circulation();
        (circulation.all_extents() - circulation.extents(), circulation.empty_extents())
    }

    /// These extents, which are nobody's, are to be the volume's. There is no other change under way.
    pub fn gain(&mut self, extents: Vec<u32>) {
        assert!(self.change.is_none() && !extents.is_empty() && self.retiring_from().is_none());
        let step = Step::NewTables { next: 0, in_flight: 0 };
        self.change = Some(ExtentsChange { step, leaving: 0, coming: extents, ahead: Vec::new() });
        self.write_new_tables();
    }

    /// Extents that retire and hold nothing any more are to be nobody's. False: there are none, or another change is under
    /// way.
    pub fn give_up_empty(&mut self) -> bool {
        let leaving = self.places.circulation().empty_extents();
        if self.change.is_some() || leaving == 0 {
            return false;
        }
        let step = Step::Ready;
        self.change = Some(ExtentsChange { step, leaving, coming: Vec::new(), ahead: Vec::new() });
        true
    }

    /// Whether the next step is that of whoever gives turns: from then on until the end the volume commits nothing.
    pub fn waits_for_turn(&self) -> bool {
        self.is_at(&Step::Ready)
    }

    /// Whether extents come or go.
    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Extents that come.
    pub fn coming(&self) -> u32 {
        self.change.as_ref().map_or(0, |change| change.coming.len() as u32)
    }

    /// It is the volume's turn.
    pub fn begin_change(&mut self) {
        assert!(self.waits_for_turn());
        self.go_to(Step::LastCommit);
        self.want_commit();
    }

    /// What the directory is to say, once everything is there that this relies on.
    pub fn next_change(&mut self) -> Option<DirectoryChange> {
        if !self.is_at(&Step::Directory) {
            return None;
        }
        self.go_to(Step::Told);
        let change = self.change.as_ref()?;
        let left = self.extents.len() - change.leaving as usize;
        let mut extents = [&self.extents[..left], &change.coming].concat();
        extents.sort_unstable();
        Some(DirectoryChange { volume: self.tag, extents, ring: self.journal.ring() + 1 })
    }

    /// The directory says so durably.
    pub fn changed(&mut self) {
        let Some(ExtentsChange { step: Step::Told, leaving, coming, ahead }) = self.change.take() else {
            unreachable!("the directory changes when it was asked to")
        };
        let pages = self.layout.extent.table_pages as usize;
        if leaving > 0 {
            self.extents.truncate(self.extents.len() - leaving as usize);
            self.places.remove_extents(leaving);
        }
        if !coming.is_empty() {
            self.extents.extend_from_slice(&coming);
            self.places.add_extents(&coming);
        }
        // Both copies of new pages were written.
        self.sequences.resize(self.extents.len() * pages, 2);
        self.places.mark_pages_changed(&ahead);
        self.renew_ring();
    }

    fn is_at(&self, step: &Step) -> bool {
        self.change.as_ref().is_some_and(|change| change.step == *step)
    }

    fn go_to(&mut self, step: Step) {
        if let Some(change) = &mut self.change {
            change.step = step;
        }
    }

    /// Whether what the volume has depends on a directory that is being replaced, or soon will be.
    pub(crate) fn is_between_rings(&self) -> bool {
        let Some(change) = &self.change else { return false };
        !matches!(change.step, Step::NewTables { .. } | Step::Ready)
    }

    /// Whether no commit may begin, nor a checkpoint go on.
    pub(crate) fn holds_commits(&self) -> bool {
        let Some(change) = &self.change else { return false };
        !matches!(change.step, Step::NewTables { .. } | Step::Ready | Step::LastCommit)
    }

    /// A commit has ended durably, and everything that was written to the journal is. True: it was the last one in this ring.
    pub(crate) fn hold_commits(&mut self) -> bool {
        if !self.is_at(&Step::LastCommit) {
            return false;
        }
        self.go_to(Step::Tables { pages: Vec::new(), in_flight: 0, copy: TableCopy::OfCheckpoint });
        match self.has_checkpoint() {
            true => self.give_checkpoint_up(),
            false => self.begin_tables(TableCopy::First),
        }
        true
    }

    /// What the change waited for is done.
    pub(crate) fn change_advanced(&mut self, what: Metadata) {
        let Some(change) = &mut self.change else { return };
        match (&mut change.step, what) {
            (Step::NewTables { in_flight, .. }, Metadata::NewTablePage) => {
                in_flight.count_down();
                self.write_new_tables();
            }
            (Step::Tables { in_flight: 0, copy: TableCopy::OfCheckpoint, .. }, Metadata::TablePage) => {
                match planted("given-up-checkpoint-not-flushed") {
                    true => self.begin_tables(TableCopy::First),
                    false => self.write_tables(),
                }
            }
            (Step::Tables { in_flight, .. }, Metadata::TablePage) => {
                in_flight.count_down();
                self.write_tables();
            }
            (&mut Step::Flush { copy }, Metadata::ShareFlush) => match copy {
                TableCopy::OfCheckpoint => self.begin_tables(TableCopy::First),
                TableCopy::First if !planted("change-in-one-table-copy") => {
                    self.begin_tables(TableCopy::Second);
                }
                _ => self.go_to(Step::Directory),
            },
            (step, what) => unreachable!("{what:?} at {step:?}"),
        }
    }

    /// Writes empty tables, both copies, to extents that come. They speak of all versions until now, so that no record of
    /// an earlier time, when an extent may have been the volume's before, is believed there.
    fn write_new_tables(&mut self) {
        let pages = self.layout.extent.table_pages;
        while let Some(ExtentsChange { step: Step::NewTables { next, in_flight }, coming, .. }) =
            &mut self.change
        {
            let copies = coming.len() as u32 * pages * 2;
            if *next == copies && *in_flight == 0 {
                self.go_to(Step::Ready);
                return;
            }
            if *next == copies || *in_flight == PAGES_IN_FLIGHT {
                return;
            }
            let (page, copy) = (*next / 2, *next % 2);
            let extent = coming[(page / pages) as usize];
            (*next, *in_flight) = (*next + 1, *in_flight + 1);
            let stamp = self.journal.durable_version();
            let empty = TablePage::empty(self.tag, extent, page % pages, u64::from(copy) + 1);
            self.write_table(&TablePage { stamp, ..empty }, Metadata::NewTablePage);
        }
    }

    fn begin_tables(&mut self, copy: TableCopy) {
        let pages = self.places.take_changed_pages();
        self.go_to(Step::Tables { pages, in_flight: 0, copy });
        self.write_tables();
    }

    fn write_tables(&mut self) {
        while let Some(ExtentsChange { step: Step::Tables { pages, in_flight, copy }, .. }) = &mut self.change
        {
            if pages.is_empty() && *in_flight == 0 {
                let copy = *copy;
                self.go_to(Step::Flush { copy });
                self.outputs.push_back(crate::volume::Output::Flush { what: Metadata::ShareFlush });
                return;
            }
            let Some(page) = pages.pop_if(|_| *in_flight < PAGES_IN_FLIGHT) else { return };
            *in_flight += 1;
            if !self.write_table_page(page)
                && let Some(change) = &mut self.change
            {
                change.ahead.push(page);
            }
        }
    }
}
