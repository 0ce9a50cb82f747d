//! One huge stream in pieces: each piece is scanned by itself, then neighbours are joined (PARDA: Niu, Dinan, Lu and
//! Sadayappan, "PARDA: a fast parallel reuse distance analysis algorithm", IPDPS 2012, as recalled).
//!
//! A piece knows the distances of its own re-accesses; only the first access of each of its blocks is open. To the left
//! neighbour, the piece looks like these first accesses alone: the distinct blocks before each of them are the first
//! accesses before it. So they are run through the neighbour's state, which gives their distances, and what the neighbour
//! does not know either stays open. Then the piece's blocks are brought to the top in the order of their latest
//! accesses, which leaves the state that one scan of both would have left. Joining is associative: pieces may be joined
//! from the left or as a tree.
//!
//! Curves of read-only and write-only caches cannot be cut this way. Within a piece, a depth hangs on where the holes
//! are that writes of earlier pieces left (read-only), or on whether an earlier piece has put a block in that a read
//! finds (write-only): no distance within a piece is known without its left neighbour. It must not know threads.

use crate::curve::Curve;
use crate::error::ReuseError;
use crate::profiler::CurveKind;
use crate::tally::Tally;
use crate::timeline::{NEVER, Timeline};
use crate::tracker::{Follow, Seen, Tracker, follow_all};
use lode_types::{AccessOp, BlockNo};

/// One piece of a stream.
#[derive(Clone, Debug)]
pub struct ChunkScan {
    counts_writes: bool,
    tracker: Tracker,
    timeline: Timeline,
    /// The first access of every block, in order.
    first: Vec<(AccessOp, Seen)>,
    tally: Tally,
}

impl ChunkScan {
    /// A piece that has not begun.
    ///
    /// # Errors
    /// [`ReuseError::InvalidMethod`] for [`CurveKind::Ro`] and [`CurveKind::Wbwo`], whose streams cannot be cut.
    pub fn new(kind: CurveKind) -> Result<ChunkScan, ReuseError> {
        if matches!(kind, CurveKind::Ro | CurveKind::Wbwo) {
            let reason = "Read-only and write-only caches cannot be analysed in pieces of a stream";
            return Err(ReuseError::InvalidMethod { reason });
        }
        Ok(ChunkScan {
            counts_writes: kind == CurveKind::Trd,
            tracker: Tracker::default(),
            timeline: Timeline::new(),
            first: Vec::new(),
            tally: Tally::default(),
        })
    }

    /// Adds the next accesses of the piece.
    ///
    /// # Errors
    /// [`ReuseError::TooManyBlocks`]; the accesses before the offending one have then been counted.
    pub fn access_all(&mut self, batch: &[(AccessOp, BlockNo)]) -> Result<(), ReuseError> {
        follow_all(self, batch)
    }

    /// The curve of the pieces joined so far.
    pub fn curve(&self) -> Curve {
        self.tally.curve()
    }

    /// Distinct blocks of the pieces joined so far.
    pub fn distinct_blocks(&self) -> u64 {
        self.first.len() as u64
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        let first = self.first.capacity() * size_of::<(AccessOp, Seen)>();
        self.tracker.memory_bytes()
            + self.timeline.memory_bytes()
            + first
            + self.tally.histogram.memory_bytes()
    }

    /// One access; its distance when it is useful.
    #[inline(always)]
    fn step(&mut self, op: AccessOp, seen: Seen) -> Result<Option<u32>, ReuseError> {
        if self.timeline.is_full() {
            self.make_room();
        }
        match self.tracker.find(seen) {
            Some((place, position)) => {
                let (distance, position) = self.timeline.revisit(position);
                self.tracker.set_word(place, position);
                Ok((self.counts_writes || op == AccessOp::Read).then_some(distance))
            }
            None => {
                let place = self.tracker.add(seen, NEVER)?;
                self.tracker.set_word(place, self.timeline.touch(NEVER));
                self.first.push((op, seen));
                Ok(None)
            }
        }
    }

    #[cold]
    fn make_room(&mut self) {
        self.timeline.compact(|remap| {
            self.tracker.words_mut().for_each(|position| *position = remap.new_position(*position));
        });
    }
}

impl Follow for ChunkScan {
    #[inline(always)]
    fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    #[inline(always)]
    fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    #[inline(always)]
    fn prefetch(&self, position: u32) {
        self.timeline.prefetch(position);
    }

    #[inline(always)]
    fn follow(&mut self, op: AccessOp, seen: Seen) -> Result<Option<u32>, ReuseError> {
        let distance = self.step(op, seen)?;
        self.tally.accesses += 1;
        self.tally.reads += u64::from(op == AccessOp::Read);
        Ok(distance)
    }
}

/// Joins two pieces of which the second follows the first, both for the same kind of curve.
///
/// # Errors
/// [`ReuseError::TooManyBlocks`] when both together have too many.
///
/// # Panics
/// When the pieces are for different kinds.
pub fn join(mut left: ChunkScan, right: ChunkScan) -> Result<ChunkScan, ReuseError> {
    assert_eq!(left.counts_writes, right.counts_writes, "Pieces of different kinds do not join");
    for &(op, seen) in &right.first {
        if let Some(distance) = left.step(op, seen)? {
            left.tally.histogram.record(distance);
        }
    }
    let position = |seen| right.tracker.find(seen).map(|(_, position)| position);
    let mut by_latest: Vec<_> = right.first.iter().map(|&(op, seen)| (position(seen), op, seen)).collect();
    by_latest.sort_unstable_by_key(|&(position, ..)| position);
    for (_, op, seen) in by_latest {
        left.step(op, seen)?;
    }
    left.tally.add_all(&right.tally);
    Ok(left)
}
