//! Extents that come to a volume or leave it while it is served, and those that are initialized.
//!
//! An extent that comes is *unwritten*: it is the volume's, and its tables count as empty whatever is there. Before its places are used
//! it is initialized: both copies of its tables are written and flushed, then the directory calls it written. The journal goes on as
//! it is through both, and the ring takes in what was initialized when it comes to its end ([`crate::journal::Journal::lengthen`]). An
//! unwritten extent leaves by a change of the directory alone.
//!
//! The volume's journal is a ring over its written extents, so that when one of them leaves another ring begins, and a new ring needs
//! tables that say everything. So such a change goes through these steps, and a power cut between any two writes finds the volume as
//! it was before or as it is after:
//!
//! 1. An extent that goes holds nothing any more ([`crate::circulation`]).
//! 2. With its turn ([`VolumeStore::begin_change`]) the volume lets a commit end durably, and begins no other one.
//! 3. What a checkpoint has written that was given up is flushed. All that the tables do not say yet is written to the older
//!    copy of each page and flushed, then to the other one and flushed. Now both say everything that is durable, and the old
//!    ring is not needed any more. It still counts, and agrees.
//! 4. The directory is replaced ([`VolumeStore::next_change`], [`crate::SpaceDirectory`]): the extents are nobody's, and the
//!    volume has a new ring.
//! 5. Commits go on, in the new ring ([`VolumeStore::changed`]). Records that were made meanwhile are its first.

use lode_format::{VolumeExtents, VolumeTag};
use lode_types::{Buf, Counter, planted};

use crate::empty_tables::{PAGES_AT_ONCE, empty_tables};
use crate::place::Place;
use crate::volume::{Metadata, Output, PAGES_IN_FLIGHT, VolumeStore};

/// Bytes of extents that are initialized at once, if the volume has as much that is written, and for which places are kept free.
const INITIALIZED_BYTES: u64 = 8 << 30;
/// Places that are kept free in any case: more than a request may need at once.
const LEAST_FREE: u32 = 256;
/// Writes of their tables in flight.
const WRITES_IN_FLIGHT: usize = 4;

/// What the directory is to say of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryChange {
    /// The volume.
    pub volume: VolumeTag,
    /// All of its extents.
    pub extents: VolumeExtents,
    /// Its journal ring, which is another one where extents go that were written.
    pub ring: u64,
}

/// How far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Tables of extents that are initialized are written: pages by their number over these extents.
    NewTables {
        next: u32,
        in_flight: usize,
    },
    FlushNewTables,
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

/// What becomes of extents.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// So many of the last written ones go, and so many of the last unwritten ones.
    GiveUp { written: u32, unwritten: u32 },
    /// These come, unwritten.
    Gain(Vec<u32>),
    /// So many of the first unwritten ones are initialized.
    Initialize(u32),
}

/// A change of a volume's extents.
#[derive(Debug)]
pub(crate) struct ExtentsChange {
    kind: Kind,
    step: Step,
    /// Table pages that spoke of what is not durable yet, and have to be written once more in the new ring.
    ahead: Vec<u32>,
}

impl ExtentsChange {
    /// Whether the journal begins another ring.
    fn has_new_ring(&self) -> bool {
        matches!(self.kind, Kind::GiveUp { written: 1.., .. })
    }
}

impl VolumeStore {
    /// Extents that are the volume's, those that are about to go included.
    pub fn extents(&self) -> u32 {
        (self.extents.len() + self.unwritten.len()) as u32
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
    /// so many (`reserved`) of their free places that others rely on. Those that are unwritten come last, so that they go first. While
    /// extents come or go nothing changes.
    pub fn circulate(&mut self, extents: u32, reserved: u32) {
        if self.change.is_none() {
            let circulation = self.places.circulation_mut();
            let beyond_written = extents.saturating_sub(circulation.all_extents());
            self.unwritten_kept = beyond_written.min(self.unwritten.len() as u32);
            match extents >= circulation.extents() {
                true => circulation.reinstate(extents),
                false => circulation.retire(extents, reserved),
            }
        }
    }

    /// The first place that is to be left, of a volume that gives extents up.
    pub fn retiring_from(&self) -> Option<Place> {
        let circulation = self.places.circulation();
        (circulation.extents() < circulation.all_extents()).then(|| circulation.end())
    }

    /// Places that are handed out, or in use, of the extents that stay, and those that will be when they are initialized. Those that
    /// failed are not among them.
    pub fn usable_places(&self) -> u32 {
        let circulation = self.places.circulation();
        let failed = self.places.quarantined_before(circulation.end());
        circulation.capacity_with(self.unwritten_kept).saturating_sub(failed)
    }

    /// Extents that retire, and how many of them hold nothing any more.
    pub fn retiring_extents(&self) -> (u32, u32) {
        let circulation = self.places.circulation();
        let unwritten = self.retiring_unwritten();
        let retiring = circulation.all_extents() - circulation.extents();
        (retiring + unwritten, circulation.empty_extents() + unwritten)
    }

    fn retiring_unwritten(&self) -> u32 {
        self.unwritten.len() as u32 - self.unwritten_kept
    }

    /// These extents, which are nobody's, are to be the volume's. There is no other change under way.
    pub fn gain(&mut self, extents: Vec<u32>) {
        assert!(self.change.is_none() && !extents.is_empty() && self.retiring_extents().0 == 0);
        self.begin(Kind::Gain(extents), Step::Ready);
    }

    /// Extents that retire and hold nothing any more are to be nobody's. False: there are none, or another change is under
    /// way.
    pub fn give_up_empty(&mut self) -> bool {
        let (written, unwritten) = (self.places.circulation().empty_extents(), self.retiring_unwritten());
        let is_begun = self.change.is_none() && written + unwritten > 0;
        if is_begun {
            self.begin(Kind::GiveUp { written, unwritten }, Step::Ready);
        }
        is_begun
    }

    fn begin(&mut self, kind: Kind, step: Step) {
        self.change = Some(ExtentsChange { kind, step, ahead: Vec::new() });
    }

    /// Initializes unwritten extents, where few places of the others are free and no change is under way: those that guests may
    /// write to until it is done. As many at most as there are already, so that what is little used stays unwritten.
    pub fn initialize(&mut self) {
        if self.change.is_none() && self.runs_short() {
            // Unwritten ones go first, so that none of the others does where some stay.
            assert!(self.retiring_from().is_none());
            let count = self.initialized_at_once().min(self.extents.len() as u32).min(self.unwritten_kept);
            self.begin(Kind::Initialize(count), Step::NewTables { next: 0, in_flight: 0 });
            self.write_new_tables();
        }
    }

    fn initialized_at_once(&self) -> u32 {
        (INITIALIZED_BYTES / self.layout.extent.extent_bytes).max(1) as u32
    }

    /// Whether so few places are free that extents are to be initialized, if there are any.
    fn runs_short(&self) -> bool {
        let layout = &self.layout.extent;
        let half = self.extents.len() as u32 * layout.places / 2;
        let kept_free = self.initialized_at_once().saturating_mul(layout.places).min(half).max(LEAST_FREE);
        self.unwritten_kept > 0 && self.places.free() < kept_free
    }

    /// Whether more places come without anybody giving one up, because extents are being initialized, or are next.
    pub fn has_places_to_come(&self) -> bool {
        let initializes = |change: &ExtentsChange| matches!(change.kind, Kind::Initialize(_));
        self.change.as_ref().is_some_and(initializes) || self.runs_short()
    }

    /// Places of unwritten extents that stay: who counts on so many places counts on these as well.
    pub fn unwritten_places(&self) -> u32 {
        self.unwritten_kept * self.layout.extent.places
    }

    /// Whether the next step is that of whoever gives turns.
    pub fn waits_for_turn(&self) -> bool {
        self.is_at(&Step::Ready)
    }

    /// Whether extents come or go.
    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Extents that come.
    pub fn coming(&self) -> u32 {
        match self.change.as_ref().map(|change| &change.kind) {
            Some(Kind::Gain(extents)) => extents.len() as u32,
            _ => 0,
        }
    }

    /// It is the volume's turn.
    pub fn begin_change(&mut self) {
        assert!(self.waits_for_turn());
        if self.change.as_ref().is_some_and(ExtentsChange::has_new_ring) {
            self.go_to(Step::LastCommit);
            self.want_commit();
        } else {
            self.go_to(Step::Directory);
        }
    }

    /// What the directory is to say, once everything is there that this relies on.
    pub fn next_change(&mut self) -> Option<DirectoryChange> {
        if !self.is_at(&Step::Directory) {
            return None;
        }
        self.go_to(Step::Told);
        let change = self.change.as_ref()?;
        let mut extents = VolumeExtents { written: self.extents.clone(), unwritten: self.unwritten.clone() };
        let VolumeExtents { written, unwritten } = &mut extents;
        match &change.kind {
            Kind::GiveUp { written: going, unwritten: going_unwritten } => {
                written.truncate(written.len() - *going as usize);
                unwritten.truncate(unwritten.len() - *going_unwritten as usize);
            }
            Kind::Gain(coming) => unwritten.extend_from_slice(coming),
            Kind::Initialize(_) if planted("places-used-before-they-are-initialized") => {}
            Kind::Initialize(count) => written.extend(unwritten.drain(..*count as usize)),
        }
        written.sort_unstable();
        unwritten.sort_unstable();
        let ring = self.journal.ring() + u64::from(change.has_new_ring());
        Some(DirectoryChange { volume: self.tag, extents, ring })
    }

    /// The directory says so durably.
    pub fn changed(&mut self) {
        let change = self.change.take().filter(|change| change.step == Step::Told);
        let ExtentsChange { kind, ahead, .. } = change.expect("the directory changes when it was asked to");
        let pages = self.layout.extent.table_pages as usize;
        match kind {
            Kind::GiveUp { written, unwritten } => {
                self.unwritten.truncate(self.unwritten.len() - unwritten as usize);
                if written > 0 {
                    self.extents.truncate(self.extents.len() - written as usize);
                    self.places.remove_extents(written);
                    self.sequences.truncate(self.extents.len() * pages);
                    self.places.mark_pages_changed(&ahead);
                    self.renew_ring();
                }
            }
            Kind::Gain(coming) => self.unwritten.extend(coming),
            Kind::Initialize(count) => {
                let initialized: Vec<u32> = self.unwritten.drain(..count as usize).collect();
                self.extents.extend_from_slice(&initialized);
                self.places.add_extents(&initialized);
                // Both copies of each page were written.
                self.sequences.resize(self.extents.len() * pages, 2);
                self.journal.lengthen(&initialized);
            }
        }
        self.unwritten_kept = self.unwritten.len() as u32;
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
        change.has_new_ring() && change.step != Step::Ready
    }

    /// Whether no commit may begin, nor a checkpoint go on.
    pub(crate) fn holds_commits(&self) -> bool {
        self.is_between_rings() && !self.is_at(&Step::LastCommit)
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
            (Step::NewTables { in_flight, .. }, Metadata::NewTablePages) => {
                in_flight.count_down();
                self.write_new_tables();
            }
            (Step::FlushNewTables, Metadata::ShareFlush) => self.go_to(Step::Ready),
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

    /// Writes empty tables, both copies, to extents that are initialized. They speak of all versions until now, so that no record of
    /// an earlier time, when an extent may have been the volume's before, is believed there.
    fn write_new_tables(&mut self) {
        let pages = self.layout.extent.table_pages;
        while let Some(ExtentsChange {
            kind: Kind::Initialize(count),
            step: Step::NewTables { next, in_flight },
            ..
        }) = &mut self.change
        {
            let is_last = *next == *count * pages;
            if is_last && *in_flight == 0 {
                if planted("initialized-tables-not-flushed") {
                    self.go_to(Step::Ready);
                    return;
                }
                self.go_to(Step::FlushNewTables);
                self.outputs.push_back(Output::Flush { what: Metadata::ShareFlush });
                return;
            }
            if is_last || *in_flight == WRITES_IN_FLIGHT {
                return;
            }
            let (extent, first) = (self.unwritten[(*next / pages) as usize], *next % pages);
            let end = pages.min(first + PAGES_AT_ONCE);
            (*next, *in_flight) = (*next + end - first, *in_flight + 1);
            let stamp = self.journal.durable_version();
            let (offset_bytes, bytes) =
                empty_tables((self.cache, self.tag), &self.layout, extent, first..end, stamp);
            let (what, buf) = (Metadata::NewTablePages, Buf::copy_of(&bytes));
            self.outputs.push_back(Output::Write { what, offset_bytes, buf });
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
                self.outputs.push_back(Output::Flush { what: Metadata::ShareFlush });
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
