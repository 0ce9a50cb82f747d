//! The daemon: a control thread that accepts clients, and shard threads that serve them.
//!
//! A VM's cache belongs to one shard thread: its engine, its sockets, its I/O. No lock and no other thread is
//! on the way of a request. The server must not know how schemes decide or how protocols are written; it
//! carries bytes and messages between `lode-nbd`, `lode-engine` and `lode-media`.

#![forbid(unsafe_code)]

mod allocation;
mod backing;
mod boot;
mod check;
mod client;
mod commands;
pub mod config;
mod connection;
mod control;
mod danger;
mod dirty_age;
mod division;
mod due;
mod ending;
mod error;
mod events;
mod fence_file;
mod files;
mod flushes;
mod foreign;
mod format;
mod guard;
mod handshake;
mod host;
mod identity;
mod incoming;
mod input;
mod intake;
mod latency;
mod listen;
mod live_scheme;
mod lookups;
mod membership;
mod memory;
mod messages;
mod metrics;
mod new_file;
mod pair;
mod read_ssd;
mod records;
mod redo;
mod request_cost;
mod requests;
mod scrape;
mod serve;
mod served;
mod shard;
mod shared;
mod sharing;
mod sidecar;
mod space;
mod ssd;
mod start;
mod status;
mod strict_json;
mod sync_device;
mod threads;
mod vm_log;
mod volume;
mod volumes;
mod waited;

pub use check::{
    CheckOptions, CheckReport, CheckTarget, CheckedSsd, CheckedVolume, DamagedBlockView, Mended, SsdCopies,
    Verdict, check, check_devices, check_targets,
};
pub use client::{
    Divided, KeysSet, LatestEvents, MembershipChanged, Released, Stopped, add_device, add_vm, cancel_drain,
    devices, divide, drain, drain_for_migration, events, release_vm, reload, remove_device, remove_served_vm,
    rename_vm, replace_device, resume_vm, set_keys, status, stop,
};
pub use commands::{MAX_EVENTS, PROTOCOL};
pub use config::Config;
pub use danger::warnings;
pub use error::{ServerError, ServerErrorKind};
pub use files::check_disks;
pub use format::{
    FormatOptions, FormatPlan, PairPaths, format, format_pairs, format_read_ssd, plan_format, plan_pairs,
    plan_read_ssd,
};
pub use latency::LATENCY_BOUNDS_US;
pub use lode_engine::Memory;
pub use memory::{HostMemory, VmMemory, host_memory};
pub use pair::{MemberState, MemberView, PairView, add_member, members, remove_member, replace_member};
pub use records::describe_records;
pub use redo::{RecoveredDisk, recover_disk};
pub use serve::serve;
pub use sidecar::{Sidecar, path_of as sidecar_path};
pub use volumes::{RemovedLog, RemovedVolume, VolumeView, Volumes, remove_volume, volumes};
