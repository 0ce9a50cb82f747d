//! What text formats share: fields as numbers, times and sizes, each with the fault it may have. It must not know
//! single formats.

use lode_types::{Origin, RequestOp, SECTOR_BYTES};

use crate::error::{ErrorKind, Fault};
use crate::scan::decimal;

const LONG: Fault = Fault::new(ErrorKind::OutOfRange, "a request shorter than 4 GiB");
const PROCESS: Fault = Fault::new(ErrorKind::OutOfRange, "the number of a process up to 268435454");
const FAR: Fault = Fault::new(ErrorKind::OutOfRange, "a first block whose byte offset is below 2^64");

/// A unit of time, as the power of ten that its nanoseconds are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Seconds = 9,
    Milliseconds = 6,
    Microseconds = 3,
    Nanoseconds = 0,
}

impl TimeUnit {
    /// A decimal number, with or without a fraction, in nanoseconds. What the fraction has beyond them is cut off.
    pub(super) fn ns(self, text: Option<&[u8]>, expected: &'static str) -> Result<u64, Fault> {
        let text = text.ok_or(Fault::malformed(expected))?;
        if text.first() == Some(&b'-') {
            return Err(Fault::new(ErrorKind::NegativeTime, expected));
        }
        let (whole, fraction) = match memchr::memchr(b'.', text) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let late = Fault::new(ErrorKind::OutOfRange, expected);
        let ns = number(Some(whole), expected)?.checked_mul(10_u64.pow(self as u32)).ok_or(late)?;
        match fraction {
            Some(digits) => ns.checked_add(self.fraction_ns(digits, expected)?).ok_or(late),
            None => Ok(ns),
        }
    }

    fn fraction_ns(self, digits: &[u8], expected: &'static str) -> Result<u64, Fault> {
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(Fault::malformed(expected));
        }
        let places = self as usize;
        let kept = digits.iter().copied().chain(std::iter::repeat(b'0')).take(places);
        Ok(kept.fold(0, |ns, digit| ns * 10 + u64::from(digit - b'0')))
    }
}

/// What is known of a request when its process is.
#[inline]
pub(super) fn by_process(number: u64) -> Result<Origin, Fault> {
    u32::try_from(number).ok().and_then(|number| Origin::UNKNOWN.with_process(number)).ok_or(PROCESS)
}

/// What blktrace's flags say of whether the issuer waits. Linux calls every read synchronous (`op_is_sync`); for what is
/// read ahead nobody waits yet.
#[inline]
pub(super) fn is_waited_for(op: RequestOp, sync: bool, flush_or_fua: bool, ahead: bool) -> bool {
    sync || flush_or_fua || (op == RequestOp::Read && !ahead) || op == RequestOp::Flush
}

/// A decimal number; one of digits alone that is too large is out of range.
#[inline]
pub(super) fn number(text: Option<&[u8]>, expected: &'static str) -> Result<u64, Fault> {
    match text {
        Some(text) => decimal(text).ok_or_else(|| bad_number(text, expected)),
        None => Err(Fault::malformed(expected)),
    }
}

#[cold]
fn bad_number(text: &[u8], expected: &'static str) -> Fault {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    Fault::new(if is_number { ErrorKind::OutOfRange } else { ErrorKind::Malformed }, expected)
}

/// A number of bytes as a request's length.
#[inline]
pub(super) fn length(bytes: u64) -> Result<u32, Fault> {
    u32::try_from(bytes).map_err(|_| LONG)
}

/// The first byte and the number of bytes of `count` units from `first` on.
#[inline]
pub(super) fn units(first: u64, count: u64, unit_bytes: u64) -> Result<(u64, u32), Fault> {
    let offset_bytes = first.checked_mul(unit_bytes).ok_or(FAR)?;
    Ok((offset_bytes, length(count.checked_mul(unit_bytes).ok_or(LONG)?)?))
}

/// The first byte and the number of bytes of `count` sectors from `first` on.
#[inline]
pub(super) fn sectors(first: u64, count: u64) -> Result<(u64, u32), Fault> {
    units(first, count, SECTOR_BYTES)
}

/// `R` or `W`, in either case.
#[inline]
pub(super) fn read_or_write(text: Option<&[u8]>, expected: &'static str) -> Result<RequestOp, Fault> {
    match text {
        Some(b"R" | b"r") => Ok(RequestOp::Read),
        Some(b"W" | b"w") => Ok(RequestOp::Write),
        _ => Err(Fault::malformed(expected)),
    }
}

/// Whether a line is the title line `titles`, which has as many fields, whatever the case and what follows each.
pub(super) fn is_title(line: &[u8], titles: &[&str]) -> bool {
    let mut fields = line.split(|&b| b == b',').map(<[u8]>::trim_ascii_start);
    let starts = |field: &[u8], title: &str| {
        field.get(..title.len()).is_some_and(|start| start.eq_ignore_ascii_case(title.as_bytes()))
    };
    titles.iter().all(|title| fields.next().is_some_and(|field| starts(field, title)))
        && fields.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times() {
        use TimeUnit::{Microseconds, Milliseconds, Nanoseconds, Seconds};
        for (unit, text, ns) in [
            (Seconds, "0.026214", Ok(26_214_000)),
            (Seconds, "1456095145.133076000", Ok(1_456_095_145_133_076_000)),
            (Seconds, "1.0000000019", Ok(1_000_000_001)),
            (Seconds, "18446744073.709551615", Ok(u64::MAX)),
            (Seconds, "18446744073.709551616", Err(ErrorKind::OutOfRange)),
            (Seconds, "18446744074", Err(ErrorKind::OutOfRange)),
            (Milliseconds, "13.191135", Ok(13_191_135)),
            (Milliseconds, "242904.693", Ok(242_904_693_000)),
            (Microseconds, "7", Ok(7000)),
            (Nanoseconds, "11413000", Ok(11_413_000)),
            (Nanoseconds, "3.9", Ok(3)),
            (Nanoseconds, "18446744073709551616", Err(ErrorKind::OutOfRange)),
            (Seconds, "-1", Err(ErrorKind::NegativeTime)),
            (Seconds, "-0.5", Err(ErrorKind::NegativeTime)),
            (Seconds, "1.", Err(ErrorKind::Malformed)),
            (Seconds, ".5", Err(ErrorKind::Malformed)),
            (Seconds, "1.5.5", Err(ErrorKind::Malformed)),
            (Seconds, "1e5", Err(ErrorKind::Malformed)),
            (Seconds, "", Err(ErrorKind::Malformed)),
        ] {
            assert_eq!(unit.ns(Some(text.as_bytes()), "a time").map_err(|f| f.kind), ns, "{text}");
        }
        assert_eq!(Seconds.ns(None, "a time"), Err(Fault::malformed("a time")));
    }

    proptest! {
        /// The obvious way: with enough digits, in 128 bits.
        #[test]
        fn times_match_an_oracle(whole in "[0-9]{1,22}", fraction in proptest::option::of("[0-9]{1,14}")) {
            for unit in [TimeUnit::Seconds, TimeUnit::Milliseconds, TimeUnit::Microseconds, TimeUnit::Nanoseconds] {
                let text = fraction.iter().fold(whole.clone(), |text, fraction| format!("{text}.{fraction}"));
                let digits = format!("{whole}{:0<14}", fraction.clone().unwrap_or_default());
                let ns = digits.parse::<u128>().expect("36 digits") / 10_u128.pow(14 - unit as u32);
                let expected = u64::try_from(ns).map_err(|_| ErrorKind::OutOfRange);
                prop_assert_eq!(unit.ns(Some(text.as_bytes()), "a time").map_err(|f| f.kind), expected);
            }
        }
    }

    #[test]
    fn units_and_their_limits() {
        assert_eq!(sectors(8, 16), Ok((4096, 8192)));
        assert_eq!(units(1_197_769, 1, 16_384), Ok((19_624_247_296, 16_384)));
        assert_eq!(units(1 << 55, 1, 512), Err(FAR));
        assert_eq!(units(1, 1 << 23, 512), Err(LONG));
        assert_eq!(units(1, u64::MAX, 512), Err(LONG));
    }

    #[test]
    fn title_lines() {
        let titles = ["Timestamp", "Response"];
        assert!(is_title(b"Timestamp,Response", &titles) && is_title(b"timestamp (s), response", &titles));
        assert!(!is_title(b"Timestamp", &titles) && !is_title(b"Timestamp,Response,LUN", &titles));
    }
}
