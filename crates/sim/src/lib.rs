//! The engine in a simulated world: virtual devices, a virtual clock, one seed.
//!
//! # The fault model
//!
//! A device is an array of 512-byte sectors. A write becomes visible when it completes and durable when a
//! flush that was issued after that completes. Until then:
//!
//! * **Power cut**: every sector written since keeps, independently of all others, any one of the
//!   contents it was given, or the durable one. Writes are so torn at any sector and reordered at will.
//!   Writes still under way at the cut count as written. Host memory is gone.
//! * **Kill**: the devices keep all that completed, and each write under way happens or does not. Host
//!   memory is gone.
//! * **Bad block**: a block of the cache SSD reads back with flipped bits.
//! * **Device error**: a command fails and has no effect (a failed write may have any effect on its own
//!   sectors).
//!
//! Commands are carried out in any order that the service times happen to give. Nothing else goes wrong:
//! what a flush covered stays, and a device never returns an older content of a sector by itself.
//!
//! Everything follows from one seed, so that a failing case is repeated by running it again.
//!
//! This crate must not know real files or devices.

#![forbid(unsafe_code)]

mod attack;
mod disk;
mod guest;
mod memory;
mod model;
pub mod requests;
mod rng;
mod run;
pub mod scenario;
mod together;
mod world;

pub use attack::{attack, attack_plans};
pub use disk::SimDisk;
pub use model::{Change, Model, SECTOR, Version};
pub use rng::Rng;
pub use run::{Crash, Plan, Tally, run, run_on_one_ssd};
pub use together::run_together;
pub use world::{Faults, Machine, World};
