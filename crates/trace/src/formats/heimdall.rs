//! Traces of Heimdall's replayer in the kernel (EuroSys 2025): `time device offset size op`, between blanks.
//!
//! Time is in microseconds with five decimals, offset and size in bytes, op is 0 for a read and 1 for a write: so its
//! generator writes them and its replayer reads them (`gen.py`, `op_replayers.cpp`). The same project's cuts of MSR
//! traces have milliseconds and the other sense of op, see [`super::msr_cut`]. Each device is a volume, under its number.

use lode_types::{OriginFields, RequestOp};

use super::columns::{Columns, Row};
use super::fields::TimeUnit;
use super::{Format, lines};
use crate::error::Fault;
use crate::feed::Parsed;
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "heimdall",
    about: "Heimdall's replayer: time (us, five decimals) device offset size (bytes) 0|1 (read|write)",
    endings: &["heimdall"],
    default_unit_bytes: None,
    units_told: false,
    has_times: |_| true,
    origins: |_| OriginFields::NONE,
    detect: |head| Columns::of(head).is_some_and(|columns| columns.may_be_heimdall()),
    decoder: |_| lines::decoder(parse),
};

fn parse(line: &[u8], volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
    let Some(row) = Row::of(line)? else { return Ok(Parsed::Nothing) };
    let expected = "a time of zero or more microseconds, below 2^64 ns, as first field";
    let time_ns = TimeUnit::Microseconds.ns(Some(row.time), expected)?;
    let op = if row.bit()? { RequestOp::Write } else { RequestOp::Read };
    row.in_bytes(time_ns, op, volumes)
}

#[cfg(test)]
mod tests {
    use lode_types::{Origin, TraceRequest};

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn reads_fields() {
        for (line, op) in [
            ("9260.65187 0 415439060992 1024 0", RequestOp::Read),
            ("9260.65187 0 415439060992 1024 1", RequestOp::Write),
        ] {
            let Ok(Parsed::Request(request)) = parse(line.as_bytes(), &mut VolumeTable::default()) else {
                panic!("a request")
            };
            let expected = TraceRequest {
                time_ns: 9_260_651,
                offset_bytes: 415_439_060_992,
                length_bytes: 1024,
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
            ("-0.50000 0 512 512 1", ErrorKind::NegativeTime),
            ("18446744073709552.00000 0 512 512 1", ErrorKind::OutOfRange),
            ("0.50000 0 512 4294967296 1", ErrorKind::OutOfRange),
            ("0.50000 0 512 512 R", ErrorKind::Malformed),
        ] {
            let fault = parse(line.as_bytes(), &mut VolumeTable::default()).err();
            assert_eq!(fault.map(|fault| fault.kind), Some(kind), "{line}");
        }
    }
}
