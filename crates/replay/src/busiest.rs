//! How much the backing disks work in the busiest interval of a run. It must not know what they work for.

/// The most work in one of [`Minutes`](crate::minutes::Minutes).
#[derive(Debug, Default)]
pub(crate) struct BusiestInterval {
    /// Work before the interval under way.
    before_ns: u64,
    most_ns: u64,
}

impl BusiestInterval {
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
    use crate::minutes::Minutes;

    const S: u64 = 1_000_000_000;

    /// The most work of one interval, of requests that each have their second and what they make disks work for.
    fn most(requests: &[(u64, u64)]) -> u64 {
        let (mut minutes, mut busiest, mut work) = (Minutes::default(), BusiestInterval::default(), 0);
        for &(s, works) in requests {
            if minutes.begins_with(s.saturating_mul(S)).is_some() {
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
