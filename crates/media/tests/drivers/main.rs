//! Both drivers through the same tests.

mod common;
mod files;
mod opening;
mod sockets;
