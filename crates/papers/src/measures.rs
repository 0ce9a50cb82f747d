//! Numbers out of replays that several papers speak of. It must not know which.

use lode_replay::{Counts, Report};

use crate::experiment::ratio;

/// Mean time of a request, of all VMs together.
pub(crate) fn latency_us(report: &Report) -> Option<f64> {
    report.total.mean_latency_us
}

/// Mean time of a request of each VM.
pub(crate) fn vm_latencies_us(report: &Report) -> Vec<Option<f64>> {
    report.vms.iter().map(|vm| vm.counts.mean_latency_us).collect()
}

/// Share of the block accesses that a level serves, write hits included.
pub(crate) fn hit_ratio(counts: &Counts) -> Option<f64> {
    let counters = &counts.counters;
    let hits = counters.read_hits.total() + counters.write_hits.ssd;
    ratio(Some(hits as f64), Some(counters.block_accesses as f64))
}

/// Share of the block reads that a level serves.
pub(crate) fn read_hit_ratio(counts: &Counts) -> Option<f64> {
    ratio(Some(counts.counters.read_hits.total() as f64), Some(counts.counters.block_reads as f64))
}

/// Blocks written to the SSD.
pub(crate) fn ssd_writes(counts: &Counts) -> Option<f64> {
    Some(counts.counters.ssd_writes.total as f64)
}

/// Blocks that left the SSD to make room: replacements.
pub(crate) fn replacements(counts: &Counts) -> Option<f64> {
    Some(counts.counters.evictions.ssd as f64)
}

/// Blocks of DRAM and SSD that all VMs together had, mean over the sizings; none without any.
pub(crate) fn mean_shares(report: &Report) -> Option<(f64, f64)> {
    let sizings = report.vms.iter().map(|vm| vm.intervals.len()).max().filter(|&count| count > 0)?;
    let sum = |level: fn(&lode_replay::LevelBlocks) -> u32| {
        let shares = report.vms.iter().flat_map(|vm| &vm.intervals);
        shares.map(|share| f64::from(level(share))).sum::<f64>() / sizings as f64
    };
    Some((sum(|share| share.dram_blocks), sum(|share| share.ssd_blocks)))
}
