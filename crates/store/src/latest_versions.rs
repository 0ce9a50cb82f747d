//! For each of many blocks the latest of the versions that are noted of it, in a table of which memory is fetched ahead: blocks lie
//! far apart, and a table of all that a journal speaks of is larger than a processor's caches. It must not know what versions are of.

use lode_types::prefetch::prefetch_within;
use lode_types::{NumberFilter, mix};

/// What is noted at once.
const AT_ONCE: usize = 64;
/// Slots of the smallest table.
const FEWEST_SLOTS: usize = 64;

/// The table while it is made.
#[derive(Debug)]
pub(crate) struct NotedVersions {
    table: LatestVersions,
    count: usize,
    /// What is noted next, when its slots have been fetched.
    pending: Vec<(u64, u64)>,
}

/// The table, once it is made. See the module's documentation.
#[derive(Debug)]
pub(crate) struct LatestVersions {
    /// Open addressing, a power of two of slots, or none: a block, and its version plus one. Nothing: zero.
    slots: Vec<(u64, u64)>,
    key: u64,
}

impl NotedVersions {
    /// Nothing is noted. Where a block goes depends on the key, which nobody knows who chooses blocks: many that go to the same
    /// place would take forever.
    pub(crate) fn new(key: u64) -> NotedVersions {
        NotedVersions { table: LatestVersions { slots: Vec::new(), key }, count: 0, pending: Vec::new() }
    }

    /// A version, which is not the last one that there is, is noted of a block.
    pub(crate) fn note(&mut self, block: u64, version: u64) {
        if self.pending.len() == AT_ONCE {
            self.put_pending();
        }
        self.table.prefetch(block);
        self.pending.push((block, version + 1));
    }

    /// All that was noted.
    pub(crate) fn finish(mut self) -> LatestVersions {
        self.put_pending();
        self.table
    }

    fn put_pending(&mut self) {
        // Three quarters of the slots are taken at most.
        while (self.count + self.pending.len()) * 4 > self.table.slots.len() * 3 {
            self.grow();
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.drain(..).for_each(|(block, next)| self.put(block, next));
        self.pending = pending;
    }

    fn grow(&mut self) {
        let slots = vec![(0, 0); (self.table.slots.len() * 2).max(FEWEST_SLOTS)];
        let before = std::mem::replace(&mut self.table.slots, slots);
        self.count = 0;
        before.into_iter().filter(|(_, next)| *next > 0).for_each(|(block, next)| self.put(block, next));
    }

    fn put(&mut self, block: u64, next: u64) {
        let at = self.table.slot(block);
        let slot = &mut self.table.slots[at];
        self.count += usize::from(slot.1 == 0);
        *slot = (block, next.max(slot.1));
    }
}

impl LatestVersions {
    /// The slot of a block, or the one in which it would be.
    fn slot(&self, block: u64) -> usize {
        let mut at = self.home(block);
        while self.slots[at].1 != 0 && self.slots[at].0 != block {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    fn home(&self, block: u64) -> usize {
        mix(block ^ self.key) as usize & (self.slots.len().wrapping_sub(1))
    }

    /// Fetches what is noted of a block, for whoever will soon ask.
    pub(crate) fn prefetch(&self, block: u64) {
        if !self.slots.is_empty() {
            prefetch_within(&self.slots, self.home(block));
        }
    }

    /// The latest version that is noted of a block.
    pub(crate) fn get(&self, block: u64) -> Option<u64> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots[self.slot(block)].1.checked_sub(1)
    }

    /// Whether nothing is noted of any block.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Tells of most blocks of which nothing is noted that it is so, without a look at the table.
    pub(crate) fn filter(&self) -> NumberFilter {
        let noted = || self.slots.iter().filter(|(_, next)| *next > 0).map(|(block, _)| *block);
        NumberFilter::of(noted(), noted().count())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map_of_the_latest(
            noted in proptest::collection::vec((0u64..300, 0u64..1 << 40), 0..1000),
            key in any::<u64>(),
        ) {
            let (mut versions, mut expected) = (NotedVersions::new(key), BTreeMap::new());
            for (block, version) in noted {
                // Some far apart, up to the last one that there is.
                let block = if block % 3 == 0 { u64::MAX - block } else { block };
                versions.note(block, version);
                let latest = expected.entry(block).or_insert(version);
                *latest = version.max(*latest);
            }
            let versions = versions.finish();
            prop_assert_eq!(versions.is_empty(), expected.is_empty());
            let filter = versions.filter();
            for block in (0..301).chain((0..301).map(|block| u64::MAX - block)) {
                prop_assert_eq!(versions.get(block), expected.get(&block).copied());
                prop_assert!(!expected.contains_key(&block) || filter.may_have(block));
            }
        }
    }

    /// A guest chooses blocks, and may know how they are mixed, but not the key.
    #[test]
    fn blocks_that_a_guest_chose_do_not_all_go_to_one_place() {
        const BLOCKS: usize = 3000;
        let chosen: Vec<u64> = (0..).filter(|&block| mix(block) & 0xfff < 16).take(BLOCKS).collect();
        let most_steps = |key| {
            let mut versions = NotedVersions::new(key);
            chosen.iter().for_each(|&block| versions.note(block, 1));
            let versions = versions.finish();
            let steps = |&block: &u64| {
                versions.slot(block).wrapping_sub(versions.home(block)) & (versions.slots.len() - 1)
            };
            chosen.iter().map(steps).max().unwrap_or(0)
        };
        let (known, secret) = (most_steps(0), most_steps(0x1234_5678_9abc_def0));
        assert!(known > 1000 && secret < 100, "{known} {secret}");
    }
}
