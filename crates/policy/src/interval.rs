//! Requests or time that pass, and what is due every so often. It must not know what is due.

/// Nanoseconds in a day, by which budgets are counted.
pub(crate) const NS_PER_DAY: f64 = 86_400e9;

/// So far back lie times that show that an earlier one was astray, where nothing else says how far.
pub(crate) const MOST_BACK_NS: u64 = 10_000_000_000;

/// Since when time is counted, on a clock of which some times may be far from all others.
///
/// A time far ahead is believed like any other. When two times in a row then lie as far behind it as was said, it was that
/// one that was astray, and counting begins anew with the earlier of the two. It takes two, because one of them may itself
/// be astray.
#[derive(Clone, Copy, Debug, Default)]
pub struct Since {
    start_ns: Option<u64>,
    behind_ns: Option<u64>,
}

impl Since {
    /// From when on time is counted; none before the first [`Since::begin`].
    pub fn start_ns(&self) -> Option<u64> {
        self.start_ns
    }

    /// Time is counted from `now_ns` on.
    pub fn begin(&mut self, now_ns: u64) {
        *self = Since { start_ns: Some(now_ns), behind_ns: None };
    }

    /// Notes a time, which begins the first count. Gives the new start where the old one turns out to have been astray, as
    /// this time and the one before are `most_back_ns` or more before it.
    pub fn put_right(&mut self, now_ns: u64, most_back_ns: u64) -> Option<u64> {
        let start_ns = *self.start_ns.get_or_insert(now_ns);
        if start_ns.saturating_sub(now_ns) < most_back_ns.max(1) {
            self.behind_ns = None;
            return None;
        }
        let first_ns = self.behind_ns.replace(now_ns)?.min(now_ns);
        self.begin(first_ns);
        Some(first_ns)
    }

    /// Nanoseconds from the start to `now_ns`; none before it.
    pub fn passed_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.start_ns.unwrap_or(now_ns))
    }
}

/// Settings say the words; this counts. By time, a request whose time is far ahead of all others ends an interval early, and
/// the next one begins where the times go on (see [`Since`]).
#[derive(Debug)]
pub(crate) struct Interval {
    by_time: bool,
    most_requests: u64,
    length_ns: u64,
    requests: u64,
    since: Since,
}

impl Interval {
    /// Intervals of `most_requests`, or `by_time` of `length_s` seconds on the clock of whoever says what time it is.
    pub(crate) fn new(by_time: bool, most_requests: u64, length_s: f64) -> Interval {
        let length_ns = (length_s * 1e9) as u64;
        Interval { by_time, most_requests, length_ns, requests: 0, since: Since::default() }
    }

    /// One that never ends.
    pub(crate) fn never() -> Interval {
        Interval::new(false, u64::MAX, 0.0)
    }

    /// Notes one request. Whether the interval ends with it; the next one then begins.
    #[inline(always)]
    pub(crate) fn ends_with(&mut self, now_ns: u64) -> bool {
        if self.by_time {
            return self.ends_at(now_ns);
        }
        self.requests += 1;
        let ends = self.requests >= self.most_requests;
        if ends {
            self.requests = 0;
        }
        ends
    }

    /// Requests that come before the one with which the interval ends; none where that cannot be told.
    #[inline]
    pub(crate) fn requests_before_end(&self) -> u64 {
        if self.by_time { 0 } else { self.most_requests.saturating_sub(self.requests + 1) }
    }

    /// Notes requests, of which so many come before the end.
    #[inline]
    pub(crate) fn pass(&mut self, requests: u64) {
        self.requests += requests;
    }

    fn ends_at(&mut self, now_ns: u64) -> bool {
        self.since.put_right(now_ns, self.length_ns);
        let ends = self.since.passed_ns(now_ns) >= self.length_ns;
        if ends {
            self.since.begin(now_ns);
        }
        ends
    }
}

/// Counts requests, or seconds that pass after the first one, modulo 2^32. It never runs backwards: by time, a request far
/// ahead of all others lets it leap, once, and then it goes on with the others (see [`Since`]).
#[derive(Debug)]
pub(crate) struct Clock {
    by_time: bool,
    most_back_ns: u64,
    /// The latest time.
    latest: Since,
    /// What has passed beside whole seconds.
    part_ns: u64,
    now: u32,
}

impl Clock {
    const NS_PER_S: u64 = 1_000_000_000;

    /// A clock for ages up to `most_age`, in requests, or `by_time` in seconds: as far may times lie behind others, and mean
    /// nothing.
    pub(crate) fn new(by_time: bool, most_age: u32) -> Clock {
        let most_back_ns = u64::from(most_age.max(1)) * Clock::NS_PER_S;
        Clock { by_time, most_back_ns, latest: Since::default(), part_ns: 0, now: 0 }
    }

    /// A request ends. While times lie a little behind, the clock stands still.
    #[inline(always)]
    pub(crate) fn end_request(&mut self, now_ns: u64) {
        if self.by_time {
            self.go_to(now_ns);
        } else {
            self.now = self.now.wrapping_add(1);
        }
    }

    fn go_to(&mut self, now_ns: u64) {
        self.latest.put_right(now_ns, self.most_back_ns);
        let passed_ns = self.latest.passed_ns(now_ns);
        if passed_ns > 0 {
            self.latest.begin(now_ns);
            let passed_ns = self.part_ns.saturating_add(passed_ns);
            self.now = self.now.wrapping_add((passed_ns / Clock::NS_PER_S) as u32);
            self.part_ns = passed_ns % Clock::NS_PER_S;
        }
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> u32 {
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// At which of these seconds an interval of 10 s ends.
    fn ends(times_s: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut interval = Interval::new(true, 1, 10.0);
        times_s.into_iter().filter(|&s| interval.ends_with(s.saturating_mul(S))).collect()
    }

    /// What a clock with ages of up to 10 s says after each of these seconds.
    fn clock(times_s: impl IntoIterator<Item = u64>) -> Vec<u32> {
        let mut clock = Clock::new(true, 10);
        times_s
            .into_iter()
            .map(|s| {
                clock.end_request(s.saturating_mul(S));
                clock.now()
            })
            .collect()
    }

    #[test]
    fn intervals_go_on_after_stray_times() {
        assert_eq!(ends(0..60), [10, 20, 30, 40, 50]);
        let far = 18_000_000_000;
        // One far ahead ends an interval; the next begins with the first two that follow.
        assert_eq!(ends((0..5).chain([far]).chain(5..60)), [far, 15, 25, 35, 45, 55]);
        // As the first of all.
        assert_eq!(ends([far].into_iter().chain(0..30)), [10, 20]);
        // Two of them.
        assert_eq!(ends((0..5).chain([far - 100, far]).chain(5..60)), [far - 100, far, 15, 25, 35, 45, 55]);
        // One far back is passed over, as is one a little behind.
        assert_eq!(ends((100..105).chain([0]).chain(105..135)), [110, 120, 130]);
        assert_eq!(ends((100..105).chain([98, 97, 99]).chain(105..135)), [110, 120, 130]);
    }

    #[test]
    fn requests_pass_together_as_one_by_one() {
        let [mut together, mut one_by_one] = [(); 2].map(|()| Interval::new(false, 7, 0.0));
        let mut ended = 0;
        for step in 0..50 {
            let quiet = together.requests_before_end().min(step % 9);
            together.pass(quiet);
            assert!((0..quiet).all(|_| !one_by_one.ends_with(0)));
            let ends = one_by_one.ends_with(0);
            assert_eq!(together.ends_with(0), ends);
            ended += u32::from(ends);
        }
        assert!(ended > 10, "{ended}");
        assert_eq!(Interval::new(true, 7, 1.0).requests_before_end(), 0);
    }

    #[test]
    fn clocks_go_on_after_stray_times() {
        assert_eq!(clock([7, 8, 8, 10]), [0, 1, 1, 3]);
        // It stands while times are a little behind.
        assert_eq!(clock([7, 17, 8, 9, 17, 18]), [0, 10, 10, 10, 10, 11]);
        // It leaps with a stray time, stands for the next, and goes on.
        assert_eq!(clock([0, 1, 1001, 2, 3, 4, 5]), [0, 1, 1001, 1001, 1002, 1003, 1004]);
        assert_eq!(clock([1000, 1001, 3, 1002]), [0, 1, 1, 2]);
        // Parts of seconds add up.
        let mut parts = Clock::new(true, 10);
        (0..=25).for_each(|at| parts.end_request(at * S / 10));
        assert_eq!(parts.now(), 2);
    }
}
