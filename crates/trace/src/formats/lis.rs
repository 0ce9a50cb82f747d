//! Block lists of the ARC paper (FAST 2003): `first count ignored number`, between blanks.
//!
//! A request is `count` blocks from `first` on; a block has [`crate::ReadOptions::unit_bytes`], by default the 512 bytes
//! of the paper's P traces (its OLTP counts pages). The other two fields are not used. There is no operation: all
//! requests count as reads. There is no time: request i counts as at i microseconds, so that several such traces run
//! side by side. There is no volume name: the only volume is named after the file. Four numbers could be anything, so
//! that only the file's ending or its name tells the format.

use lode_types::{Origin, OriginFields, RequestOp, SECTOR_BYTES, TraceRequest};

use super::fields::{number, units};
use super::{Decoder, Format};
use crate::error::{Fault, TraceError};
use crate::feed::{Feed, More, Parsed};
use crate::scan::Fields;

pub(crate) static FORMAT: Format = Format {
    name: "lis",
    about: "ARC block lists: first count ignored number; blocks of --unit (512 B); all reads, no times",
    endings: &["lis"],
    default_unit_bytes: Some(SECTOR_BYTES),
    units_told: false,
    has_times: |_| false,
    origins: |_| OriginFields::NONE,
    detect: |_| false,
    decoder: |_| Box::new(Lis { requests: 0 }),
};

/// Between two requests of a format that has no times.
pub(super) const STEP_NS: u64 = 1000;
const SHAPE: Fault = Fault::malformed("four numbers and no more");

struct Lis {
    requests: u64,
}

impl Decoder for Lis {
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        let (volume, unit_bytes) = (feed.only_volume()?, feed.unit_bytes);
        feed.lines(out, |line, _| self.parse(line, unit_bytes, volume))
    }
}

impl Lis {
    fn parse(&mut self, line: &[u8], unit_bytes: u64, volume: u32) -> Result<Parsed, Fault> {
        let mut fields = Fields::new(line);
        let Some(first) = fields.token() else { return Ok(Parsed::Nothing) };
        let first = number(Some(first), "a first block below 2^64 as first field")?;
        let count = number(fields.token(), "a number of blocks as second field")?;
        number(fields.token(), "a number as third field")?;
        number(fields.token(), "a number as fourth field")?;
        if fields.token().is_some() {
            return Err(SHAPE);
        }
        let (offset_bytes, length_bytes) = units(first, count, unit_bytes)?;
        let time_ns = self.requests.saturating_mul(STEP_NS);
        self.requests += 1;
        Ok(Parsed::Request(TraceRequest {
            time_ns,
            offset_bytes,
            length_bytes,
            volume,
            op: RequestOp::Read,
            origin: Origin::UNKNOWN,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn reads_fields() {
        let mut lis = Lis { requests: 0 };
        let mut read = |line: &str, unit| match lis.parse(line.as_bytes(), unit, 0) {
            Ok(Parsed::Request(r)) => (r.time_ns, r.offset_bytes, r.length_bytes, r.op),
            _ => panic!("{line}"),
        };
        assert_eq!(read("230027 8 0 0", 512), (0, 230_027 * 512, 4096, RequestOp::Read));
        assert_eq!(read("1 1 0 0", 4096), (1000, 4096, 4096, RequestOp::Read));
    }

    #[test]
    fn refuses_faults() {
        for (line, kind) in [
            ("x 8 0 0", ErrorKind::Malformed),
            ("-1 8 0 0", ErrorKind::Malformed),
            ("36028797018963968 8 0 0", ErrorKind::OutOfRange),
            ("8 8388608 0 0", ErrorKind::OutOfRange),
            ("8 8 0", ErrorKind::Malformed),
            ("8 8 0 0 0", ErrorKind::Malformed),
        ] {
            let fault = Lis { requests: 0 }.parse(line.as_bytes(), 512, 0).err();
            assert_eq!(fault.map(|fault| fault.kind), Some(kind), "{line}");
        }
    }
}
