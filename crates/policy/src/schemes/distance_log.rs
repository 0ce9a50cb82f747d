//! Reuse distances of one window, and the demand that they amount to. It must not know which accesses are useful, nor how
//! a distance is found.

use lode_reuse::CurvePoint;

use crate::scheme::LevelDemand;
use crate::schemes::radix;

/// The useful distances of one window.
///
/// Single distances are collected and now and then folded into `(distance, count)` pairs, so that the
/// memory follows the number of different distances and not the length of the window.
#[derive(Debug)]
pub(super) struct DistanceLog {
    recent: Vec<u32>,
    /// Memory for sorting.
    spare: Vec<u32>,
    folded: Vec<(u32, u64)>,
    /// A fold passes over all that is folded, so it waits for as much again.
    fold_at: usize,
    on: bool,
}

impl DistanceLog {
    const LEAST_FOLD: usize = 1 << 16;

    pub(super) fn new(on: bool) -> DistanceLog {
        DistanceLog {
            recent: Vec::new(),
            spare: Vec::new(),
            folded: Vec::new(),
            fold_at: Self::LEAST_FOLD,
            on,
        }
    }

    /// Adds a distance, or not, without a branch.
    #[inline]
    pub(super) fn add_if(&mut self, counts: bool, distance: u32) {
        if self.on {
            let len = self.recent.len();
            self.recent.push(distance);
            self.recent.truncate(len + usize::from(counts));
            if len >= self.fold_at {
                self.fold();
            }
        }
    }

    fn fold(&mut self) {
        radix::sort(&mut self.recent, &mut self.spare);
        let before = std::mem::take(&mut self.folded);
        self.folded.reserve_exact(before.len() + self.recent.chunk_by(u32::eq).count());
        let mut before = before.into_iter().peekable();
        for same in self.recent.chunk_by(u32::eq) {
            let distance = same[0];
            self.folded.extend(std::iter::from_fn(|| before.next_if(|pair| pair.0 < distance)));
            let count = before.next_if(|pair| pair.0 == distance).map_or(0, |pair| pair.1);
            self.folded.push((distance, count + same.len() as u64));
        }
        self.folded.extend(before);
        self.recent.clear();
        self.fold_at = Self::LEAST_FOLD.max(self.folded.len());
    }

    /// The demand of the window, which starts anew. Size `distance + 1` is the first that hits.
    pub(super) fn take(&mut self, accesses: u64) -> LevelDemand {
        let curve = if self.folded.is_empty() {
            radix::sort(&mut self.recent, &mut self.spare);
            let curve = curve_of(&self.recent);
            self.recent.clear();
            curve
        } else {
            self.fold();
            let mut hits = 0;
            let rise = |(distance, count)| {
                hits += count;
                CurvePoint { size_blocks: u64::from(distance) + 1, hits }
            };
            self.fold_at = Self::LEAST_FOLD;
            self.folded.drain(..).map(rise).collect()
        };
        demand_of(curve, accesses)
    }

    /// As [`DistanceLog::take`], but of the curve only the last point within `most` blocks and the last of all.
    pub(super) fn take_last(&mut self, accesses: u64, most: u32) -> LevelDemand {
        if !self.folded.is_empty() {
            let mut demand = self.take(accesses);
            let within = demand.curve.partition_point(|point| point.size_blocks <= u64::from(most));
            let beyond = within.max(demand.curve.len().saturating_sub(1));
            demand.curve.drain(within..beyond);
            demand.curve.drain(..within.saturating_sub(1));
            return demand;
        }
        let (mut within, mut hits, mut last) = (0, 0, 0);
        for &distance in &self.recent {
            let size_blocks = u64::from(distance) + 1;
            let fits = size_blocks <= u64::from(most);
            within = if fits { size_blocks.max(within) } else { within };
            hits += u64::from(fits);
            last = size_blocks.max(last);
        }
        let all = self.recent.len() as u64;
        self.recent.clear();
        let points =
            [(within, hits), (last, all)].map(|(size_blocks, hits)| CurvePoint { size_blocks, hits });
        // Without hits within there is one point, and where all are within there is one, too.
        let first = usize::from(hits == 0 || hits == all);
        let points = if all == 0 { &[] } else { &points[first..] };
        demand_of(points.to_vec(), accesses)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        (self.recent.capacity() + self.spare.capacity()) * size_of::<u32>()
            + self.folded.capacity() * size_of::<(u32, u64)>()
    }
}

fn demand_of(curve: Vec<CurvePoint>, accesses: u64) -> LevelDemand {
    let blocks = curve.last().map_or(0, |point| point.size_blocks as u32);
    LevelDemand { blocks, curve, accesses, weight: 1.0 }
}

/// The curve of distances in ascending order, of which each serves once.
fn curve_of(distances: &[u32]) -> Vec<CurvePoint> {
    let mut curve = vec![CurvePoint { size_blocks: 0, hits: 0 }; distances.len()];
    let mut points = 0;
    for (at, &distance) in distances.iter().enumerate() {
        // Of equal distances the last one's point stays; nothing foretells which are equal.
        curve[points] = CurvePoint { size_blocks: u64::from(distance) + 1, hits: at as u64 + 1 };
        points += usize::from(distances.get(at + 1) != Some(&distance));
    }
    curve.truncate(points);
    curve
}
