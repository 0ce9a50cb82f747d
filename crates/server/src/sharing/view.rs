//! What the loop says of itself, in the shape that `docs/control.md` describes.

use std::time::Instant;

use lode_types::Level;
use serde::Serialize;

use super::{SharedView, Sharing, Vm};
use crate::messages::ReadCounts;

/// The host's part of a status.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HostView {
    pub mode: &'static str,
    pub objective: &'static str,
    pub block_bytes: u64,
    /// What VMs divide.
    pub dram_blocks: u32,
    pub ssd_blocks: u32,
    pub interval_s: u64,
    /// Until the next division; none where nothing divides.
    pub next_division_s: Option<u64>,
    pub rate_bytes_per_s: u64,
    /// What may be written to the SSD in a day; none: any amount.
    pub ssd_write_budget_bytes_per_day: Option<u64>,
    /// Shares are on their way to what they are to be.
    pub moving: bool,
    /// Shares of the SSD can grow beyond what VMs were started with, to what their limits allow.
    pub ssd_grows: bool,
    /// A defect of the program ended the loop.
    pub stopped: bool,
}

/// A VM's part of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct VmSharing {
    pub weight: f64,
    /// What the host allows it to write to the SSD in a day, journal and tables included; none: any amount.
    pub ssd_write_budget_bytes_per_day: Option<u64>,
    pub dram: LevelSharing,
    pub ssd: LevelSharing,
    /// What the last division expects of the larger part of the shares, and what was read since.
    pub expected_hit_ratio: Option<f64>,
    pub measured_hit_ratio: Option<f64>,
}

/// A VM's share of a level, in blocks.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LevelSharing {
    pub share_blocks: u32,
    pub target_blocks: u32,
    /// What it would have if shares could grow to whatever its limits allow.
    pub wanted_blocks: u32,
    /// What it could have used; none where that is not measured.
    pub demand_blocks: Option<u32>,
    pub min_blocks: u32,
    pub max_blocks: u32,
    /// The largest share that it can be given while it runs.
    pub reach_blocks: u32,
    pub expected_hit_ratio: Option<f64>,
    pub measured_hit_ratio: Option<f64>,
}

/// What the control thread knew at its last step.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    host: HostView,
    next_division: Option<Instant>,
    /// By number, with what had been read when the present interval began.
    vms: Vec<(usize, VmSharing, ReadCounts)>,
}

impl Sharing {
    pub(super) fn publish(&self) {
        let capacity = self.sizer.capacity();
        let measures = self.host.mode.measures();
        let can_grow = |level| {
            let most = |at: usize| self.sizer.rule(at).map_or(0, |rule| rule.most.of(level));
            let is_bounded = |(at, vm): (usize, &Vm)| {
                let reach = vm.reach.of(level);
                reach > 0 && reach < most(at).min(capacity.of(level))
            };
            self.room.is_some() && !self.vms.iter().enumerate().any(is_bounded)
        };
        let host = HostView {
            mode: self.host.mode.name(),
            objective: self.host.objective.name(),
            block_bytes: self.block_bytes,
            dram_blocks: capacity.dram_blocks,
            ssd_blocks: capacity.ssd_blocks,
            interval_s: self.host.interval.as_secs(),
            next_division_s: None,
            rate_bytes_per_s: self.host.rate_bytes,
            ssd_write_budget_bytes_per_day: self.host.ssd_writes.map(|daily| daily.0),
            moving: self.moves(),
            ssd_grows: can_grow(Level::Ssd),
            stopped: self.stopped,
        };
        let vms =
            self.vms.iter().enumerate().map(|(at, vm)| (vm.number, self.vm_view(at), vm.reads)).collect();
        self.view.put(Snapshot { host, next_division: measures.then_some(self.next_division), vms });
    }

    fn vm_view(&self, at: usize) -> VmSharing {
        let [dram, ssd] = Level::SIZED.map(|level| self.level_view(at, level));
        // Each level's curve is that of the level by itself: together they serve at least what the better one does.
        let ratios = [dram.expected_hit_ratio, ssd.expected_hit_ratio];
        VmSharing {
            weight: self.sizer.rule(at).map_or(1.0, |rule| rule.weight),
            ssd_write_budget_bytes_per_day: self
                .write_budgets
                .budget_bytes(self.vms[at].number, self.block_bytes),
            dram,
            ssd,
            expected_hit_ratio: ratios.into_iter().flatten().reduce(f64::max),
            measured_hit_ratio: None,
        }
    }

    fn level_view(&self, at: usize, level: Level) -> LevelSharing {
        let view = self.sizer.view(at, level);
        let [min_blocks, max_blocks] =
            self.sizer.rule(at).map_or([0, 0], |rule| [rule.least, rule.most].map(|quota| quota.of(level)));
        LevelSharing {
            share_blocks: view.share,
            target_blocks: view.target,
            wanted_blocks: view.wanted,
            demand_blocks: view.demand,
            min_blocks,
            max_blocks,
            reach_blocks: self.vms[at].reach.of(level),
            expected_hit_ratio: self.expected(at, level, view.target),
            measured_hit_ratio: None,
        }
    }
}

impl Snapshot {
    pub(super) fn mark_stopped(&mut self) {
        (self.host.stopped, self.host.moving, self.next_division) = (true, false, None);
    }
}

impl SharedView {
    /// What the host and its VMs have, by their numbers and in the order of the configuration, when the VMs have read so much
    /// in all.
    pub(crate) fn now(
        &self,
        reads: impl Fn(usize) -> Option<ReadCounts>,
    ) -> Option<(HostView, Vec<(usize, VmSharing)>)> {
        let Snapshot { mut host, next_division, mut vms } = self.get()?;
        let left = |at: Instant| at.saturating_duration_since(Instant::now()).as_secs();
        host.next_division_s = next_division.map(left);
        for (number, vm, before) in &mut vms {
            let reads = reads(*number).unwrap_or_default().since(*before);
            let part = |hits: u64| (reads.reads > 0).then(|| hits as f64 / reads.reads as f64);
            vm.measured_hit_ratio = reads.hit_ratio();
            vm.dram.measured_hit_ratio = part(reads.dram_hits);
            vm.ssd.measured_hit_ratio = part(reads.ssd_hits);
        }
        Some((host, vms.into_iter().map(|(number, vm, _)| (number, vm)).collect()))
    }
}
