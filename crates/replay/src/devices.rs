//! What a run costs on the devices of a host: energy, wear, price. It must not know how requests were decided.

use lode_hardware::time::{HOURS_PER_YEAR, SECOND_NS, SECONDS_PER_DAY, SECONDS_PER_HOUR};
use lode_hardware::{
    Drives, Energy, Host, HostLoad, LevelCost, Operations, Utilisation, unreliability, unreliability_pair,
};
use lode_policy::{Mirrors, Quota};
use lode_types::BlockSize;
use serde::Serialize;

use crate::minutes::BUSY_INTERVAL_NS;
use crate::tally::Tally;

/// What one VM asked of the devices, which it shares with the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct VmDevices {
    /// Bytes of data written into the SSD level; every copy of it takes them.
    pub ssd_written_bytes: u64,
    /// Bytes of data written into the read SSD level.
    pub read_ssd_written_bytes: u64,
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
    /// Bytes of data written into the read SSD level.
    pub read_ssd_written_bytes: u64,
    /// The same in a second, as with the SSD level.
    pub read_ssd_written_bytes_per_s: Option<f64>,
    /// Years that new SSDs of the read SSD level last at this rate; none in no time or without writes.
    pub read_ssd_life_years: Option<f64>,
    /// Where the second copies of dirty blocks were; none with a scheme that keeps none.
    pub mirrors: Option<MirrorReport>,
    /// Energy of operations and waiting; none where a trace has no times.
    pub energy_j: Option<Energy>,
    /// Energy of the operations alone.
    pub active_energy_j: Energy,
    /// Mean power; none in no time.
    pub mean_w: Option<f64>,
    /// Shares of the time that the devices needed at least, each trace's work over the span of that trace; none in no time.
    pub utilisation: Option<Utilisation>,
    /// Share of the busiest 60 s of all traces together for which the backing disks worked; above 1 they could not have kept up with
    /// what came then; none in less time.
    pub backing_utilisation_peak: Option<f64>,
    /// Price of the levels.
    pub cost_usd: LevelCost,
    /// The drives that the SSD level takes, where it is bought as whole ones.
    pub drives: Option<Drives>,
}

/// Shortest trace whose writes are multiplied to years without a warning: a day has the hours that a night has not.
const LONG_ENOUGH_S: f64 = SECONDS_PER_DAY;

/// That the shortest of the traces, which goes on for `span_ns`, is short for what is said of years; `None` of one that is
/// not.
pub fn short_trace_warning(span_ns: u64) -> Option<String> {
    let seconds = span_ns as f64 / SECOND_NS;
    let shown = match seconds {
        _ if seconds >= LONG_ENOUGH_S => return None,
        _ if seconds >= SECONDS_PER_HOUR => format!("{:.1} hours", seconds / SECONDS_PER_HOUR),
        _ if seconds >= 60.0 => format!("{:.0} minutes", seconds / 60.0),
        _ if seconds >= 1.0 => format!("{seconds:.0} s"),
        _ => "less than a second".to_owned(),
    };
    Some(format!(
        "SSD life takes {shown} of trace to go on like that for years; a trace of a day and more says more of it"
    ))
}

/// How well dirty blocks were protected that the scheme keeps on two devices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MirrorReport {
    /// Share of the mirrored dirty blocks, over all requests, whose second copy was in DRAM and not on the read SSD:
    /// TICA's alpha. None when nothing was dirty.
    pub in_dram: Option<f64>,
    /// Share of the dirty blocks, over all requests, that had no second copy. None when nothing was dirty.
    pub missing: Option<f64>,
    /// Chance of losing dirty data within a year of 8,760 hours, by TICA's Eq. 4 with that alpha.
    pub loss_per_year: Option<f64>,
    /// The same for two SSDs of the SSD level's kind, by TICA's Eq. 5.
    pub pair_loss_per_year: f64,
}

impl MirrorReport {
    /// Of the sums of all VMs.
    fn new(mirrors: &Mirrors, host: &Host) -> MirrorReport {
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let mirrored = mirrors.in_dram.saturating_add(mirrors.in_read_ssd);
        let in_dram = share(mirrors.in_dram, mirrored);
        MirrorReport {
            in_dram,
            missing: share(mirrors.missing, mirrored.saturating_add(mirrors.missing)),
            loss_per_year: in_dram.map(|in_dram| host.mirrored_loss(in_dram, HOURS_PER_YEAR)),
            pair_loss_per_year: unreliability_pair(unreliability(host.ssd.mttf_h, HOURS_PER_YEAR)),
        }
    }
}

/// What the VMs of one trace asked of the devices, and in which time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) operations: Operations,
    /// Above 0.
    pub(crate) span_ns: u64,
}

impl Pace {
    fn per_s(&self, blocks: u64) -> f64 {
        blocks as f64 / (self.span_ns as f64 / SECOND_NS)
    }

    /// What it would be in another time, each number being at most `most`.
    fn over(&self, span_ns: u64, most: u64) -> Operations {
        let factor = span_ns as f64 / self.span_ns as f64;
        let longer = |count: u64| ((count as f64 * factor).round() as u64).min(most);
        let operations = &self.operations;
        Operations {
            dram_reads: longer(operations.dram_reads),
            dram_writes: longer(operations.dram_writes),
            ssd_reads: longer(operations.ssd_reads),
            ssd_writes: longer(operations.ssd_writes),
            read_ssd_reads: longer(operations.read_ssd_reads),
            read_ssd_writes: longer(operations.read_ssd_writes),
            backing_reads: longer(operations.backing_reads),
            backing_writes: longer(operations.backing_writes),
            backing_work_ns: operations.backing_work_ns.map(longer),
        }
    }
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
            read_ssd_written_bytes: self.bytes(operations.read_ssd_writes),
            active_energy_j,
            active_mean_w: self.over_span(active_energy_j.total),
        }
    }

    /// Of all together: `operations` and `mirrors` are the sums of the VMs'; `paces` are those of the traces, whose rates add
    /// up, and none in no time; in the busiest interval the backing disks worked `most_backing_work_ns`.
    pub(crate) fn total(
        &self,
        operations: Operations,
        paces: Option<&[Pace]>,
        mirrors: Option<Mirrors>,
        most_backing_work_ns: u64,
    ) -> DevicesReport {
        let load = self.load(operations);
        let bytes_per_s = |blocks: fn(&Operations) -> u64| {
            let per_s = |pace: &Pace| pace.per_s(blocks(&pace.operations));
            paces.map(|paces| paces.iter().map(per_s).sum::<f64>() * self.block.bytes() as f64)
        };
        let written_bytes_per_s = bytes_per_s(|operations| operations.ssd_writes);
        let read_ssd_written_bytes_per_s = bytes_per_s(|operations| operations.read_ssd_writes);
        let energy_j = self.span_ns.map(|_| self.host.energy_j(&load));
        DevicesReport {
            host: self.host.name.clone(),
            span_s: self.span_ns.map(|ns| ns as f64 / SECOND_NS),
            ssd_written_bytes: self.bytes(operations.ssd_writes),
            ssd_written_bytes_per_s: written_bytes_per_s,
            ssd_life_years: written_bytes_per_s
                .and_then(|bytes_per_s| self.host.ssd_life_years(load.ssd_bytes, bytes_per_s)),
            read_ssd_written_bytes: self.bytes(operations.read_ssd_writes),
            read_ssd_written_bytes_per_s,
            read_ssd_life_years: read_ssd_written_bytes_per_s
                .and_then(|bytes_per_s| self.host.read_ssd_life_years(load.read_ssd_bytes, bytes_per_s)),
            mirrors: mirrors.map(|mirrors| MirrorReport::new(&mirrors, self.host)),
            energy_j,
            active_energy_j: self.active_energy_j(operations),
            mean_w: energy_j.and_then(|energy_j| self.over_span(energy_j.total)),
            utilisation: paces.and_then(|paces| self.utilisation(paces)),
            backing_utilisation_peak: self
                .span_ns
                .filter(|&ns| ns >= BUSY_INTERVAL_NS)
                .map(|_| self.host.backing_busy(most_backing_work_ns, BUSY_INTERVAL_NS)),
            cost_usd: self.host.cost_usd(load.dram_bytes, load.ssd_bytes, load.read_ssd_bytes),
            drives: self.host.ssd_drives(load.ssd_bytes),
        }
    }

    /// What keeps up with a trace has to do so while the trace goes, and not after its end: each trace goes on at its pace
    /// for as long as the longest.
    fn utilisation(&self, paces: &[Pace]) -> Option<Utilisation> {
        let span_ns = self.span_ns?;
        let mut operations = Operations { backing_work_ns: Some(0), ..Operations::default() };
        let most = u64::MAX / paces.len().max(1) as u64;
        paces.iter().for_each(|pace| operations.add(&pace.over(span_ns, most)));
        self.host.utilisation(&self.load(operations))
    }

    fn load(&self, operations: Operations) -> HostLoad {
        let Quota { dram_blocks, ssd_blocks, read_ssd_blocks } = self.physical;
        HostLoad {
            block: self.block,
            dram_bytes: self.bytes(dram_blocks.into()),
            ssd_bytes: self.bytes(ssd_blocks.into()),
            read_ssd_bytes: self.bytes(read_ssd_blocks.into()),
            // In no time, nothing is told that a time would be needed for.
            span_ns: self.span_ns.unwrap_or(0),
            operations,
        }
    }

    /// In no time nothing waits.
    fn active_energy_j(&self, operations: Operations) -> Energy {
        self.host.energy_j(&HostLoad { span_ns: 0, ..self.load(operations) })
    }

    fn bytes(&self, blocks: u64) -> u64 {
        blocks.saturating_mul(self.block.bytes())
    }

    fn over_span(&self, amount: f64) -> Option<f64> {
        self.span_ns.filter(|&ns| ns > 0).map(|ns| amount / (ns as f64 / SECOND_NS))
    }
}
