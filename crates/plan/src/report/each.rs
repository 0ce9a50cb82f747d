//! One comparison after the other, of the same schemes over the same sizes, each of a trace by itself; and what they have in common,
//! as papers print it: each trace counts the same. It must not know how the traces were read.

use serde::Serialize;

use super::{CellReport, CompareReport, Spread};

/// Comparisons of several traces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EachReport {
    /// The schemes, as they were asked for.
    pub schemes: Vec<String>,
    /// Which of them the others are measured against, if one was named.
    pub baseline: Option<String>,
    /// The sizes, as they were asked for.
    pub sizes: Vec<String>,
    /// Every scheme with every size over all traces, scheme by scheme.
    pub over_traces: Vec<OverTraces>,
    /// The traces, each with its own comparison.
    pub traces: Vec<TraceComparison>,
}

/// One trace's comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceComparison {
    /// The trace.
    pub trace: String,
    /// All of it.
    pub comparison: CompareReport,
}

/// One scheme with one size over traces. What a trace has no value of is left out of that value's spread; none where no
/// trace has one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverTraces {
    /// Index of the scheme.
    pub scheme: usize,
    /// Index of the size.
    pub size: usize,
    /// Share of the block accesses that a level serves.
    pub hit_ratio: Option<Spread>,
    /// Share of the block reads that a level serves.
    pub read_hit_ratio: Option<Spread>,
    /// Mean time of a request.
    pub mean_latency_us: Option<Spread>,
    /// Blocks written to both SSDs for each block that guests wrote.
    pub cwf: Option<Spread>,
    /// Part of the baseline's misses that are hits here.
    pub miss_ratio_reduction: Option<Spread>,
    /// Part of the baseline's mean time of a request that is saved.
    pub latency_reduction: Option<Spread>,
}

impl EachReport {
    /// Of comparisons of the same schemes and as many sizes, which were asked for in these words.
    pub fn new(sizes: Vec<String>, traces: Vec<TraceComparison>) -> EachReport {
        let first = traces.first().map(|one| &one.comparison);
        let schemes =
            first.map_or_else(Vec::new, |one| one.schemes.iter().map(|one| one.label.clone()).collect());
        let baseline = first.and_then(|one| one.baseline.clone());
        let pairs = (0..schemes.len()).flat_map(|scheme| (0..sizes.len()).map(move |size| (scheme, size)));
        let over_traces = pairs.map(|(scheme, size)| OverTraces::of(&traces, scheme, size)).collect();
        EachReport { schemes, baseline, sizes, over_traces, traces }
    }
}

impl OverTraces {
    fn of(traces: &[TraceComparison], scheme: usize, size: usize) -> OverTraces {
        let cells = || {
            let all = traces.iter().flat_map(|one| &one.comparison.cells);
            all.filter(move |cell| (cell.scheme, cell.size) == (scheme, size))
        };
        let spread = |value: fn(&CellReport) -> Option<f64>| Spread::of(cells().filter_map(value).collect());
        OverTraces {
            scheme,
            size,
            hit_ratio: spread(|cell| cell.hit_ratio),
            read_hit_ratio: spread(|cell| cell.read_hit_ratio),
            mean_latency_us: spread(|cell| cell.mean_latency_us),
            cwf: spread(|cell| cell.cwf),
            miss_ratio_reduction: spread(|cell| cell.against.as_ref()?.miss_ratio_reduction),
            latency_reduction: spread(|cell| cell.against.as_ref()?.latency_reduction),
        }
    }
}
