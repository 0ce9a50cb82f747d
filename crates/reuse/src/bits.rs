//! Bits in chunks of one cache line, each with its own counts, and a row of them that finds the n-th set bit.
//!
//! It must not know what a bit stands for.

use crate::partial_sums::PartialSums;

/// Words of one chunk: those of a cache line but one, which counts.
const WORDS: usize = 7;

/// Positions in one chunk.
pub(crate) const CHUNK: usize = WORDS * 64;

/// Chunks of the smallest row.
const MIN_CHUNKS: usize = 16;

/// One cache line: the bits, and how many are set in each word (one byte a word).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Chunk {
    words: [u64; WORDS],
    counts: u64,
}

/// Sum of the bytes of `counts`.
#[inline(always)]
fn sum_bytes(counts: u64) -> u32 {
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    let pairs = (counts & EVEN) + (counts >> 8 & EVEN);
    (pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48) as u32
}

impl Chunk {
    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        sum_bytes(self.counts)
    }

    /// Set bits strictly before `bit`.
    #[inline(always)]
    pub(crate) fn count_before(&self, bit: usize) -> u32 {
        let (at, shift) = (bit / 64, bit % 64);
        let earlier_words = self.counts & ((1 << (8 * at)) - 1);
        sum_bytes(earlier_words) + (self.words[at] & ((1 << shift) - 1)).count_ones()
    }

    #[inline(always)]
    pub(crate) fn get(&self, bit: usize) -> bool {
        self.words[bit / 64] >> (bit % 64) & 1 != 0
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, bit: usize) {
        self.words[bit / 64] |= 1 << (bit % 64);
        self.counts += 1 << (8 * (bit / 64));
    }

    /// Clears a bit that is set.
    #[inline(always)]
    pub(crate) fn clear(&mut self, bit: usize) {
        self.words[bit / 64] &= !(1 << (bit % 64));
        self.counts -= 1 << (8 * (bit / 64));
    }

    /// A chunk whose first `filled` bits are set.
    pub(crate) fn with_first_set(filled: usize) -> Chunk {
        let mut chunk = Chunk::default();
        for (at, word) in chunk.words.iter_mut().enumerate() {
            let ones = filled.saturating_sub(64 * at).min(64) as u32;
            *word = u64::MAX.checked_shr(64 - ones).unwrap_or(0);
            chunk.counts |= u64::from(ones) << (8 * at);
        }
        chunk
    }

    /// The bit that has `before` set bits before it and is set itself; there must be one.
    #[inline(always)]
    pub(crate) fn select(&self, before: u32) -> usize {
        let mut at = 0;
        let mut earlier = 0;
        let mut through = 0;
        // Without a branch: the word may be any of the seven.
        for (number, count) in self.counts.to_le_bytes().into_iter().take(WORDS).enumerate() {
            through += u32::from(count);
            let is_before = through <= before;
            at = if is_before { number + 1 } else { at };
            earlier = if is_before { through } else { earlier };
        }
        debug_assert!(at < WORDS, "Fewer than {before} bits are set");
        let at = at.min(WORDS - 1);
        at * 64 + select_in_word(self.words[at], before - earlier)
    }
}

/// The place of the set bit of `word` that has `before` set bits before it.
#[inline(always)]
fn select_in_word(word: u64, before: u32) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // Set bits of each byte, then through each byte (Vigna, "Broadword implementation of rank/select queries", WEA 2008).
    let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
    let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let through = ((fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(ONES);
    // A byte keeps its high bit when no more than `before` bits are set through it.
    let is_before = ((u64::from(before) * ONES) | HIGHS).wrapping_sub(through) & HIGHS;
    let byte = (is_before >> 7).wrapping_mul(ONES) >> 56;
    let earlier = (through << 8) >> (8 * byte) & 0xff;
    let mut rest = word >> (8 * byte);
    for _ in earlier..u64::from(before) {
        rest &= rest - 1;
    }
    8 * byte as usize + rest.trailing_zeros() as usize
}

/// A growing row of bits that finds the n-th set one.
#[derive(Clone, Debug, Default)]
pub(crate) struct BitRow {
    chunks: Vec<Chunk>,
    /// Set bits of each chunk.
    sums: PartialSums,
    len: usize,
}

impl BitRow {
    /// Bits in the row.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a set bit at the end.
    #[inline]
    pub(crate) fn push(&mut self) {
        if self.len == self.chunks.len() * CHUNK {
            self.grow();
        }
        self.len += 1;
        self.set(self.len - 1);
    }

    /// Sets a bit that is not set.
    #[inline(always)]
    pub(crate) fn set(&mut self, at: usize) {
        self.chunks[at / CHUNK].set(at % CHUNK);
        self.sums.add(at / CHUNK, 1);
    }

    /// Clears a bit that is set; says how many are set before it.
    #[inline(always)]
    pub(crate) fn clear(&mut self, at: usize) -> u32 {
        let chunk = &mut self.chunks[at / CHUNK];
        let in_chunk = chunk.count_before(at % CHUNK);
        chunk.clear(at % CHUNK);
        self.sums.add(at / CHUNK, 1u32.wrapping_neg()) + in_chunk
    }

    /// Set bits strictly before bit `at`.
    #[inline(always)]
    pub(crate) fn count_before(&self, at: usize) -> u32 {
        self.sums.before(at / CHUNK) + self.chunks[at / CHUNK].count_before(at % CHUNK)
    }

    /// The set bit that has `before` set bits before it; there must be one.
    #[inline(always)]
    pub(crate) fn select(&self, before: u32) -> usize {
        let (at, in_chunk) = self.sums.find(before);
        at * CHUNK + self.chunks[at].select(in_chunk)
    }

    /// Takes out every bit and keeps the memory.
    pub(crate) fn reset(&mut self) {
        self.chunks.fill(Chunk::default());
        self.sums.clear();
        self.len = 0;
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>() + self.sums.memory_bytes()
    }

    #[cold]
    fn grow(&mut self) {
        let chunks = (self.chunks.len() + self.chunks.len() / 4).max(self.chunks.len() + MIN_CHUNKS);
        self.chunks.reserve_exact(chunks - self.chunks.len());
        self.chunks.resize(chunks, Chunk::default());
        self.sums = PartialSums::new(chunks);
        for (at, chunk) in self.chunks.iter().enumerate() {
            self.sums.add(at, chunk.count());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BitRow;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn finds_what_a_list_finds(len in 1usize..20_000, seed in any::<u64>(), dense in 1u64..40) {
            let mut row = BitRow::default();
            let mut list = vec![true; len];
            let mut state = seed;
            (0..len).for_each(|_| row.push());
            for at in 0..len {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                if !(state >> 33).is_multiple_of(dense) {
                    list[at] = false;
                    let before = row.clear(at) as usize;
                    let is_sampled = at.is_multiple_of(97);
                    prop_assert!(!is_sampled || before == list[..at].iter().filter(|&&bit| bit).count());
                }
                if state >> 60 == 0 && !list[at / 2] {
                    list[at / 2] = true;
                    row.set(at / 2);
                }
            }
            prop_assert_eq!(row.len(), len);
            let mut before = 0;
            for (at, bit) in list.iter().enumerate() {
                prop_assert_eq!(row.count_before(at), before);
                if *bit {
                    prop_assert_eq!(row.select(before), at);
                    before += 1;
                }
            }
        }
    }
}
