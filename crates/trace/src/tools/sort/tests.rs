//! Sorting against the standard library's, with so little memory that everything is merged several times.

use std::io::Cursor;

use lode_types::{Origin, RequestOp};
use proptest::prelude::*;

use super::*;
use crate::compact::CompactWriter;
use crate::reader::{OnError, ReadOptions, read_trace};

type Input = (Vec<String>, Vec<TraceRequest>);

fn reader((volumes, requests): &Input) -> Reader {
    let mut writer = CompactWriter::new(Vec::new(), "memory").expect("memory");
    writer.write(volumes, requests).expect("good requests");
    let bytes = writer.finish().expect("memory");
    let options = ReadOptions { on_error: OnError::Stop, ..ReadOptions::default() };
    read_trace(Cursor::new(bytes), "memory.lode", &options).expect("a trace")
}

/// The number in `offset_bytes` tells requests apart.
fn request(number: usize, time_ns: u64, volume: u32) -> TraceRequest {
    TraceRequest {
        time_ns,
        offset_bytes: number as u64 * 512,
        length_bytes: 512,
        volume,
        op: RequestOp::Write,
        origin: Origin::UNKNOWN,
    }
}

fn drain(mut sorted: Sorted) -> Vec<TraceRequest> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while sorted.next_batch(&mut batch).expect("the temporary file") > 0 {
        assert!(batch.len() <= BATCH_REQUESTS);
        all.extend_from_slice(&batch);
    }
    assert_eq!(sorted.progress().done, sorted.progress().total);
    assert_eq!(sorted.requests(), all.len() as u64);
    all
}

fn sorted(by: SortBy, inputs: &[Input], limits: Limits) -> Sorted {
    let folder = tempfile::tempdir().expect("a folder");
    let mut sorter = Sorter::with_limits(by, folder.path(), limits);
    for input in inputs {
        sorter.read(&mut reader(input), |_| {}).expect("good requests");
    }
    let (mut last, mut total) = (0, None);
    let sorted = sorter.finish(|progress| {
        assert!(progress.done > last && progress.done <= progress.total);
        assert!(total.is_none_or(|total| total == progress.total));
        (last, total) = (progress.done, Some(progress.total));
    });
    // Nothing that a crash could leave behind has a name.
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
    sorted.expect("the temporary file")
}

/// Names in order of appearance, and all requests numbered by them, in the order of the inputs.
fn joined(inputs: &[Input]) -> Input {
    let (mut names, mut all) = (Vec::<String>::new(), Vec::new());
    for (volumes, requests) in inputs {
        for name in volumes {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let number = |volume: u32| names.iter().position(|name| *name == volumes[volume as usize]);
        let renumbered =
            requests.iter().map(|r| TraceRequest { volume: number(r.volume).expect("a name") as u32, ..*r });
        all.extend(renumbered);
    }
    (names, all)
}

/// One to three traces whose volumes overlap.
fn any_inputs() -> impl Strategy<Value = Vec<Input>> {
    let time = prop_oneof![0u64..20, 0u64..20, any::<u64>(), Just(u64::MAX)];
    let requests = proptest::collection::vec((time, 0u32..3), 0..300);
    proptest::collection::vec((0usize..3, requests), 1..4).prop_map(|inputs| {
        let input = |(first, requests): (usize, Vec<(u64, u32)>)| {
            let names = (first..first + 3).map(|name| format!("v{name}")).collect();
            (
                names,
                requests
                    .into_iter()
                    .enumerate()
                    .map(|(i, (time, volume))| request(i, time, volume))
                    .collect(),
            )
        };
        inputs.into_iter().map(input).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn it_is_a_stable_sort_of_the_inputs_one_after_the_other(
        inputs in any_inputs(),
        run_requests in 1usize..40,
        fan_in in 2usize..6,
        volume: bool,
    ) {
        let by = if volume { SortBy::Volume } else { SortBy::Time };
        let (names, mut expected) = joined(&inputs);
        let counts: Vec<_> = (0..names.len() as u32)
            .map(|volume| expected.iter().filter(|request| request.volume == volume).count() as u64)
            .collect();
        expected.sort_by_key(|request| by.key(request));
        let sorted = sorted(by, &inputs, Limits { run_requests, fan_in });
        prop_assert_eq!(sorted.volumes(), names);
        prop_assert_eq!(sorted.volume_requests(), counts);
        prop_assert_eq!(drain(sorted), expected);
    }
}

fn one_volume(times: impl Iterator<Item = u64>) -> Input {
    (vec!["a".to_owned()], times.enumerate().map(|(i, time)| request(i, time, 0)).collect())
}

#[test]
fn more_runs_than_are_merged_at_once_take_more_passes() {
    // Backwards, so that every ten requests are a run.
    let input = one_volume((0..10_000).rev());
    let sorted = sorted(SortBy::Time, std::slice::from_ref(&input), Limits { run_requests: 10, fan_in: 7 });
    assert_eq!(sorted.runs(), 1000);
    // 1000, 143, 21 and 3 runs: three passes before the last.
    assert_eq!((sorted.progress().done, sorted.progress().total), (30_000, 40_000));
    assert!(sorted.temporary_bytes() > 0);
    let mut expected = input.1;
    expected.reverse();
    assert_eq!(drain(sorted), expected);
}

#[test]
fn what_is_sorted_already_is_one_run() {
    let input = one_volume((0..10_000).map(|i| i / 3));
    let sorted = sorted(SortBy::Time, std::slice::from_ref(&input), Limits { run_requests: 10, fan_in: 2 });
    assert_eq!((sorted.runs(), sorted.progress().total), (1, 10_000));
    assert_eq!(drain(sorted), input.1);
}

#[test]
fn nothing_one_and_equals_are_sorted() {
    for count in [0, 1, 9, 10, 11, 20, 5000] {
        let input = one_volume(std::iter::repeat_n(7, count));
        for fan_in in [2, 50] {
            let sorted =
                sorted(SortBy::Time, std::slice::from_ref(&input), Limits { run_requests: 10, fan_in });
            assert_eq!(sorted.volumes(), ["a"]);
            assert_eq!(drain(sorted), input.1);
        }
    }
}

#[test]
fn memory_has_a_least_and_decides_how_much_is_sorted_at_once() {
    let folder = std::env::temp_dir();
    let limits = |bytes| Sorter::new(SortBy::Time, &folder, bytes).map(|sorter| sorter.limits);
    let least = limits(MIN_SORT_MEMORY_BYTES).expect("the least");
    assert!(least.fan_in >= 4 && least.run_requests * 64 <= 1 << 20, "{least:?}");
    let usual = limits(256 << 20).expect("usual");
    assert_eq!((usual.fan_in, usual.run_requests), (MAX_SORT_FAN_IN, 4 << 20));
    assert!(usual.fan_in * RUN_MEMORY_BYTES <= 256 << 20);
    assert!(limits(u64::MAX).is_ok());
    let error = limits(MIN_SORT_MEMORY_BYTES - 1).expect_err("too little");
    assert_eq!(error.kind(), ErrorKind::Limit);
}
