//! Lodestore's own text: one request a line under a title line that names the columns, the only text that can tell who
//! asks.
//!
//! `time_ns`, `volume`, `op`, `offset_bytes` and `length_bytes` have to be there, `process`, `sync` and `critical` may
//! be; the order is free. An op is the first letter of read, write, trim or flush. `sync` and `critical` are 1 or 0. What
//! a request does not tell of who asks is left empty.

use lode_types::{Origin, OriginFields, RequestOp, TraceRequest};

use super::fields::{TimeUnit, length, number};
use super::{Format, head_lines, lines};
use crate::compact::Recorded;
use crate::error::Fault;
use crate::feed::Parsed;
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "requests-csv",
    about: "Lodestore's CSV with the columns time_ns, volume, op, offset_bytes, length_bytes; and process, sync, critical",
    endings: &[],
    default_unit_bytes: None,
    units_told: true,
    recorded: |head| titles_in(head).map_or(Recorded::TIMES, |titles| titles.recorded()),
    detect: |head| titles_in(head).is_some(),
    decoder: |_| {
        let mut csv = RequestsCsv { titles: None };
        lines::decoder(move |line, volumes| csv.parse(line, volumes))
    },
};

/// Names of the columns; those of who asks come last, and alone may be absent.
const NAMES: [&str; 8] =
    ["time_ns", "volume", "op", "offset_bytes", "length_bytes", "process", "sync", "critical"];
const NEEDED: usize = 5;
const TIME: usize = 0;
const VOLUME: usize = 1;
const OP: usize = 2;
const OFFSET: usize = 3;
const LENGTH: usize = 4;
const PROCESS: usize = 5;
const SYNC: usize = 6;
const CRITICAL: usize = 7;

const TITLES: Fault = Fault::malformed(
    "a title line with time_ns, volume, op, offset_bytes and length_bytes, perhaps process, sync and critical",
);
const SHAPE: Fault = Fault::malformed("as many fields as the title line has");
const A_PROCESS: Fault = Fault::malformed("the number of a process up to 268,435,454, or nothing");
const A_FLAG: Fault = Fault::malformed("1, 0 or nothing as sync and as critical");

/// Which column each field of a line is in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Titles {
    columns: Vec<usize>,
}

impl Titles {
    /// The columns that a title line names, each once.
    fn of(line: &[u8]) -> Option<Titles> {
        let place = |title: &[u8]| NAMES.iter().position(|name| name.as_bytes() == title);
        let mut columns = Vec::new();
        for title in line.split(|&b| b == b',') {
            let column = place(title).filter(|column| !columns.contains(column))?;
            columns.push(column);
        }
        (0..NEEDED).all(|needed| columns.contains(&needed)).then_some(Titles { columns })
    }

    fn recorded(&self) -> Recorded {
        let has = |column: usize| self.columns.contains(&column);
        let origins = OriginFields { process: has(PROCESS), sync: has(SYNC), critical: has(CRITICAL) };
        Recorded { times: true, origins }
    }

    /// The fields of a line by their columns; of a column that is not there an empty one.
    fn fields<'a>(&self, line: &'a [u8]) -> Result<[&'a [u8]; NAMES.len()], Fault> {
        let mut values: [&[u8]; NAMES.len()] = [b""; NAMES.len()];
        let mut fields = line.split(|&b| b == b',');
        for &column in &self.columns {
            values[column] = fields.next().ok_or(SHAPE)?;
        }
        if fields.next().is_some() { Err(SHAPE) } else { Ok(values) }
    }
}

fn titles_in(head: &[u8]) -> Option<Titles> {
    head_lines(head).next().and_then(Titles::of)
}

struct RequestsCsv {
    /// None before the title line.
    titles: Option<Titles>,
}

impl RequestsCsv {
    fn parse(&mut self, line: &[u8], volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
        if line.is_empty() {
            return Ok(Parsed::Nothing);
        }
        if let Some(titles) = Titles::of(line) {
            // Files that were joined have it again.
            let known = self.titles.get_or_insert_with(|| titles.clone());
            return if *known == titles { Ok(Parsed::Nothing) } else { Err(TITLES) };
        }
        let titles = self.titles.as_ref().ok_or(TITLES)?;
        request(&titles.fields(line)?, volumes).map(Parsed::Request)
    }
}

fn request(fields: &[&[u8]; NAMES.len()], volumes: &mut VolumeTable) -> Result<TraceRequest, Fault> {
    let time_ns =
        TimeUnit::Nanoseconds.ns(Some(fields[TIME]), "zero or more nanoseconds, below 2^64, as time_ns")?;
    let op = match fields[OP] {
        b"R" => RequestOp::Read,
        b"W" => RequestOp::Write,
        b"T" => RequestOp::Trim,
        b"F" => RequestOp::Flush,
        _ => return Err(Fault::malformed("R, W, T or F as op")),
    };
    let offset_bytes = number(Some(fields[OFFSET]), "a number of bytes below 2^64 as offset_bytes")?;
    let length_bytes = length(number(Some(fields[LENGTH]), "a number of bytes as length_bytes")?)?;
    if op == RequestOp::Flush && (offset_bytes, length_bytes) != (0, 0) {
        return Err(Fault::malformed("0 as offset_bytes and length_bytes of a flush"));
    }
    let mut origin = Origin::UNKNOWN;
    if !fields[PROCESS].is_empty() {
        let process = number(Some(fields[PROCESS]), "the number of a process or nothing as process")?;
        let process = u32::try_from(process).map_err(|_| A_PROCESS)?;
        origin = origin.with_process(process).ok_or(A_PROCESS)?;
    }
    if let Some(sync) = flag(fields[SYNC])? {
        origin = origin.with_sync(sync);
    }
    if let Some(critical) = flag(fields[CRITICAL])? {
        origin = origin.with_critical(critical);
    }
    let volume = volumes.lookup(fields[VOLUME], <[u8]>::to_vec)?;
    Ok(TraceRequest { time_ns, offset_bytes, length_bytes, volume, op, origin })
}

fn flag(field: &[u8]) -> Result<Option<bool>, Fault> {
    match field {
        b"" => Ok(None),
        b"0" => Ok(Some(false)),
        b"1" => Ok(Some(true)),
        _ => Err(A_FLAG),
    }
}
