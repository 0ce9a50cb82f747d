//! MSR Cambridge CSV (SNIA IOTTA 388): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Timestamp is a Windows filetime, 100 ns ticks since 1601, and stays absolute; Offset and Size are bytes;
//! ResponseTime is not used. A volume is named "Hostname_DiskNumber".

use lode_types::{Origin, RequestOp, TraceRequest};

use super::{Decoder, Format, lines};
use crate::compact::Recorded;
use crate::error::{ErrorKind, Fault, TraceError};
use crate::feed::{Feed, More, Parsed};
use crate::lanes::{all_digits, last_digits, no_digits, two_numbers};
use crate::scan::{ASCII_ZEROS, Fields, decimal};
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "msr",
    about: "MSR Cambridge CSV: filetime,host,disk,Read|Write,offset,size,response",
    endings: &["msr"],
    default_unit_bytes: None,
    units_told: true,
    recorded: |_| Recorded::TIMES,
    detect: |head| lines::have_requests(head, parse),
    decoder: |_| Box::new(Usual { early: Early::NONE }),
};

impl Decoder for Usual {
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        feed.lines_quickly(out, |text, volumes| self.parse(text, volumes), parse)
    }
}

/// "Read," and "Write," in the high bytes of a little-endian word, and the bits below them.
const KINDS: [(u64, u32, RequestOp); 2] = [
    (u64::from_le_bytes(*b"\0\0\0Read,"), 24, RequestOp::Read),
    (u64::from_le_bytes(*b"\0\0Write,"), 16, RequestOp::Write),
];
const TICK_NS: u64 = 100;
const TIME: Fault = Fault::malformed("a filetime in 100 ns ticks and a comma first");
const LATE: Fault = Fault::new(ErrorKind::OutOfRange, "a filetime below 184467440737095516 (the year 2185)");
const DISK: Fault = Fault::malformed("a host name and a disk number after the time");
const TYPE: Fault = Fault::malformed("Read or Write as fourth field");
const OFFSET: Fault = Fault::malformed("an offset in bytes below 2^64 as fifth field");
const SIZE: Fault = Fault::malformed("a size in bytes as sixth field");
const LONG: Fault = Fault::new(ErrorKind::OutOfRange, "a size below 4 GiB");
const RESPONSE: Fault = Fault::malformed("a response time as seventh and last field");

/// Characters that the usual way looks at once it is at the offset: two numbers and as much of the response time.
const TAIL_BYTES: usize = 32;
/// Longest key of a volume (host, comma, disk) in a usual line.
const MAX_KEY_BYTES: usize = 64;
/// Characters from a line's start on that the usual way may look at, so that one check of the length is enough.
const WINDOW_BYTES: usize = TIME_BYTES + MAX_KEY_BYTES + 7 + TAIL_BYTES;
/// A time and its comma.
const TIME_BYTES: usize = EARLY_DIGITS + LATE_DIGITS + 1;
/// The first digits of an 18-digit filetime, which are the same for 10 seconds, and the last ones.
const EARLY_DIGITS: usize = 10;
const LATE_DIGITS: usize = 8;

/// The first digits of the last line's time, and what they are worth.
struct Early {
    digits: [u8; EARLY_DIGITS],
    time_ns: u64,
}

/// Lines of the usual shape, which are nearly all.
struct Usual {
    early: Early,
}

impl Usual {
    /// [`parse`] for lines of the usual shape on the same volume as the last line, with the line's length; `None` for
    /// any other. `text` goes on beyond the line, so that whole words can be loaded.
    #[inline(always)]
    fn parse(&mut self, text: &[u8], volumes: &VolumeTable) -> Option<(TraceRequest, usize)> {
        let text = text.first_chunk::<WINDOW_BYTES>()?;
        // Every filetime from 1917 to 2285 has 18 digits.
        let (time, rest) = text.split_first_chunk::<TIME_BYTES>()?;
        let (early, late) = time.split_first_chunk::<EARLY_DIGITS>()?;
        if *early != self.early.digits {
            self.early = Early::new(early)?;
        }
        let late = u64::from_le_bytes(*late.first_chunk::<LATE_DIGITS>()?);
        if !all_digits(time.last_chunk::<17>()?.first_chunk()?) || time[TIME_BYTES - 1] != b',' {
            return None;
        }
        let (volume, key_len) = volumes.repeats(rest, b',')?;
        if key_len > MAX_KEY_BYTES {
            return None;
        }
        // Without a branch on the type, as reads and writes follow each other at random.
        let word = word_at(text, TIME_BYTES + key_len + 1)?;
        let write = usize::from(word as u8 == b'W');
        let (kind, unused, op) = KINDS[write];
        if word << unused != kind {
            return None;
        }
        let start = TIME_BYTES + key_len + 1 + 5 + write;
        // The three fields are digits up to these places.
        let tail = text.get(start..start + TAIL_BYTES)?.first_chunk()?;
        let ends = no_digits(tail);
        let after_first = ends & ends.wrapping_sub(1);
        let after_second = after_first & after_first.wrapping_sub(1);
        if after_second == 0 {
            return None;
        }
        let [offset, size, response] =
            [ends, after_first, after_second].map(|ends| ends.trailing_zeros() as usize % TAIL_BYTES);
        let separated = tail[offset] == b',' && tail[size] == b',' && tail[response] == b'\n';
        let (offset_digits, size_digits) = (offset, size.wrapping_sub(offset + 1));
        // Of numbers from 1 on, as none but these are still small with one taken off.
        let usual_lengths = offset_digits.wrapping_sub(1) < 16 && size_digits.wrapping_sub(1) < 8;
        if !separated || !usual_lengths || response == size + 1 {
            return None;
        }
        // What is before a number is in the line, too, and is masked.
        let offset_text = text.get(start + offset - 16..start + offset)?.first_chunk()?;
        let offset_bytes = last_digits(offset_text, offset_digits);
        let unused = 64 - 8 * size_digits as u32;
        let size_word = (word_at(text, start + size - 8)? ^ ASCII_ZEROS) >> unused << unused;
        let [late, length_bytes] = two_numbers(late ^ ASCII_ZEROS, size_word);
        let time_ns = self.early.time_ns + u64::from(late) * TICK_NS;
        let request =
            TraceRequest { time_ns, offset_bytes, length_bytes, volume, op, origin: Origin::UNKNOWN };
        Some((request, start + response + 1))
    }
}

/// The word at a place of which the compiler can see that it is inside.
#[inline(always)]
fn word_at(text: &[u8; WINDOW_BYTES], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*text.get(at..at + 8)?.first_chunk()?))
}

impl Early {
    /// None yet.
    const NONE: Early = Early { digits: [0; EARLY_DIGITS], time_ns: 0 };

    /// `None` for anything but digits of a time that fits 64 bits whatever comes after them.
    #[cold]
    fn new(digits: &[u8; EARLY_DIGITS]) -> Option<Early> {
        const UNIT_NS: u64 = TICK_NS * 10_u64.pow(LATE_DIGITS as u32);
        let time_ns = decimal(digits)?.checked_mul(UNIT_NS)?;
        time_ns.checked_add(UNIT_NS)?;
        Some(Early { digits: *digits, time_ns })
    }
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
    Ok(Parsed::request(time_ns, op, (offset_bytes, length_bytes), volume))
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

fn op_of(fields: &mut Fields) -> Result<RequestOp, Fault> {
    let word = fields.until(b',').ok_or(TYPE)?;
    if word.eq_ignore_ascii_case(b"read") {
        Ok(RequestOp::Read)
    } else if word.eq_ignore_ascii_case(b"write") {
        Ok(RequestOp::Write)
    } else {
        Err(TYPE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_usual_way_agrees_with_the_careful_one(
            lines in proptest::collection::vec((
                "([0-9]{17,19}|12816638529551466[0-9]),(hm,0|hm,1|src1,0|longer,00),(Read|Write|read|Trim),[0-9]{1,21},[0-9]{1,11},[0-9]{1,12}[\r,x]?",
                proptest::option::of((0usize..60, any::<u8>())),
            ), 1..4),
            first in "(hm,0|src1,0|longer,00)",
            after in "(|\n|\n[0-9,\n]{50})",
        ) {
            let mut volumes = VolumeTable::default();
            let first = format!("1,{first},Read,0,1,1");
            prop_assert!(parse(first.as_bytes(), &mut volumes).is_ok());
            let mut usual = Usual { early: Early::NONE };
            for (line, broken) in lines {
                let mut text = line.into_bytes();
                if let Some((at, byte)) = broken && at < text.len() && byte != b'\n' {
                    text[at] = byte;
                }
                let len = text.len();
                text.push(b'\n');
                text.extend_from_slice(after.as_bytes());
                text.extend_from_slice(&[b'7'; WINDOW_BYTES]);
                if let Some(usual) = usual.parse(&text, &volumes) {
                    let Ok(Parsed::Request(careful)) = parse(&text[..len], &mut volumes) else {
                        panic!("only the usual way took it")
                    };
                    prop_assert_eq!(usual, (careful, len + 1));
                }
            }
        }

        #[test]
        fn usual_lines_take_the_usual_way(
            times in proptest::collection::vec(100_000_000_000_000_000u64..184_467_430_000_000_000, 1..5),
            volume in "(hm,0|longername,12)",
            write: bool,
            offset in 0u64..10_000_000_000_000,
            size in 1u32..100_000_000,
            response in 0u32..100_000_000,
        ) {
            let mut volumes = VolumeTable::default();
            let first = format!("1,{volume},Read,0,1,1");
            prop_assert!(parse(first.as_bytes(), &mut volumes).is_ok());
            let mut usual = Usual { early: Early::NONE };
            for time in times {
                let kind = if write { "Write" } else { "Read" };
                let line = format!("{time},{volume},{kind},{offset},{size},{response}\n");
                let op = if write { RequestOp::Write } else { RequestOp::Read };
                let expected =
                    TraceRequest { time_ns: time * 100, offset_bytes: offset, length_bytes: size, volume: 0, op, origin: Origin::UNKNOWN };
                let text = format!("{line}{line}{line}{line}");
                prop_assert_eq!(usual.parse(text.as_bytes(), &volumes), Some((expected, line.len())));
            }
        }
    }
}
