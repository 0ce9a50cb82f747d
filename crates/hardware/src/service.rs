//! Service times of the levels and of the backing disk. It must not know where a disk's head is.

use lode_types::Level;

/// Time that one command takes, in nanoseconds, without waiting for other commands.
///
/// The defaults are common figures for the device classes named below, at one 4 KiB block a command. The papers
/// behind the schemes publish none, so they are this project's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceTimes {
    /// A read or write of host memory, with the software around it: 2 us.
    pub dram_ns: u64,
    /// A read from a SATA SSD: 120 us.
    pub ssd_read_ns: u64,
    /// A write into a SATA SSD's buffer: 60 us.
    pub ssd_write_ns: u64,
    /// A command of a 7200 rpm disk anywhere else than at its head, seek and rotation: 8 ms.
    pub disk_random_ns: u64,
    /// A command of a 7200 rpm disk that goes on where the last one ended: 100 us.
    pub disk_sequential_ns: u64,
    /// What a write that is not sequential costs more than a read: 1 for one disk, 2 for RAID-5, which reads old
    /// data and parity before it writes both. Sequential writes fill whole stripes and pay nothing.
    pub disk_small_write_factor: u64,
}

impl Default for ServiceTimes {
    fn default() -> ServiceTimes {
        ServiceTimes {
            dram_ns: 2_000,
            ssd_read_ns: 120_000,
            ssd_write_ns: 60_000,
            disk_random_ns: 8_000_000,
            disk_sequential_ns: 100_000,
            disk_small_write_factor: 1,
        }
    }
}

impl ServiceTimes {
    /// The defaults with a RAID-5 of such disks as backing.
    pub fn raid5() -> ServiceTimes {
        ServiceTimes { disk_small_write_factor: 2, ..ServiceTimes::default() }
    }

    /// Reading one block from a cache level.
    #[inline]
    pub fn level_read_ns(&self, level: Level) -> u64 {
        match level {
            Level::Dram => self.dram_ns,
            Level::Ssd => self.ssd_read_ns,
        }
    }

    /// Writing one block into a cache level.
    #[inline]
    pub fn level_write_ns(&self, level: Level) -> u64 {
        match level {
            Level::Dram => self.dram_ns,
            Level::Ssd => self.ssd_write_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faster_levels_come_first() {
        for times in [ServiceTimes::default(), ServiceTimes::raid5()] {
            let reads = Level::ALL.map(|level| times.level_read_ns(level));
            let writes = Level::ALL.map(|level| times.level_write_ns(level));
            assert_eq!(reads, [2_000, 120_000]);
            assert_eq!(writes, [2_000, 60_000]);
            assert!(reads[1] < times.disk_random_ns && times.disk_sequential_ns < times.disk_random_ns);
        }
    }
}
