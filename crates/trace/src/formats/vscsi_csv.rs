//! CloudPhysics VMware traces as text, with the header `version,time,op,size,lbn`.
//!
//! Time is in seconds (whole or with up to nine decimals), op a SCSI opcode in hexadecimal, size in bytes,
//! lbn in 512-byte blocks. The opcodes mean what they mean in [`super::vscsi`].

use super::vscsi::{op_of, request_of};
use super::{Format, head_lines, lines};
use crate::compact::Recorded;
use crate::error::{ErrorKind, Fault};
use crate::feed::Parsed;
use crate::scan::{Fields, decimal, hex};

pub(crate) static FORMAT: Format = Format {
    name: "vscsi-csv",
    about: "CloudPhysics VMware CSV with the header version,time,op,size,lbn",
    endings: &[],
    default_unit_bytes: None,
    units_told: true,
    recorded: |_| Recorded::TIMES,
    detect: |head| head_lines(head).next().is_some_and(is_header),
    decoder: |_| lines::decoder_of_one(|line, _, volume| parse(line, volume)),
};

/// Column titles may carry their units, as in `time (s)`.
fn is_header(line: &[u8]) -> bool {
    let mut titles = line.split(|&b| b == b',').map(<[u8]>::trim_ascii_start);
    let in_order = [&b"version"[..], b"time", b"op", b"size", b"lbn"]
        .iter()
        .all(|title| titles.next().is_some_and(|found| found.starts_with(title)));
    in_order && titles.next().is_none()
}

fn parse(line: &[u8], volume: u32) -> Result<Parsed, Fault> {
    if line.is_empty() || is_header(line) {
        return Ok(Parsed::Nothing);
    }
    let mut fields = Fields::new(line);
    let version = fields.until(b',').and_then(decimal);
    if version != Some(1) {
        return Err(Fault::malformed("version 1 as first field"));
    }
    let time = fields.until(b',').ok_or(Fault::malformed("a time in seconds as second field"))?;
    if time.first() == Some(&b'-') {
        return Err(Fault::new(ErrorKind::NegativeTime, "a time of zero or more seconds as second field"));
    }
    let mut seconds = Fields::new(time);
    let time_ns = seconds.seconds_as_ns().filter(|_| seconds.rest.is_empty());
    let time_ns = time_ns.ok_or(Fault::malformed("a time below 2^64 ns, in seconds, as second field"))?;
    let opcode = fields.until(b',').and_then(hex).filter(|&opcode| opcode <= 0xff);
    let opcode = opcode.ok_or(Fault::malformed("a SCSI opcode of one byte in hexadecimal as third field"))?;
    let size =
        fields.until(b',').and_then(decimal).ok_or(Fault::malformed("a size in bytes as fourth field"))?;
    let lbn = decimal(fields.rest).ok_or(Fault::malformed("a block number as fifth and last field"))?;
    let Some(op) = op_of(opcode) else { return Ok(Parsed::OtherCommand) };
    let length_bytes =
        u32::try_from(size).map_err(|_| Fault::new(ErrorKind::OutOfRange, "a size below 4 GiB"))?;
    request_of(op, lbn, length_bytes, Some(time_ns), volume).map(Parsed::Request)
}
