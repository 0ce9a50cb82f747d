//! DiskSim's ASCII traces: `arrival device start size flags`, between blanks.
//!
//! Arrival is in milliseconds, start and size in 512-byte sectors, flags are in hexadecimal: bit 0 set is a read, else
//! it is a write; the other bits (how urgent it is) are not used. Each device is a volume, under its number.

use lode_types::{OriginFields, RequestOp};

use super::columns::{Columns, Row};
use super::fields::TimeUnit;
use super::{Format, lines};
use crate::error::Fault;
use crate::feed::Parsed;
use crate::scan::hex;
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "disksim",
    about: "DiskSim ASCII: arrival (ms) device start size (sectors) flags (bit 0: read)",
    endings: &["disksim"],
    default_unit_bytes: None,
    units_told: false,
    has_times: |_| true,
    origins: |_| OriginFields::NONE,
    detect: |head| Columns::of(head).is_some_and(|columns| columns.may_be_disksim()),
    decoder: |_| lines::decoder(parse),
};

fn parse(line: &[u8], volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
    let Some(row) = Row::of(line)? else { return Ok(Parsed::Nothing) };
    let expected = "an arrival time of zero or more milliseconds, below 2^64 ns, as first field";
    let time_ns = TimeUnit::Milliseconds.ns(Some(row.time), expected)?;
    let flags = hex(row.op).ok_or(Fault::malformed("flags in hexadecimal as fifth field"))?;
    let op = if flags & 1 == 1 { RequestOp::Read } else { RequestOp::Write };
    row.in_sectors(time_ns, op, volumes)
}

#[cfg(test)]
mod tests {
    use lode_types::{Origin, TraceRequest};

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn reads_fields() {
        for (flags, op) in
            [("1", RequestOp::Read), ("0", RequestOp::Write), ("8", RequestOp::Write), ("b", RequestOp::Read)]
        {
            let line = format!("25.911729\t18\t28601\t12\t{flags}");
            let Ok(Parsed::Request(request)) = parse(line.as_bytes(), &mut VolumeTable::default()) else {
                panic!("a request")
            };
            let expected = TraceRequest {
                time_ns: 25_911_729,
                offset_bytes: 28_601 * 512,
                length_bytes: 6144,
                volume: 0,
                op,
                origin: Origin::UNKNOWN,
            };
            assert_eq!(request, expected);
        }
    }

    #[test]
    fn refuses_faults() {
        for (line, kind) in [
            ("-1.5 0 8 8 1", ErrorKind::NegativeTime),
            ("1.5 0 8 8 R", ErrorKind::Malformed),
            ("1.5 0 8 8 -1", ErrorKind::Malformed),
            ("1.5 0 36028797018963968 8 1", ErrorKind::OutOfRange),
        ] {
            let fault = parse(line.as_bytes(), &mut VolumeTable::default()).err();
            assert_eq!(fault.map(|fault| fault.kind), Some(kind), "{line}");
        }
        assert!(!(FORMAT.detect)(b"1.5 0 8 8 R\n"));
    }
}
