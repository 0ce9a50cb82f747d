//! Everything that decides: what is cached, where, and what leaves.
//!
//! A [`Scheme`] is one VM's cache policy. It is asked about one block access at a time and answers with
//! [`Effect`]s to a [`Sink`] that the caller supplies; trace replay counts them, the engine turns them
//! into device commands. No scheme knows which of the two it talks to.
//!
//! This crate must not know files, sockets, clocks, threads or unseeded randomness: the same sequence of
//! calls gives the same effects, everywhere and always.

#![forbid(unsafe_code)]

mod counters;
pub mod criticality;
mod decision;
#[macro_use]
mod dispatch;
mod effect;
mod geometry;
pub mod host;
mod interval;
mod listing;
mod needs;
mod next_uses;
mod of_sized;
#[macro_use]
mod prefetch;
#[macro_use]
mod parts;
mod quota;
mod registry;
mod scheme;
pub mod schemes;
mod settings;
mod sizer;
mod tracked;

pub use counters::{CounterReport, Counters, LevelCounts, SsdOnly, SsdWriteCounts, SsdWrites};
pub use decision::{Decision, Decisions, SizeCost, SizeCosts};
pub use effect::{CopyReason, CopySource, Effect, NullSink, Sink, Slot};
pub use geometry::{Geometry, MapKind};
pub use interval::Since;
pub use listing::{SchemeEntry, SettingEntry};
pub use needs::RequestSource;
pub use next_uses::{NextUses, NextUsesBuilder};
pub use of_sized::OfSized;
pub use prefetch::{AccessSink, Lookahead, Prefetch, PrefetchHint, PrefetchedAccess};
pub use quota::Quota;
pub use registry::{AnyScheme, DEFAULT_SCHEME, SchemeInfo, build, build_with_future, schemes as all_schemes};
pub use scheme::{
    Budgeting, Choosing, HostTimed, LevelDemand, Mirroring, Mirrors, Points, Reissuing, Scheme, Sizing,
};
pub use settings::{SettingError, SettingInfo, SettingKind, Settings, UNDIVIDED, WriteBudget, nearest_name};
pub use sizer::{AccessTimes, Sizer, Tenant};
pub use tracked::{most_memory_bytes, most_memory_bytes_of_all};
