//! blkparse's default text: `major,minor cpu sequence seconds.ns pid action RWBS first + count [process]`.
//!
//! blktrace logs several events a request. One action is counted: Q (queued) when the first part of the
//! trace has any Q, else D (issued to the driver); when it has neither, whichever comes first later on. Other
//! actions are passed over. RWBS: R is a read, W a write, D a trim; F without sectors is a flush (with
//! sectors it is a write after a flush and counts as the write); N and SCSI passthrough are other commands.
//! The statistics that blkparse prints at the end are known by their titles. Each device "major,minor" is a
//! volume; sectors have 512 bytes. Who asks is the process of the event that counts; S in RWBS, F, and a read without A say
//! that it waits.

use lode_types::{OriginFields, RequestOp, SECTOR_BYTES, TraceRequest};

use super::fields::{by_process, is_waited_for};
use super::{Format, head_lines, lines};
use crate::compact::Recorded;
use crate::error::{ErrorKind, Fault};
use crate::feed::Parsed;
use crate::scan::{Fields, decimal};
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "blkparse",
    about: "blkparse default text; Q events if there are any at the start, else D",
    endings: &["blkparse"],
    default_unit_bytes: None,
    units_told: true,
    recorded: |_| Recorded {
        origins: OriginFields { process: true, sync: true, critical: false },
        ..Recorded::TIMES
    },
    detect: |head| head_lines(head).any(|line| event_line_of(line).is_ok()),
    decoder: |head| {
        let mut events = Blkparse { counted: counted_action(head), in_statistics: false };
        lines::decoder(move |line, volumes| events.parse(line, volumes))
    },
};

const DEVICE: Fault = Fault::malformed("a device \"major,minor\", a CPU and a sequence number first");
const TIME: Fault = Fault::malformed("a time \"seconds.nanoseconds\" as fourth field");
const EARLY: Fault = Fault::new(ErrorKind::NegativeTime, "a time of zero or more seconds as fourth field");
const ACTION: Fault = Fault::malformed("a process number, an action and its RWBS letters after the time");
const RWBS: Fault = Fault::malformed("R, W, D, F or N in the RWBS letters");
const SECTORS: Fault =
    Fault::malformed("\"first sector + number of sectors\" or \"[process]\" after the RWBS letters");
const FAR: Fault = Fault::new(ErrorKind::OutOfRange, "a first sector below 2^55");
const LONG: Fault = Fault::new(ErrorKind::OutOfRange, "a request shorter than 4 GiB");

struct Blkparse {
    counted: Option<Action>,
    in_statistics: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Queued,
    Issued,
    Other,
}

/// An event line up to its action; the rest stands in `rest`.
struct EventLine<'a> {
    device: &'a [u8],
    time_ns: u64,
    process: u64,
    action: Action,
    rest: Fields<'a>,
}

fn counted_action(head: &[u8]) -> Option<Action> {
    let mut issued = None;
    for line in head.split(|&b| b == b'\n') {
        match event_line_of(line).map(|event| event.action) {
            Ok(Action::Queued) => return Some(Action::Queued),
            Ok(Action::Issued) => issued = Some(Action::Issued),
            Ok(Action::Other) | Err(_) => {}
        }
    }
    issued
}

fn event_line_of(line: &[u8]) -> Result<EventLine<'_>, Fault> {
    let mut fields = Fields::new(line);
    let device = fields.token().filter(|token| is_device(token)).ok_or(DEVICE)?;
    fields.token().and_then(decimal).ok_or(DEVICE)?;
    fields.token().and_then(decimal).ok_or(DEVICE)?;
    let time = fields.token().ok_or(TIME)?;
    if time[0] == b'-' {
        return Err(EARLY);
    }
    let mut seconds = Fields::new(time);
    let time_ns = seconds.seconds_as_ns().filter(|_| seconds.rest.is_empty()).ok_or(TIME)?;
    let process = fields.token().and_then(decimal).ok_or(ACTION)?;
    let action = match fields.token().ok_or(ACTION)? {
        b"Q" => Action::Queued,
        b"D" => Action::Issued,
        word if word.len() <= 3 && word.iter().all(u8::is_ascii_alphabetic) => Action::Other,
        _ => return Err(ACTION),
    };
    Ok(EventLine { device, time_ns, process, action, rest: fields })
}

fn is_device(token: &[u8]) -> bool {
    let mut numbers = Fields::new(token);
    numbers.number().and_then(|_| numbers.skip(b',')).and_then(|()| numbers.number()).is_some()
        && numbers.rest.is_empty()
}

/// How the lines of the closing statistics start.
const STATISTICS: [&[u8]; 9] =
    [b"CPU", b"Total", b"Throughput", b"Events", b"Skips", b" Read", b" Write", b" IO unplugs", b" PC "];

impl Blkparse {
    fn parse(&mut self, line: &[u8], volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
        if line.is_empty() {
            return Ok(Parsed::Nothing);
        }
        let event = match event_line_of(line) {
            Ok(event) => event,
            Err(fault) => return self.statistics(line, fault),
        };
        if event.action == Action::Other || event.action != *self.counted.get_or_insert(event.action) {
            return Ok(Parsed::Nothing);
        }
        request_of(event, volumes)
    }

    /// A line that is no event: fine if it belongs to the statistics, which start with a CPU's or the total.
    fn statistics(&mut self, line: &[u8], fault: Fault) -> Result<Parsed, Fault> {
        let known = STATISTICS.iter().position(|title| line.starts_with(title));
        match known {
            Some(0 | 1) if line.ends_with(b"):") => self.in_statistics = true,
            Some(_) if self.in_statistics => {}
            _ => return Err(fault),
        }
        Ok(Parsed::Nothing)
    }
}

fn request_of(event: EventLine, volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
    let EventLine { device, time_ns, process, mut rest, .. } = event;
    let rwbs = rest.token().ok_or(ACTION)?;
    let first = rest.token().ok_or(SECTORS)?;
    let (first, count) = if first.starts_with(b"[") {
        (0, 0)
    } else {
        let first = decimal(first).ok_or(SECTORS)?;
        match rest.token().ok_or(SECTORS)? {
            b"+" => (first, rest.token().and_then(decimal).ok_or(SECTORS)?),
            command if command.starts_with(b"(") => return Ok(Parsed::OtherCommand),
            _ => return Err(SECTORS),
        }
    };
    let op = match op_of(rwbs, count)? {
        Some(op) => op,
        None => return Ok(Parsed::OtherCommand),
    };
    let has = |letter: u8| rwbs.contains(&letter);
    let origin = by_process(process)?.with_sync(is_waited_for(op, has(b'S'), has(b'F'), has(b'A')));
    let volume = volumes.lookup(device, <[u8]>::to_vec)?;
    if op == RequestOp::Flush {
        return Ok(Parsed::Request(TraceRequest {
            time_ns,
            offset_bytes: 0,
            length_bytes: 0,
            volume,
            op,
            origin,
        }));
    }
    let offset_bytes = first.checked_mul(SECTOR_BYTES).ok_or(FAR)?;
    let length = count.checked_mul(SECTOR_BYTES).and_then(|bytes| u32::try_from(bytes).ok()).ok_or(LONG)?;
    Ok(Parsed::Request(TraceRequest { time_ns, offset_bytes, length_bytes: length, volume, op, origin }))
}

/// The kernel writes F first for a flush that precedes the data, then the operation, then attributes
/// (F again for FUA, A read-ahead, S synchronous, M metadata).
fn op_of(rwbs: &[u8], sectors: u64) -> Result<Option<RequestOp>, Fault> {
    let operation = rwbs.strip_prefix(b"F").unwrap_or(rwbs);
    let flushes = operation.len() < rwbs.len();
    match operation.first() {
        _ if flushes && sectors == 0 => Ok(Some(RequestOp::Flush)),
        Some(b'R') => Ok(Some(RequestOp::Read)),
        Some(b'W') => Ok(Some(RequestOp::Write)),
        Some(b'D') => Ok(Some(RequestOp::Trim)),
        Some(b'N') => Ok(None),
        _ => Err(RWBS),
    }
}
