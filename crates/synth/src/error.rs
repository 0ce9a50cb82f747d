//! The crate's one error type. It must not know what a profile says.

use std::fmt;
use std::path::{Path, PathBuf};

/// What went wrong, for matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SynthErrorKind {
    /// A profile that is not TOML, or describes no workload that there can be.
    Profile,
    /// A request of a fitted trace that no profile could describe.
    OutOfRange,
    /// A named limit of what can be fitted was reached.
    Limit,
}

/// A profile could not be used, or not be made from a trace.
#[derive(Debug)]
pub struct SynthError {
    kind: SynthErrorKind,
    message: String,
    path: PathBuf,
}

impl SynthError {
    pub(crate) fn new(kind: SynthErrorKind, path: &Path, message: String) -> SynthError {
        SynthError { kind, message, path: path.to_owned() }
    }

    /// What went wrong.
    pub fn kind(&self) -> SynthErrorKind {
        self.kind
    }
}

impl fmt::Display for SynthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.path.display())
    }
}

impl std::error::Error for SynthError {}
