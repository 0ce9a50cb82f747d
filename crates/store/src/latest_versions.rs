//! For each of many blocks the latest of the versions that are noted of it, in a table of which memory is fetched ahead: blocks lie
//! far apart, and a table of all that a journal speaks of is larger than a processor's caches. It must not know what versions are of.

use lode_types::prefetch::prefetch_within;
use lode_types::{NumberFilter, mix};

/// What is noted at once.
const AT_ONCE: usize = 64;
/// Slots of the smallest table.
const FEWEST_SLOTS: usize = 64;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct LatestVersions {
    /// Open addressing, a power of two of slots, or none: a block's number plus one, and its version. Nothing: zero.
    slots: Vec<(u64, u64)>,
    count: usize,
    /// What is noted next, when its slots have been fetched.
    pending: Vec<(u64, u64)>,
}

impl LatestVersions {
    /// A version is noted of a block.
    pub(crate) fn note(&mut self, block: u64, version: u64) {
        if self.pending.len() == AT_ONCE {
            self.note_pending();
        }
        self.prefetch(block);
        self.pending.push((block, version));
    }

    /// Comes to know all that was noted, of which nobody is told before.
    pub(crate) fn note_pending(&mut self) {
        // Three quarters of the slots are taken at most.
        while (self.count + self.pending.len()) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.drain(..).for_each(|(block, version)| self.put(block, version));
        self.pending = pending;
    }

    fn grow(&mut self) {
        let slots = vec![(0, 0); (self.slots.len() * 2).max(FEWEST_SLOTS)];
        let before = std::mem::replace(&mut self.slots, slots);
        self.count = 0;
        let noted = before.into_iter().filter(|(key, _)| *key > 0);
        noted.for_each(|(key, version)| self.put(key - 1, version));
    }

    fn put(&mut self, block: u64, version: u64) {
        let at = self.slot(block);
        let (key, latest) = &mut self.slots[at];
        self.count += usize::from(*key == 0);
        (*key, *latest) = (block + 1, version.max(*latest));
    }

    /// The slot of a block, or the one in which it would be.
    fn slot(&self, block: u64) -> usize {
        let mut at = self.home(block);
        while self.slots[at].0 != 0 && self.slots[at].0 != block + 1 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    fn home(&self, block: u64) -> usize {
        mix(block) as usize & (self.slots.len().wrapping_sub(1))
    }

    /// Fetches what is noted of a block, for whoever will soon ask.
    pub(crate) fn prefetch(&self, block: u64) {
        if !self.slots.is_empty() {
            prefetch_within(&self.slots, self.home(block));
        }
    }

    /// The latest version that is noted of a block.
    pub(crate) fn get(&self, block: u64) -> Option<u64> {
        assert!(self.pending.is_empty(), "all that was noted is known");
        if self.slots.is_empty() {
            return None;
        }
        let (key, version) = self.slots[self.slot(block)];
        (key > 0).then_some(version)
    }

    /// Whether nothing is noted of any block.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Tells of most blocks of which nothing is noted that it is so, without a look at the table.
    pub(crate) fn filter(&self) -> NumberFilter {
        let noted = self.slots.iter().filter(|(key, _)| *key > 0);
        NumberFilter::of(noted.map(|(key, _)| key - 1), self.count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map_of_the_latest(noted in proptest::collection::vec((0u64..300, 0u64..1 << 40), 0..1000)) {
            let (mut versions, mut expected) = (LatestVersions::default(), BTreeMap::new());
            for (block, version) in noted {
                // Some far apart, and the last one that there is.
                let block = if block % 3 == 0 { u64::MAX - 1 - block } else { block };
                versions.note(block, version);
                let latest = expected.entry(block).or_insert(version);
                *latest = version.max(*latest);
            }
            versions.note_pending();
            prop_assert_eq!(versions.is_empty(), expected.is_empty());
            let filter = versions.filter();
            for block in (0..301).chain((0..301).map(|block| u64::MAX - 1 - block)) {
                prop_assert_eq!(versions.get(block), expected.get(&block).copied());
                prop_assert!(!expected.contains_key(&block) || filter.may_have(block));
            }
        }
    }
}
