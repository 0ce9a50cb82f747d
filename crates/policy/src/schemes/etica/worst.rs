//! The worst few percent of the blocks in the SSD, exactly so many, and known at the end of every promotion interval without
//! a look at all blocks. It must not know what makes a block popular.
//!
//! While a block is in the SSD its standing only rises, and mostly that of the better ones. A *mark* stands behind the worst
//! ones, and how many blocks stand no higher is counted as blocks rise, come and go. To move the mark, the next blocks above
//! or below it are looked at, in an order that was made by sorting the lower blocks once and that is never put right: where a
//! block does not stand any more where it stood, it is passed over, and what rose or came since is kept beside. A block that
//! stands above all that was sorted costs one comparison an access. When the order is used up, all blocks are looked at again:
//! each look at [`SPARE_PART`] blocks is paid for by one that was passed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::records::{Record, Records, Standing};

/// As large a part of the blocks is sorted beside the worst ones.
const SPARE_PART: usize = 4;

/// Entries between the one that is looked at and the one whose record is fetched.
const AHEAD: usize = 16;

/// Where a block stood when this was noted, and its record.
type Ranked = (Standing, u32);

/// Blocks of the SSD by standing, as far as they are among the worst.
#[derive(Debug, Default)]
pub(super) struct Worst {
    /// Where all blocks that stood no higher than `limit` once stood, sorted.
    sorted: Vec<Ranked>,
    /// How many of those are no higher than the mark.
    passed: usize,
    /// Where blocks stand, up to the limit, that came or rose since, by their side of the mark.
    below: BinaryHeap<Ranked>,
    above: BinaryHeap<Reverse<Ranked>>,
    /// Records of blocks that were accessed since the mark was set, and stood no higher than the limit before or on entering.
    /// Where they stand is only asked for when the mark is set again.
    risen: Vec<u32>,
    limit: Standing,
    mark: Standing,
    /// How many blocks stand no higher than the mark, without those that were accessed since it was set.
    marked: usize,
    /// Number of the first access since then.
    since: u32,
}

impl Worst {
    /// A block enters the SSD.
    #[inline]
    pub(super) fn enter(&mut self, standing: Standing, id: u32) {
        if standing > self.limit {
            return;
        }
        if standing.seen() >= self.since {
            self.note_risen(id);
        } else {
            self.keep((standing, id));
        }
    }

    /// A block leaves the SSD.
    #[inline]
    pub(super) fn leave(&mut self, standing: Standing) {
        let is_counted = (standing <= self.mark) & (standing.seen() < self.since);
        self.marked -= usize::from(is_counted);
    }

    /// A block is accessed. From where it stood in the SSD it will rise.
    #[inline(always)]
    pub(super) fn access(&mut self, record: &Record, id: u32) {
        let standing = record.standing();
        if (standing <= self.limit) & record.ssd_slot().is_some() {
            self.rise(standing, id);
        }
    }

    #[cold]
    fn rise(&mut self, before: Standing, id: u32) {
        if before.seen() < self.since {
            self.leave(before);
            self.note_risen(id);
        }
    }

    fn note_risen(&mut self, id: u32) {
        self.risen.push(id);
        self.give_up_when_long();
    }

    fn keep(&mut self, ranked: Ranked) {
        if ranked.0 <= self.mark {
            self.marked += 1;
            self.below.push(ranked);
        } else {
            self.above.push(Reverse(ranked));
        }
        self.give_up_when_long();
    }

    /// With more blocks beside the order than in it, it is better to sort again.
    fn give_up_when_long(&mut self) {
        if self.below.len() + self.above.len() + self.risen.len() > self.sorted.len() {
            self.clear();
        }
    }

    /// Notes where the blocks stand that were accessed.
    fn keep_risen(&mut self, records: &Records) {
        let mut risen = std::mem::take(&mut self.risen);
        risen.sort_unstable();
        risen.dedup();
        self.since = u32::MAX;
        for id in risen {
            self.enter(records[id as usize].standing_inside(), id);
        }
    }

    /// Forgets everything: standings changed in other ways than one by one.
    pub(super) fn clear(&mut self) {
        *self = Worst::default();
    }

    /// Sets the mark behind the worst `wanted` of `count` blocks, of which `all` gives each one's standing and record, and gives
    /// the standing of the best of those; without any, one that is below all. The next access will be number `next`.
    pub(super) fn mark<I: Iterator<Item = Ranked>>(
        &mut self,
        (wanted, count): (usize, usize),
        next: u32,
        records: &Records,
        all: impl FnOnce() -> I,
    ) -> Standing {
        let wanted = wanted.min(count);
        self.keep_risen(records);
        if !self.raise(wanted, records) {
            let kept = (wanted + count / SPARE_PART + 1).min(count);
            let mut all_ranked = Vec::with_capacity(count);
            all_ranked.extend(all());
            self.sort(kept, all_ranked);
            self.raise(wanted, records);
        }
        self.lower(wanted, records);
        self.since = next;
        self.mark
    }

    /// The records of the blocks up to the mark, the worst first.
    pub(super) fn marked(&self, records: &Records) -> Vec<u32> {
        let all_ranked = self.sorted[..self.passed].iter().chain(&self.below);
        let mut marked: Vec<Ranked> = all_ranked.copied().filter(|&ranked| holds(ranked, records)).collect();
        marked.sort_unstable();
        // A block that left and came back as it was is noted twice.
        marked.dedup();
        marked.into_iter().map(|(_, id)| id).collect()
    }

    fn sort(&mut self, kept: usize, mut all: Vec<Ranked>) {
        if kept < all.len() {
            all.select_nth_unstable_by_key(kept, |ranked| ranked.0);
            all.truncate(kept);
        }
        all.shrink_to_fit();
        all.sort_unstable_by_key(|ranked| ranked.0);
        let limit = all.last().map_or(Standing::default(), |highest| highest.0);
        *self = Worst { sorted: all, limit, ..Worst::default() };
    }

    /// Moves the mark up until `wanted` stand no higher, if so many are known.
    fn raise(&mut self, wanted: usize, records: &Records) -> bool {
        while self.marked < wanted {
            let sorted = self.sorted.get(self.passed).copied();
            let other = self.above.peek().map(|other| other.0);
            let ranked = match (sorted, other) {
                (Some(ranked), other) if other.is_none_or(|other| ranked <= other) => {
                    self.passed += 1;
                    if let Some(later) = self.sorted.get(self.passed + AHEAD) {
                        records.prefetch(later.1);
                    }
                    ranked
                }
                (_, Some(ranked)) => {
                    self.above.pop();
                    self.below.push(ranked);
                    ranked
                }
                (_, None) => return false,
            };
            // One that is noted twice counts once.
            if ranked.0 > self.mark && holds(ranked, records) {
                self.mark = ranked.0;
                self.marked += 1;
            }
        }
        true
    }

    /// Moves the mark down until it is at the best of `wanted` blocks that stand no higher.
    fn lower(&mut self, wanted: usize, records: &Records) {
        loop {
            let sorted = self.sorted[..self.passed].last().copied();
            let other = self.below.peek().copied();
            let Some(ranked) = sorted.max(other) else {
                self.mark = Standing::default();
                return;
            };
            let is_there = ranked.0 <= self.mark && holds(ranked, records);
            if is_there && self.marked == wanted {
                self.mark = ranked.0;
                return;
            }
            if is_there {
                self.mark = ranked.0.just_below();
                self.marked -= 1;
            }
            if sorted == Some(ranked) {
                self.passed -= 1;
            } else {
                self.below.pop();
                self.above.push(Reverse(ranked));
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let entries = self.sorted.capacity() + self.below.capacity() + self.above.capacity();
        entries * size_of::<Ranked>() + self.risen.capacity() * size_of::<u32>()
    }
}

/// Whether the block still is where it stood.
fn holds((standing, id): Ranked, records: &Records) -> bool {
    records[id as usize].standing_inside() == standing
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Blocks come, go, come back as they were and rise, by little and by much; every so often the worst are asked for.
        #[test]
        fn the_marked_are_the_least_of_a_sorted_list(
            steps in prop::collection::vec((0u8..12, 0usize..200, 0u8..4), 0..600),
            percent in prop::sample::select(vec![0usize, 1, 5, 50, 100]),
        ) {
            let (mut worst, mut records) = (Worst::default(), Records::default());
            let is_inside = |record: &Record| record.ssd_slot().is_some();
            for (number, (action, at, rise)) in (1u32..).zip(steps) {
                let of = |inside: bool| {
                    let fitting = (0..records.len()).filter(|&id| is_inside(&records[id]) == inside);
                    fitting.cycle().nth(at)
                };
                match (action, of(true), of(false)) {
                    (0..2, ..) => {
                        let id = records.len() as u32;
                        records.push(Record::new(id.into()));
                        let record = &mut records[id as usize];
                        record.score = rise.into();
                        record.set_seen(number);
                        record.set_ssd_slot(0);
                        worst.enter(record.standing(), id);
                    }
                    (2..4, Some(id), _) => {
                        records[id].clear_ssd();
                        worst.leave(records[id].standing());
                    }
                    (4..6, _, Some(id)) => {
                        records[id].set_ssd_slot(0);
                        worst.enter(records[id].standing(), id as u32);
                    }
                    (6..10, Some(id), _) => {
                        worst.access(&records[id], id as u32);
                        records[id].score += f32::from(rise);
                        records[id].set_seen(number);
                    }
                    (10, ..) if rise == 0 => worst.clear(),
                    _ => {
                        let inside = (0..records.len()).filter(|&id| is_inside(&records[id]));
                        let mut list: Vec<Ranked> = inside.map(|id| (records[id].standing(), id as u32)).collect();
                        let wanted = (list.len() * percent).div_ceil(100);
                        let mark = worst.mark((wanted, list.len()), number + 1, &records, || list.iter().copied());
                        list.sort_unstable();
                        prop_assert_eq!(mark, list[..wanted].last().map_or(Standing::default(), |last| last.0));
                        let least: Vec<u32> = list[..wanted].iter().map(|ranked| ranked.1).collect();
                        prop_assert_eq!(worst.marked(&records), least);
                    }
                }
            }
        }
    }
}
