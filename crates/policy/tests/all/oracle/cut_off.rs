//! flashcache and Open CAS from vectors and scans: what gives way, what is cleaned, and which streams pass by.

use std::collections::{BTreeMap, BTreeSet};

use lode_policy::Counters;
use lode_types::{BlockNo, Level};

use super::level::{Entry, PlainLevel};
use super::one_level::{PlainOneLevel, PlainReplacement};
use crate::driver::{Observed, Residents, Step};

/// A replacement that cleans after each request.
pub trait PlainCleaner: PlainReplacement {
    /// Blocks to clean now, in order; they are marked clean.
    fn clean(&mut self) -> Vec<BlockNo>;
    /// Blocks that it may hold.
    fn size(&self) -> usize;
}

impl<R: PlainCleaner> PlainOneLevel<R> {
    /// Takes a step, and cleans after a request.
    pub fn step_and_clean(&mut self, step: Step) -> Vec<Observed> {
        let mut observed = self.step(step);
        if let Step::EndRequest = step {
            let cleaned = self.replacement.clean();
            observed.extend(self.cleaned(cleaned));
        }
        observed
    }
}

/// The streams that were continued last, the latest first: last block, length, and direction if it counts.
#[derive(Debug)]
pub struct PlainStreams {
    pub most: usize,
    pub by_direction: bool,
    pub from_block: u64,
    /// `full`, `always` or `never`.
    pub when: &'static str,
    known: Vec<(BlockNo, u64, bool)>,
}

impl PlainStreams {
    pub fn new(most: usize, by_direction: bool, from_block: u64, when: &'static str) -> PlainStreams {
        PlainStreams { most, by_direction, from_block, when, known: Vec::new() }
    }

    fn length(&mut self, block: BlockNo, is_read: bool) -> u64 {
        let found = (0..self.known.len()).find(|&at| {
            let (last, _, read) = self.known[at];
            (block == last || block == last + 1) && (!self.by_direction || read == is_read)
        });
        let stream = match found {
            Some(at) => {
                let (last, length, read) = self.known.remove(at);
                (block, length + u64::from(block != last), read)
            }
            None => (block, 1, is_read),
        };
        self.known.insert(0, stream);
        self.known.truncate(self.most);
        stream.1
    }
}

#[derive(Debug)]
pub struct PlainCutOff<R> {
    pub level: PlainOneLevel<R>,
    pub streams: PlainStreams,
}

impl<R: PlainCleaner> PlainCutOff<R> {
    pub fn residents(&mut self) -> Residents {
        self.level.residents()
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.level.counters
    }

    fn passes_by(&mut self, block: BlockNo, is_read: bool) -> bool {
        if self.streams.when == "never" {
            return false;
        }
        let is_long = self.streams.length(block, is_read) >= self.streams.from_block;
        let is_full = self.residents().len() >= self.level.replacement.size();
        is_long && (self.streams.when == "always" || is_full)
    }

    fn pass_by(&mut self, block: BlockNo, is_read: bool) -> Vec<Observed> {
        let copy = self.residents().get(&block).copied();
        if is_read {
            self.counters().block_reads += 1;
            if copy.is_some() {
                self.counters().read_hits[Level::Ssd.index()] += 1;
                self.level.replacement.touch(block);
                return vec![Observed::ReadLevel(Level::Ssd)];
            }
            self.counters().read_misses += 1;
            self.counters().backing_reads += 1;
            return vec![Observed::ReadBacking];
        }
        self.counters().block_writes += 1;
        self.counters().backing_writes += 1;
        let mut observed = Vec::new();
        if let Some(dirty) = copy {
            self.level.replacement.remove(block);
            if dirty {
                observed.extend(self.level.evicted(vec![Entry { block, dirty }]));
            } else {
                observed.push(Observed::Invalidate(Level::Ssd));
            }
        }
        observed.push(Observed::WriteBacking);
        observed
    }

    pub fn step(&mut self, step: Step) -> Vec<Observed> {
        match step {
            Step::Read(block) if self.passes_by(block, true) => self.pass_by(block, true),
            Step::Write(block, _) if self.passes_by(block, false) => self.pass_by(block, false),
            _ => self.level.step_and_clean(step),
        }
    }
}

/// flashcache's sets.
#[derive(Debug)]
pub struct PlainFlash {
    pub level: PlainLevel,
    pub lru: bool,
    pub dirty_percent: usize,
    pub most_at_once: usize,
    pub fallow_delay: u32,
    pub fallow_speed: usize,
    requests: u32,
    /// Of each cached block, the request of its last access and the number of that access.
    used: BTreeMap<BlockNo, (u32, u64)>,
    accesses: u64,
    accessed: BTreeSet<usize>,
    turn: usize,
}

impl PlainFlash {
    pub fn new(
        level: PlainLevel,
        lru: bool,
        (dirty_percent, most_at_once): (usize, usize),
        (fallow_delay, fallow_speed): (u32, usize),
    ) -> PlainFlash {
        PlainFlash {
            level,
            lru,
            dirty_percent,
            most_at_once,
            fallow_delay,
            fallow_speed,
            requests: 0,
            used: BTreeMap::new(),
            accesses: 0,
            accessed: BTreeSet::new(),
            turn: 0,
        }
    }

    fn use_now(&mut self, block: BlockNo) {
        self.accesses += 1;
        self.used.insert(block, (self.requests, self.accesses));
    }

    /// Dirty blocks of a set, idle for longest first.
    fn dirty(&self, set: usize) -> Vec<BlockNo> {
        let dirty = self.level.rows[set].iter().filter(|entry| entry.dirty);
        let mut blocks: Vec<BlockNo> = dirty.map(|entry| entry.block).collect();
        blocks.sort_by_key(|block| self.used[block].1);
        blocks
    }

    fn is_pressed(&self, set: usize) -> bool {
        let (dirty, ways) = (self.dirty(set).len(), self.level.ways(set));
        dirty > ways * self.dirty_percent / 100 || (dirty > 0 && dirty >= ways)
    }
}

impl PlainReplacement for PlainFlash {
    fn entries(&mut self) -> Vec<&mut Entry> {
        self.level.rows.iter_mut().flatten().collect()
    }

    fn touch(&mut self, block: BlockNo) {
        if self.lru {
            self.level.touch(block);
        }
        self.use_now(block);
        self.accessed.insert(self.level.set_of(block));
    }

    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>> {
        let set = self.level.set_of(block);
        self.accessed.insert(set);
        let mut gone = Vec::new();
        if self.level.is_full(block) {
            let at = self.level.rows[set].iter().position(|entry| !entry.dirty)?;
            gone.push(self.level.rows[set].remove(at));
            if !self.lru {
                // The hand has passed the dirty ones.
                self.level.rows[set].rotate_left(at);
            }
        }
        self.level.push(block, false);
        self.use_now(block);
        Some(gone)
    }

    fn restore(&mut self, block: BlockNo) -> bool {
        let fits = !self.level.is_full(block);
        if fits {
            self.level.push(block, false);
            self.use_now(block);
        }
        fits
    }

    fn remove(&mut self, block: BlockNo) {
        self.level.remove(block);
        self.used.remove(&block);
    }

    fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        // Where accesses of one request come together from several sets, they go by the numbers of those.
        let mut by_age: Vec<(u32, usize, u64, BlockNo)> = Vec::new();
        for (set, row) in self.level.rows.iter().enumerate() {
            by_age.extend(row.iter().map(|entry| {
                let (request, access) = self.used[&entry.block];
                (request, set, access, entry.block)
            }));
        }
        by_age.sort_unstable();
        for (_, _, _, block) in by_age {
            self.accesses += 1;
            self.used.entry(block).and_modify(|used| used.1 = self.accesses);
        }
        self.accessed.clear();
        self.level.resize(blocks)
    }
}

impl PlainCleaner for PlainFlash {
    fn clean(&mut self) -> Vec<BlockNo> {
        self.requests += 1;
        let mut cleaned = Vec::new();
        for set in std::mem::take(&mut self.accessed) {
            for _ in 0..self.most_at_once {
                if self.is_pressed(set) {
                    let oldest = self.dirty(set)[0];
                    self.level.set_dirty(oldest, false);
                    cleaned.push(oldest);
                }
            }
        }
        if self.fallow_delay > 0 {
            let set = self.turn % self.level.rows.len();
            self.turn = set + 1;
            for _ in 0..self.fallow_speed {
                let Some(&oldest) = self.dirty(set).first() else { break };
                if self.requests - self.used[&oldest].0 >= self.fallow_delay {
                    self.level.set_dirty(oldest, false);
                    cleaned.push(oldest);
                }
            }
        }
        cleaned
    }

    fn size(&self) -> usize {
        self.level.blocks as usize
    }
}
