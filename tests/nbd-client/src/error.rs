//! Why a session ended, or a request was not sent.

/// What went wrong, to match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An export's name is longer than the protocol can carry.
    #[error("Export name is too long for NBD; ask for another one")]
    BadExport,
    /// The peer's bytes do not start with the magic that is due.
    #[error("Peer does not speak NBD or lost its place in the stream; check what listens on this address")]
    BadMagic,
    /// The server does not speak fixed newstyle.
    #[error("Server does not speak fixed newstyle NBD; use a newer one")]
    NotFixedNewstyle,
    /// The server answered an option with an error.
    #[error("NBD server refused; check the export name and the server's configuration")]
    Refused,
    /// The server broke the protocol.
    #[error("NBD server broke the protocol; the connection cannot be used further")]
    BadReply,
    /// A request that the remote export cannot take.
    #[error("Request does not fit the remote export; respect its size, block sizes and flags")]
    BadRequest,
    /// The state machine was driven in a way its documentation excludes.
    #[error("NBD state machine was driven wrongly; this is a defect in the program")]
    Misuse,
}

/// The one error of this crate. All of them mean that the connection must be closed, except [`ErrorKind::BadExport`],
/// [`ErrorKind::BadRequest`] and [`ErrorKind::Misuse`], which blame the caller and leave the state as it was.
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
