//! CloudPhysics VMware traces, version 1: 32-byte little-endian records.
//!
//! `u32 serial, u32 length (bytes), u32 scatter-gather entries, u16 SCSI opcode, u16 version (0x0100),
//! u64 first block (512 bytes), u64 time (us)`. READ and WRITE of 6, 10, 12 and 16 bytes are requests; every
//! other command is counted as such. There is no volume name: the only volume is named after the file.

use lode_types::{Origin, OriginFields, RequestOp, SECTOR_BYTES, TraceRequest};

use super::{Decoder, Format};
use crate::error::{ErrorKind, Fault, TraceError};
use crate::feed::{Feed, More, Parsed, check_request};
use crate::fixed::{u32_le, u64_le};

pub(crate) static FORMAT: Format = Format {
    name: "vscsi",
    about: "CloudPhysics VMware binary: 32-byte records, version 1",
    endings: &["vscsi"],
    default_unit_bytes: None,
    units_told: true,
    has_times: |_| true,
    origins: |_| OriginFields::NONE,
    detect,
    decoder: |_| Box::new(Vscsi),
};

const RECORD_BYTES: usize = 32;
const VERSION: u16 = 0x0100;
const DETECT_RECORDS: usize = 32;
const US_NS: u64 = 1000;
const CUT: Fault = Fault::new(ErrorKind::Truncated, "whole records of 32 bytes up to the end");

struct Vscsi;

/// Whether the first records all are of version 1, have a one-byte opcode and are mostly requests.
fn detect(head: &[u8]) -> bool {
    let (records, _) = head.as_chunks::<RECORD_BYTES>();
    let first = &records[..records.len().min(DETECT_RECORDS)];
    let fits = |record: &[u8; RECORD_BYTES]| u16_at(record, 14) == VERSION && u16_at(record, 12) <= 0xff;
    let requests = first.iter().filter(|record| matches!(parse(record, 0), Ok(Parsed::Request(_)))).count();
    !first.is_empty() && first.iter().all(fits) && 2 * requests > first.len()
}

impl Decoder for Vscsi {
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        let volume = feed.only_volume()?;
        feed.records(out, CUT, |record, _| parse(record, volume))
    }
}

#[inline]
fn parse(record: &[u8; RECORD_BYTES], volume: u32) -> Result<Parsed, Fault> {
    if u16_at(record, 14) != VERSION {
        return Err(Fault::malformed("version 0x0100 at byte 14 of the record"));
    }
    let Some(op) = op_of(u16_at(record, 12).into()) else { return Ok(Parsed::OtherCommand) };
    let request =
        request_of(op, u64_le(record, 16), u32_le(record, 4), u64_le(record, 24).checked_mul(US_NS), volume)?;
    check_request(&request)?;
    Ok(Parsed::Request(request))
}

/// What the SCSI operation code asks, if it is a READ or WRITE of 6, 10, 12 or 16 bytes.
pub(super) fn op_of(opcode: u64) -> Option<RequestOp> {
    match opcode {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(RequestOp::Read),
        0x0a | 0x2a | 0xaa | 0x8a => Some(RequestOp::Write),
        _ => None,
    }
}

/// A request on sector `lbn`; `time_ns` is `None` when it did not fit.
#[inline]
pub(super) fn request_of(
    op: RequestOp,
    lbn: u64,
    length_bytes: u32,
    time_ns: Option<u64>,
    volume: u32,
) -> Result<TraceRequest, Fault> {
    let time_ns = time_ns.ok_or(Fault::new(ErrorKind::OutOfRange, "a time below 2^64 ns"))?;
    let offset_bytes =
        lbn.checked_mul(SECTOR_BYTES).ok_or(Fault::new(ErrorKind::OutOfRange, "a first block below 2^55"))?;
    Ok(TraceRequest { time_ns, offset_bytes, length_bytes, volume, op, origin: Origin::UNKNOWN })
}

fn u16_at(record: &[u8; RECORD_BYTES], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first record of the published two-hour trace.
    const RECORD: [u8; RECORD_BYTES] = [
        0xf4, 0, 0, 0x80, 0, 2, 0, 0, 1, 0, 0, 0, 0x2a, 0, 0, 1, 0x09, 0x1a, 0x8f, 2, 0, 0, 0, 0, 0x22, 0xcf,
        0x82, 0xbe, 0x1f, 5, 0, 0,
    ];

    fn with_opcode(opcode: u8) -> [u8; RECORD_BYTES] {
        let mut record = RECORD;
        record[12] = opcode;
        record
    }

    #[test]
    fn reads_a_record() {
        let Ok(Parsed::Request(request)) = parse(&RECORD, 3) else { panic!("a request") };
        let expected = TraceRequest {
            time_ns: 5_633_898_368_802_000,
            offset_bytes: 42_932_745 * 512,
            length_bytes: 512,
            volume: 3,
            op: RequestOp::Write,
            origin: Origin::UNKNOWN,
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn knows_every_read_and_write() {
        for (opcode, op) in [
            (8, RequestOp::Read),
            (0xa8, RequestOp::Read),
            (0x88, RequestOp::Read),
            (10, RequestOp::Write),
            (0xaa, RequestOp::Write),
            (0x8a, RequestOp::Write),
        ] {
            assert!(matches!(parse(&with_opcode(opcode), 0), Ok(Parsed::Request(r)) if r.op == op));
        }
        for opcode in [0x00, 0x12, 0x25, 0x35, 0x42, 0x91] {
            assert!(matches!(parse(&with_opcode(opcode), 0), Ok(Parsed::OtherCommand)));
        }
    }

    #[test]
    fn refuses_faults_and_foreign_bytes() {
        let mut no_version = RECORD;
        no_version[15] = 2;
        let mut no_length = RECORD;
        no_length[5] = 0;
        let mut far = RECORD;
        far[23] = 0x80;
        let mut late = RECORD;
        late[31] = 0x80;
        for (record, kind) in [
            (no_version, ErrorKind::Malformed),
            (no_length, ErrorKind::ZeroLength),
            (far, ErrorKind::OutOfRange),
            (late, ErrorKind::OutOfRange),
        ] {
            assert_eq!(parse(&record, 0).err().map(|fault| fault.kind), Some(kind));
        }
        assert!(detect(&RECORD));
        assert!(!detect(&no_version) && !detect(&RECORD[..31]) && !detect(&with_opcode(0)));
    }
}
