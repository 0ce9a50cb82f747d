//! One SSD level whose replacement works on a few queues: what ARC, S3-FIFO, SIEVE and their like have in common.
//!
//! It must not know which queue means what; a [`QueuePolicy`] does, and must not know slots.

use lode_types::{BlockNo, Level};

use crate::effect::{Sink, Slot};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::{self, Id, Newcomer, Replacement};
use crate::prefetch::{Prefetch, PrefetchHint};
use crate::registry::{LEAN, SchemeInfo};
use crate::settings::Settings;
use crate::tracked::Footprint;

/// Of a scheme that is such a level, without settings of its own and without ghosts.
pub(crate) const INFO: SchemeInfo =
    SchemeInfo { tables: ssd_level::TABLES, footprint: Footprint::new(LEAN, 48), ..SchemeInfo::PLAIN };

/// What a replacement algorithm over `N` queues decides. A block with a slot is cached, one without is a ghost; slots are
/// given by [`QueueLevel`] and lost by [`Queues::evict`] and its variants.
pub trait QueuePolicy<const N: usize> {
    /// A hit moves blocks within or between queues, so that their neighbours' records are worth prefetching.
    const HIT_MOVES: bool = true;

    /// For a level of `blocks`.
    fn new(settings: &Settings, blocks: u32) -> Self;

    /// Prefetches what tables of its own say of a block with this hash.
    #[inline(always)]
    fn prefetch_by_hash(&self, _hash: u32) {}

    /// Prefetches what tables of its own say of a record, which need not exist.
    #[inline]
    fn prefetch(&self, _id: Id) {}

    /// Any access, before what it asks for, also when it neither hits nor allocates.
    #[inline(always)]
    fn note(&mut self, _queues: &Queues<N>, _hash: u32) {}

    /// A cached block was hit.
    fn touch(&mut self, queues: &mut Queues<N>, id: Id);

    /// Puts a block into the queue where it belongs once it is cached, after as many others were evicted as that takes.
    /// `None`: the block does not enter the cache, though it may be a ghost from now on. The level can hold at least one
    /// block. By default every block enters the first queue, and a full level evicts one.
    #[inline]
    fn admit<S: Sink>(&mut self, queues: &mut Queues<N>, new: Newcomer, sink: &mut S) -> Option<Id> {
        if queues.is_full() {
            self.evict(queues, sink);
        }
        Some(queues.enter(0, new))
    }

    /// Puts a block that is not known into a queue, at a restart; there is room for it. By default into the first queue.
    fn restore(&mut self, queues: &mut Queues<N>, hash: u32, block: BlockNo) -> Id {
        queues.insert(0, hash, block)
    }

    /// The copy of a cached block is newer than the disk's from now on, or is not.
    #[inline(always)]
    fn set_dirty(&mut self, queues: &mut Queues<N>, id: Id, dirty: bool) {
        queues.set_dirty(id, dirty);
    }

    /// A known block is about to be forgotten, wherever it is now.
    fn forget(&mut self, _queues: &mut Queues<N>, _id: Id) {}

    /// The level has another capacity from now on. What is too much leaves by the next two.
    fn resized(&mut self, _queues: &mut Queues<N>) {}

    /// Evicts one block, if one is cached. By default the oldest of the first queue.
    fn evict<S: Sink>(&mut self, queues: &mut Queues<N>, sink: &mut S) {
        queues.evict_oldest(0, sink);
    }

    /// Forgets ghosts that there are too many of.
    fn bound_ghosts(&mut self, _queues: &mut Queues<N>) {}

    /// Bytes of tables of its own.
    fn memory_bytes(&self) -> usize {
        0
    }
}

/// The queues, and the policy over them.
#[derive(Debug)]
pub struct QueueLevel<P, const N: usize> {
    pub(crate) queues: Queues<N>,
    pub(crate) policy: P,
}

impl<P: QueuePolicy<N>, const N: usize> QueueLevel<P, N> {
    /// Of blocks of any level.
    pub(crate) fn of(level: Level, settings: &Settings, blocks: u32) -> Self {
        QueueLevel { queues: Queues::new(level, blocks), policy: P::new(settings, blocks) }
    }
}

impl<P: QueuePolicy<N>, const N: usize> Prefetch for QueueLevel<P, N> {
    #[inline]
    fn prefetch_index(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        self.queues.prefetch_index(blocks.inspect(|(_, hint)| self.policy.prefetch_by_hash(hint.hash)));
    }

    #[inline]
    fn prefetch_entries<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {
        self.queues.prefetch_entries(blocks);
    }

    #[inline]
    fn prefetch_neighbours(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        if P::HIT_MOVES {
            self.queues.prefetch_neighbours(blocks.inspect(|(_, hint)| self.policy.prefetch(hint.entry)));
        }
    }
}

impl<P: QueuePolicy<N>, const N: usize> Replacement for QueueLevel<P, N> {
    fn new(settings: &Settings, blocks: u32) -> Self {
        QueueLevel::of(Level::Ssd, settings, blocks)
    }

    #[inline(always)]
    fn find(&self, hint: PrefetchHint, block: BlockNo) -> Option<Id> {
        self.queues.find(hint, block)
    }

    #[inline(always)]
    fn slot(&self, id: Id) -> Option<Slot> {
        self.queues.slot(id)
    }

    #[inline(always)]
    fn note(&mut self, hint: PrefetchHint) {
        self.policy.note(&self.queues, hint.hash);
    }

    #[inline(always)]
    fn touch(&mut self, _: BlockNo, id: Id) {
        self.policy.touch(&mut self.queues, id);
    }

    #[inline(always)]
    fn set_dirty(&mut self, id: Id, dirty: bool) {
        self.policy.set_dirty(&mut self.queues, id, dirty);
    }

    #[inline]
    fn admit<S: Sink>(&mut self, new: Newcomer, sink: &mut S) -> Option<(Id, Slot)> {
        if self.capacity() == 0 {
            return None;
        }
        let id = self.policy.admit(&mut self.queues, new, sink)?;
        Some((id, self.queues.give_slot(id)))
    }

    fn restore(&mut self, new: Newcomer) -> Option<(Id, Slot)> {
        if self.queues.is_full() {
            return None;
        }
        if let Some(ghost) = new.ghost {
            self.remove(new.block, ghost);
        }
        let id = self.policy.restore(&mut self.queues, new.hash, new.block);
        Some((id, self.queues.give_slot(id)))
    }

    fn expect(&mut self, blocks: u32) {
        self.queues.expect(blocks);
    }

    fn remove(&mut self, _: BlockNo, id: Id) {
        self.policy.forget(&mut self.queues, id);
        self.queues.remove(id);
    }

    fn resize<S: Sink>(&mut self, blocks: u32, sink: &mut S) {
        self.queues.set_capacity(blocks);
        self.policy.resized(&mut self.queues);
        while self.queues.cached() > blocks {
            self.policy.evict(&mut self.queues, sink);
        }
        self.policy.bound_ghosts(&mut self.queues);
    }

    fn capacity(&self) -> u32 {
        self.queues.capacity()
    }

    #[inline]
    fn cached(&self) -> u32 {
        self.queues.cached()
    }

    fn memory_bytes(&self) -> usize {
        self.queues.memory_bytes() + self.policy.memory_bytes()
    }
}
