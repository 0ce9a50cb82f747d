//! Promotion with the n-th access, from two vectors, oldest first.

use lode_types::BlockNo;

use super::level::Entry;
use super::one_level::PlainReplacement;

#[derive(Debug)]
pub struct PlainFastCache {
    blocks: usize,
    promote_after: u32,
    window_percent: usize,
    cached: Vec<Entry>,
    /// Blocks outside with their accesses.
    window: Vec<(BlockNo, u32)>,
}

impl PlainFastCache {
    pub fn new(blocks: u32, promote_after: u32, window_percent: usize) -> PlainFastCache {
        let blocks = blocks as usize;
        PlainFastCache { blocks, promote_after, window_percent, cached: vec![], window: vec![] }
    }

    fn trim(&mut self) {
        let share = self.blocks * self.window_percent / 100;
        let most = if self.blocks > 0 && share == 0 { 1 } else { share };
        self.window.drain(..self.window.len().saturating_sub(most));
    }
}

impl PlainReplacement for PlainFastCache {
    fn entries(&mut self) -> Vec<&mut Entry> {
        self.cached.iter_mut().collect()
    }

    fn touch(&mut self, block: BlockNo) {
        let at = self.cached.iter().position(|entry| entry.block == block).unwrap();
        let entry = self.cached.remove(at);
        self.cached.push(entry);
    }

    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>> {
        if self.blocks == 0 {
            return None;
        }
        let accesses = 1 + self.window.iter().find(|known| known.0 == block).map_or(0, |known| known.1);
        self.window.retain(|known| known.0 != block);
        if accesses < self.promote_after {
            self.window.push((block, accesses));
            self.trim();
            return None;
        }
        let gone = if self.cached.len() >= self.blocks { vec![self.cached.remove(0)] } else { vec![] };
        self.cached.push(Entry { block, dirty: false });
        Some(gone)
    }

    fn restore(&mut self, block: BlockNo) -> bool {
        let fits = self.cached.len() < self.blocks;
        if fits {
            self.remove(block);
            self.cached.push(Entry { block, dirty: false });
        }
        fits
    }

    fn remove(&mut self, block: BlockNo) {
        self.cached.retain(|entry| entry.block != block);
        self.window.retain(|known| known.0 != block);
    }

    fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        self.blocks = blocks as usize;
        let gone = self.cached.drain(..self.cached.len().saturating_sub(self.blocks)).collect();
        self.trim();
        gone
    }
}
