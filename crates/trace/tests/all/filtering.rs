//! Filtering and taking the first requests, against the obvious way in memory.

use lode_trace::{Filter, FilterOptions, Head, Merge, MergeOptions, Moment, OnError, VolumePattern};
use lode_types::{Origin, RequestOp, TraceRequest};
use proptest::prelude::*;

use crate::samples::{lode, open};

const OPS: [RequestOp; 4] = [RequestOp::Read, RequestOp::Write, RequestOp::Trim, RequestOp::Flush];
const NAMES: [&str; 3] = ["hm_0", "hm_1", "src1_0"];

fn named(requests: &[TraceRequest], names: &[String]) -> Vec<(String, TraceRequest)> {
    let named = requests.iter().map(|r| (names[r.volume as usize].clone(), TraceRequest { volume: 0, ..*r }));
    named.collect()
}

fn any_trace() -> impl Strategy<Value = Vec<TraceRequest>> {
    let request = (0u64..60, 0u64..1000, 0u32..3, prop::sample::select(OPS.to_vec()));
    let requests = proptest::collection::vec(request, 0..80);
    requests.prop_map(|mut requests| {
        requests.sort_by_key(|request| request.0);
        let request = |(time_ns, offset_bytes, volume, op)| TraceRequest {
            time_ns: 100 + time_ns,
            offset_bytes,
            length_bytes: 1,
            volume,
            op,
            origin: Origin::UNKNOWN,
        };
        requests.into_iter().map(request).collect()
    })
}

fn any_moment() -> impl Strategy<Value = Option<Moment>> {
    prop_oneof![
        Just(None),
        (0u64..80).prop_map(|ns| Some(Moment::SinceStart(ns))),
        (80u64..180).prop_map(|ns| Some(Moment::OnClock(ns))),
        Just(Some(Moment::SinceStart(u64::MAX))),
    ]
}

fn names() -> Vec<String> {
    NAMES.map(str::to_owned).to_vec()
}

proptest! {
    #[test]
    fn filtering_matches_choosing_in_memory(
        traces in proptest::collection::vec(any_trace(), 1..4),
        from in any_moment(),
        until in any_moment(),
        // A pattern and the volumes that it stands for.
        pattern in prop::sample::select(vec![("", 7), ("hm_*", 3), ("src1_0", 4), ("?m_1", 2), ("hm_[0-9]", 3), ("x*", 0)]),
        ops in proptest::sample::subsequence(OPS.to_vec(), 0..=4),
    ) {
        let readers = traces.iter().map(|trace| open(lode(&names(), trace), "x", OnError::Stop).expect("a trace"));
        let mut merge = Merge::new(readers.collect(), MergeOptions::default()).expect("good traces");
        let volumes: Vec<VolumePattern> =
            Some(pattern.0).filter(|text| !text.is_empty()).iter().map(|text| text.parse().expect("a pattern")).collect();
        let mut filter = Filter::new(FilterOptions { from, until, volumes, ops: ops.clone() });
        let (mut batch, mut out, mut passed) = (Vec::new(), Vec::new(), Vec::new());
        while merge.next_batch(&mut batch).expect("good traces") > 0 {
            filter.pass(&merge, &batch, &mut out).expect("few volumes");
            passed.extend(named(&out, filter.volumes()));
        }

        let mut all: Vec<_> = traces.iter().flatten().copied().collect();
        all.sort_by_key(|request| request.time_ns);
        let start_ns = all.first().map_or(0, |request| request.time_ns);
        let count = all.len() as u64;
        let any_match = pattern.0.is_empty() || all.iter().any(|request| pattern.1 >> request.volume & 1 == 1);
        let on_clock = |moment: Moment| match moment {
            Moment::SinceStart(ns) => u128::from(start_ns) + u128::from(ns),
            Moment::OnClock(ns) => u128::from(ns),
        };
        all.retain(|r| {
            from.is_none_or(|from| u128::from(r.time_ns) >= on_clock(from))
                && until.is_none_or(|until| u128::from(r.time_ns) < on_clock(until))
                && pattern.1 >> r.volume & 1 == 1
                && (ops.is_empty() || ops.contains(&r.op))
        });
        let facts = filter.facts();
        prop_assert_eq!(facts.kept, all.len() as u64);
        prop_assert_eq!(facts.kept + facts.other_volumes + facts.other_ops + facts.other_times, count);
        prop_assert_eq!(passed, named(&all, &names()));
        prop_assert_eq!(filter.unmatched().count(), usize::from(!any_match));
    }

    #[test]
    fn the_head_is_the_first_requests(trace in any_trace(), count in 0u64..100) {
        let mut reader = open(lode(&names(), &trace), "x", OnError::Stop).expect("a trace");
        let mut head = Head::new(count);
        let (mut batch, mut passed) = (Vec::new(), Vec::new());
        while head.left() > 0 && reader.next_batch(&mut batch).expect("a good trace") > 0 {
            head.pass(&reader, &mut batch).expect("few volumes");
            passed.extend(named(&batch, head.volumes()));
        }
        let expected = &trace[..trace.len().min(count as usize)];
        prop_assert_eq!(head.left(), count - expected.len() as u64);
        prop_assert_eq!(passed, named(expected, &names()));
        let unused = head.volumes().iter().filter(|name| !expected.iter().any(|r| NAMES[r.volume as usize] == **name));
        prop_assert_eq!(unused.count(), 0);
    }
}

#[test]
fn patterns_that_are_none_are_refused() {
    for text in ["[a", "a***b"] {
        let error = text.parse::<VolumePattern>().expect_err(text);
        assert!(error.contains(text) && error.contains("character"), "{error}");
    }
}

#[test]
fn volumes_of_one_name_become_one_and_are_told() {
    let request = |time_ns| TraceRequest {
        time_ns,
        offset_bytes: 0,
        length_bytes: 1,
        volume: 0,
        op: RequestOp::Read,
        origin: Origin::UNKNOWN,
    };
    let reader = |name: &str, time_ns| {
        open(lode(&[name.to_owned()], &[request(time_ns)]), "x", OnError::Stop).expect("a trace")
    };
    let readers = vec![reader("a", 1), reader("b", 2), reader("a", 3)];
    let mut merge = Merge::new(readers, MergeOptions::default()).expect("good traces");
    let mut filter = Filter::new(FilterOptions::default());
    let (mut batch, mut out) = (Vec::new(), Vec::new());
    merge.next_batch(&mut batch).expect("good traces");
    filter.pass(&merge, &batch, &mut out).expect("few volumes");
    assert_eq!(out.iter().map(|request| request.volume).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!(filter.volumes(), ["a", "b"]);
    assert_eq!(filter.shared_volumes().collect::<Vec<_>>(), ["a"]);
}
