//! Distinct blocks with one word each, and the look-ahead that hides the cache misses of finding them.
//!
//! It must not know what a word means.

use crate::error::ReuseError;
use crate::ordered::{Bucket, OrderedTable, mix, unmix};
use crate::tally::DistanceTally;
use crate::timeline::MAX_LIVE;
use lode_types::{BlockNo, Direction};

/// Most distinct blocks that one analyser follows.
pub const MAX_BLOCKS: u32 = MAX_LIVE;

/// A block and its word. Twelve bytes, so that an entry costs 14 to 20 bytes.
///
/// The block is kept mixed, which loses nothing: two blocks are equal when their mixtures are.
#[derive(Clone, Copy, Debug)]
struct Record {
    low: u32,
    high: u32,
    word: u32,
}

/// The word that marks an unused bucket.
const UNUSED: u32 = u32::MAX;

impl Bucket for Record {
    const MAX_LOAD: (u64, u64) = (17, 20);
    const PROBES: usize = 6;
    const EMPTY: Record = Record { low: u32::MAX, high: u32::MAX, word: UNUSED };

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.word == UNUSED
    }

    #[inline(always)]
    fn hash(&self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }
}

/// Where a block's record is; until the next [`Tracker::add`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position(usize);

/// What is already known of a block when its turn comes: its mixture, and where its record was some time ago.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    mixed: u64,
    position: usize,
}

impl Seen {
    #[inline(always)]
    pub(crate) fn of(block: BlockNo) -> Seen {
        Seen { mixed: mix(block), position: usize::MAX }
    }
}

/// Blocks followed by an analyser. Words may have any value but `u32::MAX`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracker {
    table: OrderedTable<Record>,
}

impl Tracker {
    pub(crate) fn with_capacity(blocks: usize) -> Tracker {
        Tracker { table: OrderedTable::with_capacity(blocks) }
    }

    /// The record of a block and its word.
    #[inline(always)]
    pub(crate) fn find(&self, seen: Seen) -> Option<(Position, u32)> {
        let is_it = |record: &Record| record.hash() == seen.mixed && !record.is_empty();
        if let Some(record) = self.table.get(seen.position).filter(|record| is_it(record)) {
            return Some((Position(seen.position), record.word));
        }
        let (position, run) = self.table.run(seen.mixed);
        run.first().filter(|record| is_it(record)).map(|record| (Position(position), record.word))
    }

    /// Follows a block that is not followed yet.
    #[inline]
    pub(crate) fn add(&mut self, seen: Seen, word: u32) -> Result<Position, ReuseError> {
        debug_assert!(word != UNUSED);
        if self.table.len() >= MAX_BLOCKS as usize {
            return Err(ReuseError::TooManyBlocks);
        }
        let record = Record { low: seen.mixed as u32, high: (seen.mixed >> 32) as u32, word };
        Ok(Position(self.table.insert(record)))
    }

    #[inline(always)]
    pub(crate) fn set_word(&mut self, position: Position, word: u32) {
        debug_assert!(word != UNUSED);
        self.table.at_mut(position.0).word = word;
    }

    /// Every word, to be replaced.
    pub(crate) fn words_mut(&mut self) -> impl Iterator<Item = &mut u32> {
        self.table.entries_mut().map(|record| &mut record.word)
    }

    /// Forgets the blocks that `keep` refuses, and tells `forgotten` the word of each.
    pub(crate) fn retain(&mut self, keep: impl Fn(BlockNo) -> bool, mut forgotten: impl FnMut(u32)) {
        self.table.retain(|record| {
            let is_kept = keep(unmix(record.hash()));
            if !is_kept {
                forgotten(record.word);
            }
            is_kept
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn clear(&mut self) {
        self.table.clear();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}

/// An analyser that follows blocks one access after the other.
pub(crate) trait Follow {
    fn tracker(&self) -> &Tracker;

    fn tally_mut(&mut self) -> &mut DistanceTally;

    /// Loads what an access to a block with this word will need.
    fn prefetch(&self, word: u32);

    /// Follows one access; returns the distance to be recorded.
    fn follow(&mut self, op: Direction, seen: Seen) -> Result<Option<u32>, ReuseError>;
}

/// Accesses that are loaded together. Loads in a tight loop overlap, also in their address translation, which loads
/// strewn over the rest of the work do not.
const GROUP: usize = 32;

/// Follows a batch of accesses in groups: while one is followed, the records of the next are being loaded. `counted`
/// hears of each access in order.
#[inline(always)]
fn follow_each(
    analyser: &mut impl Follow,
    batch: &[(Direction, BlockNo)],
    mut counted: impl FnMut(Option<u32>),
) -> Result<(), ReuseError> {
    let mut groups = batch.chunks(GROUP).peekable();
    let mut next = [Seen::default(); GROUP];
    load_records(analyser.tracker(), groups.peek().copied().unwrap_or(&[]), &mut next);
    while let Some(group) = groups.next() {
        let mut now = next;
        load_records(analyser.tracker(), groups.peek().copied().unwrap_or(&[]), &mut next);
        for seen in &mut now[..group.len()] {
            if let Some((position, word)) = analyser.tracker().find(*seen) {
                seen.position = position.0;
                analyser.prefetch(word);
            }
        }
        let mut distances = [0; GROUP];
        let mut count = 0;
        let mut outcome = Ok(());
        for (&(op, _), &seen) in group.iter().zip(&now) {
            match analyser.follow(op, seen) {
                Ok(distance) => {
                    counted(distance);
                    distances[count] = distance.unwrap_or(0);
                    count += usize::from(distance.is_some());
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        let histogram = &mut analyser.tally_mut().histogram;
        distances[..count].iter().for_each(|&distance| histogram.record(distance));
        outcome?;
    }
    Ok(())
}

/// Follows a batch of accesses and counts their distances.
pub(crate) fn follow_all(
    analyser: &mut impl Follow,
    batch: &[(Direction, BlockNo)],
) -> Result<(), ReuseError> {
    follow_each(analyser, batch, |_| {})
}

/// Follows a batch of accesses, counts their distances, and replaces `distances` by one entry for each of them.
pub(crate) fn distances_of_all(
    analyser: &mut impl Follow,
    batch: &[(Direction, BlockNo)],
    distances: &mut Vec<Option<u32>>,
) -> Result<(), ReuseError> {
    distances.clear();
    follow_each(analyser, batch, |distance| distances.push(distance))
}

#[inline(always)]
fn load_records(tracker: &Tracker, group: &[(Direction, BlockNo)], seen: &mut [Seen; GROUP]) {
    for (seen, &(_, block)) in seen.iter_mut().zip(group) {
        *seen = Seen::of(block);
        tracker.table.prefetch(seen.mixed);
    }
}
