//! What a description says of a trace: sizes, operations, footprint and span.

use std::collections::HashSet;

use lode_trace::limits::MAX_STRAY_TIMES;
use lode_trace::{OnError, SizeInfo, TraceInfo, info};
use lode_types::{BlockSize, Origin, RequestOp, TraceRequest, blocks_of};
use proptest::prelude::*;

use crate::samples::{lode, open};

const READ: TraceRequest = TraceRequest {
    time_ns: 0,
    offset_bytes: 0,
    length_bytes: 4096,
    volume: 0,
    op: RequestOp::Read,
    origin: Origin::UNKNOWN,
};

fn described(bytes: Vec<u8>) -> TraceInfo {
    info(&mut open(bytes, "x", OnError::Stop).expect("a trace")).expect("facts")
}

fn described_requests(requests: &[TraceRequest]) -> TraceInfo {
    described(lode(&["a", "b", "c"].map(str::to_owned), requests))
}

#[test]
fn size_distribution() {
    assert_eq!(described_requests(&[]).sizes, None);
    let requests: Vec<_> = [(4096, 5), (512, 3), (65536, 2)]
        .into_iter()
        .flat_map(|(length_bytes, count)| vec![TraceRequest { length_bytes, ..READ }; count])
        .collect();
    let expected = SizeInfo {
        min_bytes: 512,
        mean_bytes: 15_308.8,
        p50_bytes: 4096,
        p90_bytes: 65536,
        max_bytes: 65536,
        top: vec![(4096, 5), (512, 3), (65536, 2)],
    };
    assert_eq!(described_requests(&requests).sizes, Some(expected));
}

#[test]
fn counts_operations_and_time() {
    let text = "fio version 3 iolog\n5 a read 0 4096\n4 b write 4096 512\n9 a trim 0 65536\n9 a sync 0 0\n9 a read 0 1\n";
    let info = described(text.into());
    let total = &info.total;
    assert_eq!((total.requests, total.reads, total.writes, total.trims, total.flushes), (5, 2, 1, 1, 1));
    assert_eq!((total.read_bytes, total.written_bytes, total.trimmed_bytes), (4097, 512, 65536));
    assert_eq!((total.block_touches, total.distinct_blocks, total.footprint_bytes()), (3, 2, 8192));
    assert_eq!((total.read_share(), total.re_reference_share()), (Some(2.0 / 3.0), Some(1.0 / 3.0)));
    let span = info.span.expect("requests");
    assert_eq!((span.first_ns, span.last_ns, info.backwards), (4000, 9000, 1));
    let of_volumes: Vec<_> = info.volumes.iter().map(|v| (v.name.as_str(), v.requests)).collect();
    assert_eq!(of_volumes, [("a", 4), ("b", 1)]);
}

proptest! {
    #[test]
    fn footprint_matches_a_set_of_blocks(
        ranges in proptest::collection::vec((0u32..3, 0u64..3_000_000, 1u32..1_500_000, any::<bool>()), 1..20),
    ) {
        let request = |&(volume, offset, length_bytes, high): &(u32, u64, u32, bool)| {
            let offset_bytes = if high { u64::MAX - 5_000_000 + offset } else { offset };
            TraceRequest { offset_bytes, length_bytes, volume, ..READ }
        };
        let requests: Vec<_> = ranges.iter().map(request).collect();
        let (mut set, mut touches) = (HashSet::new(), 0);
        for request in &requests {
            for part in blocks_of(BlockSize::KIB_4, request.offset_bytes, request.length_bytes.into()) {
                set.insert((request.volume, part.block));
                touches += 1;
            }
        }
        let info = described_requests(&requests);
        prop_assert_eq!(info.total.distinct_blocks, set.len() as u64);
        prop_assert_eq!(info.total.block_touches, touches);
        for (volume, info) in info.volumes.iter().enumerate() {
            let blocks = set.iter().filter(|(v, _)| *v == volume as u32).count();
            prop_assert_eq!(info.distinct_blocks, blocks as u64);
        }
    }
}

fn of_times(times: impl IntoIterator<Item = u64>) -> TraceInfo {
    let requests: Vec<_> = times.into_iter().map(|time_ns| TraceRequest { time_ns, ..READ }).collect();
    described_requests(&requests)
}

#[test]
fn a_few_bogus_times_are_told_from_the_rest() {
    let usual = 1000..2000_u64;
    let strays = |more: &[u64]| {
        let info = of_times(usual.clone().chain(more.iter().copied())).span.expect("times");
        assert_eq!(info.first_ns, more.iter().copied().min().unwrap_or(1000).min(1000));
        (info.usual_first_ns, info.usual_last_ns, info.stray_requests)
    };
    assert_eq!(strays(&[]), (1000, 1999, 0));
    assert_eq!(strays(&[u64::MAX]), (1000, 1999, 1));
    assert_eq!(strays(&[1_000_000, 500_000, 0]), (0, 1999, 2));
    assert_eq!(strays(&[13_000, 500_000]), (1000, 1999, 2));
    // Not far, or too many to be a slip.
    assert_eq!(strays(&[11_000]), (1000, 11_000, 0));
    assert_eq!(strays(&[u64::MAX; MAX_STRAY_TIMES]), (1000, 1999, MAX_STRAY_TIMES));
    assert_eq!(strays(&[u64::MAX; MAX_STRAY_TIMES + 1]), (1000, u64::MAX, 0));
    let far = of_times((0..100).map(|i| 1_000_000_000_000 + i).chain([0, u64::MAX])).span.expect("times");
    assert_eq!((far.usual_first_ns, far.stray_requests), (1_000_000_000_000, 2));
}

#[test]
fn short_traces_and_single_moments_have_no_strays() {
    assert_eq!(of_times([]).span, None);
    let few = of_times([1, 2, 1_000_000]).span.expect("times");
    assert_eq!((few.usual_last_ns, few.stray_requests), (1_000_000, 0));
    let still = of_times([5; 100].into_iter().chain([9000])).span.expect("times");
    assert_eq!((still.usual_last_ns, still.stray_requests), (9000, 0));
}
