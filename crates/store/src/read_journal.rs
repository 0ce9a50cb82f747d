//! From the bytes of a volume's journal to the pages that count: those of its last ring in order, up to the first that is missing after
//! the last one known to be durable. It must not know what records mean.
//!
//! A page that cannot be read is not a page that is not there. Most cannot be of consequence: a pair is written again only once what
//! it holds is in the tables, the first side first, and the ring is filled in order. Where one may hold records
//! that nothing else shows to be there or not, nothing is recovered.

use std::ops::Range;

use hashbrown::HashMap;
use lode_format::{JournalPage, PAGE_BYTES, RECORDS_PER_PAGE};
use lode_types::planted;

use crate::device::{SyncDevice, for_each_copy};
use crate::error::{StoreError, StoreErrorKind};
use crate::journal::{FIRST_PAGE, page_offset};
use crate::recover::{HOW_TO_GO_ON, MOST, RecoverySource};
use crate::stretches::{MOST_BYTES, ReadStretch, Stretch, read_ahead};
use crate::table_runs::PAIR_BYTES;

/// Pairs that are read as one stretch at most.
const MOST_PAIRS: u64 = (MOST_BYTES / PAIR_BYTES) as u64;

/// What a volume's journal says.
#[derive(Default)]
pub(crate) struct ReadJournal {
    /// The readable pages of the ring in order, up to the first that is missing after the last one known to be durable.
    pub(crate) pages: Vec<JournalPage>,
    /// The version up to which any page calls everything durable: one behind a missing one was written when that was true as
    /// much as one before it.
    pub(crate) durable: u64,
    /// Table pages with a stamp below this version are durable, in the same way.
    pub(crate) durable_tables: u64,
    /// Pages that cannot be read and of which nothing is missing.
    pub(crate) unreadable: u64,
}

/// A pair of pages, by its place among all of the volume's, in the order of its extents. Pages of a ring follow one another within an
/// extent; in which order extents do, a start does not know, since a ring may have become longer
/// ([`crate::journal::Journal::lengthen`]).
type Pair = u64;

/// What was read: of each page of the ring the side that says more, with its pair; and the sides that cannot be read.
#[derive(Default)]
struct Sides {
    pages: HashMap<u64, (JournalPage, Pair)>,
    unreadable: Vec<(Pair, u8)>,
    pairs_of_extent: u64,
}

/// Reads the pages of this ring.
///
/// # Errors
/// Those of the device, but for places that cannot be read, where nothing is missing for it; and
/// [`StoreErrorKind::Damaged`] where something is, or may be.
pub(crate) fn read_journal(
    device: &mut dyn SyncDevice,
    source: &RecoverySource<'_>,
) -> Result<ReadJournal, StoreError> {
    let mut sides = read_sides(device, source)?;
    let numbers = sides.in_order()?;
    if let Some(pair) = sides.may_hide(&numbers).filter(|_| !planted("unreadable-journal-page-is-absent")) {
        let at = page_offset(&source.layout, source.extents, pair, 0);
        return Err(damaged(format!(
            "a page of the journal at {at} cannot be read, and may hold the latest records"
        )));
    }
    let told = if planted("durable-behind-a-gap-ignored") { numbers.clone() } else { 0..u64::MAX };
    let durable = sides.most(|page| if told.contains(&page.number) { page.durable_version } else { 0 });
    // No checkpoint says more than the commit that it ended with.
    let durable_tables = sides.most(|page| page.durable_tables).min(durable);
    let pages = numbers.filter_map(|number| Some(sides.pages.remove(&number)?.0)).collect();
    let unreadable = sides.unreadable.len() as u64;
    Ok(ReadJournal { pages, durable, durable_tables, unreadable })
}

fn damaged(what: String) -> StoreError {
    let loss = "blocks newer than their backing disk may be lost";
    StoreError::new(StoreErrorKind::Damaged, format!("{what}; {loss}. {HOW_TO_GO_ON}"))
}

fn read_sides(device: &mut dyn SyncDevice, source: &RecoverySource<'_>) -> Result<Sides, StoreError> {
    let layout = &source.layout.extent;
    let pairs_of_extent = u64::from(layout.journal_pairs);
    let mut sides = Sides { pairs_of_extent, ..Sides::default() };
    let of_extent = |ordinal: u64| {
        let end = (ordinal + 1) * pairs_of_extent;
        let firsts = (ordinal * pairs_of_extent..end).step_by(MOST_PAIRS as usize);
        firsts.map(move |first| first..end.min(first + MOST_PAIRS))
    };
    let stretches = (0..source.extents.len() as u64).flat_map(of_extent).map(|pairs: Range<Pair>| {
        let offset_bytes = page_offset(&source.layout, source.extents, pairs.start, 0);
        let bytes = (pairs.end - pairs.start) as usize * PAIR_BYTES;
        Stretch { offset_bytes, bytes, what: pairs.start }
    });
    let start_of = |ordinal| page_offset(&source.layout, source.extents, ordinal * pairs_of_extent, 0);
    let has_one_copy: Vec<bool> =
        (0..source.extents.len() as u64).map(|ordinal| device.copies(start_of(ordinal)).len() < 2).collect();
    let mut differing = Vec::new();
    let mut take = |read: ReadStretch<'_, Pair>| {
        let ReadStretch { what: &first, offset_bytes, bytes, .. } = read;
        let is_the_same = read.differing.is_empty() || has_one_copy[(first / pairs_of_extent) as usize];
        if !is_the_same && !planted("journal-of-one-ssd-counts") {
            differing.push(Stretch { offset_bytes, bytes: bytes.len(), what: first });
            return Ok(());
        }
        sides.note_unreadable(first, offset_bytes, read.unreadable);
        sides.take_all(source, first, bytes)
    };
    read_ahead(device, stretches, |read, _| read.into_iter().try_for_each(&mut take))?;
    differing.into_iter().try_for_each(|stretch| sides.take_of_each(device, source, stretch))?;
    Ok(sides)
}

/// Whether a page was gone on from, if any other one was written behind it.
fn is_full(page: &JournalPage) -> bool {
    page.records.len() == RECORDS_PER_PAGE
}

impl Sides {
    /// Takes what each of the devices below has in neighbouring pairs: one that wrote a page elsewhere, or not at all, and said that all went well, has
    /// what was there before. What none of them can read is unreadable.
    fn take_of_each(
        &mut self,
        device: &mut dyn SyncDevice,
        source: &RecoverySource<'_>,
        Stretch { offset_bytes, bytes, what: first }: Stretch<Pair>,
    ) -> Result<(), StoreError> {
        let mut by_none: Option<Vec<u64>> = None;
        for_each_copy(device, (offset_bytes, bytes), |bytes, unreadable| {
            match &mut by_none {
                Some(by_none) => by_none.retain(|at| unreadable.contains(at)),
                None => by_none = Some(unreadable.to_vec()),
            }
            self.take_all(source, first, bytes)
        })?;
        self.note_unreadable(first, offset_bytes, by_none.unwrap_or_default());
        Ok(())
    }

    /// Pages at these offsets cannot be read, in the pairs from this one on.
    fn note_unreadable(&mut self, first: Pair, offset_bytes: u64, unreadable: Vec<u64>) {
        for at in unreadable {
            let page = (at - offset_bytes) / PAGE_BYTES as u64;
            self.unreadable.push((first + page / 2, (page % 2) as u8));
        }
    }

    /// Takes what is in neighbouring pairs, from this one on.
    fn take_all(&mut self, source: &RecoverySource<'_>, first: Pair, bytes: &[u8]) -> Result<(), StoreError> {
        let mut pages = (0..).zip(bytes.chunks_exact(PAGE_BYTES));
        pages.try_for_each(|(page, side)| self.take(source, first + page / 2, side))
    }

    /// Takes a journal page of this ring, if it is one, instead of its other side where it says more.
    fn take(&mut self, source: &RecoverySource<'_>, pair: Pair, side: &[u8]) -> Result<(), StoreError> {
        let Ok(page) = JournalPage::decode(source.cache, side) else { return Ok(()) };
        if page.volume == source.tag && page.ring > source.ring {
            let what = "the directory is older than the volume's journal";
            return Err(StoreError::new(StoreErrorKind::Damaged, format!("{what}. {HOW_TO_GO_ON}")));
        }
        let ours = (page.volume == source.tag || planted("journal-of-another-volume"))
            && page.ring == source.ring
            && page.number <= MOST;
        let fullness = |page: &JournalPage| {
            (page.records.len(), page.tail, page.durable_page, page.durable_version, page.durable_tables)
        };
        let fuller = |(old, _): &(JournalPage, Pair)| fullness(&page) > fullness(old);
        if ours && self.pages.get(&page.number).is_none_or(fuller) {
            self.pages.insert(page.number, (page, pair));
        }
        Ok(())
    }

    /// The most that any page says.
    fn most(&self, what: impl Fn(&JournalPage) -> u64) -> u64 {
        self.pages.values().map(|(page, _)| what(page)).max().unwrap_or(0)
    }

    /// The numbers of the pages that count, from the tail on.
    fn in_order(&self) -> Result<Range<u64>, StoreError> {
        let (tail, durable_page) = (self.most(|page| page.tail), self.most(|page| page.durable_page));
        let mut end = tail;
        // A page before the last durable one is full; where it is not, its last side is unreadable.
        let counts = |(page, _): &(JournalPage, Pair)| page.number >= durable_page || is_full(page);
        while self.pages.get(&end).is_some_and(counts) {
            end += 1;
        }
        if !self.pages.is_empty() && end <= durable_page {
            return Err(damaged(format!("journal page {end} is unreadable although it was durable")));
        }
        Ok(tail..end)
    }

    /// A pair of which a side cannot be read that may hold records which count and are in none of these pages; `None`: there is none.
    fn may_hide(&self, numbers: &Range<u64>) -> Option<Pair> {
        if self.unreadable.is_empty() {
            return None;
        }
        let on_pair: HashMap<Pair, &JournalPage> =
            self.pages.values().map(|(page, pair)| (*pair, page)).collect();
        let hides = |&(pair, side): &(Pair, u8)| match on_pair.get(&pair) {
            // It may say more of a page that still counts.
            Some(page) if page.number >= numbers.start && !is_full(page) => true,
            // The page after it in this pair would have been written over it.
            Some(_) if side == 1 => false,
            _ => self.may_be_next(numbers.end, pair),
        };
        self.unreadable.iter().find(|side| hides(side)).map(|&(pair, _)| pair)
    }

    /// Whether the page of this number, of which nothing was read, may be in this pair.
    fn may_be_next(&self, number: u64, pair: Pair) -> bool {
        let begins_extent = |pair: Pair| pair.is_multiple_of(self.pairs_of_extent);
        match self.pages.get(&number.wrapping_sub(1)) {
            None if self.pages.is_empty() => pair % self.pairs_of_extent == FIRST_PAGE % self.pairs_of_extent,
            // Nothing tells where it would be.
            None => true,
            Some((_, at)) if begins_extent(at + 1) => begins_extent(pair),
            Some((_, at)) => pair == at + 1,
        }
    }
}
