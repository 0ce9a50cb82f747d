//! Service times of a disk with one spindle, to make a fast file behave like a slow one in demonstrations.
//!
//! Commands are served one after another in the order they are submitted. The model is deliberately plain:
//! an access costs a fixed time, smaller when it begins where the last one ended, plus its bytes at the
//! disk's rate. It must not know who waits, and it never sleeps: it says when a command would be finished.

use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const NS_PER_US: u64 = 1_000;
const NS_PER_SECOND: u128 = 1_000_000_000;

/// The numbers of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HddModel {
    /// Seek and rotation before an access that does not continue the last one.
    pub random_access_us: u64,
    /// Overhead of an access that begins where the last one ended.
    pub sequential_access_us: u64,
    /// Transfer rate.
    pub bytes_per_second: NonZeroU64,
    /// Cost of a flush or trim.
    pub flush_us: u64,
}

impl HddModel {
    /// A 7200 rpm nearline disk: 8.5 ms seek and 4.2 ms rotation on average, 200 MB/s.
    pub fn nearline() -> HddModel {
        HddModel {
            random_access_us: 12_700,
            sequential_access_us: 60,
            bytes_per_second: NonZeroU64::new(200_000_000).unwrap_or(NonZeroU64::MIN),
            flush_us: 100,
        }
    }
}

/// What the spindle is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Move bytes to or from the platter.
    Transfer {
        /// First byte on the disk.
        offset_bytes: u64,
        /// Number of bytes.
        length_bytes: u64,
    },
    /// A command that moves no bytes.
    Flush,
}

/// One spindle: turns arrivals into finishing times. Pure; times are nanoseconds since any fixed moment.
#[derive(Clone, Debug)]
pub struct Spindle {
    model: HddModel,
    free_at_ns: u64,
    /// Where the last transfer ended; none before the first one.
    head_bytes: Option<u64>,
}

impl Spindle {
    /// An idle spindle.
    pub fn new(model: HddModel) -> Spindle {
        Spindle { model, free_at_ns: 0, head_bytes: None }
    }

    /// When an access that arrives at `now_ns` is finished. Accesses queue: never earlier than the one before.
    pub fn due_ns(&mut self, now_ns: u64, access: Access) -> u64 {
        let service_ns = self.service_ns(access);
        if let Access::Transfer { offset_bytes, length_bytes } = access {
            self.head_bytes = Some(offset_bytes.saturating_add(length_bytes));
        }
        self.free_at_ns = self.free_at_ns.max(now_ns).saturating_add(service_ns);
        self.free_at_ns
    }

    fn service_ns(&self, access: Access) -> u64 {
        let Access::Transfer { offset_bytes, length_bytes } = access else {
            return self.model.flush_us.saturating_mul(NS_PER_US);
        };
        let sequential = self.head_bytes == Some(offset_bytes);
        let access_us =
            if sequential { self.model.sequential_access_us } else { self.model.random_access_us };
        let transfer_ns =
            u128::from(length_bytes) * NS_PER_SECOND / u128::from(self.model.bytes_per_second.get());
        let transfer_ns = u64::try_from(transfer_ns).unwrap_or(u64::MAX);
        access_us.saturating_mul(NS_PER_US).saturating_add(transfer_ns)
    }
}

/// Finishing times further away than this are cut to it, so that a wrong model cannot hang a guest for ever.
const MAX_DELAY: Duration = Duration::from_secs(3600);

/// A spindle in real time, shared by the handles of one file.
pub(crate) struct Delay {
    start: Instant,
    spindle: Mutex<Spindle>,
}

impl Delay {
    pub fn new(model: HddModel) -> Delay {
        Delay { start: Instant::now(), spindle: Mutex::new(Spindle::new(model)) }
    }

    pub fn due(&self, access: Access) -> Instant {
        let now = Instant::now();
        let now_ns = u64::try_from((now - self.start).as_nanos()).unwrap_or(u64::MAX);
        let due_ns = self.spindle.lock().unwrap_or_else(PoisonError::into_inner).due_ns(now_ns, access);
        now + Duration::from_nanos(due_ns - now_ns).min(MAX_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn spindle() -> Spindle {
        Spindle::new(HddModel {
            random_access_us: 10_000,
            sequential_access_us: 1_000,
            bytes_per_second: NonZeroU64::new(1_000_000).unwrap(),
            flush_us: 500,
        })
    }

    fn transfer(offset_bytes: u64, length_bytes: u64) -> Access {
        Access::Transfer { offset_bytes, length_bytes }
    }

    #[test]
    fn random_then_sequential_then_flush() {
        let mut disk = spindle();
        // 10 ms access + 2000 bytes at 1 MB/s = 2 ms.
        assert_eq!(disk.due_ns(100, transfer(0, 2000)), 100 + 12 * MS);
        // Arrives while busy, continues the last: 1 ms + 1 ms after it.
        assert_eq!(disk.due_ns(5 * MS, transfer(2000, 1000)), 100 + 14 * MS);
        // A flush does not move the head.
        assert_eq!(disk.due_ns(5 * MS, Access::Flush), 100 + 14 * MS + MS / 2);
        // Arrives after an idle time, still where the head is.
        assert_eq!(disk.due_ns(50 * MS, transfer(3000, 0)), 51 * MS);
        // Going back is random.
        assert_eq!(disk.due_ns(60 * MS, transfer(0, 1000)), 71 * MS);
    }

    #[test]
    fn extreme_numbers_saturate() {
        let mut disk = spindle();
        assert_eq!(disk.due_ns(u64::MAX, transfer(u64::MAX, u64::MAX)), u64::MAX);
        assert_eq!(disk.due_ns(0, transfer(0, 1)), u64::MAX);
    }

    #[test]
    fn real_time_keeps_first_in_first_out() {
        let delay = Delay::new(HddModel::nearline());
        let first = delay.due(transfer(0, 4096));
        let second = delay.due(transfer(1 << 30, 4096));
        assert!(second >= first + Duration::from_micros(12_700));
    }
}
