//! Four formats of five columns of numbers without a title line, `time device start size op`, that count differently:
//!
//! | format | time | start and size | a read |
//! |---|---|---|---|
//! | ssdsim | ns | 512-byte sectors | 1 |
//! | msr-cut | ms | bytes | 1 |
//! | heimdall | us, five decimals | bytes | 0 |
//! | disksim | ms | 512-byte sectors | bit 0 of flags in hexadecimal |
//!
//! Which of them may have written a text is told from all of its first 64 KiB:
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

use lode_types::RequestOp;

use super::fields::{TimeUnit, length, number, sectors};
use super::lines::{self, are_single};
use super::{Decoder, Format, head_lines};
use crate::compact::Recorded;
use crate::error::Fault;
use crate::feed::Parsed;
use crate::scan::{Fields, decimal, hex};
use crate::volumes::VolumeTable;

/// SSDsim and MQSim.
pub(super) static SSDSIM: Format = format(
    ("ssdsim", "SSDsim and MQSim text: time (ns) device start size (sectors) 1|0 (read|write)"),
    &["ssdsim", "mqsim"],
    |head| Columns::of(head).is_some_and(|columns| columns.may_be_ssdsim()),
    |_| {
        let expected = "a time from 0 to below 2^64 ns as first field";
        decoder(Counting { time: TimeUnit::Nanoseconds, expected, op: one_reads, bytes: sectors })
    },
);

/// Windows cut from MSR Cambridge traces, as the Heimdall project publishes them; times are from the window's start.
pub(super) static MSR_CUT: Format = format(
    ("msr-cut", "Heimdall's cuts of MSR traces: time (ms) device offset size (bytes) 1|0 (read|write)"),
    &["msr-cut"],
    |head| Columns::of(head).is_some_and(|columns| columns.may_be_msr_cut()),
    |_| decoder(Counting { time: TimeUnit::Milliseconds, expected: MS, op: one_reads, bytes }),
);

/// Heimdall's replayer in the kernel (EuroSys 2025): so its generator writes traces and its replayer reads them (`gen.py`,
/// `op_replayers.cpp`).
pub(super) static HEIMDALL: Format = format(
    ("heimdall", "Heimdall's replayer: time (us, five decimals) device offset size (bytes) 0|1 (read|write)"),
    &["heimdall"],
    |head| Columns::of(head).is_some_and(|columns| columns.may_be_heimdall()),
    |_| {
        let expected = "a time of zero or more microseconds, below 2^64 ns, as first field";
        decoder(Counting { time: TimeUnit::Microseconds, expected, op: zero_reads, bytes })
    },
);

/// DiskSim's ASCII traces. Bit 0 of the flags is set for a read; the other bits (how urgent it is) are not used.
pub(super) static DISKSIM: Format = format(
    ("disksim", "DiskSim ASCII: arrival (ms) device start size (sectors) flags (bit 0: read)"),
    &["disksim"],
    |head| Columns::of(head).is_some_and(|columns| columns.may_be_disksim()),
    |_| {
        decoder(Counting { time: TimeUnit::Milliseconds, expected: ARRIVAL, op: bit_0_reads, bytes: sectors })
    },
);

/// What the four formats have in common.
const fn format(
    (name, about): (&'static str, &'static str),
    endings: &'static [&'static str],
    detect: fn(&[u8]) -> bool,
    decoder: fn(&[u8]) -> Box<dyn Decoder>,
) -> Format {
    let recorded = |_: &[u8]| Recorded::TIMES;
    Format { name, about, endings, default_unit_bytes: None, units_told: false, recorded, detect, decoder }
}

const MS: &str = "a time of zero or more milliseconds, below 2^64 ns, as first field";
const ARRIVAL: &str = "an arrival of zero or more milliseconds, below 2^64 ns, as first field";
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
struct Row<'a> {
    time: &'a [u8],
    device: &'a [u8],
    start: u64,
    size: u64,
    op: &'a [u8],
}

impl Row<'_> {
    /// The columns of a line, or `None` when it is blank.
    fn of(line: &[u8]) -> Result<Option<Row<'_>>, Fault> {
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
}

/// How a format counts.
struct Counting {
    time: TimeUnit,
    /// The time, for messages.
    expected: &'static str,
    op: fn(&[u8]) -> Result<RequestOp, Fault>,
    /// The first byte and the number of bytes of a start and a size.
    bytes: fn(u64, u64) -> Result<(u64, u32), Fault>,
}

/// Each device is a volume, under its number.
fn decoder(counting: Counting) -> Box<dyn Decoder> {
    lines::decoder(move |line, volumes: &mut VolumeTable| {
        let Some(row) = Row::of(line)? else { return Ok(Parsed::Nothing) };
        let time_ns = counting.time.ns(Some(row.time), counting.expected)?;
        let op = (counting.op)(row.op)?;
        let bytes = (counting.bytes)(row.start, row.size)?;
        Ok(Parsed::request(time_ns, op, bytes, volumes.lookup(row.device, <[u8]>::to_vec)?))
    })
}

fn one_reads(op: &[u8]) -> Result<RequestOp, Fault> {
    match op {
        b"1" => Ok(RequestOp::Read),
        b"0" => Ok(RequestOp::Write),
        _ => Err(Fault::malformed("1 or 0, for a read or a write, as fifth field")),
    }
}

fn zero_reads(op: &[u8]) -> Result<RequestOp, Fault> {
    one_reads(op).map(|op| if op == RequestOp::Read { RequestOp::Write } else { RequestOp::Read })
}

fn bit_0_reads(flags: &[u8]) -> Result<RequestOp, Fault> {
    let flags = hex(flags).ok_or(Fault::malformed("flags in hexadecimal as fifth field"))?;
    Ok(if flags & 1 == 1 { RequestOp::Read } else { RequestOp::Write })
}

fn bytes(first: u64, count: u64) -> Result<(u64, u32), Fault> {
    Ok((first, length(count)?))
}

/// What the first lines of a text have in common.
struct Columns {
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
    fn of(head: &[u8]) -> Option<Columns> {
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
        self.other_ops += usize::from(one_reads(row.op).is_err());
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

    fn may_be_ssdsim(&self) -> bool {
        self.is_whole() && self.has_plain_ops()
    }

    fn may_be_msr_cut(&self) -> bool {
        self.has_bytes(0) || self.has_bytes(MSR_CUT_DECIMALS)
    }

    fn may_be_heimdall(&self) -> bool {
        self.has_bytes(HEIMDALL_DECIMALS)
    }

    fn may_be_disksim(&self) -> bool {
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
