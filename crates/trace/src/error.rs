//! The crate's one error type. It must not know formats.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::formats::formats;

/// What went wrong, for matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The operating system refused to open, read or write.
    Io,
    /// The compressed stream is damaged, nested too deeply or wants too much memory.
    Compression,
    /// No format is recognised, or none has the name given.
    UnknownFormat,
    /// The unit given for block numbers is out of range, or the format states its units itself.
    Unit,
    /// A record does not have its format's shape.
    Malformed,
    /// A number does not fit: the request ends beyond 2^64, or its length or time is too large.
    OutOfRange,
    /// A read, write or trim of no bytes.
    ZeroLength,
    /// A time before zero.
    NegativeTime,
    /// A line longer than [`crate::limits::MAX_LINE_BYTES`].
    LineTooLong,
    /// A volume name that is empty, too long, not UTF-8, or has control characters.
    VolumeName,
    /// More volumes than [`crate::limits::MAX_VOLUMES`].
    TooManyVolumes,
    /// The stored checksum does not match the bytes.
    Checksum,
    /// The file, or its compressed stream, ends in the middle of something.
    Truncated,
    /// A version of the compact format that this program does not know.
    Version,
    /// Another named limit of [`crate::limits`] was reached.
    Limit,
    /// Whoever asked for the reading wants it to end, see [`crate::Merge::stopped_by`].
    Stopped,
}

/// A place in a trace, after decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Byte offset of the line or record.
    pub byte: u64,
    /// Line number from 1, in text formats.
    pub line: Option<u64>,
    /// Where in the line the field begins that is to blame, in bytes from 1, if that is known.
    pub column: Option<u64>,
}

impl Position {
    /// A place that is no line.
    pub(crate) const fn at_byte(byte: u64) -> Position {
        Position { byte, line: None, column: None }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}, ")?;
        }
        if let Some(column) = self.column {
            write!(f, "column {column}, ")?;
        }
        write!(f, "byte {}", self.byte)
    }
}

/// A trace could not be read, written or merged.
#[derive(Debug)]
pub struct TraceError {
    kind: ErrorKind,
    message: Cow<'static, str>,
    /// It may be of any format, which has to be named. (The names are not kept here: errors are moved often, and are to stay small.)
    lacks_format: bool,
    path: PathBuf,
    position: Option<Position>,
    source: Option<std::io::Error>,
}

impl TraceError {
    pub(crate) fn new(kind: ErrorKind, path: &Path, message: impl Into<Cow<'static, str>>) -> TraceError {
        let (message, path) = (message.into(), path.to_owned());
        TraceError { kind, message, lacks_format: false, path, position: None, source: None }
    }

    pub(crate) fn lacking_format(mut self) -> TraceError {
        self.lacks_format = true;
        self
    }

    pub(crate) fn at(mut self, position: Position) -> TraceError {
        self.position = Some(position);
        self
    }

    pub(crate) fn caused_by(mut self, source: std::io::Error) -> TraceError {
        self.source = Some(source);
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The trace, as it was named when opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where in the decompressed trace, if the error belongs to a place.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// What can be done about it, where that is the same for every trace: for a list of errors, of which one says it.
    pub fn hint(&self) -> Option<String> {
        let names = || formats().map(|format| format.name).collect::<Vec<_>>().join(", ");
        self.lacks_format.then(|| format!("name one of {}", names()))
    }

    /// A line of a list of errors: the trace first, and no [`TraceError::hint`].
    pub fn in_list(&self) -> String {
        let position = self.position.map(|position| format!(", {position}")).unwrap_or_default();
        format!("{}{position}: {}", self.path.display(), self.message)
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(hint) = self.hint() {
            write!(f, "; {hint}")?;
        }
        write!(f, " ({}", self.path.display())?;
        if let Some(position) = self.position {
            write!(f, ", {position}")?;
        }
        write!(f, ")")
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// A fault in one record: what it is and what was expected instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub kind: ErrorKind,
    pub expected: &'static str,
}

impl Fault {
    pub(crate) const fn new(kind: ErrorKind, expected: &'static str) -> Fault {
        Fault { kind, expected }
    }

    pub(crate) const fn malformed(expected: &'static str) -> Fault {
        Fault { kind: ErrorKind::Malformed, expected }
    }

    /// The sentence for the user, without the place; `can_skip` says whether reading could go on behind it.
    pub(crate) fn message(&self, can_skip: bool) -> String {
        let what = match self.kind {
            ErrorKind::OutOfRange => "Number out of range",
            ErrorKind::ZeroLength => "Request without length",
            ErrorKind::NegativeTime => "Negative time",
            ErrorKind::LineTooLong => "Line too long",
            ErrorKind::VolumeName => "Bad volume name",
            ErrorKind::TooManyVolumes => "Too many volumes",
            ErrorKind::Checksum => "Checksum does not match",
            ErrorKind::Truncated => "Trace ends too early",
            ErrorKind::Version => "Unknown version of the format",
            _ => "Malformed record",
        };
        let todo = match self.kind {
            ErrorKind::Version => {
                "make it again out of the original trace with lode trace convert, or read it with the program that wrote it"
            }
            _ if can_skip => {
                "repair the trace or fetch it again, or read it without such records: --on-error skip"
            }
            _ => "repair the trace or fetch it again",
        };
        format!("{what}: expected {}; {todo}", self.expected)
    }
}
