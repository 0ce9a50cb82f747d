//! What a run costs on the devices of a host: energy, wear, price. It must not know how requests were decided.

use lode_hardware::time::SECOND_NS;
use lode_hardware::{Energy, Host, LevelCost, Operations, Run, Utilisation};
use lode_policy::Quota;
use lode_types::BlockSize;
use serde::Serialize;

use crate::tally::Tally;

/// What one VM asked of the devices, which it shares with the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct VmDevices {
    /// Bytes of data written into the SSD level; every copy of it takes them.
    pub ssd_written_bytes: u64,
    /// Energy of the operations; what devices take while they wait is no VM's.
    pub active_energy_j: Energy,
    /// The same over the span; none in no time.
    pub active_mean_w: Option<f64>,
}

/// What the whole run cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DevicesReport {
    /// Name of the host's profile.
    pub host: String,
    /// From the earliest request of all traces to the latest, without a few times far from all others; none where a
    /// trace has no times.
    pub span_s: Option<f64>,
    /// Bytes of data written into the SSD level; every copy of it takes them.
    pub ssd_written_bytes: u64,
    /// The same in a second, each VM's over the span of its own trace; none in no time.
    pub ssd_written_bytes_per_s: Option<f64>,
    /// Years that new SSDs last at this rate; none in no time or without writes.
    pub ssd_life_years: Option<f64>,
    /// Energy of operations and waiting; none where a trace has no times.
    pub energy_j: Option<Energy>,
    /// Energy of the operations alone.
    pub active_energy_j: Energy,
    /// Mean power; none in no time.
    pub mean_w: Option<f64>,
    /// Shares of the time that the devices needed at least; none in no time.
    pub utilisation: Option<Utilisation>,
    /// Price of the levels.
    pub cost_usd: LevelCost,
}

/// A run on a host.
pub(crate) struct HostRun<'a> {
    pub(crate) host: &'a Host,
    pub(crate) block: BlockSize,
    pub(crate) physical: Quota,
    /// How long the traces go, in nanoseconds; none where one has no times.
    pub(crate) span_ns: Option<u64>,
}

impl HostRun<'_> {
    /// Of one VM.
    pub(crate) fn vm(&self, tally: &Tally) -> VmDevices {
        let operations = tally.operations();
        let active_energy_j = self.active_energy_j(operations);
        VmDevices {
            ssd_written_bytes: self.bytes(operations.ssd_writes),
            active_energy_j,
            active_mean_w: self.over_span(active_energy_j.total),
        }
    }

    /// Of all together; `operations` are the sum of the VMs', `ssd_writes_per_s` what they write to the SSD in a second.
    pub(crate) fn total(&self, operations: Operations, ssd_writes_per_s: Option<f64>) -> DevicesReport {
        let run = self.run(operations);
        let written_bytes = self.bytes(operations.ssd_writes);
        let written_bytes_per_s = ssd_writes_per_s.map(|blocks| blocks * self.block.bytes() as f64);
        let energy_j = self.span_ns.map(|_| self.host.energy_j(&run));
        DevicesReport {
            host: self.host.name.clone(),
            span_s: self.span_ns.map(|ns| ns as f64 / SECOND_NS),
            ssd_written_bytes: written_bytes,
            ssd_written_bytes_per_s: written_bytes_per_s,
            ssd_life_years: written_bytes_per_s
                .and_then(|bytes_per_s| self.host.ssd_life_years(run.ssd_bytes, bytes_per_s)),
            energy_j,
            active_energy_j: self.active_energy_j(operations),
            mean_w: energy_j.and_then(|energy_j| self.over_span(energy_j.total)),
            utilisation: self.host.utilisation(&run),
            cost_usd: self.host.cost_usd(run.dram_bytes, run.ssd_bytes),
        }
    }

    fn run(&self, operations: Operations) -> Run {
        let Quota { dram_blocks, ssd_blocks } = self.physical;
        Run {
            block: self.block,
            dram_bytes: self.bytes(dram_blocks.into()),
            ssd_bytes: self.bytes(ssd_blocks.into()),
            // In no time, nothing is told that a time would be needed for.
            span_ns: self.span_ns.unwrap_or(0),
            operations,
        }
    }

    /// In no time nothing waits.
    fn active_energy_j(&self, operations: Operations) -> Energy {
        self.host.energy_j(&Run { span_ns: 0, ..self.run(operations) })
    }

    fn bytes(&self, blocks: u64) -> u64 {
        blocks.saturating_mul(self.block.bytes())
    }

    fn over_span(&self, amount: f64) -> Option<f64> {
        self.span_ns.filter(|&ns| ns > 0).map(|ns| amount / (ns as f64 / SECOND_NS))
    }
}
