//! How long requests took, by kind and by where they were served, and all of them by what they waited for longest.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use lode_engine::Served;
use serde::Serialize;

use crate::waited::{CAUSE_NAMES, CAUSES, Took};

/// Times are kept in nanoseconds with two significant digits up to this; longer ones count as this.
const MAX_NS: u64 = 3_600_000_000_000;

/// By what they waited for they are kept with one digit, and not finer than this.
const FINEST_WAIT_NS: u64 = 1000;

/// Longest times, in microseconds, of the buckets in which requests are counted. A last bucket has all that took longer.
pub const LATENCY_BOUNDS_US: [f64; 20] = [
    2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1e3, 2.5e3, 5e3, 10e3, 25e3, 50e3, 100e3, 250e3, 500e3,
    1e6, 2.5e6, 10e6,
];

/// The same in nanoseconds.
const BOUNDS_NS: [u64; LATENCY_BOUNDS_US.len()] = {
    let (mut bounds, mut i) = ([0; LATENCY_BOUNDS_US.len()], 0);
    while i < bounds.len() {
        bounds[i] = (LATENCY_BOUNDS_US[i] * 1000.0) as u64;
        i += 1;
    }
    bounds
};

type Buckets = [u64; BOUNDS_NS.len() + 1];

/// Times of one kind of request.
#[derive(Debug)]
struct Times {
    histogram: Histogram<u64>,
    /// Beside the histogram, because to sum that up takes a walk through thousands of counts.
    buckets: Buckets,
    sum_ns: u64,
}

/// Times of one VM's requests.
#[derive(Debug)]
pub(crate) struct Latencies {
    read: [Times; 4],
    write: Times,
    flush: Times,
    /// All of them, by [`CAUSE_NAMES`]; none where there was none.
    waited_for: [Option<Box<Times>>; CAUSES],
}

/// One kind of request, with percentiles in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LatencyView {
    pub count: u64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    pub sum_us: f64,
    /// Requests in each bucket of [`LATENCY_BOUNDS_US`], and longer ones.
    pub buckets: Buckets,
}

/// Reads by where the slowest of their blocks came from.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ReadLatencies {
    pub dram: LatencyView,
    pub read_ssd: LatencyView,
    pub ssd: LatencyView,
    pub backing: LatencyView,
}

/// All of one VM's latencies.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LatenciesView {
    pub read: ReadLatencies,
    pub write: LatencyView,
    pub flush: LatencyView,
    /// By name, what at least one request waited for longest.
    pub waited_for: BTreeMap<&'static str, LatencyView>,
}

impl Times {
    fn new() -> Times {
        Times::with(1, 2)
    }

    fn with(finest_ns: u64, digits: u8) -> Times {
        let histogram = Histogram::new_with_bounds(finest_ns, MAX_NS, digits).expect("the bounds are valid");
        Times { histogram, buckets: [0; BOUNDS_NS.len() + 1], sum_ns: 0 }
    }

    fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        self.buckets[BOUNDS_NS.partition_point(|bound| *bound < ns)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    fn view(&self) -> LatencyView {
        let us = |ns: u64| ns as f64 / 1000.0;
        let count = self.histogram.len();
        // A walk that would find nothing, for each of a host's VMs that are idle.
        let quantile = |q| if count == 0 { 0 } else { self.histogram.value_at_quantile(q) };
        LatencyView {
            count,
            p50_us: us(quantile(0.5)),
            p99_us: us(quantile(0.99)),
            max_us: us(self.histogram.max()),
            sum_us: us(self.sum_ns),
            buckets: self.buckets,
        }
    }
}

impl Latencies {
    pub(crate) fn new() -> Latencies {
        let read = std::array::from_fn(|_| Times::new());
        let waited_for = std::array::from_fn(|_| None);
        Latencies { read, write: Times::new(), flush: Times::new(), waited_for }
    }

    /// Notes what a read, write or flush waited for.
    pub(crate) fn waited(&mut self, took: &Took) {
        let times = &mut self.waited_for[took.longest()];
        times.get_or_insert_with(|| Box::new(Times::with(FINEST_WAIT_NS, 1))).record(took.all_ns);
    }

    pub(crate) fn read(&mut self, served: Served, ns: u64) {
        self.read[served as usize].record(ns);
    }

    pub(crate) fn write(&mut self, ns: u64) {
        self.write.record(ns);
    }

    pub(crate) fn flush(&mut self, ns: u64) {
        self.flush.record(ns);
    }

    pub(crate) fn view(&self) -> LatenciesView {
        let all = [Served::Dram, Served::ReadSsd, Served::Ssd, Served::Backing];
        let [dram, read_ssd, ssd, backing] = all.map(|served| self.read[served as usize].view());
        LatenciesView {
            read: ReadLatencies { dram, read_ssd, ssd, backing },
            write: self.write.view(),
            flush: self.flush.view(),
            waited_for: std::iter::zip(CAUSE_NAMES, &self.waited_for)
                .filter_map(|((name, _), times)| Some((name, times.as_ref()?.view())))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_in_the_first_bucket_that_takes_it() {
        let mut times = Times::new();
        for ns in [0, 2_500, 2_501, 10_000_000_000, 10_000_000_001, u64::MAX] {
            times.record(ns);
        }
        let view = times.view();
        assert_eq!((view.buckets[0], view.buckets[1], view.buckets[19], view.buckets[20]), (2, 1, 1, 2));
        assert_eq!(view.buckets.iter().sum::<u64>(), view.count);
        let idle = Times::new().view();
        assert_eq!((idle.count, idle.p99_us, idle.sum_us), (0, 0.0, 0.0));
    }

    #[test]
    fn a_request_counts_once_by_what_it_waited_for_longest() {
        let mut latencies = Latencies::new();
        assert!(latencies.view().waited_for.is_empty());
        let waits = Default::default();
        for (all_ns, arrival_ns) in [(100_000, 0), (100_000, 40_000), (9_000_000, 8_000_000)] {
            latencies.waited(&Took { all_ns, arrival_ns, waits });
        }
        let view = latencies.view().waited_for;
        let counts: Vec<_> = view.iter().map(|(name, times)| (*name, times.count)).collect();
        assert_eq!(counts, [("client", 1), ("daemon", 2)]);
        assert!((8_400.0..9_600.0).contains(&view["client"].p99_us), "{:?}", view["client"]);
        assert_eq!(view["daemon"].sum_us, 200.0);
    }

    /// What `docs/performance.md` says of it.
    #[test]
    fn times_of_a_wait_take_little_memory() {
        let times = Times::with(FINEST_WAIT_NS, 1);
        let bytes = times.histogram.distinct_values() * size_of::<u64>() + size_of::<Times>();
        assert!(bytes <= 4352, "{bytes} B");
    }
}
