//! Alibaba cloud block storage ("An In-Depth Analysis of Cloud Block Storage Workloads", IISWC 2020; the published
//! description is recalled): `device_id,opcode,offset,length,timestamp`.
//!
//! Opcode is R or W, offset and length are in bytes, the timestamp in microseconds. Each device is a volume, under its
//! number; a title line is passed over.

use lode_types::{Origin, OriginFields, TraceRequest};

use super::fields::{TimeUnit, is_title, length, number, read_or_write};
use super::{Format, lines};
use crate::error::Fault;
use crate::feed::Parsed;
use crate::scan::Fields;
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "alibaba",
    about: "Alibaba block CSV: device,R|W,offset,length (bytes),time (us)",
    endings: &["alibaba"],
    default_unit_bytes: None,
    units_told: true,
    has_times: |_| true,
    origins: |_| OriginFields::NONE,
    detect: |head| lines::have_requests(head, parse),
    decoder: |_| lines::decoder(parse),
};

const TITLES: [&str; 5] = ["device", "opcode", "offset", "length", "timestamp"];

fn parse(line: &[u8], volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
    if line.is_empty() || is_title(line, &TITLES) {
        return Ok(Parsed::Nothing);
    }
    let mut fields = Fields::new(line);
    let device = fields.until(b',').filter(|device| device.iter().all(u8::is_ascii_digit));
    let device = device.ok_or(Fault::malformed("the number of a device as first field"))?;
    let op = read_or_write(fields.until(b','), "R or W as second field")?;
    let offset_bytes = number(fields.until(b','), "an offset in bytes below 2^64 as third field")?;
    let length_bytes = length(number(fields.until(b','), "a length in bytes as fourth field")?)?;
    let expected = "a time of zero or more microseconds, below 2^64 ns, as fifth and last field";
    let time_ns = TimeUnit::Microseconds.ns(Some(fields.rest), expected)?;
    let volume = volumes.lookup(device, <[u8]>::to_vec)?;
    Ok(Parsed::Request(TraceRequest {
        time_ns,
        offset_bytes,
        length_bytes,
        volume,
        op,
        origin: Origin::UNKNOWN,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use lode_types::RequestOp;

    #[test]
    fn reads_fields() {
        let mut volumes = VolumeTable::default();
        let Ok(Parsed::Request(request)) = parse(b"419,W,8792731648,16384,1577808144360767", &mut volumes)
        else {
            panic!("a request")
        };
        let expected = TraceRequest {
            time_ns: 1_577_808_144_360_767_000,
            offset_bytes: 8_792_731_648,
            length_bytes: 16384,
            volume: 0,
            op: RequestOp::Write,
            origin: Origin::UNKNOWN,
        };
        assert_eq!(request, expected);
        assert_eq!(volumes.names(), ["419"]);
        let title = b"device_id,opcode,offset,length,timestamp";
        assert!(matches!(parse(title, &mut volumes), Ok(Parsed::Nothing)));
    }

    #[test]
    fn refuses_faults() {
        for (line, kind) in [
            ("a,R,0,512,1", ErrorKind::Malformed),
            (",R,0,512,1", ErrorKind::VolumeName),
            ("1,X,0,512,1", ErrorKind::Malformed),
            ("1,R,18446744073709551616,512,1", ErrorKind::OutOfRange),
            ("1,R,0,4294967296,1", ErrorKind::OutOfRange),
            ("1,R,0,512,-1", ErrorKind::NegativeTime),
            ("1,R,0,512,18446744073709552", ErrorKind::OutOfRange),
            ("1,R,0,512", ErrorKind::Malformed),
            ("1,R,0,512,1,1", ErrorKind::Malformed),
        ] {
            let fault = parse(line.as_bytes(), &mut VolumeTable::default()).err();
            assert_eq!(fault.map(|fault| fault.kind), Some(kind), "{line}");
        }
    }
}
