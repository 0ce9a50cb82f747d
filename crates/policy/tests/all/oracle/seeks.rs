//! Seeks of the disk if nothing were cached, and what they come to for each block, as benefit-density counts them.

use lode_types::BlockNo;

use super::life_table::RUN_CLASSES;

pub const SEEK_US: f64 = 8000.0;

/// What blocks of each class of runs cost when they came again.
#[derive(Debug)]
pub struct RunCosts {
    sums_us: [f64; RUN_CLASSES],
    counts: [f64; RUN_CLASSES],
    estimated_us: [f64; RUN_CLASSES],
}

impl RunCosts {
    pub fn new() -> RunCosts {
        let nothing = [0.0; RUN_CLASSES];
        let mut costs = RunCosts { sums_us: nothing, counts: nothing, estimated_us: nothing };
        costs.estimate();
        costs
    }

    pub fn note(&mut self, run: usize, us: f64) {
        self.sums_us[run] += us;
        self.counts[run] += 1.0;
    }

    pub fn estimate(&mut self) {
        for (run, blocks) in [1.0, 2.0, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0, 192.0].into_iter().enumerate() {
            self.estimated_us[run] =
                (self.sums_us[run] + 16.0 * SEEK_US / blocks) / (self.counts[run] + 16.0);
            self.sums_us[run] *= 0.98;
            self.counts[run] *= 0.98;
        }
    }

    pub fn us(&self, run: usize) -> f64 {
        self.estimated_us[run]
    }
}

/// Class, age, class of the run.
pub type Saving = (usize, usize, usize);
/// And by how many blocks the seek is shared.
pub type Settled = (Saving, f64);

#[derive(Debug)]
struct Seek {
    blocks: Vec<BlockNo>,
    /// Seeks of the request in which it began, as far as they are known.
    of_request: usize,
    savings: Vec<Saving>,
}

#[derive(Debug)]
pub struct PlainSeeks {
    follows: bool,
    waiting: Vec<Seek>,
    begun: usize,
}

impl PlainSeeks {
    pub fn new(follows: bool) -> PlainSeeks {
        PlainSeeks { follows, waiting: vec![], begun: 0 }
    }

    pub fn asks_for(&mut self, block: BlockNo, is_read: bool) -> Vec<Settled> {
        let last = self.waiting.last_mut().filter(|_| self.follows);
        if is_read && last.as_ref().is_some_and(|seek| seek.blocks.last() == Some(&block)) {
            return vec![];
        }
        if let Some(seek) = last.filter(|seek| seek.blocks.last().is_some_and(|&last| last + 1 == block)) {
            seek.blocks.push(block);
            return vec![];
        }
        let settled = if self.waiting.len() == 512 { self.settle(512) } else { vec![] };
        self.waiting.push(Seek { blocks: vec![block], of_request: 1, savings: vec![] });
        self.begun += 1;
        settled
    }

    /// The block that the disk was asked for last had been cached, or could have been.
    pub fn saves(&mut self, saving: Saving) -> Vec<Settled> {
        self.waiting.last_mut().unwrap().savings.push(saving);
        let savings: usize = self.waiting.iter().map(|seek| seek.savings.len()).sum();
        if savings == 512 { self.settle(self.waiting.len()) } else { vec![] }
    }

    pub fn end_request(&mut self) -> Vec<Settled> {
        let settled = if self.begun > 0 { self.settle(self.waiting.len() - 1) } else { vec![] };
        self.begun = 0;
        settled
    }

    /// Of the first so many; the last one may go on all the same.
    fn settle(&mut self, count: usize) -> Vec<Settled> {
        for seek in self.waiting.iter_mut().rev().take(self.begun) {
            seek.of_request = if self.follows { self.begun } else { 1 };
        }
        let mut settled = vec![];
        for seek in &mut self.waiting[..count] {
            let shared = seek.blocks.len() as f64 * seek.of_request as f64;
            settled.extend(std::mem::take(&mut seek.savings).into_iter().map(|saving| (saving, shared)));
        }
        self.waiting = self.waiting.split_off(self.waiting.len() - 1);
        settled
    }
}
