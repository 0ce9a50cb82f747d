//! Requests or time that pass, and what is due every so often. It must not know what is due.

/// Settings say the words; this counts.
#[derive(Debug)]
pub(crate) struct Interval {
    by_time: bool,
    most_requests: u64,
    length_ns: u64,
    requests: u64,
    start_ns: Option<u64>,
}

impl Interval {
    /// Intervals of `most_requests`, or `by_time` of `length_s` seconds on the clock of whoever says what time it is.
    pub(crate) fn new(by_time: bool, most_requests: u64, length_s: f64) -> Interval {
        let length_ns = (length_s * 1e9) as u64;
        Interval { by_time, most_requests, length_ns, requests: 0, start_ns: None }
    }

    /// Notes one request. Whether the interval ends with it; the next one then begins.
    #[inline(always)]
    pub(crate) fn ends_with(&mut self, now_ns: u64) -> bool {
        self.requests += 1;
        let ends = if self.by_time {
            let start = *self.start_ns.get_or_insert(now_ns);
            now_ns.saturating_sub(start) >= self.length_ns
        } else {
            self.requests >= self.most_requests
        };
        if ends {
            self.requests = 0;
            self.start_ns = Some(now_ns);
        }
        ends
    }
}

/// Counts requests, or seconds from the end of the first one, modulo 2^32.
#[derive(Debug)]
pub(crate) struct Clock {
    by_time: bool,
    start_ns: Option<u64>,
    now: u32,
}

impl Clock {
    const NS_PER_S: u64 = 1_000_000_000;

    pub(crate) fn new(by_time: bool) -> Clock {
        Clock { by_time, start_ns: None, now: 0 }
    }

    /// A request ends. A clock that runs backwards stands still.
    #[inline(always)]
    pub(crate) fn end_request(&mut self, now_ns: u64) {
        if self.by_time {
            let start = *self.start_ns.get_or_insert(now_ns);
            self.now = self.now.max((now_ns.saturating_sub(start) / Clock::NS_PER_S) as u32);
        } else {
            self.now = self.now.wrapping_add(1);
        }
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> u32 {
        self.now
    }
}
