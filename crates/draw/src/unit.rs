//! Units, and numbers as people read them. It must not know what is measured.
//!
//! The script of a page shows numbers that change by the same rules; a test in a browser compares the two.

use serde::{Serialize, Serializer};

const BYTE_UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

const DAYS_PER_YEAR: f64 = 365.0;
const HOURS_PER_DAY: f64 = 24.0;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Plain numbers.
    Count,
    /// A share: 1.0 is shown as 100 %.
    Ratio,
    /// Bytes, shown in powers of 1024.
    Bytes,
    /// Bytes a day.
    BytesPerDay,
    /// Microseconds, shown as ns, µs, ms or s.
    Microseconds,
    /// Years, shown as years, days or hours.
    Years,
    /// US dollars.
    Dollars,
    /// Something else, with the name of its unit: `"J"`.
    Named(&'static str),
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = match self {
            Unit::Count => "count",
            Unit::Ratio => "ratio",
            Unit::Bytes => "bytes",
            Unit::BytesPerDay => "bytes-day",
            Unit::Microseconds => "us",
            Unit::Years => "years",
            Unit::Dollars => "usd",
            // The sign tells names from the words above.
            Unit::Named(name) => return serializer.collect_str(&format_args!("={name}")),
        };
        serializer.serialize_str(name)
    }
}

impl Unit {
    /// The number as text, to about three digits: `12.5 GiB`, `83.1 %`, `$0.35`. What is not a number is shown as a dash.
    pub fn show(self, value: f64) -> String {
        if value.is_nan() {
            return "–".to_owned();
        }
        match self {
            Unit::Count => plain(value),
            Unit::Ratio => percent(value * 100.0),
            Unit::Bytes => bytes(value),
            Unit::BytesPerDay => format!("{}/day", bytes(value)),
            Unit::Microseconds => time(value),
            Unit::Years => years(value),
            // Cents, and more where these would say nothing.
            Unit::Dollars if value == 0.0 || (0.1..100.0).contains(&value.abs()) => {
                format!("{}${}", minus(value), rounded(value.abs(), 2))
            }
            Unit::Dollars => format!("{}${}", minus(value), plain(value.abs())),
            Unit::Named(name) => format!("{} {name}", plain(value)),
        }
    }

    /// The number as label of an axis whose ticks are `step` apart: as many digits as tell neighbours apart.
    pub(crate) fn show_tick(self, value: f64, step: f64) -> String {
        let (factor, suffix) = self.tick_unit(value);
        if value == 0.0 && matches!(self, Unit::Bytes | Unit::BytesPerDay | Unit::Microseconds | Unit::Years)
        {
            return "0".to_owned();
        }
        let text = trimmed(&rounded(value.abs() / factor, decimals_of(step / factor)));
        match self {
            Unit::Dollars => format!("{}${text}", minus(value)),
            _ => format!("{}{text}{suffix}", minus(value)),
        }
    }

    /// How large the unit of a tick's label is, and what is written behind the number.
    fn tick_unit(self, value: f64) -> (f64, String) {
        match self {
            Unit::Ratio => (0.01, " %".to_owned()),
            Unit::Bytes | Unit::BytesPerDay => {
                let (power, _) = byte_power(value.abs());
                let day = if self == Unit::BytesPerDay { "/day" } else { "" };
                (1024_f64.powi(power as i32), format!(" {}{day}", BYTE_UNITS[power]))
            }
            Unit::Microseconds => match value.abs() {
                v if v < 1e3 => (1.0, " µs".to_owned()),
                v if v < 1e6 => (1e3, " ms".to_owned()),
                _ => (1e6, " s".to_owned()),
            },
            Unit::Years => (1.0, " years".to_owned()),
            Unit::Named(name) => (1.0, format!(" {name}")),
            Unit::Count | Unit::Dollars => (1.0, String::new()),
        }
    }

    /// A number beside `value`, moved to where such numbers can be: the error of a share between nothing and all is not drawn
    /// beyond either.
    pub(crate) fn within(self, value: f64, beside: f64) -> f64 {
        if self == Unit::Ratio { beside.clamp(value.min(0.0), value.max(1.0)) } else { beside }
    }

    /// Whether ticks of this unit stand at powers of two.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Unit::Bytes | Unit::BytesPerDay)
    }
}

/// Years, or days or hours where those would be none.
fn years(value: f64) -> String {
    let days = value * DAYS_PER_YEAR;
    let (number, name) = match value.abs() {
        size if size >= 1.0 || size == 0.0 => (value, "year"),
        _ if days.abs() >= 1.0 => (days, "day"),
        _ => (days * HOURS_PER_DAY, "hour"),
    };
    let text = plain(number);
    format!("{text} {name}{}", if text == "1" { "" } else { "s" })
}

/// How many decimals show a step exactly, up to six.
fn decimals_of(step: f64) -> usize {
    let is_whole = |scaled: f64| (scaled - scaled.round()).abs() <= 1e-6 * scaled.abs();
    (0..6).find(|&decimals| is_whole(step * 10_f64.powi(decimals as i32))).unwrap_or(6)
}

fn minus(value: f64) -> &'static str {
    if value < 0.0 { "-" } else { "" }
}

/// The number with a fixed count of decimals, halves away from zero, thousands apart from 10,000 up.
fn rounded(value: f64, decimals: usize) -> String {
    if value.is_infinite() {
        return format!("{}∞", minus(value));
    }
    let scale = 10_f64.powi(decimals as i32);
    let near = (value.abs() * scale + 0.5).floor() / scale;
    let digits = format!("{near:.decimals$}");
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.char_indices() {
        if at > 0 && whole.len() > 4 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if near == 0.0 { "" } else { minus(value) };
    format!("{sign}{grouped}{rest}")
}

/// Without the zeros at the end of the decimals.
fn trimmed(text: &str) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text.to_owned()
    }
}

/// About three digits.
fn plain(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v if v >= 0.1 => 3,
        v if v >= 0.001 => 5,
        _ => 8,
    };
    trimmed(&rounded(value, decimals))
}

fn percent(hundredths: f64) -> String {
    let decimals = if hundredths.abs() >= 10.0 { 1 } else { 2 };
    let text = rounded(hundredths, decimals);
    // 0.29 are 29 hundredths, whatever their product says.
    let whole = (hundredths - hundredths.round()).abs() < 1e-9;
    format!("{} %", if whole { trimmed(&text) } else { text })
}

/// The power of 1024 whose unit fits, and the number in it.
fn byte_power(mut value: f64) -> (usize, f64) {
    let mut power = 0;
    while value >= 1024.0 && power + 1 < BYTE_UNITS.len() {
        value /= 1024.0;
        power += 1;
    }
    (power, value)
}

fn bytes(value: f64) -> String {
    let (mut power, mut number) = byte_power(value.abs());
    // What rounds up to 1024 is one of the next unit.
    if plain(number) == "1024" && power + 1 < BYTE_UNITS.len() {
        number /= 1024.0;
        power += 1;
    }
    format!("{}{} {}", minus(value), plain(number), BYTE_UNITS[power])
}

fn time(us: f64) -> String {
    match us.abs() {
        v if v > 0.0 && v < 0.01 => format!("{} ns", plain(us * 1e3)),
        v if v < 1e3 => format!("{} µs", plain(us)),
        v if v < 1e6 => format!("{} ms", plain(us / 1e3)),
        _ => format!("{} s", plain(us / 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: f64 = 1073741824.0;

    #[test]
    fn numbers_read_as_people_write_them_and_ticks_tell_neighbours_apart() {
        assert_eq!(Unit::Ratio.show(0.29), "29 %");
        assert_eq!(Unit::Ratio.show(0.2904), "29.0 %");
        assert_eq!(Unit::Microseconds.show(0.000_992), "0.992 ns");
        assert_eq!(Unit::Microseconds.show(0.05), "0.05 µs");
        assert_eq!(Unit::Ratio.show_tick(0.9991, 0.0001), "99.91 %");
        assert_eq!(Unit::Ratio.show_tick(0.2, 0.2), "20 %");
        assert_eq!(Unit::Bytes.show_tick(1.5 * GIB, 0.5 * GIB), "1.5 GiB");
        assert_eq!(Unit::Bytes.show_tick(1.25 * GIB, 0.25 * GIB), "1.25 GiB");
        assert_eq!(Unit::Bytes.show_tick(0.0, GIB), "0");
        assert_eq!(Unit::Years.show_tick(2.5, 0.5), "2.5 years");
        assert_eq!(Unit::Dollars.show_tick(-2.0, 1.0), "-$2");
    }
}
