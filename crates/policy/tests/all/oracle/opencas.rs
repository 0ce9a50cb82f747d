//! Open CAS from three vectors.

use std::collections::BTreeMap;

use lode_types::BlockNo;

use super::cut_off::PlainCleaner;
use super::level::Entry;
use super::one_level::PlainReplacement;

#[derive(Clone, Copy, Debug)]
pub struct OpencasSettings {
    /// `None`: always admitted.
    pub nhit: Option<u32>,
    pub trigger_percent: usize,
    pub cleans: bool,
    pub wake_up: u32,
    pub staleness: u32,
    pub most_at_once: usize,
    pub dirty_ratio_percent: usize,
}

/// The oldest first, everywhere.
#[derive(Debug)]
pub struct PlainOpencas {
    settings: OpencasSettings,
    blocks: usize,
    /// By recency; the dirty ones by their last writes.
    cached: Vec<Entry>,
    /// The request of each last write.
    written: BTreeMap<BlockNo, u32>,
    counted: Vec<(BlockNo, u32)>,
    requests: u32,
    in_need: bool,
}

impl PlainOpencas {
    pub fn new(settings: OpencasSettings, blocks: u32) -> PlainOpencas {
        PlainOpencas {
            settings,
            blocks: blocks as usize,
            cached: Vec::new(),
            written: BTreeMap::new(),
            counted: Vec::new(),
            requests: 0,
            in_need: false,
        }
    }

    fn move_to_back(&mut self, block: BlockNo) {
        let at = self.cached.iter().position(|entry| entry.block == block).unwrap();
        let entry = self.cached.remove(at);
        self.cached.push(entry);
    }

    fn bound_counted(&mut self) {
        self.counted.drain(..self.counted.len().saturating_sub(2 * self.blocks));
    }

    fn oldest(&self, dirty: bool) -> Option<usize> {
        self.cached.iter().position(|entry| entry.dirty == dirty)
    }

    fn clean_oldest(&mut self) -> Option<BlockNo> {
        let at = self.oldest(true)?;
        let block = self.cached[at].block;
        self.cached[at].dirty = false;
        self.move_to_back(block);
        Some(block)
    }
}

impl PlainReplacement for PlainOpencas {
    fn entries(&mut self) -> Vec<&mut Entry> {
        self.cached.iter_mut().collect()
    }

    fn touch(&mut self, block: BlockNo) {
        if self.cached.iter().any(|entry| entry.block == block && !entry.dirty) {
            self.move_to_back(block);
        }
    }

    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>> {
        if self.blocks == 0 {
            return None;
        }
        let is_filled = self.cached.len() * 100 >= self.settings.trigger_percent * self.blocks;
        if let Some(threshold) = self.settings.nhit.filter(|_| is_filled) {
            let at = self.counted.iter().position(|known| known.0 == block).unwrap_or_else(|| {
                self.counted.push((block, 0));
                self.counted.len() - 1
            });
            self.counted[at].1 += 1;
            if self.counted[at].1 < threshold {
                self.bound_counted();
                return None;
            }
        }
        let mut gone = Vec::new();
        if self.cached.len() >= self.blocks {
            let Some(at) = self.oldest(false) else {
                self.in_need = true;
                self.bound_counted();
                return None;
            };
            gone.push(self.cached.remove(at));
        }
        self.counted.retain(|known| known.0 != block);
        self.cached.push(Entry { block, dirty: false });
        Some(gone)
    }

    fn set_dirty(&mut self, block: BlockNo, dirty: bool) {
        let Some(at) = self.cached.iter().position(|entry| entry.block == block) else { return };
        let was_dirty = std::mem::replace(&mut self.cached[at].dirty, dirty);
        if dirty {
            self.written.insert(block, self.requests);
        }
        if dirty || was_dirty {
            self.move_to_back(block);
        }
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
        self.counted.retain(|known| known.0 != block);
    }

    fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        self.blocks = blocks as usize;
        let mut gone = Vec::new();
        while self.cached.len() > self.blocks {
            let at = self.oldest(false).or(self.oldest(true)).unwrap();
            gone.push(self.cached.remove(at));
        }
        self.bound_counted();
        gone
    }
}

impl PlainCleaner for PlainOpencas {
    fn clean(&mut self) -> Vec<BlockNo> {
        self.requests += 1;
        let mut cleaned = Vec::new();
        if std::mem::take(&mut self.in_need) {
            (0..32).for_each(|_| cleaned.extend(self.clean_oldest()));
        }
        if self.requests.is_multiple_of(self.settings.wake_up) && self.settings.cleans {
            for _ in 0..self.settings.most_at_once {
                let Some(at) = self.oldest(true) else { break };
                let age = self.requests - self.written[&self.cached[at].block];
                let dirty = self.cached.iter().filter(|entry| entry.dirty).count();
                let too_many = dirty * 100 > self.settings.dirty_ratio_percent * self.blocks;
                if age >= self.settings.staleness || too_many {
                    cleaned.extend(self.clean_oldest());
                }
            }
        }
        cleaned
    }

    fn size(&self) -> usize {
        self.blocks
    }
}
