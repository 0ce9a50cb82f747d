//! Service times of the levels and of the backing disk. It must not know where a disk's head is.

use lode_types::Level;

use crate::arm::Arm;

/// Time that one command takes, in nanoseconds, without waiting for other commands.
///
/// The defaults are common figures for the device classes named below, at one 4 KiB block a command. The papers
/// behind the schemes publish none, so they are this project's choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceTimes {
    /// A read or write of host memory, with the software around it: 2 us.
    pub dram_ns: u64,
    /// A read from a SATA SSD: 120 us.
    pub ssd_read_ns: u64,
    /// A write into a SATA SSD's buffer: 60 us.
    pub ssd_write_ns: u64,
    /// A read from the read SSD: that of another SSD of the same kind, 120 us.
    pub read_ssd_read_ns: u64,
    /// A write into the read SSD's buffer: 60 us.
    pub read_ssd_write_ns: u64,
    /// What lies behind the cache.
    pub backing: BackingTimes,
}

/// One command on the backing disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// How long it takes, in nanoseconds.
    pub ns: u64,
    /// How long disks work for it, added up over them; the way across a network is no work. In nanoseconds.
    pub work_ns: u64,
}

impl Command {
    /// A command of one disk in this host.
    const fn of_one_disk(ns: u64) -> Command {
        Command { ns, work_ns: ns }
    }
}

/// Times of the backing disk, array or network storage.
///
/// A command that goes on where the last one ended is sequential. The defaults are those of one 7200 rpm disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackingTimes {
    /// A read anywhere else than at the head, seek and rotation: 8 ms. With an arm, one at a mean distance.
    pub random_read: Command,
    /// A write anywhere else than at the head: as a read for one disk, twice that for RAID-5, which reads old data
    /// and parity before it writes both.
    pub random_write: Command,
    /// A read that goes on where the last command ended: 100 us.
    pub sequential_read: Command,
    /// A write that goes on where the last command ended: 100 us. It fills whole stripes and reads nothing first.
    pub sequential_write: Command,
    /// How random times depend on the distance; without one they do not.
    pub arm: Option<Arm>,
}

impl ServiceTimes {
    /// One block, alone: read from the SSD, written to it, and read and written anywhere on the disk; in microseconds.
    pub fn one_block_us(&self) -> [f64; 4] {
        let (read, write) = (self.backing.random_read.ns, self.backing.random_write.ns);
        [self.ssd_read_ns, self.ssd_write_ns, read, write].map(|ns| ns as f64 / 1000.0)
    }
}

impl BackingTimes {
    /// Time that disks work, added up over them, for blocks away from the head.
    pub fn random_work_ns(&self, reads: u64, writes: u64) -> u64 {
        let reads_ns = self.random_read.work_ns.saturating_mul(reads);
        reads_ns.saturating_add(self.random_write.work_ns.saturating_mul(writes))
    }
}

impl Default for BackingTimes {
    fn default() -> BackingTimes {
        BackingTimes {
            random_read: Command::of_one_disk(8_000_000),
            random_write: Command::of_one_disk(8_000_000),
            sequential_read: Command::of_one_disk(100_000),
            sequential_write: Command::of_one_disk(100_000),
            arm: None,
        }
    }
}

impl Default for ServiceTimes {
    fn default() -> ServiceTimes {
        ServiceTimes {
            dram_ns: 2_000,
            ssd_read_ns: 120_000,
            ssd_write_ns: 60_000,
            read_ssd_read_ns: 120_000,
            read_ssd_write_ns: 60_000,
            backing: BackingTimes::default(),
        }
    }
}

impl ServiceTimes {
    /// Reading one block from a cache level.
    #[inline]
    pub fn level_read_ns(&self, level: Level) -> u64 {
        match level {
            Level::Dram => self.dram_ns,
            Level::Ssd => self.ssd_read_ns,
            Level::ReadSsd => self.read_ssd_read_ns,
        }
    }

    /// Writing one block into a cache level.
    #[inline]
    pub fn level_write_ns(&self, level: Level) -> u64 {
        match level {
            Level::Dram => self.dram_ns,
            Level::Ssd => self.ssd_write_ns,
            Level::ReadSsd => self.read_ssd_write_ns,
        }
    }
}

/// Nanoseconds of so many microseconds, rounded.
pub(crate) fn ns_of(us: f64) -> u64 {
    (us * 1000.0).round() as u64
}

/// Microseconds that bytes take at a rate in MB (10^6 bytes) a second.
pub(crate) fn transfer_us(bytes: u64, mb_per_s: f64) -> f64 {
    bytes as f64 / mb_per_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_megabyte_a_second_is_a_byte_a_microsecond() {
        assert_eq!((transfer_us(4096, 1.0), ns_of(0.0006), ns_of(2.0)), (4096.0, 1, 2000));
    }
}
