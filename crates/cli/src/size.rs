//! Amounts in words: sizes, which are those of the whole project, and counts.

pub use lode_types::{parse_size, show_size};

/// A number and what it counts: "1 volume", "2 volumes".
pub fn show_count(number: u64, singular: &str) -> String {
    format!("{number} {singular}{}", if number == 1 { "" } else { "s" })
}
