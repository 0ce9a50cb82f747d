//! MSR Cambridge CSV (SNIA IOTTA 388): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Timestamp is a Windows filetime, 100 ns ticks since 1601, and stays absolute; Offset and Size are bytes;
//! ResponseTime is not used. A volume is named "Hostname_DiskNumber".

use lode_types::{Op, TraceRequest};

use super::{Decoder, Format, head_lines};
use crate::error::{ErrorKind, Fault, TraceError};
use crate::feed::{Feed, More, Parsed};
use crate::scan::{Fields, eighteen_digits};
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "msr",
    about: "MSR Cambridge CSV: filetime,host,disk,Read|Write,offset,size,response",
    endings: &["msr"],
    default_unit_bytes: None,
    detect: |head| {
        head_lines(head)
            .any(|line| matches!(parse(line, &mut VolumeTable::default()), Ok(Parsed::Request(_))))
    },
    decoder: |_| Box::new(Msr),
};

struct Msr;

impl Decoder for Msr {
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        feed.lines_quickly(out, parse_usual, parse)
    }
}

/// "Read," and "Write," in the high bytes of a little-endian word.
const READ_WORD: u64 = u64::from_le_bytes(*b"\0\0\0Read,");
const WRITE_WORD: u64 = u64::from_le_bytes(*b"\0\0Write,");
const TICK_NS: u64 = 100;
const TIME: Fault = Fault::malformed("a filetime in 100 ns ticks and a comma first");
const LATE: Fault = Fault::new(ErrorKind::OutOfRange, "a filetime below 184467440737095516 (the year 2185)");
const DISK: Fault = Fault::malformed("a host name and a disk number after the time");
const TYPE: Fault = Fault::malformed("Read or Write as fourth field");
const OFFSET: Fault = Fault::malformed("an offset in bytes below 2^64 as fifth field");
const SIZE: Fault = Fault::malformed("a size in bytes as sixth field");
const LONG: Fault = Fault::new(ErrorKind::OutOfRange, "a size below 4 GiB");
const RESPONSE: Fault = Fault::malformed("a response time as seventh and last field");

/// [`parse`] for lines of the usual shape on the same volume as the last line, with the line's length; `None` for
/// any other. `text` goes on beyond the line, so that whole words can be loaded.
#[inline(always)]
fn parse_usual(text: &[u8], volumes: &VolumeTable) -> Option<(TraceRequest, usize)> {
    // Every filetime from 1917 to 2285 has 18 digits.
    let (time, rest) = text.split_first_chunk::<19>()?;
    let time_ns = eighteen_digits(time.first_chunk()?)?.checked_mul(TICK_NS)?;
    if time[18] != b',' {
        return None;
    }
    let mut fields = Fields::new(rest);
    let (volume, key_len) = volumes.repeats(fields.rest, b',')?;
    fields.rest = &fields.rest[key_len + 1..];
    // Without a branch on the type, as reads and writes follow each other at random.
    let word = u64::from_le_bytes(*fields.rest.first_chunk::<8>()?);
    let (not_read, not_write) = (word << 24 ^ READ_WORD, word << 16 ^ WRITE_WORD);
    if not_read.min(not_write) != 0 {
        return None;
    }
    let write = not_write == 0;
    fields.rest = &fields.rest[5 + usize::from(write)..];
    let op = if write { Op::Write } else { Op::Read };
    let offset_bytes = fields.number()?;
    fields.skip(b',')?;
    let length_bytes = u32::try_from(fields.number()?).ok()?;
    fields.skip(b',')?;
    fields.digits()?;
    fields.skip(b'\n')?;
    let len = text.len() - fields.rest.len();
    Some((TraceRequest { time_ns, offset_bytes, length_bytes, volume, op }, len))
}

#[cold]
fn parse(line: &[u8], volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
    if line.is_empty() {
        return Ok(Parsed::Nothing);
    }
    let mut fields = Fields::new(line);
    let Some(ticks) = fields.number() else {
        return Err(if line[0] == b'-' { Fault::new(ErrorKind::NegativeTime, TIME.expected) } else { TIME });
    };
    let time_ns = ticks.checked_mul(TICK_NS).ok_or(LATE)?;
    fields.skip(b',').ok_or(TIME)?;
    let volume = volume_of(&mut fields, volumes)?;
    let op = op_of(&mut fields)?;
    let offset_bytes = fields.number().ok_or(OFFSET)?;
    fields.skip(b',').ok_or(OFFSET)?;
    let size = fields.number().ok_or(SIZE)?;
    fields.skip(b',').ok_or(SIZE)?;
    let length_bytes = u32::try_from(size).map_err(|_| LONG)?;
    fields.digits().ok_or(RESPONSE)?;
    if !fields.rest.is_empty() {
        return Err(RESPONSE);
    }
    Ok(Parsed::Request(TraceRequest { time_ns, offset_bytes, length_bytes, volume, op }))
}

fn volume_of(fields: &mut Fields, volumes: &mut VolumeTable) -> Result<u32, Fault> {
    let both = fields.rest;
    let host = fields.until(b',').ok_or(DISK)?;
    let disk = fields.until(b',').ok_or(DISK)?;
    if host.is_empty() || disk.is_empty() || !disk.iter().all(u8::is_ascii_digit) {
        return Err(DISK);
    }
    let key = &both[..host.len() + 1 + disk.len()];
    volumes.lookup(key, |key| key.iter().map(|&b| if b == b',' { b'_' } else { b }).collect())
}

fn op_of(fields: &mut Fields) -> Result<Op, Fault> {
    let word = fields.until(b',').ok_or(TYPE)?;
    if word.eq_ignore_ascii_case(b"read") {
        Ok(Op::Read)
    } else if word.eq_ignore_ascii_case(b"write") {
        Ok(Op::Write)
    } else {
        Err(TYPE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(line: &str) -> Result<TraceRequest, Fault> {
        match parse(line.as_bytes(), &mut VolumeTable::default())? {
            Parsed::Request(request) => Ok(request),
            Parsed::Nothing | Parsed::OtherCommand => Err(Fault::malformed("a request")),
        }
    }

    #[test]
    fn reads_fields() {
        let expected = TraceRequest {
            time_ns: 12_816_638_529_551_466_300,
            offset_bytes: 9_056_014_336,
            length_bytes: 2048,
            volume: 0,
            op: Op::Write,
        };
        assert_eq!(one("128166385295514663,hm,0,Write,9056014336,2048,2833"), Ok(expected));
        assert_eq!(
            one("128166385295514663,hm,0,READ,9056014336,2048,2833"),
            Ok(TraceRequest { op: Op::Read, ..expected })
        );
    }

    proptest! {
        #[test]
        fn the_usual_way_agrees_with_the_careful_one(
            line in "([0-9]{17,19}|12816638529551466[0-9]),(hm,0|hm,1|src1,0|longer,00),(Read|Write|read|Trim),[0-9]{1,21},[0-9]{1,11},[0-9]{1,12}[\r,x]?",
            broken in proptest::option::of((0usize..60, any::<u8>())),
            first in "(hm,0|src1,0|longer,00)",
        ) {
            let mut text = line.into_bytes();
            if let Some((at, byte)) = broken && at < text.len() && byte != b'\n' {
                text[at] = byte;
            }
            let mut volumes = VolumeTable::default();
            let first = format!("1,{first},Read,0,1,1");
            prop_assert!(parse(first.as_bytes(), &mut volumes).is_ok());
            let len = text.len();
            for tail in [&b"\n"[..], b"\n12345678901234567890"] {
                text.truncate(len);
                text.extend_from_slice(tail);
                if let Some(usual) = parse_usual(&text, &volumes) {
                    let Ok(Parsed::Request(careful)) = parse(&text[..len], &mut volumes) else {
                        panic!("only the usual way took it")
                    };
                    prop_assert_eq!(usual, (careful, len + 1));
                }
            }
        }
    }

    #[test]
    fn usual_lines_take_the_usual_way() {
        let mut volumes = VolumeTable::default();
        let line = b"128166385295514663,hm,0,Write,9056014336,2048,2833\n128166385295514878,hm,0,";
        assert!(parse_usual(line, &volumes).is_none());
        assert!(parse(&line[..50], &mut volumes).is_ok());
        assert!(parse_usual(line, &volumes).is_some());
    }

    #[test]
    fn names_volumes() {
        let mut volumes = VolumeTable::default();
        for line in ["1,hm,0,Read,0,1,1", "1,hm,01,Read,0,1,1", "1,hm,0,Read,0,1,1", "1,src1,10,Write,0,1,1"]
        {
            assert!(parse(line.as_bytes(), &mut volumes).is_ok());
        }
        assert_eq!(volumes.names(), ["hm_0", "hm_01", "src1_10"]);
    }

    #[test]
    fn refuses_faults() {
        for (line, fault) in [
            ("x", TIME),
            ("128166385295514663", TIME),
            ("-5,hm,0,Read,1,1,1", Fault::new(ErrorKind::NegativeTime, TIME.expected)),
            ("184467440737095517,hm,0,Read,1,1,1", LATE),
            ("1,hm,x,Read,1,1,1", DISK),
            ("1,,0,Read,1,1,1", DISK),
            ("1,hm", DISK),
            ("1,hm,0,Erase,1,1,1", TYPE),
            ("1,hm,0,Read,18446744073709551616,1,1", OFFSET),
            ("1,hm,0,Read,-1,1,1", OFFSET),
            ("1,hm,0,Read,1,,1", SIZE),
            ("1,hm,0,Read,1,4294967296,1", LONG),
            ("1,hm,0,Read,1,1", SIZE),
            ("1,hm,0,Read,1,1,", RESPONSE),
            ("1,hm,0,Read,1,1,1,1", RESPONSE),
        ] {
            assert_eq!(one(line), Err(fault), "{line}");
        }
    }
}
