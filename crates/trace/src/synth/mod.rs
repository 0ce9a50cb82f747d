//! Workloads when the trace is missing: requests made from a [`Profile`], and profiles made from a trace.
//!
//! A profile is a small TOML file (`docs/profiles.md`). What is made of it is called synthetic: the only volume's name
//! starts with [`VOLUME_PREFIX`], which every conversion keeps, and [`is_synthetic`] knows it again. This module does
//! no I/O and must not know caches: a profile's distances are facts about the stream.

mod alias;
mod arrival;
mod builtin;
pub mod check;
mod fit;
mod generator;
mod place;
mod plain;
mod profile;
mod quota;
mod reuse;
mod rng;
mod stack;
mod steer;

pub use builtin::{builtin, builtins};
pub use fit::{Fitter, MAX_FIT_BLOCKS};
pub use generator::Generator;
pub use profile::{After, Again, Arrival, Pattern, Phase, Profile, Reuse, Sizes, Stream};

/// What the names of synthetic volumes start with.
pub const VOLUME_PREFIX: &str = "synthetic:";

/// The volume of a profile of this name.
pub fn volume_name(profile: &str) -> String {
    format!("{VOLUME_PREFIX}{profile}")
}

/// Whether a volume's requests were made from a profile, by its name.
pub fn is_synthetic(volume: &str) -> bool {
    volume.starts_with(VOLUME_PREFIX)
}
