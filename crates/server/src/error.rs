//! Why the daemon, or a command to it, failed.

use lode_media::MediaFault;
use lode_store::{StoreError, StoreErrorKind};

/// What a caller may act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerErrorKind {
    /// The configuration is wrong.
    Config,
    /// The cache SSD is not the one that is expected, or an old copy of it.
    Identity,
    /// The device holds something that would be overwritten.
    InUse,
    /// A cache SSD could not be formatted, opened or divided.
    Store,
    /// A file, device or driver could not be opened, or failed.
    Media,
    /// A socket could not be opened, or failed.
    Socket,
    /// The running daemon does not do what was asked of it.
    Refused,
    /// A thread of the daemon ended when it should not have.
    Thread,
}

/// Why the daemon, or a command to it, failed. The text tells the user what to do.
#[derive(Debug, thiserror::Error)]
#[error("{context}")]
pub struct ServerError {
    kind: ServerErrorKind,
    context: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ServerError {
    pub(crate) fn new(kind: ServerErrorKind, context: impl Into<String>) -> ServerError {
        ServerError { kind, context: context.into(), source: None }
    }

    /// An error with a cause, whose text is part of the message.
    pub(crate) fn because(
        kind: ServerErrorKind,
        context: impl std::fmt::Display,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> ServerError {
        let context = format!("{context}: {source}");
        ServerError { kind, context, source: Some(Box::new(source)) }
    }

    /// What to act on.
    pub fn kind(&self) -> ServerErrorKind {
        self.kind
    }

    /// An error of the cache SSD, of the kind that its own kind means here.
    pub(crate) fn store(what: impl std::fmt::Display, error: StoreError) -> ServerError {
        let kind = match error.kind() {
            StoreErrorKind::WrongSize | StoreErrorKind::WrongBacking => ServerErrorKind::Identity,
            _ => ServerErrorKind::Store,
        };
        ServerError::because(kind, what, error)
    }
}

impl From<MediaFault> for ServerError {
    fn from(fault: MediaFault) -> ServerError {
        let context = fault.to_string();
        ServerError { kind: ServerErrorKind::Media, context, source: Some(Box::new(fault)) }
    }
}
