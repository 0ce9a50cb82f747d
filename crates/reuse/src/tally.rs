//! Counts of distances, and the hit curve they amount to.
//!
//! It must not know how a distance is found.

use crate::curve::{Curve, CurvePoint};
use std::collections::BTreeMap;

/// How often each distance occurred: dense up to the largest, two bytes each.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u16>,
    /// Multiples of 2^16 that `counts` could not hold, by distance.
    carries: BTreeMap<u32, u64>,
    max: Option<u32>,
}

impl Histogram {
    /// Adds one occurrence of `distance`.
    #[inline]
    pub fn record(&mut self, distance: u32) {
        let at = distance as usize;
        if at >= self.counts.len() {
            self.lengthen(at + 1);
        }
        self.max = self.max.max(Some(distance));
        let count = &mut self.counts[at];
        *count = count.wrapping_add(1);
        if *count == 0 {
            *self.carries.entry(distance).or_default() += 1;
        }
    }

    /// Adds all that another histogram counted.
    pub(crate) fn add_all(&mut self, other: &Histogram) {
        let end = other.blocks_needed() as usize;
        if end > self.counts.len() {
            self.lengthen(end);
        }
        self.max = self.max.max(other.max);
        for (distance, count) in other.iter() {
            let sum = u64::from(self.counts[distance as usize]) + count;
            self.counts[distance as usize] = sum as u16;
            if sum >> 16 > 0 {
                *self.carries.entry(distance).or_default() += sum >> 16;
            }
        }
    }

    /// The largest distance that occurred.
    pub fn max(&self) -> Option<u32> {
        self.max
    }

    /// A cache, in blocks, for which every recorded access is a hit: the largest distance plus one, or 0 when there is none
    /// (ETICA, section 4.3.2, with the block itself counted). Of depths in a stack it is the smallest one, the least demand; of
    /// POD(RO) it is ETICA's demand, which is enough, and more than the least where writes make room.
    pub fn blocks_needed(&self) -> u64 {
        self.max.map_or(0, |distance| u64::from(distance) + 1)
    }

    /// How often `distance` occurred.
    pub fn count(&self, distance: u32) -> u64 {
        let low = self.counts.get(distance as usize).copied().unwrap_or(0);
        u64::from(low) + (self.carries.get(&distance).copied().unwrap_or(0) << 16)
    }

    /// Every distance that occurred, ascending, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        let end = self.blocks_needed() as u32;
        (0..end).map(|distance| (distance, self.count(distance))).filter(|&(_, count)| count > 0)
    }

    /// Forgets all counts and keeps the memory.
    pub fn clear(&mut self) {
        let end = self.blocks_needed() as usize;
        self.counts[..end].fill(0);
        self.carries.clear();
        self.max = None;
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u16>() + self.carries.len() * size_of::<(u32, u64)>()
    }

    #[cold]
    fn lengthen(&mut self, needed: usize) {
        let len = needed.max(self.counts.len() + self.counts.len() / 4).max(64);
        self.counts.reserve_exact(len - self.counts.len());
        self.counts.resize(len, 0);
    }
}

/// What an analyser has counted: the distances of useful accesses, and the length of the stream.
#[derive(Clone, Debug, Default)]
pub struct DistanceTally {
    pub(crate) histogram: Histogram,
    pub(crate) accesses: u64,
    pub(crate) reads: u64,
}

impl DistanceTally {
    /// Distances of the useful accesses.
    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// Accesses seen, useful or not.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Reads seen, useful or not.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Largest distance of a useful access.
    pub fn max(&self) -> Option<u32> {
        self.histogram.max()
    }

    /// See [`Histogram::blocks_needed`].
    pub fn blocks_needed(&self) -> u64 {
        self.histogram.blocks_needed()
    }

    /// Hits by cache size: an access of distance d hits every cache of more than d blocks.
    pub fn curve(&self) -> Curve {
        let mut hits = 0;
        let rise = |(distance, count): (u32, u64)| {
            hits += count;
            CurvePoint { size_blocks: u64::from(distance) + 1, hits }
        };
        let points = self.histogram.iter().map(rise).collect();
        Curve::exact(points, self.accesses, self.reads)
    }

    /// Adds all that another tally counted.
    pub(crate) fn add_all(&mut self, other: &DistanceTally) {
        self.histogram.add_all(&other.histogram);
        self.accesses += other.accesses;
        self.reads += other.reads;
    }

    pub(crate) fn clear(&mut self) {
        self.histogram.clear();
        self.accesses = 0;
        self.reads = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_beyond_16_bits() {
        let mut histogram = Histogram::default();
        histogram.record(3);
        histogram.counts[3] = u16::MAX;
        histogram.record(3);
        histogram.record(3);
        assert_eq!(histogram.count(3), (1 << 16) + 1);
        assert_eq!(histogram.iter().collect::<Vec<_>>(), [(3, (1 << 16) + 1)]);
        let mut sum = Histogram::default();
        sum.record(5);
        sum.counts[5] = u16::MAX;
        (0..3).for_each(|_| sum.add_all(&histogram));
        assert_eq!((sum.count(3), sum.count(5), sum.max()), ((3 << 16) + 3, 65_535, Some(5)));
        histogram.record(9);
        sum.add_all(&histogram);
        assert_eq!((sum.count(3), sum.count(9), sum.max()), ((4 << 16) + 4, 1, Some(9)));
        histogram.clear();
        assert_eq!((histogram.count(3), histogram.max(), histogram.blocks_needed()), (0, None, 0));
    }
}
