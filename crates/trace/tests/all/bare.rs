//! Formats that state less than a request: units, times and operations that the reader supplies, and how it says no.

use lode_trace::{
    CompactWriter, ErrorKind, OnError, ReadOptions, Recorded, TraceError, Unit, formats, info, limits,
    read_trace,
};
use lode_types::{Origin, RequestOp, TraceRequest};

use crate::samples::drain;

fn read(bytes: &[u8], name: &str, unit_bytes: Option<u64>) -> (Vec<TraceRequest>, Option<TraceError>) {
    let options = ReadOptions { unit_bytes, ..ReadOptions::default() };
    match read_trace(std::io::Cursor::new(bytes.to_vec()), name, &options) {
        Ok(mut reader) => drain(&mut reader),
        Err(error) => (Vec::new(), Some(error)),
    }
}

/// One request of the object or block 3 in each format, and the bytes it has when the unit does not say.
fn block_three() -> Vec<(&'static str, Vec<u8>, Option<u32>)> {
    let object =
        [&9u32.to_le_bytes()[..], &3u64.to_le_bytes(), &100u32.to_le_bytes(), &(-1i64).to_le_bytes()];
    vec![
        ("a.lis", b"3 1 0 0\n".to_vec(), None),
        ("a.u32le", 3u32.to_le_bytes().to_vec(), None),
        ("a.oracleGeneral", object.concat(), Some(100)),
        ("a.oracleGeneral.csv", b"# time,object,size,next_access_vtime\n9,3,100,-1\n".to_vec(), Some(100)),
    ]
}

#[test]
fn the_unit_is_the_formats_or_the_users() {
    for ((name, bytes, length), default) in block_three().into_iter().zip([512, 4096, 4096, 4096]) {
        for (given, unit) in [(None, default), (Some(16_384), 16_384), (Some(1), 1), (Some(1 << 30), 1 << 30)]
        {
            let (requests, error) = read(&bytes, name, given);
            assert!(error.is_none(), "{name}: {error:?}");
            let found: Vec<_> = requests.iter().map(|r| (r.offset_bytes, r.length_bytes, r.op)).collect();
            assert_eq!(found, [(3 * unit, length.unwrap_or(unit as u32), RequestOp::Read)], "{name}");
        }
    }
    let units: Vec<_> = formats().filter_map(|format| format.default_unit_bytes).collect();
    assert_eq!(units, [4096, 4096, 512, 4096]);
}

#[test]
fn a_bad_unit_names_the_range_and_a_needless_one_the_format() {
    for (name, bytes, _) in block_three() {
        for unit in [0, limits::MAX_UNIT_BYTES + 1, u64::MAX] {
            let error = read(&bytes, name, Some(unit)).1.expect("an error");
            assert_eq!(error.kind(), ErrorKind::Unit, "{name}");
            assert!(error.to_string().contains("1 to 1073741824"), "{error}");
        }
    }
    let error = read(b"128166385295514663,hm,0,Write,0,512,1\n", "t", Some(512)).1.expect("an error");
    assert_eq!(error.kind(), ErrorKind::Unit);
    assert!(error.to_string().contains("msr"), "{error}");
}

#[test]
fn blocks_beyond_64_bits_are_out_of_range() {
    let object = [&9u32.to_le_bytes()[..], &u64::MAX.to_le_bytes(), &1u32.to_le_bytes(), &[0xff; 8]].concat();
    for (name, bytes, unit) in [
        ("a.lis", &b"18446744073709551615 1 0 0\n"[..], Some(1)),
        ("a.lis", b"36028797018963968 1 0 0\n", None),
        ("a.lis", b"1 8388608 0 0\n", None),
        ("a.oracleGeneral", &object, None),
        ("a.oracleGeneral", &object, Some(1)),
    ] {
        let (requests, error) = read(bytes, name, unit);
        let error = error.expect("an error");
        assert_eq!((requests.len(), error.kind()), (0, ErrorKind::OutOfRange), "{name}");
        assert_eq!(error.position().map(|position| position.byte), Some(0));
    }
}

#[test]
fn requests_without_a_time_come_one_a_microsecond() {
    let numbers: Vec<u8> = (0..10_000u32).flat_map(u32::to_le_bytes).collect();
    let text: String = (0..10_000).map(|block| format!("{block} 1 0 {block}\n")).collect();
    for (name, bytes) in [("a.u32le", numbers), ("a.lis", text.into_bytes())] {
        let (requests, error) = read(&bytes, name, None);
        assert!(error.is_none() && requests.len() == 10_000, "{name}");
        assert!(requests.iter().enumerate().all(|(i, request)| request.time_ns == 1000 * i as u64));
    }
}

#[test]
fn nothing_and_a_piece_of_a_record() {
    for format in formats() {
        for ending in format.endings {
            let name = format!("empty.{ending}");
            let (requests, error) = read(b"", &name, None);
            // These say at their start what they are.
            let needs_a_header = matches!(format.name, "lode" | "srt" | "parquet");
            assert_eq!((requests.len(), error.is_some()), (0, needs_a_header), "{name}: {error:?}");
        }
    }
    for name in ["a.u32le", "a.oracleGeneral"] {
        let error = read(&[1, 2, 3], name, None).1.expect("an error");
        assert_eq!(error.kind(), ErrorKind::Truncated, "{name}");
    }
}

#[test]
fn content_that_fits_several_formats_is_an_error_with_their_names() {
    let text = b"26214 0 303567 7 0\n";
    let error = read(text, "a.trace", None).1.expect("an error");
    assert_eq!(error.kind(), ErrorKind::UnknownFormat);
    assert!(error.to_string().contains("disksim, ssdsim"), "{error}");
    assert!(error.to_string().contains("--format"), "{error}");
    for (name, time_ns) in [("a.ssdsim", 26_214), ("a.disksim.gz", 26_214_000_000)] {
        let (requests, error) = read(text, name, None);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(requests[0].time_ns, time_ns, "{name}");
    }
    let named =
        ReadOptions { format: Some("disksim".to_owned()), on_error: OnError::Stop, ..ReadOptions::default() };
    let mut reader = read_trace(&text[..], "a.ssdsim", &named).expect("a trace");
    assert_eq!(drain(&mut reader).0[0].time_ns, 26_214_000_000);
}

#[test]
fn of_several_formats_the_one_of_plausible_requests_is_taken_and_the_others_are_told() {
    let open = |format: Option<&str>, text: &str| {
        let options = ReadOptions { format: format.map(str::to_owned), ..ReadOptions::default() };
        let mut reader =
            read_trace(std::io::Cursor::new(text.to_owned()), "a.trace", &options).expect("a trace");
        let requests = drain(&mut reader).0;
        let facts = (reader.format(), reader.also_fits().to_vec(), reader.implausible_bytes());
        (facts, requests[0].length_bytes)
    };
    let short = "373.94074 0 720749690880 1024 1\n";
    assert_eq!(open(None, short), (("heimdall", vec!["disksim"], None), 1024));
    assert_eq!(open(None, &short.repeat(8)), (("heimdall", vec![], None), 1024));
    // Whoever names a format gets it, and hears what comes of it.
    let expected = (("disksim", vec![], Some(512 << 10)), 512 << 10);
    assert_eq!(open(Some("disksim"), &short.repeat(8)), expected);
    // A format whose units nobody can mistake may have requests of any size.
    let log = "fio version 3 iolog\n5 a read 0 1048576\n";
    assert_eq!(open(None, log), (("iolog", vec![], None), 1 << 20));
}

#[test]
fn readers_tell_what_the_format_does_not_say() {
    let open = |bytes: &[u8], name: &str, unit_bytes| {
        let options = ReadOptions { unit_bytes, ..ReadOptions::default() };
        read_trace(std::io::Cursor::new(bytes.to_vec()), name, &options).expect("a trace")
    };
    let timed = [false, false, true, true];
    for ((name, bytes, _), (default, has_times)) in
        block_three().into_iter().zip([512, 4096, 4096, 4096].into_iter().zip(timed))
    {
        let reader = open(&bytes, name, None);
        assert_eq!(reader.unit(), Some(Unit { bytes: default, assumed: true }), "{name}");
        assert_eq!(reader.has_times(), has_times, "{name}");
        let given = open(&bytes, name, Some(default)).unit();
        assert_eq!(given, Some(Unit { bytes: default, assumed: false }), "{name}");
    }
    let stated = open(b"fio version 3 iolog\n5 a read 0 4096\n", "x", None);
    assert_eq!((stated.unit(), stated.has_times()), (None, true));
}

#[test]
fn times_that_only_keep_the_order_have_no_span_and_stay_so_in_the_compact_format() {
    let mut reader =
        read_trace(std::io::Cursor::new(b"3 1 0 0\n5 1 0 0\n"), "a.lis", &ReadOptions::default())
            .expect("a trace");
    let facts = info(&mut reader).expect("facts");
    assert_eq!((facts.total.requests, facts.span), (2, None));
    let request = TraceRequest {
        time_ns: 0,
        offset_bytes: 0,
        length_bytes: 512,
        volume: 0,
        op: RequestOp::Read,
        origin: Origin::UNKNOWN,
    };
    let all = [request, TraceRequest { time_ns: 1000, ..request }];
    for has_times in [true, false] {
        let recorded = Recorded { times: has_times, ..Recorded::TIMES };
        let mut writer = CompactWriter::recording(Vec::new(), "memory", recorded).expect("memory");
        writer.write(&["a".to_owned()], &all).expect("good requests");
        let bytes = writer.finish().expect("memory");
        let mut reader =
            read_trace(std::io::Cursor::new(bytes), "x", &ReadOptions::default()).expect("compact");
        assert_eq!(reader.has_times(), has_times);
        let facts = info(&mut reader).expect("facts");
        assert_eq!((facts.total.requests, facts.span.is_some()), (2, has_times));
    }
}
