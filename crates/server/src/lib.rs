//! The daemon: a control thread that accepts clients, and shard threads that serve them.
//!
//! A VM's cache belongs to one shard thread: its engine, its sockets, its I/O. No lock and no other thread is
//! on the way of a request. The server must not know how schemes decide or how protocols are written; it
//! carries bytes and messages between `lode-nbd`, `lode-engine` and `lode-media`.

#![forbid(unsafe_code)]

mod bytes;
mod commands;
pub mod config;
mod connection;
mod control;
mod error;
mod format;
mod identity;
mod intake;
mod latency;
mod listen;
mod opening;
mod serve;
mod shard;
mod start;
mod status;
mod threads;
mod volume;

pub use commands::{status, stop};
pub use config::Config;
pub use error::{ServerError, ServerErrorKind};
pub use format::{FormatOptions, format};
pub use serve::serve;
