//! Text of the SSD simulators SSDsim and MQSim: `time device start size op`, between blanks.
//!
//! Time is in nanoseconds, start and size in 512-byte sectors, op is 1 for a read and 0 for a write. Each device is a
//! volume, under its number.

use lode_types::{OriginFields, RequestOp};

use super::columns::{Columns, Row};
use super::fields::TimeUnit;
use super::{Format, lines};
use crate::error::Fault;
use crate::feed::Parsed;
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "ssdsim",
    about: "SSDsim and MQSim text: time (ns) device start size (sectors) 1|0 (read|write)",
    endings: &["ssdsim", "mqsim"],
    default_unit_bytes: None,
    units_told: false,
    has_times: |_| true,
    origins: |_| OriginFields::NONE,
    detect: |head| Columns::of(head).is_some_and(|columns| columns.may_be_ssdsim()),
    decoder: |_| lines::decoder(parse),
};

fn parse(line: &[u8], volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
    let Some(row) = Row::of(line)? else { return Ok(Parsed::Nothing) };
    let time_ns =
        TimeUnit::Nanoseconds.ns(Some(row.time), "a time from 0 to below 2^64 ns as first field")?;
    let op = if row.bit()? { RequestOp::Read } else { RequestOp::Write };
    row.in_sectors(time_ns, op, volumes)
}

#[cfg(test)]
mod tests {
    use lode_types::{Origin, TraceRequest};

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn reads_fields() {
        let mut volumes = VolumeTable::default();
        assert!(parse(b"0 0 303567 7 0", &mut volumes).is_ok());
        let Ok(Parsed::Request(request)) = parse(b" 26214000 14\t303574 7 1 ", &mut volumes) else {
            panic!("a request")
        };
        let expected = TraceRequest {
            time_ns: 26_214_000,
            offset_bytes: 303_574 * 512,
            length_bytes: 3584,
            volume: 1,
            op: RequestOp::Read,
            origin: Origin::UNKNOWN,
        };
        assert_eq!(request, expected);
        assert_eq!(volumes.names(), ["0", "14"]);
    }

    #[test]
    fn refuses_faults() {
        for (line, kind) in [
            ("-1 0 8 8 1", ErrorKind::NegativeTime),
            ("18446744073709551616 0 8 8 1", ErrorKind::OutOfRange),
            ("1 x 8 8 1", ErrorKind::Malformed),
            ("1 0 8 8 2", ErrorKind::Malformed),
            ("1 0 8 8", ErrorKind::Malformed),
            ("1 0 8 8 1 1", ErrorKind::Malformed),
            ("1 0 36028797018963968 8 1", ErrorKind::OutOfRange),
            ("1 0 8 8388608 1", ErrorKind::OutOfRange),
        ] {
            let fault = parse(line.as_bytes(), &mut VolumeTable::default()).err();
            assert_eq!(fault.map(|fault| fault.kind), Some(kind), "{line}");
        }
    }
}
