//! Distances against their definition, and curves against one cache of every size.

use lode_reuse::{
    Analyser, Curve, DistanceTally, Distances, DistinctBlocks, Metric, ReuseError, RoStack, WbwoStack,
};
use lode_types::Direction::{self, Read, Write};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;

type Trace = Vec<(Direction, u64)>;

/// The definition, word by word: reference stream, useful accesses, distinct blocks strictly between.
fn defined_distances(metric: Metric, trace: &[(Direction, u64)]) -> Vec<Option<(u32, bool)>> {
    let written_before =
        |at: usize| trace[..at].iter().any(|&(op, block)| op == Write && block == trace[at].1);
    let is_reference = |at: usize| match metric {
        Metric::PodRo | Metric::PodRoIgnoringWrites => trace[at].0 == Read,
        Metric::PodWbwo => trace[at].0 == Write || written_before(at),
        Metric::Trd | Metric::Urd | Metric::PodWb => true,
    };
    let predecessor = |at: usize| trace[..at].iter().rev().find(|&&(_, block)| block == trace[at].1);
    let distance = |at: usize| {
        let previous = (0..at).rev().find(|&p| is_reference(p) && trace[p].1 == trace[at].1)?;
        let between: BTreeSet<u64> =
            (previous + 1..at).filter(|&p| is_reference(p)).map(|p| trace[p].1).collect();
        let useful = match metric {
            Metric::Trd => true,
            Metric::PodRo => predecessor(at).is_some_and(|&(op, _)| op == Read),
            _ => trace[at].0 == Read,
        };
        Some((between.len() as u32, useful))
    };
    (0..trace.len()).map(|at| if is_reference(at) { distance(at) } else { None }).collect()
}

#[derive(Clone, Copy, Debug)]
enum Policy {
    Wb,
    Ro,
    Wbwo,
}

/// Hits, of reads and of all accesses, of one LRU cache of `size` blocks.
fn cache_hits(policy: Policy, size: usize, trace: &[(Direction, u64)]) -> (u64, u64) {
    let mut lru: Vec<u64> = Vec::new();
    let (mut read_hits, mut hits) = (0, 0);
    for &(op, block) in trace {
        let place = lru.iter().position(|&b| b == block);
        if let Some(place) = place {
            lru.remove(place);
            hits += 1;
            read_hits += u64::from(op == Read);
        }
        let keeps = match (policy, op) {
            (Policy::Wb, _) | (Policy::Ro, Read) | (Policy::Wbwo, Write) => true,
            (Policy::Ro, Write) => false,
            (Policy::Wbwo, Read) => place.is_some(),
        };
        if keeps && size > 0 {
            if lru.len() == size {
                lru.remove(0);
            }
            lru.push(block);
        }
    }
    (read_hits, hits)
}

fn ro_depths(trace: &[(Direction, u64)]) -> (Vec<Option<u32>>, DistanceTally) {
    let mut stack = RoStack::new();
    let depths = trace.iter().map(|&(op, block)| stack.access(op, block).expect("few blocks")).collect();
    (depths, stack.tally().clone())
}

fn wbwo_depths(trace: &[(Direction, u64)]) -> (Vec<Option<u32>>, DistanceTally) {
    let mut stack = WbwoStack::new();
    let depths = trace.iter().map(|&(op, block)| stack.access(op, block).expect("few blocks")).collect();
    (depths, stack.tally().clone())
}

fn distances(metric: Metric, trace: &[(Direction, u64)]) -> (Vec<Option<(u32, bool)>>, DistanceTally) {
    let mut analyser = Distances::new(metric);
    let found = trace
        .iter()
        .map(|&(op, block)| analyser.access(op, block).expect("few blocks").map(|r| (r.distance, r.useful)))
        .collect();
    (found, analyser.tally().clone())
}

fn scattered(block: u64) -> u64 {
    block.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn trace(blocks: u64, len: usize) -> impl Strategy<Value = Trace> {
    let access = (any::<bool>(), 0..blocks)
        .prop_map(|(is_read, block)| (if is_read { Read } else { Write }, scattered(block)));
    prop::collection::vec(access, 0..len)
}

/// A long trace with few writes, so that the stacks grow deep and the timeline is compacted many times.
fn long_trace(seed: u64, blocks: u64, len: usize, writes_percent: u64) -> Trace {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    (0..len)
        .map(|_| {
            let op = if next() % 100 < writes_percent { Write } else { Read };
            let range = if next() % 3 == 0 { blocks } else { blocks / 8 + 1 };
            (op, scattered(next() % range))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_metric_follows_its_definition(trace in trace(12, 120)) {
        for metric in Metric::ALL {
            let (found, tally) = distances(metric, &trace);
            let expected = defined_distances(metric, &trace);
            prop_assert_eq!(&found, &expected, "{:?}", metric);
            let useful: Vec<u32> = expected.iter().flatten().filter(|r| r.1).map(|r| r.0).collect();
            prop_assert_eq!(tally.max(), useful.iter().copied().max());
            let total: u64 = tally.histogram().iter().map(|(_, count)| count).sum();
            prop_assert_eq!(total, useful.len() as u64);
            prop_assert_eq!(tally.accesses(), trace.len() as u64);
            prop_assert_eq!(tally.reads(), trace.iter().filter(|a| a.0 == Read).count() as u64);
        }
    }

    #[test]
    fn curves_are_the_hits_of_a_cache_of_every_size(trace in trace(14, 160)) {
        let trd = distances(Metric::Trd, &trace).1.curve();
        let urd = distances(Metric::Urd, &trace).1.curve();
        let ro = ro_depths(&trace).1.curve();
        let wbwo = wbwo_depths(&trace).1.curve();
        for size in 0..17 {
            let (read_hits, hits) = cache_hits(Policy::Wb, size, &trace);
            prop_assert_eq!(trd.hits_at(size as u64), hits, "TRD, {} blocks", size);
            prop_assert_eq!(urd.hits_at(size as u64), read_hits, "URD, {} blocks", size);
            prop_assert_eq!(ro.hits_at(size as u64), cache_hits(Policy::Ro, size, &trace).0, "RO, {} blocks", size);
            let expected = cache_hits(Policy::Wbwo, size, &trace).0;
            prop_assert_eq!(wbwo.hits_at(size as u64), expected, "WBWO, {} blocks", size);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3))]

    #[test]
    fn deep_stacks_and_batches_agree_with_caches(
        seed in any::<u64>(), blocks in 100u64..1500, writes in 0u64..60,
    ) {
        let trace = long_trace(seed, blocks, 30_000, writes);
        let mut trd = Distances::new(Metric::Trd);
        let mut ro = RoStack::new();
        let mut wbwo = WbwoStack::new();
        let mut rest = &trace[..];
        for len in [0, 1, 2, 23, 24, 25, 1000, usize::MAX] {
            let (batch, after) = rest.split_at(len.min(rest.len()));
            trd.access_all(batch).expect("few blocks");
            ro.access_all(batch).expect("few blocks");
            wbwo.access_all(batch).expect("few blocks");
            rest = after;
        }
        for size in [1, 2, 5, blocks / 10, blocks / 3, blocks / 2, blocks - 1, blocks] {
            let hits = |policy| cache_hits(policy, size as usize, &trace);
            prop_assert_eq!(trd.tally().curve().hits_at(size), hits(Policy::Wb).1, "TRD, {} blocks", size);
            prop_assert_eq!(ro.tally().curve().hits_at(size), hits(Policy::Ro).0, "RO, {} blocks", size);
            prop_assert_eq!(wbwo.tally().curve().hits_at(size), hits(Policy::Wbwo).0, "WBWO, {} blocks", size);
        }
        for metric in Metric::ALL {
            let mut batched = Distances::with_capacity(metric, 50);
            batched.access_all(&trace).expect("few blocks");
            prop_assert_eq!(batched.tally().curve(), distances(metric, &trace).1.curve(), "{:?}", metric);
        }
        prop_assert_eq!(ro.tally().curve(), ro_depths(&trace).1.curve());
        prop_assert_eq!(wbwo.tally().curve(), wbwo_depths(&trace).1.curve());
    }

    /// ETICA's demand is enough; of a write-only cache it is the least, too.
    #[test]
    fn the_largest_distance_is_enough(trace in trace(14, 160)) {
        let least = ro_depths(&trace).1.blocks_needed();
        prop_assert!(least <= distances(Metric::PodRo, &trace).1.blocks_needed());
        let least = wbwo_depths(&trace).1.blocks_needed();
        prop_assert_eq!(least, distances(Metric::PodWbwo, &trace).1.blocks_needed());
    }

    #[test]
    fn windows_carry_over(seed in any::<u64>(), metric in 0usize..6) {
        let metric = Metric::ALL[metric];
        let trace = long_trace(seed, 400, 12_000, 30);
        let mut carried = Distances::new(metric);
        let mut sum = 0;
        for window in trace.chunks(1000) {
            carried.access_all(window).expect("few blocks");
            sum += carried.tally().curve().hits_at(u64::MAX);
            carried.clear_tally();
        }
        prop_assert_eq!(sum, distances(metric, &trace).1.curve().hits_at(u64::MAX));
    }
}

/// `[["R", 1], ["W", 2], ...]` as accesses.
fn trace_of(value: &Value) -> Trace {
    let access = |access: &Value| {
        let op = if access[0] == "R" { Read } else { Write };
        (op, access[1].as_u64().expect("a block is a number"))
    };
    value.as_array().expect("a trace is a list").iter().map(access).collect()
}

fn pairs(value: &Value) -> Vec<(usize, u32)> {
    let pair = |p: &Value| (p[0].as_u64().expect("index") as usize, p[1].as_u64().expect("distance") as u32);
    value.as_array().expect("a list of distances").iter().map(pair).collect()
}

fn check_vector(name: &str, expected: &Value, found: Vec<(usize, u32)>, tally: &DistanceTally) {
    let listed = if expected["distances"].is_null() { &expected["depths"] } else { &expected["distances"] };
    assert_eq!(found, pairs(listed), "{name}");
    assert_eq!(tally.max().map(u64::from), expected["max"].as_u64(), "{name}");
    assert_eq!(Some(tally.blocks_needed()), expected["blocks"].as_u64(), "{name}");
}

fn check_curve(name: &str, expected: &Value, curve: &Curve) {
    for (size, hits) in expected.as_array().expect("hits by size").iter().enumerate() {
        assert_eq!(Some(curve.hits_at(size as u64)), hits.as_u64(), "{name} at {size} blocks");
    }
}

#[test]
fn worked_examples_of_the_paper() {
    let vectors = lode_testdata::vectors();
    let examples: Vec<_> = vectors
        .as_object()
        .expect("vectors by name")
        .iter()
        .filter(|(name, _)| {
            name.starts_with("extra_") || ["etica_fig8_wbwo", "etica_fig9_ro"].contains(&&name[..])
        })
        .collect();
    assert_eq!(examples.len(), 7);
    for (name, example) in examples {
        let trace = trace_of(&example["trace"]);
        let expected = &example["expected"];
        let metrics = [
            ("TRD", Metric::Trd),
            ("URD", Metric::Urd),
            ("RO", Metric::PodRo),
            ("WBWO", Metric::PodWbwo),
            ("WB", Metric::PodWb),
        ];
        for (key, metric) in metrics {
            let (found, tally) = distances(metric, &trace);
            let useful =
                found.iter().enumerate().filter_map(|(at, r)| r.filter(|r| r.1).map(|r| (at, r.0))).collect();
            check_vector(&format!("{name} {key}"), &expected[key], useful, &tally);
        }
        let by_size = &expected["read_hits_by_size"];
        check_curve(&format!("{name} WB"), &by_size["WB"], &distances(Metric::PodWb, &trace).1.curve());
        for (key, (found, tally)) in [("RO", ro_depths(&trace)), ("WBWO", wbwo_depths(&trace))] {
            let depths = found.iter().enumerate().filter_map(|(at, d)| d.map(|d| (at, d))).collect();
            check_vector(&format!("{name} {key}_exact"), &expected[format!("{key}_exact")], depths, &tally);
            check_curve(&format!("{name} {key}"), &by_size[key], &tally.curve());
        }
    }
}

/// What the paper prints under its figures 8 and 9, and other readings of the definitions, which do not give that.
#[test]
fn figures_8_and_9_say_what_is_stated() {
    let vectors = lode_testdata::vectors();
    let largest = |metric, trace: &Trace| {
        let tally = distances(metric, trace).1;
        (tally.max().map(u64::from), Some(tally.blocks_needed()))
    };
    for (name, metric, key) in
        [("etica_fig8_wbwo", Metric::PodWbwo, "POD_WBWO"), ("etica_fig9_ro", Metric::PodRo, "POD_RO")]
    {
        let (trace, stated) = (trace_of(&vectors[name]["trace"]), &vectors[name]["stated"]);
        let number = |key: &str| stated[key].as_u64();
        assert_eq!(largest(Metric::Urd, &trace), (number("URD"), number("URD_blocks")), "{name}");
        assert_eq!(largest(metric, &trace), (number(key), number("POD_blocks")), "{name}");
    }
    let other = |name: &str, reading: &str| {
        let other = &vectors[name]["alternatives_that_fail"][reading];
        other.as_u64().unwrap_or_else(|| panic!("{name}: {reading}"))
    };
    // Over the unfiltered stream, which is what WB has, the read of block 4 lies behind blocks that only reads brought.
    let trace = trace_of(&vectors["etica_fig8_wbwo"]["trace"]);
    let distance = |metric| distances(metric, &trace).0[6].map(|(distance, _)| u64::from(distance));
    let key = "POD counted over the unfiltered stream (5 and 1 lie between Req4 and Req7)";
    assert_eq!(distance(Metric::PodWb), Some(other("etica_fig8_wbwo", key)));
    assert_ne!(distance(Metric::PodWbwo), distance(Metric::PodWb));
    // Accesses between the two of block 1, where distinct blocks count.
    let trace = trace_of(&vectors["etica_fig9_ro"]["trace"]);
    let between = trace.iter().rposition(|&(_, block)| block == 1).expect("there") - 1;
    let key = "URD counting accesses instead of distinct blocks";
    assert_eq!(between as u64, other("etica_fig9_ro", key));
    assert_ne!(largest(Metric::Urd, &trace).0, Some(between as u64));
}

#[test]
fn blocks_follow_from_the_largest_distance() {
    let vector = lode_testdata::vector("etica_eq2");
    let (block_size, expected) = (&vector["block_size"], &vector["expected"]);
    let bytes = |trace: &[(Direction, u64)]| {
        Some(distances(Metric::PodWb, trace).1.blocks_needed() * block_size.as_u64().expect("a size"))
    };
    assert_eq!(bytes(&[(Read, 1)]), expected["pod_none"].as_u64());
    let printed = &vector["as_printed"];
    for (key, trace) in
        [("pod_0", &[(Read, 1), (Read, 1)][..]), ("pod_1", &[(Read, 1), (Read, 2), (Read, 1)])]
    {
        assert_eq!(bytes(trace), expected[key].as_u64());
        // Printed is the distance itself times the block, which has no room for the block that is read again.
        let distance = distances(Metric::PodWb, trace).1.max().map(u64::from);
        let size = block_size.as_u64();
        assert_eq!(distance.zip(size).map(|(distance, size)| distance * size), printed[key].as_u64());
    }
}

/// A write makes room in a read-only cache, of which distances know nothing.
#[test]
fn a_read_only_cache_may_need_less_than_the_largest_distance_says() {
    let trace = [(Read, 1), (Read, 2), (Write, 2), (Read, 3), (Read, 1)];
    assert_eq!(distances(Metric::PodRo, &trace).1.blocks_needed(), 3);
    assert_eq!(ro_depths(&trace).1.blocks_needed(), 2);
    assert_eq!((1..4).map(|size| cache_hits(Policy::Ro, size, &trace).0).collect::<Vec<_>>(), [0, 1, 1]);
}

#[test]
fn ignoring_writes_counts_pairs_that_a_write_broke() {
    let trace = [(Read, 1), (Write, 1), (Read, 1)];
    assert_eq!(distances(Metric::PodRo, &trace).1.max(), None);
    assert_eq!(distances(Metric::PodRoIgnoringWrites, &trace).1.max(), Some(0));
}

#[test]
fn an_exact_curve_costs_less_than_64_bytes_a_block() {
    let mut analyser = Distances::new(Metric::Trd);
    let mut batch = Vec::new();
    let mut most: f64 = 0.0;
    for first in (0..400_000u64).step_by(1000) {
        batch.clear();
        // Each batch returns to an old block, so that the histogram is nearly as long as it can be.
        batch.extend((first..first + 1000).chain([first / 1000]).map(|block| (Read, scattered(block))));
        analyser.access_all(&batch).expect("few blocks");
        if first > 20_000 {
            most = most.max(analyser.memory_bytes() as f64 / analyser.distinct_blocks() as f64);
        }
    }
    assert_eq!(analyser.distinct_blocks(), 400_000);
    assert!(most < 45.0, "{most} bytes per distinct block");
}

#[test]
fn errors_say_what_to_do() {
    assert!(ReuseError::TooManyBlocks.to_string().contains("sample"));
}

#[test]
fn few_and_many_are_counted_once_each() {
    for (blocks, first, stride) in
        [(0, 0, 1), (1, 7, 1), (1000, 0, 1), (300_000, 1 << 40, 1), (300_000, 0, 4096)]
    {
        let mut counted = DistinctBlocks::new();
        for at in (0..blocks).chain(0..blocks) {
            counted.add(first + at * stride);
        }
        let most = counted.at_most();
        assert!((blocks..=blocks + blocks / 10 + 1).contains(&most), "{most} for {blocks} of {stride}");
    }
}

#[test]
fn a_curve_has_a_point_for_each_rise() {
    // Distances 4, 0, 4 and 10.
    let reads = [0, 1, 2, 3, 4, 0, 0, 5, 6, 7, 8, 0, 9, 10, 11, 12, 13, 14, 5];
    let trace: Vec<_> = reads.map(|block| (Read, block)).into();
    let (_, tally) = distances(Metric::Trd, &trace);
    let curve = tally.curve();
    let points: Vec<_> = curve.points().iter().map(|point| (point.size_blocks, point.hits)).collect();
    assert_eq!(points, [(1, 1), (5, 3), (11, 4)]);
    let hits: Vec<_> = [0, 1, 4, 5, 10, 11, u64::MAX].map(|size| curve.hits_at(size)).to_vec();
    assert_eq!(hits, [0, 1, 1, 3, 3, 4, 4]);
    assert_eq!(curve.hit_ratio_at(5), 3.0 / 19.0);
    assert_eq!(Curve::default().hit_ratio_at(5), 0.0);
}
