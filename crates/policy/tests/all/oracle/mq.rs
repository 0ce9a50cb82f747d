//! MQ from one vector a queue, oldest first, where every queue's oldest block is asked after every access.

use lode_types::BlockNo;

use super::level::Entry;
use super::one_level::PlainReplacement;

/// The scheme's settings.
#[derive(Clone, Copy, Debug)]
pub struct MqSettings {
    pub queues: usize,
    pub life_percent: u64,
    pub ghost_percent: usize,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    entry: Entry,
    accesses: u32,
    since: u64,
}

#[derive(Debug)]
pub struct PlainMq {
    settings: MqSettings,
    blocks: usize,
    queues: Vec<Vec<Known>>,
    qout: Vec<(BlockNo, u32)>,
    now: u64,
}

impl PlainMq {
    pub fn new(settings: MqSettings, blocks: u32) -> PlainMq {
        let queues = vec![vec![]; settings.queues];
        PlainMq { settings, blocks: blocks as usize, queues, qout: vec![], now: 0 }
    }

    fn cached(&self) -> usize {
        self.queues.iter().map(Vec::len).sum()
    }

    fn trim(&mut self) {
        let most = self.blocks * self.settings.ghost_percent / 100;
        self.qout.drain(..self.qout.len().saturating_sub(most));
    }

    fn evict(&mut self) -> Entry {
        let lowest = self.queues.iter_mut().find(|queue| !queue.is_empty()).unwrap();
        let gone = lowest.remove(0);
        self.qout.push((gone.entry.block, gone.accesses));
        self.trim();
        gone.entry
    }

    /// One more access to a block that had so many, and what follows it.
    fn place(&mut self, entry: Entry, accesses: u32) {
        let accesses = accesses + 1;
        let mut queue = 0;
        while queue + 1 < self.queues.len() && 1 << (queue + 1) <= accesses {
            queue += 1;
        }
        self.queues[queue].push(Known { entry, accesses, since: self.now });
        self.now += 1;
        let life = self.blocks as u64 * self.settings.life_percent / 100;
        for queue in 1..self.queues.len() {
            if self.queues[queue].first().is_some_and(|oldest| oldest.since + life < self.now) {
                let mut oldest = self.queues[queue].remove(0);
                oldest.since = self.now;
                self.queues[queue - 1].push(oldest);
            }
        }
    }
}

impl PlainReplacement for PlainMq {
    fn entries(&mut self) -> Vec<&mut Entry> {
        self.queues.iter_mut().flatten().map(|known| &mut known.entry).collect()
    }

    fn touch(&mut self, block: BlockNo) {
        let is_it = |known: &Known| known.entry.block == block;
        let queue = self.queues.iter_mut().find(|queue| queue.iter().any(is_it)).unwrap();
        let at = queue.iter().position(is_it).unwrap();
        let known = queue.remove(at);
        self.place(known.entry, known.accesses);
    }

    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>> {
        if self.blocks == 0 {
            return None;
        }
        let accesses = self.qout.iter().find(|ghost| ghost.0 == block).map_or(0, |ghost| ghost.1);
        self.qout.retain(|ghost| ghost.0 != block);
        let gone = if self.cached() >= self.blocks { vec![self.evict()] } else { vec![] };
        self.place(Entry { block, dirty: false }, accesses);
        Some(gone)
    }

    fn restore(&mut self, block: BlockNo) -> bool {
        let fits = self.cached() < self.blocks;
        if fits {
            self.remove(block);
            self.place(Entry { block, dirty: false }, 0);
        }
        fits
    }

    fn remove(&mut self, block: BlockNo) {
        self.queues.iter_mut().for_each(|queue| queue.retain(|known| known.entry.block != block));
        self.qout.retain(|ghost| ghost.0 != block);
    }

    fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        self.blocks = blocks as usize;
        let too_many = self.cached().saturating_sub(self.blocks);
        let gone = (0..too_many).map(|_| self.evict()).collect();
        self.trim();
        gone
    }
}
