//! Five columns of numbers without a title line, `time device start size op`, which three formats share and count in
//! different units. Which of them may have written a text is told from all of its first lines:
//!
//! | times | starts and sizes | may be |
//! |---|---|---|
//! | whole, one of them from 10^6 on | any not a multiple of 512 | ssdsim |
//! | whole, all below 10^6 | any not a multiple of 512 | ssdsim, disksim |
//! | whole | all multiples of 512 | ssdsim, msr-cut, and disksim if below 10^6 |
//! | of three decimals, 8 lines or more | all multiples of 512 | msr-cut |
//! | of three decimals, fewer lines | all multiples of 512 | msr-cut, disksim |
//! | other fractions | any | disksim |
//!
//! Bytes are whole sectors. Sectors would be multiples of 512 only in a trace all of whose requests are whole, aligned
//! pieces of 256 KiB, and DiskSim writes times with six decimals. An ssdsim trace whose first lines lie below 10^6 is
//! shorter than a millisecond.

use super::fields::number;
use super::head_lines;
use crate::error::{ErrorKind, Fault};
use crate::scan::{Fields, decimal};
use crate::volumes::VolumeTable;

const DEVICE: Fault = Fault::malformed("a device number as second field");
const SHAPE: Fault = Fault::malformed("five fields and no more");
/// Lines from which on a coincidence is ruled out.
const SURE_LINES: usize = 8;
/// Whole times below this may be milliseconds.
const MANY: u64 = 1_000_000;

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

    /// The volume is the device, under its number.
    pub(super) fn volume(&self, volumes: &mut VolumeTable) -> Result<u32, Fault> {
        volumes.lookup(self.device, <[u8]>::to_vec)
    }

    /// 1 is a read, 0 a write.
    pub(super) fn is_read(&self) -> Result<bool, Fault> {
        match self.op {
            b"1" => Ok(true),
            b"0" => Ok(false),
            _ => Err(Fault::new(ErrorKind::Malformed, "1 for a read or 0 for a write as fifth field")),
        }
    }
}

/// What the first lines of a text have in common.
pub(super) struct Columns {
    lines: usize,
    /// All times are whole numbers.
    whole: bool,
    /// All times have exactly three decimals.
    thousandths: bool,
    /// Some time is [`MANY`] or more.
    many: bool,
    /// All starts and sizes are multiples of 512.
    aligned: bool,
    /// All ops are 0 or 1.
    plain_ops: bool,
}

impl Columns {
    /// `None` if a line is something else, or there is none.
    pub(super) fn of(head: &[u8]) -> Option<Columns> {
        let mut columns =
            Columns { lines: 0, whole: true, thousandths: true, many: false, aligned: true, plain_ops: true };
        for line in head_lines(head) {
            if let Some(row) = Row::of(line).ok()? {
                columns.add(&row)?;
            }
        }
        (columns.lines > 0).then_some(columns)
    }

    fn add(&mut self, row: &Row) -> Option<()> {
        let mut parts = row.time.splitn(2, |&b| b == b'.');
        let whole = decimal(parts.next()?)?;
        let decimals = match parts.next() {
            Some(fraction) if fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) => return None,
            Some(fraction) => fraction.len(),
            None => 0,
        };
        self.lines += 1;
        self.whole &= decimals == 0;
        self.thousandths &= decimals == 3;
        self.many |= whole >= MANY;
        self.aligned &= row.start.is_multiple_of(512) && row.size.is_multiple_of(512);
        self.plain_ops &= row.is_read().is_ok();
        Some(())
    }

    pub(super) fn may_be_ssdsim(&self) -> bool {
        self.whole && self.plain_ops
    }

    pub(super) fn may_be_msr_cut(&self) -> bool {
        (self.whole || self.thousandths) && self.aligned && self.plain_ops
    }

    pub(super) fn may_be_disksim(&self) -> bool {
        let surely_bytes = self.thousandths && self.aligned && self.plain_ops && self.lines >= SURE_LINES;
        !surely_bytes && (!self.whole || !self.many || !self.plain_ops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which formats a text of `lines` lines may be: s, m, d.
    fn claims(line: &str, lines: usize) -> String {
        let Some(columns) = Columns::of(format!("{line}\n").repeat(lines).as_bytes()) else {
            return "none".to_owned();
        };
        let claims = [
            ("s", columns.may_be_ssdsim()),
            ("m", columns.may_be_msr_cut()),
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
