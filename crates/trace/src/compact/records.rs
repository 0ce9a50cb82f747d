//! The inside of a block of requests in the compact format: records of equal length, as short as the block's
//! values allow. It must not do I/O.
//!
//! ```text
//! columns (32): u64 least offset, u32 least length, u16 least volume, u8 bits of a time, of an offset, of a
//!               length, of a volume, u16 zero, u32 unit of time, of offset, of length
//! record:       op (2 bits), length, volume, offset, time, from the lowest bit of the first byte on
//! ```
//!
//! Each field of a record is a number n in the bits that the columns give it, and stands for least + n * unit.
//! The least time is the block's base, the unit of volumes is 1. A field that would lie in more than eight bytes
//! begins with the next byte, and a record ends with a byte, so that reading a field is one load, one shift and
//! one mask. The bytes after the last record let it be loaded like the others. (Frame of reference: Goldstein,
//! Ramakrishnan, Shaft, "Compressing Relations and Indexes", ICDE 1998.)
//!
//! A record thus takes what its block's values differ by: 15 bytes for a week in nanoseconds (50 bits), any sector
//! of a 16 TiB disk (35), lengths up to 32 MiB in sectors (16), any of 65,536 volumes (16) and the op (2), at random;
//! 23 bytes when every field uses all it has.

use lode_types::{Op, TraceRequest};

use super::layout::{HEADER_BYTES, u32_at};
use crate::error::{ErrorKind, Fault};
use crate::feed::check_request;

pub(crate) const COLUMNS_BYTES: usize = 32;
pub(crate) const MAX_RECORD_BYTES: usize = 23;
/// Bytes after the last record.
pub(crate) const PADDING_BYTES: usize = WORD_BYTES - 1;
const WORD_BYTES: usize = 8;
/// Requests unpacked together: few enough that the nearest processor cache holds them until their last column.
const STRIP: usize = 256;
const OP_BITS: u32 = 2;

/// Columns in the order of their fields in a record.
const LENGTH: usize = 0;
const VOLUME: usize = 1;
const OFFSET: usize = 2;
const TIME: usize = 3;
const COLUMNS: usize = 4;
const MAX_BITS: [u32; COLUMNS] = [32, 16, 64, 64];
const _: () = assert!(crate::limits::MAX_VOLUMES <= 1 << 16);

const SHAPE: Fault = Fault::malformed("as many records as the header announces, of a shape that there is");
const SPAN: Fault =
    Fault::new(ErrorKind::OutOfRange, "a time and an offset below 2^64 and a length below 4 GiB");
const NO_VOLUME: Fault = Fault::malformed("the number of a volume named before");

fn values(request: &TraceRequest) -> [u64; COLUMNS] {
    [request.length_bytes.into(), request.volume.into(), request.offset_bytes, request.time_ns]
}

/// What the values of a column have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    least: u64,
    most: u64,
    /// The greatest number that divides every difference; zero when there is none but zero.
    unit: u64,
}

impl Range {
    fn of(value: u64) -> Range {
        Range { least: value, most: value, unit: 0 }
    }

    fn join(self, other: Range) -> Range {
        let (least, most) = (self.least.min(other.least), self.most.max(other.most));
        let unit = common_divisor(common_divisor(self.unit, other.unit), self.least.abs_diff(other.least));
        Range { least, most, unit }
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while a != 0 {
        (a, b) = (b % a, a);
    }
    b
}

/// What the values of some requests have in common, column by column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranges([Range; COLUMNS]);

impl Ranges {
    /// `None` without requests.
    pub(crate) fn of(requests: &[TraceRequest]) -> Option<Ranges> {
        let one = |request| Ranges(values(request).map(Range::of));
        let (first, rest) = requests.split_first()?;
        Some(rest.iter().fold(one(first), |ranges, request| ranges.join(one(request))))
    }

    pub(crate) fn join(self, other: Ranges) -> Ranges {
        Ranges(std::array::from_fn(|column| self.0[column].join(other.0[column])))
    }
}

/// How a column's values become fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Column {
    least: u64,
    unit: u32,
    bits: u32,
    /// Byte and bit in it where the field begins in a record.
    byte: usize,
    shift: u32,
}

/// The shape of a block's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    columns: [Column; COLUMNS],
    record_bytes: usize,
}

impl From<&Ranges> for Shape {
    fn from(ranges: &Ranges) -> Shape {
        let mut columns = ranges.0.map(|range| {
            // A larger unit would not fit its place; it is met when requests lie seconds and more apart.
            let unit = u32::try_from(range.unit).unwrap_or(1).max(1);
            let bits = u64::BITS - ((range.most - range.least) / u64::from(unit)).leading_zeros();
            Column { least: range.least, unit, bits, ..Column::default() }
        });
        let span = ranges.0[VOLUME].most - ranges.0[VOLUME].least;
        (columns[VOLUME].unit, columns[VOLUME].bits) = (1, u64::BITS - span.leading_zeros());
        Shape::placed(columns)
    }
}

impl Shape {
    /// Gives every column its place in the record.
    fn placed(mut columns: [Column; COLUMNS]) -> Shape {
        let mut bit = OP_BITS;
        for column in &mut columns {
            if bit % 8 + column.bits > u64::BITS {
                bit = bit.next_multiple_of(8);
            }
            (column.byte, column.shift) = ((bit / 8) as usize, bit % 8);
            bit += column.bits;
        }
        Shape { columns, record_bytes: bit.div_ceil(8) as usize }
    }

    /// Bytes of the payload of a block of `count` requests.
    pub(crate) fn payload_bytes(&self, count: usize) -> usize {
        COLUMNS_BYTES + count * self.record_bytes + PADDING_BYTES
    }

    /// The block's base.
    pub(crate) fn base_ns(&self) -> u64 {
        self.columns[TIME].least
    }

    fn encode(&self) -> [u8; COLUMNS_BYTES] {
        let [length, volume, offset, time] = &self.columns;
        let mut bytes = [0; COLUMNS_BYTES];
        bytes[..8].copy_from_slice(&offset.least.to_le_bytes());
        bytes[8..12].copy_from_slice(&(length.least as u32).to_le_bytes());
        bytes[12..14].copy_from_slice(&(volume.least as u16).to_le_bytes());
        bytes[14..18].copy_from_slice(&[time, offset, length, volume].map(|column| column.bits as u8));
        bytes[20..24].copy_from_slice(&time.unit.to_le_bytes());
        bytes[24..28].copy_from_slice(&offset.unit.to_le_bytes());
        bytes[28..32].copy_from_slice(&length.unit.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; COLUMNS_BYTES], base_ns: u64) -> Option<Shape> {
        const { assert!(COLUMNS_BYTES == HEADER_BYTES) };
        let column = |least, unit, bits: u8| Column { least, unit, bits: bits.into(), ..Column::default() };
        let least_offset = u64::from(u32_at(bytes, 0)) | u64::from(u32_at(bytes, 4)) << 32;
        let least_volume = u16::from_le_bytes([bytes[12], bytes[13]]);
        let columns = [
            column(u32_at(bytes, 8).into(), u32_at(bytes, 28), bytes[16]),
            column(least_volume.into(), 1, bytes[17]),
            column(least_offset, u32_at(bytes, 24), bytes[15]),
            column(base_ns, u32_at(bytes, 20), bytes[14]),
        ];
        let fits = columns.iter().zip(MAX_BITS).all(|(column, most)| column.bits <= most && column.unit > 0);
        (fits && bytes[18..20] == [0, 0]).then(|| Shape::placed(columns))
    }

    /// Appends the payload of a block of these requests, whose shape this is.
    pub(crate) fn pack(&self, requests: &[TraceRequest], payload: &mut Vec<u8>) {
        payload.extend_from_slice(&self.encode());
        for request in requests {
            let mut record = [0; MAX_RECORD_BYTES + PADDING_BYTES];
            record[0] = request.op as u8;
            for (column, value) in self.columns.iter().zip(values(request)) {
                let field = (value - column.least) / u64::from(column.unit);
                let place = &mut record[column.byte..column.byte + WORD_BYTES];
                let word = word_at(place, 0) | field << column.shift;
                place.copy_from_slice(&word.to_le_bytes());
            }
            payload.extend_from_slice(&record[..self.record_bytes]);
        }
        payload.extend_from_slice(&[0; PADDING_BYTES]);
    }
}

#[inline(always)]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    // Every caller has checked the length; a missing word is none that could be believed.
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<WORD_BYTES>());
    word.map_or(u64::MAX, |word| u64::from_le_bytes(*word))
}

/// A column as its fields are read.
#[derive(Clone, Copy)]
struct Reading {
    byte: usize,
    shift: u32,
    mask: u64,
    least: u64,
    unit: u64,
    /// The largest number whose value is allowed.
    most: u64,
}

impl Reading {
    /// `None` when already the least value is above `limit`.
    fn new(column: &Column, limit: u64) -> Option<Reading> {
        let (least, unit) = (column.least, u64::from(column.unit));
        let mask = u64::MAX.checked_shr(u64::BITS - column.bits).unwrap_or(0);
        let most = limit.checked_sub(least)? / unit;
        Some(Reading { byte: column.byte, shift: column.shift, mask, least, unit, most })
    }

    #[inline(always)]
    fn field(&self, record: &[u8]) -> u64 {
        word_at(record, self.byte) >> self.shift & self.mask
    }

    /// The value of a field that is allowed.
    #[inline(always)]
    fn value(&self, field: u64) -> u64 {
        self.least.wrapping_add(field.wrapping_mul(self.unit))
    }

    /// The greatest value that is allowed and that a field can stand for.
    fn greatest(&self) -> u64 {
        self.value(self.mask.min(self.most))
    }

    /// Sets this column's values in requests that have the least one, from records `stride` bytes apart; says whether
    /// all are allowed.
    #[inline(always)]
    fn fill(
        &self,
        records: &[u8],
        stride: usize,
        requests: &mut [TraceRequest],
        set: impl Fn(&mut TraceRequest, u64),
    ) -> bool {
        if self.mask == 0 {
            return true;
        }
        // A copy, so that what the requests are written to cannot be what is read.
        let reading = *self;
        let mut at = reading.byte;
        let mut highest = 0;
        for request in requests {
            let field = word_at(records, at) >> reading.shift & reading.mask;
            highest = field.max(highest);
            set(request, reading.value(field));
            at += stride;
        }
        highest <= reading.most
    }
}

/// How the columns of one block are read.
struct Readings([Reading; COLUMNS]);

impl Readings {
    fn new(shape: &Shape, volumes: u32) -> Result<Readings, Fault> {
        let last_volume = volumes.checked_sub(1).ok_or(NO_VOLUME)?;
        let reading =
            |column: usize, limit: u64, fault| Reading::new(&shape.columns[column], limit).ok_or(fault);
        let length = reading(LENGTH, u32::MAX.into(), SPAN)?;
        let volume = reading(VOLUME, last_volume.into(), NO_VOLUME)?;
        Ok(Readings([length, volume, reading(OFFSET, u64::MAX, SPAN)?, reading(TIME, u64::MAX, SPAN)?]))
    }

    /// Appends `count` requests column by column: a column needs few registers and one that is constant no work at
    /// all. False when some request is not allowed; which one, and why, [`Readings::append_singly`] says.
    fn append_by_columns(
        &self,
        records: &[u8],
        stride: usize,
        count: usize,
        out: &mut Vec<TraceRequest>,
    ) -> bool {
        let [length, volume, offset, time] = &self.0;
        let same = TraceRequest {
            time_ns: time.least,
            offset_bytes: offset.least,
            length_bytes: length.least as u32,
            volume: volume.least as u32,
            op: Op::Read,
        };
        let mut good = true;
        for first in (0..count).step_by(STRIP) {
            let records = &records[first * stride..];
            let begin = out.len();
            let op = |index: usize| OPS[usize::from(records[index * stride] & 3)];
            out.extend((0..STRIP.min(count - first)).map(|index| TraceRequest { op: op(index), ..same }));
            let strip = &mut out[begin..];
            good &= time.fill(records, stride, strip, |request, value| request.time_ns = value)
                & offset.fill(records, stride, strip, |request, value| request.offset_bytes = value)
                & length.fill(records, stride, strip, |request, value| request.length_bytes = value as u32)
                & volume.fill(records, stride, strip, |request, value| request.volume = value as u32);
            if !self.are_whole() {
                good &= strip.iter().all(|request| check_request(request).is_ok());
            }
        }
        good
    }

    /// Whether every request that these columns can make passes [`check_request`].
    fn are_whole(&self) -> bool {
        let [length, _, offset, _] = &self.0;
        length.least > 0 && offset.greatest().checked_add(length.greatest()).is_some()
    }

    /// Appends `count` requests one by one, up to the first that is not allowed; its fault comes with its offset in
    /// `records`.
    fn append_singly(
        &self,
        records: &[u8],
        stride: usize,
        count: usize,
        out: &mut Vec<TraceRequest>,
    ) -> Result<(), (Fault, usize)> {
        let [length, volume, offset, time] = &self.0;
        for start in (0..count).map(|index| index * stride) {
            let record = &records[start..start + stride + PADDING_BYTES];
            let fields =
                (length.field(record), volume.field(record), offset.field(record), time.field(record));
            let far = (fields.0 > length.most) | (fields.2 > offset.most) | (fields.3 > time.most);
            if far | (fields.1 > volume.most) {
                return Err((if far { SPAN } else { NO_VOLUME }, start));
            }
            let request = TraceRequest {
                time_ns: time.value(fields.3),
                offset_bytes: offset.value(fields.2),
                length_bytes: length.value(fields.0) as u32,
                volume: volume.value(fields.1) as u32,
                op: OPS[usize::from(record[0] & 3)],
            };
            check_request(&request).map_err(|fault| (fault, start))?;
            out.push(request);
        }
        Ok(())
    }
}

/// Appends the `count` requests in `payload`. A bad one ends the block; the fault comes with its offset in the
/// payload.
pub(crate) fn unpack(
    payload: &[u8],
    base_ns: u64,
    count: usize,
    volumes: u32,
    out: &mut Vec<TraceRequest>,
) -> Result<(), (Fault, usize)> {
    let (columns, records) = payload.split_first_chunk().ok_or((SHAPE, 0))?;
    let shape = Shape::decode(columns, base_ns).ok_or((SHAPE, 0))?;
    if shape.payload_bytes(count) != payload.len() {
        return Err((SHAPE, 0));
    }
    let readings = Readings::new(&shape, volumes).map_err(|fault| (fault, COLUMNS_BYTES))?;
    let before = out.len();
    out.reserve(count);
    if readings.append_by_columns(records, shape.record_bytes, count, out) {
        return Ok(());
    }
    out.truncate(before);
    let appended = readings.append_singly(records, shape.record_bytes, count, out);
    appended.map_err(|(fault, at)| (fault, COLUMNS_BYTES + at))
}

/// Operations by their two bits.
const OPS: [Op; 1 << OP_BITS] = [Op::Read, Op::Write, Op::Trim, Op::Flush];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn codes_are_those_of_the_operations() {
        assert!((0..4).all(|code| Op::from_code(code) == Some(OPS[usize::from(code)])));
    }

    #[test]
    fn the_longest_record() {
        let low = TraceRequest { time_ns: 0, offset_bytes: 0, length_bytes: 0, volume: 0, op: Op::Flush };
        let high = TraceRequest {
            time_ns: u64::MAX,
            offset_bytes: u64::MAX,
            length_bytes: u32::MAX,
            volume: u16::MAX.into(),
            op: Op::Read,
        };
        let one = TraceRequest { time_ns: 1, offset_bytes: 1, length_bytes: 1, volume: 1, op: Op::Read };
        let shape = Ranges::of(&[low, high, one]).map(|ranges| Shape::from(&ranges));
        assert_eq!(shape.map(|shape| shape.record_bytes), Some(MAX_RECORD_BYTES));
        let same = Ranges::of(&[high, high]).map(|ranges| Shape::from(&ranges));
        assert_eq!(same.map(|shape| shape.record_bytes), Some(1));
    }

    /// The requests before the first bad one, and whether there is one: the layout read bit by bit.
    fn unpack_slowly(payload: &[u8], base_ns: u64, count: usize, volumes: u32) -> (Vec<TraceRequest>, bool) {
        let number = |at: usize, bytes: usize| {
            payload[at..at + bytes].iter().rev().fold(0, |value, &byte| value << 8 | u128::from(byte))
        };
        // Bits, least value and unit of each field, in the order of a record.
        let fields = [
            (number(16, 1), number(8, 4), number(28, 4)),
            (number(17, 1), number(12, 2), 1),
            (number(15, 1), number(0, 8), number(24, 4)),
            (number(14, 1), u128::from(base_ns), number(20, 4)),
        ];
        let mut places = Vec::new();
        let mut end = 2;
        for (bits, ..) in fields {
            let bits = bits as usize;
            if (end + bits).div_ceil(8) - end / 8 > 8 {
                end = end.next_multiple_of(8);
            }
            places.push(end..end + bits);
            end += bits;
        }
        let mut requests = Vec::new();
        for record in payload[COLUMNS_BYTES..].chunks(end.div_ceil(8)).take(count) {
            let bit = |at: usize| u128::from(record[at / 8] >> (at % 8) & 1);
            let mut values = fields.iter().zip(&places).map(|(&(_, least, unit), place)| {
                least + unit * place.clone().rev().fold(0, |value, at| value << 1 | bit(at))
            });
            let mut next = || values.next().expect("four fields");
            let (length, volume, offset, time) = (next(), next(), next(), next());
            let op = [Op::Read, Op::Write, Op::Trim, Op::Flush][(bit(0) | bit(1) << 1) as usize];
            let good = length < 1 << 32
                && volume < u128::from(volumes)
                && offset + length < 1 << 64
                && time < 1 << 64
                && (length > 0 || op == Op::Flush);
            if !good {
                return (requests, true);
            }
            requests.push(TraceRequest {
                time_ns: time as u64,
                offset_bytes: offset as u64,
                length_bytes: length as u32,
                volume: volume as u32,
                op,
            });
        }
        (requests, false)
    }

    fn any_columns() -> impl Strategy<Value = (Column, Column, Column, Column)> {
        let column = |bits: u32| {
            let least = prop_oneof![Just(0), any::<u64>()].prop_map(move |least| least >> (64 - bits));
            (least, prop_oneof![Just(1), Just(512), any::<u32>()], 0..=bits).prop_map(
                |(least, unit, bits)| Column { least, unit: unit.max(1), bits, ..Column::default() },
            )
        };
        (column(32), column(16).prop_map(|column| Column { unit: 1, ..column }), column(64), column(64))
    }

    proptest! {
        #[test]
        fn reading_matches_the_layout_bit_by_bit(
            (length, volume, offset, time) in any_columns(),
            count in 0usize..20,
            volumes in prop_oneof![1u32..5, Just(1 << 16)],
            noise in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 20 * MAX_RECORD_BYTES),
        ) {
            let shape = Shape::placed([length, volume, offset, time]);
            let mut payload = shape.encode().to_vec();
            payload.extend_from_slice(&noise[..count * shape.record_bytes]);
            payload.extend_from_slice(&[0; PADDING_BYTES]);
            let mut out = Vec::new();
            let outcome = unpack(&payload, time.least, count, volumes, &mut out);
            let (expected, bad) = unpack_slowly(&payload, time.least, count, volumes);
            // Values that can never be allowed are found before the first record, which there may not be.
            prop_assert_eq!(outcome.is_err(), bad || (count == 0 && volume.least >= volumes.into()));
            prop_assert_eq!(&out, &expected);
            if let Some(ranges) = Ranges::of(&out) {
                let mut packed = Vec::new();
                Shape::from(&ranges).pack(&out, &mut packed);
                let (again, bad) = unpack_slowly(&packed, Shape::from(&ranges).base_ns(), out.len(), volumes);
                prop_assert_eq!((again, bad), (out, false));
            }
        }

        #[test]
        fn any_bytes_are_survived(
            payload in proptest::collection::vec(any::<u8>(), 0..200),
            base_ns: u64,
            count in 0usize..5000,
        ) {
            let mut out = Vec::new();
            let _ = unpack(&payload, base_ns, count, 3, &mut out);
            prop_assert!(out.len() <= count);
        }

        #[test]
        fn ranges_match_comparing_all_pairs(
            values in proptest::collection::vec((0u64..50).prop_flat_map(|n| prop_oneof![Just(n * 600), any::<u64>()]), 1..20),
            cut in 0usize..20,
        ) {
            let request = |&time_ns: &u64| TraceRequest {
                time_ns, offset_bytes: 0, length_bytes: 1, volume: 0, op: Op::Read,
            };
            let requests: Vec<_> = values.iter().map(request).collect();
            let (left, right) = requests.split_at(cut.min(requests.len()));
            let ranges = match (Ranges::of(left), Ranges::of(right)) {
                (Some(left), Some(right)) => left.join(right),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => unreachable!("there is a value"),
            };
            let Range { least, most, unit } = ranges.0[TIME];
            prop_assert_eq!((Some(&least), Some(&most)), (values.iter().min(), values.iter().max()));
            let differences: Vec<_> = values.iter().flat_map(|a| values.iter().map(|b| a.abs_diff(*b))).collect();
            if unit == 0 {
                prop_assert!(differences.iter().all(|&d| d == 0));
            } else {
                prop_assert!(differences.iter().all(|d| d % unit == 0));
                let small = differences.iter().filter(|&&d| d > 0).min().copied().unwrap_or(0).min(30_000);
                let larger = (unit + 1..=small).find(|&n| differences.iter().all(|d| d % n == 0));
                prop_assert_eq!(larger, None);
            }
        }
    }
}
