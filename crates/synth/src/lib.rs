//! Workloads when the trace is missing: requests made from a [`Profile`], and profiles made from a trace.
//!
//! A profile is a small TOML file (`docs/profiles.md`). What is made of it is called synthetic: the only volume's name
//! starts with [`lode_trace::SYNTHETIC_PREFIX`], which every conversion keeps. This crate does no I/O and must not know
//! caches: a profile's distances are facts about the stream.

#![forbid(unsafe_code)]

mod alias;
mod area;
mod arrival;
mod builtin;
pub mod check;
mod error;
mod fit;
mod generator;
mod plain;
mod profile;
mod quota;
mod reuse;
mod stack;
mod steer;

pub use builtin::{builtin, builtins};
pub use error::{SynthError, SynthErrorKind};
pub use fit::{Fitter, MAX_FIT_BLOCKS};
pub use generator::Generator;
pub use profile::{After, Again, Arrival, Pattern, Phase, Profile, Reuse, Sizes, Stream};
