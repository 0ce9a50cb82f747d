//! RPAC from its description: plain vectors in order of arrival, plain maps of popularity, and decay of everything at once.

use std::collections::BTreeMap;

use lode_types::BlockNo;

use super::level::{Entry, PlainLevel};
use super::one_level::PlainReplacement;

/// The scheme's settings.
#[derive(Clone, Copy, Debug)]
pub struct RpacSettings {
    pub region_blocks: u64,
    pub tree_depth: u32,
    pub decay_interval: u64,
    pub alpha: f64,
    pub factor: f64,
    pub most_regions: usize,
}

/// Popularity of a part: its region, how often the region was halved to get it, and which of the pieces it is.
type Part = (u64, u32, u64);

#[derive(Debug)]
pub struct PlainRpac {
    settings: RpacSettings,
    pub level: PlainLevel,
    popularity: BTreeMap<Part, u32>,
    accesses: u64,
}

impl PlainRpac {
    pub fn new(settings: RpacSettings, level: PlainLevel) -> PlainRpac {
        PlainRpac { settings, level, popularity: BTreeMap::new(), accesses: 0 }
    }

    fn part(&self, block: BlockNo, halvings: u32) -> Part {
        let size = self.settings.region_blocks;
        // Cut into pieces of equal length, real numbers where that does not come out even.
        let piece = u128::from(block % size) * (1u128 << halvings) / u128::from(size);
        (block / size, halvings, piece as u64)
    }

    fn popularity(&self, part: Part) -> f64 {
        f64::from(self.popularity.get(&part).copied().unwrap_or(0))
    }

    fn decay(&mut self) {
        let alpha = self.settings.alpha;
        self.popularity.values_mut().for_each(|count| *count = (alpha * f64::from(*count)).floor() as u32);
        self.popularity.retain(|_, count| *count > 0);
    }

    fn count(&mut self, block: BlockNo) {
        self.accesses += 1;
        if self.accesses.is_multiple_of(self.settings.decay_interval) {
            self.decay();
        }
        let region = self.part(block, 0);
        let popular = |this: &Self| this.popularity.keys().filter(|part| part.1 == 0).count();
        while !self.popularity.contains_key(&region) && popular(self) >= self.settings.most_regions {
            self.decay();
        }
        for halvings in 0..=self.settings.tree_depth {
            *self.popularity.entry(self.part(block, halvings)).or_default() += 1;
        }
    }

    fn gives_way(&self, resident: BlockNo, newcomer: BlockNo) -> bool {
        for halvings in 0..=self.settings.tree_depth {
            let (of_resident, of_newcomer) = (self.part(resident, halvings), self.part(newcomer, halvings));
            if of_resident != of_newcomer {
                let bar = self.settings.factor * self.popularity(of_resident);
                return self.popularity(of_newcomer) > bar;
            }
        }
        false
    }
}

impl PlainReplacement for PlainRpac {
    fn entries(&mut self) -> Vec<&mut Entry> {
        self.level.rows.iter_mut().flatten().collect()
    }

    fn touch(&mut self, block: BlockNo) {
        self.count(block);
    }

    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>> {
        self.count(block);
        let mut gone = Vec::new();
        if self.level.is_full(block) {
            let row = self.level.row_of(block);
            let leaver = row.iter().find(|entry| self.gives_way(entry.block, block))?.block;
            gone.extend(self.level.remove(leaver));
        }
        self.level.push(block, false);
        Some(gone)
    }

    fn restore(&mut self, block: BlockNo) -> bool {
        let fits = !self.level.is_full(block);
        if fits {
            self.level.push(block, false);
        }
        fits
    }

    fn remove(&mut self, block: BlockNo) {
        self.level.remove(block);
    }

    fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        self.level.resize(blocks)
    }
}
