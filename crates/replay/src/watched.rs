//! A scheme that tells when it was asked for its demand, which happens once in each sizing. It must not decide.

use lode_policy::{Hint, LevelDemand, Quota, Scheme, Sink, Slot};
use lode_types::{Access, BlockNo, Level};

/// A scheme and whether a sizing has looked at it.
pub(crate) struct Watched<T> {
    pub(crate) scheme: T,
    was_asked: bool,
}

impl<T: Scheme> Watched<T> {
    pub(crate) fn new(scheme: T) -> Watched<T> {
        Watched { scheme, was_asked: false }
    }

    /// Whether there was a sizing since the last call.
    #[inline]
    pub(crate) fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.was_asked)
    }
}

impl<T: Scheme> Scheme for Watched<T> {
    #[inline]
    fn access_foreseen<S: Sink>(&mut self, access: Access, hint: Hint, sink: &mut S) {
        self.scheme.access_foreseen(access, hint, sink);
    }

    #[inline]
    fn end_request<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        self.scheme.end_request(now_ns, sink);
    }

    fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        self.scheme.discard(block, sink);
    }

    fn forget(&mut self, level: Level, block: BlockNo) {
        self.scheme.forget(level, block);
    }

    fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        self.scheme.restore(block, dirty)
    }

    fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        self.scheme.resize(quota, sink);
    }

    fn quota(&self) -> Quota {
        self.scheme.quota()
    }

    fn resident_blocks(&self, level: Level) -> u32 {
        self.scheme.resident_blocks(level)
    }

    fn demand(&mut self) -> Option<[LevelDemand; 2]> {
        self.was_asked = true;
        self.scheme.demand()
    }

    #[inline]
    fn announce(&self, block: BlockNo) -> Hint {
        self.scheme.announce(block)
    }

    #[inline]
    fn locate(&self, block: BlockNo, hint: &mut Hint) {
        self.scheme.locate(block, hint);
    }

    #[inline]
    fn follow(&self, block: BlockNo, hint: Hint) {
        self.scheme.follow(block, hint);
    }

    fn memory_bytes(&self) -> usize {
        self.scheme.memory_bytes()
    }
}
