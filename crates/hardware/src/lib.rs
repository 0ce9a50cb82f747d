//! Numbers about devices: how long they take to serve a command, what that costs in energy and wear, how often they
//! fail, and what they are bought for.
//!
//! A model is a rough, stated assumption, not a measurement; every result that rests on one names it. A [`Host`] is a
//! set of devices: those of the catalogue ([`Catalogue::built_in`]) or of a user's profile ([`Host::parse`]).
//! `docs/hardware.md` holds the equations and the readings that were chosen. This crate must not know policies,
//! traces, files or clocks.

#![forbid(unsafe_code)]

mod arm;
mod backing;
mod cost;
mod disk;
mod dram;
mod drive;
mod energy;
mod error;
mod hdd;
mod host;
mod profile;
mod raid;
mod reliability;
mod service;
mod ssd;
pub mod time;

pub use arm::Arm;
pub use backing::{Backing, DiskKind, FixedDisk, Network};
pub use cost::LevelCost;
pub use disk::Disk;
pub use dram::Dram;
pub use drive::{Drive, Drives};
pub use energy::{Energy, Operations, PowerW, energy_j};
pub use error::HardwareError;
pub use hdd::Hdd;
pub use host::{Host, HostLoad, Sheet, Utilisation};
pub use profile::{Catalogue, Figure, MAX_PROFILE_BYTES};
pub use raid::Raid;
pub use reliability::{unreliability, unreliability_hybrid, unreliability_pair};
pub use service::{BackingTimes, Command, ServiceTimes};
pub use ssd::{RATED_TB_BYTES, Ssd, SsdRating};

/// Bytes of one GB in prices, capacities and endurance ratings, where vendors count in powers of ten.
pub const GB_BYTES: f64 = 1e9;
