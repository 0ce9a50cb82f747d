//! The client's side of NBD, handshake and transmission, for tests: a second reading of the protocol to hold the server
//! against, and the client of the daemon's tests. A pure state machine like the server's side in `lode-nbd`.
//!
//! A session starts with [`ClientHandshake`]; when it is [`ClientProgress::Done`], the unconsumed rest of the input and all
//! that follows go to [`ClientTransmission`].
//!
//! # What is supported
//!
//! | Part of the protocol | Client |
//! |---|---|
//! | fixed newstyle handshake | yes |
//! | `EXPORT_NAME`, with and without `NO_ZEROES` | no, needs `GO` |
//! | `ABORT` | sent after a list |
//! | `LIST`, with descriptions | yes |
//! | `INFO` | no, `GO` tells the same |
//! | `GO` with `EXPORT`, `NAME`, `DESCRIPTION`, `BLOCK_SIZE` | yes |
//! | default export | empty name |
//! | `STRUCTURED_REPLY` | yes |
//! | `READ`, simple and structured (`OFFSET_DATA`, `NONE`, `ERROR`, `ERROR_OFFSET`) | yes, and `OFFSET_HOLE` |
//! | `WRITE`, `FLUSH`, `TRIM`, `WRITE_ZEROES`, `CACHE`, `DISC` | yes |
//! | FUA, `DF`, `NO_HOLE` | yes |
//! | `FAST_ZERO` | where offered |
//! | several connections to an export | caller's choice |
//!
//! Servers are as hostile as clients: whatever they send has a limit and is checked before it is believed.

mod coverage;
mod error;
mod handshake;
mod transmission;

pub use error::{Error, ErrorKind};
pub use handshake::{
    ClientHandshake, ClientProgress, ListedExport, MAX_INFO_REPLIES, MAX_LISTED_EXPORTS,
    MAX_OPTION_REPLY_BYTES, RemoteExport,
};
pub use transmission::{ClientEvent, ClientTransmission, MAX_ERROR_CHUNK_BYTES, MAX_IN_FLIGHT};
