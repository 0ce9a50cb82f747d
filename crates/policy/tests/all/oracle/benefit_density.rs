//! benefit-density from maps, vectors and scans. Every number that the scheme keeps up to date is worked out where it is
//! needed, from what was counted until the last estimate.

use std::collections::BTreeMap;

use lode_policy::Quota;
use lode_types::{BlockNo, Level, Rng};

use super::life_table::{AGES, CLASSES, Known, Table, age_of, at, leaning, run_class, width_of};
use super::seeks::{PlainSeeks, RunCosts, SEEK_US, Saving, Settled};
use super::two_level::PlainTwoLevel;
use crate::driver::{Observed, Residents, Step};

/// The settings that the test varies; the others are the defaults.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    pub ghost_percent: usize,
    pub samples: u64,
    pub write_price_us: f64,
    pub write_budget: f64,
    pub runs: bool,
    pub by_recency: bool,
}

const DISK_WRITE_US: f64 = 16_000.0;
const SEQUENTIAL_US: f64 = 100.0;
const SSD_WRITE_US: f64 = 60.0;
const DRAM_PART: f64 = 118.0 / 8000.0;
const WRITE_BACK_WEIGHT: f64 = 0.1;

#[derive(Debug)]
pub struct PlainBenefitDensity {
    given: Given,
    quota: Quota,
    known: BTreeMap<BlockNo, Known>,
    /// Blocks of DRAM and SSD in the order in which chance finds them.
    levels: [Vec<BlockNo>; 2],
    /// The oldest first.
    ghosts: Vec<BlockNo>,
    again: Table,
    forgotten: Table,
    saved: Table,
    /// By class and age, since the last estimate.
    ending: Vec<Vec<f32>>,
    saving: Vec<Vec<f32>>,
    horizon: f64,
    costs: RunCosts,
    run_first: BlockNo,
    run_last: Option<BlockNo>,
    run_blocks: u64,
    seeks: PlainSeeks,
    /// Class, age, class of the run.
    write_backs: Vec<Saving>,
    price_us: f64,
    allowed: f64,
    left: f64,
    rng: Rng,
    clock: u64,
    next_estimate: u64,
    /// Of each level: the next block, when it was accessed, whether it is copied.
    leaving: [Option<(BlockNo, u64, bool)>; 2],
    write_blocks: u32,
    mean_write: f64,
    enters: Option<bool>,
    victim_worth: f64,
    disk_next: Option<BlockNo>,
    observed: Vec<Observed>,
}

const DRAM: usize = 0;
const SSD: usize = 1;
const LEVELS: [Level; 2] = [Level::Dram, Level::Ssd];

impl PlainBenefitDensity {
    pub fn new(quota: Quota, given: Given) -> PlainBenefitDensity {
        PlainBenefitDensity {
            given,
            quota,
            known: BTreeMap::new(),
            levels: Default::default(),
            ghosts: vec![],
            again: Table::new(),
            forgotten: Table::new(),
            saved: Table::new(),
            ending: vec![],
            saving: vec![],
            horizon: 0.0,
            costs: RunCosts::new(),
            run_first: 0,
            run_last: None,
            run_blocks: 0,
            seeks: PlainSeeks::new(given.runs),
            write_backs: vec![],
            price_us: given.write_price_us,
            allowed: 0.0,
            left: 2.0,
            rng: Rng::new(0),
            clock: 0,
            next_estimate: 0,
            leaving: [None; 2],
            write_blocks: 0,
            mean_write: 1.0,
            enters: None,
            victim_worth: 0.0,
            disk_next: None,
            observed: vec![],
        }
    }

    fn capacity(&self, level: usize) -> usize {
        self.quota.of(LEVELS[level]) as usize
    }

    fn both(&self) -> u64 {
        (self.capacity(DRAM) + self.capacity(SSD)) as u64
    }

    fn is_in(&self, level: usize, block: BlockNo) -> bool {
        self.levels[level].contains(&block)
    }

    fn take(&mut self, level: usize, block: BlockNo) -> bool {
        let blocks = &mut self.levels[level];
        blocks.iter().position(|&other| other == block).map(|at| blocks.swap_remove(at)).is_some()
    }

    // Estimates.

    fn estimate(&mut self) {
        self.next_estimate = self.clock + self.both().min(self.clock).max(500);
        self.costs.estimate();
        self.horizon = 2.0 * self.both() as f64;
        let mut ended = self.forgotten.clone();
        for known in self.known.values() {
            *ended.entry((known.class(), age_of(self.clock - known.last))).or_default() += 1.0;
        }
        let sum = |table: &Table| table.values().map(|&count| f64::from(count)).sum::<f64>();
        // What nothing was seen of is as all together, from 3 to 10 per cent.
        let (again, not_again) = (sum(&self.again), sum(&ended));
        let unseen = (again / (again + not_again).max(1.0)).clamp(0.03, 0.1);
        let mut at_risk = Table::new();
        for class in 0..CLASSES {
            let mut older = 0.0;
            for age in (0..AGES).rev() {
                let here = at(&ended, class, age) + at(&self.again, class, age);
                at_risk.insert((class, age), older + here / 2.0);
                older += here;
            }
        }
        let of_all =
            |table: &Table, age| (0..CLASSES).map(|class| f64::from(at(table, class, age))).sum::<f64>();
        let pooled = |table: &Table, age| (of_all(table, age) + 4.0 * unseen) / (of_all(&at_risk, age) + 4.0);
        let all_again: Vec<f64> = (0..AGES).map(|age| pooled(&self.again, age)).collect();
        let all_saved: Vec<f64> = (0..AGES).map(|age| pooled(&self.saved, age)).collect();
        (self.ending, self.saving) = (0..CLASSES)
            .map(|class| {
                let row = |table| (0..AGES).map(|age| f64::from(at(table, class, age))).collect();
                leaning([&self.again, &self.saved, &at_risk].map(row), &all_again, &all_saved)
            })
            .unzip();
        self.ending.iter_mut().flatten().for_each(|ending| *ending /= 1.0 + *ending / 2.0);
        for table in [&mut self.again, &mut self.forgotten, &mut self.saved] {
            table.values_mut().for_each(|count| *count *= 0.98);
        }
    }

    /// Expected saving and stay until the end of each age ahead.
    fn ahead(&self, known: &Known) -> Vec<(f64, f64)> {
        let (class, first) = (known.class(), age_of(self.clock - known.last));
        let (mut left, mut saved, mut stay, mut elapsed) = (1.0, 0.0, 0.0, 0.0);
        let mut ahead = vec![];
        for age in first..AGES {
            elapsed += width_of(age);
            if age > first && elapsed > self.horizon || left < 0.001 {
                break;
            }
            let ending = f64::from(self.ending[class][age]);
            let there = left * (1.0 - ending / 2.0);
            saved += there * f64::from(self.saving[class][age]);
            stay += there * width_of(age);
            left *= 1.0 - ending;
            ahead.push((saved, stay));
        }
        ahead
    }

    fn worth(&self, block: BlockNo) -> f64 {
        let known = &self.known[&block];
        let most = self.ahead(known).into_iter().map(|(saved, stay)| saved / stay).fold(0.0, f64::max);
        f64::from(most as f32) * self.costs.us(known.run)
    }

    fn worth_in(&self, level: usize, block: BlockNo) -> f64 {
        let is_double = level == DRAM && self.is_in(SSD, block);
        self.worth(block) * if is_double { DRAM_PART } else { 1.0 }
    }

    fn surplus_us(&self, block: BlockNo) -> f64 {
        let known = &self.known[&block];
        let rate = if self.levels[SSD].len() < self.capacity(SSD) { 0.0 } else { self.victim_worth };
        let cost_us = self.costs.us(known.run);
        self.ahead(known).into_iter().map(|(saved, stay)| cost_us * saved - rate * stay).fold(0.0, f64::max)
    }

    // What is noted of an access.

    fn settle_seeks(&mut self, settled: Vec<Settled>) {
        for ((class, age, run), shared_by) in settled {
            let part_us = SEEK_US / shared_by;
            self.costs.note(run, part_us);
            *self.saved.entry((class, age)).or_default() += (part_us / self.costs.us(run)) as f32;
        }
    }

    fn settle_write_backs(&mut self) {
        let part_us = WRITE_BACK_WEIGHT * SEEK_US / self.run_blocks.max(1) as f64;
        for (class, age, run) in std::mem::take(&mut self.write_backs) {
            *self.saved.entry((class, age)).or_default() += (part_us / self.costs.us(run)) as f32;
        }
    }

    fn follow_run(&mut self, block: BlockNo) {
        match self.run_last.filter(|_| self.given.runs) {
            Some(last) if block == last => {}
            Some(last) if block == last + 1 => self.run_blocks += 1,
            _ => {
                self.settle_write_backs();
                for block in self.run_first..self.run_first + self.run_blocks.min(256) {
                    if let Some(known) = self.known.get_mut(&block).filter(|known| known.accesses > 0) {
                        known.run = run_class(self.run_blocks);
                    }
                }
                (self.run_first, self.run_blocks) = (block, 1);
            }
        }
        self.run_last = Some(block);
    }

    fn note(&mut self, block: BlockNo, kind: usize) {
        self.clock += 1;
        self.note_price();
        if self.clock >= self.next_estimate {
            self.estimate();
        }
        self.follow_run(block);
        if kind != 1 {
            let settled = self.seeks.asks_for(block, kind == 0);
            self.settle_seeks(settled);
        }
        if let Some(&known) = self.known.get(&block) {
            let (class, age) = (known.class(), age_of(self.clock - known.last));
            *self.again.entry((class, age)).or_default() += 1.0;
            if kind != 1 {
                let settled = self.seeks.saves((class, age, known.run));
                self.settle_seeks(settled);
            } else if known.kind != 0 {
                self.write_backs.push((class, age, known.run));
                if self.write_backs.len() == 512 {
                    self.settle_write_backs();
                }
            }
            self.ghosts.retain(|&ghost| ghost != block);
        }
        let clock = self.clock;
        let new = Known { last: clock, interval: 0, accesses: 0, kind, run: 0, dirty: false };
        let known = self.known.entry(block).or_insert(new);
        let since = (clock - known.last) as u32;
        let mean = (f64::from(known.interval) * f64::from(since)).sqrt() as u32;
        known.interval = if known.accesses < 2 { since } else { mean };
        known.accesses = known.accesses.saturating_add(1);
        known.run = known.run.max(run_class(self.run_blocks));
        (known.last, known.kind) = (clock, kind);
    }

    // The price.

    fn note_price(&mut self) {
        let each = self.given.write_budget / 100.0;
        if each > 0.0 {
            self.allowed += each;
            self.left = (self.left + each).min(2.0 + self.allowed * 0.001);
            self.price_us = (self.price_us / (1.0 + each / 64.0)).max(self.given.write_price_us);
        }
    }

    fn pay(&mut self) -> bool {
        if self.given.write_budget == 0.0 {
            return true;
        }
        self.price_us = ((self.price_us + 1.0 / 64.0) * (1.0 + 1.0 / 64.0)).min(1e6);
        let pays = self.left >= 1.0;
        self.left -= if pays { 1.0 } else { 0.0 };
        pays
    }

    fn is_worth(&self, saved_us: f64, price_us: f64) -> bool {
        self.given.by_recency || saved_us > price_us
    }

    // What leaves.

    /// By chance, so many in a row.
    fn drawn(&mut self, level: usize, row: usize, except: Option<BlockNo>) -> Vec<BlockNo> {
        let blocks = &self.levels[level];
        let count = self.given.samples * u64::from(!blocks.is_empty());
        let firsts = (0..count).map(|_| self.rng.below(blocks.len() as u64) as usize);
        let in_a_row = |first| blocks.iter().copied().skip(first).take(row);
        firsts.flat_map(in_a_row).filter(|&block| Some(block) != except).collect()
    }

    fn least_worth(&mut self, level: usize, except: Option<BlockNo>) -> Option<BlockNo> {
        let drawn = self.drawn(level, 1, except);
        drawn.into_iter().min_by(|&a, &b| {
            let key = |block| (self.worth_in(level, block), self.known[&block].last);
            key(a).partial_cmp(&key(b)).unwrap()
        })
    }

    fn neighbour(&self, level: usize, block: BlockNo, last: u64, except: Option<BlockNo>) -> Option<BlockNo> {
        let together =
            |block: &BlockNo| (self.known[block].last.wrapping_sub(last) as i64).unsigned_abs() <= 64;
        Some(block).filter(|&block| self.is_in(level, block) && Some(block) != except).filter(together)
    }

    fn next_to_leave(&mut self, level: usize, except: Option<BlockNo>) -> Option<(BlockNo, bool)> {
        if self.given.by_recency {
            let drawn = self.drawn(level, 8, except);
            return drawn.into_iter().min_by_key(|block| self.known[block].last).map(|block| (block, true));
        }
        if let Some((next, last, is_copied)) = self.leaving[level].take()
            && let Some(block) = self.neighbour(level, next, last, except)
        {
            self.leaving[level] = Some((block + 1, self.known[&block].last + 1, is_copied));
            return Some((block, is_copied));
        }
        let mut first = self.least_worth(level, except)?;
        if !self.given.runs {
            return Some((first, self.surplus_us(first) > self.price_us));
        }
        for _ in 0..256 {
            let last = self.known[&first].last.wrapping_sub(1);
            let Some(before) =
                first.checked_sub(1).and_then(|block| self.neighbour(level, block, last, except))
            else {
                break;
            };
            first = before;
        }
        let is_copied = level == DRAM && self.is_worth_copying(first);
        self.leaving[level] = Some((first + 1, self.known[&first].last + 1, is_copied));
        Some((first, is_copied))
    }

    fn is_worth_copying(&self, first: BlockNo) -> bool {
        let mut run = vec![first];
        while let Some(next) =
            self.neighbour(DRAM, run[run.len() - 1] + 1, self.known[&run[run.len() - 1]].last + 1, None)
            && run.len() < 256
        {
            run.push(next);
        }
        run.retain(|&block| !self.is_in(SSD, block));
        run.iter().map(|&block| self.surplus_us(block)).sum::<f64>() > self.price_us * run.len() as f64
    }

    fn make_room_on_ssd(&mut self, except: Option<BlockNo>, from_dram: Option<BlockNo>) -> bool {
        if self.levels[SSD].len() < self.capacity(SSD) {
            return true;
        }
        let Some((block, _)) = self.next_to_leave(SSD, except) else { return false };
        if !self.given.by_recency {
            self.victim_worth += (self.worth(block) - self.victim_worth) * 0.01;
        } else if from_dram.is_some_and(|other| self.known[&other].last <= self.known[&block].last) {
            return false;
        }
        self.evict(SSD, block);
        true
    }

    fn evict(&mut self, level: usize, block: BlockNo) {
        self.take(level, block);
        let dirty = level == SSD && std::mem::take(&mut self.known.get_mut(&block).unwrap().dirty);
        self.observed.push(Observed::Evict { level: LEVELS[level], block, dirty });
        self.settle(block);
    }

    fn settle(&mut self, block: BlockNo) {
        if !self.is_in(DRAM, block) && !self.is_in(SSD, block) {
            self.ghosts.push(block);
            self.bound_ghosts();
        }
    }

    fn bound_ghosts(&mut self) {
        while self.ghosts.len() > self.both() as usize * self.given.ghost_percent / 100 {
            let known = self.known.remove(&self.ghosts.remove(0)).unwrap();
            *self.forgotten.entry((known.class(), age_of(self.clock - known.last))).or_default() += 1.0;
        }
    }

    fn demote(&mut self, block: BlockNo, is_copied: bool, except: Option<BlockNo>) {
        let has_place = self.capacity(SSD) > 0 && !self.is_in(SSD, block);
        if is_copied && has_place && self.pay() && self.make_room_on_ssd(except, Some(block)) {
            self.levels[SSD].push(block);
            self.observed.push(Observed::Move(block));
        }
        self.evict(DRAM, block);
    }

    // Reads and writes.

    fn fill(&mut self, level: usize, block: BlockNo) {
        self.levels[level].push(block);
        self.observed.push(Observed::Fill(LEVELS[level]));
    }

    fn is_dram_full(&self) -> bool {
        self.levels[DRAM].len() >= self.capacity(DRAM)
    }

    fn read(&mut self, block: BlockNo) {
        self.note(block, 0);
        if self.is_in(DRAM, block) {
            self.observed.push(Observed::ReadLevel(Level::Dram));
        } else if self.is_in(SSD, block) {
            self.observed.push(Observed::ReadLevel(Level::Ssd));
            if self.capacity(DRAM) > 0 && !self.given.by_recency {
                self.copy_to_dram(block);
            }
        } else {
            self.disk_next = Some(block + 1);
            self.observed.push(Observed::ReadBacking);
            if self.capacity(DRAM) > 0 {
                if self.is_dram_full()
                    && let Some((leaves, is_copied)) = self.next_to_leave(DRAM, None)
                {
                    self.demote(leaves, is_copied, None);
                }
                self.fill(DRAM, block);
            } else if self.is_worth(self.surplus_us(block), self.price_us)
                && self.capacity(SSD) > 0
                && self.pay()
                && self.make_room_on_ssd(None, None)
            {
                self.fill(SSD, block);
            } else {
                self.settle(block);
            }
        }
    }

    fn copy_to_dram(&mut self, block: BlockNo) {
        if self.is_dram_full() {
            let least = self.least_worth(DRAM, None).unwrap();
            if self.worth_in(DRAM, least) >= self.worth(block) * DRAM_PART {
                return;
            }
            let is_copied = self.surplus_us(least) > self.price_us;
            self.demote(least, is_copied, Some(block));
        }
        self.fill(DRAM, block);
    }

    fn enters(&mut self, block: BlockNo, partial: bool, is_nowhere: bool) -> bool {
        let is_first = self.enters.is_none();
        let enters = self.enters.unwrap_or_else(|| {
            let (disk_us, blocks) = match (self.disk_next == Some(block), partial && is_nowhere) {
                (true, _) => (SEQUENTIAL_US, self.mean_write),
                (false, true) => (DISK_WRITE_US - SEEK_US, self.mean_write),
                (false, false) => (DISK_WRITE_US, self.mean_write.max(self.run_blocks as f64)),
            };
            self.is_worth((disk_us - SSD_WRITE_US) / blocks + self.surplus_us(block), self.price_us)
        });
        self.enters = Some(enters);
        // What comes after the first block of a request may be worth a write by itself.
        let enters = enters || !is_first && partial && self.surplus_us(block) > self.price_us;
        enters && self.capacity(SSD) > 0
    }

    fn write(&mut self, block: BlockNo, partial: bool) {
        self.note(block, if partial { 2 } else { 1 });
        self.write_blocks += 1;
        let (in_dram, in_ssd) = (self.is_in(DRAM, block), self.is_in(SSD, block));
        let enters = in_ssd || self.enters(block, partial, !in_dram);
        let enters = enters && self.pay() && (in_ssd || self.make_room_on_ssd(None, None));
        if enters && partial {
            self.observed.push(match (in_dram, in_ssd) {
                (true, _) => Observed::MergeLevel(Level::Dram),
                (false, true) => Observed::MergeLevel(Level::Ssd),
                (false, false) => Observed::MergeBacking,
            });
            if !in_dram && !in_ssd {
                self.disk_next = Some(block + 1);
            }
        }
        if self.take(DRAM, block) {
            self.observed.push(Observed::Invalidate(Level::Dram));
        }
        let known = self.known.get_mut(&block).unwrap();
        if enters {
            known.dirty = true;
            if !in_ssd {
                self.levels[SSD].push(block);
            }
            self.observed.push(Observed::WriteLevel { hit: in_ssd, dirty: true });
            return;
        }
        let dirty = std::mem::take(&mut known.dirty);
        if self.take(SSD, block) {
            self.observed.push(match dirty {
                true => Observed::Evict { level: Level::Ssd, block, dirty },
                false => Observed::Invalidate(Level::Ssd),
            });
        }
        self.disk_next = Some(block + 1);
        self.observed.push(Observed::WriteBacking);
        self.settle(block);
    }

    fn end_request(&mut self) {
        let settled = self.seeks.end_request();
        self.settle_seeks(settled);
        if self.write_blocks > 0 {
            self.mean_write += (f64::from(self.write_blocks) - self.mean_write) * 0.02;
        }
        (self.write_blocks, self.enters) = (0, None);
    }

    fn discard(&mut self, block: BlockNo) {
        for level in [DRAM, SSD] {
            if self.take(level, block) {
                self.observed.push(Observed::Invalidate(LEVELS[level]));
            }
        }
        self.ghosts.retain(|&ghost| ghost != block);
        self.known.remove(&block);
    }

    fn restore(&mut self, block: BlockNo, dirty: bool) {
        let fits = !self.is_in(SSD, block) && self.levels[SSD].len() < self.capacity(SSD);
        if fits {
            self.ghosts.retain(|&ghost| ghost != block);
            let new = Known { last: self.clock, interval: 0, accesses: 0, kind: 0, run: 0, dirty };
            self.known.entry(block).or_insert(new).dirty = dirty;
            self.levels[SSD].push(block);
        }
        self.observed.push(Observed::Restored(fits));
    }

    fn resize(&mut self, quota: Quota) {
        self.quota = quota;
        for level in [DRAM, SSD] {
            while self.levels[level].len() > self.capacity(level) {
                let (block, _) = self.next_to_leave(level, None).unwrap();
                self.evict(level, block);
            }
        }
        self.bound_ghosts();
    }
}

impl PlainTwoLevel for PlainBenefitDensity {
    fn step(&mut self, step: Step) -> Vec<Observed> {
        match step {
            Step::Read(block) => self.read(block),
            Step::Write(block, partial) => self.write(block, partial),
            Step::EndRequest => self.end_request(),
            Step::Discard(block) => self.discard(block),
            Step::Forget(level, block) => {
                let at = level.index();
                if at <= SSD && self.take(at, block) {
                    if at == SSD {
                        self.known.get_mut(&block).unwrap().dirty = false;
                    }
                    self.settle(block);
                }
            }
            Step::Cleaned(block) => {
                self.known.entry(block).and_modify(|known| known.dirty = false);
            }
            Step::Restore(block, dirty) => self.restore(block, dirty),
            Step::Resize(quota) => self.resize(quota),
        }
        std::mem::take(&mut self.observed)
    }

    fn residents(&mut self) -> [Residents; 2] {
        let dirty = |block: BlockNo| self.known[&block].dirty;
        let dram = self.levels[DRAM].iter().map(|&block| (block, false)).collect();
        [dram, self.levels[SSD].iter().map(|&block| (block, dirty(block))).collect()]
    }
}
