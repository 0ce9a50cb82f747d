//! Reuse distances, hit curves and the division of a cache by them.
//!
//! Pure: no I/O, no clock, no thread, no unseeded randomness. This crate must not know hardware, trace
//! formats or cache policies beyond the write-policy definitions that the distances need.

mod aet;
pub mod analyser;
pub mod behind;
mod bits;
pub mod counter_stacks;
pub mod curve;
pub mod distance;
mod distinct;
pub mod error;
mod estimate;
mod hyper_log_log;
pub mod index;
pub mod joint;
mod lanes;
mod log_bins;
mod min_tree;
mod ordered;
pub mod parallel;
mod partial_sums;
pub mod profiler;
pub mod ro_stack;
mod sample;
mod sampled_curve;
mod shards;
pub mod sizing;
pub mod tally;
pub mod timeline;
mod tracker;
pub mod wbwo_stack;
pub mod working_set;

pub use analyser::Analyser;
pub use behind::Behind;
pub use counter_stacks::CounterStacksConfig;
pub use curve::{Curve, CurvePoint};
pub use distance::{Distances, Metric, Reuse};
pub use distinct::DistinctBlocks;
pub use error::ReuseError;
pub use index::BlockIndex;
pub use joint::{Both, InTurn, JointProfile, JointProfiler};
pub use profiler::{CurveKind, Method, Profiler, RECOMMENDED_SAMPLE_BLOCKS};
pub use ro_stack::RoStack;
pub use sample::{LEAST_BLOCKS, MIN_FOLLOWED_BLOCKS, Sample};
pub use sampled_curve::SampledCurve;
pub use tally::{DistanceTally, Histogram};
pub use timeline::{NEVER, Remap, Timeline};
pub use tracker::MAX_BLOCKS;
pub use wbwo_stack::WbwoStack;
