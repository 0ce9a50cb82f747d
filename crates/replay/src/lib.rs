//! Schemes over traces: one cache policy per VM is driven by recorded requests, and what follows is counted.
//!
//! [`replay()`] turns traces into a [`Report`]; [`Driver`] is the loop inside it, for callers that have requests
//! from elsewhere. Nothing here reads a clock or draws a random number: the same traces and options give the same
//! report. This crate must not know sockets or media.

#![forbid(unsafe_code)]

mod budget;
mod busiest;
mod devices;
mod driver;
mod error;
mod future;
mod host_budget;
mod inputs;
mod intervals;
mod memory;
mod minutes;
mod recording;
mod report;
mod run;
mod tally;

pub use devices::{DevicesReport, MirrorReport, VmDevices, short_trace_warning};
pub use driver::{Driver, VmOutcome, access_times};
pub use error::ReplayError;
pub use future::Future;
pub use inputs::{BadRecords, InputReport, RecordPlace};
pub use intervals::MAX_INTERVAL_SHARES;
pub use lode_hardware::{Host, ServiceTimes};
pub use memory::{count_distinct_blocks, most_memory_bytes};
pub use minutes::BUSY_INTERVAL_NS;
pub use recording::{Playback, Recording};
pub use report::{Counts, DecisionsReport, LevelBlocks, ModelReport, Report, VmReport};
pub use run::{
    MAX_LEVEL_BLOCKS, Options, RequestStream, count_vms, level_blocks, replay, replay_with_future,
};
pub use tally::Tally;
