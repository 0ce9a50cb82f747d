//! Sizes of levels as users write them: in bytes, or in per cent of what traces touch. It must not know traces.

use std::fmt;
use std::str::FromStr;

use lode_types::{BlockSize, parse_size, show_size};

/// A level's size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LevelSize {
    /// In bytes.
    Bytes(u64),
    /// In per cent of the footprint.
    Percent(f64),
}

impl FromStr for LevelSize {
    type Err = String;

    fn from_str(text: &str) -> Result<LevelSize, String> {
        let Some(number) = text.strip_suffix('%') else {
            return parse_size(text).map(LevelSize::Bytes).map_err(|error| {
                format!("{error}; a part of what the traces touch is written in per cent, such as 5%")
            });
        };
        match number.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(LevelSize::Percent(percent)),
            _ => Err("write a number above 0 and up to 100 before %".to_owned()),
        }
    }
}

impl LevelSize {
    /// Bytes of a level, in whole blocks and at least one, where so many bytes are touched.
    pub fn bytes(self, footprint_bytes: u64, block: BlockSize) -> u64 {
        match self {
            LevelSize::Bytes(bytes) => bytes,
            LevelSize::Percent(percent) => {
                let blocks = (footprint_bytes as f64 * percent / 100.0 / block.bytes() as f64).round();
                (blocks as u64).max(1) * block.bytes()
            }
        }
    }
}

impl fmt::Display for LevelSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LevelSize::Bytes(bytes) => f.write_str(&show_size(bytes)),
            LevelSize::Percent(percent) => write!(f, "{percent} %"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_per_cent() {
        assert_eq!("1GiB".parse(), Ok(LevelSize::Bytes(1 << 30)));
        assert_eq!("2.5%".parse(), Ok(LevelSize::Percent(2.5)));
        for text in ["0%", "101%", "%", "x%", "NaN%", "5 percent"] {
            assert!(text.parse::<LevelSize>().is_err(), "{text}");
        }
        let block = BlockSize::KIB_4;
        assert_eq!(LevelSize::Percent(50.0).bytes(7 << 12, block), 4 << 12);
        assert_eq!(LevelSize::Percent(0.01).bytes(1 << 20, block), 1 << 12);
        assert_eq!(LevelSize::Bytes(5).bytes(1 << 20, block), 5);
    }
}
