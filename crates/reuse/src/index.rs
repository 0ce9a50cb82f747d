//! Hash index from block numbers to `u32` ids, where the caller keeps the block numbers in its own records.
//!
//! A bucket is one cache line: eight 32-bit tags (the hashes), then their eight ids, those in use first. An entry stands in
//! its hash's home bucket, or in the nearest one after it that had room; so a search ends at the first bucket with an
//! unused place. Deletion keeps that true by moving an entry back, and growth needs no more than the tags: neither
//! consults a key. (Buckets that overflow into the next one: Peterson, "Addressing for random-access storage", IBM J.
//! Res. Dev. 1(2), 1957.) It must not know what the records are.

use crate::lanes::{LANES, first, matches};
use crate::prefetch::prefetch_within;
use std::hint::select_unpredictable;

/// Odd, without a pattern in their bits: parts of the fractions of pi and of the golden ratio.
const WHITEN: u64 = 0x243f_6a88_85a3_08d3;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Entries of one bucket.
const PLACES: usize = LANES;

/// Most entries for each bucket, as a fraction. At the most, one bucket in ten is full and one entry in fifty is not
/// in its home.
const MAX_PER_BUCKET: (usize, usize) = (9, 2);

/// Growth at each enlargement, as a fraction.
const GROWTH: (usize, usize) = (11, 8);

/// Buckets of the smallest table that holds anything.
const MIN_BUCKETS: usize = 4;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    tags: [u32; PLACES],
    ids: [u32; PLACES],
}

impl Bucket {
    const EMPTY: Bucket = Bucket { tags: [0; PLACES], ids: [BlockIndex::NO_ID; PLACES] };

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.ids[PLACES - 1] != BlockIndex::NO_ID
    }

    #[inline(always)]
    fn len(&self) -> usize {
        if self.is_full() { PLACES } else { first(matches(self.ids, BlockIndex::NO_ID)) }
    }

    /// Takes out the entry at `place`; the last one takes its place.
    #[inline(always)]
    fn take(&mut self, place: usize) -> (u32, u32) {
        let last = self.len() - 1;
        let taken = (self.tags[place], self.ids[place]);
        (self.tags[place], self.ids[place]) = (self.tags[last], self.ids[last]);
        self.ids[last] = BlockIndex::NO_ID;
        taken
    }

    fn put(&mut self, place: usize, (tag, id): (u32, u32)) {
        (self.tags[place], self.ids[place]) = (tag, id);
    }
}

/// Index of ids by block number, of 14 to 20 bytes an entry.
///
/// The hash is not seeded: whoever chooses the block numbers can make look-ups slow, never wrong.
#[derive(Clone, Debug, Default)]
pub struct BlockIndex {
    buckets: Vec<Bucket>,
    len: usize,
    /// Entries that the table takes before it grows.
    most: usize,
}

impl BlockIndex {
    /// The one id that no entry has; it marks unused places.
    pub const NO_ID: u32 = u32::MAX;

    /// An empty index that has allocated nothing.
    pub fn new() -> BlockIndex {
        BlockIndex::default()
    }

    /// The hash that every other call takes: both halves of a product of 128 bits, so that all 64 bits count.
    ///
    /// A sample chosen by a threshold on this very hash would crowd into one end of the table: sample by
    /// another hash.
    #[inline]
    pub fn hash(block: u64) -> u32 {
        let product = u128::from(block ^ WHITEN) * u128::from(MULTIPLIER);
        ((product >> 96) as u32) ^ ((product >> 32) as u32)
    }

    /// The id inserted with `hash` for which `is_it` says yes; `is_it` compares the caller's key.
    #[inline]
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        while let Some(bucket) = self.buckets.get(at) {
            let mut mask = matches(bucket.tags, hash);
            while mask != 0 {
                let place = first(mask);
                let id = bucket.ids[place];
                if id != Self::NO_ID && is_it(id) {
                    return Some(id);
                }
                mask &= !(0b11 << (2 * place));
            }
            if !bucket.is_full() {
                break;
            }
            at = self.after(at);
        }
        None
    }

    /// An id inserted with `hash`, whatever its key, or [`BlockIndex::NO_ID`] when there is none: good enough to prefetch
    /// the caller's record, and mostly found without a branch to mispredict.
    #[inline]
    pub fn candidate(&self, hash: u32) -> u32 {
        let mut at = self.home(hash);
        while let Some(bucket) = self.buckets.get(at) {
            let mask = matches(bucket.tags, hash);
            // An unused place has some tag too, but those in use come first. All bits, when no tag matches.
            let absent = select_unpredictable(mask == 0, Self::NO_ID, 0);
            // A search goes on where no tag matches although the bucket is full, which its last id says: one comparison
            // of numbers, because of two conditions one would be a coin toss.
            if absent <= bucket.ids[PLACES - 1] {
                return absent | bucket.ids[first(mask)];
            }
            at = self.after(at);
        }
        Self::NO_ID
    }

    /// Asks the processor to load the bucket where a search for `hash` starts.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        prefetch_within(&self.buckets, self.home(hash));
    }

    /// Adds an entry. The caller makes sure that its key is not there yet.
    ///
    /// # Panics
    /// When `id` is [`BlockIndex::NO_ID`], which marks unused places.
    #[inline]
    pub fn insert(&mut self, hash: u32, id: u32) {
        assert!(id != Self::NO_ID, "Id {id} is reserved");
        if self.len >= self.most {
            self.grow();
        }
        self.len += 1;
        self.place(hash, id);
    }

    /// Takes out the entry (`hash`, `id`); says whether there was one.
    #[inline]
    pub fn remove(&mut self, hash: u32, id: u32) -> bool {
        let mut at = self.home(hash);
        while let Some(bucket) = self.buckets.get_mut(at) {
            let is_full = bucket.is_full();
            let mask = matches(bucket.tags, hash) & matches(bucket.ids, id);
            if mask != 0 && id != Self::NO_ID {
                bucket.take(first(mask));
                self.len -= 1;
                if is_full {
                    self.close_gap(at);
                }
                return true;
            }
            if !is_full {
                break;
            }
            at = self.after(at);
        }
        false
    }

    /// Gives the entry (`hash`, `from`) the id `to`; says whether there was one.
    ///
    /// # Panics
    /// When `to` is [`BlockIndex::NO_ID`], which marks unused places.
    #[inline]
    pub fn replace(&mut self, hash: u32, from: u32, to: u32) -> bool {
        assert!(to != Self::NO_ID, "Id {to} is reserved");
        let mut at = self.home(hash);
        while let Some(bucket) = self.buckets.get_mut(at) {
            let mask = matches(bucket.tags, hash) & matches(bucket.ids, from);
            if mask != 0 && from != Self::NO_ID {
                bucket.ids[first(mask)] = to;
                return true;
            }
            if !bucket.is_full() {
                break;
            }
            at = self.after(at);
        }
        false
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    /// The bucket where a search for `hash` starts. It grows with the hash, so that the number of buckets need not be a
    /// power of two, and growth moves entries forward only.
    #[inline(always)]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.buckets.len() { 0 } else { at + 1 }
    }

    /// How many buckets after `from` the bucket `to` is, around the end of the table.
    fn steps(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.buckets.len() - from }
    }

    /// Puts an entry where a search for it comes by; the table has room.
    #[inline]
    fn place(&mut self, hash: u32, id: u32) {
        let mut at = self.home(hash);
        while self.buckets[at].is_full() {
            at = self.after(at);
        }
        let bucket = &mut self.buckets[at];
        bucket.put(bucket.len(), (hash, id));
    }

    /// Bucket `hole` was full and lost an entry: moves one back whose search would otherwise end there.
    #[cold]
    fn close_gap(&mut self, mut hole: usize) {
        let mut at = hole;
        loop {
            at = self.after(at);
            let bucket = self.buckets[at];
            let passes_hole =
                |place: &usize| self.steps(self.home(bucket.tags[*place]), at) >= self.steps(hole, at);
            if at == hole {
                return;
            }
            if let Some(place) = (0..bucket.len()).find(passes_hole) {
                let moved = self.buckets[at].take(place);
                self.buckets[hole].put(PLACES - 1, moved);
                hole = at;
            }
            if !bucket.is_full() {
                return;
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let buckets = (self.buckets.len() * GROWTH.0).div_ceil(GROWTH.1).max(MIN_BUCKETS);
        let old = self.buckets.len();
        self.provide(buckets);
        // Homes move forward only. From the end, what leaves a bucket goes home, where it stays, or is seen once more if
        // that bucket's turn is yet to come; what finds its home full waits, for only in the end is it known whether a
        // full bucket stays so.
        let mut waiting = Vec::new();
        for at in (0..old).rev() {
            let bucket = std::mem::replace(&mut self.buckets[at], Bucket::EMPTY);
            for entry in bucket.tags.into_iter().zip(bucket.ids).take(bucket.len()) {
                let home = self.home(entry.0);
                let bucket = &mut self.buckets[home];
                if bucket.is_full() { waiting.push(entry) } else { bucket.put(bucket.len(), entry) }
            }
        }
        waiting.into_iter().for_each(|(tag, id)| self.place(tag, id));
    }

    /// Makes the table `buckets` long.
    fn provide(&mut self, buckets: usize) {
        assert!((buckets as u64) < u64::from(u32::MAX), "A table of {buckets} buckets exceeds its hash");
        self.buckets.reserve_exact(buckets - self.buckets.len());
        self.buckets.resize(buckets, Bucket::EMPTY);
        self.most = buckets * MAX_PER_BUCKET.0 / MAX_PER_BUCKET.1;
    }
}
