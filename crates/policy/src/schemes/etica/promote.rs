//! Promotion: at the end of an interval the most popular blocks outside the SSD take free ways, or the
//! places of the least popular blocks inside (ETICA section 4.2.2).

use lode_types::Level;

use super::Etica;
use super::popularity::{Candidate, Classes};
use crate::effect::{CopyReason, CopySource, Effect, Sink};

/// Candidates that are looked ahead at together: enough that memory has answered one look when the next one comes.
const GROUP: usize = 32;

impl Etica {
    /// One promotion interval's work.
    pub(super) fn promote<S: Sink>(&mut self, sink: &mut S) {
        self.popularity.drop_faded(&mut self.table.records);
        let evictable = self.popularity.inside.worst(self.config.queue_share);
        let queue = self.promotion_queue();
        if self.config.evict_literally {
            self.evict_the_worst(sink);
        }
        for group in queue.chunks(GROUP) {
            self.look_ahead(group);
            group.iter().for_each(|&candidate| self.try_promote(candidate, evictable, sink));
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
        let mut queue: Vec<Candidate> = candidates.filter(|candidate| candidate.score >= least).collect();
        queue.iter().for_each(|candidate| self.ssd.prefetch_bound(self.ssd_set(candidate)));
        queue.retain(|candidate| self.has_a_chance(candidate));
        queue.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.block.cmp(&b.block)));
        queue
    }

    /// Brings nearer what the decisions about these candidates need, look by look as in [`Scheme::announce`].
    fn look_ahead(&self, group: &[Candidate]) {
        let records = &self.table.records;
        let sets = || group.iter().map(|candidate| self.ssd_set(candidate));
        group.iter().for_each(|candidate| self.table.records.prefetch(candidate.id));
        sets().for_each(|set| self.ssd.prefetch_least_wanted(set, records));
        sets().for_each(|set| self.ssd.prefetch_slot(set, records));
        sets().for_each(|set| self.ssd.prefetch_neighbours(set, records));
    }

    fn ssd_set(&self, candidate: &Candidate) -> u32 {
        self.ssd.lists.geometry().set_of(candidate.block)
    }

    /// Whether the candidate's set has a free way or may hold something less popular. Under literal
    /// eviction room is made after this question is asked, so that every candidate has a chance.
    fn has_a_chance(&self, candidate: &Candidate) -> bool {
        let set = self.ssd_set(candidate);
        let below =
            self.ssd.lower_bound(set, &self.table.records).is_some_and(|bound| candidate.score > bound);
        !self.ssd.lists.is_closed(set)
            && (below || self.config.evict_literally || !self.ssd.lists.is_full(set))
    }

    fn try_promote<S: Sink>(&mut self, candidate: Candidate, evictable: Option<u32>, sink: &mut S) {
        let Candidate { block, score, id } = candidate;
        let set = self.ssd_set(&candidate);
        if self.ssd.lists.is_full(set) {
            let victim = self.ssd.least_wanted(set, &self.table.records);
            let may_leave = evictable.is_some_and(|class| Classes::of(victim.score) <= class);
            if !may_leave || score <= victim.score {
                return;
            }
            self.evict_from_ssd(victim.slot, sink);
        }
        let slot = self.put_in_ssd(id);
        let from = match self.table.records[id as usize].dram_slot() {
            Some(slot) => CopySource::Level { level: Level::Dram, slot },
            None => CopySource::Backing,
        };
        let reason = CopyReason::Promotion;
        sink.effect(Effect::Copy { to: Level::Ssd, slot, block, from, reason });
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
