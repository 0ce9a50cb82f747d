//! One SSD level that long sequential streams pass by, and that writes dirty blocks back before they have to leave: what
//! flashcache and Open CAS have in common.
//!
//! It must not know which blocks leave, nor which are cleaned: a [`Cleaner`] does.

use lode_types::{Access, BlockNo, Direction, Level};

use crate::effect::{Effect, Sink, Slot};
use crate::parts::ssd_level::{Id, Replacement, SsdLevel};
use crate::parts::streams::Streams;
use crate::prefetch::{Lookahead, Prefetch, PrefetchHint};
use crate::quota::Quota;
use crate::scheme::Scheme;

/// A replacement that cleans in the background.
pub trait Cleaner: Replacement {
    /// Whether the copy in the cache is newer than the disk's.
    fn is_dirty(&self, id: Id) -> bool;

    /// A request has ended: cleans what is due.
    fn clean<S: Sink>(&mut self, now_ns: u64, sink: &mut S);
}

/// When a stream passes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Never.
    Never,
    /// While the level is full.
    Full,
    /// Always.
    Always,
}

/// One VM's SSD level with a cleaner, and the streams that pass it by.
#[derive(Debug)]
pub struct CutOff<R> {
    level: SsdLevel<R>,
    streams: Streams,
    when: When,
    /// A stream passes by from this block of it on.
    from_block: u64,
}

impl<R: Cleaner> CutOff<R> {
    pub(crate) fn over(level: SsdLevel<R>, streams: Streams, when: When, from_block: u64) -> CutOff<R> {
        CutOff { level, streams, when, from_block }
    }

    #[inline]
    fn passes_by(&mut self, access: &Access) -> bool {
        if self.when == When::Never {
            return false;
        }
        let blocks = self.streams.note(access);
        blocks >= self.from_block && (self.when == When::Always || self.level.is_full())
    }
}

impl<R: Cleaner> SsdLevel<R> {
    /// An access that changes nothing of what is cached, except that a cached copy of what is written leaves. A read is
    /// served from it.
    fn pass_by<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        let block = access.block;
        let cached = self.cached(hint, block);
        match (access.op, cached) {
            (Direction::Read, Some((id, slot))) => {
                self.replacement_mut().touch(block, id);
                sink.effect(Effect::ReadLevel { level: Level::Ssd, slot });
            }
            (Direction::Read, None) => sink.effect(Effect::ReadBacking),
            (Direction::Write, Some((id, slot))) => {
                // The write may be of a part of the block, and the rest of it be nowhere else.
                let dirty = self.replacement_mut().is_dirty(id);
                self.replacement_mut().remove(block, id);
                sink.effect(match dirty {
                    true => Effect::Evict { level: Level::Ssd, slot, block, dirty },
                    false => Effect::Invalidate { level: Level::Ssd, slot },
                });
                sink.effect(Effect::WriteBacking);
            }
            (Direction::Write, None) => sink.effect(Effect::WriteBacking),
        }
    }
}

impl<R: Cleaner> Prefetch for CutOff<R> {
    prefetch_by!(level);
}

impl<R: Cleaner> Lookahead for CutOff<R> {
    #[inline]
    fn access_prefetched<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        if self.passes_by(&access) {
            self.level.pass_by(access, hint, sink);
        } else {
            self.level.access_prefetched(access, hint, sink);
        }
    }
}

impl<R: Cleaner> Scheme for CutOff<R> {
    #[inline]
    fn end_request<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        self.level.replacement_mut().clean(now_ns, sink);
    }

    forward_to_level!();

    fn memory_bytes(&self) -> usize {
        self.level.memory_bytes() + self.streams.memory_bytes()
    }
}
