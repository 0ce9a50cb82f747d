//! Order statistics over time: how many blocks were accessed after a given moment.
//!
//! Time is a row of bits. Each access takes the next position; the bit of a position is set while that access
//! is the latest of its block. The number of distinct blocks since a position is then the number of set bits
//! after it (Bennett and Kruskal, "LRU stack processing", IBM J. Res. Dev. 19(4), 1975). Bits are kept in chunks of
//! one cache line, and a tree of partial sums is kept over the chunks that are full.
//! The tree does a Fenwick tree's work in wide nodes: the same few steps for every position, without a branch to
//! mispredict, which was measured to be faster.
//!
//! It must not know who owns a position: callers keep positions in their own records and map them when the
//! timeline is compacted.

use crate::bits::{CHUNK, Chunk};
use crate::partial_sums::PartialSums;
use lode_types::prefetch::prefetch_slice;

/// The position of a block that was never accessed, or whose history is forgotten.
pub const NEVER: u32 = 0x7fff_ffff;

/// Largest number of set positions a timeline can hold and still make room for more by compaction.
pub const MAX_LIVE: u32 = 1 << 30;

/// Most chunks that fit below [`NEVER`].
const MAX_CHUNKS: usize = NEVER as usize / CHUNK;

/// Chunks of the smallest timeline.
const MIN_CHUNKS: usize = 16;

/// Positions provided per set position when room is made.
const POSITIONS_PER_SET: usize = 6;

/// A timeline grows at a compaction that finds more than one set position in this many.
const GROW_BELOW: usize = 4;

/// Distinct-access counts over time; see the module's description.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    chunks: Vec<Chunk>,
    /// Set bits of the chunks before the one that holds `next`.
    sums: PartialSums,
    /// The position that the next access takes.
    next: u32,
    /// Positions before it were forgotten by a reset.
    first_valid: u32,
    /// Set bits, also those before `first_valid`.
    set: u32,
    live: u32,
    /// Of all sums together.
    in_sums: u32,
}

/// Old positions to new ones, during [`Timeline::compact`].
#[derive(Debug)]
pub struct Remap<'a> {
    timeline: &'a Timeline,
    /// New position of what comes first in each chunk: it is asked for many times. Modulo 2^32, because what a reset
    /// forgot has none.
    starts: Vec<u32>,
}

impl Remap<'_> {
    /// Asks the processor to load what [`new_position`](Remap::new_position) of `old` starts with.
    #[inline]
    pub fn prefetch(&self, old: u32) {
        self.timeline.prefetch(old);
    }

    /// The new position of `old`, or [`NEVER`] when it is not live.
    #[inline]
    pub fn new_position(&self, old: u32) -> u32 {
        let timeline = self.timeline;
        if !timeline.is_live(old) {
            return NEVER;
        }
        let (at, bit) = (old as usize / CHUNK, old as usize % CHUNK);
        let chunk = &timeline.chunks[at];
        if !chunk.get(bit) {
            return NEVER;
        }
        self.starts[at].wrapping_add(chunk.count_before(bit))
    }
}

impl Timeline {
    /// An empty timeline that has allocated nothing.
    pub fn new() -> Timeline {
        Timeline::default()
    }

    /// An empty timeline with room for `live` set positions before it has to grow.
    pub fn with_capacity(live: usize) -> Timeline {
        let mut timeline = Timeline::new();
        timeline.provide(chunks_for(live));
        timeline
    }

    /// Whether `position` is one that [`touch`](Timeline::touch) gave and no reset has forgotten.
    #[inline(always)]
    pub fn is_live(&self, position: u32) -> bool {
        // One comparison: no position is above NEVER.
        position.wrapping_sub(self.first_valid) < NEVER - self.first_valid
    }

    /// The number of set positions strictly after `previous`, which must be live.
    #[inline]
    pub fn distance(&self, previous: u32) -> u32 {
        debug_assert!(self.is_live(previous) && self.is_set(previous));
        self.set - self.rank(previous) - 1
    }

    /// The set position from which the [`distance`](Timeline::distance) is `distance`, if so many are set: the inverse,
    /// with which a stream of given distances can be made.
    pub fn at_distance(&self, distance: u32) -> Option<u32> {
        if distance >= self.live {
            return None;
        }
        let rank = self.set - 1 - distance;
        let newest = self.next as usize / CHUNK;
        let (at, before) =
            if rank < self.in_sums { self.sums.find(rank) } else { (newest, rank - self.in_sums) };
        Some((at * CHUNK + self.chunks[at].select(before)) as u32)
    }

    /// Records an access: clears `previous` if it is live, then sets and returns the next position.
    ///
    /// # Panics
    /// When the timeline [is full](Timeline::is_full).
    #[inline(always)]
    pub fn touch(&mut self, previous: u32) -> u32 {
        assert!(!self.is_full(), "The timeline is full: compact it first");
        self.remove(previous);
        self.live += 1;
        self.set += 1;
        self.append()
    }

    /// Records an access to a block whose `previous` position, which must be live, it clears; returns the
    /// [`distance`](Timeline::distance) from there, and the next position, which it sets. Both at once are faster.
    ///
    /// # Panics
    /// When the timeline [is full](Timeline::is_full).
    #[inline(always)]
    pub fn revisit(&mut self, previous: u32) -> (u32, u32) {
        assert!(!self.is_full(), "The timeline is full: compact it first");
        debug_assert!(self.is_live(previous) && self.is_set(previous));
        let (at, bit) = (previous as usize / CHUNK, previous as usize % CHUNK);
        let chunk = &mut self.chunks[at];
        let in_chunk = chunk.count_before(bit);
        chunk.clear(bit);
        // The newest chunk is not in the sums yet.
        let before = if at == self.next as usize / CHUNK {
            self.in_sums
        } else {
            self.in_sums -= 1;
            self.sums.add(at, 1u32.wrapping_neg())
        };
        (self.set - before.wrapping_add(in_chunk) - 1, self.append())
    }

    /// Sets the next position, which exists.
    #[inline(always)]
    fn append(&mut self) -> u32 {
        let position = self.next;
        self.chunks[position as usize / CHUNK].set(position as usize % CHUNK);
        self.pass()
    }

    /// Leaves the next position as it is; its chunk goes into the sums when all of it has passed.
    #[inline(always)]
    fn pass(&mut self) -> u32 {
        let position = self.next;
        let (at, bit) = (position as usize / CHUNK, position as usize % CHUNK);
        self.next += 1;
        if bit == CHUNK - 1 {
            let count = self.chunks[at].count();
            self.sums.add(at, count);
            self.in_sums += count;
        }
        position
    }

    /// Clears `previous` if it is live.
    #[inline(always)]
    pub fn remove(&mut self, previous: u32) {
        if !self.is_live(previous) {
            return;
        }
        let (at, bit) = (previous as usize / CHUNK, previous as usize % CHUNK);
        debug_assert!(self.chunks[at].get(bit), "Position {previous} is not set");
        self.chunks[at].clear(bit);
        self.set -= 1;
        self.live -= 1;
        if at < self.next as usize / CHUNK {
            self.sums.add(at, 1u32.wrapping_neg());
            self.in_sums -= 1;
        }
    }

    /// Takes the next position without setting it, for an access that does not count yet.
    ///
    /// # Panics
    /// When the timeline [is full](Timeline::is_full).
    #[inline(always)]
    pub(crate) fn skip(&mut self) -> u32 {
        assert!(!self.is_full(), "The timeline is full: compact it first");
        self.pass()
    }

    /// Sets a `position` that [`skip`](Timeline::skip) gave.
    #[inline(always)]
    pub(crate) fn insert(&mut self, position: u32) {
        debug_assert!(self.is_live(position) && !self.is_set(position));
        let (at, bit) = (position as usize / CHUNK, position as usize % CHUNK);
        self.chunks[at].set(bit);
        self.set += 1;
        self.live += 1;
        if at < self.next as usize / CHUNK {
            self.sums.add(at, 1);
            self.in_sums += 1;
        }
    }

    /// The number of set positions strictly after one that is not set.
    #[inline]
    pub(crate) fn set_after(&self, unset: u32) -> u32 {
        debug_assert!(self.is_live(unset) && !self.is_set(unset));
        self.set - self.rank(unset)
    }

    /// Asks the processor to load what [`distance`](Timeline::distance) from `previous` starts with.
    #[inline(always)]
    pub fn prefetch(&self, previous: u32) {
        prefetch_slice(&self.chunks, previous as usize / CHUNK);
    }

    /// Whether the next [`touch`](Timeline::touch) has no room: compact first.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.next as usize >= self.chunks.len() * CHUNK
    }

    /// Closes all gaps and makes room, growing when many positions are set. `remap_all` must replace every
    /// position that the caller holds by [`Remap::new_position`] of it.
    ///
    /// There is room afterwards as long as at most [`MAX_LIVE`] positions are set.
    pub fn compact(&mut self, remap_all: impl FnOnce(&Remap<'_>)) {
        let mut start = self.live.wrapping_sub(self.set);
        let pass = |chunk: &Chunk| {
            let next = start.wrapping_add(chunk.count());
            std::mem::replace(&mut start, next)
        };
        let starts = self.chunks.iter().map(pass).collect();
        remap_all(&Remap { timeline: self, starts });
        let live = self.live as usize;
        if live * GROW_BELOW > self.chunks.len() * CHUNK || self.chunks.is_empty() {
            self.provide(chunks_for(live));
        }
        self.first_valid = 0;
        self.next = self.live;
        self.set = self.live;
        self.sums.clear();
        self.in_sums = 0;
        for (at, chunk) in self.chunks.iter_mut().enumerate() {
            let filled = live.saturating_sub(at * CHUNK).min(CHUNK);
            *chunk = Chunk::with_first_set(filled);
            if filled == CHUNK {
                self.sums.add(at, CHUNK as u32);
                self.in_sums += CHUNK as u32;
            }
        }
    }

    /// Forgets everything: positions given so far are no longer live and no longer counted.
    pub fn reset(&mut self) {
        self.first_valid = self.next;
        self.live = 0;
    }

    /// Number of set positions.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>() + self.sums.memory_bytes()
    }

    /// Set bits strictly before `position`.
    #[inline(always)]
    fn rank(&self, position: u32) -> u32 {
        let at = position as usize / CHUNK;
        self.sums.before(at).wrapping_add(self.chunks[at].count_before(position as usize % CHUNK))
    }

    #[inline(always)]
    fn is_set(&self, position: u32) -> bool {
        self.chunks[position as usize / CHUNK].get(position as usize % CHUNK)
    }

    fn provide(&mut self, chunks: usize) {
        if chunks > self.chunks.len() {
            self.chunks.reserve_exact(chunks - self.chunks.len());
            self.chunks.resize(chunks, Chunk::default());
            self.sums = PartialSums::new(chunks);
        }
    }
}

/// Chunks that hold `live` set positions with room to spare.
fn chunks_for(live: usize) -> usize {
    live.saturating_mul(POSITIONS_PER_SET).div_ceil(CHUNK).clamp(MIN_CHUNKS, MAX_CHUNKS)
}
