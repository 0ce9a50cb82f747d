//! What the VM could use of each level: by the useful reuse distances of all that it accesses (Ahmadian et al., ECI-Cache), of which
//! DRAM serves the shorter ones and the SSD those beyond.
//!
//! It must not know which candidate decides.

use lode_reuse::CurvePoint;
use lode_types::{Access, BlockNo, Level};

use crate::parts::sampling;
use crate::parts::sized::reuse::{Reading, Reuse, Stream};
use crate::parts::sized::{Measure, track_limit};
use crate::quota::Quota;
use crate::scheme::{LevelDemand, Points};
use crate::settings::{SettingInfo, Settings};

pub(super) const HALF_LIFE: SettingInfo = SettingInfo::number("demand_half_life_turnovers", "16", 0.0, 1e6)
    .about(
        "where a host divides (sizing=host), after how many accesses of all VMs what one was seen to use counts half, in turnovers \
         of the host's levels; shares then move only where that pays for the blocks that move; 0: each interval counts by itself, \
         and moves cost nothing",
    )
    .source("ours: an interval is short beside what a level holds");

/// Re-accesses that read are worth something.
#[derive(Debug)]
pub(super) struct Useful;

impl Reading for Useful {
    const STREAM: Stream = Stream::Useful;
    const ALWAYS: bool = false;

    fn new(_: &Settings) -> Useful {
        Useful
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Demand {
    reuse: Reuse<Useful>,
    half_life_turnovers: f64,
}

impl Demand {
    /// `None`: nobody asks.
    pub(super) fn new(settings: &Settings, physical: Quota) -> Option<Demand> {
        settings.measures_demand().then(|| Demand {
            reuse: Reuse::new(settings, physical),
            half_life_turnovers: settings.number(HALF_LIFE.key),
        })
    }

    #[inline]
    pub(super) fn access(&mut self, access: Access, hash: u32) {
        self.reuse.access(access, hash);
    }

    pub(super) fn discard(&mut self, block: BlockNo) {
        self.reuse.discard(block);
    }

    /// Of each level, beside a DRAM level of so many blocks.
    pub(super) fn close_window(&mut self, dram_blocks: u32) -> [LevelDemand; 2] {
        // What the SSD serves takes the whole curve.
        let mut all = self.reuse.demand(Points::All, dram_blocks);
        all.half_life_turnovers = self.half_life_turnovers;
        let ssd = beyond(&all, dram_blocks);
        let mut demands = <[LevelDemand; 2]>::default();
        demands[Level::Ssd.index()] = ssd;
        demands[Level::Dram.index()] = LevelDemand { buffered_writes: 0, ..all };
        demands
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.reuse.memory_bytes()
    }
}

/// What a level has to serve behind one of so many blocks.
fn beyond(all: &LevelDemand, blocks: u32) -> LevelDemand {
    let before = all.curve.iter().take_while(|point| point.size_blocks <= u64::from(blocks)).last();
    let hits = before.map_or(0, |point| point.hits);
    let curve = all.curve.iter().filter(|point| point.size_blocks > u64::from(blocks));
    let curve = curve.map(|point| CurvePoint {
        size_blocks: point.size_blocks - u64::from(blocks),
        hits: point.hits - hits,
    });
    LevelDemand { blocks: all.blocks.saturating_sub(blocks), curve: curve.collect(), ..*all }
}

/// Blocks of the history at most.
pub(super) fn tracked_blocks(settings: &Settings, physical: Quota) -> u64 {
    match settings.measures_demand() {
        true => sampling::tracked_blocks(settings, track_limit(settings, physical)).into(),
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ssd_serves_what_is_beyond_dram() {
        let point = |size_blocks, hits| CurvePoint { size_blocks, hits };
        let curve = vec![point(1, 5), point(10, 20), point(30, 50)];
        let all =
            LevelDemand { blocks: 30, curve, accesses: 100, buffered_writes: 7, ..LevelDemand::default() };
        let ssd = beyond(&all, 10);
        assert_eq!((ssd.blocks, ssd.curve), (20, vec![point(20, 30)]));
        assert_eq!((ssd.accesses, ssd.buffered_writes), (100, 7));
        assert_eq!(beyond(&all, 0), all);
        assert_eq!(beyond(&all, 30).curve, []);
    }
}
