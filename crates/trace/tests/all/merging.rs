//! Merging against sorting, names of VMs, warnings.

use lode_trace::{
    Align, ErrorKind, Merge, MergeOptions, MergeWarning, OnError, ReadOptions, Reader, TraceError, VmBy,
    read_trace, vm_block,
};
use lode_types::TraceRequest;
use proptest::prelude::*;

use crate::samples::{lode, open, requests};

fn reader(name: &str, volumes: &[&str], requests: &[TraceRequest]) -> Reader {
    let volumes: Vec<_> = volumes.iter().map(|name| (*name).to_owned()).collect();
    open(lode(&volumes, requests), name, OnError::Stop).expect("the format")
}

fn drain(merge: &mut Merge) -> (Vec<(u32, TraceRequest)>, Option<TraceError>) {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        match merge.next_batch(&mut batch) {
            Ok(0) => return (all, None),
            Ok(count) => {
                assert_eq!(count, batch.len());
                all.extend_from_slice(&batch);
            }
            Err(error) => return (all, Some(error)),
        }
    }
}

/// Requests at these times, each told apart by its offset.
fn at_times(times: &[u64], volume: u32) -> Vec<TraceRequest> {
    let base = requests(1)[0];
    let numbered = times.iter().enumerate();
    numbered
        .map(|(i, &time_ns)| TraceRequest { time_ns, offset_bytes: i as u64 * 512, volume, ..base })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn merging_is_a_stable_sort(
        lanes in proptest::collection::vec(proptest::collection::vec(0u64..500, 0..6000), 0..5),
        start: bool,
    ) {
        let mut expected = Vec::new();
        let mut readers = Vec::new();
        for (index, mut times) in lanes.into_iter().enumerate() {
            times.sort_unstable();
            let requests = at_times(&times, 0);
            readers.push(reader("x", &[&format!("v{index}")], &requests));
            let origin = if start { times.first().copied().unwrap_or(0) } else { 0 };
            expected.extend(requests.into_iter().map(|r| (index, TraceRequest { time_ns: r.time_ns - origin, ..r })));
        }
        expected.sort_by_key(|(_, request)| request.time_ns);
        let align = if start { Align::Start } else { Align::Absolute };
        let mut merge = Merge::new(readers, MergeOptions { align, vm_by: VmBy::Volume }).expect("good traces");
        let (merged, error) = drain(&mut merge);
        prop_assert!(error.is_none());
        let inputs: Vec<_> = merge.vms().iter().map(|vm| vm.input).collect();
        let merged: Vec<_> = merged.into_iter().map(|(vm, request)| (inputs[vm as usize], request)).collect();
        prop_assert_eq!(merged, expected);
    }
}

/// The obvious way: again and again the lane whose next request is due, which is when it or one after it in its
/// trace (here within one batch) is.
fn merged_slowly(lanes: &[Vec<u64>]) -> Vec<(usize, u64)> {
    let mut next = vec![0; lanes.len()];
    let mut merged = Vec::new();
    while let Some((_, lane)) = (0..lanes.len())
        .filter_map(|lane| lanes[lane][next[lane]..].iter().min().map(|&due_ns| (due_ns, lane)))
        .min()
    {
        merged.push((lane, lanes[lane][next[lane]]));
        next[lane] += 1;
    }
    merged
}

proptest! {
    #[test]
    fn times_that_go_backwards_hold_nobody_up(
        lanes in proptest::collection::vec(proptest::collection::vec(prop_oneof![0u64..500, Just(u64::MAX)], 0..60), 0..5),
    ) {
        let name = |index: usize| format!("v{index}");
        let reader_of = |(index, times): (usize, &Vec<u64>)| reader("x", &[&name(index)], &at_times(times, 0));
        let readers = lanes.iter().enumerate().map(reader_of).collect();
        let mut merge = Merge::new(readers, MergeOptions::default()).expect("good traces");
        let (merged, error) = drain(&mut merge);
        prop_assert!(error.is_none());
        let inputs: Vec<_> = merge.vms().iter().map(|vm| vm.input).collect();
        let merged: Vec<_> = merged.iter().map(|(vm, request)| (inputs[*vm as usize], request.time_ns)).collect();
        prop_assert_eq!(merged, merged_slowly(&lanes));
    }
}

#[test]
fn volumes_become_vms_with_unique_names() {
    let mut a = at_times(&[1, 3], 0);
    a[1].volume = 1;
    let b = at_times(&[2, 4], 0);
    let csv = "version,time,op,size,lbn\n1,0,28,512,0\n";
    let nameless = || open(csv.into(), "dir/b.csv.gz", OnError::Stop).expect("csv");
    let readers = || {
        vec![reader("a.lode", &["hm_0", "hm_1"], &a), reader("b.lode", &["hm_0"], &b), nameless(), nameless()]
    };
    let by_volume = MergeOptions::default();
    let mut merge = Merge::new(readers(), by_volume).expect("good traces");
    let (merged, _) = drain(&mut merge);
    let names: Vec<_> = merge.vms().iter().map(|vm| (vm.name.as_str(), vm.input, vm.volume)).collect();
    let expected = [
        ("b", 2, Some(0)),
        ("b#2", 3, Some(0)),
        ("a:hm_0", 0, Some(0)),
        ("b:hm_0", 1, Some(0)),
        ("a:hm_1", 0, Some(1)),
    ];
    assert_eq!(names, expected);
    assert_eq!(
        merged.iter().map(|(vm, r)| (*vm, r.volume)).collect::<Vec<_>>(),
        [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (3, 0)]
    );

    let by_file = MergeOptions { vm_by: VmBy::File, ..by_volume };
    let mut merge = Merge::new(readers(), by_file).expect("good traces");
    let (merged, _) = drain(&mut merge);
    let names: Vec<_> = merge.vms().iter().map(|vm| (vm.name.as_str(), vm.volume)).collect();
    assert_eq!(names, [("b", None), ("b#2", None), ("a", None), ("b#3", None)]);
    assert_eq!(
        merged.iter().map(|(vm, r)| (*vm, r.volume)).collect::<Vec<_>>(),
        [(0, 0), (1, 0), (2, 0), (3, 0), (2, 1), (3, 0)]
    );
    assert_eq!(merge.readers().len(), 4);
}

#[test]
fn spans_apart_are_warned_of() {
    let lanes = |times: &[&[u64]]| {
        times.iter().map(|times| reader("x", &["v"], &at_times(times, 0))).collect::<Vec<_>>()
    };
    let warnings = |times: &[&[u64]], align| {
        let mut merge = Merge::new(lanes(times), MergeOptions { align, vm_by: VmBy::Volume }).expect("good");
        drain(&mut merge);
        merge.warnings()
    };
    let apart = MergeWarning::NoOverlap { inputs: vec![0, 1] };
    assert_eq!(warnings(&[&[5, 9], &[1, 4]], Align::Absolute), [apart]);
    assert_eq!(warnings(&[&[5, 9], &[1, 5], &[]], Align::Absolute), []);
    assert_eq!(warnings(&[&[5, 9]], Align::Absolute), []);
    assert_eq!(warnings(&[&[5, 9], &[1, 4]], Align::Start), []);
    let before = MergeWarning::BeforeStart { requests: 2 };
    assert_eq!(warnings(&[&[5, 3, 4, 6]], Align::Start), [before]);
}

#[test]
fn traces_without_times_are_warned_of_among_others() {
    let lis = || read_trace(&b"3 1 0 0\n"[..], "a.lis", &ReadOptions::default()).expect("a trace");
    let late = || reader("x", &["v"], &at_times(&[50_000, 90_000], 0));
    for (readers, has_times, expected) in [
        (vec![lis()], false, vec![]),
        (vec![late(), lis()], false, vec![MergeWarning::NoTimes { inputs: vec![1] }]),
        (vec![late(), late()], true, vec![]),
    ] {
        let mut merge = Merge::new(readers, MergeOptions::default()).expect("good");
        drain(&mut merge);
        // What was made up overlaps with nothing that could be told.
        assert_eq!((merge.has_times(), merge.warnings()), (has_times, expected));
    }
}

#[test]
fn an_error_comes_after_what_precedes_it() {
    let good = at_times(&(0..5000).collect::<Vec<_>>(), 0);
    let mut bytes = lode(&["a".to_owned()], &good);
    bytes.truncate(bytes.len() - 32);
    let damaged = open(bytes, "damaged", OnError::Stop).expect("a good start");
    let mut merge =
        Merge::new(vec![damaged, reader("x", &["b"], &good)], MergeOptions::default()).expect("good");
    let (merged, error) = drain(&mut merge);
    assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Truncated));
    assert_eq!(merged.iter().filter(|(vm, _)| *vm == 0).count(), 5000);
    assert_eq!(merge.next_batch(&mut Vec::new()).ok(), Some(0));
}

#[test]
fn a_vm_of_a_file_has_a_limit_of_volumes() {
    let names: Vec<_> = (0..4097).map(|i| format!("v{i}")).collect();
    let all: Vec<_> = (0..4097).map(|volume| TraceRequest { volume, ..requests(1)[0] }).collect();
    for (vm_by, kind) in [(VmBy::Volume, None), (VmBy::File, Some(ErrorKind::Limit))] {
        let reader = open(lode(&names, &all), "x", OnError::Stop).expect("the format");
        let options = MergeOptions { vm_by, ..MergeOptions::default() };
        let (merged, error) = drain(&mut Merge::new(vec![reader], options).expect("good"));
        assert_eq!(error.map(|error| error.kind()), kind);
        assert_eq!(merged.len(), if kind.is_some() { 4096 } else { 4097 });
    }
}

#[test]
fn block_numbers_keep_volumes_apart() {
    assert_eq!(vm_block(0, 7), Some(7));
    assert_eq!(vm_block(1, 0), Some(1 << 52));
    assert_eq!(vm_block(4095, (1 << 52) - 1), Some(u64::MAX));
    assert_eq!(vm_block(4096, 0), None);
    assert_eq!(vm_block(0, 1 << 52), None);
}
