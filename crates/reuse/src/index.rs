//! Hash index from block numbers to `u32` ids, where the caller keeps the block numbers in its own records.
//!
//! A bucket is one `u64`: a 32-bit tag (the hash) above the 32-bit id, in a table ordered by tag; deletion and growth
//! never consult a key. It must not know what the records are.

use crate::ordered::{Bucket, OrderedTable};

/// Odd, without a pattern in their bits: parts of the fractions of pi and of the golden ratio.
const WHITEN: u64 = 0x243f_6a88_85a3_08d3;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Tag and id of one entry.
#[derive(Clone, Copy, Debug)]
struct Tagged(u64);

impl Bucket for Tagged {
    const MAX_LOAD: (u64, u64) = (1, 2);
    const PROBES: usize = 4;
    const EMPTY: Tagged = Tagged(u64::MAX);

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.0 == u64::MAX
    }

    /// The tag, then the id: entries of one tag are ordered by id.
    #[inline(always)]
    fn hash(&self) -> u64 {
        self.0
    }
}

impl Tagged {
    #[inline(always)]
    fn new(hash: u32, id: u32) -> Tagged {
        Tagged(u64::from(hash) << 32 | u64::from(id))
    }

    #[inline(always)]
    fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    fn id(self) -> u32 {
        self.0 as u32
    }
}

/// Open-addressing index of ids by block number, of 16 to 22 bytes an entry.
///
/// The hash is not seeded: whoever chooses the block numbers can make look-ups slow, never wrong.
#[derive(Clone, Debug, Default)]
pub struct BlockIndex {
    table: OrderedTable<Tagged>,
}

impl BlockIndex {
    /// The one id that no entry has.
    pub const NO_ID: u32 = u32::MAX;

    /// An empty index that has allocated nothing.
    pub fn new() -> BlockIndex {
        BlockIndex::default()
    }

    /// An empty index with room for `entries` entries.
    pub fn with_capacity(entries: usize) -> BlockIndex {
        BlockIndex { table: OrderedTable::with_capacity(entries) }
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
        let run = self.table.run(Tagged::new(hash, 0).hash()).1.iter();
        run.take_while(|bucket| bucket.tag() == hash)
            .map(|bucket| bucket.id())
            .find(|&id| id != Self::NO_ID && is_it(id))
    }

    /// The first id inserted with `hash`, whatever its key, or [`BlockIndex::NO_ID`]: good enough to prefetch the
    /// caller's record, and found without a branch to mispredict.
    #[inline]
    pub fn candidate(&self, hash: u32) -> u32 {
        let first = self.table.run(Tagged::new(hash, 0).hash()).1.first();
        first.map_or(Self::NO_ID, |bucket| if bucket.tag() == hash { bucket.id() } else { Self::NO_ID })
    }

    /// Asks the processor to load the bucket where a search for `hash` starts.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        self.table.prefetch(Tagged::new(hash, 0).hash());
    }

    /// Adds an entry. The caller makes sure that its key is not there yet.
    ///
    /// # Panics
    /// When `id` is [`BlockIndex::NO_ID`], which marks unused buckets.
    #[inline]
    pub fn insert(&mut self, hash: u32, id: u32) {
        assert!(id != Self::NO_ID, "Id {id} is reserved");
        self.table.insert(Tagged::new(hash, id));
    }

    /// Takes out the entry (`hash`, `id`); says whether there was one.
    #[inline]
    pub fn remove(&mut self, hash: u32, id: u32) -> bool {
        let wanted = Tagged::new(hash, id);
        let (place, run) = self.table.run(wanted.hash());
        let found = run.first().is_some_and(|bucket| bucket.0 == wanted.0);
        if found {
            self.table.remove(place);
        }
        found
    }

    /// Takes out every entry and keeps the memory.
    pub fn clear(&mut self) {
        self.table.clear();
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}
