//! Replays against a naive loop, on recorded traces, and the report's shape.

mod belady;
mod effects;
mod host_budget;
mod naive;
mod recorded;
mod reports;
mod requests;
mod shadows;
mod vector_keys;
mod vectors;
mod vms;
