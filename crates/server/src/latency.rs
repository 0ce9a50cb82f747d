//! How long requests took, by kind and by where they were served.

use hdrhistogram::Histogram;
use lode_engine::Served;
use serde::Serialize;

/// Times are kept in nanoseconds with two significant digits up to this; longer ones count as this.
const MAX_NS: u64 = 3_600_000_000_000;

/// Histograms of one VM's requests.
#[derive(Debug)]
pub(crate) struct Latencies {
    read: [Histogram<u64>; 4],
    write: Histogram<u64>,
    flush: Histogram<u64>,
}

/// Percentiles of one kind of request, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LatencyView {
    count: u64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

/// Reads by where the slowest of their blocks came from.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ReadLatencies {
    dram: LatencyView,
    read_ssd: LatencyView,
    ssd: LatencyView,
    backing: LatencyView,
}

/// All of one VM's latencies.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LatenciesView {
    read: ReadLatencies,
    write: LatencyView,
    flush: LatencyView,
}

impl Latencies {
    pub(crate) fn new() -> Latencies {
        let new = || Histogram::new_with_bounds(1, MAX_NS, 2).expect("the bounds are valid");
        Latencies { read: [new(), new(), new(), new()], write: new(), flush: new() }
    }

    pub(crate) fn read(&mut self, served: Served, ns: u64) {
        self.read[served as usize].saturating_record(ns);
    }

    pub(crate) fn write(&mut self, ns: u64) {
        self.write.saturating_record(ns);
    }

    pub(crate) fn flush(&mut self, ns: u64) {
        self.flush.saturating_record(ns);
    }

    pub(crate) fn view(&self) -> LatenciesView {
        let all = [Served::Dram, Served::ReadSsd, Served::Ssd, Served::Backing];
        let [dram, read_ssd, ssd, backing] = all.map(|served| view(&self.read[served as usize]));
        LatenciesView {
            read: ReadLatencies { dram, read_ssd, ssd, backing },
            write: view(&self.write),
            flush: view(&self.flush),
        }
    }
}

fn view(histogram: &Histogram<u64>) -> LatencyView {
    let us = |ns: u64| ns as f64 / 1000.0;
    LatencyView {
        count: histogram.len(),
        p50_us: us(histogram.value_at_quantile(0.5)),
        p99_us: us(histogram.value_at_quantile(0.99)),
        max_us: us(histogram.max()),
    }
}
