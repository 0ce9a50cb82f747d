//! One level as the write-policy table of ETICA section 3 has it, over any plain replacement.

use lode_policy::Counters;
use lode_types::{BlockNo, Level};

use super::level::{Entry, PlainLevel};
use crate::driver::{Observed, Residents, Step};

/// Which blocks there are and which one leaves, by scans.
pub trait PlainReplacement {
    /// The cached blocks, in any order.
    fn entries(&mut self) -> Vec<&mut Entry>;
    /// Any access, before everything else.
    fn note(&mut self, _block: BlockNo) {}
    /// Marks a block's copy.
    fn set_dirty(&mut self, block: BlockNo, dirty: bool) {
        let entries = self.entries().into_iter();
        entries.filter(|entry| entry.block == block).for_each(|entry| entry.dirty = dirty);
    }
    /// A cached block is hit.
    fn touch(&mut self, block: BlockNo);
    /// Caches a block, clean, and says what left for it; `None` if there is no room at all.
    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>>;
    /// Caches a block if that is possible without an eviction.
    fn restore(&mut self, block: BlockNo) -> bool;
    /// Forgets a block, cached or not.
    fn remove(&mut self, block: BlockNo);
    /// Changes the size and says what left.
    fn resize(&mut self, blocks: u32) -> Vec<Entry>;
}

/// LRU or FIFO within each set.
#[derive(Debug)]
pub struct PlainSets {
    pub level: PlainLevel,
    pub lru: bool,
}

impl PlainReplacement for PlainSets {
    fn entries(&mut self) -> Vec<&mut Entry> {
        self.level.rows.iter_mut().flatten().collect()
    }

    fn touch(&mut self, block: BlockNo) {
        if self.lru {
            self.level.touch(block);
        }
    }

    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>> {
        if self.level.is_closed(block) {
            return None;
        }
        let mut gone = Vec::new();
        if self.level.is_full(block) {
            let set = self.level.set_of(block);
            gone.push(self.level.rows[set].remove(0));
        }
        self.level.push(block, false);
        Some(gone)
    }

    fn restore(&mut self, block: BlockNo) -> bool {
        let fits = !self.level.is_full(block);
        if fits {
            self.level.push(block, false);
        }
        fits
    }

    fn remove(&mut self, block: BlockNo) {
        self.level.remove(block);
    }

    fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        self.level.resize(blocks)
    }
}

#[derive(Debug)]
pub struct PlainOneLevel<R> {
    pub replacement: R,
    pub counters: Counters,
    policy: String,
}

impl<R: PlainReplacement> PlainOneLevel<R> {
    pub fn new(replacement: R, policy: &str) -> PlainOneLevel<R> {
        PlainOneLevel { replacement, counters: Counters::default(), policy: policy.to_owned() }
    }

    pub fn set_policy(&mut self, policy: &str) {
        self.policy = policy.to_owned();
    }

    /// Writes back what is dirty and leaves it there, in the order of the entries.
    pub fn clean_all(&mut self) -> Vec<Observed> {
        let dirty = self.replacement.entries().into_iter().filter(|entry| entry.dirty);
        let cleaned = dirty
            .map(|entry| {
                entry.dirty = false;
                entry.block
            })
            .collect();
        self.cleaned(cleaned)
    }

    /// Counts blocks that were marked clean, because they are written back.
    pub fn cleaned(&mut self, blocks: Vec<BlockNo>) -> Vec<Observed> {
        self.counters.write_backs += blocks.len() as u64;
        self.counters.backing_writes += blocks.len() as u64;
        blocks.into_iter().map(Observed::Clean).collect()
    }

    fn is(&self, policies: &[&str]) -> bool {
        policies.contains(&self.policy.as_str())
    }

    pub fn residents(&mut self) -> Residents {
        self.replacement.entries().iter().map(|entry| (entry.block, entry.dirty)).collect()
    }

    fn holds(&mut self, block: BlockNo) -> bool {
        self.residents().contains_key(&block)
    }

    fn set_dirty(&mut self, block: BlockNo, dirty: bool) {
        self.replacement.set_dirty(block, dirty);
    }

    /// Counts entries that gave way.
    pub fn evicted(&mut self, gone: Vec<Entry>) -> Vec<Observed> {
        self.counters.evictions[Level::Ssd.index()] += gone.len() as u64;
        let dirty = gone.iter().filter(|entry| entry.dirty).count() as u64;
        self.counters.write_backs += dirty;
        self.counters.backing_writes += dirty;
        let observed =
            |entry: Entry| Observed::Evict { level: Level::Ssd, block: entry.block, dirty: entry.dirty };
        gone.into_iter().map(observed).collect()
    }

    /// Puts the block there, if there is room at all.
    fn allocate(&mut self, block: BlockNo, observed: &mut Vec<Observed>) -> bool {
        let Some(gone) = self.replacement.admit(block) else { return false };
        observed.extend(self.evicted(gone));
        true
    }

    fn read(&mut self, block: BlockNo) -> Vec<Observed> {
        self.counters.block_reads += 1;
        if self.holds(block) {
            self.counters.read_hits[Level::Ssd.index()] += 1;
            self.replacement.touch(block);
            return vec![Observed::ReadLevel(Level::Ssd)];
        }
        self.counters.read_misses += 1;
        self.counters.backing_reads += 1;
        let mut observed = vec![Observed::ReadBacking];
        if !self.is(&["wbwo", "pt"]) && self.allocate(block, &mut observed) {
            self.counters.ssd_writes.fill += 1;
            observed.push(Observed::Fill(Level::Ssd));
        }
        observed
    }

    fn write(&mut self, block: BlockNo, partial: bool) -> Vec<Observed> {
        self.counters.block_writes += 1;
        let mut observed = Vec::new();
        let hit = self.holds(block);
        let dirty = self.is(&["wb", "wbwo"]);
        let mut into_cache = false;
        if self.is(&["ro", "pt"]) {
            if hit {
                self.replacement.remove(block);
                observed.push(Observed::Invalidate(Level::Ssd));
            }
        } else if hit {
            into_cache = true;
            self.replacement.touch(block);
        } else if !self.is(&["wa"]) {
            into_cache = self.allocate(block, &mut observed);
        }
        if into_cache {
            if partial && hit {
                observed.push(Observed::MergeLevel(Level::Ssd));
            } else if partial {
                self.counters.backing_reads += 1;
                observed.push(Observed::MergeBacking);
            }
            if dirty {
                self.set_dirty(block, true);
            }
            self.counters.ssd_writes.write += 1;
            self.counters.write_hits_ssd += u64::from(hit);
            observed.push(Observed::WriteLevel { hit, dirty });
        }
        if !(into_cache && dirty) {
            self.counters.backing_writes += 1;
            observed.push(Observed::WriteBacking);
        }
        observed
    }

    pub fn step(&mut self, step: Step) -> Vec<Observed> {
        if let Step::Read(block) | Step::Write(block, _) = step {
            self.replacement.note(block);
        }
        match step {
            Step::Read(block) => self.read(block),
            Step::Write(block, partial) => self.write(block, partial),
            Step::EndRequest => {
                self.counters.requests += 1;
                Vec::new()
            }
            Step::Discard(block) => {
                let hit = self.holds(block);
                self.replacement.remove(block);
                hit.then_some(Observed::Invalidate(Level::Ssd)).into_iter().collect()
            }
            Step::Forget(level, block) => {
                if level == Level::Ssd && self.holds(block) {
                    self.replacement.remove(block);
                }
                Vec::new()
            }
            Step::Cleaned(block) => {
                self.set_dirty(block, false);
                Vec::new()
            }
            Step::Restore(block, dirty) => {
                let unwelcome = dirty && !self.is(&["wb", "wbwo"]);
                let fits = !unwelcome && !self.holds(block) && self.replacement.restore(block);
                if fits {
                    self.set_dirty(block, dirty);
                }
                vec![Observed::Restored(fits)]
            }
            Step::Resize(quota) => {
                let gone = self.replacement.resize(quota.ssd_blocks);
                self.evicted(gone)
            }
        }
    }
}
