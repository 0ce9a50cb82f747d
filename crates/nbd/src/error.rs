//! Why a session ended, and the error numbers a command can be answered with.

use std::fmt;

/// What went wrong, to match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An export's description is not one the protocol can carry.
    #[error("Export cannot be offered over NBD; correct the volume's configuration")]
    BadExport,
    /// The peer's bytes do not start with the magic that is due.
    #[error("Peer does not speak NBD or lost its place in the stream; check what connects to this address")]
    BadMagic,
    /// The client set handshake flags that were not offered.
    #[error("Client set unknown handshake flags; use a client that speaks fixed newstyle NBD")]
    UnknownClientFlags,
    /// The client does not speak fixed newstyle.
    #[error("Client does not speak fixed newstyle NBD; use a newer one")]
    NotFixedNewstyle,
    /// One option's data is beyond [`crate::MAX_OPTION_SKIP_BYTES`].
    #[error("Client sent more option data than any NBD client needs; the connection is closed")]
    OptionTooLong,
    /// More than [`crate::MAX_OPTIONS`] options without entering transmission.
    #[error("Client sent too many options without choosing an export; the connection is closed")]
    TooManyOptions,
    /// `EXPORT_NAME` named something that is not there; this option has no error reply.
    #[error("Client asked for an export that does not exist; check the export name in its NBD URI")]
    UnknownExport,
    /// `EXPORT_NAME` named an export that takes no more clients; this option has no error reply.
    #[error("Client asked for an export that takes no more connections; close one, or raise the limit")]
    NotAdmitted,
    /// A write's payload is beyond [`crate::MAX_DRAINED_BYTES`].
    #[error("Client announced a write too large to drain; limit its requests to the advertised maximum")]
    PayloadTooLong,
    /// The state machine was driven in a way its documentation excludes.
    #[error("NBD state machine was driven wrongly; this is a defect in the program")]
    Misuse,
}

/// The one error of this crate. All of them mean that the connection must be closed, except
/// [`ErrorKind::BadExport`] and [`ErrorKind::Misuse`], which blame the caller and leave the state as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} ({context})")]
pub struct Error {
    kind: ErrorKind,
    context: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into() }
    }

    /// What went wrong, to match on.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The values that were wrong, for people.
    pub fn context(&self) -> &str {
        &self.context
    }
}

/// An error number a command can be answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandError {
    /// Not permitted: a write to a read-only export.
    Eperm,
    /// The medium failed.
    Eio,
    /// No memory; avoid.
    Enomem,
    /// The request is malformed or out of range.
    Einval,
    /// No space, or a write beyond the end.
    Enospc,
    /// A read too long to answer unfragmented.
    Eoverflow,
    /// A fast zero that would not be fast.
    Enotsup,
    /// The server is shutting down.
    Eshutdown,
}

impl CommandError {
    const TABLE: [(CommandError, u32, &'static str); 8] = [
        (CommandError::Eperm, 1, "EPERM"),
        (CommandError::Eio, 5, "EIO"),
        (CommandError::Enomem, 12, "ENOMEM"),
        (CommandError::Einval, 22, "EINVAL"),
        (CommandError::Enospc, 28, "ENOSPC"),
        (CommandError::Eoverflow, 75, "EOVERFLOW"),
        (CommandError::Enotsup, 95, "ENOTSUP"),
        (CommandError::Eshutdown, 108, "ESHUTDOWN"),
    ];

    /// The number on the wire.
    pub fn code(self) -> u32 {
        Self::TABLE[self as usize].1
    }

    /// The error for a non-zero number on the wire. Unknown numbers count as [`CommandError::Einval`],
    /// as the protocol asks of clients.
    pub fn from_code(code: u32) -> CommandError {
        Self::TABLE.iter().find(|row| row.1 == code).map_or(CommandError::Einval, |row| row.0)
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::TABLE[*self as usize].2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_go_there_and_back() {
        for (index, (error, code, name)) in CommandError::TABLE.into_iter().enumerate() {
            assert_eq!(error as usize, index, "the table follows the order of the variants");
            assert_eq!(error.code(), code);
            assert_eq!(CommandError::from_code(code), error);
            assert_eq!(error.to_string(), name);
        }
        assert_eq!(CommandError::from_code(110), CommandError::Einval);
    }

    #[test]
    fn messages_start_with_a_capital_and_carry_their_context() {
        let text = Error::new(ErrorKind::UnknownExport, "name \"vm9\"").to_string();
        assert!(text.starts_with("Client asked") && text.ends_with("(name \"vm9\")"), "{text}");
    }
}
