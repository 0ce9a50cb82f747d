//! S3-FIFO as Algorithm 1 of its paper has it, from three vectors, oldest first.

use lode_types::BlockNo;

use super::level::Entry;
use super::one_level::PlainReplacement;

/// The scheme's settings.
#[derive(Clone, Copy, Debug)]
pub struct S3Settings {
    pub small_percent: usize,
    pub ghost_percent: usize,
    pub move_threshold: u32,
    pub warm_up_in_main: bool,
}

#[derive(Debug)]
pub struct PlainS3 {
    settings: S3Settings,
    blocks: usize,
    /// With their hits.
    small: Vec<(Entry, u32)>,
    main: Vec<(Entry, u32)>,
    ghosts: Vec<BlockNo>,
    evicted: bool,
}

impl PlainS3 {
    pub fn new(settings: S3Settings, blocks: u32) -> PlainS3 {
        PlainS3 {
            settings,
            blocks: blocks as usize,
            small: vec![],
            main: vec![],
            ghosts: vec![],
            evicted: false,
        }
    }

    fn small_blocks(&self) -> usize {
        (self.blocks * self.settings.small_percent / 100).max(1)
    }

    fn cached(&self) -> usize {
        self.small.len() + self.main.len()
    }

    fn trim_ghosts(&mut self) {
        while self.ghosts.len() > self.blocks * self.settings.ghost_percent / 100 {
            self.ghosts.remove(0);
        }
    }

    fn evict(&mut self) -> Entry {
        self.evicted = true;
        // Of a full cache that is: the small queue has less than its share.
        let main_is_over = self.main.len() > self.blocks.saturating_sub(self.small_blocks());
        while !main_is_over && !self.small.is_empty() {
            let (entry, hits) = self.small.remove(0);
            if hits < self.settings.move_threshold {
                self.ghosts.push(entry.block);
                self.trim_ghosts();
                return entry;
            }
            self.main.push((entry, 0));
        }
        self.evict_from_main()
    }

    fn evict_from_main(&mut self) -> Entry {
        loop {
            let (entry, hits) = self.main.remove(0);
            if hits == 0 {
                return entry;
            }
            self.main.push((entry, hits - 1));
        }
    }

    fn push_new(&mut self, block: BlockNo) {
        let warming_up = self.settings.warm_up_in_main && !self.evicted;
        let into_main = warming_up && self.small.len() >= self.small_blocks();
        let queue = if into_main { &mut self.main } else { &mut self.small };
        queue.push((Entry { block, dirty: false }, 0));
    }
}

impl PlainReplacement for PlainS3 {
    fn entries(&mut self) -> Vec<&mut Entry> {
        self.small.iter_mut().chain(&mut self.main).map(|(entry, _)| entry).collect()
    }

    fn touch(&mut self, block: BlockNo) {
        let all = self.small.iter_mut().chain(&mut self.main);
        all.filter(|(entry, _)| entry.block == block).for_each(|(_, hits)| *hits = (*hits + 1).min(3));
    }

    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>> {
        if self.blocks == 0 {
            return None;
        }
        let is_ghost = self.ghosts.contains(&block);
        self.ghosts.retain(|ghost| *ghost != block);
        let gone = if self.cached() >= self.blocks { vec![self.evict()] } else { vec![] };
        if is_ghost {
            self.main.push((Entry { block, dirty: false }, 0));
        } else {
            self.push_new(block);
        }
        Some(gone)
    }

    fn restore(&mut self, block: BlockNo) -> bool {
        let fits = self.cached() < self.blocks;
        if fits {
            self.ghosts.retain(|ghost| *ghost != block);
            self.push_new(block);
        }
        fits
    }

    fn remove(&mut self, block: BlockNo) {
        self.small.retain(|(entry, _)| entry.block != block);
        self.main.retain(|(entry, _)| entry.block != block);
        self.ghosts.retain(|ghost| *ghost != block);
    }

    fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        self.blocks = blocks as usize;
        let too_many = self.cached().saturating_sub(self.blocks);
        let gone = (0..too_many).map(|_| self.evict()).collect();
        self.trim_ghosts();
        gone
    }
}
