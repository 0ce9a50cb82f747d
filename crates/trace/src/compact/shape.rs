//! The inside of a block of requests in the compact format: a column for each field, as narrow as the block's values
//! allow. How columns are read is in [`super::unpack`]. It must not do I/O.
//!
//! ```text
//! columns (40): u64 least step of time, u64 least offset, u32 least length, u16 least volume, u8 op (0 to 3: that of all
//!               requests; 4: there is a column of ops), u8 half bytes of an origin, of a step, of an offset, of a length,
//!               of a volume, u32 unit of steps, of offsets, of lengths
//! payload:      columns, steps, offsets, lengths, volumes, origins, ops
//! column:       plane of 8 bytes a request, of 4, of 2, of 1, of half a byte (two requests in a byte, the first in its
//!               low half)
//! ops:          2 bits a request, the first of four in the lowest bits of a byte
//! ```
//!
//! A field is a number n in the half bytes that the columns give it, and stands for least + n * unit; the unit of volumes
//! is 1, and of origins the least, too, is 0: n is the code of [`lode_types::Origin`]. The binary digits of the number of half bytes say which planes the column has: 7 half bytes are planes of 2
//! bytes, 1 byte and half a byte. The first plane holds the lowest bits of n. So a field is put together from whole
//! integers of the processor, many at a time, and none straddles them; that is what makes reading fast. (Like the frame of
//! reference of Goldstein, Ramakrishnan, Shaft, "Compressing Relations and Indexes", ICDE 1998.)
//!
//! The first time is the block's base. A step leads from a request's time to the next one's, modulo 2^64, so that it may
//! lead back; the last request's leads nowhere. Requests at a constant rate so need no bytes for their times.
//!
//! A request takes what its block's values differ by, rounded up to half bytes: 15.25 bytes for a week in nanoseconds
//! (13 half bytes), any sector of a 16 TiB disk (9), lengths up to 32 MiB in sectors (4), any of 65,536 volumes (4) and
//! the op, at random; 26.25 bytes when every field uses all it has. What no request of a block tells takes nothing.

use lode_types::{RequestOp, TraceRequest};

use crate::fixed::{u32_le, u64_le};

/// Bytes before the first column.
pub(crate) const COLUMNS_BYTES: usize = 40;
/// Most bytes that the columns of `count` requests take.
pub(crate) const fn max_columns_bytes(count: usize) -> usize {
    count * (8 + 8 + 4 + 2 + 4) + count.div_ceil(OPS_PER_BYTE)
}

/// Requests whose operations are in one byte.
pub(super) const OPS_PER_BYTE: usize = 4;
/// In the place of a common operation: there is a column of operations.
const MIXED_OPS: u8 = 4;
/// Half bytes of a plane and the number of planes that a column can have, the widest first.
pub(super) const PLANES: [u32; 5] = [16, 8, 4, 2, 1];
const HALF_BYTE_BITS: u32 = 4;

/// Columns in the order that they have in a block.
pub(super) const STEP: usize = 0;
pub(super) const OFFSET: usize = 1;
pub(super) const LENGTH: usize = 2;
pub(super) const VOLUME: usize = 3;
pub(super) const ORIGIN: usize = 4;
pub(super) const COLUMNS: usize = 5;
const MAX_HALF_BYTES: [u32; COLUMNS] = [16, 16, 8, 4, 8];
/// Where the width of the column of origins is.
pub(super) const ORIGIN_AT: usize = 23;
const _: () = assert!(crate::limits::MAX_VOLUMES <= 1 << 16);

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

    fn all(requests: &[TraceRequest], value: impl Fn(&TraceRequest) -> u64) -> Option<Range> {
        requests.iter().map(|request| Range::of(value(request))).reduce(Range::join)
    }

    #[inline]
    fn join(self, other: Range) -> Range {
        let (least, most) = (self.least.min(other.least), self.most.max(other.most));
        // The other is mostly a single value, whose unit of zero in this place costs no division.
        let unit = common_divisor(common_divisor(other.unit, self.unit), self.least.abs_diff(other.least));
        Range { least, most, unit }
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while a != 0 {
        (a, b) = (b % a, a);
    }
    b
}

/// Steps of time in the order of numbers with a sign, so that a small step back is next to a small one forwards.
const SIGN: u64 = 1 << 63;

fn step(from_ns: u64, to_ns: u64) -> Range {
    Range::of(to_ns.wrapping_sub(from_ns) ^ SIGN)
}

/// What the values of some requests have in common, column by column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranges {
    first_ns: u64,
    last_ns: u64,
    /// `None` for a single request.
    steps: Option<Range>,
    offsets: Range,
    lengths: Range,
    volumes: Range,
    /// Every bit that some origin's code has.
    origins: u32,
    /// `None` when they differ.
    op: Option<RequestOp>,
}

impl Ranges {
    /// `None` without requests. Column by column, so that a column's range stays in registers.
    pub(crate) fn of(requests: &[TraceRequest]) -> Option<Ranges> {
        let (first, last) = requests.first().zip(requests.last())?;
        let pairs = requests.iter().zip(requests.iter().skip(1));
        Some(Ranges {
            first_ns: first.time_ns,
            last_ns: last.time_ns,
            steps: pairs.map(|(request, next)| step(request.time_ns, next.time_ns)).reduce(Range::join),
            offsets: Range::all(requests, |request| request.offset_bytes)?,
            lengths: Range::all(requests, |request| request.length_bytes.into())?,
            volumes: Range::all(requests, |request| request.volume.into())?,
            origins: requests.iter().fold(0, |bits, request| bits | request.origin.code()),
            op: requests.iter().all(|request| request.op == first.op).then_some(first.op),
        })
    }

    /// Those of these requests and the `other` ones after them.
    pub(crate) fn join(self, other: Ranges) -> Ranges {
        let between = step(self.last_ns, other.first_ns);
        Ranges {
            first_ns: self.first_ns,
            last_ns: other.last_ns,
            steps: [self.steps, other.steps].into_iter().flatten().chain([between]).reduce(Range::join),
            offsets: self.offsets.join(other.offsets),
            lengths: self.lengths.join(other.lengths),
            volumes: self.volumes.join(other.volumes),
            origins: self.origins | other.origins,
            op: self.op.filter(|_| self.op == other.op),
        }
    }
}

/// How a column's values become fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub least: u64,
    pub unit: u32,
    pub half_bytes: u32,
}

impl Column {
    fn new(range: Range) -> Column {
        // A larger unit would not fit its place; it is met when requests lie seconds and more apart.
        let unit = u32::try_from(range.unit).unwrap_or(1).max(1);
        let bits = u64::BITS - ((range.most - range.least) / u64::from(unit)).leading_zeros();
        Column { least: range.least, unit, half_bytes: bits.div_ceil(HALF_BYTE_BITS) }
    }

    /// The planes of this column: bits below a plane's own in the field, and its half bytes.
    pub(super) fn planes(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let half_bytes = self.half_bytes;
        let held = PLANES.into_iter().filter(move |plane| half_bytes & plane != 0);
        held.scan(0, |below, plane| {
            let shift = *below;
            *below += plane * HALF_BYTE_BITS;
            Some((shift, plane))
        })
    }

    /// Bytes of the column in a block of `count` requests.
    pub(super) fn bytes(&self, count: usize) -> usize {
        self.planes().map(|(_, plane)| plane_bytes(plane, count)).sum()
    }

    /// The largest number in a field.
    pub(super) fn mask(&self) -> u64 {
        u64::MAX.checked_shr(u64::BITS - self.half_bytes * HALF_BYTE_BITS).unwrap_or(0)
    }

    /// Appends the column of these values.
    fn pack(&self, values: impl Iterator<Item = u64>, payload: &mut Vec<u8>) {
        if self.half_bytes == 0 {
            return;
        }
        let field = |value: u64| value.wrapping_sub(self.least) / u64::from(self.unit);
        let fields: Vec<u64> = values.map(field).collect();
        for (shift, plane) in self.planes() {
            let parts = fields.iter().map(|field| field >> shift);
            if plane == 1 {
                pack_bits(parts, HALF_BYTE_BITS, payload);
            } else {
                parts.for_each(|part| payload.extend_from_slice(&part.to_le_bytes()[..plane as usize / 2]));
            }
        }
    }
}

/// Bytes that a plane of so many half bytes a request takes.
pub(super) fn plane_bytes(half_bytes: u32, count: usize) -> usize {
    (count * half_bytes as usize).div_ceil(2)
}

/// Appends the lowest `bits` of each part, as many parts to a byte as it can hold.
fn pack_bits(parts: impl Iterator<Item = u64>, bits: u32, payload: &mut Vec<u8>) {
    let (mut byte, mut used) = (0, 0);
    for part in parts {
        byte |= (part as u8 & ((1 << bits) - 1)) << used;
        used += bits;
        if used == u8::BITS {
            payload.push(byte);
            (byte, used) = (0, 0);
        }
    }
    if used > 0 {
        payload.push(byte);
    }
}

/// The shape of a block's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    base_ns: u64,
    pub(super) columns: [Column; COLUMNS],
    /// The operation of all requests; `None` when each has its own.
    pub(super) op: Option<RequestOp>,
}

impl From<&Ranges> for Shape {
    fn from(ranges: &Ranges) -> Shape {
        let mut steps = Column::new(ranges.steps.unwrap_or(Range::of(SIGN)));
        steps.least ^= SIGN;
        let columns = [
            steps,
            Column::new(ranges.offsets),
            Column::new(ranges.lengths),
            Column::new(Range { unit: 1, ..ranges.volumes }),
            Column::new(Range { least: 0, most: ranges.origins.into(), unit: 1 }),
        ];
        Shape { base_ns: ranges.first_ns, columns, op: ranges.op }
    }
}

impl Shape {
    /// Bytes of the payload of a block of `count` requests.
    pub(crate) fn payload_bytes(&self, count: usize) -> usize {
        let ops = if self.op.is_none() { count.div_ceil(OPS_PER_BYTE) } else { 0 };
        COLUMNS_BYTES + self.columns.iter().map(|column| column.bytes(count)).sum::<usize>() + ops
    }

    /// The block's base.
    pub(crate) fn base_ns(&self) -> u64 {
        self.base_ns
    }

    pub(super) fn encode(&self) -> [u8; COLUMNS_BYTES] {
        let [step, offset, length, volume, origin] = &self.columns;
        let mut bytes = [0; COLUMNS_BYTES];
        bytes[..8].copy_from_slice(&step.least.to_le_bytes());
        bytes[8..16].copy_from_slice(&offset.least.to_le_bytes());
        bytes[16..20].copy_from_slice(&(length.least as u32).to_le_bytes());
        bytes[20..22].copy_from_slice(&(volume.least as u16).to_le_bytes());
        bytes[22] = self.op.map_or(MIXED_OPS, |op| op as u8);
        bytes[ORIGIN_AT] = origin.half_bytes as u8;
        for (byte, column) in bytes[24..28].iter_mut().zip(&self.columns) {
            *byte = column.half_bytes as u8;
        }
        bytes[28..32].copy_from_slice(&step.unit.to_le_bytes());
        bytes[32..36].copy_from_slice(&offset.unit.to_le_bytes());
        bytes[36..40].copy_from_slice(&length.unit.to_le_bytes());
        bytes
    }

    /// `None` when there is no such shape.
    pub(super) fn decode(bytes: &[u8; COLUMNS_BYTES], base_ns: u64) -> Option<Shape> {
        let column = |least, unit, place: usize| Column { least, unit, half_bytes: bytes[place].into() };
        let columns = [
            column(u64_le(bytes, 0), u32_le(bytes, 28), 24),
            column(u64_le(bytes, 8), u32_le(bytes, 32), 25),
            column(u32_le(bytes, 16).into(), u32_le(bytes, 36), 26),
            column(u16::from_le_bytes([bytes[20], bytes[21]]).into(), 1, 27),
            column(0, 1, ORIGIN_AT),
        ];
        let fits = |(column, most): (&Column, u32)| column.half_bytes <= most && column.unit > 0;
        let good = columns.iter().zip(MAX_HALF_BYTES).all(fits) && bytes[22] <= MIXED_OPS;
        // Of codes up to that of mixed ones, it alone is no operation.
        good.then(|| Shape { base_ns, columns, op: RequestOp::from_code(bytes[22]) })
    }

    /// Appends the payload of a block of these requests, whose shape this is.
    pub(crate) fn pack(&self, requests: &[TraceRequest], payload: &mut Vec<u8>) {
        let [steps, offsets, lengths, volumes, origins] = &self.columns;
        payload.extend_from_slice(&self.encode());
        let pairs = requests.iter().zip(requests.iter().skip(1));
        let between = pairs.map(|(request, next)| next.time_ns.wrapping_sub(request.time_ns));
        steps.pack(between.chain([steps.least]).take(requests.len()), payload);
        offsets.pack(requests.iter().map(|request| request.offset_bytes), payload);
        lengths.pack(requests.iter().map(|request| request.length_bytes.into()), payload);
        volumes.pack(requests.iter().map(|request| request.volume.into()), payload);
        origins.pack(requests.iter().map(|request| request.origin.code().into()), payload);
        if self.op.is_none() {
            pack_bits(requests.iter().map(|request| request.op as u64), 2, payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lode_types::Origin;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_match_comparing_all_pairs(
            values in proptest::collection::vec((0u64..50).prop_flat_map(|n| prop_oneof![Just(n * 600), any::<u64>()]), 1..20),
            cut in 0usize..20,
        ) {
            let request = |&offset_bytes: &u64| TraceRequest {
                time_ns: offset_bytes / 3, offset_bytes, length_bytes: 1, volume: 0, op: RequestOp::Read,
                origin: Origin::UNKNOWN,
            };
            let requests: Vec<_> = values.iter().map(request).collect();
            let (left, right) = requests.split_at(cut.min(requests.len()));
            let ranges = match (Ranges::of(left), Ranges::of(right)) {
                (Some(left), Some(right)) => left.join(right),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => unreachable!("there is a value"),
            };
            prop_assert_eq!(Some(ranges), Ranges::of(&requests));
            let steps = requests.windows(2).map(|pair| i128::from(pair[1].time_ns) - i128::from(pair[0].time_ns));
            let least_step = ranges.steps.map(|steps| i128::from((steps.least ^ SIGN) as i64));
            prop_assert_eq!(least_step, steps.min());
            let Range { least, most, unit } = ranges.offsets;
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
