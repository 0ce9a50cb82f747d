//! W-TinyLFU from three vectors, oldest first, and a sketch of whole numbers, or exact counts instead of it. The sketch
//! shares the hash and its two factors with the scheme, so that collisions are the same; whether they are few, only the
//! exact counts can tell.

use std::collections::{BTreeMap, BTreeSet};

use lode_reuse::BlockIndex;
use lode_types::BlockNo;

use super::level::Entry;
use super::one_level::PlainReplacement;

/// The scheme's settings.
#[derive(Clone, Copy, Debug)]
pub struct TinySettings {
    pub window_percent: usize,
    pub protected_percent: usize,
    pub sample_factor: usize,
    pub doorkeeper: bool,
}

/// One line of the sketch: four rows of counters, and the doorkeeper's bits.
#[derive(Clone, Debug)]
struct PlainLine {
    rows: [[u32; 32]; 4],
    doors: [bool; 512],
}

/// How often each block was accessed, exactly.
#[derive(Clone, Debug, Default)]
struct ExactCounts {
    counts: BTreeMap<BlockNo, u32>,
    at_door: BTreeSet<BlockNo>,
}

#[derive(Debug)]
pub struct PlainTiny {
    settings: TinySettings,
    blocks: usize,
    window: Vec<Entry>,
    probation: Vec<Entry>,
    protected: Vec<Entry>,
    lines: Vec<PlainLine>,
    /// Counts instead of the sketch.
    exact: Option<ExactCounts>,
    accesses: usize,
}

/// `count` numbers of `bits` bits from the top of the hash times `factor`, the lowest first.
fn numbers(block: BlockNo, factor: u64, bits: u32, count: u32) -> Vec<usize> {
    let product = u64::from(BlockIndex::hash(block)).wrapping_mul(factor);
    let top = product / 2u64.pow(64 - bits * count);
    (0..count).map(|at| (top / 2u64.pow(bits * at) % 2u64.pow(bits)) as usize).collect()
}

fn counters(block: BlockNo) -> Vec<usize> {
    numbers(block, 0x6a09_e667_f3bc_c909, 5, 4)
}

fn doors(block: BlockNo) -> Vec<usize> {
    numbers(block, 0xbb67_ae85_84ca_a73b, 9, 4)
}

impl PlainTiny {
    pub fn new(settings: TinySettings, blocks: u32) -> PlainTiny {
        PlainTiny {
            settings,
            blocks: blocks as usize,
            window: vec![],
            probation: vec![],
            protected: vec![],
            lines: vec![PlainLine { rows: [[0; 32]; 4], doors: [false; 512] }],
            exact: None,
            accesses: 0,
        }
    }

    /// As it would be with a sketch in which no two blocks collide.
    pub fn counting_exactly(settings: TinySettings, blocks: u32) -> PlainTiny {
        PlainTiny { exact: Some(ExactCounts::default()), ..PlainTiny::new(settings, blocks) }
    }

    fn window_blocks(&self) -> usize {
        (self.blocks * self.settings.window_percent / 100).max(1)
    }

    fn protected_blocks(&self) -> usize {
        self.blocks.saturating_sub(self.window_blocks()) * self.settings.protected_percent / 100
    }

    fn cached(&self) -> usize {
        self.window.len() + self.probation.len() + self.protected.len()
    }

    fn line(&self, block: BlockNo) -> usize {
        // A power of two of lines by the first bits of the hash.
        let share = f64::from(BlockIndex::hash(block)) / 2f64.powi(32);
        (share * self.lines.len() as f64) as usize
    }

    fn frequency(&self, block: BlockNo) -> u32 {
        if let Some(exact) = &self.exact {
            return exact.counts.get(&block).copied().unwrap_or(0)
                + u32::from(exact.at_door.contains(&block));
        }
        let line = &self.lines[self.line(block)];
        let least = counters(block).iter().zip(line.rows).map(|(at, row)| row[*at]).min().unwrap();
        let in_door = self.settings.doorkeeper && doors(block).iter().all(|at| line.doors[*at]);
        least + u32::from(in_door)
    }

    fn count(&mut self, block: BlockNo) {
        if let Some(exact) = &mut self.exact {
            if !self.settings.doorkeeper || !exact.at_door.insert(block) {
                let count = exact.counts.entry(block).or_default();
                *count = (*count + 1).min(15);
            }
        } else {
            self.count_in_sketch(block);
        }
        self.accesses += 1;
        if self.accesses >= self.blocks * self.settings.sample_factor {
            self.accesses /= 2;
            self.halve();
        }
    }

    fn halve(&mut self) {
        for line in &mut self.lines {
            line.rows.iter_mut().flatten().for_each(|counter| *counter /= 2);
            line.doors = [false; 512];
        }
        if let Some(exact) = &mut self.exact {
            exact.counts.values_mut().for_each(|count| *count /= 2);
            exact.at_door.clear();
        }
    }

    fn count_in_sketch(&mut self, block: BlockNo) {
        let at = self.line(block);
        let line = &mut self.lines[at];
        let was_in_door = doors(block).iter().all(|at| line.doors[*at]);
        doors(block).iter().for_each(|at| line.doors[*at] = true);
        if was_in_door || !self.settings.doorkeeper {
            let places = counters(block);
            let least = places.iter().zip(line.rows).map(|(at, row)| row[*at]).min().unwrap();
            for (at, row) in places.iter().zip(&mut line.rows) {
                let counter = &mut row[*at];
                if *counter == least && least < 15 {
                    *counter += 1;
                }
            }
        }
    }

    /// Eight cached blocks have one line.
    fn grow_sketch(&mut self) {
        while self.lines.len() * 8 < self.cached() + 1 {
            self.lines = self.lines.iter().flat_map(|line| [line.clone(), line.clone()]).collect();
        }
    }

    fn demote(&mut self) {
        while self.protected.len() > self.protected_blocks() {
            let oldest = self.protected.remove(0);
            self.probation.push(oldest);
        }
    }

    fn main_victim(&mut self) -> Option<&mut Vec<Entry>> {
        [&mut self.probation, &mut self.protected].into_iter().find(|list| !list.is_empty())
    }
}

impl PlainReplacement for PlainTiny {
    fn entries(&mut self) -> Vec<&mut Entry> {
        self.window.iter_mut().chain(&mut self.probation).chain(&mut self.protected).collect()
    }

    fn note(&mut self, block: BlockNo) {
        self.count(block);
    }

    fn touch(&mut self, block: BlockNo) {
        if let Some(at) = self.window.iter().position(|entry| entry.block == block) {
            let entry = self.window.remove(at);
            self.window.push(entry);
        } else if let Some(at) = self.protected.iter().position(|entry| entry.block == block) {
            let entry = self.protected.remove(at);
            self.protected.push(entry);
        } else if let Some(at) = self.probation.iter().position(|entry| entry.block == block) {
            let entry = self.probation.remove(at);
            self.protected.push(entry);
            self.demote();
        }
    }

    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>> {
        if self.blocks == 0 {
            return None;
        }
        self.grow_sketch();
        let mut gone = Vec::new();
        if self.window.len() >= self.window_blocks() {
            let is_full = self.cached() >= self.blocks;
            let candidate = self.window.remove(0);
            let victim = self.main_victim().map(|list| list[0].block);
            if !is_full {
                self.probation.push(candidate);
            } else if victim.is_some_and(|victim| self.frequency(candidate.block) > self.frequency(victim)) {
                gone.push(self.main_victim().unwrap().remove(0));
                self.probation.push(candidate);
            } else {
                gone.push(candidate);
            }
        } else if self.cached() >= self.blocks {
            gone.push(self.main_victim().unwrap().remove(0));
        }
        self.window.push(Entry { block, dirty: false });
        Some(gone)
    }

    fn restore(&mut self, block: BlockNo) -> bool {
        let fits = self.cached() < self.blocks;
        if fits {
            self.grow_sketch();
            let has_room = self.window.len() < self.window_blocks();
            let queue = if has_room { &mut self.window } else { &mut self.probation };
            queue.push(Entry { block, dirty: false });
        }
        fits
    }

    fn remove(&mut self, block: BlockNo) {
        for list in [&mut self.window, &mut self.probation, &mut self.protected] {
            list.retain(|entry| entry.block != block);
        }
    }

    fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        self.blocks = blocks as usize;
        while self.window.len() > self.window_blocks() {
            let oldest = self.window.remove(0);
            self.probation.push(oldest);
        }
        self.demote();
        let mut gone = Vec::new();
        while self.cached() > self.blocks {
            gone.push(match self.main_victim() {
                Some(list) => list.remove(0),
                None => self.window.remove(0),
            });
        }
        gone
    }
}
