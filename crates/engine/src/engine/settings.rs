//! What is set while guests are served: the share, limits and periods, a budget of writes to the SSD, and that writes go past the
//! SSD, before the backing disk is to be used elsewhere.
//!
//! Where writes go around the SSD, what guests write goes to the backing disk alone, whatever the scheme says, so that with what
//! a drain brings there nothing is dirty in the end and nothing becomes so. To the scheme it is as if the SSD had failed to take
//! each write: the block's copies go, and the scheme is told that they are missing. What it counts is what it decided.

use lode_policy::host::WriteUse;
use lode_policy::{LevelDemand, Points, Quota, Tenant, WriteBudget};

use super::Engine;
use crate::background::WriteBackLimits;
use crate::flight::Flight;
use crate::gauges::SsdWriteUse;

impl Engine {
    /// From now on writes go past the SSD, or no more.
    pub fn set_writes_around(&mut self, writes_around: bool) {
        self.writes_around = writes_around;
        self.run();
    }

    /// The disk is served anew after it was given back: groups from now on are of this generation. None is under way.
    pub fn set_generation(&mut self, generation: u64) {
        if let Some(ordered) = &mut self.config.ordered {
            ordered.generation = generation;
        }
    }

    /// Whether writes go past the SSD.
    pub fn writes_around(&self) -> bool {
        self.writes_around
    }

    /// Whether anything is dirty or may become so. Once it is false while writes go around, it stays false until they do so no
    /// more: the backing disk has everything that was acknowledged, durably as soon as a FLUSH is.
    pub fn may_have_dirty(&self) -> bool {
        let becomes_dirty = |flight: &Flight| flight.may_become_dirty();
        let is_gathered = self.ordered.as_ref().is_some_and(|ordered| !ordered.has_everything());
        self.levels.dirty_blocks() > 0
            || !self.writes_around
            || is_gathered
            || self.flights.all().any(becomes_dirty)
    }

    /// Has the scheme hold to a budget of writes to the SSD, as far as it can, and any that follows it. What guests were promised
    /// never waits for it: what a budget denies a place goes to the backing disk. Not held back are writes that are no decision of
    /// a scheme: the journal and its tables, blocks that are moved between extents or repaired.
    pub fn set_host_budget(&mut self, budget: WriteBudget) {
        self.config.host_budget = budget;
        self.front.set_host_budget(budget);
    }

    /// What was written to the SSD.
    pub fn ssd_write_use(&mut self) -> SsdWriteUse {
        let gauges = self.gauges();
        let written_blocks = self.counters().ssd_writes.total();
        let wanted = self.front.wanted_blocks();
        SsdWriteUse {
            decided: WriteUse { holds: wanted.is_some(), wanted_blocks: wanted.unwrap_or(0), written_blocks },
            device_bytes: gauges.ssd_data_bytes + gauges.ssd_metadata_bytes,
        }
    }

    /// Changes when dirty blocks are written back in the background.
    pub fn set_write_back_limits(&mut self, limits: Option<WriteBackLimits>) {
        self.config.write_back = limits;
        self.background.set_limits(limits);
        self.run();
    }

    /// Changes within how many ticks every block on the SSD is compared with its checksum; none: nothing is.
    pub fn set_scrub_period(&mut self, period_ticks: Option<u32>) {
        self.config.scrub_ticks = period_ticks;
        self.scrub.set_period(period_ticks);
        self.run();
    }
}

/// Whoever has several engines may divide a host's levels between them: within each one's first share, or within
/// [`EngineConfig::largest_share`] as far as there are frames and extents that are nobody's.
impl Tenant for Engine {
    fn quota(&self) -> Quota {
        self.front.quota()
    }

    fn demand(&mut self, points: Points) -> Option<[LevelDemand; 2]> {
        self.front.demand(points)
    }

    fn resize(&mut self, quota: Quota) {
        match self.config.largest_share {
            Some(largest) => self.set_share(quota, largest),
            None => {
                self.take_over_the_rest();
                let quota = quota.map(|level, blocks| blocks.min(self.config.share.of(level)));
                let quota = self.front.used(quota);
                let effects = self.front.resize(quota);
                self.take_background(effects);
            }
        }
        self.run();
    }
}
