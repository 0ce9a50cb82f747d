//! One spinning disk (or array) and the position of its head. It must not know what is stored on it.

use crate::service::{BackingTimes, Command};

/// Where a disk's head stands, and how long its disks have worked: a command at the address right after the last one
/// is sequential, every other one is random. A command at the same address again is random too: the platter has to
/// come round once more.
///
/// Addresses are in the caller's unit, the same for every call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    next: Option<u64>,
    work_ns: u64,
}

impl Disk {
    /// Reads at `address`; says how long it takes.
    #[inline]
    pub fn read_ns(&mut self, address: u64, times: &BackingTimes) -> u64 {
        let from = self.next;
        let command = match (self.moves_to(address), &times.arm) {
            (true, _) => times.sequential_read,
            (false, None) => times.random_read,
            (false, Some(arm)) => arm.read(times.random_read, from, address),
        };
        self.works(command)
    }

    /// Writes at `address`; says how long it takes.
    #[inline]
    pub fn write_ns(&mut self, address: u64, times: &BackingTimes) -> u64 {
        let from = self.next;
        let command = match (self.moves_to(address), &times.arm) {
            (true, _) => times.sequential_write,
            (false, None) => times.random_write,
            (false, Some(arm)) => arm.write(times.random_write, from, address),
        };
        self.works(command)
    }

    /// Time that its disks have worked so far, added up over them, in nanoseconds.
    pub fn work_ns(&self) -> u64 {
        self.work_ns
    }

    /// Notes a command.
    #[inline]
    fn works(&mut self, command: Command) -> u64 {
        self.work_ns = self.work_ns.saturating_add(command.work_ns);
        command.ns
    }

    /// Moves the head past `address`; whether it stood there already.
    #[inline]
    fn moves_to(&mut self, address: u64) -> bool {
        let sequential = self.next == Some(address);
        self.next = address.checked_add(1);
        sequential
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAID5: BackingTimes = BackingTimes {
        random_read: Command { ns: 8_000_000, work_ns: 8_000_000 },
        random_write: Command { ns: 16_000_000, work_ns: 32_000_000 },
        sequential_read: Command { ns: 100_000, work_ns: 200_000 },
        sequential_write: Command { ns: 110_000, work_ns: 300_000 },
        arm: None,
    };

    #[test]
    fn only_the_next_address_is_sequential() {
        let times = BackingTimes::default();
        let mut disk = Disk::default();
        let (random, sequential) = (times.random_read.ns, times.sequential_read.ns);
        for (address, expected) in [
            (0, random),
            (1, sequential),
            (1, random),
            (2, sequential),
            (4, random),
            (3, random),
            (4, sequential),
        ] {
            assert_eq!(disk.read_ns(address, &times), expected, "{address}");
        }
        assert_eq!(disk.work_ns(), 4 * random + 3 * sequential);
    }

    #[test]
    fn reads_and_writes_share_the_head() {
        let mut disk = Disk::default();
        assert_eq!(disk.read_ns(7, &RAID5), RAID5.random_read.ns);
        assert_eq!(disk.write_ns(8, &RAID5), RAID5.sequential_write.ns);
        assert_eq!(disk.write_ns(20, &RAID5), 2 * RAID5.random_read.ns);
        assert_eq!(disk.read_ns(21, &RAID5), RAID5.sequential_read.ns);
        assert_eq!(disk.work_ns(), 8_000_000 + 300_000 + 32_000_000 + 200_000);
    }

    #[test]
    fn nothing_follows_the_last_address() {
        let times = BackingTimes::default();
        let mut disk = Disk::default();
        assert_eq!(disk.read_ns(u64::MAX, &times), times.random_read.ns);
        assert_eq!(disk.read_ns(0, &times), times.random_read.ns);
    }
}
