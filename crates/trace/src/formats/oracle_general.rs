//! libCacheSim's binary "oracleGeneral" traces: packed little-endian records of 24 bytes.
//!
//! `u32 time (s), u64 object, u32 size (bytes), i64 next access`. The object's number counts units of
//! [`crate::ReadOptions::unit_bytes`], and a request is the object's size from there on; the next access is not used.
//! There is no operation: all requests count as reads. There is no volume name: the only volume is named after the
//! file. The default unit, 4 KiB, keeps objects of up to that size apart.

use lode_types::{RequestOp, TraceRequest};

use super::fields::{TimeUnit, units};
use super::{Decoder, Format};
use crate::compact::Recorded;
use crate::error::{ErrorKind, Fault, TraceError};
use crate::feed::{Feed, More, Parsed};
use crate::fixed::{u32_le, u64_le};

pub(crate) static FORMAT: Format = Format {
    name: "oracle-general",
    about: "libCacheSim oracleGeneral binary; object numbers count --unit (4 KiB); all reads",
    endings: &["oraclegeneral", "oraclegeneral.bin"],
    default_unit_bytes: Some(UNIT_BYTES),
    units_told: true,
    recorded: |_| Recorded::TIMES,
    detect,
    decoder: |_| Box::new(OracleGeneral),
};

/// Bytes that an object's number counts by default.
pub(super) const UNIT_BYTES: u64 = 4096;
const RECORD_BYTES: usize = 24;
const CUT: Fault = Fault::new(ErrorKind::Truncated, "whole records of 24 bytes up to the end");
/// Fewer records could be anything.
const DETECT_RECORDS: usize = 8;
const NO_NEXT_ACCESS: u64 = u64::MAX;

struct OracleGeneral;

impl Decoder for OracleGeneral {
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        let (volume, unit_bytes) = (feed.only_volume()?, feed.unit_bytes);
        feed.records(out, CUT, |record: &[u8; RECORD_BYTES], _| {
            request_of(u32_le(record, 0).into(), u64_le(record, 4), u32_le(record, 12), unit_bytes, volume)
        })
    }
}

/// Whether times never go back, objects have a size, and each record's next access comes after it: never (-1), or at a
/// later record of one of the first 2^32.
fn detect(head: &[u8]) -> bool {
    let (records, _) = head.as_chunks::<RECORD_BYTES>();
    let in_order = |pair: &[[u8; RECORD_BYTES]]| u32_le(&pair[0], 0) <= u32_le(&pair[1], 0);
    let fits = |(index, record): (usize, &[u8; RECORD_BYTES])| {
        let next = u64_le(record, 16);
        let later = next > index as u64 && next >> 32 == 0;
        u32_le(record, 12) > 0 && (next == NO_NEXT_ACCESS || later)
    };
    records.len() >= DETECT_RECORDS
        && records.windows(2).all(in_order)
        && records.iter().enumerate().all(fits)
}

/// The read of an object of `length_bytes` at a time in seconds.
#[inline]
pub(super) fn request_of(
    time_s: u64,
    object: u64,
    length_bytes: u32,
    unit_bytes: u64,
    volume: u32,
) -> Result<Parsed, Fault> {
    let late = Fault::new(ErrorKind::OutOfRange, "a time below 2^64 ns");
    let time_ns = time_s.checked_mul(10_u64.pow(TimeUnit::Seconds as u32)).ok_or(late)?;
    let far =
        Fault::new(ErrorKind::OutOfRange, "an object number that times the unit (--unit) is below 2^64");
    let (offset_bytes, _) = units(object, 0, unit_bytes).map_err(|_| far)?;
    Ok(Parsed::request(time_ns, RequestOp::Read, (offset_bytes, length_bytes), volume))
}
