//! Tencent cloud block storage (SNIA IOTTA 27917, OSCA, ATC 2020): `time,offset,size,type,volume`.
//!
//! Time is in whole seconds of Unix time, offset and size in 512-byte sectors, type is 0 for a read and 1 for a write.
//! Each volume is one, under its number. The published files are not quite in order of time.

use lode_types::RequestOp;

use super::fields::{TimeUnit, number, sectors};
use super::{Format, head_lines, lines};
use crate::compact::Recorded;
use crate::error::Fault;
use crate::feed::Parsed;
use crate::scan::Fields;
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "tencent",
    about: "Tencent CBS CSV: time (s),offset,size (512 B),0|1 (read|write),volume",
    endings: &["tencent"],
    default_unit_bytes: None,
    units_told: false,
    recorded: |_| Recorded::TIMES,
    detect,
    decoder: |_| lines::decoder(parse),
};

/// Times that are taken for Unix seconds: 10^9 (2001) to 2^32 (2106).
const DETECT_TIMES_NS: std::ops::Range<u64> = 1_000_000_000_000_000_000..(1 << 32) * 1_000_000_000;

/// Whether the first line and nearly all others are requests at plausible times: five numbers alone could be anything.
fn detect(head: &[u8]) -> bool {
    let is_plausible = |line: &[u8]| match parse(line, &mut VolumeTable::default()) {
        Ok(Parsed::Request(request)) => DETECT_TIMES_NS.contains(&request.time_ns),
        _ => false,
    };
    let mut lines = head_lines(head).filter(|line| !line.is_empty());
    let begins = lines.next().is_some_and(is_plausible);
    let (all, bad) = lines.fold((1, 0), |(all, bad), line| (all + 1, bad + usize::from(!is_plausible(line))));
    begins && lines::are_single(bad, all)
}

fn parse(line: &[u8], volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
    if line.is_empty() {
        return Ok(Parsed::Nothing);
    }
    let mut fields = Fields::new(line);
    let expected = "a time of zero or more seconds, below 2^64 ns, as first field";
    let time_ns = TimeUnit::Seconds.ns(fields.until(b','), expected)?;
    let offset = number(fields.until(b','), "a first sector below 2^64 as second field")?;
    let size = number(fields.until(b','), "a number of sectors as third field")?;
    let bytes = sectors(offset, size)?;
    let op = match fields.until(b',') {
        Some(b"0") => RequestOp::Read,
        Some(b"1") => RequestOp::Write,
        _ => return Err(Fault::malformed("0 for a read or 1 for a write as fourth field")),
    };
    if !fields.rest.iter().all(u8::is_ascii_digit) {
        return Err(Fault::malformed("the number of a volume as fifth and last field"));
    }
    let volume = volumes.lookup(fields.rest, <[u8]>::to_vec)?;
    Ok(Parsed::request(time_ns, op, bytes, volume))
}
