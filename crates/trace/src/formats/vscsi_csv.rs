//! CloudPhysics VMware traces as text, with the header `version,time,op,size,lbn`.
//!
//! Time is in seconds (whole or with up to nine decimals), op a SCSI opcode in hexadecimal, size in bytes,
//! lbn in 512-byte blocks. The opcodes mean what they mean in [`super::vscsi`].

use lode_types::{OriginFields, TraceRequest};

use super::vscsi::{op_of, request_of};
use super::{Decoder, Format, head_lines};
use crate::error::{ErrorKind, Fault, TraceError};
use crate::feed::{Feed, More, Parsed};
use crate::scan::{Fields, decimal, hex};

pub(crate) static FORMAT: Format = Format {
    name: "vscsi-csv",
    about: "CloudPhysics VMware CSV with the header version,time,op,size,lbn",
    endings: &[],
    default_unit_bytes: None,
    units_told: true,
    has_times: |_| true,
    origins: |_| OriginFields::NONE,
    detect: |head| head_lines(head).next().is_some_and(is_header),
    decoder: |_| Box::new(VscsiCsv),
};

struct VscsiCsv;

impl Decoder for VscsiCsv {
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        let volume = feed.only_volume()?;
        feed.lines(out, |line, _| parse(line, volume))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use lode_types::{Origin, RequestOp};

    #[test]
    fn reads_fields() {
        let Ok(Parsed::Request(request)) = parse(b"1,5633898.25,2a,6656,40409911", 0) else {
            panic!("a request")
        };
        let expected = TraceRequest {
            time_ns: 5_633_898_250_000_000,
            offset_bytes: 40_409_911 * 512,
            length_bytes: 6656,
            volume: 0,
            op: RequestOp::Write,
            origin: Origin::UNKNOWN,
        };
        assert_eq!(request, expected);
        assert!(matches!(parse(b"1,5,0x28,512,1", 0), Ok(Parsed::Request(r)) if r.op == RequestOp::Read));
        assert!(matches!(parse(b"1,5,35,0,0", 0), Ok(Parsed::OtherCommand)));
        assert!(matches!(
            parse(b"version,time (s),op (hex SCSI opcode),size (bytes),lbn", 0),
            Ok(Parsed::Nothing)
        ));
    }

    #[test]
    fn refuses_faults() {
        for (line, kind) in [
            ("2,5,28,512,1", ErrorKind::Malformed),
            ("1,-5,28,512,1", ErrorKind::NegativeTime),
            ("1,5s,28,512,1", ErrorKind::Malformed),
            ("1,5,128,512,1", ErrorKind::Malformed),
            ("1,5,2g,512,1", ErrorKind::Malformed),
            ("1,5,28,4294967296,1", ErrorKind::OutOfRange),
            ("1,5,28,512,36028797018963968", ErrorKind::OutOfRange),
            ("1,5,28,512", ErrorKind::Malformed),
            ("1,5,28,512,1,1", ErrorKind::Malformed),
        ] {
            assert_eq!(parse(line.as_bytes(), 0).err().map(|fault| fault.kind), Some(kind), "{line}");
        }
    }
}
