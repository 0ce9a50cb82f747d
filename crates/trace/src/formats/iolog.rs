//! fio's I/O logs, versions 2 and 3 (fio documentation, "Trace file format").
//!
//! The first line is `fio version 2 iolog` or `fio version 3 iolog`; then come `FILE add|open|close` and
//! `FILE ACTION OFFSET LENGTH` with the actions read, write, trim, sync, datasync and, in version 2 only,
//! wait. Version 3 puts a timestamp before each line: microseconds since the start of the run (the
//! documentation gives no unit; this is what fio writes). In version 2 time moves only with `wait`, by
//! OFFSET microseconds. Each file is a volume, known from its first request on. Both kinds of sync, and
//! `syncfs`, are flushes; `sync_file_range` promises nothing and counts as another command.

use lode_types::{Origin, OriginFields, RequestOp, TraceRequest};

use super::{Format, head_lines, lines};
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
    has_times: |_| true,
    origins: |_| OriginFields::NONE,
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
            return Ok(Parsed::Request(TraceRequest {
                time_ns,
                offset_bytes: 0,
                length_bytes: 0,
                volume,
                op,
                origin: Origin::UNKNOWN,
            }));
        }
        let length_bytes = u32::try_from(length).map_err(|_| LONG)?;
        Ok(Parsed::Request(TraceRequest {
            time_ns,
            offset_bytes,
            length_bytes,
            volume,
            op,
            origin: Origin::UNKNOWN,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Vec<TraceRequest>, Vec<String>), Fault> {
        let (mut log, mut volumes) = (Iolog { version: None, clock_ns: 0 }, VolumeTable::default());
        let mut requests = Vec::new();
        for line in text.lines() {
            if let Parsed::Request(request) = log.parse(line.as_bytes(), &mut volumes)? {
                requests.push(request);
            }
        }
        Ok((requests, volumes.names().to_vec()))
    }

    fn request(
        time_us: u64,
        offset_bytes: u64,
        length_bytes: u32,
        volume: u32,
        op: RequestOp,
    ) -> TraceRequest {
        TraceRequest {
            time_ns: time_us * 1000,
            offset_bytes,
            length_bytes,
            volume,
            op,
            origin: Origin::UNKNOWN,
        }
    }

    #[test]
    fn version_2_waits() {
        let text = "fio version 2 iolog\n/dev/a add\n/dev/b add\n/dev/b open\n/dev/b read 4096 512\n\
                    /dev/b wait 1500 0\n/dev/a write 0 8192\n/dev/a wait 500 0\n/dev/a datasync 7 0\n/dev/a close\n";
        let expected = vec![
            request(0, 4096, 512, 0, RequestOp::Read),
            request(1500, 0, 8192, 1, RequestOp::Write),
            request(2000, 0, 0, 1, RequestOp::Flush),
        ];
        assert_eq!(read(text), Ok((expected, vec!["/dev/b".to_owned(), "/dev/a".to_owned()])));
    }

    #[test]
    fn version_3_has_timestamps() {
        let text = "fio version 3 iolog\n25 /tmp/f add\n158 /tmp/f open\n162 /tmp/f read 61440 4096\n\
                    1686 /tmp/f sync 1040384 0\n1700 /tmp/f trim 0 65536\n93676 /tmp/f close\n";
        let expected = vec![
            request(162, 61440, 4096, 0, RequestOp::Read),
            request(1686, 0, 0, 0, RequestOp::Flush),
            request(1700, 0, 65536, 0, RequestOp::Trim),
        ];
        assert_eq!(read(text), Ok((expected, vec!["/tmp/f".to_owned()])));
    }

    #[test]
    fn refuses_faults() {
        for (text, fault) in [
            ("fio version 4 iolog", HEADER),
            ("fio version 3 iolog\n-1 f read 0 1", Fault::new(ErrorKind::NegativeTime, TIMESTAMP.expected)),
            ("fio version 3 iolog\nf read 0 1", TIMESTAMP),
            ("fio version 3 iolog\n18446744073709552 f read 0 1", LATE),
            ("fio version 3 iolog\n1 f wait 0 1", ACTION),
            ("fio version 2 iolog\nf erase 0 1", ACTION),
            ("fio version 2 iolog\nf erase", SHAPE),
            ("fio version 2 iolog\nf", SHAPE),
            ("fio version 2 iolog\nf read 0", SHAPE),
            ("fio version 2 iolog\nf read 0 1 2", SHAPE),
            ("fio version 2 iolog\nf read 0 4294967296", LONG),
            ("fio version 2 iolog\nf wait 18446744073709551 0\nf wait 1000 0", LATE),
        ] {
            assert_eq!(read(text), Err(fault), "{text}");
        }
    }
}
