//! Promotion: at the end of an interval the most popular blocks outside the SSD take free ways, or the
//! places of the least popular blocks inside (ETICA section 4.2.2).

use super::Etica;
use super::popularity::{Candidate, Classes};
use crate::effect::{Effect, Sink};

/// Candidates between the one that is decided and the one whose opponent is fetched from memory.
const PROMOTE_AHEAD: usize = 8;

impl Etica {
    /// One promotion interval's work.
    pub(super) fn promote<S: Sink>(&mut self, sink: &mut S) {
        self.popularity.drop_faded(&mut self.table.records);
        let evictable = self.popularity.inside.worst(self.config.queue_share);
        let queue = self.promotion_queue();
        if self.config.evict_literally {
            self.evict_the_worst(sink);
        }
        for (at, &candidate) in queue.iter().enumerate() {
            if let Some(later) = queue.get(at + PROMOTE_AHEAD) {
                let set = self.ssd.lists.geometry().set_of(later.block);
                self.ssd.prefetch_least_wanted(set, &self.table.records);
            }
            self.try_promote(candidate, evictable, sink);
        }
        if let Some(factor) = self.popularity.age(&mut self.table.records) {
            self.ssd.scale(factor);
        }
    }

    /// The candidates of the best classes, most popular first, less those whose set holds nothing that
    /// is less popular.
    fn promotion_queue(&self) -> Vec<Candidate> {
        let Some(class) = self.popularity.outside.best(self.config.queue_share) else {
            return Vec::new();
        };
        let least = class_floor(class);
        let candidates = self.popularity.candidates.iter().copied();
        let mut queue: Vec<Candidate> =
            candidates.filter(|candidate| candidate.score >= least && self.has_a_chance(candidate)).collect();
        queue.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.block.cmp(&b.block)));
        queue
    }

    /// Whether the candidate's set has a free way or may hold something less popular. Under literal
    /// eviction room is made after this question is asked, so that every candidate has a chance.
    fn has_a_chance(&self, candidate: &Candidate) -> bool {
        let set = self.ssd.lists.geometry().set_of(candidate.block);
        let below = self.ssd.lower_bound(set).is_some_and(|bound| candidate.score > bound);
        !self.ssd.lists.is_closed(set)
            && (below || self.config.evict_literally || !self.ssd.lists.is_full(set))
    }

    fn try_promote<S: Sink>(&mut self, candidate: Candidate, evictable: Option<u32>, sink: &mut S) {
        let Candidate { block, score, id } = candidate;
        let set = self.ssd.lists.geometry().set_of(block);
        if self.ssd.lists.is_full(set) {
            let victim = self.ssd.least_wanted(set, &self.table.records);
            let may_leave = evictable.is_some_and(|class| Classes::of(victim.score) <= class);
            if !may_leave || score <= victim.score {
                return;
            }
            self.evict_from_ssd(victim.slot, sink);
        }
        let slot = self.put_in_ssd(id);
        let from_dram = self.table.records[id as usize].dram_slot();
        sink.effect(Effect::Promote { slot, block, from_dram });
    }

    /// `evict=literal`: the worst share of the SSD's blocks leaves whether or not anything wants in.
    fn evict_the_worst<S: Sink>(&mut self, sink: &mut S) {
        let count = (f64::from(self.ssd.lists.len()) * self.config.queue_share).ceil() as usize;
        let mut all: Vec<(f32, u64, u32)> = (0..self.ssd.lists.geometry().sets())
            .flat_map(|set| self.ssd.lists.from_oldest(set))
            .map(|slot| {
                let record = &self.table.records[self.ssd.lists.value(slot) as usize];
                (record.score, record.block, slot)
            })
            .collect();
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, _, slot) in all.into_iter().take(count) {
            self.evict_from_ssd(slot, sink);
        }
    }
}

/// The lowest score of a class.
fn class_floor(class: u32) -> f32 {
    f32::from_bits(class << (23 - Classes::KEPT_MANTISSA_BITS))
}
