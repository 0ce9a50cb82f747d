//! Parquet tables of requests, one row each; decoding is the `parquet` crate's.
//!
//! Columns are known by their names, whatever the case, and their names say the unit:
//!
//! | what | names | if missing |
//! |---|---|---|
//! | time | `time_ns`, `time_us`, `time_ms`, `time_s`; or `time`, `timestamp` of a Parquet timestamp type | an error |
//! | offset | `offset_bytes`, `offset`; in 512-byte sectors `offset_sectors`, `lba`, `lbn`, `sector` | an error |
//! | length | `length_bytes`, `length`, `size_bytes`, `size`; in sectors `length_sectors`, `size_sectors`, `sectors` | an error |
//! | operation | `op`, `operation`, `type`: text, from its first letter R, W, T or D (trim), F (flush) | all are reads |
//! | volume | `volume`, `device`, `disk`, `vm`: text or a whole number | one, named after the file |
//!
//! Other columns are not read. Numbers are whole. A fault's line is the row from 1 on, its byte where the row group
//! starts. The crate panics on some damaged files, which becomes an error here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lode_types::{Origin, OriginFields, RequestOp, SECTOR_BYTES, TraceRequest};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit as ParquetTime, Type};
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescriptor;

use super::fields::{TimeUnit, length, units};
use super::{Decoder, Format};
use crate::compact::Recorded;
use crate::error::{ErrorKind, Fault, Position, TraceError};
use crate::feed::{Feed, More, check_request};
use crate::limits::BATCH_REQUESTS;
use crate::volumes::VolumeTable;
use crate::whole::Whole;

pub(crate) static FORMAT: Format = Format {
    name: "parquet",
    about: "Parquet with columns such as time_ns, offset_bytes, length_bytes, op, volume",
    endings: &["parquet"],
    default_unit_bytes: None,
    units_told: true,
    recorded: |_| Recorded::TIMES,
    detect: |head| head.starts_with(super::PARQUET_MAGIC),
    decoder: |_| Box::new(Parquet { table: None }),
};

const EMPTY: Fault = Fault::malformed("a value in each row's time, offset and length");
const TIME: Fault = Fault::new(ErrorKind::OutOfRange, "a time below 2^64 ns");
const EARLY: Fault = Fault::new(ErrorKind::NegativeTime, "a time from 0 on");
const OFFSET: Fault = Fault::malformed("an offset from 0 on");
const LENGTH: Fault = Fault::malformed("a length from 0 on");
const OP: Fault =
    Fault::malformed("read, write, trim, discard or flush, or their first letters, as operation");

/// Column names, and the power of ten of nanoseconds; a timestamp's type says it.
const TIME_NAMES: [(&str, Option<TimeUnit>); 6] = [
    ("time_ns", Some(TimeUnit::Nanoseconds)),
    ("time_us", Some(TimeUnit::Microseconds)),
    ("time_ms", Some(TimeUnit::Milliseconds)),
    ("time_s", Some(TimeUnit::Seconds)),
    ("time", None),
    ("timestamp", None),
];
/// Column names, and the bytes that their numbers count.
const OFFSET_NAMES: [(&str, u64); 6] = [
    ("offset_bytes", 1),
    ("offset", 1),
    ("offset_sectors", SECTOR_BYTES),
    ("lba", SECTOR_BYTES),
    ("lbn", SECTOR_BYTES),
    ("sector", SECTOR_BYTES),
];
const LENGTH_NAMES: [(&str, u64); 7] = [
    ("length_bytes", 1),
    ("length", 1),
    ("size_bytes", 1),
    ("size", 1),
    ("length_sectors", SECTOR_BYTES),
    ("size_sectors", SECTOR_BYTES),
    ("sectors", SECTOR_BYTES),
];
const OP_NAMES: [(&str, ()); 3] = [("op", ()), ("operation", ()), ("type", ())];
const VOLUME_NAMES: [(&str, ()); 4] = [("volume", ()), ("device", ()), ("disk", ()), ("vm", ())];

struct Parquet {
    table: Option<Table>,
}

impl Decoder for Parquet {
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        let table = match &mut self.table {
            Some(table) => table,
            None => self.table.insert(Table::open(feed)?),
        };
        while out.is_empty() {
            let Some(rows) = table.next_rows(feed)? else { return Ok(More::No) };
            for row in 0..rows.times.len() {
                let position =
                    Position { byte: rows.byte, line: Some(rows.first_row + row as u64 + 1), column: None };
                match request_of(&table.columns, &rows, row, feed) {
                    Ok(request) => out.push(request),
                    Err(fault) => feed.fault(fault, position)?,
                }
            }
        }
        Ok(More::Yes)
    }
}

/// Which leaf column holds what, and its unit.
struct Columns {
    time: (usize, TimeUnit),
    offset: (usize, u64),
    length: (usize, u64),
    op: Option<usize>,
    volume: Option<usize>,
}

/// Some rows, column by column; an empty column is one that the table does not have.
struct Rows {
    first_row: u64,
    byte: u64,
    times: Vec<Option<Number>>,
    offsets: Vec<Option<Number>>,
    lengths: Vec<Option<Number>>,
    ops: Vec<Option<ByteArray>>,
    volumes: Vec<Option<ByteArray>>,
}

/// A whole number, whatever the width and sign of its type.
type Number = i128;

struct Table {
    source: Arc<Whole>,
    metadata: ParquetMetaData,
    columns: Columns,
    /// The next row group.
    group: usize,
    open: Option<Group>,
    rows: u64,
}

/// The columns of the row group that is being read, in the order of [`Columns`], and its rows that are left.
struct Group {
    readers: [Option<Column>; 5],
    left: usize,
    byte: u64,
}

struct Column {
    reader: ColumnReader,
    optional: bool,
    unsigned: bool,
}

impl Table {
    fn open(feed: &mut Feed) -> Result<Table, TraceError> {
        let source = Arc::new(Whole::of(feed)?);
        let metadata = guarded(feed, || ParquetMetaDataReader::new().parse_and_finish(&*source))?;
        let columns =
            Columns::of(&metadata).map_err(|what| TraceError::new(ErrorKind::Malformed, &feed.path, what))?;
        Ok(Table { source, metadata, columns, group: 0, open: None, rows: 0 })
    }

    /// Up to a batch of rows; `None` at the end.
    fn next_rows(&mut self, feed: &Feed) -> Result<Option<Rows>, TraceError> {
        while self.open.as_ref().is_none_or(|group| group.left == 0) {
            if self.group == self.metadata.num_row_groups() {
                return Ok(None);
            }
            self.open = Some(guarded(feed, || self.open_group())?);
            self.group += 1;
        }
        let Some(group) = &mut self.open else { return Ok(None) };
        let count = group.left.min(BATCH_REQUESTS);
        let first_row = self.rows;
        let rows = guarded(feed, || group.read(count, first_row))?;
        group.left -= count;
        self.rows += count as u64;
        Ok(Some(rows))
    }

    fn open_group(&self) -> Result<Group, ParquetError> {
        let group = self.metadata.row_group(self.group);
        let left = usize::try_from(group.num_rows())
            .map_err(|_| ParquetError::General("a negative number of rows".to_owned()))?;
        let column = |index: usize| {
            let chunk = group.column(index);
            let pages = SerializedPageReader::new(Arc::clone(&self.source), chunk, left, None)?;
            let descriptor = chunk.column_descr_ptr();
            Ok::<_, ParquetError>(Column {
                optional: descriptor.max_def_level() > 0,
                unsigned: is_unsigned(&descriptor),
                reader: get_column_reader(descriptor, Box::new(pages)),
            })
        };
        let Columns { time, offset, length, op, volume } = &self.columns;
        let readers = [
            Some(column(time.0)?),
            Some(column(offset.0)?),
            Some(column(length.0)?),
            op.map(column).transpose()?,
            volume.map(column).transpose()?,
        ];
        let byte = group.columns().iter().map(|column| column.byte_range().0).min().unwrap_or(0);
        Ok(Group { readers, left, byte })
    }
}

impl Group {
    fn read(&mut self, count: usize, first_row: u64) -> Result<Rows, ParquetError> {
        let [times, offsets, lengths, ops, volumes] = &mut self.readers;
        Ok(Rows {
            first_row,
            byte: self.byte,
            times: numbers(times, count)?,
            offsets: numbers(offsets, count)?,
            lengths: numbers(lengths, count)?,
            ops: texts(ops, count)?,
            volumes: texts(volumes, count)?,
        })
    }
}

impl Columns {
    /// The columns that the table has, or what is wrong with them.
    fn of(metadata: &ParquetMetaData) -> Result<Columns, String> {
        let leaves = metadata.file_metadata().schema_descr().columns();
        let find = |index: usize| &leaves[index];
        let (time, named) =
            one_of(leaves, "time", &TIME_NAMES)?.ok_or_else(|| missing("time", &TIME_NAMES))?;
        let unit = named.or_else(|| timestamp_unit(find(time))).ok_or_else(|| {
            format!("The column {} has no unit; name it after its unit, as in time_ns, or give it a timestamp type", find(time).name())
        })?;
        let offset =
            one_of(leaves, "offset", &OFFSET_NAMES)?.ok_or_else(|| missing("offset", &OFFSET_NAMES))?;
        let length =
            one_of(leaves, "length", &LENGTH_NAMES)?.ok_or_else(|| missing("length", &LENGTH_NAMES))?;
        let op = one_of(leaves, "operation", &OP_NAMES)?.map(|(index, ())| index);
        let volume = one_of(leaves, "volume", &VOLUME_NAMES)?.map(|(index, ())| index);
        let is_number = |index: usize| matches!(find(index).physical_type(), Type::INT32 | Type::INT64);
        let is_text = |index: usize| find(index).physical_type() == Type::BYTE_ARRAY;
        for index in [time, offset.0, length.0] {
            if !is_number(index) {
                return Err(format!(
                    "The column {} does not hold whole numbers; convert it",
                    find(index).name()
                ));
            }
        }
        if let Some(op) = op.filter(|&op| !is_text(op)) {
            return Err(format!(
                "The column {} does not hold text, such as R or write; convert it",
                find(op).name()
            ));
        }
        if let Some(volume) = volume.filter(|&volume| !is_text(volume) && !is_number(volume)) {
            return Err(format!(
                "The column {} holds neither text nor whole numbers; convert it",
                find(volume).name()
            ));
        }
        Ok(Columns { time: (time, unit), offset, length, op, volume })
    }
}

/// The only column of the table's top level that has one of the names.
fn one_of<T: Copy>(
    leaves: &[Arc<ColumnDescriptor>],
    what: &str,
    names: &[(&str, T)],
) -> Result<Option<(usize, T)>, String> {
    let mut found = leaves.iter().enumerate().filter_map(|(index, leaf)| {
        let top = leaf.path().parts().len() == 1 && leaf.max_rep_level() == 0;
        let (_, unit) = names.iter().find(|(name, _)| top && leaf.name().eq_ignore_ascii_case(name))?;
        Some((index, *unit))
    });
    let first = found.next();
    match (first, found.next()) {
        (Some((one, _)), Some((other, _))) => Err(format!(
            "The columns {} and {} both hold the {what}; leave one out",
            leaves[one].name(),
            leaves[other].name()
        )),
        _ => Ok(first),
    }
}

fn missing<T>(what: &str, names: &[(&str, T)]) -> String {
    let names: Vec<_> = names.iter().map(|(name, _)| *name).collect();
    format!("No column holds the {what}; name it one of {}", names.join(", "))
}

fn timestamp_unit(leaf: &ColumnDescriptor) -> Option<TimeUnit> {
    match (leaf.logical_type_ref(), leaf.converted_type()) {
        (Some(LogicalType::Timestamp(timestamp)), _) => match timestamp.unit {
            ParquetTime::MILLIS => Some(TimeUnit::Milliseconds),
            ParquetTime::MICROS => Some(TimeUnit::Microseconds),
            ParquetTime::NANOS => Some(TimeUnit::Nanoseconds),
        },
        (_, ConvertedType::TIMESTAMP_MILLIS) => Some(TimeUnit::Milliseconds),
        (_, ConvertedType::TIMESTAMP_MICROS) => Some(TimeUnit::Microseconds),
        _ => None,
    }
}

fn is_unsigned(leaf: &ColumnDescriptor) -> bool {
    matches!(leaf.logical_type_ref(), Some(LogicalType::Integer(integer)) if !integer.is_signed)
        || matches!(
            leaf.converted_type(),
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
        )
}

/// The next `count` values of a column of whole numbers.
fn numbers(column: &mut Option<Column>, count: usize) -> Result<Vec<Option<Number>>, ParquetError> {
    let Some(Column { reader, optional, unsigned }) = column else { return Ok(Vec::new()) };
    let (mut present, mut short, mut long) = (Vec::new(), Vec::new(), Vec::new());
    let definition = optional.then_some(&mut present);
    let (rows, ..) = match reader {
        ColumnReader::Int32ColumnReader(reader) => {
            reader.read_records(count, definition, None, &mut short)?
        }
        ColumnReader::Int64ColumnReader(reader) => reader.read_records(count, definition, None, &mut long)?,
        _ => return Err(ParquetError::General("a column changes its type".to_owned())),
    };
    let short = short
        .into_iter()
        .map(|value| if *unsigned { Number::from(value.cast_unsigned()) } else { Number::from(value) });
    let long = long
        .into_iter()
        .map(|value| if *unsigned { Number::from(value.cast_unsigned()) } else { Number::from(value) });
    spread(rows, count, optional.then_some(present), short.chain(long))
}

/// The next `count` values of a column as text, which a number's digits are.
fn texts(column: &mut Option<Column>, count: usize) -> Result<Vec<Option<ByteArray>>, ParquetError> {
    match column {
        Some(Column { reader: ColumnReader::ByteArrayColumnReader(reader), optional, .. }) => {
            let (mut present, mut values) = (Vec::new(), Vec::new());
            let definition = optional.then_some(&mut present);
            let (rows, ..) = reader.read_records(count, definition, None, &mut values)?;
            spread(rows, count, optional.then_some(present), values.into_iter())
        }
        column => {
            let text = |number: Number| ByteArray::from(number.to_string().into_bytes());
            Ok(numbers(column, count)?.into_iter().map(|number| number.map(text)).collect())
        }
    }
}

/// Puts the values that are there at their rows; `present` is 1 where there is one.
fn spread<T>(
    rows: usize,
    count: usize,
    present: Option<Vec<i16>>,
    mut values: impl Iterator<Item = T>,
) -> Result<Vec<Option<T>>, ParquetError> {
    let spread: Vec<_> = match present {
        Some(present) => present.iter().map(|&level| if level > 0 { values.next() } else { None }).collect(),
        None => values.by_ref().map(Some).collect(),
    };
    if rows != count || spread.len() != count || values.next().is_some() {
        return Err(ParquetError::General(
            "a column has not as many values as its row group has rows".to_owned(),
        ));
    }
    Ok(spread)
}

fn request_of(columns: &Columns, rows: &Rows, row: usize, feed: &mut Feed) -> Result<TraceRequest, Fault> {
    let value = |numbers: &[Option<Number>]| numbers.get(row).copied().flatten().ok_or(EMPTY);
    let time = value(&rows.times)?;
    if time < 0 {
        return Err(EARLY);
    }
    let time_ns = u64::try_from(time * Number::from(10_u64.pow(columns.time.1 as u32))).map_err(|_| TIME)?;
    let op = match columns.op {
        Some(_) => op_of(rows.ops.get(row).and_then(Option::as_ref))?,
        None => RequestOp::Read,
    };
    let volume = volume_of(columns, rows, row, &mut feed.volumes, &feed.stem)?;
    if op == RequestOp::Flush {
        return Ok(TraceRequest {
            time_ns,
            offset_bytes: 0,
            length_bytes: 0,
            volume,
            op,
            origin: Origin::UNKNOWN,
        });
    }
    let offset = u64::try_from(value(&rows.offsets)?).map_err(|_| OFFSET)?;
    let count = u64::try_from(value(&rows.lengths)?).map_err(|_| LENGTH)?;
    let (offset_bytes, _) = units(offset, 0, columns.offset.1)?;
    let (_, length_bytes) = units(0, length(count)?.into(), columns.length.1)?;
    let request = TraceRequest { time_ns, offset_bytes, length_bytes, volume, op, origin: Origin::UNKNOWN };
    check_request(&request)?;
    Ok(request)
}

fn op_of(text: Option<&ByteArray>) -> Result<RequestOp, Fault> {
    match text.and_then(|text| text.data().first()).map(u8::to_ascii_lowercase) {
        Some(b'r') => Ok(RequestOp::Read),
        Some(b'w') => Ok(RequestOp::Write),
        Some(b't' | b'd') => Ok(RequestOp::Trim),
        Some(b'f') => Ok(RequestOp::Flush),
        _ => Err(OP),
    }
}

fn volume_of(
    columns: &Columns,
    rows: &Rows,
    row: usize,
    volumes: &mut VolumeTable,
    stem: &str,
) -> Result<u32, Fault> {
    let name = match columns.volume {
        Some(_) => rows.volumes.get(row).and_then(Option::as_ref).map_or(&b""[..], ByteArray::data),
        None => stem.as_bytes(),
    };
    volumes.lookup(name, <[u8]>::to_vec)
}

/// What the crate does with the outside's bytes: its errors, and its panics, with the trace's name.
fn guarded<T>(feed: &Feed, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, TraceError> {
    let damaged = |what: &str| {
        let message = format!("Cannot decode the Parquet file: {what}; repair the trace or fetch it again");
        TraceError::new(ErrorKind::Malformed, &feed.path, message)
    };
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(result) => result.map_err(|error| damaged(&error.to_string())),
        Err(_) => Err(damaged("its structure is damaged")),
    }
}
