//! Demand by reuse distances: what Centaur, ECI-Cache and vCacheShare size by.
//!
//! It must not know what a cache holds.

use lode_types::{Access, BlockNo, Direction, Level};

use super::history::History;
use super::{Measure, PrefetchStep, track_limit};
use crate::parts::distance_log::WindowLog;
use crate::parts::sampling::Sampling;
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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Block accesses.
    pub accesses: u64,
    /// Those that read.
    pub reads: u64,
    /// Of those to followed blocks, the ones that wrote to a block that was accessed before; where a sample is followed, each
    /// for as many as it stands for.
    pub rewrites: f64,
    /// Those to followed blocks, in the same way: all of them where all blocks are followed.
    pub followed: f64,
    /// Distinct blocks of the stream, where a sample is followed as far as it tells.
    pub distinct: f64,
}

impl Counts {
    /// What came since there were so many.
    pub(crate) fn since(&self, start: &Counts) -> Counts {
        Counts {
            accesses: self.accesses - start.accesses,
            reads: self.reads - start.reads,
            rewrites: self.rewrites - start.rewrites,
            followed: self.followed - start.followed,
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
    /// `None`: every block is followed.
    sampling: Option<Sampling>,
    log: WindowLog,
    carries: bool,
    /// Of the whole stream.
    counts: Counts,
    window_start: Counts,
}

impl<R> Reuse<R> {
    /// Forgets blocks when more are followed than may be.
    #[inline]
    fn keep_to_sample(&mut self) {
        let (Some(history), Some(sampling)) = (&mut self.history, &mut self.sampling) else { return };
        while sampling.lower(history.len()) {
            self.log.set_rate(sampling.rate());
            history.retain(|block| sampling.follows(block));
        }
    }

    /// Of the whole stream; distinct blocks are distinct within their windows.
    pub(crate) fn counts(&self) -> Counts {
        let Counts { accesses, followed, .. } = self.counts;
        let followed = if self.sampling.is_some() { followed } else { accesses as f64 };
        Counts { followed, ..self.counts }
    }
}

impl<R: Reading> Measure for Reuse<R> {
    fn new(settings: &Settings, physical: Quota) -> Reuse<R> {
        let sizing = settings.measures_demand();
        let limit = track_limit(settings, physical);
        let sampling = Sampling::new(settings, limit);
        let most_blocks = sampling.map_or(limit, |sampling| sampling.most_blocks());
        Reuse {
            reading: R::new(settings),
            history: (sizing || R::ALWAYS).then(|| History::new(most_blocks)),
            sampling,
            log: if sampling.is_some() { WindowLog::of_sample() } else { WindowLog::of_all(sizing) },
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
        let is_able = is_read | (R::STREAM == Stream::Total);
        let mut weight = 1.0;
        if let Some(sampling) = &self.sampling {
            let is_followed = sampling.follows(access.block);
            if is_able {
                self.log.add_access(is_followed);
            }
            if !is_followed {
                return;
            }
            weight = 1.0 / sampling.rate();
            self.counts.followed += weight;
        }
        let visit = history.access(hash, access.block);
        self.counts.distinct += if visit.is_first_in_window { weight } else { 0.0 };
        if let Some(distance) = visit.distance {
            self.log.add_if(is_able, distance);
            self.counts.rewrites += if is_read { 0.0 } else { weight };
        }
        if self.sampling.is_some() {
            self.keep_to_sample();
        }
    }

    fn discard(&mut self, block: BlockNo) {
        if let Some(history) = &mut self.history {
            history.forget(block);
        }
    }

    fn demand(&mut self, points: Points, _: u32) -> LevelDemand {
        let counts = self.counts.since(&std::mem::replace(&mut self.window_start, self.counts));
        if let Some(history) = &mut self.history {
            history.begin_window(self.carries);
        }
        let accesses = if R::STREAM == Stream::Reads { counts.reads } else { counts.accesses };
        let mut of_distances = match points {
            Points::All => self.log.take(accesses),
            Points::LastWithin(quota) => self.log.take_last(accesses, quota.of(Level::Ssd)),
        };
        let writes = counts.accesses - counts.reads;
        of_distances.buffered_writes = match R::STREAM {
            // Its curve counts writes to known blocks as hits.
            Stream::Total => (writes as f64 - counts.rewrites).round().max(0.0) as u64,
            Stream::Useful => writes,
            Stream::Reads => 0,
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
