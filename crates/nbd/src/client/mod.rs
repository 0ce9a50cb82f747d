//! The client's side of NBD: handshake and transmission, for an NBD server as a volume's backing and for tests.
//!
//! Servers are as hostile as clients: whatever they send has a limit and is checked before it is believed.

mod coverage;
mod handshake;
mod transmission;

pub use handshake::{
    ClientHandshake, ClientProgress, ListedExport, MAX_INFO_REPLIES, MAX_LISTED_EXPORTS,
    MAX_OPTION_REPLY_BYTES, RemoteExport,
};
pub use transmission::{ClientEvent, ClientTransmission, MAX_ERROR_CHUNK_BYTES, MAX_IN_FLIGHT};
