//! libCacheSim's binary "oracleGeneral" traces: packed little-endian records of 24 bytes.
//!
//! `u32 time (s), u64 object, u32 size (bytes), i64 next access`. The object's number counts units of
//! [`crate::ReadOptions::unit_bytes`], and a request is the object's size from there on; the next access is not used.
//! There is no operation: all requests count as reads. There is no volume name: the only volume is named after the
//! file. The default unit, 4 KiB, keeps objects of up to that size apart.

use lode_types::{Origin, OriginFields, RequestOp, TraceRequest};

use super::fields::{TimeUnit, units};
use super::{Decoder, Format};
use crate::error::{ErrorKind, Fault, TraceError};
use crate::feed::{Feed, More, Parsed};
use crate::fixed::{u32_le, u64_le};

pub(crate) static FORMAT: Format = Format {
    name: "oracle-general",
    about: "libCacheSim oracleGeneral binary; object numbers count --unit (4 KiB); all reads",
    endings: &["oraclegeneral", "oraclegeneral.bin"],
    default_unit_bytes: Some(UNIT_BYTES),
    units_told: true,
    has_times: |_| true,
    origins: |_| OriginFields::NONE,
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
    Ok(Parsed::Request(TraceRequest {
        time_ns,
        offset_bytes,
        length_bytes,
        volume,
        op: RequestOp::Read,
        origin: Origin::UNKNOWN,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: u32, object: u64, size: u32, next: i64) -> Vec<u8> {
        [&time.to_le_bytes()[..], &object.to_le_bytes(), &size.to_le_bytes(), &next.to_le_bytes()].concat()
    }

    #[test]
    fn objects_count_units() {
        let Ok(Parsed::Request(request)) = request_of(7, 42_932_745, 512, 512, 3) else {
            panic!("a request")
        };
        let expected = TraceRequest {
            time_ns: 7_000_000_000,
            offset_bytes: 42_932_745 * 512,
            length_bytes: 512,
            volume: 3,
            op: RequestOp::Read,
            origin: Origin::UNKNOWN,
        };
        assert_eq!(request, expected);
        let far = request_of(7, 1 << 52, 512, UNIT_BYTES, 0).err();
        assert_eq!(far.map(|fault| fault.kind), Some(ErrorKind::OutOfRange));
    }

    #[test]
    fn detection_wants_a_later_next_access_in_every_record() {
        let good: Vec<_> =
            (0..8).map(|i| record(i, 5, 4096, if i < 7 { i64::from(i) + 1 } else { -1 })).collect();
        assert!(detect(&good.concat()));
        assert!(!detect(&good[..7].concat()));
        for bad in [
            record(7, 5, 0, -1),
            record(6, 5, 1, 7),
            record(7, 5, 1, 1 << 32),
            record(5, 5, 1, -1),
            record(7, 5, 1, -2),
        ] {
            let mut records = good.clone();
            records[7] = bad;
            assert!(!detect(&records.concat()));
        }
        // Block numbers one after the other, four bytes each.
        let scan: Vec<u8> = (0u32..600).flat_map(u32::to_le_bytes).collect();
        assert!(!detect(&scan));
    }
}
