//! 2Q as the full version of its paper has it, from three vectors, oldest first.

use lode_types::BlockNo;

use super::level::Entry;
use super::one_level::PlainReplacement;

#[derive(Debug)]
pub struct PlainTwoQ {
    blocks: usize,
    in_percent: usize,
    out_percent: usize,
    a1in: Vec<Entry>,
    a1out: Vec<BlockNo>,
    am: Vec<Entry>,
}

impl PlainTwoQ {
    pub fn new(blocks: u32, in_percent: usize, out_percent: usize) -> PlainTwoQ {
        let blocks = blocks as usize;
        PlainTwoQ { blocks, in_percent, out_percent, a1in: vec![], a1out: vec![], am: vec![] }
    }

    fn cached(&self) -> usize {
        self.a1in.len() + self.am.len()
    }

    fn trim(&mut self) {
        let most = self.blocks * self.out_percent / 100;
        self.a1out.drain(..self.a1out.len().saturating_sub(most));
    }

    fn evict(&mut self) -> Entry {
        if !self.am.is_empty() && self.a1in.len() <= self.blocks * self.in_percent / 100 {
            return self.am.remove(0);
        }
        let gone = self.a1in.remove(0);
        self.a1out.push(gone.block);
        self.trim();
        gone
    }
}

impl PlainReplacement for PlainTwoQ {
    fn entries(&mut self) -> Vec<&mut Entry> {
        self.a1in.iter_mut().chain(&mut self.am).collect()
    }

    fn touch(&mut self, block: BlockNo) {
        if let Some(at) = self.am.iter().position(|entry| entry.block == block) {
            let entry = self.am.remove(at);
            self.am.push(entry);
        }
    }

    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>> {
        if self.blocks == 0 {
            return None;
        }
        let was_out = self.a1out.contains(&block);
        self.a1out.retain(|ghost| *ghost != block);
        let gone = if self.cached() >= self.blocks { vec![self.evict()] } else { vec![] };
        let queue = if was_out { &mut self.am } else { &mut self.a1in };
        queue.push(Entry { block, dirty: false });
        Some(gone)
    }

    fn restore(&mut self, block: BlockNo) -> bool {
        let fits = self.cached() < self.blocks;
        if fits {
            self.remove(block);
            self.a1in.push(Entry { block, dirty: false });
        }
        fits
    }

    fn remove(&mut self, block: BlockNo) {
        self.a1in.retain(|entry| entry.block != block);
        self.am.retain(|entry| entry.block != block);
        self.a1out.retain(|ghost| *ghost != block);
    }

    fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        self.blocks = blocks as usize;
        let too_many = self.cached().saturating_sub(self.blocks);
        let gone = (0..too_many).map(|_| self.evict()).collect();
        self.trim();
        gone
    }
}
