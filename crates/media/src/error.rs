//! What can go wrong: faults while opening and waiting, and the translation of an operating
//! system's error number into the three cases the engine acts on.

use std::fmt;
use std::path::{Path, PathBuf};

use lode_types::MediaError;
use rustix::io::Errno;

/// What kind of fault it was, to match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The path does not exist.
    NotFound,
    /// The operating system refuses access.
    Denied,
    /// Somebody else uses the file or device.
    Busy,
    /// The file is not what was asked for: wrong type, wrong size, empty.
    Mismatch,
    /// The file system, device or kernel cannot do what was asked.
    Unsupported,
    /// No room to create the file.
    NoSpace,
    /// The device or the driver itself failed.
    Io,
}

/// A fault while opening a file, opening a driver, or waiting. Never the end of a single operation: that
/// is a [`MediaError`] in a [`Done`](crate::Done).
#[derive(Debug)]
pub struct MediaFault {
    kind: FaultKind,
    path: Option<PathBuf>,
    message: String,
    source: Option<std::io::Error>,
}

impl MediaFault {
    pub(crate) fn new(kind: FaultKind, message: impl Into<String>) -> MediaFault {
        MediaFault { kind, path: None, message: message.into(), source: None }
    }

    /// A fault from a system call; the kind follows from the error number.
    pub(crate) fn system(message: impl Into<String>, source: impl Into<std::io::Error>) -> MediaFault {
        let source = source.into();
        let kind = match source.kind() {
            std::io::ErrorKind::NotFound => FaultKind::NotFound,
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                FaultKind::Denied
            }
            std::io::ErrorKind::ResourceBusy => FaultKind::Busy,
            std::io::ErrorKind::Unsupported => FaultKind::Unsupported,
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => FaultKind::NoSpace,
            _ => FaultKind::Io,
        };
        MediaFault { kind, path: None, message: message.into(), source: Some(source) }
    }

    pub(crate) fn at(mut self, path: &Path) -> MediaFault {
        self.path = Some(path.to_path_buf());
        self
    }

    /// The kind, to match on.
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// The file or device concerned, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

impl fmt::Display for MediaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{} ({})", self.message, path.display())?,
            None => f.write_str(&self.message)?,
        }
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for MediaFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// What an error number means for the engine: bytes lost, device gone (or fenced off), or no room.
pub(crate) fn classify(errno: Errno) -> MediaError {
    match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => MediaError::NoSpace,
        // BADE is how the kernel reports a reservation held by another host.
        Errno::NODEV
        | Errno::NXIO
        | Errno::NOMEDIUM
        | Errno::SHUTDOWN
        | Errno::BADE
        | Errno::PIPE
        | Errno::CONNRESET
        | Errno::CONNABORTED
        | Errno::NOTCONN
        | Errno::TIMEDOUT
        | Errno::HOSTUNREACH
        | Errno::NETUNREACH
        | Errno::CANCELED => MediaError::Gone,
        _ => MediaError::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_fall_into_the_three_cases() {
        assert_eq!(classify(Errno::NOSPC), MediaError::NoSpace);
        assert_eq!(classify(Errno::PIPE), MediaError::Gone);
        assert_eq!(classify(Errno::NODEV), MediaError::Gone);
        assert_eq!(classify(Errno::IO), MediaError::Io);
        assert_eq!(classify(Errno::INVAL), MediaError::Io);
    }

    #[test]
    fn a_fault_names_path_and_cause() {
        let fault =
            MediaFault::system("Cannot open the file; check the path", Errno::NOENT).at(Path::new("/x"));
        assert_eq!(fault.kind(), FaultKind::NotFound);
        let text = fault.to_string();
        assert!(text.contains("/x") && text.contains("No such file"), "{text}");
    }
}
