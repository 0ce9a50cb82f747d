//! What is known of the backing disk's durability: which direct writes a flush has yet to cover, and
//! which cached copies must stay out of the journal until it has.
//!
//! A copy of bytes that the backing disk might still lose in a power cut must not come back from the SSD
//! as clean: the guest would read new bytes first and, after an eviction, old ones.

use std::collections::VecDeque;
use std::ops::Range;

use hashbrown::HashMap;
use lode_types::BlockNo;

use crate::blocks::Place;
use crate::command::{CommandKind, DeviceId};
use crate::engine::Engine;
use crate::io::{Io, Owner};

/// Unflushed blocks at which the engine flushes of its own accord.
const MANY_UNSTABLE: usize = 8192;

/// The mark of what earlier lives wrote.
const EARLIER_LIVES: u64 = 1;

/// State of the backing disk.
#[derive(Debug)]
pub(crate) struct Backing {
    /// Direct writes, trims and zeroings completed so far: a *mark* is a value of this counter. An
    /// earlier life may have left writes that were never flushed; they count as the first.
    done: u64,
    /// Everything up to this mark is durable.
    flushed: u64,
    /// Mark of the flush in flight.
    flushing: Option<u64>,
    unstable: HashMap<BlockNo, u64>,
    unstable_ranges: Vec<(Range<BlockNo>, u64)>,
    volatile: VecDeque<(u64, Place, u64)>,
    pub(crate) flush_wanted: bool,
}

impl Default for Backing {
    fn default() -> Backing {
        Backing {
            done: EARLIER_LIVES,
            flushed: 0,
            flushing: None,
            unstable: HashMap::new(),
            unstable_ranges: Vec::new(),
            volatile: VecDeque::new(),
            flush_wanted: true,
        }
    }
}

impl Backing {
    /// The mark that covers everything completed so far.
    pub(crate) fn mark(&self) -> u64 {
        self.done
    }

    pub(crate) fn is_flushed(&self, mark: u64) -> bool {
        mark <= self.flushed
    }

    /// A direct write of `block` is complete.
    pub(crate) fn wrote(&mut self, block: BlockNo) {
        self.done += 1;
        self.unstable.insert(block, self.done);
    }

    /// A trim or zeroing is complete.
    pub(crate) fn wrote_range(&mut self, range: Range<BlockNo>) {
        self.done += 1;
        self.unstable_ranges.push((range, self.done));
    }

    /// A write-back is complete; the SSD's copy stands in until it is flushed.
    pub(crate) fn wrote_back(&mut self) -> u64 {
        self.done += 1;
        self.done
    }

    /// Whether a power cut could still undo the latest direct write of `block`.
    pub(crate) fn is_unstable(&self, block: BlockNo) -> bool {
        self.flushed < EARLIER_LIVES
            || self.unstable.contains_key(&block)
            || self.unstable_ranges.iter().any(|(range, _)| range.contains(&block))
    }

    /// A copy of unstable bytes was put at `place` outside the journal.
    pub(crate) fn remember_volatile(&mut self, place: Place, version: u64) {
        self.volatile.push_back((self.done, place, version));
    }

    fn flush(&mut self, io: &mut Io, waited_for: u64) {
        let many = self.unstable.len() >= MANY_UNSTABLE;
        let wanted = self.flush_wanted || waited_for > self.flushed || many;
        if wanted && self.flushing.is_none() {
            self.flush_wanted = false;
            if self.done > self.flushed {
                self.flushing = Some(self.done);
                io.command(DeviceId::Backing, CommandKind::Flush, Owner::BackingFlush);
            }
        }
    }

    /// The flush in flight is done. Returns the volatile copies `(place, version)` it made stable.
    fn flush_done(&mut self) -> Vec<(Place, u64)> {
        let mark = self.flushing.take().unwrap_or(self.flushed);
        self.flushed = mark;
        self.unstable.retain(|_, at| *at > mark);
        self.unstable_ranges.retain(|(_, at)| *at > mark);
        let mut stable = Vec::new();
        while let Some(&(at, place, version)) = self.volatile.front()
            && at <= mark
        {
            self.volatile.pop_front();
            stable.push((place, version));
        }
        stable
    }
}

impl Engine {
    /// Flushes the backing disk if anybody waits for it.
    pub(crate) fn drive_backing(&mut self) {
        let waited_for = self.durable.mark_waited_for().max(self.range_mark());
        self.backing.flush_wanted |= self.destage_wants_flush();
        self.backing.flush(&mut self.io, waited_for);
    }

    pub(crate) fn backing_flushed(&mut self) {
        let stable = self.backing.flush_done();
        if let Some(ssd) = &mut self.ssd {
            for (place, version) in stable {
                ssd.store.places_mut().make_known(place, version);
            }
        }
        self.finish_write_backs();
        self.range_flushed();
        self.release_waiters();
    }
}
