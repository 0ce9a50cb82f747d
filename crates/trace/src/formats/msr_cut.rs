//! Windows cut from MSR Cambridge traces, as the Heimdall project publishes them: `time device offset size op`, between
//! blanks.
//!
//! Time is in milliseconds from the window's start, offset and size in bytes, op is 1 for a read and 0 for a write. Each
//! device is a volume, under its number.

use lode_types::{OriginFields, RequestOp};

use super::columns::{Columns, Row};
use super::fields::TimeUnit;
use super::{Format, lines};
use crate::error::Fault;
use crate::feed::Parsed;
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "msr-cut",
    about: "Heimdall's cuts of MSR traces: time (ms) device offset size (bytes) 1|0 (read|write)",
    endings: &["msr-cut"],
    default_unit_bytes: None,
    units_told: false,
    has_times: |_| true,
    origins: |_| OriginFields::NONE,
    detect: |head| Columns::of(head).is_some_and(|columns| columns.may_be_msr_cut()),
    decoder: |_| lines::decoder(parse),
};

fn parse(line: &[u8], volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
    let Some(row) = Row::of(line)? else { return Ok(Parsed::Nothing) };
    let expected = "a time of zero or more milliseconds, below 2^64 ns, as first field";
    let time_ns = TimeUnit::Milliseconds.ns(Some(row.time), expected)?;
    let op = if row.bit()? { RequestOp::Read } else { RequestOp::Write };
    row.in_bytes(time_ns, op, volumes)
}

#[cfg(test)]
mod tests {
    use lode_types::{Origin, TraceRequest};

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn reads_fields() {
        let Ok(Parsed::Request(request)) =
            parse(b"242904.693 0 1023476224 7680 0", &mut VolumeTable::default())
        else {
            panic!("a request")
        };
        let expected = TraceRequest {
            time_ns: 242_904_693_000,
            offset_bytes: 1_023_476_224,
            length_bytes: 7680,
            volume: 0,
            op: RequestOp::Write,
            origin: Origin::UNKNOWN,
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn refuses_faults() {
        for (line, kind) in [
            ("-0.5 0 512 512 1", ErrorKind::NegativeTime),
            ("18446744073710.000 0 512 512 1", ErrorKind::OutOfRange),
            ("0.5 0 512 4294967296 1", ErrorKind::OutOfRange),
            ("0.5 0 512 512 R", ErrorKind::Malformed),
        ] {
            let fault = parse(line.as_bytes(), &mut VolumeTable::default()).err();
            assert_eq!(fault.map(|fault| fault.kind), Some(kind), "{line}");
        }
    }
}
