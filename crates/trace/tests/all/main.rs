//! The crate from outside: real traces, hostile bytes, round trips, merges.

mod compact;
mod filtering;
mod hostile;
mod merging;
mod samples;
mod shared_traces;
mod sources;
