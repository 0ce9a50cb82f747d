//! CloudPhysics VMware traces, version 1: 32-byte little-endian records.
//!
//! `u32 serial, u32 length (bytes), u32 scatter-gather entries, u16 SCSI opcode, u16 version (0x0100),
//! u64 first block (512 bytes), u64 time (us)`. READ and WRITE of 6, 10, 12 and 16 bytes are requests; every
//! other command is counted as such. There is no volume name: the only volume is named after the file.

use lode_types::{Origin, RequestOp, SECTOR_BYTES, TraceRequest};

use super::{Decoder, Format};
use crate::compact::Recorded;
use crate::error::{ErrorKind, Fault, TraceError};
use crate::feed::{Feed, More, Parsed, check_request};
use crate::fixed::{u32_le, u64_le};

pub(crate) static FORMAT: Format = Format {
    name: "vscsi",
    about: "CloudPhysics VMware binary: 32-byte records, version 1",
    endings: &["vscsi"],
    default_unit_bytes: None,
    units_told: true,
    recorded: |_| Recorded::TIMES,
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
