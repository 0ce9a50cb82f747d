//! FIU's "I/O deduplication" traces (SNIA IOTTA 391): `time pid process start size R|W major minor MD5`, between blanks.
//!
//! Time is in nanoseconds, start and size in 512-byte blocks. A process's name may have blanks, so that the fields after
//! it are counted from the line's end. The MD5 of the content is not used. A volume is named "major,minor", as in
//! [`super::blkparse`].

use lode_types::{OriginFields, TraceRequest};

use super::fields::{TimeUnit, by_process, number, read_or_write, sectors};
use super::{Format, lines};
use crate::compact::Recorded;
use crate::error::Fault;
use crate::feed::Parsed;
use crate::scan::{Fields, decimal};
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "fiu",
    about: "FIU blkparse text: time (ns) pid process start size (512 B) R|W major minor MD5",
    endings: &["fiu"],
    default_unit_bytes: None,
    units_told: true,
    recorded: |_| Recorded {
        origins: OriginFields { process: true, ..OriginFields::NONE },
        ..Recorded::TIMES
    },
    detect: |head| lines::have_requests(head, parse),
    decoder: |_| lines::decoder(parse),
};

const SHAPE: Fault =
    Fault::malformed("nine fields: time, pid, process, start, size, R or W, major, minor, MD5");
const DEVICE: Fault = Fault::malformed("a device's major and minor number before the MD5");
const MD5_DIGITS: usize = 32;
/// Fields behind the process's name.
const LAST: usize = 6;

fn parse(line: &[u8], volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
    let mut fields = Fields::new(line);
    let Some(time) = fields.token() else { return Ok(Parsed::Nothing) };
    let time_ns = TimeUnit::Nanoseconds.ns(Some(time), "a time from 0 to below 2^64 ns as first field")?;
    let origin = by_process(number(fields.token(), "a process number as second field")?)?;
    fields.token().ok_or(SHAPE)?;
    let mut last = [&b""[..]; LAST];
    let mut found = 0;
    let from_end = fields.rest.rsplit(|b| b.is_ascii_whitespace()).filter(|field| !field.is_empty());
    for (place, field) in last.iter_mut().rev().zip(from_end) {
        *place = field;
        found += 1;
    }
    let [start, size, op, major, minor, md5] = last;
    if found < LAST || md5.len() != MD5_DIGITS || !md5.iter().all(u8::is_ascii_hexdigit) {
        return Err(SHAPE);
    }
    let start = number(Some(start), "a first block below 2^64 before the size")?;
    let size = number(Some(size), "a size in blocks before R or W")?;
    let op = read_or_write(Some(op), "R or W after the size")?;
    let (offset_bytes, length_bytes) = sectors(start, size)?;
    let volume = volume_of(major, minor, volumes)?;
    Ok(Parsed::Request(TraceRequest { time_ns, offset_bytes, length_bytes, volume, op, origin }))
}

fn volume_of(major: &[u8], minor: &[u8], volumes: &mut VolumeTable) -> Result<u32, Fault> {
    let (major, minor) = decimal(major).zip(decimal(minor)).ok_or(DEVICE)?;
    let mut key = [0; 16];
    key[..8].copy_from_slice(&major.to_be_bytes());
    key[8..].copy_from_slice(&minor.to_be_bytes());
    volumes.lookup(&key, |key| {
        let number = |half: &[u8]| half.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
        format!("{},{}", number(&key[..8]), number(&key[8..])).into_bytes()
    })
}
