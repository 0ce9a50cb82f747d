//! Alibaba cloud block storage ("An In-Depth Analysis of Cloud Block Storage Workloads", IISWC 2020; the published
//! description is recalled): `device_id,opcode,offset,length,timestamp`.
//!
//! Opcode is R or W, offset and length are in bytes, the timestamp in microseconds. Each device is a volume, under its
//! number; a title line is passed over.

use super::fields::{TimeUnit, is_title, length, number, read_or_write};
use super::{Format, lines};
use crate::compact::Recorded;
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
    recorded: |_| Recorded::TIMES,
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
    Ok(Parsed::request(time_ns, op, (offset_bytes, length_bytes), volume))
}
