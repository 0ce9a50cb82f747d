//! The crate from outside: real traces, hostile bytes, round trips, merges.

mod compact;
mod hostile;
mod merging;
mod samples;
mod shared_traces;
mod sources;
mod synth;
mod synth_fit;
mod synth_profiles;
