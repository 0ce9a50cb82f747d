//! Block traces: reading, writing, merging and describing them.
//!
//! Every format becomes a stream of [`lode_types::TraceRequest`] in batches. Input is hostile: sizes are
//! bounded by [`limits`], nothing panics, and a bad record is an error with its position or, when asked
//! for, counted and reported. This crate must not know caches, policies or devices.

#![forbid(unsafe_code)]

mod compact;
mod error;
mod feed;
mod formats;
mod info;
mod input;
pub mod limits;
mod merge;
mod reader;
mod scan;
mod skips;
mod source;
mod span;
pub mod synth;
mod volumes;

pub use compact::{CompactOutput, CompactWriter, create_compact, is_compact_name};
pub use error::{ErrorKind, Position, TraceError};
pub use formats::{FormatInfo, formats};
pub use info::{InfoCollector, SizeInfo, TraceInfo, VolumeInfo, info};
pub use merge::{Align, Merge, MergeOptions, MergeWarning, Vm, VmBy, vm_block};
pub use reader::{OnError, Progress, ReadOptions, Reader, open_trace, read_trace};
pub use skips::{SkippedKind, Skips};
pub use span::SpanInfo;
