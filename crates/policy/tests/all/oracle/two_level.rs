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

/// A block on the SSD, and when it was used last.
type Used = (Entry, u32);

#[derive(Debug)]
pub struct PlainUcache {
    /// With hits, and when each was used last.
    dram: Vec<(BlockNo, u32, u32)>,
    /// What came or was used here, and what is here as of its last use in DRAM.
    here: Vec<Used>,
    from_dram: Vec<Used>,
    quota: Quota,
    rule: PlainRule,
    accesses: u32,
}

/// The settings.
#[derive(Clone, Copy, Debug)]
pub struct PlainRule {
    pub worth_hits: u32,
    pub by_use: bool,
    pub copies_hits: bool,
}

impl PlainUcache {
    pub fn new(quota: Quota, rule: PlainRule) -> PlainUcache {
        PlainUcache { dram: vec![], here: vec![], from_dram: vec![], quota, rule, accesses: 0 }
    }

    fn take_from_dram(&mut self, block: BlockNo) -> Option<(BlockNo, u32, u32)> {
        let at = self.dram.iter().position(|known| known.0 == block)?;
        Some(self.dram.remove(at))
    }

    fn take_from_ssd(&mut self, block: BlockNo) -> Option<Entry> {
        for list in [&mut self.here, &mut self.from_dram] {
            if let Some(at) = list.iter().position(|used| used.0.block == block) {
                return Some(list.remove(at).0);
            }
        }
        None
    }

    fn ssd_len(&self) -> usize {
        self.here.len() + self.from_dram.len()
    }

    fn is_full(&self) -> bool {
        self.ssd_len() >= self.quota.ssd_blocks as usize
    }

    /// When the block that leaves next was used last.
    fn oldest(&self) -> Option<u32> {
        [&self.here, &self.from_dram].into_iter().filter_map(|list| list.first()).map(|used| used.1).min()
    }

    fn evict(&mut self) -> Observed {
        let is_from_dram = match (self.here.first(), self.from_dram.first()) {
            (Some(here), Some(from_dram)) => from_dram.1 < here.1,
            (here, _) => here.is_none(),
        };
        let list = if is_from_dram { &mut self.from_dram } else { &mut self.here };
        evicted(Level::Ssd, list.remove(0).0)
    }

    fn make_room(&mut self, observed: &mut Vec<Observed>) {
        if self.is_full() {
            observed.push(self.evict());
        }
    }

    fn read(&mut self, block: BlockNo) -> Vec<Observed> {
        self.accesses += 1;
        if let Some((_, hits, _)) = self.take_from_dram(block) {
            self.dram.push((block, hits + 1, self.accesses));
            return vec![Observed::ReadLevel(Level::Dram)];
        }
        let in_ssd = self.take_from_ssd(block);
        let mut observed = vec![match in_ssd {
            Some(_) => Observed::ReadLevel(Level::Ssd),
            None => Observed::ReadBacking,
        }];
        let stays = in_ssd.is_some() && !self.rule.copies_hits;
        self.here.extend(in_ssd.map(|entry| (entry, self.accesses)));
        if self.quota.dram_blocks == 0
            && self.quota.ssd_blocks > 0
            && self.rule.worth_hits == 0
            && in_ssd.is_none()
        {
            self.make_room(&mut observed);
            self.here.push((Entry { block, dirty: false }, self.accesses));
            observed.push(Observed::Fill(Level::Ssd));
        }
        if stays || self.quota.dram_blocks == 0 {
            return observed;
        }
        if self.dram.len() >= self.quota.dram_blocks as usize {
            let (gone, hits, used) = self.dram.remove(0);
            if let Some(entry) = self.take_from_ssd(gone) {
                self.put_from_dram(entry, used);
            } else if hits >= self.rule.worth_hits && self.quota.ssd_blocks > 0 && !self.is_oldest(used) {
                self.make_room(&mut observed);
                self.put_from_dram(Entry { block: gone, dirty: false }, used);
                observed.push(Observed::Move(gone));
            }
            observed.push(Observed::Evict { level: Level::Dram, block: gone, dirty: false });
        }
        self.dram.push((block, 0, self.accesses));
        observed.push(Observed::Fill(Level::Dram));
        observed
    }

    fn put_from_dram(&mut self, entry: Entry, used: u32) {
        match self.rule.by_use {
            true => self.from_dram.push((entry, used)),
            false => self.here.push((entry, self.accesses)),
        }
    }

    /// Whether it would be the next to leave.
    fn is_oldest(&self, used: u32) -> bool {
        self.rule.by_use && self.is_full() && self.oldest().is_some_and(|oldest| used < oldest)
    }

    fn write(&mut self, block: BlockNo, partial: bool) -> Vec<Observed> {
        self.accesses += 1;
        let mut observed = Vec::new();
        let hit = self.take_from_ssd(block).is_some();
        let in_dram = self.take_from_dram(block).is_some();
        let to_ssd = self.quota.ssd_blocks > 0;
        if to_ssd {
            self.make_room(&mut observed);
            self.here.push((Entry { block, dirty: true }, self.accesses));
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

    fn resize(&mut self, quota: Quota) -> Vec<Observed> {
        self.quota = quota;
        let too_many = self.dram.len().saturating_sub(quota.dram_blocks as usize);
        let dram = self.dram.drain(..too_many);
        let mut observed: Vec<Observed> =
            dram.map(|known| Observed::Evict { level: Level::Dram, block: known.0, dirty: false }).collect();
        while self.ssd_len() > quota.ssd_blocks as usize {
            observed.push(self.evict());
        }
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
                let ssd = self.take_from_ssd(block).map(|_| Observed::Invalidate(Level::Ssd));
                dram.into_iter().chain(ssd).collect()
            }
            Step::Forget(Level::Dram, block) => {
                self.take_from_dram(block);
                Vec::new()
            }
            Step::Forget(Level::Ssd, block) => {
                self.take_from_ssd(block);
                Vec::new()
            }
            Step::Forget(Level::ReadSsd, _) => Vec::new(),
            Step::Cleaned(block) => {
                let ssd = self.here.iter_mut().chain(&mut self.from_dram);
                ssd.filter(|used| used.0.block == block).for_each(|used| used.0.dirty = false);
                Vec::new()
            }
            Step::Restore(block, dirty) => {
                let ssd = self.here.iter().chain(&self.from_dram).any(|used| used.0.block == block);
                let is_known = ssd || self.dram.iter().any(|known| known.0 == block);
                let fits = !is_known && !self.is_full();
                if fits {
                    self.here.push((Entry { block, dirty }, self.accesses));
                }
                vec![Observed::Restored(fits)]
            }
            Step::Resize(quota) => self.resize(quota),
        }
    }

    fn residents(&mut self) -> [Residents; 2] {
        let ssd = self.here.iter().chain(&self.from_dram).map(|used| &used.0);
        [self.dram.iter().map(|known| (known.0, false)).collect(), residents_of(ssd)]
    }
}
