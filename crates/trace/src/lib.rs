//! Block traces: reading, writing, merging and describing them.
//!
//! Every format becomes a stream of [`lode_types::TraceRequest`] in batches. Input is hostile: sizes are
//! bounded by [`limits`], nothing panics, and a bad record is an error with its position or, when asked
//! for, counted and reported. This crate must not know caches, policies or devices.

#![deny(unsafe_code)]

mod compact;
mod error;
mod feed;
mod fixed;
mod formats;
mod given;
mod info;
mod input;
mod lanes;
pub mod limits;
mod merge;
mod reader;
mod scan;
mod skips;
mod source;
mod span;
mod tools;
mod volumes;
#[cfg(feature = "parquet")]
mod whole;

pub use compact::{
    CompactOutput, CompactWriter, Recorded, create_compact, create_compact_with, is_compact_name,
};
pub use error::{ErrorKind, Position, TraceError};
pub use formats::{FormatInfo, formats};
pub use given::GivenRequests;
pub use info::{InfoCollector, SizeInfo, TraceInfo, VolumeInfo, info};
pub use merge::{Align, Merge, MergeOptions, MergeWarning, Vm, VmBy, vm_block};
pub use reader::{OnError, ReadOptions, ReadProgress, Reader, Unit, open_trace, read_trace};
pub use skips::{SkippedKind, Skips};
pub use span::{QuickSpan, SpanInfo};
pub use tools::{
    Filter, FilterFacts, FilterOptions, Head, Moment, MomentError, SortBy, SortProgress, Sorted, Sorter,
    VolumePattern, file_names, write_each_volume,
};
pub use volumes::{SYNTHETIC_PREFIX, check_volume_name, is_synthetic};
