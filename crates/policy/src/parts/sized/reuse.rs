//! Demand by reuse distances: what Centaur, ECI-Cache and vCacheShare size by.
//!
//! It must not know what a cache holds.

use lode_types::{Access, BlockNo, Direction, Level};

use super::history::History;
use super::{Measure, PrefetchStep, track_limit};
use crate::parts::distance_log::DistanceLog;
use crate::quota::Quota;
use crate::scheme::{LevelDemand, Points};
use crate::settings::Settings;

/// Which accesses are in the stream and which re-accesses are worth something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// All accesses; every re-access (total reuse distance, TRD).
    Total,
    /// All accesses; re-accesses that read (useful reuse distance, URD).
    Useful,
    /// Reads alone.
    Reads,
}

/// What a part of one VM's stream held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Block accesses.
    pub accesses: u64,
    /// Those that read.
    pub reads: u64,
    /// Those that wrote to a block that was accessed before.
    pub rewrites: u64,
    /// Distinct blocks of the stream that is followed.
    pub distinct: u64,
}

impl Counts {
    /// What came since there were so many.
    pub(crate) fn since(&self, start: &Counts) -> Counts {
        Counts {
            accesses: self.accesses - start.accesses,
            reads: self.reads - start.reads,
            rewrites: self.rewrites - start.rewrites,
            distinct: self.distinct - start.distinct,
        }
    }
}

/// What a scheme makes of distances.
pub trait Reading {
    /// What is followed.
    const STREAM: Stream;
    /// The history is kept also when the shares do not follow demand.
    const ALWAYS: bool;

    /// For these settings.
    fn new(settings: &Settings) -> Self;

    /// The demand, from that of the distances alone.
    fn demand(&self, of_distances: LevelDemand, _counts: Counts) -> LevelDemand {
        of_distances
    }
}

/// The distances of one VM's stream, window by window.
#[derive(Debug)]
pub struct Reuse<R> {
    reading: R,
    /// `None`: nobody asks.
    history: Option<History>,
    log: DistanceLog,
    carries: bool,
    /// Of the whole stream.
    counts: Counts,
    window_start: Counts,
}

impl<R> Reuse<R> {
    /// Of the whole stream; distinct blocks are distinct within their windows.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }
}

impl<R: Reading> Measure for Reuse<R> {
    fn new(settings: &Settings, physical: Quota) -> Reuse<R> {
        let sizing = settings.measures_demand();
        Reuse {
            reading: R::new(settings),
            history: (sizing || R::ALWAYS).then(|| History::new(track_limit(settings, physical))),
            log: DistanceLog::new(sizing),
            carries: settings.text("window") == "carry",
            counts: Counts::default(),
            window_start: Counts::default(),
        }
    }

    #[inline(always)]
    fn access(&mut self, access: Access, hash: u32) {
        let is_read = access.op == Direction::Read;
        self.counts.accesses += 1;
        self.counts.reads += u64::from(is_read);
        let Some(history) = &mut self.history else { return };
        if R::STREAM == Stream::Reads && !is_read {
            return;
        }
        let visit = history.access(hash, access.block);
        self.counts.distinct += u64::from(visit.is_first_in_window);
        if let Some(distance) = visit.distance {
            self.log.add_if(is_read | (R::STREAM == Stream::Total), distance);
            self.counts.rewrites += u64::from(!is_read);
        }
    }

    fn discard(&mut self, block: BlockNo) {
        if let Some(history) = &mut self.history {
            history.forget(block);
        }
    }

    fn demand(&mut self, points: Points) -> LevelDemand {
        let counts = self.counts.since(&std::mem::replace(&mut self.window_start, self.counts));
        if let Some(history) = &mut self.history {
            history.begin_window(self.carries);
        }
        let accesses = if R::STREAM == Stream::Reads { counts.reads } else { counts.accesses };
        let of_distances = match points {
            Points::All => self.log.take(accesses),
            Points::LastWithin(quota) => self.log.take_last(accesses, quota.of(Level::Ssd)),
        };
        self.reading.demand(of_distances, counts)
    }

    #[inline]
    fn prefetch(&self, step: PrefetchStep, hash: u32) {
        self.history.iter().for_each(|history| history.prefetch(step, hash));
    }

    fn memory_bytes(&self) -> usize {
        self.history.as_ref().map_or(0, History::memory_bytes) + self.log.memory_bytes()
    }
}
