//! ARC as Fig. 4 of its paper has it, from four vectors, oldest first.

use lode_types::BlockNo;

use super::level::Entry;
use super::one_level::PlainReplacement;

#[derive(Debug)]
pub struct PlainArc {
    c: usize,
    p: f64,
    t1: Vec<Entry>,
    t2: Vec<Entry>,
    b1: Vec<BlockNo>,
    b2: Vec<BlockNo>,
}

impl PlainArc {
    pub fn new(blocks: u32) -> PlainArc {
        PlainArc { c: blocks as usize, p: 0.0, t1: vec![], t2: vec![], b1: vec![], b2: vec![] }
    }

    /// Cached blocks that were accessed once since they came, and more often, the next to leave first.
    pub fn seen_once(&self) -> Vec<BlockNo> {
        self.t1.iter().map(|entry| entry.block).collect()
    }

    pub fn seen_more_often(&self) -> Vec<BlockNo> {
        self.t2.iter().map(|entry| entry.block).collect()
    }

    fn full(&self) -> bool {
        self.t1.len() + self.t2.len() >= self.c
    }

    fn replace(&mut self, block: Option<BlockNo>) -> Entry {
        let t1 = self.t1.len() as f64;
        let in_b2 = block.is_some_and(|block| self.b2.contains(&block));
        let from_t1 = !self.t1.is_empty() && (t1 > self.p || (in_b2 && t1 == self.p));
        // After removals T2 may be empty, of which the paper does not speak.
        if from_t1 || self.t2.is_empty() {
            let gone = self.t1.remove(0);
            self.b1.push(gone.block);
            gone
        } else {
            let gone = self.t2.remove(0);
            self.b2.push(gone.block);
            gone
        }
    }

    /// A block that is in no list enters T1.
    fn admit_new(&mut self, block: BlockNo) -> Vec<Entry> {
        let mut gone = Vec::new();
        let once = self.t1.len() + self.b1.len();
        let all = once + self.t2.len() + self.b2.len();
        if once == self.c {
            if self.t1.len() < self.c {
                self.b1.remove(0);
                if self.full() {
                    gone.push(self.replace(None));
                }
            } else {
                gone.push(self.t1.remove(0));
            }
        } else {
            if all == 2 * self.c {
                self.b2.remove(0);
            }
            if self.full() {
                gone.push(self.replace(None));
            }
        }
        self.t1.push(Entry { block, dirty: false });
        gone
    }
}

impl PlainReplacement for PlainArc {
    fn entries(&mut self) -> Vec<&mut Entry> {
        self.t1.iter_mut().chain(&mut self.t2).collect()
    }

    fn touch(&mut self, block: BlockNo) {
        for list in 0..2 {
            let from = if list == 0 { &mut self.t1 } else { &mut self.t2 };
            if let Some(at) = from.iter().position(|entry| entry.block == block) {
                let entry = from.remove(at);
                self.t2.push(entry);
                return;
            }
        }
    }

    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>> {
        if self.c == 0 {
            return None;
        }
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if self.b1.contains(&block) {
            let delta = if b1 >= b2 { 1.0 } else { b2 / b1 };
            self.p = (self.p + delta).min(self.c as f64);
        } else if self.b2.contains(&block) {
            let delta = if b2 >= b1 { 1.0 } else { b1 / b2 };
            self.p = (self.p - delta).max(0.0);
        } else {
            return Some(self.admit_new(block));
        }
        let gone = if self.full() { vec![self.replace(Some(block))] } else { vec![] };
        self.remove(block);
        self.t2.push(Entry { block, dirty: false });
        Some(gone)
    }

    fn restore(&mut self, block: BlockNo) -> bool {
        let fits = !self.full();
        if fits {
            self.remove(block);
            assert!(self.admit_new(block).is_empty());
        }
        fits
    }

    fn remove(&mut self, block: BlockNo) {
        self.t1.retain(|entry| entry.block != block);
        self.t2.retain(|entry| entry.block != block);
        self.b1.retain(|ghost| *ghost != block);
        self.b2.retain(|ghost| *ghost != block);
    }

    fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        self.c = blocks as usize;
        self.p = self.p.min(self.c as f64);
        let mut gone = Vec::new();
        while self.t1.len() + self.t2.len() > self.c {
            gone.push(self.replace(None));
        }
        while self.t1.len() + self.b1.len() > self.c {
            self.b1.remove(0);
        }
        while self.t1.len() + self.b1.len() + self.t2.len() + self.b2.len() > 2 * self.c {
            self.b2.remove(0);
        }
        gone
    }
}
