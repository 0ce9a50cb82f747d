//! The crate from outside: real traces, hostile bytes, round trips, merges.

mod bare;
mod compact;
mod counts;
mod hostile;
mod merging;
mod samples;
mod sources;
