//! What is known of the backing disk's durability: which direct writes a flush has yet to cover, and
//! which cached copies must stay out of the journal until it has.
//!
//! A copy of bytes that the backing disk might still lose in a power cut must not come back from the SSD
//! as clean: the guest would read new bytes first and, after an eviction, old ones.

use std::collections::VecDeque;
use std::ops::Range;

use hashbrown::HashMap;
use lode_types::{BlockNo, planted};

use crate::flight::Place;

/// Unflushed blocks at which the engine flushes of its own accord.
const MANY_UNSTABLE: usize = 8192;
/// The same of trims and zeroings, all of which are looked through for a block.
const MANY_UNSTABLE_RANGES: usize = 64;

/// The mark of what earlier runs wrote.
const EARLIER_RUNS: u64 = 1;

/// What was written to the backing disk, and what of it is durable.
#[derive(Debug)]
pub(crate) struct Marks {
    /// Direct writes, trims and zeroings completed so far: a *mark* is a value of this counter. An
    /// earlier run may have left writes that were never flushed; they count as the first.
    done: u64,
    /// Everything up to this mark is durable.
    flushed: u64,
    /// Mark of the flush in flight.
    flushing: Option<u64>,
    unstable: HashMap<BlockNo, u64>,
    unstable_ranges: Vec<(Range<BlockNo>, u64)>,
    volatile: VecDeque<(u64, Place, u64)>,
    flush_wanted: bool,
}

impl Default for Marks {
    fn default() -> Marks {
        Marks {
            done: EARLIER_RUNS,
            flushed: 0,
            flushing: None,
            unstable: HashMap::new(),
            unstable_ranges: Vec::new(),
            volatile: VecDeque::new(),
            flush_wanted: true,
        }
    }
}

impl Marks {
    /// The mark that covers everything completed so far.
    pub(crate) fn mark(&self) -> u64 {
        self.done
    }

    /// A direct write of `block` is complete.
    pub(crate) fn wrote(&mut self, block: BlockNo) {
        self.done += 1;
        self.unstable.insert(block, self.done);
    }

    /// A trim or zeroing is complete.
    pub(crate) fn wrote_range(&mut self, range: Range<BlockNo>) {
        self.done += 1;
        match self.unstable_ranges.last_mut() {
            // Pieces of one come in ascending order.
            Some((last, at)) if last.end == range.start => (last.end, *at) = (range.end, self.done),
            _ => self.unstable_ranges.push((range, self.done)),
        }
    }

    /// Ranges that were trimmed or zeroed, or in part, and that no flush covers yet.
    pub(crate) fn unstable_ranges(&self) -> impl Iterator<Item = &Range<BlockNo>> {
        self.unstable_ranges.iter().map(|(range, _)| range)
    }

    /// A write-back is complete; the SSD's copy stands in until it is flushed.
    pub(crate) fn wrote_back(&mut self) -> u64 {
        self.done += 1;
        self.done
    }

    /// Whether a power cut could still undo the latest direct write of `block`.
    pub(crate) fn is_unstable(&self, block: BlockNo) -> bool {
        (self.flushed < EARLIER_RUNS && !planted("earlier-run-was-flushed"))
            || self.unstable.contains_key(&block)
            || self.unstable_ranges.iter().any(|(range, _)| range.contains(&block))
    }

    /// A copy of unstable bytes was put at `place` outside the journal.
    pub(crate) fn remember_volatile(&mut self, place: Place, version: u64) {
        self.volatile.push_back((self.done, place, version));
    }

    /// Up to where everything is durable.
    pub(crate) fn flushed(&self) -> u64 {
        self.flushed
    }

    /// A flush is to begin as soon as none is under way.
    pub(crate) fn want_flush(&mut self) {
        self.flush_wanted = true;
    }

    /// Whether a flush is to begin now: somebody waits for this mark, or enough is to be flushed.
    pub(crate) fn begin_flush(&mut self, waited_for: u64) -> bool {
        let many = self.unstable.len() >= MANY_UNSTABLE || self.unstable_ranges.len() >= MANY_UNSTABLE_RANGES;
        let wanted = self.flush_wanted || waited_for > self.flushed || many;
        if !wanted || self.flushing.is_some() {
            return false;
        }
        self.flush_wanted = false;
        let begins = self.done > self.flushed;
        if begins {
            self.flushing = Some(self.done);
        }
        begins
    }

    /// The flush in flight is done. Returns the volatile copies `(place, version)` it made stable.
    pub(crate) fn flush_done(&mut self) -> Vec<(Place, u64)> {
        let flushing = self.flushing.take();
        assert!(flushing.is_some() || planted("backing-failure-told-once"), "no flush is under way");
        let mark = flushing.unwrap_or(self.flushed);
        let mark = if planted("flush-covers-what-came-after") { self.done } else { mark };
        self.flushed = mark;
        self.unstable.retain(|_, at| *at > mark);
        self.unstable_ranges.retain(|(_, at)| *at > mark);
        let mut stable = Vec::new();
        while let Some(&(at, place, version)) = self.volatile.front()
            && at <= mark
        {
            self.volatile.pop_front();
            stable.push((place, version));
        }
        stable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_trims_are_flushed_and_pieces_of_one_are_one() {
        let mut marks = Marks { flush_wanted: false, ..Marks::default() };
        for piece in 0..10 * MANY_UNSTABLE_RANGES as u64 {
            marks.wrote_range(piece * 100..(piece + 1) * 100);
        }
        assert_eq!((marks.unstable_ranges.len(), marks.begin_flush(0)), (1, false));
        for piece in 1..MANY_UNSTABLE_RANGES as u64 {
            assert!(!marks.begin_flush(0), "{piece}");
            marks.wrote_range(piece << 32..(piece << 32) + 1);
        }
        assert!(marks.begin_flush(0));
        // What comes in addition to a stretch while it is flushed keeps all of it.
        let last = (MANY_UNSTABLE_RANGES as u64 - 1) << 32;
        marks.wrote_range(last + 1..last + 2);
        marks.flush_done();
        let is_unstable = [5, 1 << 32, last, last + 1].map(|block| marks.is_unstable(block));
        assert_eq!(is_unstable, [false, false, true, true]);
    }
}
