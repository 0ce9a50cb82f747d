//! Values of the configuration that are more than a number or a string.

use std::fmt;
use std::str::FromStr;

use lode_types::{parse_daily_bytes, parse_size, show_size};
use serde::{Deserialize, Deserializer, de};

/// A number of bytes, written as a whole number or as a text that [`lode_types::parse_size`] takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        parse_size(text).map(Size).map_err(|error| format!("'{text}' is not a size: {error}"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show_size(self.0))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"64MiB\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Size, E> {
                u64::try_from(number).map(Size).map_err(|_| E::custom("a size cannot be negative"))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Bytes for each day, written as [`lode_types::parse_daily_bytes`] takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DailyBytes(pub u64);

impl fmt::Display for DailyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/day", show_size(self.0))
    }
}

impl<'de> Deserialize<'de> for DailyBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DailyBytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_daily_bytes(&text)
            .map(DailyBytes)
            .map_err(|error| de::Error::custom(format!("'{text}' is not an amount for each day: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_or_texts() {
        #[derive(Deserialize)]
        struct One {
            size: Size,
        }
        let read = |value: &str| toml::from_str::<One>(&format!("size = {value}")).map(|one| one.size.0);
        for (value, bytes) in [("4096", 4096), ("\"64MiB\"", 64 << 20), ("\" 3 g \"", 3 << 30)] {
            assert_eq!(read(value), Ok(bytes), "{value}");
        }
        for (value, advice) in [
            ("-1", "cannot be negative"),
            ("1.5", "a size such as"),
            ("\"1.5KiB\"", "'1.5KiB' is not a size: write a whole number"),
            ("\"99999999999TiB\"", "smaller size"),
        ] {
            let message = read(value).map_err(|error| error.to_string()).expect_err(value);
            assert!(message.contains(advice), "{message}");
        }
        assert_eq!(Size(64 << 20).to_string(), "64 MiB");
    }
}
