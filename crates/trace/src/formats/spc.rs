//! SPC traces, in which UMass publishes Financial and WebSearch: `ASU,LBA,size,opcode,timestamp`, more fields may follow.
//!
//! LBA is in 512-byte blocks, as in UMass's traces; size is in bytes, opcode R or W in either case, timestamp in seconds.
//! Each application storage unit (ASU) is a volume, under its number. Fields behind the timestamp are not used.

use lode_types::{Origin, OriginFields, SECTOR_BYTES, TraceRequest};

use super::fields::{TimeUnit, length, number, read_or_write, units};
use super::{Format, lines};
use crate::error::Fault;
use crate::feed::Parsed;
use crate::scan::Fields;
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "spc",
    about: "SPC ASCII, as UMass's traces: ASU,LBA (512 B),size (bytes),R|W,time (s)",
    endings: &["spc"],
    default_unit_bytes: None,
    units_told: true,
    has_times: |_| true,
    origins: |_| OriginFields::NONE,
    detect: |head| lines::have_requests(head, parse),
    decoder: |_| lines::decoder(parse),
};

fn parse(line: &[u8], volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
    if line.is_empty() {
        return Ok(Parsed::Nothing);
    }
    let mut fields = Fields::new(line);
    let mut next = || fields.until(b',').map(<[u8]>::trim_ascii);
    let asu = next().filter(|asu| asu.iter().all(u8::is_ascii_digit));
    let asu = asu.ok_or(Fault::malformed("the number of an ASU as first field"))?;
    let lba = number(next(), "an LBA below 2^64 as second field")?;
    let size = number(next(), "a size in bytes as third field")?;
    let op = read_or_write(next(), "R or W as fourth field")?;
    let time = fields.rest.split(|&b| b == b',').next().map(<[u8]>::trim_ascii);
    let time_ns =
        TimeUnit::Seconds.ns(time, "a time of zero or more seconds, below 2^64 ns, as fifth field")?;
    let (offset_bytes, _) = units(lba, 1, SECTOR_BYTES)?;
    let volume = volumes.lookup(asu, <[u8]>::to_vec)?;
    Ok(Parsed::Request(TraceRequest {
        time_ns,
        offset_bytes,
        length_bytes: length(size)?,
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
        let expected = TraceRequest {
            time_ns: 26_214_000,
            offset_bytes: 303_574 * 512,
            length_bytes: 3584,
            volume: 0,
            op: RequestOp::Write,
            origin: Origin::UNKNOWN,
        };
        for line in
            ["0,303574,3584,w,0.026214", "0,303574,3584,W,0.026214,5,x", "0, 303574, 3584, w, 0.0262140"]
        {
            let Ok(Parsed::Request(request)) = parse(line.as_bytes(), &mut VolumeTable::default()) else {
                panic!("{line}")
            };
            assert_eq!(request, expected, "{line}");
        }
    }

    #[test]
    fn refuses_faults() {
        for (line, kind) in [
            ("x,8,512,r,0.5", ErrorKind::Malformed),
            (",8,512,r,0.5", ErrorKind::VolumeName),
            ("0,-8,512,r,0.5", ErrorKind::Malformed),
            ("0,36028797018963968,512,r,0.5", ErrorKind::OutOfRange),
            ("0,8,4294967296,r,0.5", ErrorKind::OutOfRange),
            ("0,8,512,x,0.5", ErrorKind::Malformed),
            ("0,8,512,r,-0.5", ErrorKind::NegativeTime),
            ("0,8,512,r,", ErrorKind::Malformed),
            ("0,8,512,r", ErrorKind::Malformed),
        ] {
            let fault = parse(line.as_bytes(), &mut VolumeTable::default()).err();
            assert_eq!(fault.map(|fault| fault.kind), Some(kind), "{line}");
        }
    }
}
