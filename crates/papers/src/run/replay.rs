//! One run after another, each by itself. It must not know which experiment asks.

use lode_hardware::Host;
use lode_policy::{SchemeInfo, Settings};
use lode_replay::{Options, Report, replay};
use lode_reuse::{Distances, Metric};
use lode_trace::vm_block;
use lode_types::{Direction, RequestOp, blocks_of};

use super::load::{BLOCK, Prepared, scaled};
use crate::error::PapersError;
use crate::job::{LevelSizes, Scheme, Setting};

/// The settings of a scheme for a workload that is shorter by this factor.
pub(super) fn settings(scheme: &Scheme, factor: f64) -> Result<Settings, PapersError> {
    let mut settings = SchemeInfo::find(scheme.name)?.settings();
    for (key, value) in &scheme.settings {
        match value {
            Setting::Text(value) => settings.set(key, value)?,
            Setting::Scaled(number) => settings.set(key, &scaled(*number, factor).to_string())?,
        }
    }
    Ok(settings)
}

/// Replays requests through a scheme with levels of these sizes, on the devices of this name.
pub(crate) fn run_replay(
    scheme: &Scheme,
    space: &LevelSizes,
    host: &str,
    prepared: &Prepared,
) -> Result<Report, PapersError> {
    let options = Options {
        settings: settings(scheme, prepared.factor)?,
        physical: prepared.quota(space),
        block_size: BLOCK,
        host: Host::find(host)?,
        shares: None,
        daily_ssd_bytes: None,
    };
    let vms = prepared.recording.vm_names().len();
    Ok(replay(prepared.recording.play(), &options, Some(vms), &mut |_, _| {})?)
}

/// What is asked of caches by ECI-Cache, and by ETICA for a read-only, a write-only and a write-back cache.
pub const DEMAND_METRICS: [Metric; 4] = [Metric::Urd, Metric::PodRo, Metric::PodWbwo, Metric::PodWb];

/// Blocks by interval, for each of [`DEMAND_METRICS`].
pub type Demands = Vec<[u64; DEMAND_METRICS.len()]>;

/// One VM's distances under one metric, within an interval.
struct Follower {
    distances: Distances,
    /// Blocks that the interval needs so far.
    needed: u64,
}

impl Follower {
    fn new(metric: Metric) -> Follower {
        Follower { distances: Distances::new(metric), needed: 0 }
    }

    /// What the interval needed; the next one begins.
    fn end(&mut self, carry: bool) -> u64 {
        if !carry {
            self.distances = Distances::new(self.distances.metric());
        }
        std::mem::take(&mut self.needed)
    }
}

/// For each VM, what its intervals ask for. An interval that the requests end within counts as the others.
pub(crate) fn run_demand(
    interval: u64,
    carry: bool,
    prepared: &Prepared,
) -> Result<Vec<Demands>, PapersError> {
    let vms = prepared.recording.vm_names().len();
    let interval = scaled(interval, prepared.factor);
    let mut followers: Vec<_> = (0..vms).map(|_| DEMAND_METRICS.map(Follower::new)).collect();
    let (mut demands, mut requests) = (vec![Demands::new(); vms], vec![0; vms]);
    let mut end = |vm: usize, followers: &mut [Follower; DEMAND_METRICS.len()]| {
        demands[vm].push(followers.each_mut().map(|follower| follower.end(carry)));
    };
    for (vm, request) in prepared.recording.requests_by_time() {
        let vm = *vm as usize;
        let op = match request.op {
            RequestOp::Read => Direction::Read,
            RequestOp::Write => Direction::Write,
            RequestOp::Trim | RequestOp::Flush => continue,
        };
        let parts = blocks_of(BLOCK, request.offset_bytes, request.length_bytes.into());
        for block in parts.filter_map(|part| vm_block(request.volume, part.block)) {
            for follower in &mut followers[vm] {
                let reuse = follower.distances.access(op, block)?;
                let useful = reuse.filter(|reuse| reuse.useful);
                let needed = useful.map_or(0, |reuse| u64::from(reuse.distance) + 1);
                follower.needed = follower.needed.max(needed);
            }
        }
        requests[vm] += 1;
        if requests[vm] % interval == 0 {
            end(vm, &mut followers[vm]);
        }
    }
    for vm in 0..vms {
        if requests[vm] % interval != 0 {
            end(vm, &mut followers[vm]);
        }
    }
    Ok(demands)
}

/// What each of [`DEMAND_METRICS`] asks for a few accesses.
///
/// # Errors
/// Those of [`Distances::access`].
pub fn demand_of(accesses: &[(Direction, u64)]) -> Result<[u64; DEMAND_METRICS.len()], PapersError> {
    let mut needed = [0; DEMAND_METRICS.len()];
    for (metric, needed) in DEMAND_METRICS.into_iter().zip(&mut needed) {
        let mut distances = Distances::new(metric);
        for &(op, block) in accesses {
            distances.access(op, block)?;
        }
        *needed = distances.tally().blocks_needed();
    }
    Ok(needed)
}
