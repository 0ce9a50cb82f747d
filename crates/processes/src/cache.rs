//! The map of the write cache: which blocks it holds, which are newer than the disk's, which are being written. It must
//! not know devices or time.
//!
//! A copy counts when its write is complete; the newest version counts. Room for a block is taken before its write
//! starts; a clean copy makes room, the oldest first; a dirty one only when it was destaged.

use std::collections::{BTreeMap, HashMap};

use lode_types::BlockNo;

/// Versions of blocks ascend in the order in which their writes were sent to devices; 0: none.
pub(crate) type Version = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Clean,
    Dirty,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    /// What a complete write left.
    version: Version,
    dirty: bool,
    /// Writes of the block that are under way to the cache.
    pending: u32,
    destaging: bool,
    listed: Option<(List, u64)>,
}

/// The map.
#[derive(Debug)]
pub(crate) struct Cache {
    capacity_blocks: usize,
    entries: HashMap<BlockNo, Entry>,
    /// Blocks at rest, in order of becoming so.
    clean: BTreeMap<u64, BlockNo>,
    /// Of each disk.
    dirty: [BTreeMap<u64, BlockNo>; 2],
    second_disk: BlockNo,
    dirty_blocks: usize,
    next_place: u64,
}

impl Cache {
    /// Blocks from `second_disk` on are those of another disk.
    pub fn new(capacity_blocks: usize, second_disk: BlockNo) -> Cache {
        Cache {
            capacity_blocks,
            entries: HashMap::new(),
            clean: BTreeMap::new(),
            dirty: Default::default(),
            second_disk,
            dirty_blocks: 0,
            next_place: 0,
        }
    }

    pub fn capacity_blocks(&self) -> usize {
        self.capacity_blocks
    }

    /// Blocks that are newer than the disk's.
    pub fn dirty_blocks(&self) -> usize {
        self.dirty_blocks
    }

    /// Whether the cache has, or is about to have, a copy newer than the disk's: a write of the block must go here.
    pub fn must_take(&self, block: BlockNo) -> bool {
        self.entries.get(&block).is_some_and(|entry| entry.dirty || entry.pending > 0)
    }

    /// The newest dirty version, as a recovery finds it.
    pub fn dirty_version(&self, block: BlockNo) -> Option<Version> {
        self.entries.get(&block).filter(|entry| entry.dirty).map(|entry| entry.version)
    }

    /// Takes room for a write of these blocks, or nothing of it. True: there was room.
    pub fn reserve(&mut self, blocks: &[BlockNo]) -> bool {
        let (mut new, mut own_clean) = (0, 0);
        for block in blocks {
            match self.entries.get(block).map(|entry| entry.listed) {
                None => new += 1,
                Some(Some((List::Clean, _))) => own_clean += 1,
                Some(_) => {}
            }
        }
        let free = self.capacity_blocks - self.entries.len();
        if new > free + self.clean.len() - own_clean {
            return false;
        }
        // Those that are there first, so that none of them is evicted for the others.
        for &block in blocks {
            if self.entries.contains_key(&block) {
                self.change(block, |entry| entry.pending += 1);
            }
        }
        for &block in blocks {
            if !self.entries.contains_key(&block) {
                if self.entries.len() == self.capacity_blocks
                    && let Some((_, victim)) = self.clean.pop_first()
                {
                    self.entries.remove(&victim);
                }
                self.entries.insert(block, Entry { pending: 1, ..Entry::default() });
            }
        }
        true
    }

    /// A write that took room is complete, or failed. An older version than the one that is there changes nothing.
    pub fn written(&mut self, block: BlockNo, version: Version, ok: bool) {
        self.change(block, |entry| {
            entry.pending -= 1;
            if ok && version > entry.version {
                entry.version = version;
                entry.dirty = true;
            }
        });
    }

    /// Forgets a clean copy, because the block goes to the disk.
    pub fn invalidate(&mut self, block: BlockNo) {
        if let Some((List::Clean, place)) = self.entries.get(&block).and_then(|entry| entry.listed) {
            self.clean.remove(&place);
            self.entries.remove(&block);
        }
    }

    /// The dirty block of a disk, 0 or 1, that has been at rest longest and may go, from now on being destaged.
    pub fn take_to_destage(&mut self, disk: usize, may_go: impl Fn(BlockNo) -> bool) -> Option<BlockNo> {
        let block = self.dirty[disk].values().copied().find(|&block| may_go(block))?;
        self.change(block, |entry| entry.destaging = true);
        Some(block)
    }

    /// The version that a destage reads.
    pub fn version(&self, block: BlockNo) -> Version {
        self.entries.get(&block).map_or(0, |entry| entry.version)
    }

    /// The disk has this version now.
    pub fn destaged(&mut self, block: BlockNo, version: Version) {
        self.change(block, |entry| {
            entry.destaging = false;
            entry.dirty &= entry.version != version;
        });
    }

    /// Changes an entry and puts it where it belongs then.
    fn change(&mut self, block: BlockNo, change: impl FnOnce(&mut Entry)) {
        let disk = usize::from(block >= self.second_disk);
        let Some(entry) = self.entries.get_mut(&block) else { return };
        match entry.listed.take() {
            Some((List::Clean, place)) => self.clean.remove(&place),
            Some((List::Dirty, place)) => self.dirty[disk].remove(&place),
            None => None,
        };
        self.dirty_blocks -= usize::from(entry.dirty);
        change(entry);
        self.dirty_blocks += usize::from(entry.dirty);
        if entry.pending > 0 || entry.destaging {
            return;
        }
        if entry.version == 0 {
            self.entries.remove(&block);
            return;
        }
        let place = self.next_place;
        self.next_place += 1;
        let list = if entry.dirty { List::Dirty } else { List::Clean };
        entry.listed = Some((list, place));
        match list {
            List::Clean => self.clean.insert(place, block),
            List::Dirty => self.dirty[disk].insert(place, block),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_comes_from_clean_copies_only() {
        let mut cache = Cache::new(2, 100);
        assert!(cache.reserve(&[1, 2]));
        assert!(!cache.reserve(&[3]));
        cache.written(1, 1, true);
        cache.written(2, 1, true);
        assert!(!cache.reserve(&[3]), "both are dirty");
        assert_eq!(cache.take_to_destage(0, |block| block != 1), Some(2));
        cache.destaged(2, 1);
        assert!(!cache.reserve(&[2, 3]), "2 cannot make room for its own write");
        assert!(cache.reserve(&[3]));
        assert!(!cache.must_take(2));
    }

    #[test]
    fn the_newest_version_counts_whatever_comes_last() {
        let mut cache = Cache::new(2, 100);
        assert!(cache.reserve(&[1]) && cache.reserve(&[1]));
        cache.written(1, 9, true);
        cache.written(1, 5, true);
        assert_eq!(cache.dirty_version(1), Some(9));
        assert_eq!(cache.take_to_destage(0, |_| true), Some(1));
        assert!(cache.reserve(&[1]));
        cache.written(1, 12, true);
        cache.destaged(1, 9);
        assert_eq!(cache.dirty_version(1), Some(12), "it was written meanwhile");
        assert_eq!(cache.dirty_blocks(), 1);
    }

    #[test]
    fn a_failed_write_leaves_nothing() {
        let mut cache = Cache::new(1, 100);
        assert!(cache.reserve(&[1]));
        cache.written(1, 3, false);
        assert!(!cache.must_take(1));
        assert!(cache.reserve(&[2]));
    }
}
