//! The crate from outside: recorded traces, hostile bytes, round trips, merges.

mod bare;
mod blktrace;
mod compact;
mod corpus;
mod counts;
mod describing;
mod documentation;
mod filtering;
mod formats;
mod given;
mod hostile;
mod layout;
mod merging;
mod moments;
#[cfg(feature = "parquet")]
mod parquet;
mod refusals;
mod samples;
mod sources;
mod splitting;
