//! The volume's journal: records gathered into pages, pages written and flushed as one commit at a time.

use lode_format::{CacheId, DeviceLayout, JournalPage, RECORDS_PER_PAGE, Record, VolumeTag};

use lode_types::{Buf, Counter, planted};

/// Most pages of one commit, so that a commit's waiters are not held up by an endless one.
const MAX_PAGES_PER_COMMIT: usize = 64;

/// Every start begins a ring whose number is the next multiple of this. Those that a run begins because its extents change
/// come behind, one by one, so that a ring's number says which start it is of.
const RINGS_PER_RUN: u64 = 1 << 32;

/// The first page of a ring, which is in the second of its pairs.
pub(crate) const FIRST_PAGE: u64 = 1;

/// The first ring of a run that comes after this ring.
pub(crate) fn first_ring_after(ring: u64) -> u64 {
    (ring / RINGS_PER_RUN + 1) * RINGS_PER_RUN
}

/// Whether a run that began with the ring `first` has come to this one. Numbers below were given without a rule, one to
/// each start.
pub(crate) fn is_ring_of_run(first: u64, ring: u64) -> bool {
    first == ring
        || (first >= RINGS_PER_RUN && first <= ring && first / RINGS_PER_RUN == ring / RINGS_PER_RUN)
}

/// A commit in flight.
#[derive(Debug)]
struct Commit {
    pages_left: usize,
    version: u64,
    page: u64,
    tail: u64,
    /// A flush ends it.
    durably: bool,
}

/// How far the pages of a commit have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// Some are not written yet.
    Some,
    /// All are, and the SSD must be flushed.
    AllToFlush,
    /// All are, which is all that was wanted.
    All,
}

/// The ring and the commit in flight.
#[derive(Debug)]
pub(crate) struct Journal {
    cache: CacheId,
    tag: VolumeTag,
    ring: u64,
    layout: DeviceLayout,
    extents: Vec<u32>,
    pairs: u64,
    /// The page of the ring's first pair, in this time around or, where it has grown since it began, as if it had always been so long.
    origin: u64,
    /// Extents of which the ring is to be once it comes to its end: those that it has, and others behind them.
    longer: Option<Vec<u32>>,
    /// The page being filled and what it holds; `side` is where it is written next.
    page: u64,
    records: Vec<Record>,
    side: u8,
    /// Pages below are in the place tables; `reusable` follows once a durable page says so.
    tail: u64,
    reusable: u64,
    durable_page: u64,
    durable_version: u64,
    /// Table pages with a stamp below this version are durable; 0 where no checkpoint has said so.
    durable_tables: u64,
    /// Everything up to this version is in pages that were written, flushed or not.
    written_version: u64,
    /// Pages were written that no flush covers. The last of them is full, so that it is not written again before one does.
    unflushed: bool,
    /// The durable version and the tail that the latest page written speaks of.
    told: u64,
    told_tail: u64,
    commit: Option<Commit>,
}

impl Journal {
    /// A new, empty ring over these extents. Everything up to `version` is in the place tables.
    pub(crate) fn new(
        cache: CacheId,
        tag: VolumeTag,
        ring: u64,
        layout: DeviceLayout,
        extents: Vec<u32>,
        version: u64,
    ) -> Journal {
        let pairs = pairs_of(&layout, &extents);
        Journal {
            cache,
            tag,
            ring,
            layout,
            extents,
            pairs,
            origin: 0,
            longer: None,
            page: FIRST_PAGE,
            records: Vec::new(),
            side: 0,
            tail: FIRST_PAGE,
            reusable: FIRST_PAGE,
            durable_page: 0,
            durable_version: version,
            durable_tables: 0,
            written_version: version,
            unflushed: false,
            told: version,
            told_tail: FIRST_PAGE,
            commit: None,
        }
    }

    pub(crate) fn durable_version(&self) -> u64 {
        self.durable_version
    }

    /// The version up to which a kill of the process loses nothing, because the SSD was given it.
    pub(crate) fn written_version(&self) -> u64 {
        self.written_version
    }

    /// Whether no page written says how much is durable: at a restart the latest commit would be believed
    /// only as far as its blocks fit their checksums.
    pub(crate) fn is_behind(&self) -> bool {
        self.told < self.durable_version
    }

    pub(crate) fn is_committing(&self) -> bool {
        self.commit.is_some()
    }

    /// The ring that this run writes.
    pub(crate) fn ring(&self) -> u64 {
        self.ring
    }

    /// The page being filled: pages below it are complete.
    pub(crate) fn page(&self) -> u64 {
        self.page
    }

    /// A checkpoint is durable, and with it every write of a table page until now: those that follow have this version as their stamp, or
    /// a later one. What pages below `tail` say is in the tables.
    pub(crate) fn checkpoint_durable(&mut self, tail: u64, version: u64) {
        (self.tail, self.durable_tables) = (tail, version);
    }

    /// The same volume's next ring, over these extents. Everything up to `version` is in the place tables.
    pub(crate) fn renewed(&self, extents: Vec<u32>, version: u64) -> Journal {
        let next = Journal::new(self.cache, self.tag, self.ring + 1, self.layout, extents, version);
        Journal { durable_tables: self.durable_tables, ..next }
    }

    /// Whether three quarters of the ring wait for a checkpoint.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        (self.page - self.tail) * 4 >= self.pairs * 3
    }

    /// Whether a durable page has yet to say what the latest checkpoint made reusable.
    pub(crate) fn has_news(&self) -> bool {
        self.tail != self.reusable
    }

    /// Starts a commit of as many of `pending` as there is room for, and returns the pages to write before the flush.
    /// `version` is the latest of the volume: with all of `pending` committed, everything up to it is.
    /// Without records, or without room, the page being filled is written once more, for its header; a page that no
    /// flush covers is not, because its other side may be the durable one. Then there is only the flush.
    pub(crate) fn start(&mut self, pending: &mut Vec<Record>, version: u64) -> Vec<(u64, Buf)> {
        if self.unflushed && (pending.is_empty() || !self.has_space()) {
            self.begin(0, self.written_version, true);
            return Vec::new();
        }
        let (mut writes, version) = self.fill_pages(pending, version, false);
        if writes.is_empty() {
            writes.push(self.write_page());
        }
        self.begin(writes.len(), version, true);
        writes
    }

    /// Starts a commit without a flush, for what is to outlive the process and not more. Its last page is filled up with
    /// its last record, which says nothing new, so that the next commit takes the next page: the only sides that a kill
    /// or a power cut may find are never written over. Without room nothing is started.
    pub(crate) fn start_unflushed(&mut self, pending: &mut Vec<Record>, version: u64) -> Vec<(u64, Buf)> {
        let (writes, version) = self.fill_pages(pending, version, true);
        if !writes.is_empty() {
            self.begin(writes.len(), version, false);
        }
        writes
    }

    fn begin(&mut self, pages_left: usize, version: u64, durably: bool) {
        assert!(self.commit.is_none(), "one commit after the other");
        self.commit = Some(Commit { pages_left, version, page: self.page, tail: self.told_tail, durably });
    }

    /// Takes as many of `pending` as there is room for into pages. Returns these, and the version up to which they and
    /// those before say everything.
    fn fill_pages(
        &mut self,
        pending: &mut Vec<Record>,
        version: u64,
        fill_up: bool,
    ) -> (Vec<(u64, Buf)>, u64) {
        let mut writes = Vec::new();
        let mut taken = 0;
        while writes.len() < MAX_PAGES_PER_COMMIT && taken < pending.len() {
            if self.records.len() == RECORDS_PER_PAGE && !self.advance() {
                break;
            }
            let left = RECORDS_PER_PAGE - self.records.len();
            let next = (taken + left).min(pending.len());
            self.records.extend_from_slice(&pending[taken..next]);
            taken = next;
            if let Some(&last) =
                self.records.last().filter(|_| fill_up && !planted("unflushed-page-not-filled"))
            {
                self.records.resize(RECORDS_PER_PAGE, last);
            }
            writes.push(self.write_page());
        }
        pending.drain(..taken);
        let last = self.records.last().map_or(0, |record| record.version);
        (writes, if pending.is_empty() { version } else { last.max(self.written_version) })
    }

    fn has_space(&self) -> bool {
        self.page + 1 - self.reusable < self.pairs
    }

    /// The ring is longer from its end on, by these extents. They have been initialized, so that a start looks for pages there.
    pub(crate) fn lengthen(&mut self, others: &[u32]) {
        let mut extents = self.longer.take().unwrap_or_else(|| self.extents.clone());
        extents.extend_from_slice(others);
        if planted("ring-lengthened-on-the-way") {
            (self.pairs, self.extents) = (pairs_of(&self.layout, &extents), extents);
            return;
        }
        self.longer = Some(extents);
    }

    /// Goes on to the next page, if the ring has room for it.
    fn advance(&mut self) -> bool {
        if !self.has_space() {
            return false;
        }
        self.page += 1;
        self.records.clear();
        self.side = 0;
        if (self.page - self.origin).is_multiple_of(self.pairs)
            && let Some(longer) = self.longer.take()
        {
            // The last time around has filled the pairs that there were, and stays where it is; this page is the first one behind.
            self.origin = self.page - self.pairs;
            self.pairs = pairs_of(&self.layout, &longer);
            self.extents = longer;
        }
        true
    }

    fn write_page(&mut self) -> (u64, Buf) {
        (self.told, self.told_tail) = (self.durable_version, self.tail);
        let page = JournalPage {
            volume: self.tag,
            ring: self.ring,
            number: self.page,
            tail: self.tail,
            durable_page: self.durable_page,
            durable_version: self.durable_version,
            durable_tables: match planted("table-pages-called-durable-unflushed") {
                true => self.durable_version,
                false => self.durable_tables,
            },
            records: self.records.clone(),
        };
        let offset = self.offset(self.page, self.side);
        self.side ^= u8::from(!planted("journal-page-written-over"));
        (offset, Buf::copy_of(&page.encode(self.cache)[..]))
    }

    fn offset(&self, page: u64, side: u8) -> u64 {
        page_offset(&self.layout, &self.extents, (page - self.origin) % self.pairs, side)
    }

    /// One page of the commit is written.
    pub(crate) fn page_written(&mut self) -> Written {
        let commit = self.commit.as_mut().expect("a page belongs to a commit");
        commit.pages_left.count_down();
        if commit.pages_left > 0 {
            return Written::Some;
        }
        self.written_version = commit.version;
        if commit.durably {
            return Written::AllToFlush;
        }
        self.commit = None;
        self.unflushed = true;
        Written::All
    }

    /// The flush at the end of the commit is done. Returns the version that is now durable.
    pub(crate) fn flushed(&mut self) -> u64 {
        let commit = self.commit.take().expect("the flush belongs to a commit");
        self.durable_version = commit.version;
        self.durable_page = commit.page;
        self.reusable = commit.tail;
        self.unflushed = false;
        commit.version
    }
}

fn pairs_of(layout: &DeviceLayout, extents: &[u32]) -> u64 {
    extents.len() as u64 * u64::from(layout.extent.journal_pairs)
}

/// Offset on the device of one side of a pair of a ring over `extents`.
pub(crate) fn page_offset(layout: &DeviceLayout, extents: &[u32], pair: u64, side: u8) -> u64 {
    let per_extent = u64::from(layout.extent.journal_pairs);
    let extent = extents[(pair / per_extent) as usize];
    layout.extent_start(extent) + layout.extent.journal_page((pair % per_extent) as u32, side)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lode_format::RecordKind;
    use lode_types::BlockSize;
    use proptest::prelude::*;

    use super::*;

    /// A page is written over only when a durable one has said that it is not needed.
    fn check_written(at: &mut BTreeMap<u64, u64>, journal: &Journal, writes: &[(u64, Buf)]) {
        for (offset_bytes, buf) in writes {
            let page = JournalPage::decode(journal.cache, buf.as_slice()).unwrap();
            let pair = offset_bytes / (2 * lode_format::PAGE_BYTES as u64);
            let before = at.insert(pair, page.number);
            assert!(before.is_none_or(|before| before == page.number || before < journal.reusable));
        }
    }

    proptest! {
        /// Commits of any size, checkpoints, and a ring that becomes longer at any time.
        #[test]
        fn g5_a_ring_that_becomes_longer_writes_over_nothing_that_counts(
            steps in proptest::collection::vec((0u8..8, 1usize..300), 1..300),
        ) {
            let layout = DeviceLayout::new(1 << 30, 1 << 20, BlockSize::KIB_4).unwrap();
            let mut journal = Journal::new(CacheId([1; 16]), VolumeTag(2), 3, layout, vec![4, 7], 0);
            let (mut at, mut version, mut pending) = (BTreeMap::new(), 0, Vec::new());
            let mut extents = 100;
            for (kind, count) in steps {
                match kind {
                    0 => {
                        extents += 1;
                        // In no order.
                        journal.lengthen(&[if extents % 2 == 0 { extents } else { 1000 - extents }]);
                    }
                    1 => journal.checkpoint_durable(journal.tail.max(journal.durable_page), version),
                    _ => {
                        pending.extend((1..=count as u64).map(|next| Record {
                            kind: RecordKind::Dirty, place: 0, block: 0, version: version + next, crc: 0,
                        }));
                        version += count as u64;
                        let writes = journal.start(&mut pending, version);
                        check_written(&mut at, &journal, &writes);
                        writes.iter().for_each(|_| _ = journal.page_written());
                        journal.flushed();
                        let kept: Vec<u64> = (journal.reusable..=journal.page).collect();
                        let found: Vec<u64> = at.values().copied().collect();
                        prop_assert!(kept.iter().all(|page| found.contains(page)), "{kept:?} of {found:?}");
                    }
                }
            }
            prop_assert_eq!(journal.pairs % u64::from(layout.extent.journal_pairs), 0);
        }
    }
}
