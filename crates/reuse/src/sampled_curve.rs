//! The hit curve of a stream from the distances that a sample of its blocks has, window by window.
//!
//! Whoever follows the blocks of a [`Sample`](crate::Sample) tells what it finds; the sums are those of the sampled
//! profilers (SHARDS: Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015, with its adjustment), without
//! the error. It must not know how distances are found.

use crate::curve::CurvePoint;
use crate::estimate::Estimate;

/// Sums of one window.
///
/// Sizes are kept to one in 512; below 512 blocks, with all blocks followed, the curve is exact.
#[derive(Clone, Debug)]
pub struct SampledCurve {
    estimate: Estimate,
}

impl Default for SampledCurve {
    fn default() -> SampledCurve {
        SampledCurve { estimate: Estimate::new(true) }
    }
}

impl SampledCurve {
    /// Nothing has come yet.
    pub fn new() -> SampledCurve {
        SampledCurve::default()
    }

    /// Counts accesses that could have hit, to followed blocks and others.
    #[inline]
    pub fn add_stream(&mut self, accesses: u64) {
        self.estimate.add_stream(accesses, 0);
    }

    /// One of these is to a followed block; `rate` is the share of all blocks that is followed now.
    #[inline]
    pub fn add_followed(&mut self, rate: f64) {
        self.estimate.add_weight(1.0 / rate);
    }

    /// This one would have hit in a large enough cache: so many distinct followed blocks came since the block came last.
    #[inline]
    pub fn add_hit(&mut self, distance: u32, rate: f64) {
        self.estimate.add_hit(distance, rate);
    }

    /// The points where the hits of the whole stream rise, ascending. The next window begins.
    pub fn take_points(&mut self) -> Vec<CurvePoint> {
        let points = self.estimate.points();
        self.estimate.clear();
        points
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.estimate.memory_bytes()
    }
}
