//! From the depths of a sample's accesses to a curve of the whole stream, and its standard error.
//!
//! An access at depth d of a sample taken at rate R stands for 1/R accesses at depth d/R (SHARDS: Waldspurger et al.,
//! FAST 2015). The rate may sink on the way: each access keeps the weight of its own time, which is the same as
//! SHARDS's rescaling of the old counts by new rate over old, only in other units.
//!
//! **Adjustment.** What is estimated is the number of *misses*; hits are all accesses that could have hit (which are
//! counted, not estimated) less the misses. So one hot block, in the sample or not, disturbs nothing. It is what
//! SHARDS calls its adjustment, the difference between the expected and the found number of sampled accesses added to
//! the smallest bucket. For curves that count hits of reads only, the difference is taken over the reads.
//!
//! **Error.** Two parts, taken as independent:
//! - Which blocks are in the sample. A sample of blocks is a cluster sample of accesses. The followed blocks are
//!   dealt into [`GROUPS`] groups by their hashes, and with `m_g(c)` the weighted misses of group g at size c the
//!   variance of their sum is `(1 - R) * G / (G - 1) * sum((m_g - mean)^2)` (the method of random groups: Wolter,
//!   "Introduction to Variance Estimation", chapter 2, as recalled). It takes the sample for a plain one; ours is
//!   stratified and therefore better than the estimate says.
//! - How deep they seem to lie. Of c distinct blocks, the sample holds about `cR`, with a standard deviation of
//!   `sqrt(cR(1 - R))`; so the size is uncertain by `s = sqrt(c(1 - R)/R)`, and the hits by half of what the curve
//!   rises from `c - s` to `c + s`.
//!
//! It must not know which stack the depths come from.

use crate::curve::{Certainty, Curve, CurvePoint, ErrorPoint};
use crate::log_bins::LogBins;
use crate::tally::DistanceTally;
use lode_types::Direction;

/// Sizes are kept with an error of at most one in 512.
type Sizes = LogBins<8>;

/// Sizes for which the error is estimated: eight in each octave.
type ErrorSizes = LogBins<3>;

/// Groups of blocks by which the error is estimated.
pub(crate) const GROUPS: usize = 32;

/// Weighted counts of a sample.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    counts_writes: bool,
    /// Weights of hits by the smallest size that has them.
    hits: Vec<f64>,
    /// The largest size that was needed for a hit.
    largest: u64,
    /// The same for each group, without what was counted before there was a sample.
    group_hits: Vec<[f64; GROUPS]>,
    /// Weights of the followed accesses that could have hit.
    group_accesses: [f64; GROUPS],
    /// Weights of all followed accesses that could have hit.
    weight: f64,
    accesses: u64,
    reads: u64,
    followed_accesses: u64,
}

impl Estimate {
    /// Counts of nothing; `counts_writes` says whether writes can hit.
    pub(crate) fn new(counts_writes: bool) -> Estimate {
        Estimate {
            counts_writes,
            hits: Vec::new(),
            largest: 0,
            group_hits: Vec::new(),
            group_accesses: [0.0; GROUPS],
            weight: 0.0,
            accesses: 0,
            reads: 0,
            followed_accesses: 0,
        }
    }

    /// Takes over what was counted while every block was followed.
    pub(crate) fn add_exact(&mut self, tally: &DistanceTally) {
        for (distance, count) in tally.histogram().iter() {
            self.add_hits(u64::from(distance) + 1, count as f64);
        }
        self.add_stream(tally.accesses(), tally.reads());
        self.followed_accesses += tally.accesses();
        self.weight += if self.counts_writes { tally.accesses() } else { tally.reads() } as f64;
    }

    /// Counts accesses of the stream, followed or not.
    #[inline(always)]
    pub(crate) fn add_stream(&mut self, accesses: u64, reads: u64) {
        self.accesses += accesses;
        self.reads += reads;
    }

    /// Counts one access to a followed block; `depth` in the sample.
    #[inline]
    pub(crate) fn add_followed(&mut self, op: Direction, group: usize, depth: Option<u32>, rate: f64) {
        self.followed_accesses += 1;
        if !self.counts_writes && op == Direction::Write {
            return;
        }
        let weight = 1.0 / rate;
        self.weight += weight;
        self.group_accesses[group % GROUPS] += weight;
        if let Some(depth) = depth {
            let size = size_of_depth(depth, rate);
            self.add_hits(size, weight);
            let bin = ErrorSizes::bin(size);
            if bin >= self.group_hits.len() {
                self.group_hits.resize(bin + 1, [0.0; GROUPS]);
            }
            self.group_hits[bin][group % GROUPS] += weight;
        }
    }

    /// Counts the weight of one access to a followed block that could have hit, without its group.
    #[inline]
    pub(crate) fn add_weight(&mut self, weight: f64) {
        self.weight += weight;
    }

    /// Counts the hit of such an access; `depth` in the sample.
    #[inline]
    pub(crate) fn add_hit(&mut self, depth: u32, rate: f64) {
        self.add_hits(size_of_depth(depth, rate), 1.0 / rate);
    }

    fn add_hits(&mut self, size: u64, weight: f64) {
        let bin = Sizes::bin(size);
        if bin >= self.hits.len() {
            self.hits.resize(bin + 1, 0.0);
        }
        self.hits[bin] += weight;
        self.largest = self.largest.max(size);
    }

    /// Forgets all counts and keeps the memory.
    pub(crate) fn clear(&mut self) {
        let (mut hits, mut group_hits) =
            (std::mem::take(&mut self.hits), std::mem::take(&mut self.group_hits));
        hits.fill(0.0);
        group_hits.fill([0.0; GROUPS]);
        *self = Estimate { hits, group_hits, ..Estimate::new(self.counts_writes) };
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.hits.capacity() * size_of::<f64>() + self.group_hits.capacity() * size_of::<[f64; GROUPS]>()
    }

    /// The curve of the whole stream; `rate` is the present one.
    pub(crate) fn curve(&self, rate: f64) -> Curve {
        let curve = Curve::exact(self.points(), self.accesses, self.reads);
        let errors = self.errors(&curve, rate);
        curve.estimated(rate, self.followed_accesses, Certainty::Sampled(errors))
    }

    /// The points where the hits of the whole stream rise.
    pub(crate) fn points(&self) -> Vec<CurvePoint> {
        let able = if self.counts_writes { self.accesses } else { self.reads };
        let mut points: Vec<CurvePoint> = Vec::new();
        let mut misses = self.weight;
        for (bin, &weight) in self.hits.iter().enumerate().filter(|&(_, &weight)| weight > 0.0) {
            misses -= weight;
            // Misses that round to less than none, or to more than there are accesses, are none or all.
            let hits = able - (misses.round() as u64).min(able);
            if hits > points.last().map_or(0, |point| point.hits) {
                points.push(CurvePoint { size_blocks: Sizes::middle(bin).min(self.largest), hits });
            }
        }
        points
    }

    fn errors(&self, curve: &Curve, rate: f64) -> Vec<ErrorPoint> {
        let mut misses = self.group_accesses;
        let mut errors = Vec::with_capacity(self.group_hits.len() + 1);
        for bin in 0..=self.group_hits.len() {
            let (first, next) = (ErrorSizes::first(bin), ErrorSizes::first(bin + 1));
            if let Some(hits) = self.group_hits.get(bin) {
                misses.iter_mut().zip(hits).for_each(|(misses, hits)| *misses -= hits);
            }
            let of_blocks = group_variance(&misses) * (1.0 - rate) / (curve.accesses().max(1) as f64).powi(2);
            let size = (first + next) as f64 / 2.0;
            let deviation = (size * (1.0 - rate) / rate).sqrt();
            let above = curve.hit_ratio_at((size + deviation) as u64);
            let below = curve.hit_ratio_at((size - deviation).max(0.0) as u64);
            let of_depth = (above - below) / 2.0;
            errors.push(ErrorPoint {
                size_blocks: first,
                standard_error: (of_blocks + of_depth * of_depth).sqrt(),
            });
        }
        errors
    }
}

/// The smallest cache that has a hit at this depth of the sample: exactly the depth plus one when all blocks are followed.
///
/// The d sampled blocks above leave the true depth open between about `d/R` and `(d + 1)/R`; the middle is taken.
#[inline]
pub(crate) fn size_of_depth(depth: u32, rate: f64) -> u64 {
    ((f64::from(depth) + 0.5) / rate).ceil() as u64
}

/// The variance of the sum over the groups, each of which is a sample of its own.
fn group_variance(sums: &[f64; GROUPS]) -> f64 {
    let groups = GROUPS as f64;
    let mean = sums.iter().sum::<f64>() / groups;
    sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() * groups / (groups - 1.0)
}
