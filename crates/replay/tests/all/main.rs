//! Replays against a naive loop, on recorded traces, and the report's shape.

mod belady;
mod naive;
mod reports;
mod requests;
mod shared_traces;
mod vector_keys;
mod vectors;
mod vms;
