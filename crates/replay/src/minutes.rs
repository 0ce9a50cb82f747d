//! Minutes of the traces' time, at whose ends something is looked at. It must not know what.

use lode_policy::Since;

/// How long an interval is, in nanoseconds: long enough for a queue that disks can still work off, and no longer.
pub const BUSY_INTERVAL_NS: u64 = 60_000_000_000;

/// Intervals that each begin with a request, at its time or where the one before it ended a while ago, and last
/// [`BUSY_INTERVAL_NS`]. A request whose time is far ahead of all others ends one early, and the next begins where the times go on.
#[derive(Debug, Default)]
pub(crate) struct Minutes {
    start: Since,
}

impl Minutes {
    /// A request comes at `now_ns`. Where it begins another interval, how long it has been since the last one began.
    #[inline]
    pub(crate) fn begins_with(&mut self, now_ns: u64) -> Option<u64> {
        self.start.put_right(now_ns, BUSY_INTERVAL_NS);
        let passed_ns = self.start.passed_ns(now_ns);
        if passed_ns < BUSY_INTERVAL_NS {
            return None;
        }
        self.start.begin(now_ns);
        Some(passed_ns)
    }
}
