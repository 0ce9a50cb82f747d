//! What was found on the SSD at a start and the scheme has not been told of yet, and reads that guests ask for meanwhile. Of such reads all
//! blocks are looked for in the places at once, and each is read where it is: what is on the SSD does not change until the scheme
//! decides, and everything but reads waits for that. It must not know schemes or devices.

use hashbrown::HashMap;
use lode_policy::Counters;
use lode_store::{FoundOrder, HeldBlock, Place, Places};
use lode_types::{BlockNo, BlockSize, Counter, Level, NumberFilter, blocks_of, planted};
use slab::Slab;

use crate::flight::RequestSlice;
use crate::waiting::Taken;

/// The scheme is told of this part of what was found at a time, or more: to look for blocks in all places takes no longer.
const PARTS: usize = 32;

/// What the scheme is to be told of.
#[derive(Debug)]
pub(crate) struct TakingOver {
    /// All of it, until it is in order.
    found: Option<FoundOrder>,
    /// The same in order, least recent first.
    places: Vec<Place>,
    count: usize,
    at: usize,
    /// So many of the first are more than it has room for.
    excess: usize,
    /// Reads have begun since the last part.
    is_due: bool,
}

/// Places that the scheme is told of next.
pub(crate) enum NextPlaces<'a> {
    /// It has no room for these.
    GiveUp(&'a [Place]),
    Restore(&'a [Place]),
}

impl TakingOver {
    /// This was found, of which so much is to be given up; `None`: nothing.
    pub(crate) fn of(found: FoundOrder, excess: usize) -> Option<TakingOver> {
        let count = found.len();
        (count > 0).then_some(TakingOver {
            found: Some(found),
            places: Vec::new(),
            count,
            at: 0,
            excess,
            is_due: false,
        })
    }

    /// Whether a part is due, which it is once. Otherwise reads begin before it, and the devices are given their commands first.
    pub(crate) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// Reads have begun.
    pub(crate) fn reads_have_begun(&mut self) {
        self.is_due = true;
    }

    /// Goes on to put it in order. False: it is.
    pub(crate) fn put_in_order(&mut self, places: &mut Places) -> bool {
        let Some(found) = &mut self.found else { return false };
        if let Some(in_order) = places.put_in_order(found) {
            (self.found, self.places) = (None, in_order);
        }
        true
    }

    /// The next places, which are in order, `least` or more unless fewer are left.
    pub(crate) fn next(&mut self, least: usize) -> Option<NextPlaces<'_>> {
        let end = self.at.saturating_add(least.max(self.count / PARTS).max(1)).min(self.count);
        let (from, is_excess) = (self.at, self.at < self.excess);
        self.at = if is_excess { end.min(self.excess) } else { end };
        let some = &self.places[from..self.at];
        match is_excess {
            _ if some.is_empty() => None,
            true => Some(NextPlaces::GiveUp(some)),
            false => Some(NextPlaces::Restore(some)),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left() == 0
    }

    /// Places that it is still to be told of.
    pub(crate) fn left(&self) -> u32 {
        (self.count - self.at) as u32
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place>() + self.found.as_ref().map_or(0, FoundOrder::memory_bytes)
    }
}

/// A read that is served past the scheme. Until it has ended, what came later and has to do with its blocks waits for it.
#[derive(Debug)]
struct EarlyRead {
    taken: Taken,
    parts_left: u32,
    has_failed: bool,
    /// Blocks that were found on the SSD, and others.
    hits: u64,
    misses: u64,
}

/// A block of such a read: where it was found, if it is on the SSD.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EarlyPart {
    read: usize,
    pub(crate) block: BlockNo,
    pub(crate) slice: RequestSlice,
    pub(crate) found: Option<(Place, HeldBlock)>,
}

/// What has ended with a part of a read.
pub(crate) enum EarlyEnd {
    /// Nothing else: others are under way.
    OfPart,
    /// The read, with nothing left of it, and what it counts for.
    Served(Taken, Counters),
    /// The read, which the scheme has to decide.
    Failed(Taken),
}

/// Such reads under way.
#[derive(Debug, Default)]
pub(crate) struct EarlyReads {
    reads: Slab<EarlyRead>,
    parts: Slab<EarlyPart>,
}

impl EarlyReads {
    /// Looks for the blocks of reads, which have these numbers among the requests under way. What is to be read for them, by the numbers of
    /// parts.
    pub(crate) fn begin(
        &mut self,
        reads: Vec<(usize, Taken)>,
        places: &Places,
        size: BlockSize,
    ) -> Vec<(usize, EarlyPart)> {
        let blocks = |taken: &Taken| {
            let (offset_bytes, length_bytes) = taken.request().op.range();
            blocks_of(size, offset_bytes, length_bytes)
        };
        let wanted = reads.iter().flat_map(|(_, taken)| blocks(taken)).map(|part| part.block);
        let found = look_for(places, wanted.collect());
        let mut begun = Vec::new();
        for (request, taken) in reads {
            let parts = blocks(&taken);
            let parts_left = parts.len() as u32;
            let (has_failed, hits, misses) = (false, 0, 0);
            let read = self.reads.insert(EarlyRead { taken, parts_left, has_failed, hits, misses });
            let mut buf_at = 0;
            for part in parts {
                let slice = RequestSlice { request, buf_at, start: part.start, len: part.len };
                buf_at += part.len;
                let found = found.get(&part.block).copied().flatten();
                let part = EarlyPart { read, block: part.block, slice, found };
                begun.push((self.parts.insert(part), part));
            }
        }
        begun
    }

    /// A part of a read.
    pub(crate) fn part(&self, number: usize) -> EarlyPart {
        self.parts[number]
    }

    /// A part was delivered, or could not be.
    pub(crate) fn ended(&mut self, number: usize, is_delivered: bool) -> EarlyEnd {
        let EarlyPart { read: at, found, .. } = self.parts.remove(number);
        let read = &mut self.reads[at];
        read.has_failed |= !is_delivered;
        read.hits += u64::from(found.is_some());
        read.misses += u64::from(found.is_none());
        read.parts_left.count_down();
        if read.parts_left > 0 {
            return EarlyEnd::OfPart;
        }
        let EarlyRead { mut taken, has_failed, hits, misses, .. } = self.reads.remove(at);
        if self.reads.is_empty() {
            // Few are ever needed again.
            *self = EarlyReads::default();
        }
        if has_failed {
            taken.leave_to_scheme();
            return EarlyEnd::Failed(taken);
        }
        taken.give_up_rest();
        let mut counts = Counters { requests: 1, block_reads: hits + misses, ..Counters::default() };
        counts.read_hits[Level::Ssd.index()] = hits;
        (counts.read_misses, counts.backing_reads) = (misses, misses);
        EarlyEnd::Served(taken, counts)
    }
}

/// Looks for blocks in all places.
fn look_for(places: &Places, blocks: Vec<BlockNo>) -> HashMap<BlockNo, Option<(Place, HeldBlock)>> {
    let filter = NumberFilter::of(blocks.iter().copied(), blocks.len());
    let mut found: HashMap<BlockNo, Option<(Place, HeldBlock)>> =
        blocks.into_iter().map(|block| (block, None)).collect();
    if found.is_empty() || planted("not-taken-over-yet-is-absent") {
        return found;
    }
    places.look_for(&filter, |place, held| {
        if let Some(at) = found.get_mut(&held.block) {
            *at = Some((place, held));
        }
    });
    found
}
