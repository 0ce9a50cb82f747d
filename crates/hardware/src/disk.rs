//! One spinning disk (or array) and the position of its head. It must not know what is stored on it.

use crate::service::ServiceTimes;

/// Where a disk's head stands: a command at the address right after the last one is sequential, every other one is
/// random. A command at the same address again is random too: the platter has to come round once more.
///
/// Addresses are in the caller's unit, the same for every call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    next: Option<u64>,
}

impl Disk {
    /// Reads at `address`; says how long it takes.
    #[inline]
    pub fn read_ns(&mut self, address: u64, times: &ServiceTimes) -> u64 {
        if self.moves_to(address) { times.disk_sequential_ns } else { times.disk_random_ns }
    }

    /// Writes at `address`; says how long it takes.
    #[inline]
    pub fn write_ns(&mut self, address: u64, times: &ServiceTimes) -> u64 {
        if self.moves_to(address) {
            times.disk_sequential_ns
        } else {
            times.disk_random_ns.saturating_mul(times.disk_small_write_factor)
        }
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

    #[test]
    fn only_the_next_address_is_sequential() {
        let times = ServiceTimes::default();
        let mut disk = Disk::default();
        let (random, sequential) = (times.disk_random_ns, times.disk_sequential_ns);
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
    }

    #[test]
    fn reads_and_writes_share_the_head() {
        let times = ServiceTimes::raid5();
        let mut disk = Disk::default();
        assert_eq!(disk.read_ns(7, &times), times.disk_random_ns);
        assert_eq!(disk.write_ns(8, &times), times.disk_sequential_ns);
        assert_eq!(disk.write_ns(20, &times), 2 * times.disk_random_ns);
        assert_eq!(disk.read_ns(21, &times), times.disk_sequential_ns);
    }

    #[test]
    fn nothing_follows_the_last_address() {
        let times = ServiceTimes::default();
        let mut disk = Disk::default();
        assert_eq!(disk.read_ns(u64::MAX, &times), times.disk_random_ns);
        assert_eq!(disk.read_ns(0, &times), times.disk_random_ns);
    }
}
