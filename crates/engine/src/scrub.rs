//! Scrubbing: every block on the SSD is read and compared with its checksum within a period, so that damage is found while what
//! it can be repaired from is still there. It goes through the SSD's slots, a few reads at a time, in even steps. It must not know
//! bytes, devices or clocks; a tick of about a second tells it time.

use lode_types::Counter;

/// Reads under way at once: a guest's read waits behind few of them at the device.
const MOST_UNDER_WAY: u32 = 4;
/// Slots that are looked at in one turn of the engine.
pub(crate) const LOOKS_PER_TURN: u32 = 1024;

/// Where a pass over the SSD is, and how fast it goes.
#[derive(Debug, Default)]
pub(crate) struct Scrub {
    /// A pass takes so many ticks; without it there is none.
    period_ticks: Option<u32>,
    /// The slot that is looked at next.
    cursor: u32,
    /// Slots that are due, and what is left of them in parts of the period.
    due_slots: u32,
    due_remainder: u64,
    under_way: u32,
    scrubbed_blocks: u64,
    passes: u64,
}

impl Scrub {
    pub(crate) fn new(period_ticks: Option<u32>) -> Scrub {
        Scrub { period_ticks, ..Scrub::default() }
    }

    /// Changes the period. What is under way comes to its end.
    pub(crate) fn set_period(&mut self, period_ticks: Option<u32>) {
        *self = Scrub { period_ticks, due_slots: 0, due_remainder: 0, ..std::mem::take(self) };
    }

    /// About a second has gone by. What an SSD is too slow for is put off, up to one pass.
    pub(crate) fn tick(&mut self, slots: u32) {
        let Some(period_ticks) = self.period_ticks else { return };
        let period = u64::from(period_ticks.max(1));
        self.due_remainder += u64::from(slots);
        let due = u64::from(self.due_slots) + self.due_remainder / period;
        self.due_remainder %= period;
        self.due_slots = due.min(slots.into()) as u32;
    }

    /// The slot that is looked at now, of so many.
    pub(crate) fn next(&mut self, slots: u32) -> Option<u32> {
        if self.due_slots == 0 || self.under_way >= MOST_UNDER_WAY || slots == 0 {
            return None;
        }
        self.due_slots -= 1;
        let slot = if self.cursor < slots { self.cursor } else { 0 };
        self.cursor = slot + 1;
        self.passes += u64::from(self.cursor == slots);
        Some(slot)
    }

    /// A block is to be compared with its checksum.
    pub(crate) fn begun(&mut self) {
        self.under_way += 1;
    }

    /// A block was compared with its checksum, or had left its place by then.
    pub(crate) fn ended(&mut self) {
        self.under_way.count_down();
        self.scrubbed_blocks += 1;
    }

    /// Blocks that were compared with their checksums.
    pub(crate) fn scrubbed_blocks(&self) -> u64 {
        self.scrubbed_blocks
    }

    /// How often all of them were.
    pub(crate) fn passes(&self) -> u64 {
        self.passes
    }

    /// Slots mean other blocks now: the pass begins anew.
    pub(crate) fn forget_slots(&mut self) {
        self.cursor = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots that are looked at in each of these ticks, when every look ends at once.
    fn looked_at(scrub: &mut Scrub, slots: u32, ticks: usize) -> Vec<Vec<u32>> {
        let tick = |_| {
            scrub.tick(slots);
            std::iter::from_fn(|| scrub.next(slots)).collect()
        };
        (0..ticks).map(tick).collect()
    }

    #[test]
    fn a_pass_takes_its_period_in_even_steps() {
        let mut scrub = Scrub::new(Some(4));
        let looks = looked_at(&mut scrub, 10, 8);
        let per_tick: Vec<usize> = looks.iter().map(Vec::len).collect();
        assert_eq!(per_tick, [2, 3, 2, 3, 2, 3, 2, 3]);
        let all: Vec<u32> = looks.concat();
        let twice: Vec<u32> = (0..10).chain(0..10).collect();
        assert_eq!((all, scrub.passes), (twice, 2));
    }

    #[test]
    fn few_reads_are_under_way_and_no_more_than_a_pass_is_put_off() {
        let mut scrub = Scrub::new(Some(1));
        (0..5).for_each(|_| scrub.tick(100));
        assert_eq!(scrub.due_slots, 100);
        scrub.under_way = MOST_UNDER_WAY;
        assert_eq!(scrub.next(100), None);
        scrub.ended();
        assert_eq!(scrub.next(100), Some(0));
        // The SSD's share has become smaller.
        scrub.cursor = 50;
        assert_eq!(scrub.next(20), Some(0));
        assert_eq!(scrub.next(0), None);
    }

    #[test]
    fn without_a_period_nothing_is_due() {
        let mut scrub = Scrub::new(None);
        assert_eq!(looked_at(&mut scrub, 10, 3).concat(), []);
        scrub.set_period(Some(1));
        assert_eq!(looked_at(&mut scrub, 10, 1).concat().len(), 10);
        scrub.tick(10);
        scrub.set_period(None);
        assert_eq!(scrub.next(10), None, "what was due is not any more");
    }
}
