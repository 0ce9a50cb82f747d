//! Open-addressing hash table whose buckets are kept in the order of their hashes.
//!
//! The home bucket grows with the hash (fast-range reduction, so the table size need not be a power of two), and
//! the entries of one cluster are kept in hash order. The whole table is therefore one sorted list with gaps: a
//! failed look-up stops at the first larger hash, and growth is one sequential pass inside the same allocation, which
//! needs no more than the hash that the bucket itself holds. (Linear
//! probing in sorted order: Amble and Knuth, "Ordered hash tables", The Computer Journal 17(2), 1974.)
//!
//! It must not know what the buckets hold besides their hash.

use lode_types::prefetch::prefetch_slice;

/// Buckets of the smallest table that holds anything.
const MIN_HOMES: usize = 16;

/// Buckets allocated beyond those in use, for the overflow of the last cluster.
const SPARE_BUCKETS: usize = 64;

/// Growth at each enlargement, as a fraction.
const GROWTH: (usize, usize) = (11, 8);

/// A table that lost entries is made anew when fewer than one in this many of its places are used.
const SHRINK_BELOW: usize = 4;

/// A bucket of an [`OrderedTable`].
pub(crate) trait Bucket: Copy {
    /// Largest share of used buckets, as a fraction. What an insertion moves grows with the square of
    /// `1 / (1 - share)`.
    const MAX_LOAD: (u64, u64);

    /// Buckets that most searches stay within; all of them are compared without branching.
    const PROBES: usize;

    /// An unused bucket; its hash is the largest one, so that a walk in hash order ends at it.
    const EMPTY: Self;

    /// Whether the bucket is unused.
    fn is_empty(&self) -> bool;

    /// The hash of the entry, 64 bits; only the upper half decides its home.
    fn hash(&self) -> u64;
}

/// Mixes all bits of a block number; no two block numbers give the same result (finaliser of SplitMix64: Steele,
/// Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[inline(always)]
pub(crate) fn mix(block: u64) -> u64 {
    let mut x = block.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The block number that [`mix`] turned into `mixed`.
pub(crate) fn unmix(mixed: u64) -> u64 {
    const BACK_FIRST: u64 = inverse(0xbf58_476d_1ce4_e5b9);
    const BACK_SECOND: u64 = inverse(0x94d0_49bb_1331_11eb);
    let x = (mixed ^ (mixed >> 31) ^ (mixed >> 62)).wrapping_mul(BACK_SECOND);
    let x = (x ^ (x >> 27) ^ (x >> 54)).wrapping_mul(BACK_FIRST);
    (x ^ (x >> 30) ^ (x >> 60)).wrapping_sub(0x9e37_79b9_7f4a_7c15)
}

/// What an odd number is multiplied by to give 1 (mod 2^64); each step of Newton's doubles the bits that are right.
const fn inverse(odd: u64) -> u64 {
    let mut found = odd;
    let mut right_bits = 3;
    while right_bits < u64::BITS {
        found = found.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(found)));
        right_bits *= 2;
    }
    found
}

/// Hash table in hash order; see the module's description.
#[derive(Clone, Debug)]
pub(crate) struct OrderedTable<B> {
    /// `homes` addressable buckets, then the overflow of the last cluster, then at least one empty bucket.
    buckets: Vec<B>,
    homes: usize,
    len: usize,
    /// Entries that the table takes before it grows.
    most: usize,
}

impl<B> Default for OrderedTable<B> {
    fn default() -> OrderedTable<B> {
        OrderedTable { buckets: Vec::new(), homes: 0, len: 0, most: 0 }
    }
}

#[inline(always)]
fn home_of(hash: u64, homes: usize) -> usize {
    (((hash >> 32) * homes as u64) >> 32) as usize
}

impl<B: Bucket> OrderedTable<B> {
    pub(crate) fn with_capacity(entries: usize) -> OrderedTable<B> {
        let mut table = OrderedTable::default();
        if entries > 0 {
            let homes = (entries as u64).saturating_mul(B::MAX_LOAD.1).div_ceil(B::MAX_LOAD.0);
            table.resize((homes as usize).max(MIN_HOMES));
        }
        table
    }

    /// The buckets from the first one of at least `hash` on, and its place.
    #[inline(always)]
    pub(crate) fn run(&self, hash: u64) -> (usize, &[B]) {
        let home = home_of(hash, self.homes);
        let run = self.buckets.get(home..).unwrap_or(&[]);
        let mut ahead = 0;
        if let Some(first) = run.get(..B::PROBES) {
            // How far to go is a coin toss, and a wrong guess costs more than these few comparisons.
            ahead = first.iter().map(|bucket| usize::from(bucket.hash() < hash)).sum();
            if ahead < B::PROBES {
                return (home + ahead, &run[ahead..]);
            }
        }
        ahead += run[ahead..].iter().take_while(|bucket| bucket.hash() < hash).count();
        (home + ahead, &run[ahead..])
    }

    /// Asks the processor to load the bucket where a search for `hash` starts, and where it is likely to end.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        let home = home_of(hash, self.homes);
        prefetch_slice(&self.buckets, home);
        prefetch_slice(&self.buckets, home + B::PROBES - 1);
    }

    /// The bucket at a place, if the place exists.
    #[inline(always)]
    pub(crate) fn get(&self, at: usize) -> Option<&B> {
        self.buckets.get(at)
    }

    /// The bucket at a place that a look-up gave.
    #[inline(always)]
    pub(crate) fn at_mut(&mut self, at: usize) -> &mut B {
        &mut self.buckets[at]
    }

    /// Adds an entry before those of equal hash; returns its place.
    #[inline]
    pub(crate) fn insert(&mut self, bucket: B) -> usize {
        if self.len >= self.most {
            let grown = (self.homes * GROWTH.0).div_ceil(GROWTH.1);
            self.resize(grown.max(MIN_HOMES));
        }
        let (at, _) = self.run(bucket.hash());
        let mut carried = bucket;
        let mut end = at;
        while !carried.is_empty() {
            std::mem::swap(&mut self.buckets[end], &mut carried);
            end += 1;
        }
        if end == self.buckets.len() {
            self.lengthen(1);
        }
        self.len += 1;
        at
    }

    /// Takes out every entry and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.buckets.fill(B::EMPTY);
        self.len = 0;
    }

    /// Takes out the entries that `keep` refuses. Gives memory back when it leaves less than a quarter of what the
    /// table has room for.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&B) -> bool) {
        let mut free = 0;
        let mut kept = 0;
        for from in 0..self.buckets.len() {
            let bucket = std::mem::replace(&mut self.buckets[from], B::EMPTY);
            if !bucket.is_empty() && keep(&bucket) {
                // Nearer to its home than it was, or in its old place: never beyond it.
                let to = free.max(home_of(bucket.hash(), self.homes));
                self.buckets[to] = bucket;
                free = to + 1;
                kept += 1;
            }
        }
        self.len = kept;
        if kept < self.most / SHRINK_BELOW {
            let mut smaller = OrderedTable::with_capacity(kept);
            self.buckets.iter().filter(|bucket| !bucket.is_empty()).for_each(|&bucket| {
                smaller.insert(bucket);
            });
            *self = smaller;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Every entry; its hash must not be changed.
    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = &mut B> {
        self.buckets.iter_mut().filter(|bucket| !bucket.is_empty())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<B>()
    }

    /// Adds empty buckets at the end, with a little spare memory instead of `Vec`'s doubling.
    #[cold]
    fn lengthen(&mut self, more: usize) {
        if self.buckets.len() + more > self.buckets.capacity() {
            self.buckets.reserve_exact(more + SPARE_BUCKETS);
        }
        self.buckets.resize(self.buckets.len() + more, B::EMPTY);
    }

    /// Spreads the entries over `homes` home buckets, at least as many as before, without a second table:
    /// first all entries move to the very end, then each goes to its place, which is never behind it.
    #[cold]
    fn resize(&mut self, homes: usize) {
        assert!((homes as u64) < u64::from(u32::MAX), "A table of {homes} buckets exceeds its hash");
        let mut end = 0;
        for bucket in self.buckets.iter().filter(|bucket| !bucket.is_empty()) {
            end = end.max(home_of(bucket.hash(), homes)) + 1;
        }
        let old = self.buckets.len();
        let buckets = homes.max(end).max(old.saturating_sub(1)) + 1;
        self.lengthen(buckets - old);
        let mut first = buckets;
        for from in (0..old).rev() {
            let bucket = std::mem::replace(&mut self.buckets[from], B::EMPTY);
            if !bucket.is_empty() {
                first -= 1;
                self.buckets[first] = bucket;
            }
        }
        let mut free = 0;
        for from in first..buckets {
            let bucket = std::mem::replace(&mut self.buckets[from], B::EMPTY);
            let to = free.max(home_of(bucket.hash(), homes));
            self.buckets[to] = bucket;
            free = to + 1;
        }
        self.homes = homes;
        self.most = (homes as u64 * B::MAX_LOAD.0 / B::MAX_LOAD.1) as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::{mix, unmix};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_mixed_is_found_again(block in any::<u64>()) {
            prop_assert_eq!(unmix(mix(block)), block);
            prop_assert_eq!(mix(unmix(block)), block);
        }
    }
}
