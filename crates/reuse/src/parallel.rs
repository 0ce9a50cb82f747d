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

use crate::analyser::Analyser;
use crate::curve::Curve;
use crate::distance::{Distances, Metric};
use crate::error::ReuseError;
use crate::profiler::CurveKind;
use crate::tally::DistanceTally;
use crate::tracker::{Follow, Seen, Tracker, follow_all};
use lode_types::{BlockNo, Direction};

/// One piece of a stream.
#[derive(Clone, Debug)]
pub struct ChunkScan {
    distances: Distances,
    /// The first access of every block, in order.
    first: Vec<(Direction, Seen)>,
}

impl ChunkScan {
    /// A piece that has not begun.
    ///
    /// # Errors
    /// [`ReuseError::InvalidMethod`] for [`CurveKind::Ro`] and [`CurveKind::Wbwo`], whose streams cannot be cut.
    pub fn new(kind: CurveKind) -> Result<ChunkScan, ReuseError> {
        let metric = match kind {
            CurveKind::Trd => Metric::Trd,
            CurveKind::Urd | CurveKind::Wb => Metric::Urd,
            CurveKind::Ro | CurveKind::Wbwo => {
                let reason = "Read-only and write-only caches cannot be analysed in pieces of a stream";
                return Err(ReuseError::InvalidMethod { reason });
            }
        };
        Ok(ChunkScan { distances: Distances::new(metric), first: Vec::new() })
    }

    /// Adds the next accesses of the piece.
    ///
    /// # Errors
    /// [`ReuseError::TooManyBlocks`]; the accesses before the offending one have then been counted.
    pub fn access_all(&mut self, batch: &[(Direction, BlockNo)]) -> Result<(), ReuseError> {
        follow_all(self, batch)
    }

    /// The curve of the pieces joined so far.
    pub fn curve(&self) -> Curve {
        self.distances.tally().curve()
    }

    /// Distinct blocks of the pieces joined so far.
    pub fn distinct_blocks(&self) -> u64 {
        self.first.len() as u64
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.distances.memory_bytes() + self.first.capacity() * size_of::<(Direction, Seen)>()
    }

    /// One access, which is not counted; its distance when it is useful.
    #[inline(always)]
    fn step(&mut self, op: Direction, seen: Seen) -> Result<Option<u32>, ReuseError> {
        let reuse = self.distances.step(op, seen)?;
        // With these metrics, every access but a block's first is a re-access.
        if reuse.is_none() {
            self.first.push((op, seen));
        }
        Ok(reuse.filter(|reuse| reuse.useful).map(|reuse| reuse.distance))
    }
}

impl Follow for ChunkScan {
    #[inline(always)]
    fn tracker(&self) -> &Tracker {
        self.distances.tracker()
    }

    #[inline(always)]
    fn tally_mut(&mut self) -> &mut DistanceTally {
        self.distances.tally_mut()
    }

    #[inline(always)]
    fn prefetch(&self, word: u32) {
        self.distances.prefetch(word);
    }

    #[inline(always)]
    fn follow(&mut self, op: Direction, seen: Seen) -> Result<Option<u32>, ReuseError> {
        let distance = self.step(op, seen)?;
        self.distances.count(op);
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
    assert_eq!(left.distances.metric(), right.distances.metric(), "Pieces of different kinds do not join");
    for &(op, seen) in &right.first {
        if let Some(distance) = left.step(op, seen)? {
            left.tally_mut().histogram.record(distance);
        }
    }
    let position = |seen| right.tracker().find(seen).map(|(_, position)| position);
    let mut by_latest: Vec<_> = right.first.iter().map(|&(op, seen)| (position(seen), op, seen)).collect();
    by_latest.sort_unstable_by_key(|&(position, ..)| position);
    for (_, op, seen) in by_latest {
        left.step(op, seen)?;
    }
    left.tally_mut().add_all(right.distances.tally());
    Ok(left)
}
