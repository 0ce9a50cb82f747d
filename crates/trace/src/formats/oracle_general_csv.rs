//! libCacheSim's requests as text, as its tools print oracleGeneral traces: `time,object,size` and, if known,
//! `,next_access_vtime`.
//!
//! The fields mean what they mean in [`super::oracle_general`]. The title line, with or without `#` before it, tells
//! the format; without one it has to be named.

use super::fields::{is_title, length, number};
use super::oracle_general::{UNIT_BYTES, request_of};
use super::{Format, head_lines, lines};
use crate::compact::Recorded;
use crate::error::{ErrorKind, Fault};
use crate::feed::Parsed;
use crate::scan::Fields;

pub(crate) static FORMAT: Format = Format {
    name: "oracle-general-csv",
    about: "libCacheSim CSV: time (s),object,size (bytes)[,next access]; --unit as above; all reads",
    endings: &["oraclegeneral.csv"],
    default_unit_bytes: Some(UNIT_BYTES),
    units_told: true,
    recorded: |_| Recorded::TIMES,
    detect: |head| head_lines(head).next().is_some_and(is_header),
    decoder: |_| lines::decoder_of_one(parse),
};

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
