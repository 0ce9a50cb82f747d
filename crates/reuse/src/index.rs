//! Hash index from block numbers to `u32` ids, where the caller keeps the block numbers in its own records.
//!
//! A bucket is one cache line: up to fifteen entries, those in use first, and a header. An entry is one word: the id in the
//! low bits, as many as the largest id needs, and above it a tag, which is what then fits of the hash. So a hundred
//! thousand ids have tags of 15 bits, a hundred million of 5, and a search that meets a tag by chance asks the caller once
//! more. An entry stands in its hash's home bucket, or in the nearest one after it that had room. The header says how far
//! each entry is from home, and whether any entry came by that found no room: where none did, a search ends. Deletion keeps
//! that true by moving an entry back, which mostly takes no more than the header; where it does not say enough, and to
//! enlarge the table, the caller is asked for hashes. (Buckets that overflow into the next one: Peterson, "Addressing for
//! random-access storage", IBM J. Res. Dev. 1(2), 1957.) It must not know what the records are.

use crate::lanes::{LANES, matches};
use lode_types::prefetch::prefetch_within;
use std::hint::select_unpredictable;

/// Odd, without a pattern in their bits: parts of the fractions of pi and of the golden ratio.
const WHITEN: u64 = 0x243f_6a88_85a3_08d3;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Entries of one bucket.
const PLACES: usize = LANES - 1;

/// A bit for each place.
const ALL_PLACES: u32 = (1 << PLACES) - 1;

/// Most entries for each bucket on average. A tenth of the buckets is then full and was passed by others; with one entry more it
/// would be a fifth, and deletion twice as often have one to bring back.
const MAX_PER_BUCKET: usize = 11;

/// Growth at each enlargement, as a fraction.
const GROWTH: (usize, usize) = (11, 8);

/// Buckets of the smallest table that holds anything.
const MIN_BUCKETS: usize = 2;

/// An unused place: no id has all its bits set.
const EMPTY: u32 = u32::MAX;

/// In the header: an entry came by and found no room.
const PASSED: u32 = 1 << 30;

/// The header has two bits for each place: how many buckets from home the entry is, this many standing for more, too.
const FAR: u32 = 3;

/// The low bits of all places' distances.
const LOW_BITS: u32 = 0x1555_5555;

/// Up to fifteen entries and, last, the header.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    words: [u32; LANES],
}

impl Bucket {
    const UNUSED: Bucket = {
        let mut words = [EMPTY; LANES];
        words[PLACES] = 0;
        Bucket { words }
    };

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.words[PLACES - 1] != EMPTY
    }

    #[inline(always)]
    fn len(&self) -> usize {
        // The header is never as an unused place.
        (matches(&self.words, u32::MAX, EMPTY) | 1 << PLACES).trailing_zeros() as usize
    }

    /// Only full buckets were, so that a search ends.
    #[inline(always)]
    fn was_passed(&self) -> bool {
        self.words[PLACES] & PASSED != 0
    }

    fn set_passed(&mut self, passed: bool) {
        let header = &mut self.words[PLACES];
        *header = (*header & !PASSED) | (u32::from(passed) * PASSED);
    }

    #[inline(always)]
    fn distance(&self, place: usize) -> u32 {
        self.words[PLACES] >> (2 * place) & FAR
    }

    /// A bit for each entry that is `steps` buckets from home, or more, or may be.
    #[inline(always)]
    fn may_be_from_before(&self, steps: u32) -> u32 {
        let header = self.words[PLACES] & !PASSED;
        let (low, high) = (header & LOW_BITS, header >> 1 & LOW_BITS);
        match steps {
            1 => low | high,
            2 => high,
            _ => low & high,
        }
    }

    /// Takes out the entry at `place`; the last one takes its place.
    #[inline(always)]
    fn take(&mut self, place: usize) -> u32 {
        let last = self.len() - 1;
        let taken = self.words[place];
        self.words[place] = self.words[last];
        self.words[last] = EMPTY;
        // Unused places have the distance 0.
        let (header, distance) = (self.words[PLACES], self.distance(last));
        let cleared = header & !(FAR << (2 * place)) & !(FAR << (2 * last));
        self.words[PLACES] = cleared | if place == last { 0 } else { distance << (2 * place) };
        taken
    }

    /// Puts an entry into an unused place, of which no other one is before.
    #[inline(always)]
    fn put(&mut self, place: usize, word: u32, distance: u32) {
        self.words[place] = word;
        if distance > 0 {
            self.words[PLACES] |= distance.min(FAR) << (2 * place);
        }
    }
}

/// Index of ids by block number, of 6 to 8 bytes an entry.
///
/// The hash is not seeded: whoever chooses the block numbers can make look-ups slow, never wrong.
///
/// Calls that may move entries take `hash_of`, which says for every id that was inserted the hash that it was inserted with. No
/// id may be in the index twice.
#[derive(Clone, Debug)]
pub struct BlockIndex {
    buckets: Vec<Bucket>,
    len: usize,
    /// Entries that the table takes before it grows.
    most: usize,
    /// Entries that there will be, as far as is known.
    expected: usize,
    id_bits: u32,
    /// So many low bits.
    ids: u32,
}

impl Default for BlockIndex {
    fn default() -> BlockIndex {
        let id_bits = BlockIndex::LEAST_ID_BITS;
        BlockIndex { buckets: Vec::new(), len: 0, most: 0, expected: 0, id_bits, ids: low_bits(id_bits) }
    }
}

fn low_bits(count: u32) -> u32 {
    u32::MAX >> (u32::BITS - count)
}

impl BlockIndex {
    /// The one id that no entry has.
    pub const NO_ID: u32 = u32::MAX;

    const LEAST_ID_BITS: u32 = 8;

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

    /// So many entries will there be at most, as far as is known: a table that grows towards them ends with no more room than
    /// they need. It still takes more.
    pub fn expect(&mut self, entries: usize) {
        self.expected = entries;
    }

    /// Makes room for so many entries with ids below as many, where there is none yet: they are all about to come, and a table that
    /// grew on the way would be made again a dozen times.
    pub fn reserve(&mut self, entries: usize) {
        if !self.is_empty() || entries <= self.most {
            return;
        }
        if let Some(id) = u32::try_from(entries).ok().filter(|&id| id != Self::NO_ID) {
            self.admit(id, &|_| unreachable!("there are no entries"));
        }
        self.provide(entries.div_ceil(MAX_PER_BUCKET).max(MIN_BUCKETS));
    }

    /// The id inserted with `hash` for which `is_it` says yes; `is_it` compares the caller's key, also for some ids
    /// that were inserted with other hashes.
    #[inline(always)]
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let (tag, ids) = (self.tag(hash), self.ids());
        let mut at = self.home(hash);
        while let Some(bucket) = self.buckets.get(at) {
            let mut mask = matches(&bucket.words, !ids, tag) & ALL_PLACES;
            while mask != 0 {
                let id = bucket.words[mask.trailing_zeros() as usize] & ids;
                if id != ids && is_it(id) {
                    return Some(id);
                }
                mask &= mask - 1;
            }
            if !bucket.was_passed() {
                break;
            }
            at = self.after(at);
        }
        None
    }

    /// An id that may have been inserted with `hash`, whatever its key, or [`BlockIndex::NO_ID`] when there is none: good
    /// enough to prefetch the caller's record, and mostly found without a branch to mispredict.
    #[inline]
    pub fn candidate(&self, hash: u32) -> u32 {
        let (tag, ids) = (self.tag(hash), self.ids());
        let mut at = self.home(hash);
        while let Some(bucket) = self.buckets.get(at) {
            let mask = matches(&bucket.words, !ids, tag) & ALL_PLACES;
            // An unused place has some tag too, but those in use come first.
            let id = bucket.words[(mask | 1 << PLACES).trailing_zeros() as usize] & ids;
            let is_absent = (mask == 0) | (id == ids);
            // One condition, because of two one would be a coin toss.
            if !(is_absent & bucket.was_passed()) {
                return select_unpredictable(is_absent, Self::NO_ID, id);
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
    /// When `id` is [`BlockIndex::NO_ID`], which is no id.
    #[inline(always)]
    pub fn insert(&mut self, hash: u32, id: u32, hash_of: impl Fn(u32) -> u32) {
        self.admit(id, &hash_of);
        if self.len >= self.most {
            self.grow(&hash_of);
        }
        self.len += 1;
        self.place(hash, id);
    }

    /// Takes out the entry (`hash`, `id`); says whether there was one.
    #[inline(always)]
    pub fn remove(&mut self, hash: u32, id: u32, hash_of: impl Fn(u32) -> u32) -> bool {
        let Some((at, place)) = self.position(hash, id) else { return false };
        let bucket = &mut self.buckets[at];
        bucket.take(place);
        self.len -= 1;
        if bucket.was_passed() {
            self.close_gap(at, &hash_of);
        }
        true
    }

    /// Gives the entry (`hash`, `from`) the id `to`; says whether there was one.
    ///
    /// # Panics
    /// When `to` is [`BlockIndex::NO_ID`], which is no id.
    #[inline]
    pub fn replace(&mut self, hash: u32, from: u32, to: u32, hash_of: impl Fn(u32) -> u32) -> bool {
        self.admit(to, &hash_of);
        let Some((at, place)) = self.position(hash, from) else { return false };
        self.buckets[at].words[place] = self.tag(hash) | to;
        true
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

    /// The bits that ids have, and an unused place all of them.
    #[inline(always)]
    fn ids(&self) -> u32 {
        self.ids
    }

    /// What an entry has of its hash, in place. The home bucket follows from the upper bits, so that these are the lower ones.
    #[inline(always)]
    fn tag(&self, hash: u32) -> u32 {
        (u64::from(hash) << self.id_bits) as u32
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
    fn steps(&self, from: usize, to: usize) -> u32 {
        (if to >= from { to - from } else { to + self.buckets.len() - from }) as u32
    }

    /// The bucket and the place of an entry.
    #[inline(always)]
    fn position(&self, hash: u32, id: u32) -> Option<(usize, usize)> {
        if id >= self.ids() {
            return None;
        }
        let word = self.tag(hash) | id;
        let mut at = self.home(hash);
        while let Some(bucket) = self.buckets.get(at) {
            let mask = matches(&bucket.words, u32::MAX, word) & ALL_PLACES;
            if mask != 0 {
                return Some((at, mask.trailing_zeros() as usize));
            }
            if !bucket.was_passed() {
                break;
            }
            at = self.after(at);
        }
        None
    }

    /// Puts an entry where a search for it comes by; the table has room.
    #[inline(always)]
    fn place(&mut self, hash: u32, id: u32) {
        let word = self.tag(hash) | id;
        let (mut at, mut distance) = (self.home(hash), 0);
        while self.buckets[at].is_full() {
            self.buckets[at].set_passed(true);
            at = self.after(at);
            distance += 1;
        }
        let bucket = &mut self.buckets[at];
        bucket.put(bucket.len(), word, distance);
    }

    /// Bucket `hole` was passed and lost an entry: brings one back that found no room there, if there is one.
    #[cold]
    fn close_gap(&mut self, mut hole: usize, hash_of: &impl Fn(u32) -> u32) {
        while let Some((at, place, distance)) = self.passer_by(hole, hash_of) {
            let steps = self.steps(hole, at);
            let word = self.buckets[at].take(place);
            // One that was passed was full.
            self.buckets[hole].put(PLACES - 1, word, distance - steps);
            hole = at;
            if !self.buckets[hole].was_passed() {
                return;
            }
        }
        self.buckets[hole].set_passed(false);
    }

    /// An entry that passed bucket `hole`: its bucket, its place there, and how far it is from home.
    fn passer_by(&self, hole: usize, hash_of: &impl Fn(u32) -> u32) -> Option<(usize, usize, u32)> {
        let mut at = hole;
        for steps in 1..self.buckets.len() as u32 {
            at = self.after(at);
            let bucket = &self.buckets[at];
            let mut places = bucket.may_be_from_before(steps);
            while places != 0 {
                let place = places.trailing_zeros() as usize / 2;
                let mut distance = bucket.distance(place);
                if distance == FAR {
                    distance = self.steps(self.home(hash_of(bucket.words[place] & self.ids())), at);
                }
                if distance >= steps {
                    return Some((at, place, distance));
                }
                places &= places - 1;
            }
            if !bucket.was_passed() {
                break;
            }
        }
        None
    }

    /// Makes sure that there are bits enough for an id.
    #[inline(always)]
    fn admit(&mut self, id: u32, hash_of: &impl Fn(u32) -> u32) {
        assert!(id != Self::NO_ID, "Id {id} is reserved");
        if id >= self.ids() {
            self.widen(id, hash_of);
        }
    }

    /// Gives ids as many bits as this one needs, at the expense of tags.
    #[cold]
    fn widen(&mut self, id: u32, hash_of: &impl Fn(u32) -> u32) {
        let before = self.ids();
        self.id_bits = (id + 1).ilog2() + 1;
        self.ids = low_bits(self.id_bits);
        for at in 0..self.buckets.len() {
            for place in 0..self.buckets[at].len() {
                let id = self.buckets[at].words[place] & before;
                self.buckets[at].words[place] = self.tag(hash_of(id)) | id;
            }
        }
    }

    #[cold]
    fn grow(&mut self, hash_of: &impl Fn(u32) -> u32) {
        let old = self.buckets.len();
        self.provide(self.larger());
        // Homes move forward only. From the end, what leaves a bucket goes home, where it stays, or is seen once more if
        // that bucket's turn is yet to come; what finds its home full waits, for only in the end is it known whether a
        // full bucket stays so.
        let mut waiting = Vec::new();
        for at in (0..old).rev() {
            let bucket = std::mem::replace(&mut self.buckets[at], Bucket::UNUSED);
            // All at once, so that the caller's records are fetched together.
            let mut hashes = [0; PLACES];
            for (hash, word) in hashes.iter_mut().zip(bucket.words).take(bucket.len()) {
                *hash = hash_of(word & self.ids());
            }
            for (hash, word) in hashes.into_iter().zip(bucket.words).take(bucket.len()) {
                let home = self.home(hash);
                let id = word & self.ids();
                let bucket = &mut self.buckets[home];
                if bucket.is_full() { waiting.push((hash, id)) } else { bucket.put(bucket.len(), word, 0) }
            }
        }
        waiting.into_iter().for_each(|(hash, id)| self.place(hash, id));
    }

    /// How many buckets the table has next.
    fn larger(&self) -> usize {
        let buckets = self.buckets.len();
        let next = (buckets * GROWTH.0).div_ceil(GROWTH.1).max(MIN_BUCKETS);
        let enough = self.expected.div_ceil(MAX_PER_BUCKET).max(MIN_BUCKETS);
        if buckets < enough { next.min(enough) } else { next }
    }

    /// Makes the table `buckets` long.
    fn provide(&mut self, buckets: usize) {
        assert!((buckets as u64) < u64::from(u32::MAX), "A table of {buckets} buckets exceeds its hash");
        self.buckets.reserve_exact(buckets - self.buckets.len());
        self.buckets.resize(buckets, Bucket::UNUSED);
        self.most = buckets * MAX_PER_BUCKET;
    }
}
