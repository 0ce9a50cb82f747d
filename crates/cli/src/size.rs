//! Sizes as people write and read them. It must not know what they are sizes of.

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Bytes from a whole number with a unit: `4096`, `64MiB`, `1G`. Every unit is a power of 1024.
///
/// # Errors
/// What to write instead.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start().to_ascii_lowercase();
    let power = UNITS.iter().position(|known| {
        let known = known.to_ascii_lowercase();
        unit == known || (unit.len() == 1 && known.starts_with(&unit))
    });
    let power = if unit.is_empty() { Some(0) } else { power };
    let (Ok(number), Some(power)) = (number.parse::<u64>(), power) else {
        return Err(
            "write a whole number of bytes, or one with KiB, MiB, GiB or TiB, such as 64MiB".to_owned()
        );
    };
    number
        .checked_mul(1 << (10 * power))
        .ok_or_else(|| "that is more than 2^64 bytes; write a smaller size".to_owned())
}

/// Bytes with the largest unit that keeps the number at one or more.
pub fn show_size(bytes: u64) -> String {
    let power = (bytes.max(1).ilog2() as usize / 10).min(UNITS.len() - 1);
    let number = bytes as f64 / (1u64 << (10 * power)) as f64;
    let decimals = if bytes.is_multiple_of(1 << (10 * power)) { 0 } else { 2 };
    format!("{number:.decimals$} {}", UNITS[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_binary() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4K", 4096),
            ("4k", 4096),
            ("4KiB", 4096),
            ("64 MiB", 64 << 20),
            ("1g", 1 << 30),
            ("2TiB", 2 << 40),
            ("512B", 512),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in
            ["", "MiB", "-1", "1.5GiB", "64MB", "1PiB", "1KiBs", "18446744073709551616", "16777216TiB", "1 2"]
        {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shown_sizes_are_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (4096, "4 KiB"),
            (1 << 30, "1 GiB"),
            (1536, "1.50 KiB"),
            (5 << 50, "5120 TiB"),
        ] {
            assert_eq!(show_size(bytes), text);
        }
    }
}
