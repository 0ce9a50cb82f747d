//! The hits of caches of every size, and how sure they are.
//!
//! It must not know how a curve was obtained beyond the numbers kept here.

/// Where a hit curve rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurvePoint {
    /// Cache size in blocks.
    pub size_blocks: u64,
    /// Hits of a cache of this size, up to the next point.
    pub hits: u64,
}

/// The standard error of a sampled curve, from a size up to the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ErrorPoint {
    pub(crate) size_blocks: u64,
    /// Of the hit ratio.
    pub(crate) standard_error: f64,
}

/// How far a curve may be from the truth.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Certainty {
    /// Every access was followed to its exact distance.
    #[default]
    Exact,
    /// A share of all blocks was followed; ascending in size.
    Sampled(Vec<ErrorPoint>),
    /// A model of the stream, whose error nobody knows.
    Modelled,
}

/// The hits of a cache of every size, kept as the points where they change.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    points: Vec<CurvePoint>,
    accesses: u64,
    reads: u64,
    rate: f64,
    followed_accesses: u64,
    certainty: Certainty,
}

impl Default for Curve {
    fn default() -> Curve {
        Curve::exact(Vec::new(), 0, 0)
    }
}

impl Curve {
    pub(crate) fn exact(points: Vec<CurvePoint>, accesses: u64, reads: u64) -> Curve {
        Curve { points, accesses, reads, rate: 1.0, followed_accesses: accesses, certainty: Certainty::Exact }
    }

    pub(crate) fn estimated(mut self, rate: f64, followed_accesses: u64, certainty: Certainty) -> Curve {
        (self.rate, self.followed_accesses, self.certainty) = (rate, followed_accesses, certainty);
        self
    }

    /// A curve of the same stream with these points, whose sizes are less by `blocks`; as sure at each as this one is there.
    pub(crate) fn beyond(&self, blocks: u64, points: Vec<CurvePoint>) -> Curve {
        let certainty = match &self.certainty {
            Certainty::Sampled(errors) => {
                let less = |error: &ErrorPoint| ErrorPoint {
                    size_blocks: error.size_blocks.saturating_sub(blocks),
                    ..*error
                };
                Certainty::Sampled(errors.iter().map(less).collect())
            }
            other => other.clone(),
        };
        Curve { points, certainty, ..self.clone() }
    }

    /// The points where the hits rise, ascending in size and in hits; a smaller cache than the first has no hit.
    pub fn points(&self) -> &[CurvePoint] {
        &self.points
    }

    /// Accesses of the whole stream.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Reads of the whole stream.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Hits of a cache of `size_blocks`.
    pub fn hits_at(&self, size_blocks: u64) -> u64 {
        hits_at(&self.points, size_blocks)
    }

    /// Hits of a cache of `size_blocks` for each access of the whole stream; 0 for an empty stream.
    pub fn hit_ratio_at(&self, size_blocks: u64) -> f64 {
        ratio(self.hits_at(size_blocks), self.accesses)
    }

    /// The same curve with at most so many points (at least one), of which the last one stays. Between the points the
    /// hits are too low by at most the smallest number that so many points allow.
    pub fn thin(&self, max_points: usize) -> Curve {
        // The smallest loss of hits for which the points suffice, by bisection.
        let (mut low, mut high) = (0, self.hits_at(u64::MAX));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.points_within(middle).count() <= max_points {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Curve { points: self.points_within(low).collect(), ..self.clone() }
    }

    /// The fewest points by which no hits are too low by more than `loss`: each is the first that cannot be left out.
    fn points_within(&self, loss: u64) -> impl Iterator<Item = CurvePoint> {
        let mut hits = 0;
        self.points.iter().enumerate().filter_map(move |(at, point)| {
            let is_kept = point.hits - hits > loss || at + 1 == self.points.len();
            hits = if is_kept { point.hits } else { hits };
            is_kept.then_some(*point)
        })
    }

    /// The largest depth of a useful access, in blocks; `None` when no access is useful. An estimate where sampled. Of a
    /// read-only cache it is the depth in a stack with holes, which may be less than the largest POD(RO).
    pub fn max_distance(&self) -> Option<u64> {
        self.points.last().map(|point| point.size_blocks - 1)
    }

    /// The least demand: the smallest size that gives all hits there are, which is the largest depth plus one, or 0.
    pub fn blocks_needed(&self) -> u64 {
        self.points.last().map_or(0, |point| point.size_blocks)
    }

    /// The share of all blocks that was followed at the end; 1 when all were.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Accesses to the blocks that were followed.
    pub fn followed_accesses(&self) -> u64 {
        self.followed_accesses
    }

    /// The standard error of [`Curve::hit_ratio_at`]: 0 for an exact curve, and `None` for one by a model (AET,
    /// Counter Stacks), whose error is not known.
    pub fn standard_error_at(&self, size_blocks: u64) -> Option<f64> {
        match &self.certainty {
            Certainty::Exact => Some(0.0),
            Certainty::Sampled(errors) => {
                let reached = errors.partition_point(|point| point.size_blocks <= size_blocks);
                Some(reached.checked_sub(1).map_or(0.0, |at| errors[at].standard_error))
            }
            Certainty::Modelled => None,
        }
    }
}

/// Hits at `size_blocks` on a curve given by ascending points.
pub(crate) fn hits_at(points: &[CurvePoint], size_blocks: u64) -> u64 {
    let reached = points.partition_point(|point| point.size_blocks <= size_blocks);
    reached.checked_sub(1).map_or(0, |at| points[at].hits)
}

/// `part / whole`, and 0 of nothing.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
