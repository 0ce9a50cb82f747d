//! What requests count towards the limits of their connection and their VM. It must not know who has which limits.

use lode_nbd::{Command, Request};

/// What a request counts towards limits beside its bytes.
pub(crate) const REQUEST_COST_BYTES: u64 = 1024;
/// What a question for the status of a range counts beside: stretches that are kept for it, and extents of its answer.
const STATUS_COST_BYTES: u64 = 4096;

/// What a request counts towards the limits of its connection and its VM.
pub(crate) fn cost_bytes(request: &Request) -> u64 {
    match request.command {
        Command::Read | Command::Write => REQUEST_COST_BYTES + u64::from(request.length_bytes),
        Command::BlockStatus => REQUEST_COST_BYTES + STATUS_COST_BYTES,
        _ => REQUEST_COST_BYTES,
    }
}
