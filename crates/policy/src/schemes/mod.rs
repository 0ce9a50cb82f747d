//! The schemes, one module each. A scheme is a type that implements [`crate::Scheme`], tables of its
//! settings, and one line in the registry.

/// The methods of [`crate::Scheme`] that a scheme leaves to its field `level`, which is another scheme or has methods of these
/// names. What is left to write are the decisions that it makes itself.
macro_rules! forward_to_level {
    () => {
        fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
            self.level.discard(block, sink);
        }

        fn forget(&mut self, level: Level, block: BlockNo) {
            self.level.forget(level, block);
        }

        fn cleaned(&mut self, block: BlockNo) {
            self.level.cleaned(block);
        }

        fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
            self.level.restore(block, dirty)
        }

        fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
            self.level.resize(quota, sink);
        }

        fn quota(&self) -> Quota {
            self.level.quota()
        }

        fn resident_blocks(&self, level: Level) -> u32 {
            self.level.resident_blocks(level)
        }

        #[inline]
        fn announce(&self, block: BlockNo) -> Hint {
            self.level.announce(block)
        }

        #[inline]
        fn locate<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut Hint)>) {
            self.level.locate(blocks);
        }

        #[inline]
        fn follow(&self, blocks: impl Iterator<Item = (BlockNo, Hint)>) {
            self.level.follow(blocks);
        }
    };
}

pub mod arc;
mod arrivals;
pub mod belady;
mod clean_runs;
mod cut_off;
mod dirty_lists;
mod distance_log;
mod divisor;
pub mod etica;
mod expiries;
pub mod fast_cache;
pub mod flashcache;
pub mod l2arc;
pub mod larc;
pub mod lirs;
mod mapping;
pub mod mq;
pub mod opencas;
mod part_lists;
mod queue_level;
mod queues;
mod radix;
pub mod regions;
mod rings;
pub mod rpac;
pub mod s3_fifo;
pub mod sets;
pub mod sieve;
pub mod sized;
mod sketch;
mod ssd_level;
mod ssd_queue;
mod streams;
pub mod tica;
mod two_levels;
pub mod two_q;
pub mod ucache;
pub mod w_tinylfu;
pub mod write_cache;
