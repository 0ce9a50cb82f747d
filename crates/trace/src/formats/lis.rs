//! Block lists of the ARC paper (FAST 2003): `first count ignored number`, between blanks.
//!
//! A request is `count` blocks from `first` on; a block has [`crate::ReadOptions::unit_bytes`], by default the 512 bytes
//! of the paper's P traces (its OLTP counts pages). The other two fields are not used. There is no operation: all
//! requests count as reads. There is no time: request i counts as at i microseconds, so that several such traces run
//! side by side. There is no volume name: the only volume is named after the file. Four numbers could be anything, so
//! that only the file's ending or its name tells the format.

use lode_types::{RequestOp, SECTOR_BYTES};

use super::fields::{number, units};
use super::{Format, lines};
use crate::compact::Recorded;
use crate::error::Fault;
use crate::feed::Parsed;
use crate::scan::Fields;

pub(crate) static FORMAT: Format = Format {
    name: "lis",
    about: "ARC block lists: first count ignored number; blocks of --unit (512 B); all reads, no times",
    endings: &["lis"],
    default_unit_bytes: Some(SECTOR_BYTES),
    units_told: false,
    recorded: |_| Recorded { times: false, ..Recorded::TIMES },
    detect: |_| false,
    decoder: |_| {
        let mut requests = 0;
        lines::decoder_of_one(move |line, unit_bytes, volume| parse(&mut requests, line, unit_bytes, volume))
    },
};

/// Between two requests of a format that has no times.
pub(super) const STEP_NS: u64 = 1000;
const SHAPE: Fault = Fault::malformed("four numbers and no more");

fn parse(requests: &mut u64, line: &[u8], unit_bytes: u64, volume: u32) -> Result<Parsed, Fault> {
    let mut fields = Fields::new(line);
    let Some(first) = fields.token() else { return Ok(Parsed::Nothing) };
    let first = number(Some(first), "a first block below 2^64 as first field")?;
    let count = number(fields.token(), "a number of blocks as second field")?;
    number(fields.token(), "a number as third field")?;
    number(fields.token(), "a number as fourth field")?;
    if fields.token().is_some() {
        return Err(SHAPE);
    }
    let bytes = units(first, count, unit_bytes)?;
    let time_ns = requests.saturating_mul(STEP_NS);
    *requests += 1;
    Ok(Parsed::request(time_ns, RequestOp::Read, bytes, volume))
}
