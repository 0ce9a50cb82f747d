//! The compact format keeps every request exactly.

use std::io::Read;

use lode_trace::{CompactWriter, ErrorKind, OnError, ReadOptions, Recorded, create_compact, open_trace};
use lode_types::{Origin, OriginFields, RequestOp, TraceRequest};
use proptest::prelude::*;

use crate::samples::{drain, lode, open, requests};

fn any_op() -> impl Strategy<Value = RequestOp> {
    prop::sample::select(vec![RequestOp::Read, RequestOp::Write, RequestOp::Trim, RequestOp::Flush])
}

/// Mostly nobody, as most traces have it.
fn any_origin() -> impl Strategy<Value = Origin> {
    let code = prop_oneof![1u32..16, any::<u32>()];
    prop_oneof![200 => Just(Origin::UNKNOWN), 1 => code.prop_map(|code| Origin::from_code(code).unwrap_or_default())]
}

/// Values around every field's limits as well as usual ones.
fn any_request(volumes: u32) -> impl Strategy<Value = TraceRequest> {
    let time = prop_oneof![any::<u64>(), 0u64..1000, (1u64 << 45) - 2..(1 << 45) + 2, Just(u64::MAX)];
    let offset = prop_oneof![
        any::<u64>(),
        (0u64..1 << 20).prop_map(|sector| sector * 512),
        ((1u64 << 48) - 2..(1 << 48) + 2).prop_map(|sector| sector * 512),
    ];
    let length = prop_oneof![any::<u32>(), (0u32..70_000).prop_map(|sectors| sectors * 512)];
    (time, offset, length, 0..volumes, any_op(), any_origin()).prop_map(
        |(time_ns, offset_bytes, length_bytes, volume, op, origin)| {
            let length_bytes = if op == RequestOp::Flush { length_bytes } else { length_bytes.max(1) };
            let offset_bytes = offset_bytes.min(u64::MAX - u64::from(length_bytes));
            TraceRequest { time_ns, offset_bytes, length_bytes, volume, op, origin }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn round_trip(
        all in proptest::collection::vec(any_request(5), 0..6000),
        cuts in proptest::collection::vec(0usize..6000, 0..5),
    ) {
        let names: Vec<String> = (0..5).map(|i| format!("volume-{i}")).collect();
        let mut writer = CompactWriter::new(Vec::new(), "memory").expect("memory");
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(all.len())).chain([all.len()]).collect();
        cuts.sort_unstable();
        let mut from = 0;
        let mut known = 0;
        for to in cuts {
            let part = &all[from..to];
            known = part.iter().map(|r| r.volume as usize + 1).max().unwrap_or(0).max(known);
            writer.write(&names[..known], part).expect("good requests");
            writer.flush().expect("memory");
            from = to;
        }
        prop_assert_eq!(writer.requests(), all.len() as u64);
        let mut reader = open(writer.finish().expect("memory"), "x", OnError::Stop).expect("the format");
        let (read, error) = drain(&mut reader);
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(read, all);
        prop_assert_eq!(reader.volumes(), &names[..known]);
    }
}

/// Requests at random over everything that 119 bits of a record can tell apart: a week of nanoseconds, in no
/// order, on `volumes` disks of 16 TiB.
fn random_requests(count: u64, volumes: u64) -> Vec<TraceRequest> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let requests = (0..count).map(|_| TraceRequest {
        time_ns: 12_816_637_200_000_000_000 + random(7 * 86_400 * 1_000_000_000),
        offset_bytes: random(1 << 35) * 512,
        length_bytes: (1 + random(1 << 16)).min(65_535) as u32 * 512,
        volume: random(volumes) as u32,
        op: [RequestOp::Read, RequestOp::Write, RequestOp::Trim, RequestOp::Flush][random(4) as usize],
        origin: Origin::UNKNOWN,
    });
    requests.collect()
}

/// Bytes of a file of these requests on as many volumes as they name, without the names.
fn bytes_without_names(requests: &[TraceRequest]) -> usize {
    let volumes = requests.iter().map(|request| request.volume + 1).max().unwrap_or(0);
    let names: Vec<_> = (0..volumes).map(|volume| volume.to_string()).collect();
    lode(&names, requests).len() - names.iter().map(|name| 2 + name.len()).sum::<usize>()
}

#[test]
fn at_most_16_bytes_a_request_with_everything_around_them() {
    for (count, volumes) in [(100, 1), (100, 16), (200, 1024), (4096, 65_536), (4097, 1), (50_000, 65_536)] {
        let all = random_requests(count, volumes);
        let bytes = bytes_without_names(&all);
        assert!(bytes as u64 <= 16 * count, "{count} requests on {volumes} volumes: {bytes} bytes");
    }
    let small = lode(&["hm_0".to_owned()], &requests(20)).len();
    assert!(small <= 20 * 16, "{small}");
}

#[test]
fn a_stray_value_costs_only_its_neighbours() {
    let all = random_requests(100_000, 1);
    let mut stray = all.clone();
    for (request, i) in stray.iter_mut().step_by(10_000).zip(0..) {
        (request.time_ns, request.offset_bytes) = (i % 2 * u64::MAX, u64::MAX / 3 - i);
    }
    let (bytes, stray_bytes) = (bytes_without_names(&all), bytes_without_names(&stray));
    assert!(stray_bytes < bytes + bytes / 20 && stray_bytes <= 16 * 100_000, "{bytes} {stray_bytes}");
}

#[test]
fn no_request_takes_more_than_its_fields() {
    let mut all = random_requests(50_000, 65_536);
    for (request, i) in all.iter_mut().zip(1u64..) {
        let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (request.time_ns, request.offset_bytes) = (mixed, mixed.rotate_left(32) >> 1);
        request.length_bytes = mixed as u32 | 1;
        request.origin = Origin::from_code(mixed as u32 & !0xa).expect("flags that say no or nothing");
    }
    let bytes = bytes_without_names(&all);
    assert!(bytes <= 27 * 50_000 + 4096, "{bytes}");
}

#[test]
fn files_plain_and_compressed() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = requests(100_000);
    for (name, compressed) in [("x.lode", false), ("x.lode.zst", true)] {
        let path = folder.path().join(name);
        let mut writer = create_compact(&path).expect("a file");
        for part in all.chunks(1000) {
            writer.write(&["hm_0".to_owned()], part).expect("space");
        }
        writer.close().expect("space");
        let mut start = [0; 4];
        std::fs::File::open(&path).and_then(|mut file| file.read_exact(&mut start)).expect("a file");
        assert_eq!(start == [0x28, 0xb5, 0x2f, 0xfd], compressed);
        let mut reader = open_trace(&path, &ReadOptions::default()).expect("a trace");
        assert_eq!(drain(&mut reader).0, all);
        let progress = reader.progress();
        assert_eq!(Some(progress.read_bytes), progress.total_bytes);
        assert_eq!(progress.total_bytes, std::fs::metadata(&path).ok().map(|facts| facts.len()));
        assert_eq!((reader.format(), reader.stem()), ("lode", "x"));
    }
}

#[test]
fn many_volumes_with_long_names() {
    let names: Vec<String> = (0..3000).map(|i| format!("{i:0>500}")).collect();
    let all: Vec<_> =
        requests(3000).into_iter().zip(0..).map(|(r, volume)| TraceRequest { volume, ..r }).collect();
    let mut reader = open(lode(&names, &all), "x", OnError::Stop).expect("the format");
    assert_eq!(drain(&mut reader).0, all);
    assert_eq!(reader.volumes(), names);
}

#[test]
fn the_writer_refuses_what_readers_would() {
    let good = requests(1)[0];
    let one = vec!["a".to_owned()];
    for (volumes, request, kind) in [
        (one.clone(), TraceRequest { length_bytes: 0, ..good }, ErrorKind::ZeroLength),
        (one.clone(), TraceRequest { offset_bytes: u64::MAX, ..good }, ErrorKind::OutOfRange),
        (one.clone(), TraceRequest { volume: 1, ..good }, ErrorKind::Malformed),
        (vec!["a".to_owned(), "a".to_owned()], good, ErrorKind::VolumeName),
        (vec!["a\n".to_owned()], good, ErrorKind::VolumeName),
        ((0..65_537).map(|i| i.to_string()).collect(), good, ErrorKind::TooManyVolumes),
    ] {
        let mut writer = CompactWriter::new(Vec::new(), "memory").expect("memory");
        let outcome = writer.write(&volumes, &[request]);
        assert_eq!(outcome.map_err(|error| error.kind()), Err(kind));
    }
}

#[test]
fn what_is_recorded_stays_so_and_what_nobody_tells_takes_nothing() {
    for code in 0..8 {
        let origins = OriginFields::from_code(code).expect("three bits");
        for times in [false, true] {
            let recorded = Recorded { times, origins };
            let writer = CompactWriter::recording(Vec::new(), "memory", recorded).expect("memory");
            let reader = open(writer.finish().expect("memory"), "x", OnError::Stop).expect("the format");
            assert_eq!(reader.recorded(), recorded);
        }
    }
    let mut all = requests(4096);
    let before = lode(&["a".to_owned()], &all).len();
    all.iter_mut()
        .for_each(|request| request.origin = request.origin.with_sync(request.op == RequestOp::Read));
    let flags = lode(&["a".to_owned()], &all).len();
    assert_eq!(flags - before, 4096 / 2, "half a byte a request");
}

/// The file with another version in its header, which is sealed again.
fn as_version(mut bytes: Vec<u8>, version: u8) -> Vec<u8> {
    bytes[8] = version;
    let crc = crc32c::crc32c(&bytes[..28]);
    bytes[28..32].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn the_version_before_origins_is_read_and_has_none() {
    let mut all = requests(50);
    let names = ["a".to_owned()];
    let mut reader = open(as_version(lode(&names, &all), 3), "x", OnError::Stop).expect("the format");
    assert_eq!((drain(&mut reader).0, reader.recorded()), (all.clone(), Recorded::TIMES));
    // A column of them cannot be there, and neither can a header that promises them.
    all[7].origin = Origin::UNKNOWN.with_sync(true);
    let mut reader = open(as_version(lode(&names, &all), 3), "x", OnError::Stop).expect("the format");
    assert_eq!(drain(&mut reader).1.map(|error| error.kind()), Some(ErrorKind::Malformed));
    let recorded = Recorded { times: true, origins: OriginFields::ALL };
    let writer = CompactWriter::recording(Vec::new(), "memory", recorded).expect("memory");
    let bytes = as_version(writer.finish().expect("memory"), 3);
    let error = drain(&mut open(bytes, "x", OnError::Skip).expect("the format")).1;
    assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Version));
}
