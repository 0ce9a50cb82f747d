//! Exact reuse distances of a stream of block accesses, by the metrics that ETICA compares.
//!
//! A metric chooses a *reference stream* out of all accesses, and which of its re-accesses are *useful*. The
//! distance of a re-access is the number of distinct blocks in the reference stream strictly between it and the
//! previous reference to the same block (ETICA, section 4.3.1, Figs. 8 and 9). It must not know what a cache does
//! with the distances.

use crate::analyser::Stack;
use crate::error::ReuseError;
use crate::tally::DistanceTally;
use crate::timeline::{NEVER, Timeline};
use crate::tracker::{Follow, Seen, Tracker};
use lode_types::{BlockNo, Direction};

/// Which accesses count, and which of them are useful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Traditional reuse distance: every access counts, every re-access is useful.
    Trd,
    /// Useful reuse distance (ECI-Cache): every access counts, re-accesses that read are useful.
    Urd,
    /// Policy-optimised distance of a read-only cache: reads count; useful is a read whose predecessor on the
    /// block, among all accesses, is a read too, since a write invalidates the block.
    PodRo,
    /// As [`Metric::PodRo`], but blind to writes: what filtering the stream alone would give. For comparison.
    PodRoIgnoringWrites,
    /// Policy-optimised distance of a write-back, write-only cache: writes count, and reads of blocks written
    /// before; those reads are useful.
    PodWbwo,
    /// Policy-optimised distance of a write-back cache: equals [`Metric::Urd`].
    PodWb,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Metric; 6] = [
        Metric::Trd,
        Metric::Urd,
        Metric::PodRo,
        Metric::PodRoIgnoringWrites,
        Metric::PodWbwo,
        Metric::PodWb,
    ];
}

/// A re-access within the reference stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Distinct blocks strictly between it and the previous reference to its block.
    pub distance: u32,
    /// Whether the metric counts it as one that a cache could serve.
    pub useful: bool,
}

/// Set in a record's word when a write has invalidated the block since its latest read.
const INVALIDATED: u32 = 1 << 31;

/// Computes the distance of every access of one stream.
#[derive(Clone, Debug)]
pub struct Distances {
    metric: Metric,
    tracker: Tracker,
    timeline: Timeline,
    tally: DistanceTally,
}

impl Distances {
    /// An analyser that has seen nothing.
    pub fn new(metric: Metric) -> Distances {
        Distances::with_capacity(metric, 0)
    }

    /// An analyser with room for `blocks` distinct blocks.
    pub fn with_capacity(metric: Metric, blocks: usize) -> Distances {
        Distances {
            metric,
            tracker: Tracker::with_capacity(blocks),
            timeline: Timeline::with_capacity(blocks),
            tally: DistanceTally::default(),
        }
    }

    /// The metric chosen.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Adds the next access of the stream; `None` when it is outside the reference stream or its block's first.
    ///
    /// # Errors
    /// [`ReuseError::TooManyBlocks`]; the access is then not counted.
    pub fn access(&mut self, op: Direction, block: BlockNo) -> Result<Option<Reuse>, ReuseError> {
        let reuse = self.step(op, Seen::of(block))?;
        self.count(op);
        if let Some(Reuse { distance, useful: true }) = reuse {
            self.tally.histogram.record(distance);
        }
        Ok(reuse)
    }

    /// Counts so far.
    pub fn tally(&self) -> &DistanceTally {
        &self.tally
    }

    /// The distance of an access, which is not counted yet.
    #[inline(always)]
    pub(crate) fn step(&mut self, op: Direction, seen: Seen) -> Result<Option<Reuse>, ReuseError> {
        if self.timeline.is_full() {
            self.make_room();
        }
        let is_read = op == Direction::Read;
        let found = self.tracker.find(seen);
        let is_reference = match self.metric {
            Metric::PodRo | Metric::PodRoIgnoringWrites => is_read,
            Metric::PodWbwo => !is_read || found.is_some(),
            Metric::Trd | Metric::Urd | Metric::PodWb => true,
        };
        let mut reuse = None;
        match found {
            Some((place, word)) if is_reference => {
                let (distance, position) = self.timeline.revisit(word & !INVALIDATED);
                self.tracker.set_word(place, position);
                let useful = (is_read || self.metric == Metric::Trd) && word & INVALIDATED == 0;
                reuse = Some(Reuse { distance, useful });
            }
            Some((place, word)) if self.metric == Metric::PodRo => {
                self.tracker.set_word(place, word | INVALIDATED);
            }
            None if is_reference => {
                let place = self.tracker.add(seen, NEVER)?;
                self.tracker.set_word(place, self.timeline.touch(NEVER));
            }
            _ => {}
        }
        Ok(reuse)
    }

    /// Counts an access of the stream.
    #[inline(always)]
    pub(crate) fn count(&mut self, op: Direction) {
        self.tally.accesses += 1;
        self.tally.reads += u64::from(op == Direction::Read);
    }

    #[cold]
    fn make_room(&mut self) {
        self.timeline.compact(|remap| {
            for word in self.tracker.words_mut() {
                *word = *word & INVALIDATED | remap.new_position(*word & !INVALIDATED);
            }
        });
    }
}

impl Follow for Distances {
    #[inline(always)]
    fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    #[inline(always)]
    fn tally_mut(&mut self) -> &mut DistanceTally {
        &mut self.tally
    }

    #[inline(always)]
    fn prefetch(&self, word: u32) {
        self.timeline.prefetch(word & !INVALIDATED);
    }

    #[inline(always)]
    fn follow(&mut self, op: Direction, seen: Seen) -> Result<Option<u32>, ReuseError> {
        let reuse = self.step(op, seen)?;
        self.count(op);
        Ok(reuse.filter(|reuse| reuse.useful).map(|reuse| reuse.distance))
    }
}

impl Stack for Distances {
    fn tally(&self) -> &DistanceTally {
        &self.tally
    }

    fn retain_blocks(&mut self, keep: &dyn Fn(BlockNo) -> bool) {
        self.tracker.retain(keep, |word| self.timeline.remove(word & !INVALIDATED));
    }

    fn stack_bytes(&self) -> usize {
        self.timeline.memory_bytes()
    }
}
