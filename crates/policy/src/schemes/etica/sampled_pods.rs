//! Policy-optimised reuse distances of a sample of the blocks: the same [`Pods`] over the records of those alone.
//!
//! It must not know what the levels hold.

use lode_types::{BlockNo, Direction};

use super::config::{Config, track_limit};
use super::pod::Pods;
use super::records::LAST_NUMBER;
use super::table::Table;
use crate::parts::sampling::Sampling;
use crate::prefetch::PrefetchHint;
use crate::quota::Quota;
use crate::scheme::{LevelDemand, Points};
use crate::settings::Settings;

/// The followed blocks and their distances.
#[derive(Debug)]
pub(super) struct SampledPods {
    sampling: Sampling,
    table: Table,
    pods: Pods,
    /// Number of the latest access to a followed block, from 1.
    now: u32,
    /// Blocks that were last accessed so many of those ago may be forgotten.
    old: u32,
}

impl SampledPods {
    /// # Panics
    /// When the settings ask for the distances of all blocks.
    pub(super) fn new(settings: &Settings, config: &Config, physical: Quota) -> SampledPods {
        let sampling = Sampling::new(settings, track_limit(settings, physical));
        let sampling = sampling.expect("the settings ask for a sample");
        let limit = sampling.most_blocks();
        SampledPods { sampling, table: Table::new(limit), pods: Pods::of_sample(config), now: 0, old: limit }
    }

    /// Notes an access.
    #[inline]
    pub(super) fn note(&mut self, block: BlockNo, op: Direction, dram_hit: bool) {
        let is_followed = self.sampling.follows(block);
        if op == Direction::Read {
            self.pods.note_read(is_followed);
        }
        if is_followed {
            self.follow(block, op, dram_hit);
        }
    }

    fn follow(&mut self, block: BlockNo, op: Direction, dram_hit: bool) {
        self.pods.make_room(&mut self.table.records);
        if self.now == LAST_NUMBER {
            (self.now, _) = self.table.renumber(0);
        }
        self.now += 1;
        let hint = PrefetchHint::new(block);
        let known = self.table.find(hint, block);
        let id = known.unwrap_or_else(|| self.add(hint, block));
        let record = &mut self.table.records[id as usize];
        record.set_seen(self.now);
        match op {
            Direction::Read => self.pods.read(record, id, dram_hit),
            Direction::Write => self.pods.write(record, id),
        };
        while self.sampling.lower(self.table.len()) {
            self.pods.set_rate(self.sampling.rate());
            let unfollowed: Vec<u32> = self
                .table
                .ids()
                .filter(|&id| !self.sampling.follows(self.table.records[id as usize].block))
                .collect();
            unfollowed.into_iter().for_each(|id| self.remove(id));
        }
    }

    fn add(&mut self, hint: PrefetchHint, block: BlockNo) -> u32 {
        if self.table.is_at_limit()
            && let Some(old) = self.table.oldest_outside(self.now.saturating_sub(self.old))
        {
            self.remove(old);
        }
        self.table.insert(hint.hash, block)
    }

    fn remove(&mut self, id: u32) {
        self.pods.forget(&self.table.records[id as usize], id);
        self.table.remove(id);
    }

    /// A block is as one never seen.
    pub(super) fn forget(&mut self, block: BlockNo) {
        if let Some(id) = self.table.find(PrefetchHint::new(block), block) {
            self.remove(id);
        }
    }

    /// What the window that ends now would have needed, DRAM first.
    pub(super) fn close_window(&mut self, accesses: u64, points: Points) -> [LevelDemand; 2] {
        self.pods.close_window(accesses, points)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.pods.memory_bytes()
    }
}
