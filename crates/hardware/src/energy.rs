//! Energy of devices, by TICA's Eq. 2. It must not know which devices there are.

use serde::{Deserialize, Serialize};

use crate::profile::figure::{self, Figure};

/// Power of a device, in watts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerW {
    /// While it reads.
    pub read: f64,
    /// While it writes.
    pub write: f64,
    /// While it waits.
    pub idle: f64,
}

impl PowerW {
    pub(crate) fn figures(&self) -> [Figure; 3] {
        [
            Figure::new("power_w.read", self.read, figure::POWER_W),
            Figure::new("power_w.write", self.write, figure::POWER_W),
            Figure::new("power_w.idle", self.idle, figure::POWER_W),
        ]
    }
}

/// Energy of one device, in joules, from the seconds that it reads, writes and waits: the terms that TICA's Eq. 2
/// adds up over three devices, with operations times latency for the first two. Its last term is printed with the
/// idle power of the read-optimised SSD; here every device has its own.
pub fn energy_j(power: &PowerW, read_s: f64, write_s: f64, idle_s: f64) -> f64 {
    read_s * power.read + write_s * power.write + idle_s * power.idle
}

/// What the devices of a host are asked to do, in blocks, with all background work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Blocks read from host memory.
    pub dram_reads: u64,
    /// Blocks written to host memory.
    pub dram_writes: u64,
    /// Blocks read from the SSD level.
    pub ssd_reads: u64,
    /// Blocks written to the SSD level.
    pub ssd_writes: u64,
    /// Blocks read from the read SSD.
    pub read_ssd_reads: u64,
    /// Blocks written to the read SSD.
    pub read_ssd_writes: u64,
    /// Blocks read from the backing disks.
    pub backing_reads: u64,
    /// Blocks written to the backing disks.
    pub backing_writes: u64,
    /// Time that the backing disks worked for these, added up over the disks. Where it is not known, every block
    /// counts as a command away from the head.
    pub backing_work_ns: Option<u64>,
}

impl Operations {
    /// Adds another's. The disks' work stays known only if it is known of both.
    pub fn add(&mut self, other: &Operations) {
        self.dram_reads += other.dram_reads;
        self.dram_writes += other.dram_writes;
        self.ssd_reads += other.ssd_reads;
        self.ssd_writes += other.ssd_writes;
        self.read_ssd_reads += other.read_ssd_reads;
        self.read_ssd_writes += other.read_ssd_writes;
        self.backing_reads += other.backing_reads;
        self.backing_writes += other.backing_writes;
        let both = self.backing_work_ns.zip(other.backing_work_ns);
        self.backing_work_ns = both.map(|(one, two)| one.saturating_add(two));
    }
}

/// Energy of a host's storage, in joules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Energy {
    /// Of host memory.
    pub dram: f64,
    /// Of the SSDs, all copies.
    pub ssd: f64,
    /// Of the read SSD.
    pub read_ssd: f64,
    /// Of the backing disks.
    pub backing: f64,
    /// Of all.
    pub total: f64,
}

impl Energy {
    pub(crate) fn new(dram: f64, ssd: f64, read_ssd: f64, backing: f64) -> Energy {
        Energy { dram, ssd, read_ssd, backing, total: dram + ssd + read_ssd + backing }
    }
}
