//! LARC as its algorithm is quoted, from two vectors, oldest first; and with a second chance for blocks that were hit.

use lode_types::BlockNo;

use super::level::Entry;
use super::one_level::PlainReplacement;

#[derive(Debug)]
pub struct PlainLarc {
    c: usize,
    cr: f64,
    second_chance: bool,
    /// With whether they were hit since they came in or were spared.
    q: Vec<(Entry, bool)>,
    g: Vec<BlockNo>,
}

impl PlainLarc {
    pub fn new(blocks: u32, second_chance: bool) -> PlainLarc {
        let c = blocks as usize;
        PlainLarc { c, cr: 0.1 * c as f64, second_chance, q: vec![], g: vec![] }
    }

    /// The paper's Cr.
    pub fn ghosts_allowed(&self) -> f64 {
        self.cr
    }

    fn trim(&mut self) {
        while self.g.len() as f64 > self.cr && self.g.len() > 1 || self.g.len() > self.c {
            self.g.remove(0);
        }
    }

    fn evict(&mut self) -> Entry {
        loop {
            let (entry, hit) = self.q.remove(0);
            if !(self.second_chance && hit) {
                return entry;
            }
            self.q.push((entry, false));
        }
    }
}

impl PlainReplacement for PlainLarc {
    fn entries(&mut self) -> Vec<&mut Entry> {
        self.q.iter_mut().map(|(entry, _)| entry).collect()
    }

    fn touch(&mut self, block: BlockNo) {
        let c = self.c as f64;
        self.cr = f64::max(0.1 * c, self.cr - c / (c - self.cr));
        let at = self.q.iter().position(|(entry, _)| entry.block == block).unwrap();
        let (entry, _) = self.q.remove(at);
        self.q.push((entry, true));
    }

    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>> {
        if self.c == 0 {
            return None;
        }
        let c = self.c as f64;
        self.cr = f64::min(0.9 * c, self.cr + c / self.cr);
        if !self.g.contains(&block) {
            self.g.push(block);
            self.trim();
            return None;
        }
        self.g.retain(|ghost| *ghost != block);
        let gone = if self.q.len() >= self.c { vec![self.evict()] } else { vec![] };
        self.q.push((Entry { block, dirty: false }, false));
        Some(gone)
    }

    fn restore(&mut self, block: BlockNo) -> bool {
        let fits = self.q.len() < self.c;
        if fits {
            self.remove(block);
            self.q.push((Entry { block, dirty: false }, false));
        }
        fits
    }

    fn remove(&mut self, block: BlockNo) {
        self.q.retain(|(entry, _)| entry.block != block);
        self.g.retain(|ghost| *ghost != block);
    }

    fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        self.c = blocks as usize;
        self.cr = self.cr.max(0.1 * self.c as f64).min(0.9 * self.c as f64);
        let too_many = self.q.len().saturating_sub(self.c);
        let gone = (0..too_many).map(|_| self.evict()).collect();
        self.trim();
        gone
    }
}
