//! A device that several volumes share: a flush that fails for one of them has failed for all.
//!
//! A flush covers what everybody has written to the device. One that fails may have lost any of it, and the system says so
//! once, to whoever asked; whoever asks next is told that all is well. So a flush that ended well is worth nothing once
//! another one has failed, nor before it is known how those ended that were under way at the same time: one of them may
//! have failed, at the device, before this one began.
//!
//! Drivers ask here at the beginning and at the end of every flush, before an engine is told. It must not know threads:
//! drivers of several threads put a lock around it, which flushes alone take.

use lode_types::planted;
use std::collections::BTreeSet;

/// The flushes of one device, of all who use it.
#[derive(Clone, Debug, Default)]
pub struct SharedDevice {
    next: u64,
    under_way: BTreeSet<u64>,
    failed: bool,
}

/// A flush under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushTicket(u64);

/// A flush that ended well, and which others have to end before that is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedFlush {
    begun_before: u64,
}

/// What a flush that ended well is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// What it covered is durable.
    Durable,
    /// Others are under way whose end decides it.
    Open,
    /// Nothing: the device has failed somebody.
    Nothing,
}

impl SharedDevice {
    /// A flush is sent to the device.
    pub fn begin_flush(&mut self) -> FlushTicket {
        let ticket = self.next;
        self.next += 1;
        self.under_way.insert(ticket);
        FlushTicket(ticket)
    }

    /// A flush ended, well or not. What it is worth is asked with [`SharedDevice::worth`].
    pub fn end_flush(&mut self, FlushTicket(ticket): FlushTicket, ok: bool) -> EndedFlush {
        self.under_way.remove(&ticket);
        self.failed |= !ok && !planted("backing-failure-told-once");
        EndedFlush { begun_before: self.next }
    }

    /// What a flush that ended well is worth now.
    pub fn worth(&self, EndedFlush { begun_before }: EndedFlush) -> Worth {
        if self.failed {
            return Worth::Nothing;
        }
        match self.under_way.first() {
            Some(&oldest) if oldest < begun_before && !planted("flush-beside-not-waited-for") => Worth::Open,
            _ => Worth::Durable,
        }
    }

    /// The device failed one of its users in another way.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// Whether it failed any of its users. Then it has failed all of them ([`crate::Engine::device_failed`]).
    pub fn has_failed(&self) -> bool {
        self.failed && !planted("failure-told-to-one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_worth_nothing_until_those_beside_it_have_ended_well() {
        let mut device = SharedDevice::default();
        let (one, other) = (device.begin_flush(), device.begin_flush());
        let ended = device.end_flush(other, true);
        assert_eq!(device.worth(ended), Worth::Open);
        // A later one does not matter.
        let later = device.begin_flush();
        let first = device.end_flush(one, true);
        assert_eq!(device.worth(ended), Worth::Durable);
        assert_eq!(device.worth(first), Worth::Open);
        let later = device.end_flush(later, false);
        for ended in [ended, first, later] {
            assert_eq!(device.worth(ended), Worth::Nothing);
        }
        assert!(device.has_failed());
    }
}
