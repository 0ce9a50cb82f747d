//! Background write-back: which dirty blocks are written back before anybody needs their space, when, and how many at a time.
//! It must not know bytes, devices or clocks; a tick of about a second tells it time.
//!
//! Dirty blocks are due when there are too many of them (the older half of what is looked at), when they were not written for
//! long, and all of them when no guest has asked for anything for a while. They are looked for by sweeps over the SSD's
//! slots, a slice at a time, and cleaned in ascending order of their blocks, as far as a sweep has found them. Guests have several
//! blocks for each that is cleaned, which takes processor and SSD from them; and while they read from the backing disk, few runs
//! of neighbours are written back at once, and then they have their turn first. Without guests, and when there are far too many
//! dirty blocks, there is no pause.

use std::collections::VecDeque;
use std::ops::Range;

use crate::drain::{Target, batch_len};

/// When dirty blocks are written back, beside what the scheme evicts or cleans and what drains ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBackLimits {
    /// Above so many dirty blocks the older ones are written back.
    pub dirty_limit_blocks: u32,
    /// Above so many, writes wait until some were written back, as long as the backing disk takes any.
    pub dirty_max_blocks: u32,
    /// Dirty blocks that were not written for longer are written back.
    pub age_ticks: Option<u32>,
    /// Without a request for so long, all are written back.
    pub idle_ticks: Option<u32>,
}

/// Slots that are looked at at once.
const SLICE: u32 = 2048;
/// Slices that may be looked at in a tick while guests are active.
const SLICES_PER_TICK: u32 = 16;
/// A sweep takes no more ticks than this.
const TICKS_PER_SWEEP: u32 = 64;
/// Steps in which age is measured.
const AGE_STEPS: u32 = 64;
/// Blocks that are enough to begin with, so that neighbours go together.
const ENOUGH: usize = 1024;
/// Runs of neighbours in a batch.
const RUNS_PER_BATCH: usize = 32;
/// The same while guests read from the disk, and how many of their reads come first for each of the runs.
const YIELDING_RUNS_PER_BATCH: usize = 8;
const READS_PER_RUN: u32 = 4;
/// Looks for dirty blocks in one turn of the engine, while guests are active.
const LOOKS_PER_TURN: u32 = 4;
/// The same while this one's are idle: others share its thread.
const LOOKS_WHEN_IDLE: u32 = 64;
/// Blocks of guests for each that is cleaned.
const BLOCKS_PER_CLEANED: u32 = 4;

/// Why a sweep is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Limit,
    Age,
    Idle,
}

#[derive(Debug)]
struct Sweep {
    reason: Reason,
    /// Later versions are not due.
    version: u64,
    slots_left: u32,
    /// What was found and is not begun; ascending once `ready`.
    found: VecDeque<Target>,
    ready: bool,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BackgroundNext {
    /// Nothing now.
    Wait,
    /// [`Background::found`] is to be told of the dirty copies in these slots up to this version.
    Look { slots: Range<u32>, version: u64 },
    /// These are cleaned.
    Clean(Vec<Target>),
}

/// What the volume is like now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackgroundFacts {
    /// Blocks that can be written back and are not under way to be superseded.
    pub(crate) dirty_blocks: u32,
    /// Slots of the SSD's level.
    pub(crate) slots: u32,
    /// Version of the latest record.
    pub(crate) version: u64,
}

/// Background write-back of a volume; without limits it does nothing.
#[derive(Debug, Default)]
pub(crate) struct Background {
    limits: Option<WriteBackLimits>,
    /// Versions at the steps in which age is measured, oldest first, and ticks until the next step.
    versions: VecDeque<u64>,
    ticks_to_step: u32,
    /// Versions up to here are too old, and no sweep for them has begun.
    too_old: Option<u64>,
    /// Ticks without a request.
    quiet_ticks: u32,
    over_limit: bool,
    sweep: Option<Sweep>,
    /// The slot that is looked at next, and slots that may still be looked at before the next tick.
    cursor: u32,
    slots_left: u32,
    /// Guests' reads of the backing disk that come before the next batch.
    reads_owed: u32,
    /// Guests' blocks that come before it.
    blocks_owed: u32,
    /// Whether guests read from the disk in this tick, and in the one before.
    disk_is_read: [bool; 2],
    /// Nothing is begun until the next tick: a write-back failed.
    paused: bool,
}

impl Background {
    pub(crate) fn new(limits: Option<WriteBackLimits>) -> Background {
        Background { limits, slots_left: SLICE * SLICES_PER_TICK, ..Background::default() }
    }

    /// Other limits from now on. What is known of ages stays, unless they are measured in other steps.
    pub(crate) fn set_limits(&mut self, limits: Option<WriteBackLimits>) {
        let age_ticks = |limits: Option<WriteBackLimits>| limits.and_then(|limits| limits.age_ticks);
        let is_same_age = age_ticks(self.limits) == age_ticks(limits);
        self.limits = limits;
        if !is_same_age {
            self.versions.clear();
            (self.ticks_to_step, self.too_old) = (0, None);
            self.sweep.take_if(|sweep| sweep.reason == Reason::Age);
        }
        if limits.is_none() {
            self.sweep = None;
        }
    }

    /// Whether writes have to wait, as long as write-backs are under way.
    pub(crate) fn is_over_max(&self, dirty_blocks: u32) -> bool {
        self.limits.is_some_and(|limits| dirty_blocks > limits.dirty_max_blocks)
    }

    /// Whether write-backs leave the disk to guests, who read from it.
    pub(crate) fn yields_to_guests(&self, dirty_blocks: u32) -> bool {
        self.sweep.is_some() && self.disk_is_read.contains(&true) && !self.is_urgent(dirty_blocks)
    }

    /// Half of the way from the limit to where writes wait.
    fn is_urgent(&self, dirty_blocks: u32) -> bool {
        let half_way = |limits: WriteBackLimits| limits.dirty_limit_blocks.midpoint(limits.dirty_max_blocks);
        self.limits.is_some_and(|limits| dirty_blocks >= half_way(limits))
    }

    /// Whether more is to come when what is under way has ended.
    pub(crate) fn goes_on(&self) -> bool {
        self.sweep.is_some()
    }

    /// Whether no guest has asked for anything for a while.
    pub(crate) fn is_idle(&self) -> bool {
        let limit = self.limits.and_then(|limits| limits.idle_ticks);
        limit.is_some_and(|limit| self.quiet_ticks > limit)
    }

    /// Looks for dirty blocks in one turn of the engine.
    pub(crate) fn looks_per_turn(&self) -> u32 {
        if self.is_idle() { LOOKS_WHEN_IDLE } else { LOOKS_PER_TURN }
    }

    /// A guest asks for something, of so many blocks.
    pub(crate) fn guest_asked(&mut self, blocks: u32) {
        self.quiet_ticks = 0;
        self.blocks_owed = self.blocks_owed.saturating_sub(blocks);
    }

    /// A guest's read of the backing disk has ended.
    pub(crate) fn disk_was_read(&mut self) {
        self.reads_owed = self.reads_owed.saturating_sub(1);
        self.disk_is_read[0] = true;
    }

    /// A cleaning has ended, of whomever.
    pub(crate) fn ended(&mut self, failed: bool) {
        self.paused |= failed;
    }

    /// About a second has gone by. True: what has the latest version now must be told from what comes later.
    pub(crate) fn tick(&mut self, facts: &BackgroundFacts) -> bool {
        let Some(limits) = self.limits else { return false };
        self.quiet_ticks = self.quiet_ticks.saturating_add(1);
        self.paused = false;
        (self.reads_owed, self.blocks_owed) = (0, 0);
        self.disk_is_read = [false, self.disk_is_read[0]];
        self.slots_left = (SLICE * SLICES_PER_TICK).max(facts.slots / TICKS_PER_SWEEP);
        limits.age_ticks.is_some_and(|age_ticks| self.note_age(age_ticks, facts.version))
    }

    /// Slots mean other blocks now: a sweep begins anew.
    pub(crate) fn forget_slots(&mut self) {
        if let Some(Sweep { reason: Reason::Age, version, .. }) = self.sweep.take() {
            self.too_old = self.too_old.or(Some(version));
        }
        self.cursor = 0;
    }

    fn note_age(&mut self, age_ticks: u32, version: u64) -> bool {
        if self.ticks_to_step > 1 {
            self.ticks_to_step -= 1;
            return false;
        }
        let step_ticks = age_ticks.div_ceil(AGE_STEPS).max(1);
        self.ticks_to_step = step_ticks;
        self.versions.push_back(version);
        if self.versions.len() > age_ticks.div_ceil(step_ticks) as usize {
            self.too_old = self.versions.pop_front();
        }
        true
    }

    /// What is next. To be asked again after it was done, while it is a look.
    pub(crate) fn next(&mut self, facts: &BackgroundFacts) -> BackgroundNext {
        let Some(limits) = self.limits.filter(|_| !self.paused) else { return BackgroundNext::Wait };
        self.review(facts, limits);
        let yields_to_guests = self.yields_to_guests(facts.dirty_blocks);
        let has_time = !self.is_idle() && !self.is_urgent(facts.dirty_blocks);
        let Some(sweep) = &mut self.sweep else { return BackgroundNext::Wait };
        // An age is a promise; a limit is one that the way to `dirty_max` is for.
        let is_paced = has_time && sweep.reason == Reason::Limit;
        sweep.ready &= !sweep.found.is_empty();
        if !sweep.ready {
            let may_look = sweep.slots_left > 0 && self.slots_left > 0;
            if may_look && sweep.found.len() < ENOUGH {
                return self.look(facts);
            }
            if sweep.found.is_empty() {
                self.sweep.take_if(|sweep| sweep.slots_left == 0);
                return BackgroundNext::Wait;
            }
            sweep.found.make_contiguous().sort_unstable_by_key(|target| target.block);
            sweep.ready = true;
        }
        if yields_to_guests && self.reads_owed > 0 || is_paced && self.blocks_owed > 0 {
            return BackgroundNext::Wait;
        }
        let most_runs = if yields_to_guests { YIELDING_RUNS_PER_BATCH } else { RUNS_PER_BATCH };
        let count = batch_len(sweep.found.make_contiguous(), most_runs);
        if yields_to_guests {
            self.reads_owed = most_runs as u32 * READS_PER_RUN;
        }
        if is_paced {
            self.blocks_owed = count as u32 * BLOCKS_PER_CLEANED;
        }
        BackgroundNext::Clean(sweep.found.drain(..count).collect())
    }

    /// Ends a sweep for which there is no reason any more, and begins one for which there is.
    fn review(&mut self, facts: &BackgroundFacts, limits: WriteBackLimits) {
        // Some less than the limit, so that the next write is not over it again.
        let low_blocks = limits.dirty_limit_blocks - limits.dirty_limit_blocks / 16;
        let limit_blocks = if self.over_limit { low_blocks } else { limits.dirty_limit_blocks };
        self.over_limit = facts.dirty_blocks > limit_blocks;
        let (over_limit, is_idle) = (self.over_limit, self.is_idle());
        let ended = self.sweep.take_if(|sweep| match sweep.reason {
            Reason::Limit => !over_limit,
            Reason::Idle => !is_idle,
            Reason::Age => over_limit,
        });
        if let Some(Sweep { reason: Reason::Age, version, .. }) = ended {
            // What it had not come to is still too old.
            self.too_old = self.too_old.or(Some(version));
        }
        if self.sweep.is_some() || facts.dirty_blocks == 0 {
            return;
        }
        let (reason, version) = match self.too_old {
            _ if is_idle => (Reason::Idle, facts.version),
            _ if over_limit => (Reason::Limit, facts.version),
            Some(version) => (Reason::Age, version),
            None => return,
        };
        if reason == Reason::Age {
            self.too_old = None;
        }
        let (slots_left, found) = (facts.slots, VecDeque::new());
        self.sweep = Some(Sweep { reason, version, slots_left, found, ready: false });
    }

    fn look(&mut self, facts: &BackgroundFacts) -> BackgroundNext {
        let Some(sweep) = &mut self.sweep else { return BackgroundNext::Wait };
        self.cursor = if self.cursor < facts.slots { self.cursor } else { 0 };
        let count = SLICE.min(sweep.slots_left).min(facts.slots - self.cursor);
        let slots = self.cursor..self.cursor + count;
        self.cursor = slots.end;
        sweep.slots_left -= count;
        self.slots_left = self.slots_left.saturating_sub(count);
        BackgroundNext::Look { slots, version: sweep.version }
    }

    /// What a look has found, and how old each is. Over the limit the older half of it is due.
    pub(crate) fn found<Age: Ord + Copy>(&mut self, mut targets: Vec<(Age, Target)>) {
        let Some(sweep) = &mut self.sweep else { return };
        if sweep.reason == Reason::Limit {
            targets.sort_unstable_by_key(|&(age, _)| age);
            targets.truncate(targets.len().div_ceil(2));
        }
        sweep.found.extend(targets.into_iter().map(|(_, target)| target));
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let found = self.sweep.as_ref().map_or(0, |sweep| sweep.found.capacity());
        found * size_of::<Target>() + self.versions.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: WriteBackLimits = WriteBackLimits {
        dirty_limit_blocks: 100,
        dirty_max_blocks: 200,
        age_ticks: Some(10),
        idle_ticks: Some(3),
    };

    fn facts(dirty_blocks: u32, version: u64) -> BackgroundFacts {
        BackgroundFacts { dirty_blocks, slots: 5000, version }
    }

    fn targets(versions: Range<u64>) -> Vec<(u64, Target)> {
        versions.map(|version| (version, Target { block: 3 * version, slot: None })).collect()
    }

    /// All that one sweep looks at, and the version up to which.
    fn sweep(background: &mut Background, facts: &BackgroundFacts) -> Option<(u32, u64)> {
        let mut swept = None;
        while let BackgroundNext::Look { slots, version } = background.next(facts) {
            let (count, _) = swept.unwrap_or((0, 0));
            swept = Some((count + slots.len() as u32, version));
        }
        swept
    }

    #[test]
    fn without_limits_nothing_is_written_back() {
        let mut background = Background::new(None);
        for _ in 0..100 {
            background.tick(&facts(5000, 1));
        }
        assert_eq!(background.next(&facts(5000, 1)), BackgroundNext::Wait);
        assert!(!background.is_over_max(u32::MAX) && !background.goes_on());
    }

    #[test]
    fn beyond_the_limit_the_older_half_goes_until_there_are_few_enough() {
        let mut background = Background::new(Some(LIMITS));
        background.tick(&facts(0, 0));
        background.guest_asked(1);
        assert_eq!(background.next(&facts(100, 9)), BackgroundNext::Wait);
        assert_eq!(background.next(&facts(101, 9)), BackgroundNext::Look { slots: 0..SLICE, version: 9 });
        background.found(targets(0..9).into_iter().rev().collect());
        while matches!(background.next(&facts(101, 9)), BackgroundNext::Look { .. }) {}
        // Found, in order, and taken from the sweep: what is next is the end of it.
        (background.sweep, background.blocks_owed) = (None, 0);
        background.next(&facts(101, 9));
        background.found(targets(0..9).into_iter().rev().collect());
        background.slots_left = 0;
        let BackgroundNext::Clean(batch) = background.next(&facts(101, 9)) else { panic!("five are due") };
        assert_eq!(batch.iter().map(|target| target.block).collect::<Vec<_>>(), [0, 3, 6, 9, 12]);
        // It goes on somewhat below the limit.
        assert!(background.goes_on());
        background.tick(&facts(95, 9));
        background.guest_asked(1);
        assert!(sweep(&mut background, &facts(95, 9)).is_some());
        assert_eq!(sweep(&mut background, &facts(94, 9)), None);
        assert!(!background.goes_on());
    }

    #[test]
    fn what_is_old_goes_and_is_looked_for_once() {
        let mut background = Background::new(Some(LIMITS));
        for tick in 1..=30 {
            background.guest_asked(1);
            background.tick(&facts(50, tick * 100));
            background.guest_asked(1);
            let expected = (tick > 10).then(|| (5000, (tick - 10) * 100));
            assert_eq!(sweep(&mut background, &facts(50, tick * 100)), expected, "tick {tick}");
            assert_eq!(sweep(&mut background, &facts(50, tick * 100)), None);
        }
    }

    #[test]
    fn a_long_age_is_measured_in_steps() {
        let age_ticks = Some(6400);
        let mut background = Background::new(Some(WriteBackLimits { age_ticks, ..LIMITS }));
        let mut last = None;
        for tick in 0..20_000_u64 {
            background.tick(&facts(0, tick));
            last = background.too_old.take().or(last);
            let age = last.map(|version| tick - version);
            assert!(age.is_none_or(|age| (6400..6500).contains(&age)), "{age:?} at {tick}");
        }
        assert!(last.is_some() && background.versions.len() <= AGE_STEPS as usize);
    }

    #[test]
    fn an_idle_guest_has_everything_written_back_until_it_asks() {
        let mut background = Background::new(Some(LIMITS));
        let idle = |background: &mut Background| {
            for _ in 0..4 {
                background.tick(&facts(5, 7));
            }
            sweep(background, &facts(5, 7))
        };
        assert_eq!(idle(&mut background), Some((5000, 7)));
        background.tick(&facts(5, 7));
        background.next(&facts(5, 7));
        assert!(background.goes_on(), "and again while there is something");
        background.guest_asked(1);
        assert_eq!(background.next(&facts(5, 7)), BackgroundNext::Wait);
        assert!(!background.goes_on());
        assert_eq!(idle(&mut background), Some((5000, 7)));
        assert_eq!(background.next(&facts(0, 7)), BackgroundNext::Wait, "nothing is left");
    }

    #[test]
    fn guests_who_read_from_the_disk_come_first() {
        let mut background = Background::new(Some(LIMITS));
        let now = facts(101, 1000);
        background.tick(&now);
        background.guest_asked(1);
        background.disk_was_read();
        assert!(matches!(background.next(&now), BackgroundNext::Look { .. }));
        background.found(targets(0..400));
        background.slots_left = 0;
        let batch = |next: BackgroundNext| match next {
            BackgroundNext::Clean(targets) => targets.len(),
            _ => 0,
        };
        assert!(background.yields_to_guests(101));
        assert_eq!(batch(background.next(&now)), YIELDING_RUNS_PER_BATCH);
        background.guest_asked(1000);
        for _ in 0..YIELDING_RUNS_PER_BATCH as u32 * READS_PER_RUN {
            assert_eq!(background.next(&now), BackgroundNext::Wait);
            background.disk_was_read();
        }
        assert_eq!(batch(background.next(&now)), YIELDING_RUNS_PER_BATCH);
        // Far too many dirty blocks do not wait, and neither does a disk that nobody reads from any more.
        let urgent = facts(150, 1000);
        assert_eq!(batch(background.next(&urgent)), RUNS_PER_BATCH);
        for _ in 0..2 {
            background.tick(&now);
        }
        background.guest_asked(1);
        assert_eq!(batch(background.next(&now)), RUNS_PER_BATCH);
    }

    #[test]
    fn guests_have_several_blocks_for_each_that_is_cleaned() {
        let mut background = Background::new(Some(LIMITS));
        let now = facts(101, 1000);
        background.tick(&now);
        background.guest_asked(1);
        assert!(matches!(background.next(&now), BackgroundNext::Look { .. }));
        background.found(targets(0..800));
        background.slots_left = 0;
        let cleaned =
            |next: BackgroundNext| if let BackgroundNext::Clean(batch) = next { batch.len() } else { 0 };
        let first = cleaned(background.next(&now)) as u32;
        assert_eq!(first, RUNS_PER_BATCH as u32);
        background.guest_asked(first * BLOCKS_PER_CLEANED - 1);
        assert_eq!(background.next(&now), BackgroundNext::Wait);
        background.guest_asked(1);
        assert_eq!(cleaned(background.next(&now)), RUNS_PER_BATCH);
        // Every tick takes it on by a batch at least, and far too many dirty blocks do not wait.
        assert_eq!(background.next(&now), BackgroundNext::Wait);
        background.tick(&now);
        assert_eq!(cleaned(background.next(&now)), RUNS_PER_BATCH);
        assert_eq!(cleaned(background.next(&facts(150, 1000))), RUNS_PER_BATCH);
    }

    /// Limits are parts of a share, which a host may move at every tick.
    #[test]
    fn ages_go_on_when_the_other_limits_change() {
        let mut background = Background::new(Some(LIMITS));
        let at = |blocks| Some(WriteBackLimits { dirty_limit_blocks: 100 + blocks, ..LIMITS });
        let mut swept = Vec::new();
        for tick in 1..=30u32 {
            background.set_limits(at(tick));
            background.guest_asked(1);
            background.tick(&facts(5, u64::from(tick)));
            swept.extend(
                sweep(&mut background, &facts(5, u64::from(tick))).map(|(_, version)| (tick, version)),
            );
        }
        assert_eq!(swept, (11..=30).map(|tick| (tick, u64::from(tick) - 10)).collect::<Vec<_>>());
        // Another age is measured anew, and without limits nothing goes on.
        background.set_limits(Some(WriteBackLimits { age_ticks: Some(5), ..LIMITS }));
        for tick in 31..=36 {
            background.guest_asked(1);
            background.tick(&facts(5, tick));
            let expected = (tick == 36).then_some((5000, 31));
            assert_eq!(sweep(&mut background, &facts(5, tick)), expected, "tick {tick}");
        }
        background.tick(&facts(5000, 40));
        assert!(matches!(background.next(&facts(5000, 40)), BackgroundNext::Look { .. }));
        background.set_limits(None);
        assert!(!background.goes_on());
    }

    #[test]
    fn a_failure_is_tried_again_at_the_next_tick() {
        let mut background = Background::new(Some(LIMITS));
        background.tick(&facts(101, 5));
        background.ended(true);
        assert_eq!(background.next(&facts(101, 5)), BackgroundNext::Wait);
        background.tick(&facts(101, 5));
        assert!(matches!(background.next(&facts(101, 5)), BackgroundNext::Look { .. }));
    }
}
