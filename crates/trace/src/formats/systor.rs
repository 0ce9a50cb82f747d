//! SYSTOR'17 traces of enterprise desktops (SNIA IOTTA 4964): `Timestamp,Response,IOType,LUN,Offset,Size`.
//!
//! Timestamp and Response are in seconds, offset and size in bytes, IOType is R or W. A request's timestamp is when it
//! was issued, yet the lines are in order of completion. The response time is not used and may be missing. Each LUN is
//! a volume, under its number; a title line is passed over.

use super::fields::{TimeUnit, is_title, length, number, read_or_write};
use super::{Format, head_lines, lines};
use crate::compact::Recorded;
use crate::error::Fault;
use crate::feed::Parsed;
use crate::scan::Fields;
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "systor",
    about: "SYSTOR'17 CSV: time (s),response,R|W,LUN,offset,size (bytes)",
    endings: &["systor"],
    default_unit_bytes: None,
    units_told: true,
    recorded: |_| Recorded::TIMES,
    detect: |head| head_lines(head).any(|line| is_title(line, &TITLES) || lines::is_request(line, parse)),
    decoder: |_| lines::decoder(parse),
};

const TITLES: [&str; 6] = ["Timestamp", "Response", "IOType", "LUN", "Offset", "Size"];

fn parse(line: &[u8], volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
    if line.is_empty() || is_title(line, &TITLES) {
        return Ok(Parsed::Nothing);
    }
    let mut fields = Fields::new(line);
    let expected = "a time of zero or more seconds, below 2^64 ns, as first field";
    let time_ns = TimeUnit::Seconds.ns(fields.until(b','), expected)?;
    let is_number = |text: &[u8]| text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    fields
        .until(b',')
        .filter(|text| is_number(text))
        .ok_or(Fault::malformed("a response time in seconds, or nothing, as second field"))?;
    let op = read_or_write(fields.until(b','), "R or W as third field")?;
    let lun = fields.until(b',').filter(|lun| lun.iter().all(u8::is_ascii_digit));
    let lun = lun.ok_or(Fault::malformed("the number of a LUN as fourth field"))?;
    let offset_bytes = number(fields.until(b','), "an offset in bytes below 2^64 as fifth field")?;
    let length_bytes = length(number(Some(fields.rest), "a size in bytes as sixth and last field")?)?;
    let volume = volumes.lookup(lun, <[u8]>::to_vec)?;
    Ok(Parsed::request(time_ns, op, (offset_bytes, length_bytes), volume))
}
