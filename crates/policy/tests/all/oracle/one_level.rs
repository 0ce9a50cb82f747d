//! One level as the write-policy table of ETICA section 3 has it.

use lode_policy::Counters;
use lode_types::{BlockNo, Level};

use super::level::PlainLevel;
use crate::driver::{Said, Step};

#[derive(Debug)]
pub struct PlainOneLevel {
    pub level: PlainLevel,
    pub counters: Counters,
    policy: String,
    lru: bool,
}

impl PlainOneLevel {
    pub fn new(level: PlainLevel, policy: &str, lru: bool) -> PlainOneLevel {
        PlainOneLevel { level, counters: Counters::default(), policy: policy.to_owned(), lru }
    }

    fn is(&self, policies: &[&str]) -> bool {
        policies.contains(&self.policy.as_str())
    }

    fn evict(&mut self, set: usize) -> Said {
        let entry = self.level.rows[set].remove(0);
        self.counters.evictions[Level::Ssd.index()] += 1;
        if entry.dirty {
            self.counters.write_backs += 1;
            self.counters.backing_writes += 1;
        }
        Said::Evict { level: Level::Ssd, block: entry.block, dirty: entry.dirty }
    }

    /// Puts the block there, if its set has ways at all.
    fn allocate(&mut self, block: BlockNo, said: &mut Vec<Said>) -> bool {
        if self.level.is_closed(block) {
            return false;
        }
        if self.level.is_full(block) {
            said.push(self.evict(self.level.set_of(block)));
        }
        self.level.push(block, false);
        true
    }

    fn read(&mut self, block: BlockNo) -> Vec<Said> {
        self.counters.block_reads += 1;
        if self.level.find(block).is_some() {
            self.counters.read_hits[Level::Ssd.index()] += 1;
            if self.lru {
                self.level.touch(block);
            }
            return vec![Said::ReadLevel(Level::Ssd)];
        }
        self.counters.read_misses += 1;
        self.counters.backing_reads += 1;
        let mut said = vec![Said::ReadBacking];
        if !self.is(&["wbwo"]) && self.allocate(block, &mut said) {
            self.counters.ssd_writes.fill += 1;
            said.push(Said::Fill(Level::Ssd));
        }
        said
    }

    fn write(&mut self, block: BlockNo, partial: bool) -> Vec<Said> {
        self.counters.block_writes += 1;
        let mut said = Vec::new();
        let hit = self.level.find(block).is_some();
        let dirty = self.is(&["wb", "wbwo"]);
        let mut into_cache = false;
        if self.is(&["ro"]) {
            if self.level.remove(block).is_some() {
                said.push(Said::Invalidate(Level::Ssd));
            }
        } else if hit {
            into_cache = true;
            if self.lru {
                self.level.touch(block);
            }
        } else if !self.is(&["wa"]) {
            into_cache = self.allocate(block, &mut said);
        }
        if into_cache {
            if partial && hit {
                said.push(Said::MergeLevel(Level::Ssd));
            } else if partial {
                self.counters.backing_reads += 1;
                said.push(Said::MergeBacking);
            }
            if dirty {
                self.level.set_dirty(block, true);
            }
            self.counters.ssd_writes.write += 1;
            self.counters.write_hits_ssd += u64::from(hit);
            said.push(Said::WriteLevel { hit, dirty });
        }
        if !(into_cache && dirty) {
            self.counters.backing_writes += 1;
            said.push(Said::WriteBacking);
        }
        said
    }

    pub fn step(&mut self, step: Step) -> Vec<Said> {
        match step {
            Step::Read(block) => self.read(block),
            Step::Write(block, partial) => self.write(block, partial),
            Step::EndRequest => {
                self.counters.requests += 1;
                Vec::new()
            }
            Step::Discard(block) => {
                self.level.remove(block).map(|_| Said::Invalidate(Level::Ssd)).into_iter().collect()
            }
            Step::Forget(level, block) => {
                if level == Level::Ssd {
                    self.level.remove(block);
                }
                Vec::new()
            }
            Step::Cleaned(block) => {
                self.level.set_dirty(block, false);
                Vec::new()
            }
            Step::Restore(block, dirty) => {
                let unwelcome = dirty && !self.is(&["wb", "wbwo"]);
                let fits = !self.level.is_full(block) && self.level.find(block).is_none() && !unwelcome;
                if fits {
                    self.level.push(block, dirty);
                }
                vec![Said::Restored(fits)]
            }
            Step::Resize(quota) => {
                self.level.regroup(quota.ssd_blocks);
                let mut said = Vec::new();
                for set in 0..self.level.rows.len() {
                    while self.level.rows[set].len() > self.level.ways(set) {
                        said.push(self.evict(set));
                    }
                }
                said
            }
        }
    }
}
