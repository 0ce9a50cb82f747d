//! Popularity of regions of the disk and of their parts: for each region that was accessed a counter and a binary tree of
//! counters, all of which decay (RPAC, Figs. 3 and 4).
//!
//! One record a region, its counters in one flat array. Decay is lazy: a record knows up to when it has decayed. It must not
//! know sets nor slots.

use lode_reuse::index::BlockIndex;
use lode_types::BlockNo;
use lode_types::prefetch::prefetch_slice;

use super::divisor::Divisor;
use super::expiries::Expiries;
use crate::parts::ssd_level::Id;

/// In `cached` of a record that is not in use.
const UNUSED: u32 = u32::MAX;
/// Records keep the low 32 bits of the epoch, so that all of them have to be visited before those come round.
const EPOCHS_TO_SETTLE: u64 = 1 << 31;
/// What popularity is counted up to.
pub(super) const MOST_POPULAR: u32 = u32::MAX - 1;
/// In the place of a popularity: above all of them, without decay.
pub(super) const NEVER: u32 = u32::MAX;
/// Records made since the last sweep, as a share of all, before memory is grown without another sweep.
const SWEEP_SHARE: usize = 4;
/// The part of all records that is added when there is no room for one, and the least that is.
const GROWTH_PARTS: usize = 8;
const LEAST_GROWTH: usize = 64;

/// Most blocks of a region, and most levels of the tree below it.
pub(super) const MOST_REGION_BLOCKS: u32 = 1 << LEAF_SHIFT;
pub(super) const MOST_DEPTH: u32 = 4;
/// Where in a place's `spot` the smallest part begins.
const LEAF_SHIFT: u32 = 20;
/// Popularities have so many bits, so that halved as often they are gone.
const POPULARITY_BITS: u64 = 32;

/// What the regions' owner sets.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Blocks of a region, from 1 to 2^20.
    pub region_blocks: u32,
    /// Levels of the tree below the region, at most 4.
    pub depth: u32,
    /// What a counter is multiplied by when it decays; below 1.
    pub alpha: f64,
    /// Accesses from decay to decay; the paper's T.
    pub interval: u64,
    /// How much more popular the newcomer has to be; the paper's c.
    pub factor: f64,
    /// Most regions that have a popularity.
    pub most: u32,
}

impl Parameters {
    /// Whether popularity `newcomer` is so much above `resident` that the one may replace the other.
    #[inline]
    pub fn outranks(&self, newcomer: u32, resident: u32) -> bool {
        f64::from(newcomer) > self.factor * f64::from(resident)
    }

    /// The least popularity of a resident that a newcomer of popularity `newcomer` may not replace; all that are less it
    /// outranks.
    #[inline]
    pub(super) fn first_not_outranked(&self, newcomer: u32) -> u32 {
        // The quotient is rounded, so that it may be off by one.
        let mut first = (f64::from(newcomer) / self.factor) as u32;
        while first > 0 && !self.outranks(newcomer, first - 1) {
            first -= 1;
        }
        while self.outranks(newcomer, first) {
            first += 1;
        }
        first
    }
}

/// How far decay has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// What a popularity is multiplied by when it decays.
    pub(super) alpha: f64,
    /// Decays so far.
    pub(super) epoch: u64,
}

impl Now {
    /// A popularity after one decay.
    #[inline]
    pub(super) fn decayed_once(self, popularity: u32) -> u32 {
        (self.alpha * f64::from(popularity)) as u32
    }

    /// A popularity after so many decays.
    #[inline]
    pub(super) fn decayed_by(self, popularity: u32, epochs: u64) -> u32 {
        let mut popularities = [popularity];
        if epochs > 0 {
            self.decay_all(&mut popularities, epochs);
        }
        popularities[0]
    }

    /// Popularities decay so many times.
    #[inline]
    pub(super) fn decay_all(self, popularities: &mut [u32], epochs: u64) {
        if self.alpha == 0.5 {
            // Exact, and several at once.
            let halvings = epochs.min(POPULARITY_BITS);
            for popularity in popularities {
                let left = (u64::from(*popularity) >> halvings) as u32;
                *popularity = if *popularity == NEVER { NEVER } else { left };
            }
            return;
        }
        for popularity in popularities.iter_mut().filter(|popularity| **popularity != NEVER) {
            let mut left = epochs;
            while left > 0 && *popularity > 0 {
                *popularity = self.decayed_once(*popularity);
                left -= 1;
            }
        }
    }
}

/// A block by its region's record.
#[derive(Clone, Copy, Debug)]
pub struct RegionSpot {
    /// The record of its region.
    pub region: Id,
    /// Where it is in the region, and from [`LEAF_SHIFT`] on in which of the smallest parts.
    spot: u32,
}

impl RegionSpot {
    fn offset(self) -> u64 {
        u64::from(self.spot % MOST_REGION_BLOCKS)
    }

    #[inline]
    pub(super) fn part(self) -> Leaf {
        Leaf { region: self.region, leaf: self.spot >> LEAF_SHIFT }
    }
}

/// One of the smallest parts of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    region: Id,
    leaf: u32,
}

impl Leaf {
    /// Another one for every part, of as many bits.
    pub(super) const NUMBER_BITS: u32 = Id::BITS + MOST_DEPTH;

    #[inline]
    pub(super) fn number(self) -> u64 {
        u64::from(self.region) << MOST_DEPTH | u64::from(self.leaf)
    }
}

/// What says how popular a region is, and all that a look at a block of it takes, is in one place, and in 20 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct Head {
    region: u64,
    /// The region's own counter.
    count: u32,
    /// Low bits of the epoch up to which the counters have decayed.
    epoch: u32,
    /// Cached blocks of the region, whose places name this record.
    cached: u32,
}

/// What the index has for a record.
#[inline(always)]
fn hash_of(heads: &[Head]) -> impl Fn(Id) -> u32 {
    |id| BlockIndex::hash(heads[id as usize].region)
}

/// The regions.
#[derive(Debug)]
pub struct Regions {
    parameters: Parameters,
    region_blocks: Divisor,
    heads: Vec<Head>,
    /// `nodes` of each record, level by level: the region's halves, their halves.
    counts: Vec<u32>,
    nodes: usize,
    index: BlockIndex,
    free: Vec<Id>,
    /// Accesses until the next decay; the paper counts them from the beginning, A.
    until_decay: u64,
    /// Decays so far.
    epoch: u64,
    /// Which regions have a popularity, in number.
    expiries: Expiries,
    /// Records made since the last sweep.
    made: usize,
}

impl Regions {
    /// No region has been accessed yet.
    ///
    /// # Panics
    /// When a parameter is outside its range.
    pub fn new(parameters: Parameters) -> Regions {
        assert!((1..=MOST_REGION_BLOCKS).contains(&parameters.region_blocks), "{parameters:?}");
        assert!(parameters.depth <= MOST_DEPTH && parameters.interval > 0, "{parameters:?}");
        // Deeper than to single blocks no two of them part.
        let deepest = parameters.region_blocks.next_power_of_two().ilog2();
        let parameters = Parameters { depth: parameters.depth.min(deepest), ..parameters };
        Regions {
            parameters,
            region_blocks: Divisor::new(parameters.region_blocks),
            heads: Vec::new(),
            counts: Vec::new(),
            nodes: (2 << parameters.depth) - 2,
            index: BlockIndex::new(),
            free: Vec::new(),
            until_decay: parameters.interval,
            epoch: 0,
            expiries: Expiries::new(Now { alpha: parameters.alpha, epoch: 0 }),
            made: 0,
        }
    }

    pub(super) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// How far decay has come.
    #[inline]
    pub(super) fn now(&self) -> Now {
        Now { alpha: self.parameters.alpha, epoch: self.epoch }
    }

    /// Which region a block is in, and its place there.
    #[inline]
    fn split(&self, block: BlockNo) -> (u64, u32) {
        let (region, offset) = self.region_blocks.divide(block);
        (region, self.spot(offset))
    }

    #[inline]
    fn spot(&self, offset: u64) -> u32 {
        let leaf = self.region_blocks.divide(offset << self.parameters.depth).0;
        (leaf << LEAF_SHIFT | offset) as u32
    }

    /// The block of a place.
    #[inline]
    pub(super) fn block(&self, place: RegionSpot) -> BlockNo {
        self.heads[place.region as usize].region * self.region_blocks.get() + place.offset()
    }

    /// Counts an access to a block, in a cache or not, and says its place.
    #[inline]
    pub fn count(&mut self, block: BlockNo) -> RegionSpot {
        self.tick();
        let place = self.place(block);
        self.add(place);
        place
    }

    /// Counts an access to a cached block.
    #[inline]
    pub(super) fn count_cached(&mut self, place: RegionSpot) {
        self.tick();
        self.add(place);
    }

    /// A block's place, with a record of its region if there is none: it stays until the next access to another block, or
    /// as long as blocks of the region are cached.
    #[inline]
    pub fn place(&mut self, block: BlockNo) -> RegionSpot {
        let (region, spot) = self.split(block);
        let hash = BlockIndex::hash(region);
        let known = self.index.find(hash, |id| self.heads[id as usize].region == region);
        RegionSpot { region: known.unwrap_or_else(|| self.make(hash, region)), spot }
    }

    /// A block of the region of `place` is cached from now on.
    pub fn cache(&mut self, place: RegionSpot) {
        self.heads[place.region as usize].cached += 1;
    }

    /// A block of the region of `place` is cached no more.
    pub(super) fn uncache(&mut self, place: RegionSpot) {
        self.heads[place.region as usize].cached -= 1;
    }

    /// How popular a region is.
    #[inline]
    pub fn popularity(&self, region: Id) -> u32 {
        let head = self.heads[region as usize];
        self.now().decayed_by(head.count, u64::from((self.epoch as u32).wrapping_sub(head.epoch)))
    }

    /// Whether `newcomer` may replace `resident`, another block of its region: where their parts of the region differ first,
    /// the newcomer's has to outrank the resident's. The region has been counted in this epoch.
    pub(super) fn outranks_kin(&self, newcomer: RegionSpot, resident: RegionSpot) -> bool {
        let (leaf, other) = (newcomer.part().leaf, resident.part().leaf);
        let apart = (leaf ^ other).checked_ilog2();
        apart.is_some_and(|up| self.part_outranks(newcomer.part(), other >> up, up))
    }

    /// The smallest parts of its own region whose blocks `newcomer` may replace.
    #[inline]
    pub(super) fn parts_outranked(&self, newcomer: RegionSpot) -> impl Iterator<Item = Leaf> + '_ {
        let Leaf { region, leaf } = newcomer.part();
        let outranked = move |up: u32| {
            let sibling = (leaf >> up) ^ 1;
            let is_outranked = self.part_outranks(newcomer.part(), sibling, up);
            let leaves = (sibling << up)..(sibling << up) + (u32::from(is_outranked) << up);
            leaves.map(move |leaf| Leaf { region, leaf })
        };
        (0..self.parameters.depth).flat_map(outranked)
    }

    /// Whether some block of a region is cached.
    #[inline]
    pub(super) fn is_cached(&self, region: Id) -> bool {
        self.heads[region as usize].cached > 0
    }

    /// The other blocks of a region and their places.
    pub(super) fn kin(&self, of: RegionSpot) -> impl Iterator<Item = (BlockNo, RegionSpot)> + '_ {
        let offsets = (0..self.region_blocks.get()).filter(move |&offset| offset != of.offset());
        let first = self.heads[of.region as usize].region * self.region_blocks.get();
        // The disk may end within the region.
        offsets.filter_map(move |offset| {
            Some((first.checked_add(offset)?, RegionSpot { spot: self.spot(offset), ..of }))
        })
    }

    /// Asks for what looking a block's region up takes.
    #[inline]
    pub(super) fn prefetch_index(&self, block: BlockNo) {
        self.index.prefetch(BlockIndex::hash(self.region_blocks.divide(block).0));
    }

    /// Asks for the record of a block's region, once its index was asked for.
    #[inline]
    pub(super) fn prefetch_region(&self, block: BlockNo) {
        self.prefetch(self.candidate(block).region);
    }

    /// A block's place if its region has a record, or some place.
    #[inline]
    pub(super) fn candidate(&self, block: BlockNo) -> RegionSpot {
        let (region, spot) = self.split(block);
        RegionSpot { region: self.index.candidate(BlockIndex::hash(region)), spot }
    }

    /// Asks for a region's record, which need not be there.
    #[inline]
    pub(super) fn prefetch(&self, region: Id) {
        // Where it ends, which the next one begins at, may be another cache line.
        let (region, next) = (region as usize, region as usize + 1);
        prefetch_slice(&self.heads, region);
        prefetch_slice(&self.heads, next);
        prefetch_slice(&self.counts, region * self.nodes);
        prefetch_slice(&self.counts, next * self.nodes);
    }

    /// Bytes that everything takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
            + self.heads.capacity() * size_of::<Head>()
            + self.counts.capacity() * size_of::<u32>()
            + self.free.capacity() * size_of::<Id>()
            + self.expiries.memory_bytes()
    }

    /// The counter of a part of a region, not all of it, `up` levels above the smallest, by its number on that level.
    #[inline]
    fn count_of(&self, region: Id, number: u32, up: u32) -> usize {
        let level = self.parameters.depth - up;
        region as usize * self.nodes + (1 << level) - 2 + number as usize
    }

    /// Whether the part around `part`, `up` levels above it, outranks another one of that level of its region.
    #[inline]
    fn part_outranks(&self, part: Leaf, other: u32, up: u32) -> bool {
        let count = |number| self.counts[self.count_of(part.region, number, up)];
        self.parameters.outranks(count(part.leaf >> up), count(other))
    }

    /// An access begins.
    #[inline]
    fn tick(&mut self) {
        self.until_decay -= 1;
        if self.until_decay == 0 {
            self.until_decay = self.parameters.interval;
            self.decay();
        }
    }

    fn decay(&mut self) {
        self.epoch += 1;
        self.expiries.decay();
        if self.epoch.is_multiple_of(EPOCHS_TO_SETTLE) {
            (0..self.heads.len() as Id).for_each(|id| self.settle(id));
        }
    }

    /// Makes a record's counters what they are now.
    #[inline]
    fn settle(&mut self, region: Id) {
        let now = self.now();
        let head = &mut self.heads[region as usize];
        let epochs = (self.epoch as u32).wrapping_sub(head.epoch);
        if epochs == 0 {
            return;
        }
        head.epoch = self.epoch as u32;
        // No part is more popular than the whole.
        if head.count > 0 {
            head.count = now.decayed_by(head.count, u64::from(epochs));
            let first = region as usize * self.nodes;
            now.decay_all(&mut self.counts[first..first + self.nodes], u64::from(epochs));
        }
    }

    /// One more access to the region and to the parts around a block.
    #[inline]
    fn add(&mut self, place: RegionSpot) {
        let Leaf { region, leaf } = place.part();
        self.settle(region);
        if self.heads[region as usize].count == 0 && self.expiries.above_nothing() >= self.parameters.most {
            self.make_room(place);
            self.settle(region);
        }
        let count = &mut self.heads[region as usize].count;
        self.expiries.gain(*count);
        *count = MOST_POPULAR.min(*count + 1);
        let first = region as usize * self.nodes;
        let counts = &mut self.counts[first..first + self.nodes];
        // Level by level a part's number begins with those of the parts around it.
        let lowest = (1 << self.parameters.depth) + leaf;
        for up in 0..self.parameters.depth {
            let count = &mut counts[(lowest >> up) as usize - 2];
            *count = MOST_POPULAR.min(*count + 1);
        }
    }

    /// Makes room for one more popular region: with as many as there may be, all decay ahead of time.
    #[cold]
    fn make_room(&mut self, place: RegionSpot) {
        // Held, so that no sweep takes the record.
        self.cache(place);
        while self.expiries.above_nothing() >= self.parameters.most {
            self.decay();
        }
        if self.made * SWEEP_SHARE >= self.heads.len() {
            self.sweep();
        }
        self.uncache(place);
    }

    fn make(&mut self, hash: u32, region: u64) -> Id {
        let is_full = self.free.is_empty() && self.heads.len() == self.heads.capacity();
        if is_full && self.made * SWEEP_SHARE >= self.heads.len() {
            self.sweep();
        }
        self.made += 1;
        let head = Head { region, count: 0, epoch: self.epoch as u32, cached: 0 };
        let id = match self.free.pop() {
            Some(id) => {
                self.heads[id as usize] = head;
                id
            }
            None => {
                if is_full {
                    // Less than others grow by: a record of a region of one block is large beside that block.
                    let step = self.heads.len() / GROWTH_PARTS + LEAST_GROWTH;
                    self.heads.reserve_exact(step);
                    self.counts.reserve_exact(step * self.nodes);
                }
                self.heads.push(head);
                self.counts.resize(self.heads.len() * self.nodes, 0);
                (self.heads.len() - 1) as Id
            }
        };
        self.index.insert(hash, id, hash_of(&self.heads));
        id
    }

    /// Gives those records back that nothing needs.
    fn sweep(&mut self) {
        self.made = 0;
        for id in 0..self.heads.len() as Id {
            if self.heads[id as usize].cached == 0 && self.popularity(id) == 0 {
                // Whoever gets the record finds all counters at nothing.
                self.settle(id);
                let head = &mut self.heads[id as usize];
                head.cached = UNUSED;
                let hash = BlockIndex::hash(head.region);
                self.index.remove(hash, id, hash_of(&self.heads));
                self.free.push(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIMULATOR: Parameters =
        Parameters { region_blocks: 4, depth: 2, alpha: 0.5, interval: 1000, factor: 1.4, most: 1000 };

    /// What records keep of the epoch comes round, and nothing is taken for younger than it is.
    #[test]
    fn the_epochs_low_bits_come_round() {
        let mut regions = Regions::new(Parameters { interval: u64::MAX, ..SIMULATOR });
        regions.epoch = 1 << 31;
        let place = regions.count(0);
        regions.cache(place);
        for next in [1u64 << 32, (1 << 32) + (1 << 31)] {
            regions.epoch = next - 1;
            regions.decay();
        }
        assert_eq!(regions.popularity(place.region), 0);
    }

    /// Regions that were popular once give their records back: memory follows what is popular now.
    #[test]
    fn records_are_given_back() {
        let mut regions = Regions::new(Parameters { interval: 10_000, ..SIMULATOR });
        for block in 0..2_000_000u64 {
            regions.count(block * 4);
        }
        assert!(regions.heads.len() < 40_000, "{}", regions.heads.len());
        let mut bounded = Regions::new(Parameters { interval: u64::MAX, ..SIMULATOR });
        for block in 0..20_000u64 {
            bounded.count(block * 4);
            bounded.count(0);
        }
        // Records of regions without popularity are up to a quarter of all.
        assert!(
            bounded.expiries.above_nothing() <= 1000 && bounded.heads.len() <= 1250,
            "{}",
            bounded.heads.len()
        );
        let place = bounded.place(0);
        assert!(bounded.popularity(place.region) > 0);
    }
}
