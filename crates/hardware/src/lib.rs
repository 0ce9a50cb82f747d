//! Numbers about devices: how long they take to serve a command.
//!
//! A model is a rough, stated assumption, not a measurement; every result that rests on one names it. This
//! crate must not know policies, traces or clocks.

#![forbid(unsafe_code)]

mod disk;
mod service;

pub use disk::Disk;
pub use service::ServiceTimes;
