//! The crate from outside: recorded traces, hostile bytes, round trips, merges.

mod bare;
mod compact;
mod corpus;
mod counts;
mod documentation;
mod filtering;
mod hostile;
mod merging;
#[cfg(feature = "parquet")]
mod parquet;
mod samples;
mod sources;
