//! Prefetching: what accesses will need is brought nearer to the processor before they come. It changes no decision, and must
//! not know what is decided.

use lode_reuse::BlockIndex;
use lode_types::{Access, BlockNo};

/// What prefetching found out about a block. Whoever uses it checks it, because it may be out of date.
#[derive(Clone, Copy, Debug)]
pub struct PrefetchHint {
    /// The block's hash in every index of blocks; never out of date.
    pub(crate) hash: u32,
    /// The number of the table's entry for the block.
    pub(crate) entry: u32,
}

impl PrefetchHint {
    /// No entry is known.
    pub(crate) const NO_ENTRY: u32 = BlockIndex::NO_ID;

    /// Nothing is known of `block` yet but its hash.
    #[inline]
    pub fn new(block: BlockNo) -> PrefetchHint {
        PrefetchHint { hash: BlockIndex::hash(block), entry: PrefetchHint::NO_ENTRY }
    }
}

/// One block access of a stream that is known some way ahead.
#[derive(Clone, Copy, Debug)]
pub struct PrefetchedAccess {
    /// What is accessed.
    pub access: Access,
    /// What prefetching found.
    pub hint: PrefetchHint,
    /// Time of its request on the caller's clock.
    pub now_ns: u64,
    /// It is its request's last.
    pub last: bool,
}

/// Prefetches for blocks that will soon be accessed, in three steps, of which each needs what the one before it fetched. Memory
/// takes its time, so that each step should be taken for many blocks before the next one. By default nothing is prefetched.
pub trait Prefetch {
    /// Fetches what the index says of blocks.
    fn prefetch_index(&self, _blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {}

    /// Notes in the hints which entries blocks have, and fetches those.
    fn prefetch_entries<'a>(&self, _blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {}

    /// Fetches what the entries lead to, such as their neighbours in a list.
    fn prefetch_neighbours(&self, _blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {}
}

/// The steps of [`Prefetch`], left to a field.
macro_rules! prefetch_by {
    ($field:ident) => {
        #[inline]
        fn prefetch_index(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
            self.$field.prefetch_index(blocks);
        }

        #[inline]
        fn prefetch_entries<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {
            self.$field.prefetch_entries(blocks);
        }

        #[inline]
        fn prefetch_neighbours(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
            self.$field.prefetch_neighbours(blocks);
        }
    };
}
