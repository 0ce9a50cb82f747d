//! Sizes of levels as users write them: in bytes, or in per cent of what traces touch. It must not know traces.

use std::fmt;
use std::str::FromStr;

use lode_types::{BlockSize, parse_size, show_size};

use crate::compare::MAX_CELLS;
use crate::levels::LevelBytes;

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

/// Sizes that go together, of host memory, SSD and read SSD: the first of each, then the second; a level of one size goes with all
/// of the others. Each list has the name by which its user knows it.
///
/// # Errors
/// What to write instead.
pub fn pair_sizes(
    lists: [(&str, &[LevelSize]); 3],
    footprint_bytes: u64,
    block: BlockSize,
) -> Result<Vec<LevelBytes>, String> {
    let count = lists.iter().map(|(_, sizes)| sizes.len()).max().unwrap_or(0);
    if count == 0 {
        return Err(format!("Give the levels' sizes with {} and {}", lists[0].0, lists[1].0));
    }
    let several: Vec<_> = lists.iter().filter(|(_, sizes)| sizes.len() > 1).collect();
    if let Some(pair) = several.windows(2).find(|pair| pair[0].1.len() != pair[1].1.len()) {
        let [(one, ones), (other, others)] = [pair[0], pair[1]];
        return Err(format!(
            "{one} has {} sizes and {other} {}; give as many of both, or one of one of them",
            ones.len(),
            others.len()
        ));
    }
    let at = |(_, sizes): (&str, &[LevelSize]), index: usize| {
        let size = sizes.get(index).or(sizes.first());
        size.map_or(0, |size| size.bytes(footprint_bytes, block))
    };
    let sizes: Vec<_> = (0..count)
        .map(|index| LevelBytes {
            dram_bytes: at(lists[0], index),
            ssd_bytes: at(lists[1], index),
            read_ssd_bytes: at(lists[2], index),
        })
        .collect();
    // More than are compared at all are refused as too many.
    let twice = (1..count.min(MAX_CELLS))
        .find_map(|at| Some((sizes[..at].iter().position(|other| *other == sizes[at])?, at)));
    match twice {
        Some((one, other)) => Err(format!(
            "The sizes in places {} and {} are the same; name each size once",
            one + 1,
            other + 1
        )),
        None => Ok(sizes),
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
