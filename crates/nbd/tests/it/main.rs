//! The protocol from the outside: named cases, hostile peers, arbitrary slicing, and both sides against each
//! other.

mod client;
mod corpus;
mod handshake;
mod roundtrip;
mod streams;
mod transmission;
mod wire;
