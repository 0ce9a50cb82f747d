//! What a scheme that chooses among others has chosen, and why. It must not know how it is chosen.

use std::collections::VecDeque;

use serde::Serialize;

/// Latest decisions that are kept.
const MOST: usize = 256;

/// One scheme, or its settings, instead of another from now on. The figures are of shadows on a sample of the blocks, for each
/// request, on average of some time, the later counting more; none where it was not chosen by them, but because there is a budget of
/// SSD writes now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// Block accesses of the VM up to then.
    pub block_accesses: u64,
    /// Which one decided, as `lode compare --schemes` takes it.
    pub from: String,
    /// Which one decides.
    pub to: String,
    /// What the latter had saved by then beyond what does not count, in turnovers: in parts of what requests cost that access as many
    /// blocks as both levels have.
    pub saved_turnovers: Option<f64>,
    /// What it must have saved for that, in turnovers.
    pub asked_turnovers: Option<f64>,
    /// Time of a request with the former, in microseconds.
    pub from_latency_us: Option<f64>,
    /// Time of a request with the latter, in microseconds.
    pub to_latency_us: Option<f64>,
    /// Time of the disk for a request with the former, whoever waited for it, in microseconds.
    pub from_disk_us: Option<f64>,
    /// Time of the disk for a request with the latter, in microseconds.
    pub to_disk_us: Option<f64>,
    /// Time of the disk for a request with the former, as the peak counts it: the more, the busier the disk is; none where that does not
    /// count.
    pub from_disk_peak_cost_us: Option<f64>,
    /// The same with the latter.
    pub to_disk_peak_cost_us: Option<f64>,
    /// Blocks written to the SSD for a request with the former.
    pub from_ssd_writes: Option<f64>,
    /// Blocks written to the SSD for a request with the latter.
    pub to_ssd_writes: Option<f64>,
}

/// What requests took with a share of the SSD, by a shadow on a sample of the blocks, for each request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SizeCost {
    /// The share, in blocks: on average of the time for which the figures are.
    pub ssd_blocks: u64,
    /// Time of a request, in microseconds.
    pub latency_us: f64,
    /// Time of the disk, whoever waited for it, in microseconds.
    pub disk_us: f64,
    /// Blocks written to the SSD.
    pub ssd_writes: f64,
    /// Block reads that DRAM served.
    pub dram_hits: f64,
    /// Block reads that the SSD served.
    pub ssd_hits: f64,
}

/// What the scheme that decides costs with other shares of the SSD, beside as much DRAM, when a window of demands ended lately.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SizeCosts {
    /// With half of the VM's share.
    pub half: SizeCost,
    /// With its share.
    pub own: SizeCost,
    /// With twice its share, or with all that the host has where that is less.
    pub twice: SizeCost,
}

/// The latest decisions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decisions {
    latest: VecDeque<Decision>,
    count: u64,
    sizes: Option<SizeCosts>,
}

impl Decisions {
    pub(crate) fn note(&mut self, decision: Decision) {
        if self.latest.len() == MOST {
            self.latest.pop_front();
        }
        self.latest.push_back(decision);
        self.count += 1;
    }

    /// All that there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The latest, up to 256, oldest first.
    pub fn latest(&self) -> impl ExactSizeIterator<Item = &Decision> {
        self.latest.iter()
    }

    pub(crate) fn set_sizes(&mut self, sizes: Option<SizeCosts>) {
        self.sizes = sizes;
    }

    /// What other shares would cost; none where that is not measured, or not yet.
    pub fn sizes(&self) -> Option<SizeCosts> {
        self.sizes
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let names = self.latest.iter().map(|decision| decision.from.capacity() + decision.to.capacity());
        self.latest.capacity() * size_of::<Decision>() + names.sum::<usize>()
    }
}
