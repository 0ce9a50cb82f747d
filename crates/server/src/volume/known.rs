//! What is known of a volume without its engine: what it said of itself when it was last asked, and what is counted beside it. It
//! must not run the engine, except to ask: a volume that a defect has stopped is answered for from here.

use lode_engine::{Alarms, Gauges, WriteBackLimits};
use lode_policy::{Counters, Quota, Tenant};
use lode_types::Level;

use super::devices::VolumeSsd;
use super::{NS_PER_S, Volume};
use crate::connection::count;
use crate::messages::ReadCounts;
use crate::status::{LevelBlocks, OrderedView, VmView};

/// What an engine said of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    quota: Quota,
    counters: Counters,
    gauges: Gauges,
    alarms: Alarms,
    write_back: Option<WriteBackLimits>,
    ordered: Option<OrderedView>,
    scrub_ticks: Option<u32>,
    draining_blocks: Option<u64>,
}

impl Volume {
    /// Asks the engine what is to be known of it from now on.
    pub(crate) fn ask_engine(&mut self) {
        let config = self.engine.config();
        self.known = Known {
            quota: self.engine.quota(),
            counters: *self.engine.counters(),
            gauges: self.engine.gauges(),
            alarms: self.engine.alarms(),
            write_back: config.write_back,
            ordered: self.engine.behind().map(|behind| OrderedView::new(behind, &self.engine)),
            scrub_ticks: config.scrub_ticks,
            draining_blocks: self.draining_blocks(),
        };
    }

    /// Blocks that are newer than the backing disk, and of those the ones that are damaged, when the engine was last asked.
    pub(crate) fn known_dirty_and_lost_blocks(&self) -> (u64, u64) {
        (self.known.gauges.dirty_blocks.into(), self.known.gauges.lost_blocks.into())
    }

    /// What it held of each level when the engine was last asked. One that is stopped keeps what it had.
    pub(crate) fn known_held(&self) -> Quota {
        if self.is_stopped() {
            return self.known.quota;
        }
        let gauges = &self.known.gauges;
        Quota::new(gauges.dram_blocks, gauges.ssd_blocks).with(Level::ReadSsd, gauges.read_ssd_blocks)
    }

    /// What is to be said of it, with what the engine said when it was last asked.
    pub(crate) fn known_view(&self, shard: usize, now_ns: u64) -> VmView {
        let is_stopped = self.is_stopped();
        VmView {
            name: self.export.name().to_owned(),
            scheme: self.scheme.name(),
            next_scheme: self.scheme.next_name(),
            shard,
            connections: count(&self.connections),
            block_bytes: self.export.preferred_block_bytes(),
            in_flight_bytes: self.working_bytes,
            draining_blocks: self.known.draining_blocks.filter(|_| !is_stopped),
            drain_cancelled: self.drain_cancelled || is_stopped,
            migration: self.migration,
            sidecar: None,
            acknowledges_early: self.acknowledges_early,
            stopped: is_stopped,
            stopped_by: self.defect.clone(),
            quota: LevelBlocks::from(self.known.quota),
            writeback: self.known.write_back.map(Into::into),
            ordered: self.known.ordered,
            scrub_s: self.known.scrub_ticks,
            limits: self.limits.into(),
            dirty_s: self.dirty_age.dirty_ns(now_ns).map(|ns| ns / NS_PER_S),
            oldest_dirty_s: self.dirty_age.oldest_ns(now_ns).map(|ns| ns / NS_PER_S),
            sharing: None,
            reads: ReadCounts::from(&self.known.counters),
            requests: self.counts,
            counters: (&self.known.counters).into(),
            gauges: self.known.gauges.into(),
            alarms: self.known.alarms.into(),
            latency: self.latencies.view(),
            shm: self.shm,
            healed_blocks: self.ssd.as_ref().and_then(VolumeSsd::healed),
        }
    }
}
