//! Numbers of bytes as people write and read them: on the command line, in the configuration, in reports.
//!
//! A size is a whole number, alone for bytes or with one of the units B, KiB, MiB, GiB and TiB. Every unit is a
//! power of 1024. K, M, G and T are short for them, capitals and small letters are the same, and blanks may stand
//! around number and unit. KB, MB and the like are refused, as they mean 1000 to some and 1024 to others. A rate is a size with
//! `/day` behind it.

use std::fmt;

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// A text that is no size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeError {
    /// No whole number, or no unit that there is.
    Malformed,
    /// 2^64 bytes or more.
    TooLarge,
    /// A rate that does not say for which time, or is nothing.
    NoRate,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SizeError::Malformed => {
                "write a whole number of bytes, or one with KiB, MiB, GiB or TiB, such as 64MiB"
            }
            SizeError::TooLarge => "that is 2^64 bytes or more; write a smaller size",
            SizeError::NoRate => "write a size above 0 for each day, such as 50GiB/day",
        })
    }
}

impl std::error::Error for SizeError {}

/// The bytes that `text` stands for: `4096`, `64MiB`, `2 GiB`, `1g`.
///
/// # Errors
/// What is wrong, with what to write instead.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    if number.is_empty() {
        return Err(SizeError::Malformed);
    }
    let power = power_of(unit.trim_start()).ok_or(SizeError::Malformed)?;
    // Digits alone fail to be a number only by being too many.
    let number: u64 = number.parse().map_err(|_| SizeError::TooLarge)?;
    number.checked_mul(1 << (10 * power)).ok_or(SizeError::TooLarge)
}

/// The bytes for each day that `text` stands for: `50GiB/day`. At least one.
///
/// # Errors
/// As [`parse_size`].
pub fn parse_daily_bytes(text: &str) -> Result<u64, SizeError> {
    let size = text.trim_end().strip_suffix("/day").ok_or(SizeError::NoRate)?;
    let bytes = parse_size(size)?;
    if bytes == 0 { Err(SizeError::NoRate) } else { Ok(bytes) }
}

/// How many times 1024 a unit is; none means bytes.
fn power_of(unit: &str) -> Option<usize> {
    if unit.is_empty() {
        return Some(0);
    }
    UNITS.iter().position(|name| unit.eq_ignore_ascii_case(name) || unit.eq_ignore_ascii_case(&name[..1]))
}

/// The bytes with the largest unit that keeps the number at one or more: "64 MiB", "1.50 KiB".
pub fn show_size(bytes: u64) -> String {
    let power = (bytes.max(1).ilog2() as usize / 10).min(UNITS.len() - 1);
    let unit_bytes = 1_u64 << (10 * power);
    let number = bytes as f64 / unit_bytes as f64;
    let decimals = if bytes.is_multiple_of(unit_bytes) { 0 } else { 2 };
    format!("{number:.decimals$} {}", UNITS[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_size() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("007", 7),
            ("512B", 512),
            ("512 b", 512),
            ("4K", 4096),
            ("4k", 4096),
            ("4KiB", 4096),
            ("4kib", 4096),
            ("64 MiB", 64 << 20),
            ("  64  M ", 64 << 20),
            ("\t3\tGIB\n", 3 << 30),
            ("1g", 1 << 30),
            ("2TiB", 2 << 40),
            ("0TiB", 0),
            ("18446744073709551615", u64::MAX),
            ("16777215TiB", 16_777_215 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text:?}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "",
            " ",
            "MiB",
            "-1",
            "+1",
            "1.5GiB",
            "1,024",
            "1_000",
            "1e9",
            "0x10",
            "64KB",
            "64MB",
            "1kB",
            "1PiB",
            "1KiBs",
            "1 2",
            "1 K iB",
            "4Ki",
            "4\u{212a}",
            "\u{661}",
            "1\0",
        ] {
            assert_eq!(parse_size(text), Err(SizeError::Malformed), "{text:?}");
        }
        for text in
            ["18446744073709551616", "16777216TiB", "99999999999999999999999K", "18014398509481984 KiB"]
        {
            assert_eq!(parse_size(text), Err(SizeError::TooLarge), "{text:?}");
        }
    }

    #[test]
    fn rates_are_sizes_for_each_day() {
        assert_eq!(parse_daily_bytes("50GiB/day"), Ok(50 << 30));
        assert_eq!(parse_daily_bytes(" 4096 /day "), Ok(4096));
        for text in ["50GiB", "50GiB/d", "0/day", "0 MiB/day", "50GiB/days", "/ day"] {
            assert_eq!(parse_daily_bytes(text), Err(SizeError::NoRate), "{text:?}");
        }
        for text in ["/day", "50GB/day", "1.5GiB/day"] {
            assert_eq!(parse_daily_bytes(text), Err(SizeError::Malformed), "{text:?}");
        }
    }

    #[test]
    fn shown_sizes_are_short_and_can_be_read_when_whole() {
        for (bytes, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (1023, "1023 B"),
            (4096, "4 KiB"),
            (1 << 30, "1 GiB"),
            (1536, "1.50 KiB"),
            (3 << 29, "1.50 GiB"),
            (5 << 50, "5120 TiB"),
        ] {
            assert_eq!(show_size(bytes), text);
            assert!(text.contains('.') || parse_size(text) == Ok(bytes), "{text}");
        }
    }
}
