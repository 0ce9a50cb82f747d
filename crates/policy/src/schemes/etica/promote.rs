//! Promotion: at the end of an interval the most popular blocks outside the SSD take free ways, or the
//! places of the least popular blocks inside (ETICA section 4.2.2).

use std::cmp::Ordering;

use lode_types::Level;

use super::Etica;
use super::popularity::{Candidate, Classes};
use super::records::Standing;
use crate::effect::{CopyReason, CopySource, Effect, Sink};

/// Candidates that are looked ahead at together: enough that memory has answered one look when the next one comes.
const GROUP: usize = 32;

impl Etica {
    /// One promotion interval's work.
    pub(super) fn promote<S: Sink>(&mut self, sink: &mut S) {
        self.popularity.drop_faded(&mut self.table.records);
        let evictable = self.mark_the_worst();
        let queue = self.promotion_queue(evictable);
        if self.config.evict_literally {
            self.evict_the_worst(sink);
        }
        for group in queue.chunks(GROUP) {
            self.prefetch_for(group);
            group.iter().for_each(|&candidate| self.try_promote(candidate, evictable, sink));
        }
        if let Some(factor) = self.popularity.age(&mut self.table.records) {
            self.ssd.scale(factor);
        }
    }

    /// Finds the eviction queue, and says up to which standing blocks may leave for others.
    fn mark_the_worst(&mut self) -> Standing {
        let count = self.ssd.lists.len() as usize;
        let wanted = self.config.queue_share.of(count);
        let all = || self.ssd.standings(&self.table.records);
        let mark = self.popularity.inside.mark((wanted, count), self.now + 1, &self.table.records, all);
        match (self.config.evict_literally, self.config.whole_classes && wanted > 0) {
            // They leave before anything asks for their places, and nothing else does.
            (true, _) => Standing::default(),
            (false, true) => Standing::new(class_floor(Classes::of(mark.score()) + 1), 0),
            (false, false) => mark,
        }
    }

    /// The promotion queue, most popular first, less those whose set holds nothing that is less popular.
    fn promotion_queue(&self, evictable: Standing) -> Vec<Candidate> {
        let Some((class, wanted)) = self.popularity.outside.best(self.config.queue_share) else {
            return Vec::new();
        };
        let (least, above) = (class_floor(class), class_floor(class + 1));
        let (mut queue, mut last) = (Vec::new(), Vec::new());
        for candidate in self.popularity.candidates.iter().filter(|candidate| candidate.score >= least) {
            let of_class = if candidate.score < above { &mut last } else { &mut queue };
            of_class.push(*candidate);
        }
        if wanted < last.len() && !self.config.whole_classes {
            last.select_nth_unstable_by(wanted, |a, b| self.in_turn(a, b));
            last.truncate(wanted);
        }
        queue.append(&mut last);
        queue.iter().for_each(|candidate| self.ssd.prefetch_bound(self.ssd_set(candidate)));
        queue.retain(|candidate| self.has_a_chance(candidate, evictable));
        queue.sort_unstable_by(|a, b| self.in_turn(a, b));
        queue
    }

    /// The order of promotion: by score, of equal ones the oldest access first. A later one is more likely in DRAM.
    fn in_turn(&self, a: &Candidate, b: &Candidate) -> Ordering {
        let seen = |candidate: &Candidate| self.table.records[candidate.id as usize].seen();
        b.score.total_cmp(&a.score).then_with(|| seen(a).cmp(&seen(b)))
    }

    /// Brings nearer what the decisions about these candidates need, step by step as in [`Prefetch`](crate::Prefetch).
    fn prefetch_for(&self, group: &[Candidate]) {
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

    /// Whether the candidate's set has a free way or may hold something less popular that may leave. Under literal
    /// eviction room is made after this question is asked, so that every candidate has a chance.
    fn has_a_chance(&self, candidate: &Candidate, evictable: Standing) -> bool {
        let set = self.ssd_set(candidate);
        let is_above = |bound: Standing| bound <= evictable && bound.score() < candidate.score;
        let below = self.ssd.lower_bound(set, &self.table.records).is_some_and(is_above);
        !self.ssd.lists.is_closed(set)
            && (below || self.config.evict_literally || !self.ssd.lists.is_full(set))
    }

    fn try_promote<S: Sink>(&mut self, candidate: Candidate, evictable: Standing, sink: &mut S) {
        let Candidate { block, score, id } = candidate;
        let set = self.ssd_set(&candidate);
        if self.ssd.lists.is_full(set) {
            let may_leave = |standing: Standing| standing <= evictable && standing.score() < score;
            let Some(victim) = self.ssd.least_below(set, &self.table.records, may_leave) else { return };
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
        for id in self.popularity.inside.marked(&self.table.records) {
            if let Some(slot) = self.table.records[id as usize].ssd_slot() {
                self.evict_from_ssd(slot, sink);
            }
        }
    }
}

/// The lowest score of a class.
fn class_floor(class: u32) -> f32 {
    f32::from_bits(class << (23 - Classes::KEPT_MANTISSA_BITS))
}
