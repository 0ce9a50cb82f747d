//! Hash index from block numbers to `u32` ids, where the caller keeps the block numbers in its own records.
//!
//! A bucket is one `u64`: a 32-bit tag (the hash) above the 32-bit id, in a table ordered by tag; deletion and growth
//! never consult a key. It must not know what the records are.

use crate::ordered::{Bucket, OrderedTable, mix};

/// Tag and id of one entry.
#[derive(Clone, Copy, Debug)]
struct Tagged(u64);

impl Bucket for Tagged {
    const EMPTY: Tagged = Tagged(u64::MAX);

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.0 == u64::MAX
    }

    #[inline(always)]
    fn hash(&self) -> u64 {
        self.0 & 0xffff_ffff_0000_0000
    }
}

impl Tagged {
    #[inline(always)]
    fn new(hash: u32, id: u32) -> Tagged {
        Tagged(u64::from(hash) << 32 | u64::from(id))
    }

    #[inline(always)]
    fn id(self) -> u32 {
        self.0 as u32
    }
}

/// Open-addressing index of ids by block number, of 9.4 to 12.9 bytes an entry.
///
/// The hash is not seeded: whoever chooses the block numbers can make look-ups slow, never wrong.
#[derive(Clone, Debug, Default)]
pub struct BlockIndex {
    table: OrderedTable<Tagged>,
}

impl BlockIndex {
    /// An empty index that has allocated nothing.
    pub fn new() -> BlockIndex {
        BlockIndex::default()
    }

    /// An empty index with room for `entries` entries.
    pub fn with_capacity(entries: usize) -> BlockIndex {
        BlockIndex { table: OrderedTable::with_capacity(entries) }
    }

    /// The hash that every other call takes. Mixes all 64 bits.
    ///
    /// A sample chosen by a threshold on this very hash would crowd into one end of the table: sample by
    /// another hash.
    #[inline]
    pub fn hash(block: u64) -> u32 {
        (mix(block) >> 32) as u32
    }

    /// The id inserted with `hash` for which `is_it` says yes; `is_it` compares the caller's key.
    #[inline]
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.ids(hash).find(|&id| is_it(id))
    }

    /// The first id inserted with `hash`, whatever its key: good enough to prefetch the caller's record.
    #[inline]
    pub fn first_candidate(&self, hash: u32) -> Option<u32> {
        self.ids(hash).next()
    }

    /// Asks the processor to load the bucket where a search for `hash` starts.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        self.table.prefetch(Tagged::new(hash, 0).hash());
    }

    /// Adds an entry. The caller makes sure that its key is not there yet.
    ///
    /// # Panics
    /// When `id` is `u32::MAX`, which marks unused buckets.
    #[inline]
    pub fn insert(&mut self, hash: u32, id: u32) {
        assert!(id != u32::MAX, "Id {id} is reserved");
        self.table.insert(Tagged::new(hash, id));
    }

    /// Takes out the entry (`hash`, `id`); says whether there was one.
    #[inline]
    pub fn remove(&mut self, hash: u32, id: u32) -> bool {
        let place = self.table.run(Tagged::new(hash, id).hash()).0;
        let ahead = self.ids(hash).position(|found| found == id);
        if let Some(ahead) = ahead {
            self.table.remove(place + ahead);
        }
        ahead.is_some()
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

    /// The ids inserted with `hash`.
    #[inline(always)]
    fn ids(&self, hash: u32) -> impl Iterator<Item = u32> {
        let wanted = Tagged::new(hash, 0).hash();
        let run = self.table.run(wanted).1.iter();
        run.take_while(move |bucket| bucket.hash() == wanted && !bucket.is_empty()).map(|bucket| bucket.id())
    }
}
