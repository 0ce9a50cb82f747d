//! What several schemes are made of: levels, queues, logs of distances. A part must not know which scheme it is in.

/// The methods of [`crate::Scheme`] that a scheme leaves to its field `level`, which is another scheme or has methods of these
/// names. What is left to write are the decisions that it makes itself, with `memory` without its own memory. With `state`
/// they are only those that decide nothing.
macro_rules! forward_to_level {
    () => {
        #[inline]
        fn access<S: Sink>(&mut self, access: Access, sink: &mut S) {
            self.access_prefetched(access, PrefetchHint::new(access.block), sink);
        }

        fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
            self.level.discard(block, sink);
        }

        fn forget(&mut self, level: Level, block: BlockNo) {
            self.level.forget(level, block);
        }

        fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
            self.level.resize(quota, sink);
        }

        forward_to_level!(state);
    };
    (state) => {
        fn cleaned(&mut self, block: BlockNo) {
            self.level.cleaned(block);
        }

        fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
            self.level.restore(block, dirty)
        }

        fn expect(&mut self, blocks: u32) {
            self.level.expect(blocks);
        }

        fn quota(&self) -> Quota {
            self.level.quota()
        }

        fn resident_blocks(&self, level: Level) -> u32 {
            self.level.resident_blocks(level)
        }
    };
    (memory) => {
        forward_to_level!();

        fn memory_bytes(&self) -> usize {
            self.level.memory_bytes()
        }
    };
}

pub mod cut_off;
pub mod distance_log;
pub(crate) mod growth;
pub(crate) mod kept;
pub(crate) mod lists;
pub mod mapping;
pub mod queue_level;
pub mod queues;
pub mod sampling;
pub mod sets;
pub mod sized;
pub mod ssd_level;
pub mod streams;
pub mod two_levels;
