//! What must hold when Lodestore reads bytes from outside, whatever they are. The fuzz targets run it on inputs that the
//! fuzzer finds, and the crates' tests on every file of the corpus, from the same source files.

pub mod config;
pub mod format;
pub mod nbd;
pub mod nbd_client;
pub mod sidecar;
mod trace;

pub use trace::{Outcome, check};
