//! L2ARC and uCache from vectors, the oldest first.

use lode_policy::Quota;
use lode_types::{BlockNo, Level};

use super::arc::PlainArc;
use super::level::Entry;
use super::one_level::PlainReplacement;
use crate::driver::{Observed, Residents, Step};

fn residents_of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Residents {
    entries.into_iter().map(|entry| (entry.block, entry.dirty)).collect()
}

fn evicted(level: Level, entry: Entry) -> Observed {
    Observed::Evict { level, block: entry.block, dirty: entry.dirty }
}

fn remove(entries: &mut Vec<Entry>, block: BlockNo) -> Option<Entry> {
    let at = entries.iter().position(|entry| entry.block == block)?;
    Some(entries.remove(at))
}

/// What both have in common.
pub trait PlainTwoLevel {
    fn step(&mut self, step: Step) -> Vec<Observed>;
    fn residents(&mut self) -> [Residents; 2];
}

#[derive(Debug)]
pub struct PlainL2arc {
    dram: PlainArc,
    ssd: Vec<Entry>,
    ssd_blocks: usize,
    interval: u32,
    feed_blocks: usize,
    headroom: usize,
    requests: u32,
}

impl PlainL2arc {
    pub fn new(quota: Quota, interval: u32, feed_blocks: usize, headroom: usize) -> PlainL2arc {
        let (dram, ssd) = (PlainArc::new(quota.dram_blocks), quota.ssd_blocks as usize);
        PlainL2arc { dram, ssd: vec![], ssd_blocks: ssd, interval, feed_blocks, headroom, requests: 0 }
    }

    fn in_dram(&mut self, block: BlockNo) -> bool {
        self.dram.entries().iter().any(|entry| entry.block == block)
    }

    fn in_ssd(&self, block: BlockNo) -> bool {
        self.ssd.iter().any(|entry| entry.block == block)
    }

    fn read(&mut self, block: BlockNo) -> Vec<Observed> {
        if self.in_dram(block) {
            self.dram.touch(block);
            return vec![Observed::ReadLevel(Level::Dram)];
        }
        let mut observed =
            vec![if self.in_ssd(block) { Observed::ReadLevel(Level::Ssd) } else { Observed::ReadBacking }];
        if let Some(gone) = self.dram.admit(block) {
            observed.extend(gone.into_iter().map(|entry| evicted(Level::Dram, entry)));
            observed.push(Observed::Fill(Level::Dram));
        }
        observed
    }

    fn invalidate(&mut self, block: BlockNo) -> Vec<Observed> {
        let mut observed = Vec::new();
        if self.in_dram(block) {
            self.dram.remove(block);
            observed.push(Observed::Invalidate(Level::Dram));
        }
        if remove(&mut self.ssd, block).is_some() {
            observed.push(Observed::Invalidate(Level::Ssd));
        }
        observed
    }

    fn feed(&mut self) -> Vec<Observed> {
        let mut observed = Vec::new();
        let mut left = self.feed_blocks.min(self.ssd_blocks);
        for list in [self.dram.seen_more_often(), self.dram.seen_once()] {
            for block in list.into_iter().take(self.headroom * self.feed_blocks) {
                if left > 0 && !self.in_ssd(block) {
                    if self.ssd.len() >= self.ssd_blocks {
                        observed.push(evicted(Level::Ssd, self.ssd.remove(0)));
                    }
                    self.ssd.push(Entry { block, dirty: false });
                    observed.push(Observed::Move(block));
                    left -= 1;
                }
            }
        }
        observed
    }
}

impl PlainTwoLevel for PlainL2arc {
    fn step(&mut self, step: Step) -> Vec<Observed> {
        match step {
            Step::Read(block) => self.read(block),
            Step::Write(block, _) => {
                let mut observed = self.invalidate(block);
                observed.push(Observed::WriteBacking);
                observed
            }
            Step::EndRequest => {
                self.requests += 1;
                if self.requests.is_multiple_of(self.interval) { self.feed() } else { Vec::new() }
            }
            Step::Discard(block) => {
                let observed = self.invalidate(block);
                self.dram.remove(block);
                observed
            }
            Step::Forget(Level::Dram, block) => {
                if self.in_dram(block) {
                    self.dram.remove(block);
                }
                Vec::new()
            }
            Step::Forget(Level::Ssd, block) => {
                remove(&mut self.ssd, block);
                Vec::new()
            }
            Step::Forget(Level::ReadSsd, _) => Vec::new(),
            Step::Cleaned(_) => Vec::new(),
            Step::Restore(block, dirty) => {
                let fits = !dirty && !self.in_ssd(block) && self.ssd.len() < self.ssd_blocks;
                if fits {
                    self.ssd.push(Entry { block, dirty: false });
                }
                vec![Observed::Restored(fits)]
            }
            Step::Resize(quota) => {
                let gone = self.dram.resize(quota.dram_blocks);
                self.ssd_blocks = quota.ssd_blocks as usize;
                let too_many = self.ssd.len().saturating_sub(self.ssd_blocks);
                let from_ssd = self.ssd.drain(..too_many).map(|entry| evicted(Level::Ssd, entry));
                gone.into_iter().map(|entry| evicted(Level::Dram, entry)).chain(from_ssd).collect()
            }
        }
    }

    fn residents(&mut self) -> [Residents; 2] {
        [residents_of(self.dram.entries().into_iter().map(|entry| &*entry)), residents_of(&self.ssd)]
    }
}

#[derive(Debug)]
pub struct PlainUcache {
    /// With hits.
    dram: Vec<(BlockNo, u32)>,
    ssd: Vec<Entry>,
    quota: Quota,
    worth_hits: u32,
}

impl PlainUcache {
    pub fn new(quota: Quota, worth_hits: u32) -> PlainUcache {
        PlainUcache { dram: vec![], ssd: vec![], quota, worth_hits }
    }

    fn take_from_dram(&mut self, block: BlockNo) -> Option<(BlockNo, u32)> {
        let at = self.dram.iter().position(|known| known.0 == block)?;
        Some(self.dram.remove(at))
    }

    fn put_in_ssd(&mut self, entry: Entry, observed: &mut Vec<Observed>) {
        if self.ssd.len() >= self.quota.ssd_blocks as usize {
            observed.push(evicted(Level::Ssd, self.ssd.remove(0)));
        }
        self.ssd.push(entry);
    }

    fn read(&mut self, block: BlockNo) -> Vec<Observed> {
        if let Some((_, hits)) = self.take_from_dram(block) {
            self.dram.push((block, hits + 1));
            return vec![Observed::ReadLevel(Level::Dram)];
        }
        if let Some(entry) = remove(&mut self.ssd, block) {
            self.ssd.push(entry);
            return vec![Observed::ReadLevel(Level::Ssd)];
        }
        let mut observed = vec![Observed::ReadBacking];
        if self.quota.dram_blocks == 0 {
            return observed;
        }
        if self.dram.len() >= self.quota.dram_blocks as usize {
            let (gone, hits) = self.dram.remove(0);
            if hits >= self.worth_hits && self.quota.ssd_blocks > 0 {
                self.put_in_ssd(Entry { block: gone, dirty: false }, &mut observed);
                observed.push(Observed::Move(gone));
            }
            observed.push(Observed::Evict { level: Level::Dram, block: gone, dirty: false });
        }
        self.dram.push((block, 0));
        observed.push(Observed::Fill(Level::Dram));
        observed
    }

    fn write(&mut self, block: BlockNo, partial: bool) -> Vec<Observed> {
        let mut observed = Vec::new();
        let hit = remove(&mut self.ssd, block).is_some();
        let in_dram = self.take_from_dram(block).is_some();
        let to_ssd = self.quota.ssd_blocks > 0;
        if to_ssd {
            self.put_in_ssd(Entry { block, dirty: true }, &mut observed);
        }
        if to_ssd && partial {
            observed.push(match (in_dram, hit) {
                (true, _) => Observed::MergeLevel(Level::Dram),
                (false, true) => Observed::MergeLevel(Level::Ssd),
                (false, false) => Observed::MergeBacking,
            });
        }
        if in_dram {
            observed.push(Observed::Invalidate(Level::Dram));
        }
        observed.push(if to_ssd {
            Observed::WriteLevel { hit, dirty: true }
        } else {
            Observed::WriteBacking
        });
        observed
    }
}

impl PlainTwoLevel for PlainUcache {
    fn step(&mut self, step: Step) -> Vec<Observed> {
        match step {
            Step::Read(block) => self.read(block),
            Step::Write(block, partial) => self.write(block, partial),
            Step::EndRequest => Vec::new(),
            Step::Discard(block) => {
                let dram = self.take_from_dram(block).map(|_| Observed::Invalidate(Level::Dram));
                let ssd = remove(&mut self.ssd, block).map(|_| Observed::Invalidate(Level::Ssd));
                dram.into_iter().chain(ssd).collect()
            }
            Step::Forget(Level::Dram, block) => {
                self.take_from_dram(block);
                Vec::new()
            }
            Step::Forget(Level::Ssd, block) => {
                remove(&mut self.ssd, block);
                Vec::new()
            }
            Step::Forget(Level::ReadSsd, _) => Vec::new(),
            Step::Cleaned(block) => {
                let copies = self.ssd.iter_mut().filter(|entry| entry.block == block);
                copies.for_each(|entry| entry.dirty = false);
                Vec::new()
            }
            Step::Restore(block, dirty) => {
                let known = self.ssd.iter().any(|entry| entry.block == block)
                    || self.dram.iter().any(|known| known.0 == block);
                let fits = !known && self.ssd.len() < self.quota.ssd_blocks as usize;
                if fits {
                    self.ssd.push(Entry { block, dirty });
                }
                vec![Observed::Restored(fits)]
            }
            Step::Resize(quota) => {
                self.quota = quota;
                let from_dram = self.dram.len().saturating_sub(quota.dram_blocks as usize);
                let from_ssd = self.ssd.len().saturating_sub(quota.ssd_blocks as usize);
                let dram = self.dram.drain(..from_dram);
                let dram =
                    dram.map(|known| Observed::Evict { level: Level::Dram, block: known.0, dirty: false });
                let ssd = self.ssd.drain(..from_ssd).map(|entry| evicted(Level::Ssd, entry));
                dram.chain(ssd).collect()
            }
        }
    }

    fn residents(&mut self) -> [Residents; 2] {
        [self.dram.iter().map(|known| (known.0, false)).collect(), residents_of(&self.ssd)]
    }
}
