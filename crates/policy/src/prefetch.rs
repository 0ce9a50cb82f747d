//! Accesses that are known some way ahead: what they will need is brought nearer to the processor before they come, and then
//! they are decided in batches. It changes no decision, and must not know what is decided.

use lode_reuse::BlockIndex;
use lode_types::{Access, BlockNo, Direction};

use crate::effect::Sink;
use crate::scheme::Scheme;

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

/// Takes effects, and hears to which access and request they belong. An access's effects end where the next one begins, or
/// the request ends.
pub trait AccessSink: Sink {
    /// The effects that follow belong to this access.
    fn begin_access(&mut self, access: &Access);

    /// The request, which is in direction `op`, is over.
    fn end_request(&mut self, op: Direction);
}

/// A scheme whose accesses may be known ahead. By default it makes nothing of that.
pub trait Lookahead: Scheme + Prefetch {
    /// Decides one block access for which was prefetched. The hint saves time and changes no decision.
    #[inline]
    fn access_prefetched<S: Sink>(&mut self, access: Access, _hint: PrefetchHint, sink: &mut S) {
        self.access(access, sink);
    }

    /// Decides accesses for which was prefetched, one after the other, and ends their requests. Whoever has many of them at
    /// hand asks once which scheme this is, and not at every access. A function of each scheme's own, so that its loop has the
    /// processor's registers for itself.
    #[inline(never)]
    fn access_batch<'a, W: AccessSink>(
        &mut self,
        accesses: impl Iterator<Item = &'a PrefetchedAccess>,
        sink: &mut W,
    ) {
        for &PrefetchedAccess { access, hint, now_ns, last } in accesses {
            sink.begin_access(&access);
            self.access_prefetched(access, hint, sink);
            if last {
                self.end_request(now_ns, sink);
                sink.end_request(access.op);
            }
        }
    }
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
