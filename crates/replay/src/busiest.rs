//! How much the backing disks work in the busiest interval of a run. It must not know what they work for.

use lode_policy::Since;

/// How long an interval is, in nanoseconds: long enough for a queue that disks can still work off, and no longer.
pub const BUSY_INTERVAL_NS: u64 = 60_000_000_000;

/// Intervals that each begin with a request, at its time or where the one before it ended a while ago, and last
/// [`BUSY_INTERVAL_NS`]. A request whose time is far ahead of all others ends one early, and the next begins where the times go on.
#[derive(Debug, Default)]
pub(crate) struct BusiestInterval {
    start: Since,
    /// Work before the interval under way.
    before_ns: u64,
    most_ns: u64,
}

impl BusiestInterval {
    /// A request comes at `now_ns`. Whether it begins another interval.
    #[inline]
    pub(crate) fn begins_with(&mut self, now_ns: u64) -> bool {
        self.start.put_right(now_ns, BUSY_INTERVAL_NS);
        let begins = self.start.passed_ns(now_ns) >= BUSY_INTERVAL_NS;
        if begins {
            self.start.begin(now_ns);
        }
        begins
    }

    /// The interval before is over; disks have worked for so long since the run began.
    pub(crate) fn end(&mut self, work_ns: u64) {
        self.most_ns = self.most_ns(work_ns);
        self.before_ns = work_ns;
    }

    /// Work in the busiest interval, when disks have worked for so long since the run began.
    pub(crate) fn most_ns(&self, work_ns: u64) -> u64 {
        self.most_ns.max(work_ns.saturating_sub(self.before_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// The most work of one interval, of requests that each have their second and what they make disks work for.
    fn most(requests: &[(u64, u64)]) -> u64 {
        let (mut busiest, mut work) = (BusiestInterval::default(), 0);
        for &(s, works) in requests {
            if busiest.begins_with(s.saturating_mul(S)) {
                busiest.end(work);
            }
            work += works;
        }
        busiest.most_ns(work)
    }

    #[test]
    fn work_counts_in_the_interval_of_its_request() {
        assert_eq!(most(&[]), 0);
        assert_eq!(most(&[(7, 5), (66, 6), (67, 1)]), 11);
        assert_eq!(most(&[(0, 5), (60, 6), (119, 6), (500, 11)]), 12);
        assert_eq!(most(&[(0, 1), (1000, 2), (1059, 3), (1060, 4)]), 5);
    }

    #[test]
    fn stray_times_cut_an_interval_short() {
        let far = 18_000_000_000;
        assert_eq!(most(&[(0, 1), (far, 1), (1, 1), (2, 1), (3, 1)]), 4);
        assert_eq!(most(&[(far, 1), (0, 2), (1, 2), (61, 3), (62, 3)]), 6);
        // A little disorder is none.
        assert_eq!(most(&[(100, 1), (99, 1), (98, 1), (159, 1), (160, 1)]), 4);
    }
}
