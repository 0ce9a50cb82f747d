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
