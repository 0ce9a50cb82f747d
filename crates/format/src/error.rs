//! Why bytes were not accepted.

use crate::FORMAT_VERSION;
use crate::page::CacheId;

/// What is wrong with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wrong {
    /// The page is shorter than a page.
    Length,
    /// Another kind of page, or no page of ours at all.
    Magic,
    /// The checksum does not match: torn or damaged.
    Checksum,
    /// The page belongs to another cache.
    Cache,
    /// The format is of a version this program does not read.
    Version {
        /// Which one.
        version: u32,
        /// The cache, pair or read SSD.
        cache: CacheId,
    },
    /// A field has a value it cannot have.
    Field(&'static str),
}

/// A page that was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {}", describe(.wrong))]
pub struct FormatError {
    /// Which structure was expected.
    pub what: &'static str,
    /// What is wrong with it.
    pub wrong: Wrong,
}

impl FormatError {
    /// Whether a program of another version wrote it.
    pub fn is_of_other_version(&self) -> bool {
        matches!(self.wrong, Wrong::Version { .. })
    }
}

/// Why a page of another version of the format is not read, for people: the middle of a sentence.
pub fn why_unreadable(version: u32) -> String {
    let maker = if version > FORMAT_VERSION { "a newer lode" } else { "an older lode" };
    format!("it was made by {maker}, and this one can't read it")
}

fn describe(wrong: &Wrong) -> String {
    match wrong {
        Wrong::Length => "The page is cut short".to_owned(),
        Wrong::Magic => "Not a page of a Lodestore cache".to_owned(),
        Wrong::Checksum => "The checksum does not match; the page is torn or damaged".to_owned(),
        Wrong::Cache => "The page belongs to another cache".to_owned(),
        Wrong::Version { version, cache } => {
            format!(
                "{cache} is of format version {version}: {}; use the lode that made it",
                why_unreadable(*version)
            )
        }
        Wrong::Field(name) => format!("The field '{name}' has a value it cannot have"),
    }
}
