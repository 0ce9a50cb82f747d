//! fio's I/O logs, versions 2 and 3 (fio documentation, "Trace file format").
//!
//! The first line is `fio version 2 iolog` or `fio version 3 iolog`; then come `FILE add|open|close` and
//! `FILE ACTION OFFSET LENGTH` with the actions read, write, trim, sync, datasync and, in version 2 only,
//! wait. Version 3 puts a timestamp before each line: microseconds since the start of the run (the
//! documentation gives no unit; this is what fio writes). In version 2 time moves only with `wait`, by
//! OFFSET microseconds. Each file is a volume, known from its first request on. Both kinds of sync, and
//! `syncfs`, are flushes; `sync_file_range` promises nothing and counts as another command.

use lode_types::RequestOp;

use super::{Format, head_lines, lines};
use crate::compact::Recorded;
use crate::error::{ErrorKind, Fault};
use crate::feed::Parsed;
use crate::scan::{Fields, decimal};
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "iolog",
    about: "fio I/O log, versions 2 and 3",
    endings: &["iolog"],
    default_unit_bytes: None,
    units_told: true,
    recorded: |_| Recorded::TIMES,
    detect: |head| head_lines(head).next().is_some_and(|line| version_of(line).is_some()),
    decoder: |_| {
        let mut log = Iolog { version: None, clock_ns: 0 };
        lines::decoder(move |line, volumes| log.parse(line, volumes))
    },
};

const US_NS: u64 = 1000;
const HEADER: Fault = Fault::malformed("\"fio version 2 iolog\" or \"fio version 3 iolog\" as first line");
const TIMESTAMP: Fault = Fault::malformed("a timestamp in microseconds as first field");
const LATE: Fault = Fault::new(ErrorKind::OutOfRange, "a time below 2^64 ns");
const SHAPE: Fault = Fault::malformed("\"FILE add|open|close\" or \"FILE ACTION OFFSET LENGTH\"");
const ACTION: Fault = Fault::malformed("read, write, trim, sync, datasync or, in version 2, wait as action");
const LONG: Fault = Fault::new(ErrorKind::OutOfRange, "a length below 4 GiB");

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

struct Iolog {
    version: Option<Version>,
    clock_ns: u64,
}

fn version_of(line: &[u8]) -> Option<Version> {
    match line.trim_ascii_end() {
        b"fio version 2 iolog" => Some(Version::Two),
        b"fio version 3 iolog" => Some(Version::Three),
        _ => None,
    }
}

impl Iolog {
    fn parse(&mut self, line: &[u8], volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
        let Some(version) = self.version else {
            self.version = version_of(line);
            return if self.version.is_some() { Ok(Parsed::Nothing) } else { Err(HEADER) };
        };
        let mut fields = Fields::new(line);
        let Some(mut first) = fields.token() else { return Ok(Parsed::Nothing) };
        if version == Version::Three {
            if first.first() == Some(&b'-') {
                return Err(Fault::new(ErrorKind::NegativeTime, TIMESTAMP.expected));
            }
            let time_us = decimal(first).ok_or(TIMESTAMP)?;
            self.clock_ns = time_us.checked_mul(US_NS).ok_or(LATE)?;
            first = fields.token().ok_or(SHAPE)?;
        }
        let file = first;
        let action = fields.token().ok_or(SHAPE)?;
        let Some(offset) = fields.token() else {
            return if matches!(action, b"add" | b"open" | b"close") {
                Ok(Parsed::Nothing)
            } else {
                Err(SHAPE)
            };
        };
        let offset_bytes = decimal(offset).ok_or(SHAPE)?;
        let length = fields.token().and_then(decimal).ok_or(SHAPE)?;
        if fields.token().is_some() {
            return Err(SHAPE);
        }
        let op = match action {
            b"read" => RequestOp::Read,
            b"write" => RequestOp::Write,
            b"trim" => RequestOp::Trim,
            b"sync" | b"datasync" | b"syncfs" => RequestOp::Flush,
            b"sync_file_range" => return Ok(Parsed::OtherCommand),
            b"wait" if version == Version::Two => {
                let wait_ns = offset_bytes.checked_mul(US_NS).ok_or(LATE)?;
                self.clock_ns = self.clock_ns.checked_add(wait_ns).ok_or(LATE)?;
                return Ok(Parsed::Nothing);
            }
            _ => return Err(ACTION),
        };
        let volume = volumes.lookup(file, <[u8]>::to_vec)?;
        let time_ns = self.clock_ns;
        if op == RequestOp::Flush {
            return Ok(Parsed::request(time_ns, op, (0, 0), volume));
        }
        let length_bytes = u32::try_from(length).map_err(|_| LONG)?;
        Ok(Parsed::request(time_ns, op, (offset_bytes, length_bytes), volume))
    }
}
