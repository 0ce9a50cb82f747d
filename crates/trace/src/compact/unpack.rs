//! Reading the columns of a block of requests; [`super::shape`] describes them. It must not do I/O.
//!
//! Columns are spread into arrays of numbers plane by plane, in loops that the compiler turns into vector instructions;
//! then one loop makes requests of them. Whether a block's values are allowed is decided from the greatest that its
//! columns can hold, so that it costs nothing for each request unless they come near the limits.

use lode_types::{Origin, RequestOp, TraceRequest};

use super::shape::{
    COLUMNS, COLUMNS_BYTES, Column, LENGTH, OFFSET, OPS_PER_BYTE, ORIGIN, ORIGIN_AT, PLANES, STEP, Shape,
    VOLUME, plane_bytes,
};
use crate::error::{ErrorKind, Fault};
use crate::feed::check_request;

/// Requests unpacked together: few enough that the nearest processor cache holds them and their columns.
const STRIP: usize = 256;
// Then every strip begins with a whole byte of every plane.
const _: () = assert!(STRIP.is_multiple_of(OPS_PER_BYTE));

const SHAPE: Fault = Fault::malformed("as many requests as the header announces, in columns that there are");
const SPAN: Fault = Fault::new(ErrorKind::OutOfRange, "an offset below 2^64 and a length below 4 GiB");
const NO_ORIGIN: Fault = Fault::malformed("origins whose flags say no, yes or nothing");
const NO_VOLUME: Fault = Fault::malformed("the number of a volume named before");

/// A plane of a block: bits below its own in a field, half bytes of a request, its bytes.
type Plane<'a> = (u32, u32, &'a [u8]);

/// A column as it is read.
struct Reading<'a> {
    least: u64,
    unit: u64,
    /// The largest number that a field can hold, and the largest one whose value is allowed.
    mask: u64,
    most: u64,
    planes: [Plane<'a>; PLANES.len()],
}

impl<'a> Reading<'a> {
    /// Takes the column of `count` requests from the front of `rest`. The fault when already the least value is above
    /// `limit`.
    fn take(
        column: &Column,
        count: usize,
        rest: &mut &'a [u8],
        limit: u64,
        fault: Fault,
    ) -> Result<Reading<'a>, Fault> {
        let unit = u64::from(column.unit);
        let most = limit.checked_sub(column.least).ok_or(fault)? / unit;
        let mut planes: [Plane<'a>; PLANES.len()] = [(0, 0, &[]); PLANES.len()];
        for (place, (shift, half_bytes)) in planes.iter_mut().zip(column.planes()) {
            let (plane, after) = rest.split_at_checked(plane_bytes(half_bytes, count)).ok_or(SHAPE)?;
            (*place, *rest) = ((shift, half_bytes, plane), after);
        }
        Ok(Reading { least: column.least, unit, mask: column.mask(), most, planes })
    }

    /// Puts the numbers of the requests from `first` on into `numbers`, which are zero in a column without planes.
    #[inline]
    fn spread(&self, first: usize, numbers: &mut [u64]) {
        for &(shift, half_bytes, plane) in &self.planes {
            let plane = plane.get(plane_bytes(half_bytes, first)..).unwrap_or_default();
            match half_bytes {
                16 => spread_whole(plane, shift, numbers, |bytes| u64::from_le_bytes(*bytes)),
                8 => spread_whole(plane, shift, numbers, |bytes| u32::from_le_bytes(*bytes).into()),
                4 => spread_whole(plane, shift, numbers, |bytes| u16::from_le_bytes(*bytes).into()),
                2 => spread_whole(plane, shift, numbers, |&[byte]| byte.into()),
                1 => spread_halves(plane, shift, numbers),
                _ => break,
            }
        }
    }

    /// Turns the numbers of steps into times, from `now_ns` on; gives the time after them.
    fn walk(&self, mut now_ns: u64, numbers: &[u64], times: &mut [u64]) -> u64 {
        let (least, unit) = (self.least, self.unit);
        for (time_ns, number) in times.iter_mut().zip(numbers) {
            *time_ns = now_ns;
            now_ns = now_ns.wrapping_add(least.wrapping_add(number.wrapping_mul(unit)));
        }
        now_ns
    }

    /// Whether all of these numbers stand for values that are allowed.
    #[inline]
    fn allows(&self, numbers: &[u64]) -> bool {
        self.mask <= self.most || numbers.iter().all(|&number| number <= self.most)
    }

    /// The number of one request: what [`Reading::spread`] does, slowly.
    fn number(&self, index: usize) -> u64 {
        let part = |&(shift, half_bytes, plane): &Plane| {
            let start = index * half_bytes as usize / 2;
            let bytes = plane.get(start..).unwrap_or_default().iter().take(half_bytes.div_ceil(2) as usize);
            let part = bytes.rev().fold(0, |part, &byte| part << 8 | u64::from(byte));
            let part = if half_bytes == 1 { part >> (4 * (index % 2)) & 0xf } else { part };
            part << shift
        };
        self.planes.iter().map(part).sum()
    }

    /// The value of a number that is allowed.
    #[inline(always)]
    fn value(&self, number: u64) -> u64 {
        self.least.wrapping_add(number.wrapping_mul(self.unit))
    }

    /// The greatest value that is allowed and that a field can stand for.
    fn greatest(&self) -> u64 {
        self.value(self.mask.min(self.most))
    }
}

/// Adds a plane of whole integers to the numbers; the first plane of a column replaces them.
#[inline(always)]
fn spread_whole<const N: usize>(plane: &[u8], shift: u32, numbers: &mut [u64], read: fn(&[u8; N]) -> u64) {
    let parts = numbers.iter_mut().zip(plane.as_chunks::<N>().0);
    if shift == 0 {
        parts.for_each(|(number, bytes)| *number = read(bytes));
    } else {
        parts.for_each(|(number, bytes)| *number |= read(bytes) << shift);
    }
}

/// Adds a plane of half bytes likewise.
#[inline(always)]
fn spread_halves(plane: &[u8], shift: u32, numbers: &mut [u64]) {
    if shift == 0 {
        numbers.fill(0);
    }
    let (pairs, last) = numbers.as_chunks_mut::<2>();
    for ([low, high], &byte) in pairs.iter_mut().zip(plane) {
        *low |= u64::from(byte & 0xf) << shift;
        *high |= u64::from(byte >> 4) << shift;
    }
    if let ([number], Some(&byte)) = (last, plane.last()) {
        *number |= u64::from(byte & 0xf) << shift;
    }
}

/// The numbers of a strip of requests, column by column.
struct Strip {
    numbers: [[u64; STRIP]; COLUMNS],
    times: [u64; STRIP],
    ops: [[RequestOp; OPS_PER_BYTE]; STRIP / OPS_PER_BYTE],
}

/// The columns of one block.
struct Block<'a> {
    base_ns: u64,
    columns: [Reading<'a>; COLUMNS],
    /// The operation of all requests, or the column of operations.
    ops: Result<RequestOp, &'a [u8]>,
}

impl<'a> Block<'a> {
    fn new(shape: &Shape, count: usize, mut columns: &'a [u8], last_volume: u64) -> Result<Block<'a>, Fault> {
        let rest = &mut columns;
        let mut take = |column: usize, limit: u64, fault| {
            Reading::take(&shape.columns[column], count, rest, limit, fault)
        };
        // Steps are taken modulo 2^64 and so all allowed.
        let steps = Reading { most: u64::MAX, ..take(STEP, u64::MAX, SPAN)? };
        let offsets = take(OFFSET, u64::MAX, SPAN)?;
        let lengths = take(LENGTH, u32::MAX.into(), SPAN)?;
        let volumes = take(VOLUME, last_volume, NO_VOLUME)?;
        let origins = take(ORIGIN, u32::MAX.into(), NO_ORIGIN)?;
        let ops = shape.op.ok_or(columns);
        Ok(Block { base_ns: shape.base_ns(), columns: [steps, offsets, lengths, volumes, origins], ops })
    }

    /// Whether every request that these columns can make passes [`check_request`].
    fn are_whole(&self) -> bool {
        let [_, offsets, lengths, ..] = &self.columns;
        lengths.least > 0 && offsets.greatest().checked_add(lengths.greatest()).is_some()
    }

    /// Appends `count` requests. False when some request is not allowed; which one, and why,
    /// [`Block::append_singly`] says.
    fn append(&self, count: usize, out: &mut Vec<TraceRequest>) -> bool {
        let common = self.ops.unwrap_or(RequestOp::Read);
        let mut strip = Strip {
            numbers: [[0; STRIP]; COLUMNS],
            times: [0; STRIP],
            ops: [[common; OPS_PER_BYTE]; STRIP / OPS_PER_BYTE],
        };
        let are_whole = self.are_whole();
        let mut now_ns = self.base_ns;
        let mut good = true;
        for first in (0..count).step_by(STRIP) {
            let some = STRIP.min(count - first);
            for (column, numbers) in self.columns.iter().zip(&mut strip.numbers) {
                column.spread(first, &mut numbers[..some]);
                good &= column.allows(&numbers[..some]);
            }
            if let Err(codes) = self.ops {
                let codes = codes.get(first / OPS_PER_BYTE..).unwrap_or_default();
                for (ops, &four) in strip.ops.iter_mut().zip(codes) {
                    *ops = FOUR_OPS[usize::from(four)];
                }
            }
            let begin = out.len();
            now_ns = self.columns[STEP].walk(now_ns, &strip.numbers[STEP][..some], &mut strip.times);
            self.join(&strip, some, out);
            if self.columns[ORIGIN].mask > 0 {
                good &= sign(&strip.numbers[ORIGIN], &mut out[begin..]);
            }
            good &= are_whole || out[begin..].iter().all(|request| check_request(request).is_ok());
        }
        good
    }

    /// Appends the first `some` requests of a strip whose times are known.
    ///
    /// Not inlined: in a function of its own the loop keeps its variables in registers.
    #[inline(never)]
    fn join(&self, strip: &Strip, some: usize, out: &mut Vec<TraceRequest>) {
        let [_, offsets, lengths, volumes, _] =
            self.columns.each_ref().map(|column| (column.least, column.unit));
        let [_, offset_numbers, length_numbers, volume_numbers, _] = &strip.numbers;
        let places = strip.times[..some].iter().zip(offset_numbers);
        let sizes = length_numbers.iter().zip(volume_numbers).zip(strip.ops.as_flattened());
        out.extend(places.zip(sizes).map(move |((&time_ns, offset), ((length, volume), &op))| {
            TraceRequest {
                time_ns,
                offset_bytes: offsets.0.wrapping_add(offset.wrapping_mul(offsets.1)),
                length_bytes: lengths.0.wrapping_add(length.wrapping_mul(lengths.1)) as u32,
                volume: volumes.0.wrapping_add(*volume) as u32,
                op,
                origin: Origin::UNKNOWN,
            }
        }));
    }

    /// Appends `count` requests one by one, up to the first that is not allowed.
    fn append_singly(&self, count: usize, out: &mut Vec<TraceRequest>) -> Result<(), Fault> {
        let mut time_ns = self.base_ns;
        for index in 0..count {
            let numbers = self.columns.each_ref().map(|column| column.number(index));
            let too_large = |column: usize| numbers[column] > self.columns[column].most;
            if too_large(OFFSET) || too_large(LENGTH) {
                return Err(SPAN);
            }
            if too_large(VOLUME) {
                return Err(NO_VOLUME);
            }
            let value = |column: usize| self.columns[column].value(numbers[column]);
            let origin = Origin::from_code(value(ORIGIN) as u32).ok_or(NO_ORIGIN)?;
            let four = |codes: &[u8]| codes.get(index / OPS_PER_BYTE).map_or(0, |&four| usize::from(four));
            let request = TraceRequest {
                time_ns,
                offset_bytes: value(OFFSET),
                length_bytes: value(LENGTH) as u32,
                volume: value(VOLUME) as u32,
                op: self.ops.unwrap_or_else(|codes| FOUR_OPS[four(codes)][index % OPS_PER_BYTE]),
                origin,
            };
            check_request(&request)?;
            out.push(request);
            time_ns = time_ns.wrapping_add(value(STEP));
        }
        Ok(())
    }
}

/// Says who asks, of requests of which that is not said yet; false when there is a bad code.
fn sign(codes: &[u64], requests: &mut [TraceRequest]) -> bool {
    requests.iter_mut().zip(codes).all(|(request, &code)| {
        let origin = Origin::from_code(code as u32);
        request.origin = origin.unwrap_or_default();
        origin.is_some()
    })
}

/// Appends the `count` requests in `payload`, on some of the first `volumes` volumes. A bad one ends the block. A version
/// without origins has none in its blocks.
pub(crate) fn unpack(
    payload: &[u8],
    base_ns: u64,
    count: usize,
    volumes: u32,
    allows_origins: bool,
    out: &mut Vec<TraceRequest>,
) -> Result<(), Fault> {
    let (shape, columns) = payload.split_first_chunk::<COLUMNS_BYTES>().ok_or(SHAPE)?;
    let shape = Shape::decode(shape, base_ns).ok_or(SHAPE)?;
    if shape.payload_bytes(count) != payload.len() || (payload[ORIGIN_AT] > 0 && !allows_origins) {
        return Err(SHAPE);
    }
    let last_volume = volumes.checked_sub(1).ok_or(NO_VOLUME)?;
    let block = Block::new(&shape, count, columns, last_volume.into())?;
    let before = out.len();
    out.reserve(count);
    if block.append(count, out) {
        return Ok(());
    }
    out.truncate(before);
    block.append_singly(count, out)
}

/// The operations of four requests by the byte that they share.
const FOUR_OPS: [[RequestOp; OPS_PER_BYTE]; 256] = {
    let ops = [RequestOp::Read, RequestOp::Write, RequestOp::Trim, RequestOp::Flush];
    let mut all = [[RequestOp::Read; OPS_PER_BYTE]; 256];
    let mut byte = 0;
    while byte < all.len() {
        let mut at = 0;
        while at < OPS_PER_BYTE {
            all[byte][at] = ops[byte >> (2 * at) & 3];
            at += 1;
        }
        byte += 1;
    }
    all
};
