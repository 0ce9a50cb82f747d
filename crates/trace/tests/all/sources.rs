//! Compression, detection, limits and the treatment of bad records.

use lode_trace::{ErrorKind, OnError, Position, ReadOptions, TraceError, open_trace, read_trace};
use lode_types::TraceRequest;

use crate::samples::{Pack, drain, every_format, fault_count, open, requests, with_origins};

/// Times differ by format: the CSV, vscsi and iolog keep them to the microsecond, which the sample does too.
#[test]
fn every_format_is_detected_and_gives_the_same_requests() {
    let all = requests(9000);
    for (format, bytes) in every_format(&all) {
        for pack in Pack::ALL {
            let mut reader = open(pack.pack(&bytes), "name without ending", OnError::Stop).expect(format);
            assert_eq!(reader.format(), format);
            let (read, error) = drain(&mut reader);
            assert!(error.is_none(), "{format} {pack:?}: {error:?}");
            assert_eq!(read, with_origins(format, &all), "{format} {pack:?}");
            assert_eq!((reader.volumes().len(), reader.backwards()), (1, 0));
            assert_eq!(fault_count(reader.skipped()), 0);
        }
    }
}

#[test]
fn members_and_layers_of_compression() {
    let all = requests(2000);
    for (format, bytes) in every_format(&all) {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let all = with_origins(format, &all);
        for pack in Pack::ALL {
            let joined = [pack.pack(first), pack.pack(second)].concat();
            for outer in Pack::ALL {
                let mut reader = open(outer.pack(&joined), "x", OnError::Stop).expect(format);
                let (read, error) = drain(&mut reader);
                assert!(error.is_none() && read == all, "{format} {pack:?} in {outer:?}: {error:?}");
            }
        }
        let deep = (0..4).fold(bytes, |bytes, _| Pack::Gzip.pack(&bytes));
        let error = open(deep, "x", OnError::Stop).expect_err("too deep");
        assert_eq!(error.kind(), ErrorKind::Compression);
    }
}

#[test]
fn a_skippable_zstd_frame_may_come_first() {
    let all = requests(10);
    let (_, bytes) = every_format(&all).swap_remove(0);
    let framed = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4][..], &Pack::Zstd.pack(&bytes)].concat();
    assert_eq!(drain(&mut open(framed, "x", OnError::Stop).expect("a trace")).0, all);
}

#[test]
fn bytes_that_come_one_at_a_time() {
    struct Drip(std::vec::IntoIter<u8>);
    impl std::io::Read for Drip {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let Some(byte) = self.0.next() else { return Ok(0) };
            into[0] = byte;
            Ok(1)
        }
    }
    let all = requests(50);
    for (format, bytes) in every_format(&all) {
        for pack in Pack::ALL {
            let source = Drip(pack.pack(&bytes).into_iter());
            let mut reader = read_trace(source, "-", &ReadOptions::default()).expect(format);
            assert_eq!(drain(&mut reader).0, with_origins(format, &all), "{format} {pack:?}");
        }
    }
}

const GOOD: &str = "128166385295514663,hm,0,Write,4096,512,1";

#[test]
fn bad_records_stop_or_are_counted() {
    let text = format!(
        "{GOOD}\r\n\n{GOOD}\nrubbish\n{GOOD}\n1,hm,0,Read,0,0,1\n1,hm,0,Read,18446744073709551615,1,1\n-1,hm,0,Read,0,1,1\n{GOOD}"
    );
    let mut reader = open(text.clone().into_bytes(), "x.csv", OnError::Stop).expect("msr");
    let (read, error) = drain(&mut reader);
    let error = error.expect("the rubbish");
    assert_eq!(read.len(), 2);
    let byte = 2 * GOOD.len() as u64 + 4;
    assert_eq!(
        (error.kind(), error.position()),
        (ErrorKind::Malformed, Some(Position { byte, line: Some(4), column: None }))
    );
    let message = error.to_string();
    assert!(
        message.starts_with("Malformed record: expected a filetime") && message.contains("(x.csv, line 4,")
    );

    let mut reader = open(text.into_bytes(), "x.csv", OnError::Skip).expect("msr");
    let (read, error) = drain(&mut reader);
    assert!(error.is_none());
    assert_eq!(read.len(), 4);
    let skips = reader.skipped();
    let kinds: Vec<_> =
        skips.faults.iter().map(|fault| (fault.kind, fault.count, fault.first[0].0.line)).collect();
    let expected = [
        (ErrorKind::Malformed, 1, Some(4)),
        (ErrorKind::ZeroLength, 1, Some(6)),
        (ErrorKind::OutOfRange, 1, Some(7)),
        (ErrorKind::NegativeTime, 1, Some(8)),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(fault_count(skips), 4);
}

/// Each format's own message, and not that none is known, also when no line of the trace is good.
#[test]
fn a_negative_time_is_said_to_be_one_with_its_line_and_column() {
    for (format, line, column) in [
        ("msr", "-5,hm,0,Read,1,1,1", 1),
        ("spc", "0,20941264,8192,W,-0.551706", 19),
        ("alibaba", "1,R,0,512,-1", 11),
        ("systor", "-1.5,0.1,R,0,512,512", 1),
    ] {
        for (lines, bad) in [(line.to_owned(), 1), (format!("\n{line}\n{line}"), 2)] {
            let byte = bad - 1;
            let position = Some(Position { byte, line: Some(bad), column: Some(column) });
            for forced in [None, Some(format.to_owned())] {
                let options = ReadOptions { format: forced, ..ReadOptions::default() };
                let source = std::io::Cursor::new(lines.clone().into_bytes());
                let mut reader = read_trace(source, "x.csv", &options).expect(format);
                assert_eq!(reader.format(), format);
                let error = drain(&mut reader).1.expect("no good line");
                assert_eq!((error.kind(), error.position()), (ErrorKind::NegativeTime, position), "{format}");
                let place = format!("(x.csv, line {bad}, column {column}, byte {byte})");
                assert!(
                    error.to_string().starts_with("Negative time: ") && error.to_string().ends_with(&place)
                );
            }
            let mut reader = open(lines.into_bytes(), "x.csv", OnError::Skip).expect(format);
            assert_eq!((drain(&mut reader).0.len(), fault_count(reader.skipped())), (0, bad));
        }
    }
    for text in ["-5 words\n", "a-5,b,c\n", "-"] {
        let error = open(text.into(), "x.csv", OnError::Stop).expect_err("no format");
        assert_eq!(error.kind(), ErrorKind::UnknownFormat, "{text}");
    }
    // Either of two formats, which count in different units, but for the sign.
    let error = open(b"-1 0 8193 8 1\n".to_vec(), "x", OnError::Stop).expect_err("several formats");
    assert!(error.to_string().contains("disksim, ssdsim"), "{error}");
}

#[test]
fn only_the_first_positions_are_kept() {
    let text = format!("{GOOD}\n{}", "rubbish\n".repeat(10_000));
    let mut reader = open(text.into_bytes(), "x", OnError::Skip).expect("msr");
    assert_eq!(drain(&mut reader).0.len(), 1);
    let fault = &reader.skipped().faults[0];
    assert_eq!((fault.count, fault.first.len()), (10_000, lode_trace::limits::MAX_SKIP_POSITIONS));
}

#[test]
fn lines_longer_than_the_limit() {
    for extra in [1, 300_000] {
        let long = "x".repeat(lode_trace::limits::MAX_LINE_BYTES + extra);
        for (text, read) in [(format!("{GOOD}\n{long}\n{GOOD}\n"), 2), (format!("{GOOD}\n{long}"), 1)] {
            let mut reader = open(text.clone().into_bytes(), "x", OnError::Skip).expect("msr");
            assert_eq!(drain(&mut reader).0.len(), read);
            let fault = &reader.skipped().faults[0];
            assert_eq!(
                (fault.kind, fault.count, fault.first[0].0.line),
                (ErrorKind::LineTooLong, 1, Some(2))
            );
            let (_, error) = drain(&mut open(text.into_bytes(), "x", OnError::Stop).expect("msr"));
            assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::LineTooLong));
        }
    }
}

#[test]
fn binary_records_are_skipped_one_at_a_time() {
    let all = requests(100);
    let (_, mut bytes) = every_format(&all).swap_remove(1);
    bytes[32 * 50 + 15] = 9;
    bytes[32 * 60 + 12] = 0x12;
    bytes.truncate(32 * 100 - 1);
    let mut reader = open(bytes.clone(), "x.vscsi", OnError::Skip).expect("vscsi");
    let kept: Vec<TraceRequest> = (0..99).filter(|i| ![50, 60].contains(i)).map(|i| all[i]).collect();
    assert_eq!(drain(&mut reader).0, kept);
    let skips = reader.skipped();
    assert_eq!(skips.other_commands, 1);
    let faults: Vec<_> = skips.faults.iter().map(|f| (f.kind, f.count, f.first[0].0.byte)).collect();
    assert_eq!(faults, [(ErrorKind::Malformed, 1, 32 * 50), (ErrorKind::Truncated, 1, 32 * 99)]);
    let (read, error) = drain(&mut open(bytes, "x.vscsi", OnError::Stop).expect("vscsi"));
    assert_eq!(read, all[..50]);
    assert_eq!(
        error.and_then(|error| error.position()),
        Some(Position { byte: 32 * 50, line: None, column: None })
    );
}

#[test]
fn time_going_backwards_is_counted() {
    let text = "5,a,0,Read,0,1,1\n4,a,0,Read,0,1,1\n4,b,0,Read,0,1,1\n9,a,0,Read,0,1,1\n1,a,0,Read,0,1,1\n";
    let mut reader = open(text.into(), "x", OnError::Stop).expect("msr");
    assert_eq!(drain(&mut reader).0.len(), 5);
    assert_eq!((reader.backwards(), reader.volumes()), (2, &["a_0".to_owned(), "b_0".to_owned()][..]));
}

#[test]
fn unknown_things_are_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = open_trace(folder.path().join("missing"), &ReadOptions::default()).expect_err("missing");
    assert_eq!(missing.kind(), ErrorKind::Io);
    assert!(std::error::Error::source(&missing).is_some());
    let a_folder = open_trace(folder.path(), &ReadOptions::default()).expect_err("a folder");
    assert_eq!(a_folder.kind(), ErrorKind::Io);
    for bytes in [&b""[..], b"nothing that anyone knows\n", b"\n\n"] {
        let error = open(bytes.to_vec(), "x.txt", OnError::Skip).expect_err("unknown");
        assert_eq!(error.kind(), ErrorKind::UnknownFormat);
        assert!(error.to_string().contains("blkparse"), "{error}");
    }
    let named = ReadOptions { format: Some("excel".to_owned()), ..ReadOptions::default() };
    let error = read_trace(GOOD.as_bytes(), "x", &named).expect_err("no such format");
    assert!(error.to_string().starts_with("No format is called excel; name one of lode, "), "{error}");
    let mut empty = open(Vec::new(), "x.blkparse.gz", OnError::Stop).expect("known by its name");
    assert_eq!((empty.format(), drain(&mut empty).0.len()), ("blkparse", 0));
}

#[test]
fn a_byte_order_mark_before_text_is_passed_over() {
    let mut texts = 0;
    for (format, bytes) in every_format(&requests(20)) {
        if std::str::from_utf8(&bytes).is_err() || bytes.contains(&0) {
            continue;
        }
        texts += 1;
        let marked = [b"\xef\xbb\xbf", &bytes[..]].concat();
        for named in [None, Some(format.to_owned())] {
            let options = ReadOptions { format: named, ..ReadOptions::default() };
            let read = |bytes: Vec<u8>| {
                let mut reader = read_trace(std::io::Cursor::new(bytes), "t", &options).ok()?;
                let format = reader.format();
                Some((format, drain(&mut reader)))
            };
            let as_told = |read: Option<(_, (Vec<_>, Option<TraceError>))>| {
                read.map(|(format, (requests, error))| {
                    (format, requests, error.map(|error| error.to_string()))
                })
            };
            assert_eq!(as_told(read(marked.clone())), as_told(read(bytes.clone())), "{options:?}");
        }
    }
    assert!(texts > 8, "{texts}");
    // Places stay those in the file, and one mark is passed over, no more.
    let error = |bytes: &[u8]| {
        let options = ReadOptions { format: Some("msr".to_owned()), ..ReadOptions::default() };
        let mut reader = read_trace(std::io::Cursor::new(bytes.to_vec()), "t", &options).expect("a trace");
        drain(&mut reader).1.expect("an error").to_string()
    };
    assert!(error(b"\xef\xbb\xbf1,a,0,Read,0,512,1\nx\n").contains("line 2"));
    assert!(error(b"\xef\xbb\xbf\xef\xbb\xbf1,a,0,Read,0,512,1\n").contains("line 1"));
}
