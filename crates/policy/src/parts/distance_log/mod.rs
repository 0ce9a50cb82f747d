//! Reuse distances of one window, and the demand that they amount to. It must not know which accesses are useful, nor how
//! a distance is found.

mod radix;

use lode_reuse::{CurvePoint, SampledCurve};

use crate::parts::growth;
use crate::scheme::LevelDemand;

/// The useful distances of one window: of all blocks, or of a sample.
#[derive(Debug)]
pub(crate) enum WindowLog {
    /// Of all blocks, exactly.
    All(DistanceLog),
    /// Of a sample.
    Sample(Box<SampledLog>),
}

/// The useful distances of a sample's blocks.
#[derive(Debug)]
pub(crate) struct SampledLog {
    curve: SampledCurve,
    /// The share of all blocks that is followed now.
    rate: f64,
}

impl WindowLog {
    /// Of all blocks; not `on`: nobody asks.
    pub(crate) fn of_all(on: bool) -> WindowLog {
        WindowLog::All(DistanceLog::new(on))
    }

    /// Of a sample that follows all blocks, for now.
    pub(crate) fn of_sample() -> WindowLog {
        WindowLog::Sample(Box::new(SampledLog { curve: SampledCurve::new(), rate: 1.0 }))
    }

    /// A share of all blocks is followed from now on.
    pub(crate) fn set_rate(&mut self, rate: f64) {
        if let WindowLog::Sample(log) = self {
            log.rate = rate;
        }
    }

    /// Notes an access that could be useful, before its distance, if it has one. Of all blocks there is nothing to note.
    #[inline]
    pub(crate) fn add_access(&mut self, is_followed: bool) {
        if let WindowLog::Sample(log) = self {
            log.curve.add_stream(1);
            if is_followed {
                log.curve.add_followed(log.rate);
            }
        }
    }

    /// Adds the distance of a followed access, if it `counts`.
    #[inline(always)]
    pub(crate) fn add_if(&mut self, counts: bool, distance: u32) {
        match self {
            WindowLog::All(log) => log.add_if(counts, distance),
            WindowLog::Sample(log) if counts => log.curve.add_hit(distance, log.rate),
            WindowLog::Sample(_) => {}
        }
    }

    /// See [`DistanceLog::take`].
    pub(crate) fn take(&mut self, accesses: u64) -> LevelDemand {
        match self {
            WindowLog::All(log) => log.take(accesses),
            WindowLog::Sample(log) => demand_of(log.curve.take_points(), accesses),
        }
    }

    /// See [`DistanceLog::take_last`].
    pub(crate) fn take_last(&mut self, accesses: u64, most: u32) -> LevelDemand {
        match self {
            WindowLog::All(log) => log.take_last(accesses, most),
            WindowLog::Sample(log) => {
                let points = log.curve.take_points();
                let within = points.iter().rfind(|point| point.size_blocks <= u64::from(most)).copied();
                let last = points.last().copied().filter(|&last| within != Some(last));
                demand_of(within.into_iter().chain(last).collect(), accesses)
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            WindowLog::All(log) => log.memory_bytes(),
            WindowLog::Sample(log) => size_of::<SampledLog>() + log.curve.memory_bytes(),
        }
    }
}

/// The useful distances of one window, of all blocks.
///
/// Single distances are collected; where there are many for the blocks that they span, they are counted by distance instead, so that the
/// memory follows the number of blocks and not the length of the window.
#[derive(Debug)]
pub(crate) struct DistanceLog {
    recent: Vec<u32>,
    /// Memory for sorting.
    spare: Vec<u32>,
    /// How often each distance came, by distance, modulo [`CARRY`]; empty while all are among the recent ones.
    counts: Vec<u16>,
    /// What exceeded `counts`, in the order of the distances.
    carried: Vec<(u32, u64)>,
    on: bool,
}

/// Where a count starts anew.
const CARRY: u64 = 1 << u16::BITS;

impl DistanceLog {
    /// Single distances that there is always room for.
    const LEAST_RECENT: usize = 1 << 10;
    /// As large a part of the blocks is collected before it is counted. To look through all counts costs little beside it.
    const RECENT_PART: usize = 16;

    pub(crate) fn new(on: bool) -> DistanceLog {
        DistanceLog { recent: Vec::new(), spare: Vec::new(), counts: Vec::new(), carried: Vec::new(), on }
    }

    /// Adds a distance, or not, without a branch.
    #[inline]
    pub(crate) fn add_if(&mut self, counts: bool, distance: u32) {
        if self.on {
            if self.recent.len() == self.recent.capacity() {
                self.make_room();
            }
            let len = self.recent.len();
            self.recent.push(distance);
            self.recent.truncate(len + usize::from(counts));
        }
    }

    /// Room for more single distances, or for as many again.
    #[cold]
    fn make_room(&mut self) {
        let len = self.recent.len();
        let most = (self.spanned_blocks() / Self::RECENT_PART).max(Self::LEAST_RECENT);
        if len < most {
            self.recent.reserve_exact(growth::step(len).min(most - len));
        } else {
            self.count();
        }
    }

    /// More than the largest distance, and at most the blocks that there are.
    fn spanned_blocks(&self) -> usize {
        let largest = self.recent.iter().max().map_or(0, |&largest| largest as usize + 1);
        largest.max(self.counts.len())
    }

    /// Counts what is recent.
    fn count(&mut self) {
        let spanned = self.spanned_blocks();
        self.counts.reserve_exact(spanned - self.counts.len());
        self.counts.resize(spanned, 0);
        for distance in self.recent.drain(..) {
            let count = &mut self.counts[distance as usize];
            *count = count.wrapping_add(1);
            if *count == 0 {
                match self.carried.binary_search_by_key(&distance, |carried| carried.0) {
                    Ok(at) => self.carried[at].1 += CARRY,
                    Err(at) => self.carried.insert(at, (distance, CARRY)),
                }
            }
        }
    }

    /// The demand of the window, which starts anew. Size `distance + 1` is the first that hits.
    pub(crate) fn take(&mut self, accesses: u64) -> LevelDemand {
        let mut curve = Vec::new();
        if self.counts.is_empty() {
            radix::sort(&mut self.recent, &mut self.spare);
            curve = curve_of(&self.recent);
            self.recent.clear();
        } else {
            let mut hits = 0;
            self.take_counts(|size_blocks, count| {
                hits += count;
                curve.push(CurvePoint { size_blocks, hits });
            });
        }
        demand_of(curve, accesses)
    }

    /// As [`DistanceLog::take`], but of the curve only the last point within `most` blocks and the last of all.
    pub(crate) fn take_last(&mut self, accesses: u64, most: u32) -> LevelDemand {
        let mut last = Last { most: u64::from(most), ..Last::default() };
        if !self.counts.is_empty() {
            self.count();
            last.add_counts(&self.counts);
            self.carried.drain(..).for_each(|(distance, count)| last.add(u64::from(distance) + 1, count));
            self.counts.clear();
        }
        self.recent.drain(..).for_each(|distance| last.add(u64::from(distance) + 1, 1));
        demand_of(last.points(), accesses)
    }

    /// Shows every size that hits more than smaller ones, in ascending order, and how often it does; what is recent counts, too.
    fn take_counts(&mut self, mut each: impl FnMut(u64, u64)) {
        self.count();
        let mut carried = self.carried.drain(..).peekable();
        for (distance, count) in (0u32..).zip(self.counts.drain(..)) {
            let carried = carried.next_if(|carried| carried.0 == distance).map_or(0, |carried| carried.1);
            let count = carried + u64::from(count);
            if count > 0 {
                each(u64::from(distance) + 1, count);
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        (self.recent.capacity() + self.spare.capacity()) * size_of::<u32>()
            + self.counts.capacity() * size_of::<u16>()
            + self.carried.capacity() * size_of::<(u32, u64)>()
    }
}

/// The last point of a curve within some blocks, and the last of all.
#[derive(Default)]
struct Last {
    most: u64,
    /// The largest sizes that hit more than smaller ones, and how often they and smaller ones do.
    within: u64,
    hits: u64,
    of_all: u64,
    all_hits: u64,
}

impl Last {
    /// A size that hits so often, more than smaller ones do.
    #[inline(always)]
    fn add(&mut self, size_blocks: u64, hits: u64) {
        let fits = size_blocks <= self.most;
        self.within = if fits { size_blocks.max(self.within) } else { self.within };
        self.hits += hits * u64::from(fits);
        self.of_all = size_blocks.max(self.of_all);
        self.all_hits += hits;
    }

    /// Adds all sizes from 1 on, of which many hit no more than smaller ones.
    fn add_counts(&mut self, counts: &[u16]) {
        let largest = |counts: &[u16]| counts.iter().rposition(|&count| count > 0).map(|at| at as u64 + 1);
        let sum = |counts: &[u16]| counts.iter().map(|&count| u64::from(count)).sum::<u64>();
        let (near, far) = counts.split_at(counts.len().min(self.most as usize));
        if let Some(size_blocks) = largest(near) {
            self.add(size_blocks, sum(near));
        }
        if let Some(size_blocks) = largest(far) {
            self.add(near.len() as u64 + size_blocks, sum(far));
        }
    }

    fn points(self) -> Vec<CurvePoint> {
        let points = [(self.within, self.hits), (self.of_all, self.all_hits)];
        let points = points.map(|(size_blocks, hits)| CurvePoint { size_blocks, hits });
        // Without hits within there is one point, and where all are within there is one, too.
        let first = usize::from(self.hits == 0 || self.hits == self.all_hits);
        if self.all_hits == 0 { Vec::new() } else { points[first..].to_vec() }
    }
}

fn demand_of(curve: Vec<CurvePoint>, accesses: u64) -> LevelDemand {
    let blocks = curve.last().map_or(0, |point| point.size_blocks.min(u64::from(u32::MAX)) as u32);
    LevelDemand { blocks, curve, accesses, ..LevelDemand::default() }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The curve of these distances, size by size.
    fn plain_curve(distances: &[u32]) -> Vec<CurvePoint> {
        let mut different = distances.to_vec();
        different.sort_unstable();
        different.dedup();
        let hits = |most: u32| distances.iter().filter(|&&distance| distance <= most).count() as u64;
        let point = |distance| CurvePoint { size_blocks: u64::from(distance) + 1, hits: hits(distance) };
        different.into_iter().map(point).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Windows long enough to be folded, of few and of many different distances.
        #[test]
        fn demand_is_that_of_the_distances(
            windows in prop::collection::vec((0usize..6000, 1u32..4000, any::<u64>(), any::<bool>()), 1..4),
        ) {
            let mut log = DistanceLog::new(true);
            for (accesses, different, seed, ask_for_last) in windows {
                let mut state = seed | 1;
                let mut random = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 33) as u32
                };
                let mut counted = Vec::new();
                for _ in 0..accesses {
                    let (counts, distance) = (random() % 4 > 0, random() % different);
                    log.add_if(counts, distance);
                    counted.extend(counts.then_some(distance));
                }
                let whole = plain_curve(&counted);
                let blocks = whole.last().map_or(0, |point| point.size_blocks as u32);
                let demand = if ask_for_last {
                    let most = different / 2;
                    let demand = log.take_last(accesses as u64, most);
                    let within = whole.iter().rfind(|point| point.size_blocks <= u64::from(most));
                    let expected: Vec<_> = within.into_iter().chain(whole.last()).copied().collect();
                    prop_assert_eq!(demand.curve.last(), expected.last());
                    prop_assert_eq!(demand.curve.first(), expected.first());
                    prop_assert!(demand.curve.len() <= 2);
                    demand
                } else {
                    let demand = log.take(accesses as u64);
                    prop_assert_eq!(&demand.curve, &whole);
                    demand
                };
                prop_assert_eq!((demand.blocks, demand.accesses), (blocks, accesses as u64));
            }
        }
    }

    #[test]
    fn few_different_distances_take_little_memory_however_many_there_are() {
        let mut log = DistanceLog::new(true);
        for at in 0..300_000 {
            log.add_if(true, if at % 2 == 0 { 7 } else { at % 100 });
        }
        assert!(log.memory_bytes() < 16_384, "{}", log.memory_bytes());
        let curve = log.take(300_000).curve;
        // Odd distances came 3,000 times each, one of them 150,000 times more.
        let expected = |at: u64| CurvePoint {
            size_blocks: 2 * at + 2,
            hits: 3_000 * (at + 1) + 150_000 * u64::from(at > 2),
        };
        assert_eq!(curve, (0..50).map(expected).collect::<Vec<_>>());
        assert!(log.take(0).curve.is_empty());
    }
}
