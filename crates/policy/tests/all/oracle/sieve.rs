//! SIEVE as Algorithm 1 of its paper has it, from one vector, oldest first.

use lode_types::BlockNo;

use super::level::Entry;
use super::one_level::PlainReplacement;

#[derive(Debug)]
pub struct PlainSieve {
    blocks: usize,
    /// With whether they were visited.
    queue: Vec<(Entry, bool)>,
    hand: usize,
}

impl PlainSieve {
    pub fn new(blocks: u32) -> PlainSieve {
        PlainSieve { blocks: blocks as usize, queue: vec![], hand: 0 }
    }

    fn take(&mut self, at: usize) -> Entry {
        let (entry, _) = self.queue.remove(at);
        if at < self.hand {
            self.hand -= 1;
        }
        // The hand that stood at the newest starts anew, before another one becomes the newest.
        if self.hand >= self.queue.len() {
            self.hand = 0;
        }
        entry
    }

    fn evict(&mut self) -> Entry {
        while self.queue[self.hand].1 {
            self.queue[self.hand].1 = false;
            self.hand = (self.hand + 1) % self.queue.len();
        }
        self.take(self.hand)
    }
}

impl PlainReplacement for PlainSieve {
    fn entries(&mut self) -> Vec<&mut Entry> {
        self.queue.iter_mut().map(|(entry, _)| entry).collect()
    }

    fn touch(&mut self, block: BlockNo) {
        self.queue
            .iter_mut()
            .filter(|(entry, _)| entry.block == block)
            .for_each(|(_, visited)| *visited = true);
    }

    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>> {
        if self.blocks == 0 {
            return None;
        }
        let gone = if self.queue.len() >= self.blocks { vec![self.evict()] } else { vec![] };
        self.queue.push((Entry { block, dirty: false }, false));
        Some(gone)
    }

    fn restore(&mut self, block: BlockNo) -> bool {
        self.queue.len() < self.blocks && self.admit(block).is_some()
    }

    fn remove(&mut self, block: BlockNo) {
        if let Some(at) = self.queue.iter().position(|(entry, _)| entry.block == block) {
            self.take(at);
        }
    }

    fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        self.blocks = blocks as usize;
        let too_many = self.queue.len().saturating_sub(self.blocks);
        (0..too_many).map(|_| self.evict()).collect()
    }
}
