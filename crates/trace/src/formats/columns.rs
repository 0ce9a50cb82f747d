//! Five columns of numbers without a title line, `time device start size op`, which four formats share and count in
//! different units. Which of them may have written a text is told from all of its first 64 KiB:
//!
//! | times | starts and sizes | may be |
//! |---|---|---|
//! | whole, one of them from 10^6 on | any not a multiple of 512 | ssdsim |
//! | whole, all below 10^6 | any not a multiple of 512 | ssdsim, disksim |
//! | whole | all multiples of 512 | ssdsim, msr-cut, and disksim if below 10^6 |
//! | of three decimals, 8 lines or more | all multiples of 512 | msr-cut |
//! | of three decimals, fewer lines | all multiples of 512 | msr-cut, disksim |
//! | of five decimals, 8 lines or more | all multiples of 512 | heimdall |
//! | of five decimals, fewer lines | all multiples of 512 | heimdall, disksim |
//! | other fractions | any | disksim |
//!
//! Bytes are whole sectors. Sectors would be multiples of 512 only in a trace all of whose requests are whole, aligned
//! pieces of 256 KiB, and DiskSim writes times with six decimals. An ssdsim trace whose first lines lie below 10^6 is
//! shorter than a millisecond. Single lines that are something else are for the decoder to name.

use lode_types::{Origin, RequestOp, TraceRequest};

use super::fields::{length, number, sectors};
use super::head_lines;
use super::lines::are_single;
use crate::error::Fault;
use crate::feed::Parsed;
use crate::scan::{Fields, decimal, hex};
use crate::volumes::VolumeTable;

const DEVICE: Fault = Fault::malformed("a device number as second field");
const SHAPE: Fault = Fault::malformed("five fields and no more");
/// Lines from which on a coincidence is ruled out.
const SURE_LINES: usize = 8;
/// Whole times below this may be milliseconds.
const MANY: u64 = 1_000_000;
/// Decimals of times in milliseconds, as the cuts of MSR traces have them.
const MSR_CUT_DECIMALS: usize = 3;
/// Decimals of times in microseconds, as Heimdall's replayer reads them.
const HEIMDALL_DECIMALS: usize = 5;

/// A line in its columns.
pub(super) struct Row<'a> {
    pub time: &'a [u8],
    pub device: &'a [u8],
    pub start: u64,
    pub size: u64,
    pub op: &'a [u8],
}

impl Row<'_> {
    /// The columns of a line, or `None` when it is blank.
    pub(super) fn of(line: &[u8]) -> Result<Option<Row<'_>>, Fault> {
        let mut fields = Fields::new(line);
        let Some(time) = fields.token() else { return Ok(None) };
        let device = fields.token().filter(|device| device.iter().all(u8::is_ascii_digit)).ok_or(DEVICE)?;
        let start = number(fields.token(), "a first block or byte below 2^64 as third field")?;
        let size = number(fields.token(), "a number of blocks or bytes below 2^64 as fourth field")?;
        let op = fields.token().ok_or(SHAPE)?;
        if fields.token().is_some() {
            return Err(SHAPE);
        }
        Ok(Some(Row { time, device, start, size, op }))
    }

    /// Whether the op is 1; formats differ in what that is.
    pub(super) fn bit(&self) -> Result<bool, Fault> {
        match self.op {
            b"1" => Ok(true),
            b"0" => Ok(false),
            _ => Err(Fault::malformed("1 or 0, for a read or a write, as fifth field")),
        }
    }

    /// The request of a line whose size is in bytes.
    pub(super) fn in_bytes(
        &self,
        time_ns: u64,
        op: RequestOp,
        volumes: &mut VolumeTable,
    ) -> Result<Parsed, Fault> {
        let length_bytes = length(self.size)?;
        self.request((time_ns, op), (self.start, length_bytes), volumes)
    }

    /// The request of a line whose start and size are in sectors.
    pub(super) fn in_sectors(
        &self,
        time_ns: u64,
        op: RequestOp,
        volumes: &mut VolumeTable,
    ) -> Result<Parsed, Fault> {
        self.request((time_ns, op), sectors(self.start, self.size)?, volumes)
    }

    /// The volume is the device, under its number.
    fn request(
        &self,
        (time_ns, op): (u64, RequestOp),
        (offset_bytes, length_bytes): (u64, u32),
        volumes: &mut VolumeTable,
    ) -> Result<Parsed, Fault> {
        let volume = volumes.lookup(self.device, <[u8]>::to_vec)?;
        let origin = Origin::UNKNOWN;
        Ok(Parsed::Request(TraceRequest { time_ns, offset_bytes, length_bytes, volume, op, origin }))
    }
}

/// What the first lines of a text have in common.
pub(super) struct Columns {
    lines: usize,
    /// Decimals of all times; none when they differ.
    decimals: Option<usize>,
    /// Some time is [`MANY`] or more.
    many: bool,
    /// All starts and sizes are multiples of 512.
    aligned: bool,
    /// Lines whose op is neither 0 nor 1.
    other_ops: usize,
    /// Lines whose op is no hexadecimal number.
    not_flags: usize,
}

impl Columns {
    /// `None` if the first line is something else, more than single lines are, or there is none.
    pub(super) fn of(head: &[u8]) -> Option<Columns> {
        let mut columns =
            Columns { lines: 0, decimals: None, many: false, aligned: true, other_ops: 0, not_flags: 0 };
        let mut others = 0;
        for line in head_lines(head) {
            match Row::of(line) {
                Ok(None) => {}
                Ok(Some(row)) if columns.add(&row).is_some() => {}
                _ if columns.lines == 0 => return None,
                _ => others += 1,
            }
        }
        (columns.lines > 0 && are_single(others, columns.lines)).then_some(columns)
    }

    fn add(&mut self, row: &Row) -> Option<()> {
        let mut parts = row.time.splitn(2, |&b| b == b'.');
        let whole = decimal(parts.next()?)?;
        let decimals = match parts.next() {
            Some(fraction) if fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) => return None,
            Some(fraction) => fraction.len(),
            None => 0,
        };
        self.decimals =
            if self.lines == 0 { Some(decimals) } else { self.decimals.filter(|&d| d == decimals) };
        self.lines += 1;
        self.many |= whole >= MANY;
        self.aligned &= row.start.is_multiple_of(512) && row.size.is_multiple_of(512);
        self.other_ops += usize::from(row.bit().is_err());
        self.not_flags += usize::from(hex(row.op).is_none());
        Some(())
    }

    fn is_whole(&self) -> bool {
        self.decimals == Some(0)
    }

    fn has_plain_ops(&self) -> bool {
        are_single(self.other_ops, self.lines)
    }

    /// Whole sectors in bytes, with times of so many decimals.
    fn has_bytes(&self, decimals: usize) -> bool {
        self.decimals == Some(decimals) && self.aligned && self.has_plain_ops()
    }

    pub(super) fn may_be_ssdsim(&self) -> bool {
        self.is_whole() && self.has_plain_ops()
    }

    pub(super) fn may_be_msr_cut(&self) -> bool {
        self.has_bytes(0) || self.has_bytes(MSR_CUT_DECIMALS)
    }

    pub(super) fn may_be_heimdall(&self) -> bool {
        self.has_bytes(HEIMDALL_DECIMALS)
    }

    pub(super) fn may_be_disksim(&self) -> bool {
        let has_bytes = self.has_bytes(MSR_CUT_DECIMALS) || self.has_bytes(HEIMDALL_DECIMALS);
        let is_in_bytes = has_bytes && self.lines >= SURE_LINES;
        let is_in_ns = self.is_whole() && self.many && self.has_plain_ops();
        !is_in_bytes && !is_in_ns && are_single(self.not_flags, self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which formats a text of `lines` lines may be: s, m, h, d.
    fn claims(line: &str, lines: usize) -> String {
        let Some(columns) = Columns::of(format!("{line}\n").repeat(lines).as_bytes()) else {
            return "none".to_owned();
        };
        let claims = [
            ("s", columns.may_be_ssdsim()),
            ("m", columns.may_be_msr_cut()),
            ("h", columns.may_be_heimdall()),
            ("d", columns.may_be_disksim()),
        ];
        claims.iter().filter(|(_, claimed)| *claimed).map(|(name, _)| *name).collect()
    }

    #[test]
    fn the_table_above() {
        for (line, lines, expected) in [
            ("26214000 0 303567 7 0", 1, "s"),
            ("26214 0 303567 7 0", 20, "sd"),
            ("26214000 0 4096 512 0", 20, "sm"),
            ("0 0 4096 512 0", 20, "smd"),
            ("0.000 0 11562803200 4096 1", 8, "m"),
            ("0.000 0 11562803200 4096 1", 7, "md"),
            ("0.000 0 11562803201 4096 1", 20, "d"),
            ("373.94074 0 720749690880 1024 1", 8, "h"),
            ("373.94074 0 720749690880 1024 1", 7, "hd"),
            ("373.94074 0 720749690880 1023 1", 20, "d"),
            ("1.5 0 8 8 R", 20, ""),
            ("13.191135 30 0 5 1", 1, "d"),
            ("13.191135 30 0 512 1", 20, "d"),
            ("26214000 0 303567 7 9", 1, "d"),
            ("0.000 0 4096 4096 3", 20, "d"),
        ] {
            assert_eq!(claims(line, lines), expected, "{lines} times {line}");
        }
        for line in ["1 0 8 8", "1 0 8 8 1 1", "x 0 8 8 1", "1. 0 8 8 1", "1 a 8 8 1", "1 0 -8 8 1", ""] {
            assert_eq!(claims(line, 3), "none", "{line}");
        }
    }
}
