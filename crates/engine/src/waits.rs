//! What a request waited for, and for how long. Whatever ends a wait gives the time since the request's wait before to its
//! cause, so that the waits of a request add up to its time, also where it has several blocks under way at once: of those the
//! one that came last is the one that was waited for. It must not know requests or clocks.

/// Nanoseconds of the unit in which waits are kept.
const NS_PER_UNIT: u64 = 1000;

/// What a request can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitedFor {
    /// Earlier requests that have to do with the same blocks, and for a trim or zeroing the one before it.
    Order,
    /// A free frame, or a free place on the cache SSD.
    Room,
    /// Blocks that are dirty to become fewer, or a disk that is written in groups to be less behind.
    DirtyLimit,
    /// The read SSD, to read.
    ReadSsdRead,
    /// The cache SSD, to read.
    SsdRead,
    /// The cache SSD, to write the data.
    SsdWrite,
    /// The journal on the cache SSD.
    Journal,
    /// The backing disk, to read.
    BackingRead,
    /// The backing disk, to write.
    BackingWrite,
    /// The backing disk, to flush.
    BackingFlush,
    /// What was found on the SSD at the start to be taken over.
    Start,
}

impl WaitedFor {
    /// How many there are.
    pub const COUNT: usize = 11;
    /// All, in their order.
    pub const ALL: [WaitedFor; WaitedFor::COUNT] = [
        WaitedFor::Order,
        WaitedFor::Room,
        WaitedFor::DirtyLimit,
        WaitedFor::ReadSsdRead,
        WaitedFor::SsdRead,
        WaitedFor::SsdWrite,
        WaitedFor::Journal,
        WaitedFor::BackingRead,
        WaitedFor::BackingWrite,
        WaitedFor::BackingFlush,
        WaitedFor::Start,
    ];
}

/// How long a request waited for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits([u32; WaitedFor::COUNT]);

impl Waits {
    /// Nanoseconds, to the microsecond.
    pub fn ns(&self, cause: WaitedFor) -> u64 {
        u64::from(self.0[cause as usize]) * NS_PER_UNIT
    }

    /// It waited for this between two moments.
    pub(crate) fn add(&mut self, cause: WaitedFor, from_ns: u64, to_ns: u64) {
        // Of moments and not of lengths, so that what is rounded does not add up.
        let units = (to_ns / NS_PER_UNIT).saturating_sub(from_ns / NS_PER_UNIT);
        let sum = &mut self.0[cause as usize];
        *sum = sum.saturating_add(u32::try_from(units).unwrap_or(u32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_add_up_whatever_is_rounded() {
        let mut waits = Waits::default();
        for at in 0..1000 {
            let cause = if at % 2 == 0 { WaitedFor::SsdRead } else { WaitedFor::Journal };
            waits.add(cause, at * 700, (at + 1) * 700);
        }
        assert_eq!(waits.ns(WaitedFor::SsdRead) + waits.ns(WaitedFor::Journal), 700_000);
        waits.add(WaitedFor::Room, 5000, 1000);
        assert_eq!(waits.ns(WaitedFor::Room), 0, "a clock that goes back is no wait");
        waits.add(WaitedFor::Room, 0, u64::MAX);
        waits.add(WaitedFor::Room, 0, u64::MAX);
        assert_eq!(waits.ns(WaitedFor::Room), u64::from(u32::MAX) * NS_PER_UNIT);
        assert!(WaitedFor::ALL.iter().enumerate().all(|(at, &cause)| at == cause as usize));
    }
}
