//! libCacheSim's requests as text, as its tools print oracleGeneral traces: `time,object,size` and, if known,
//! `,next_access_vtime`.
//!
//! The fields mean what they mean in [`super::oracle_general`]. The title line, with or without `#` before it, tells
//! the format; without one it has to be named.

use lode_types::{OriginFields, TraceRequest};

use super::fields::{is_title, length, number};
use super::oracle_general::{UNIT_BYTES, request_of};
use super::{Decoder, Format, head_lines};
use crate::error::{ErrorKind, Fault, TraceError};
use crate::feed::{Feed, More, Parsed};
use crate::scan::Fields;

pub(crate) static FORMAT: Format = Format {
    name: "oracle-general-csv",
    about: "libCacheSim CSV: time (s),object,size (bytes)[,next access]; --unit as above; all reads",
    endings: &["oraclegeneral.csv"],
    default_unit_bytes: Some(UNIT_BYTES),
    units_told: true,
    has_times: |_| true,
    origins: |_| OriginFields::NONE,
    detect: |head| head_lines(head).next().is_some_and(is_header),
    decoder: |_| Box::new(OracleGeneralCsv),
};

struct OracleGeneralCsv;

impl Decoder for OracleGeneralCsv {
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        let (volume, unit_bytes) = (feed.only_volume()?, feed.unit_bytes);
        feed.lines(out, |line, _| parse(line, unit_bytes, volume))
    }
}

fn is_header(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"#").unwrap_or(line);
    [&["time", "obj", "size", "next"][..], &["time", "obj", "obj_size", "next"]]
        .iter()
        .any(|titles| is_title(line, titles) || is_title(line, &titles[..3]))
}

fn parse(line: &[u8], unit_bytes: u64, volume: u32) -> Result<Parsed, Fault> {
    if line.is_empty() || is_header(line) {
        return Ok(Parsed::Nothing);
    }
    let mut fields = Fields { rest: line };
    let mut next = || fields.until(b',').or_else(|| Some(std::mem::take(&mut fields.rest)));
    let time = next();
    let expected = "a time of zero or more whole seconds as first field";
    if time.is_some_and(|time| time.starts_with(b"-")) {
        return Err(Fault::new(ErrorKind::NegativeTime, expected));
    }
    let time_s = number(time, expected)?;
    let object = number(next(), "an object number below 2^64 as second field")?;
    let size = number(next(), "a size in bytes as third field")?;
    let next_access = fields.rest.strip_prefix(b"-").unwrap_or(fields.rest);
    if !next_access.iter().all(u8::is_ascii_digit) {
        return Err(Fault::malformed("a next access, or nothing, as fourth and last field"));
    }
    request_of(time_s, object, length(size)?, unit_bytes, volume)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields() {
        for line in ["9,3,4096,17", "9,3,4096,-1", "9,3,4096"] {
            let Ok(Parsed::Request(request)) = parse(line.as_bytes(), 512, 0) else { panic!("{line}") };
            assert_eq!(
                (request.time_ns, request.offset_bytes, request.length_bytes),
                (9_000_000_000, 1536, 4096)
            );
        }
        for header in ["# time,object,size,next_access_vtime", "time, obj_id, obj_size", "#time,object,size"]
        {
            assert!(matches!(parse(header.as_bytes(), 512, 0), Ok(Parsed::Nothing)), "{header}");
            assert!((FORMAT.detect)(format!("{header}\n").as_bytes()));
        }
        assert!(!(FORMAT.detect)(b"9,3,4096,17\n") && !(FORMAT.detect)(b"time,op,size\n"));
    }

    #[test]
    fn refuses_faults() {
        for (line, kind) in [
            ("-9,3,1,-1", ErrorKind::NegativeTime),
            ("9.5,3,1,-1", ErrorKind::Malformed),
            ("18446744074,3,1,-1", ErrorKind::OutOfRange),
            ("9,x,1,-1", ErrorKind::Malformed),
            ("9,18446744073709551615,1,-1", ErrorKind::OutOfRange),
            ("9,3,4294967296,-1", ErrorKind::OutOfRange),
            ("9,3", ErrorKind::Malformed),
            ("9,3,1,x", ErrorKind::Malformed),
            ("9,3,1,2,3", ErrorKind::Malformed),
        ] {
            assert_eq!(parse(line.as_bytes(), 512, 0).err().map(|fault| fault.kind), Some(kind), "{line}");
        }
    }
}
