//! LIRS as its paper tells it, from vectors, oldest first: the stack has numbers only, the blocks are elsewhere.

use lode_types::BlockNo;

use super::level::Entry;
use super::one_level::PlainReplacement;

#[derive(Debug)]
pub struct PlainLirs {
    blocks: usize,
    hir_percent: usize,
    stack_percent: usize,
    stack: Vec<BlockNo>,
    lirs: Vec<Entry>,
    queue: Vec<Entry>,
    /// In the stack and not cached, in the order in which they left.
    ghosts: Vec<BlockNo>,
}

impl PlainLirs {
    pub fn new(hir_percent: usize, stack_percent: usize, blocks: u32) -> PlainLirs {
        PlainLirs {
            blocks: blocks as usize,
            hir_percent,
            stack_percent,
            stack: vec![],
            lirs: vec![],
            queue: vec![],
            ghosts: vec![],
        }
    }

    fn lir_blocks(&self) -> usize {
        self.blocks.saturating_sub((self.blocks * self.hir_percent / 100).max(1))
    }

    fn is_lir(&self, block: BlockNo) -> bool {
        self.lirs.iter().any(|entry| entry.block == block)
    }

    fn cached(&self) -> usize {
        self.lirs.len() + self.queue.len()
    }

    fn put_on_top(&mut self, block: BlockNo) {
        self.stack.retain(|other| *other != block);
        self.stack.push(block);
        self.prune();
    }

    fn prune(&mut self) {
        while !self.stack.is_empty() && !self.is_lir(self.stack[0]) {
            let gone = self.stack.remove(0);
            self.ghosts.retain(|ghost| *ghost != gone);
        }
    }

    fn make_lir(&mut self, entry: Entry) {
        self.lirs.push(entry);
        self.put_on_top(entry.block);
        self.demote();
    }

    fn demote(&mut self) {
        while self.lirs.len() > self.lir_blocks() {
            let bottom = self.stack.remove(0);
            let at = self.lirs.iter().position(|entry| entry.block == bottom).unwrap();
            let entry = self.lirs.remove(at);
            self.queue.push(entry);
            self.prune();
        }
    }

    fn evict(&mut self) -> Entry {
        let gone = self.queue.remove(0);
        if self.stack.contains(&gone.block) {
            self.ghosts.push(gone.block);
        }
        gone
    }

    /// At the end of everything that may make the stack longer than it may be.
    fn trim_stack(&mut self) {
        while self.stack.len() > self.blocks * self.stack_percent / 100 && !self.ghosts.is_empty() {
            let ghost = self.ghosts.remove(0);
            self.stack.retain(|block| *block != ghost);
        }
    }

    fn enter(&mut self, block: BlockNo) {
        let entry = Entry { block, dirty: false };
        if self.lirs.len() < self.lir_blocks() {
            self.make_lir(entry);
        } else {
            self.queue.push(entry);
            self.put_on_top(block);
        }
    }
}

impl PlainReplacement for PlainLirs {
    fn entries(&mut self) -> Vec<&mut Entry> {
        self.lirs.iter_mut().chain(&mut self.queue).collect()
    }

    fn touch(&mut self, block: BlockNo) {
        if self.is_lir(block) {
            self.put_on_top(block);
            self.trim_stack();
            return;
        }
        let at = self.queue.iter().position(|entry| entry.block == block).unwrap();
        let entry = self.queue.remove(at);
        if self.stack.contains(&block) || self.lirs.len() < self.lir_blocks() {
            self.make_lir(entry);
        } else {
            self.queue.push(entry);
            self.put_on_top(block);
        }
        self.trim_stack();
    }

    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>> {
        if self.blocks == 0 {
            return None;
        }
        let is_ghost = self.ghosts.contains(&block);
        self.ghosts.retain(|ghost| *ghost != block);
        let gone = if self.cached() >= self.blocks { vec![self.evict()] } else { vec![] };
        if is_ghost {
            self.make_lir(Entry { block, dirty: false });
        } else {
            self.enter(block);
        }
        self.trim_stack();
        Some(gone)
    }

    fn restore(&mut self, block: BlockNo) -> bool {
        let fits = self.cached() < self.blocks;
        if fits {
            self.remove(block);
            self.enter(block);
            self.trim_stack();
        }
        fits
    }

    fn remove(&mut self, block: BlockNo) {
        self.lirs.retain(|entry| entry.block != block);
        self.queue.retain(|entry| entry.block != block);
        self.ghosts.retain(|ghost| *ghost != block);
        self.stack.retain(|other| *other != block);
        self.prune();
    }

    fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        self.blocks = blocks as usize;
        self.demote();
        let too_many = self.cached().saturating_sub(self.blocks);
        let gone = (0..too_many).map(|_| self.evict()).collect();
        self.trim_stack();
        gone
    }
}
