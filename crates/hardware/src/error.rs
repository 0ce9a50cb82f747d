//! What can be wrong with a profile. It must not know where its text came from.

use crate::profile::MAX_PROFILE_BYTES;

/// Why a profile or a name was refused. `path` is the key's place in the profile, such as `ssd.mine.read_us`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HardwareError {
    /// The text is larger than [`MAX_PROFILE_BYTES`].
    #[error(
        "The device profile has {bytes} bytes, more than {MAX_PROFILE_BYTES}; it should hold devices and one host"
    )]
    TooLarge {
        /// Bytes of the text.
        bytes: usize,
    },
    /// The text is no TOML.
    #[error("Line {line} of the device profile is not TOML: {message}")]
    Syntax {
        /// Line from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// A key is unknown, missing or of the wrong type.
    #[error("'{path}' in the device profile: {message}")]
    Key {
        /// The key, or the table around it.
        path: String,
        /// What is wrong, and what it should be.
        message: String,
    },
    /// A number is outside its range.
    #[error("'{path}' in the device profile is {value}; write {least} to {most}")]
    Range {
        /// The key.
        path: String,
        /// Its value.
        value: f64,
        /// The least value allowed.
        least: f64,
        /// The greatest value allowed.
        most: f64,
    },
    /// A name stands for nothing.
    #[error("There is no {kind} '{name}'; there is {known}")]
    Unknown {
        /// What it should name: `host`, `ssd` and so on.
        kind: &'static str,
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// A profile of a drive must describe one.
    #[error("The profile describes {drives} drives; write one [drive.NAME] section")]
    Drives {
        /// How many it describes.
        drives: usize,
    },
    /// A profile must describe one host.
    #[error("The device profile describes {hosts} hosts; write one [host.NAME] section")]
    Hosts {
        /// How many it describes.
        hosts: usize,
    },
}
