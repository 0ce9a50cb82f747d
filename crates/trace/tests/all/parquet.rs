//! Parquet: column names and types, row groups, files and streams, and damage.

use std::io::Write;
use std::sync::Arc;

use lode_trace::{ErrorKind, OnError, ReadOptions, TraceError, open_trace};
use lode_types::{Origin, RequestOp, TraceRequest};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use crate::samples::{Pack, drain, fault_count, open, options, requests};

/// The values of a column in one row group; `None` is a null.
#[derive(Clone)]
enum Values {
    Long(Vec<Option<i64>>),
    Short(Vec<Option<i32>>),
    Text(Vec<Option<&'static str>>),
}

/// A Parquet file with a schema such as "required int64 time_ns; ..." and row groups.
fn table(schema: &str, groups: &[Vec<Values>], compression: Compression) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(&format!("message trace {{ {schema} }}")).expect("a schema"));
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).expect("memory");
    for group in groups {
        let mut rows = writer.next_row_group().expect("memory");
        for values in group {
            let mut column = rows.next_column().expect("memory").expect("as many columns");
            let levels = |present: Vec<bool>| present.into_iter().map(i16::from).collect::<Vec<_>>();
            match values {
                Values::Long(values) => {
                    let levels = levels(values.iter().map(Option::is_some).collect());
                    let values: Vec<_> = values.iter().flatten().copied().collect();
                    column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)
                }
                Values::Short(values) => {
                    let levels = levels(values.iter().map(Option::is_some).collect());
                    let values: Vec<_> = values.iter().flatten().copied().collect();
                    column.typed::<Int32Type>().write_batch(&values, Some(&levels), None)
                }
                Values::Text(values) => {
                    let levels = levels(values.iter().map(Option::is_some).collect());
                    let values: Vec<_> = values.iter().flatten().map(|text| ByteArray::from(*text)).collect();
                    column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)
                }
            }
            .expect("good values");
            column.close().expect("memory");
        }
        rows.close().expect("memory");
    }
    writer.into_inner().expect("memory")
}

fn long(values: &[i64]) -> Values {
    Values::Long(values.iter().copied().map(Some).collect())
}

fn short(values: &[i32]) -> Values {
    Values::Short(values.iter().copied().map(Some).collect())
}

fn text(values: &[&'static str]) -> Values {
    Values::Text(values.iter().copied().map(Some).collect())
}

const SCHEMA: &str = "required int64 time_ns; required int64 offset_bytes; required int32 length_bytes; \
                      required binary op (UTF8); required binary volume (UTF8);";

/// The sample in row groups of some rows.
fn sample(all: &[TraceRequest], rows: usize, compression: Compression) -> Vec<u8> {
    let groups: Vec<_> = all
        .chunks(rows)
        .map(|part| {
            let numbers = |of: fn(&TraceRequest) -> u64| {
                long(&part.iter().map(|request| of(request) as i64).collect::<Vec<_>>())
            };
            let ops: Vec<_> =
                part.iter().map(|r| if r.op == RequestOp::Read { "R" } else { "write" }).collect();
            vec![
                numbers(|request| request.time_ns),
                numbers(|request| request.offset_bytes),
                short(&part.iter().map(|request| request.length_bytes as i32).collect::<Vec<_>>()),
                text(&ops),
                text(&vec!["hm_0"; part.len()]),
            ]
        })
        .collect();
    table(SCHEMA, &groups, compression)
}

fn read(bytes: Vec<u8>, on_error: OnError) -> (Vec<TraceRequest>, Option<TraceError>, Vec<String>) {
    match open(bytes, "dir/web.parquet", on_error) {
        Ok(mut reader) => {
            assert_eq!(reader.format(), "parquet");
            let (requests, error) = drain(&mut reader);
            let faults = fault_count(reader.skipped());
            assert!(on_error == OnError::Skip || faults == 0);
            (requests, error, reader.volumes().to_vec())
        }
        Err(error) => (Vec::new(), Some(error), Vec::new()),
    }
}

#[test]
fn row_groups_and_compressions_as_streams_and_files() {
    let all = requests(10_000);
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let kinds = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::LZ4_RAW,
        zstd,
    ];
    let folder = tempfile::tempdir().expect("a folder");
    for (compression, rows) in kinds.into_iter().zip([10_000, 4096, 4097, 1000, 3]) {
        let bytes = sample(&all, rows, compression);
        let path = folder.path().join("a table");
        std::fs::File::create(&path).and_then(|mut file| file.write_all(&bytes)).expect("a file");
        let mut reader = open_trace(&path, &ReadOptions::default()).expect("a trace");
        assert_eq!(reader.format(), "parquet");
        let (from_file, error) = drain(&mut reader);
        assert!(error.is_none() && from_file == all, "{compression:?}: {error:?}");
        assert_eq!(reader.volumes(), ["hm_0"]);
        for pack in Pack::ALL {
            let (from_stream, error, volumes) = read(pack.pack(&bytes), OnError::Stop);
            assert!(error.is_none() && from_stream == all, "{compression:?} {pack:?}: {error:?}");
            assert_eq!(volumes, ["hm_0"]);
        }
    }
}

#[test]
fn other_names_types_and_what_is_missing() {
    let schema = "required int64 Timestamp (TIMESTAMP(MICROS,true)); required int32 LBA; required int32 sectors; \
                  required int64 extra; optional int32 device;";
    let group = vec![long(&[5, 6]), short(&[8, 9]), short(&[1, 2]), long(&[0, 0]), short(&[7, 12])];
    let (requests, error, volumes) = read(table(schema, &[group], Compression::UNCOMPRESSED), OnError::Stop);
    assert!(error.is_none(), "{error:?}");
    let request = |time_ns, offset_bytes, length_bytes, volume| TraceRequest {
        time_ns,
        offset_bytes,
        length_bytes,
        volume,
        op: RequestOp::Read,
        origin: Origin::UNKNOWN,
    };
    assert_eq!(requests, [request(5000, 4096, 512, 0), request(6000, 4608, 1024, 1)]);
    assert_eq!(volumes, ["7", "12"]);

    let schema = "required int32 time_s; required int64 offset (INTEGER(64,false)); required int64 size; optional binary type;";
    let ops = Values::Text(vec![Some("Read"), Some("FLUSH"), Some("discard")]);
    let group = vec![short(&[1, 2, 3]), long(&[-4096, 0, 0]), long(&[512, 0, 9]), ops];
    let (requests, error, volumes) = read(table(schema, &[group], Compression::UNCOMPRESSED), OnError::Stop);
    assert!(error.is_none(), "{error:?}");
    let expected = [
        request(1_000_000_000, u64::MAX - 4095, 512, 0),
        TraceRequest { op: RequestOp::Flush, ..request(2_000_000_000, 0, 0, 0) },
        TraceRequest { op: RequestOp::Trim, ..request(3_000_000_000, 0, 9, 0) },
    ];
    assert_eq!((requests, volumes), (expected.to_vec(), vec!["web".to_owned()]));
}

#[test]
fn bad_columns_are_named() {
    let one = |column: &str| match column {
        column if column.contains("int32") => short(&[1]),
        column if column.contains("binary") => text(&["x"]),
        _ => long(&[1]),
    };
    for (columns, said) in [
        (
            &["required int64 time_ns", "required int64 offset"][..],
            "No column holds the length; name it one of length_bytes",
        ),
        (&["required int64 offset", "required int64 size"], "No column holds the time"),
        (&["required int64 time", "required int64 offset", "required int64 size"], "column time has no unit"),
        (
            &["required binary time_ns", "required int64 offset", "required int64 size"],
            "column time_ns does not hold whole numbers",
        ),
        (
            &["required int64 time_ns", "required int64 lba", "required int64 offset", "required int64 size"],
            "columns lba and offset both",
        ),
        (
            &["required int64 time_ns", "required int64 lba", "required int64 size", "required int32 op"],
            "column op does not hold text",
        ),
    ] {
        let schema: String = columns.iter().map(|column| format!("{column}; ")).collect();
        let group = columns.iter().copied().map(one).collect();
        let error = read(table(&schema, &[group], Compression::UNCOMPRESSED), OnError::Skip).1.expect(said);
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.to_string().contains(said), "{error}");
    }
}

/// Time, first sector, bytes, operation.
type Row = (Option<i64>, Option<i64>, Option<i64>, Option<&'static str>);

#[test]
fn bad_rows_have_their_number() {
    let schema = "optional int64 time_ms; optional int64 lba; optional int64 size; optional binary op;";
    let good = (Some(1), Some(1), Some(512), Some("r"));
    for (bad, kind) in [
        ((None, Some(1), Some(512), Some("r")), ErrorKind::Malformed),
        ((Some(-1), Some(1), Some(512), Some("r")), ErrorKind::NegativeTime),
        ((Some(i64::MAX), Some(1), Some(512), Some("r")), ErrorKind::OutOfRange),
        ((Some(1), Some(-1), Some(512), Some("r")), ErrorKind::Malformed),
        ((Some(1), Some(1 << 55), Some(512), Some("r")), ErrorKind::OutOfRange),
        ((Some(1), Some(1), Some(0), Some("r")), ErrorKind::ZeroLength),
        ((Some(1), Some(1), Some(1 << 32), Some("r")), ErrorKind::OutOfRange),
        ((Some(1), Some(1), Some(512), Some("x")), ErrorKind::Malformed),
        ((Some(1), Some(1), Some(512), None), ErrorKind::Malformed),
    ] {
        let group = |rows: &[Row]| {
            vec![
                Values::Long(rows.iter().map(|row| row.0).collect()),
                Values::Long(rows.iter().map(|row| row.1).collect()),
                Values::Long(rows.iter().map(|row| row.2).collect()),
                Values::Text(rows.iter().map(|row| row.3).collect()),
            ]
        };
        let bytes = table(schema, &[group(&[good, good]), group(&[good, bad, good])], Compression::SNAPPY);
        let (requests, error, _) = read(bytes.clone(), OnError::Stop);
        let error = error.expect("an error");
        assert_eq!((requests.len(), error.kind()), (3, kind));
        assert_eq!(error.position().and_then(|position| position.line), Some(4));
        let mut reader = open(bytes, "t", OnError::Skip).expect("a trace");
        assert_eq!(drain(&mut reader).0.len(), 4);
        assert_eq!(fault_count(reader.skipped()), 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The decoder panics on some of these, which must not show.
    #[test]
    fn damage_is_an_error_or_other_requests(
        cut in proptest::option::of(0.0f64..1.0),
        places in proptest::collection::vec((0.0f64..1.0, any::<u8>()), 0..4),
    ) {
        let mut bytes = sample(&requests(50), 20, Compression::SNAPPY);
        for (place, byte) in places {
            let place = (bytes.len() as f64 * place) as usize;
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate((bytes.len() as f64 * cut) as usize);
        }
        for on_error in [OnError::Stop, OnError::Skip] {
            let options = ReadOptions { format: Some("parquet".to_owned()), ..options(on_error) };
            let mut reader = lode_trace::read_trace(std::io::Cursor::new(bytes.clone()), "t", &options).expect("a start");
            let (requests, error) = drain(&mut reader);
            prop_assert!(cut.is_none() || error.is_some());
            prop_assert!(requests.iter().all(|request| request.end_bytes().is_some()));
        }
    }
}
