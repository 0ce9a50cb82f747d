//! SPC traces, in which UMass publishes Financial and WebSearch: `ASU,LBA,size,opcode,timestamp`, more fields may follow.
//!
//! LBA is in 512-byte blocks, as in UMass's traces; size is in bytes, opcode R or W in either case, timestamp in seconds.
//! Each application storage unit (ASU) is a volume, under its number. Fields behind the timestamp are not used.

use lode_types::SECTOR_BYTES;

use super::fields::{TimeUnit, length, number, read_or_write, units};
use super::{Format, lines};
use crate::compact::Recorded;
use crate::error::Fault;
use crate::feed::Parsed;
use crate::scan::Fields;
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "spc",
    about: "SPC ASCII, as UMass's traces: ASU,LBA (512 B),size (bytes),R|W,time (s)",
    endings: &["spc"],
    default_unit_bytes: None,
    units_told: true,
    recorded: |_| Recorded::TIMES,
    detect: |head| lines::have_requests(head, parse),
    decoder: |_| lines::decoder(parse),
};

fn parse(line: &[u8], volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
    if line.is_empty() {
        return Ok(Parsed::Nothing);
    }
    let mut fields = Fields::new(line);
    let mut next = || fields.until(b',').map(<[u8]>::trim_ascii);
    let asu = next().filter(|asu| asu.iter().all(u8::is_ascii_digit));
    let asu = asu.ok_or(Fault::malformed("the number of an ASU as first field"))?;
    let lba = number(next(), "an LBA below 2^64 as second field")?;
    let size = number(next(), "a size in bytes as third field")?;
    let op = read_or_write(next(), "R or W as fourth field")?;
    let time = fields.rest.split(|&b| b == b',').next().map(<[u8]>::trim_ascii);
    let time_ns =
        TimeUnit::Seconds.ns(time, "a time of zero or more seconds, below 2^64 ns, as fifth field")?;
    let (offset_bytes, _) = units(lba, 1, SECTOR_BYTES)?;
    let volume = volumes.lookup(asu, <[u8]>::to_vec)?;
    Ok(Parsed::request(time_ns, op, (offset_bytes, length(size)?), volume))
}
