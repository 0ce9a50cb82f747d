//! TICA as plain lists of block numbers, newest first, in which everything is looked for.

use lode_policy::{Counters, Quota};
use lode_types::{BlockNo, Level};

use crate::driver::{Observed, Residents, Step};

/// Which of the three schemes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PlainChoice {
    Ef,
    Wed,
    Adaptive(PlainAdaptive),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlainAdaptive {
    pub printed: bool,
    pub t_min: f64,
    pub t_max: f64,
    pub window_per_block: f64,
    pub evicted_percent: u32,
    /// The state machine as printed.
    pub hits_not_asked: bool,
    pub t_hdd: f64,
    pub t_read: f64,
    pub sample: usize,
    pub steps: u32,
}

/// Settings, as numbers.
#[derive(Clone, Copy, Debug)]
pub struct PlainConfig {
    pub choice: PlainChoice,
    pub write_percent: u32,
    pub unit_parts: u32,
    /// In thousandths.
    pub copy_rate: u32,
}

/// What a request did.
#[derive(Clone, Debug, Default)]
struct Request {
    /// For each block read, the level that had it and whether the evicted queue did.
    reads: Vec<(Option<Level>, bool)>,
}

impl Request {
    fn dram_hit(&self) -> bool {
        !self.reads.is_empty() && self.reads.iter().all(|read| read.0 == Some(Level::Dram))
    }

    fn evicted_hit(&self) -> bool {
        let known = |read: &(Option<Level>, bool)| read.0 == Some(Level::Dram) || read.1;
        !self.reads.is_empty() && self.reads.iter().all(known) && !self.dram_hit()
    }

    fn disk_read(&self) -> bool {
        self.reads.iter().any(|read| read.0.is_none())
    }

    fn read_hit(&self) -> bool {
        !self.reads.is_empty() && !self.disk_read()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Initial,
    Wed,
    Wait(u32),
}

/// The whole cache.
#[derive(Debug)]
pub struct PlainTica {
    pub counters: Counters,
    config: PlainConfig,
    quota: Quota,
    write_blocks: u32,
    read: Vec<BlockNo>,
    pending: Vec<BlockNo>,
    ssd: Vec<(BlockNo, bool)>,
    read_ssd: Vec<BlockNo>,
    evicted: Vec<BlockNo>,
    missing: Vec<BlockNo>,
    /// Requests since each controller's window began.
    window: Vec<Request>,
    sample: Vec<Request>,
    request: Request,
    identified_wed: bool,
    state: State,
    copy_credit: u32,
    observed: Vec<Observed>,
    /// Sums over requests: dirty blocks with a second copy in DRAM, on the read SSD, and nowhere.
    pub sums: [u64; 3],
}

fn remove(list: &mut Vec<BlockNo>, block: BlockNo) -> bool {
    let at = list.iter().position(|&other| other == block);
    at.map(|at| list.remove(at)).is_some()
}

fn to_front(list: &mut Vec<BlockNo>, block: BlockNo) {
    if remove(list, block) {
        list.insert(0, block);
    }
}

impl PlainTica {
    pub fn new(config: PlainConfig, quota: Quota) -> PlainTica {
        let mut plain = PlainTica {
            counters: Counters::default(),
            config,
            quota,
            write_blocks: 0,
            read: Vec::new(),
            pending: Vec::new(),
            ssd: Vec::new(),
            read_ssd: Vec::new(),
            evicted: Vec::new(),
            missing: Vec::new(),
            window: Vec::new(),
            sample: Vec::new(),
            request: Request::default(),
            identified_wed: false,
            state: State::Initial,
            copy_credit: 0,
            observed: Vec::new(),
            sums: [0; 3],
        };
        plain.fit_partition();
        plain
    }

    fn is_buffering(&self) -> bool {
        self.quota.dram_blocks >= 2 && self.quota.ssd_blocks > 0 && self.quota.read_ssd_blocks > 0
    }

    fn default_write_blocks(&self) -> u32 {
        if !self.is_buffering() {
            return 0;
        }
        let part = u64::from(self.quota.dram_blocks) * u64::from(self.config.write_percent) / 100;
        (part as u32).max(1).min(self.quota.dram_blocks - 1)
    }

    fn unit(&self) -> f64 {
        f64::from((self.default_write_blocks() / self.config.unit_parts).max(1))
    }

    /// By how many units the write partition is too large.
    fn excess(&self) -> f64 {
        f64::from(self.write_blocks - self.default_write_blocks()) / self.unit()
    }

    fn fit_partition(&mut self) {
        let least = self.default_write_blocks();
        let most = if self.is_buffering() { self.quota.dram_blocks - 1 } else { 0 };
        self.write_blocks = self.write_blocks.max(least).min(most);
    }

    fn is_dirty(&self, block: BlockNo) -> bool {
        self.ssd.contains(&(block, true))
    }

    fn on_ssd(&self, block: BlockNo) -> Option<usize> {
        self.ssd.iter().position(|entry| entry.0 == block)
    }

    fn holds(&self, level: Level, block: BlockNo) -> bool {
        match level {
            Level::Dram => self.read.contains(&block) || self.pending.contains(&block),
            Level::Ssd => self.on_ssd(block).is_some(),
            Level::ReadSsd => self.read_ssd.contains(&block),
        }
    }

    fn nearest(&self, block: BlockNo) -> Option<Level> {
        [Level::Dram, Level::ReadSsd, Level::Ssd].into_iter().find(|&level| self.holds(level, block))
    }

    fn wed(&self) -> bool {
        match self.config.choice {
            PlainChoice::Ef => false,
            PlainChoice::Wed => true,
            PlainChoice::Adaptive(_) => self.identified_wed || self.state == State::Wed,
        }
    }

    fn use_ssds(&mut self, block: BlockNo) {
        to_front(&mut self.read_ssd, block);
        if let Some(at) = self.on_ssd(block) {
            let entry = self.ssd.remove(at);
            self.ssd.insert(0, entry);
        }
    }

    fn read(&mut self, block: BlockNo) {
        let level = self.nearest(block);
        self.request.reads.push((level, self.evicted.contains(&block)));
        match level {
            Some(level) => {
                self.observed.push(Observed::ReadLevel(level));
                match level {
                    Level::Dram => to_front(&mut self.read, block),
                    _ => self.use_ssds(block),
                }
            }
            None => {
                self.observed.push(Observed::ReadBacking);
                if self.quota.dram_blocks > 0 {
                    remove(&mut self.evicted, block);
                    self.make_room_for_read();
                    self.read.insert(0, block);
                    self.observed.push(Observed::Fill(Level::Dram));
                }
            }
        }
    }

    fn make_room_for_read(&mut self) {
        if (self.read.len() as u32) < self.quota.dram_blocks - self.write_blocks {
            return;
        }
        if self.write_blocks == self.default_write_blocks() {
            self.evict_read(None);
            return;
        }
        if self.pending.len() as u32 == self.write_blocks {
            self.copy_pending();
        }
        let step = (self.unit() * 2f64.powf(self.excess())).round();
        let shrunk = (f64::from(self.write_blocks) - step).max(f64::from(self.default_write_blocks()));
        self.write_blocks = (shrunk as u32).max(self.pending.len() as u32);
    }

    fn write(&mut self, block: BlockNo, partial: bool) {
        if !self.is_buffering() {
            if self.is_dirty(block) {
                self.give_up(block);
            } else {
                self.discard(block);
            }
            remove(&mut self.evicted, block);
            self.observed.push(Observed::WriteBacking);
            return;
        }
        if partial {
            self.observed.push(self.nearest(block).map_or(Observed::MergeBacking, Observed::MergeLevel));
        }
        remove(&mut self.evicted, block);
        remove(&mut self.missing, block);
        if remove(&mut self.read, block) || remove(&mut self.pending, block) {
            self.observed.push(Observed::Invalidate(Level::Dram));
        }
        if remove(&mut self.read_ssd, block) {
            self.observed.push(Observed::Invalidate(Level::ReadSsd));
        }
        if self.pending.len() as u32 == self.write_blocks {
            let step = (self.unit() * 2f64.powf(-self.excess())).round().max(1.0);
            let most = f64::from(self.quota.dram_blocks - 1);
            self.write_blocks = (f64::from(self.write_blocks) + step).min(most) as u32;
            while self.read.len() as u32 > self.quota.dram_blocks - self.write_blocks {
                self.evict_read(Some(block));
            }
            if self.pending.len() as u32 == self.write_blocks {
                self.copy_pending();
            }
        }
        let hit = self.on_ssd(block);
        match hit {
            Some(at) => {
                self.ssd.remove(at);
            }
            None => self.make_room_on_ssd(),
        }
        self.ssd.insert(0, (block, true));
        self.pending.insert(0, block);
        self.observed.push(Observed::WriteDram { hit: false });
        self.observed.push(Observed::WriteLevel { hit: hit.is_some(), dirty: true });
    }

    fn make_room_on_ssd(&mut self) {
        while self.ssd.len() as u32 >= self.quota.ssd_blocks && !self.ssd.is_empty() {
            self.give_up(self.ssd[self.ssd.len() - 1].0);
        }
    }

    /// Out of every level; the evicted queue remembers what it did.
    fn give_up(&mut self, block: BlockNo) {
        remove(&mut self.missing, block);
        if let Some(at) = self.on_ssd(block) {
            let (block, dirty) = self.ssd.remove(at);
            self.observed.push(Observed::Evict { level: Level::Ssd, block, dirty });
        }
        if remove(&mut self.read_ssd, block) {
            self.observed.push(Observed::Evict { level: Level::ReadSsd, block, dirty: false });
        }
        if remove(&mut self.read, block) || remove(&mut self.pending, block) {
            self.observed.push(Observed::Evict { level: Level::Dram, block, dirty: false });
        }
    }

    fn evict_read(&mut self, writing: Option<BlockNo>) {
        let Some(block) = self.read.pop() else { return };
        let held = writing.filter(|&block| self.on_ssd(block).is_some());
        if self.wed() {
            held.into_iter().for_each(|block| self.use_ssds(block));
            if self.quota.ssd_blocks > u32::from(held.is_some()) {
                self.make_room_on_ssd();
                self.ssd.insert(0, (block, false));
                self.observed.push(Observed::Move(block));
            }
        }
        self.observed.push(Observed::Evict { level: Level::Dram, block, dirty: false });
        if matches!(self.config.choice, PlainChoice::Adaptive(_)) {
            self.evicted.insert(0, block);
            self.trim_evicted();
        }
    }

    fn trim_evicted(&mut self) {
        if let PlainChoice::Adaptive(adaptive) = self.config.choice {
            let most = u64::from(self.quota.ssd_blocks) * u64::from(adaptive.evicted_percent) / 100;
            self.evicted.truncate(most as usize);
        }
    }

    fn copy_pending(&mut self) {
        let Some(&block) = self.pending.last() else { return };
        if self.on_ssd(block).is_some() {
            if self.quota.read_ssd_blocks == 0 {
                self.give_up(block);
                return;
            }
            self.make_room_on_read_ssd();
            self.read_ssd.insert(0, block);
            self.observed.push(Observed::Mirror { block, from: Level::Dram });
        }
        self.pending.pop();
        self.observed.push(Observed::Evict { level: Level::Dram, block, dirty: false });
    }

    fn copy_missing(&mut self) {
        let Some(&block) = self.missing.last() else { return };
        if self.quota.read_ssd_blocks == 0 {
            self.give_up(block);
            return;
        }
        self.make_room_on_read_ssd();
        self.read_ssd.insert(0, block);
        self.missing.pop();
        self.observed.push(Observed::Mirror { block, from: Level::Ssd });
    }

    fn make_room_on_read_ssd(&mut self) {
        while self.read_ssd.len() as u32 >= self.quota.read_ssd_blocks {
            self.give_up_mirror();
        }
    }

    fn give_up_mirror(&mut self) {
        let block = self.read_ssd[self.read_ssd.len() - 1];
        if self.is_dirty(block) {
            self.give_up(block);
        } else {
            self.read_ssd.pop();
            self.observed.push(Observed::Evict { level: Level::ReadSsd, block, dirty: false });
        }
    }

    fn discard(&mut self, block: BlockNo) {
        remove(&mut self.evicted, block);
        remove(&mut self.missing, block);
        if remove(&mut self.read, block) || remove(&mut self.pending, block) {
            self.observed.push(Observed::Invalidate(Level::Dram));
        }
        if let Some(at) = self.on_ssd(block) {
            self.ssd.remove(at);
            self.observed.push(Observed::Invalidate(Level::Ssd));
        }
        if remove(&mut self.read_ssd, block) {
            self.observed.push(Observed::Invalidate(Level::ReadSsd));
        }
    }

    fn forget(&mut self, level: Level, block: BlockNo) {
        match level {
            Level::Dram => {
                let _ = remove(&mut self.read, block) || remove(&mut self.pending, block);
            }
            Level::Ssd => {
                self.ssd.retain(|entry| entry.0 != block);
                remove(&mut self.missing, block);
            }
            Level::ReadSsd => {
                remove(&mut self.read_ssd, block);
            }
        }
        let is_alone = !self.holds(Level::Dram, block) && !self.holds(Level::ReadSsd, block);
        if self.is_dirty(block) && is_alone && !self.missing.contains(&block) {
            self.missing.insert(0, block);
        }
    }

    fn restore(&mut self, block: BlockNo, dirty: bool) -> bool {
        let is_full = self.ssd.len() as u32 >= self.quota.ssd_blocks;
        if is_full || self.nearest(block).is_some() || (dirty && self.quota.read_ssd_blocks == 0) {
            return false;
        }
        remove(&mut self.evicted, block);
        self.ssd.insert(0, (block, dirty));
        if dirty {
            self.missing.insert(0, block);
        }
        true
    }

    fn end_request(&mut self) {
        let request = std::mem::take(&mut self.request);
        if let PlainChoice::Adaptive(adaptive) = self.config.choice {
            self.window.push(request.clone());
            self.sample.push(request);
            self.end_windows(&adaptive);
        }
        let dirty: Vec<BlockNo> = self.ssd.iter().filter(|entry| entry.1).map(|entry| entry.0).collect();
        for block in dirty {
            let at = if self.holds(Level::Dram, block) {
                0
            } else {
                1 + usize::from(!self.holds(Level::ReadSsd, block))
            };
            self.sums[at] += 1;
        }
        self.copy_some();
    }

    fn end_windows(&mut self, adaptive: &PlainAdaptive) {
        let share = |window: &[Request], is_it: fn(&Request) -> bool| {
            window.iter().filter(|request| is_it(request)).count() as f64 / window.len() as f64
        };
        let length = (f64::from(self.quota.dram_blocks) * adaptive.window_per_block).round().max(1.0);
        if self.window.len() as f64 >= length {
            let window = std::mem::take(&mut self.window);
            let (dram, evicted) = (share(&window, Request::dram_hit), share(&window, Request::evicted_hit));
            let either = share(&window, |request| request.dram_hit() || request.evicted_hit());
            self.identified_wed = if adaptive.printed {
                either > adaptive.t_max || evicted > adaptive.t_min
            } else {
                dram <= adaptive.t_max && evicted > adaptive.t_min
            };
        }
        if self.sample.len() >= adaptive.sample {
            let sample = std::mem::take(&mut self.sample);
            let disk = share(&sample, Request::disk_read) > adaptive.t_hdd;
            let hits = share(&sample, Request::read_hit) > adaptive.t_read;
            self.state = match self.state {
                State::Initial => {
                    if disk && (hits || adaptive.hits_not_asked) {
                        State::Wed
                    } else {
                        State::Initial
                    }
                }
                State::Wed if disk && hits => State::Wed,
                State::Wed if disk => State::Wait(adaptive.steps - 1),
                State::Wed => State::Initial,
                State::Wait(left) if left == 0 || hits => State::Initial,
                State::Wait(left) => State::Wait(left - 1),
            };
        }
    }

    fn copy_some(&mut self) {
        if self.pending.is_empty() && self.missing.is_empty() {
            self.copy_credit = 0;
            return;
        }
        self.copy_credit += self.config.copy_rate;
        let mut may = self.copy_credit / 1000;
        self.copy_credit %= 1000;
        if !self.missing.is_empty() {
            may = may.max(1);
        }
        while may > 0 && !self.missing.is_empty() {
            self.copy_missing();
            may -= 1;
        }
        while may > 0 && !self.pending.is_empty() {
            self.copy_pending();
            may -= 1;
        }
    }

    fn resize(&mut self, quota: Quota) {
        self.quota = quota;
        self.fit_partition();
        while self.ssd.len() as u32 > quota.ssd_blocks {
            self.give_up(self.ssd[self.ssd.len() - 1].0);
        }
        while self.read_ssd.len() as u32 > quota.read_ssd_blocks {
            self.give_up_mirror();
        }
        while quota.read_ssd_blocks == 0 && !self.missing.is_empty() {
            self.give_up(self.missing[self.missing.len() - 1]);
        }
        while self.pending.len() as u32 > self.write_blocks {
            self.copy_pending();
        }
        while self.read.len() as u32 > quota.dram_blocks - self.write_blocks {
            self.evict_read(None);
        }
        self.trim_evicted();
    }

    /// What the scheme has to say to this step, and counts.
    pub fn step(&mut self, step: Step) -> Vec<Observed> {
        match step {
            Step::Read(block) => self.read(block),
            Step::Write(block, partial) => self.write(block, partial),
            Step::EndRequest => self.end_request(),
            Step::Discard(block) => self.discard(block),
            Step::Forget(level, block) => self.forget(level, block),
            Step::Cleaned(block) => {
                self.ssd.iter_mut().filter(|entry| entry.0 == block).for_each(|entry| entry.1 = false);
                remove(&mut self.missing, block);
            }
            Step::Restore(block, dirty) => {
                let restored = self.restore(block, dirty);
                self.observed.push(Observed::Restored(restored));
            }
            Step::Resize(quota) => self.resize(quota),
        }
        let observed = std::mem::take(&mut self.observed);
        self.count(step, &observed);
        observed
    }

    fn count(&mut self, step: Step, observed: &[Observed]) {
        let counters = &mut self.counters;
        match step {
            Step::Read(_) => counters.block_reads += 1,
            Step::Write(..) => counters.block_writes += 1,
            Step::EndRequest => counters.requests += 1,
            _ => {}
        }
        let count =
            |is_it: fn(&Observed) -> bool| observed.iter().filter(|observed| is_it(observed)).count() as u64;
        for level in Level::ALL {
            let served = observed.iter().filter(|&&observed| observed == Observed::ReadLevel(level)).count();
            counters.read_hits[level.index()] += served as u64;
            let left = observed
                .iter()
                .filter(|observed| matches!(observed, Observed::Evict { level: from, .. } if *from == level));
            counters.evictions[level.index()] += left.count() as u64;
        }
        counters.read_misses += count(|observed| *observed == Observed::ReadBacking);
        counters.backing_reads +=
            count(|observed| matches!(observed, Observed::ReadBacking | Observed::MergeBacking));
        counters.dram_writes +=
            count(|observed| matches!(observed, Observed::Fill(_) | Observed::WriteDram { .. }));
        counters.ssd_writes.write += count(|observed| matches!(observed, Observed::WriteLevel { .. }));
        counters.write_hits_ssd +=
            count(|observed| matches!(observed, Observed::WriteLevel { hit: true, .. }));
        counters.ssd_writes.moved += count(|observed| matches!(observed, Observed::Move(_)));
        counters.read_ssd_writes += count(|observed| matches!(observed, Observed::Mirror { .. }));
        let backs = count(|observed| matches!(observed, Observed::Evict { dirty: true, .. }));
        counters.write_backs += backs;
        counters.backing_writes += backs + count(|observed| *observed == Observed::WriteBacking);
    }

    /// What a level holds.
    pub fn residents(&self, level: Level) -> Residents {
        let clean = |blocks: &[BlockNo]| blocks.iter().map(|&block| (block, false)).collect();
        match level {
            Level::Dram => clean(&[&self.read[..], &self.pending].concat()),
            Level::Ssd => self.ssd.iter().copied().collect(),
            Level::ReadSsd => clean(&self.read_ssd),
        }
    }
}
