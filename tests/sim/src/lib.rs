//! The engine in a simulated world: virtual devices, a virtual clock, one seed.
//!
//! # The fault model
//!
//! A device is an array of 512-byte sectors. A write becomes visible when it completes and durable when a
//! flush that was issued after that completes. Until then:
//!
//! * **Power cut**: in some cuts every sector for itself, in most every write as a whole arrives wholly, not at all, as a
//!   prefix or in some of its sectors. A sector then has the content of the latest write that arrived there, now and then
//!   of an older one, or the durable one. Writes are so torn at any sector and reordered at will. Writes still under way at
//!   the cut count as written. Host memory is gone, or of an earlier boot.
//! * **Kill**: the devices keep all that completed, and each write under way happens or does not. Host memory is gone, but
//!   for the record buffer ([`lode_store::RecordStorage`]). Nothing that was acknowledged may be lost.
//! * **Failed flush**: what it should have covered can still be read, and no later flush covers it until it is written again.
//!   A device may be through with a flush, well or not, long before it says so. Several volumes may share the SSD, and
//!   the device of their backing disks.
//! * **Bad block**: a block of the cache SSD reads back with flipped bits, from any moment on. What was written last to a block that was
//!   not yet known to be durable may look as if it had never been written after a kill or power cut, and nothing else may.
//! * **Death of an SSD**: the cache SSD that volumes share answers nobody any more while they are served, and is there again at the next
//!   start; or the read SSD does.
//! * **Hang**: any device answers nothing for a time that is counted in ticks, half a minute at most. What it was asked for is under way until
//!   then, and is carried out in any order, or the system gives it up: it has happened or not, and is an error. The host may go down meanwhile. Of
//!   a pair one member hangs, for ever or for a time, or both do.
//! * **Hang in a start**: a device stops answering at any command of a start, be it an SSD, one of a pair, the backing disk or the redo log. The
//!   command is carried out later; or the system gives up it and a few more, which have happened or not; or the start gives it up, or never ends, and
//!   it happens, wholly, in part or not, at any time until the device is opened again: never after a write of a later start. The device is locked
//!   until then.
//! * **Rot**: of superblock, directory and table pages, which the cache SSD holds twice, one copy becomes unreadable between
//!   two runs.
//! * **Misdirected write**: a write of blocks to the cache SSD is told to have ended well and has gone to other blocks there; where it
//!   should have gone the old content stays. Of what describes the cache such a write is as one that a device lies about, and what it goes over
//!   is lost: random guests do not meet it, and tests of single ones ask that no other block's bytes come of it.
//! * **Clock jumps**: the time of a request is hours later than that of the one before, or earlier, and the ticks of an hour come at once.
//! * **Device error**: a command fails and has no effect (a failed write may have any effect on its own
//!   sectors). During a start one read fails, of the cache SSD, of either one of a pair
//!   or of a redo log, for good or a few times, or every write and flush from one on does. What a start asks
//!   for at once is carried out in any order; of what was asked at once with a write that fails, each has happened or not.
//!
//! * **Ordered write-back**: every cache SSD is lost, together with the power or not, and power fails again while the redo log is applied.
//! * **A pair of SSDs**: each member tears, reorders, fails, stops answering or goes bad by itself, and is lost at a crash and
//!   replaced or not. The label that says who was dropped is written and remembered step by step. While guests are served members are
//!   taken out, and other devices come in their place and are resilvered, at whatever time each volume follows that; what it still sends
//!   to a device that was taken out goes there. Where there are several pairs, all of this happens to each by itself. Where several volumes
//!   share them, extents move, and volumes and schemes change, at the same time; the directory goes to one member after the other.
//!
//! A volume owns no more places on the SSD than its share and reserve. While all devices work, a request that waits
//! while none of them is at anything is a failure, and so is one that takes hundreds of times what a device takes; where one hangs that holds
//! for the volumes that do not use it. So is a
//! write to a place of the SSD where one has failed.
//!
//! Commands are carried out in any order that the service times happen to give. Nothing else goes wrong:
//! what a flush covered stays, and a device never returns an older content of a sector by itself. An SSD of a pair may come back as it was
//! when an earlier run ended.
//!
//! Everything follows from one seed, so that a failing case is repeated by running it again.
//!
//! This crate must not know real files or devices.

#![forbid(unsafe_code)]

mod attack;
mod death;
mod direct;
mod disk;
mod durable;
mod guest;
mod machine;
mod membership;
mod memory;
mod minimize;
mod model;
mod pair;
mod pair_directory;
mod pair_resilver;
mod pair_side;
mod rot;
mod run;
pub mod scenario;
mod space;
mod start;
mod start_hang;
mod together;
mod world;

pub use attack::{
    Changing, attack, attack_changing_pairs, attack_damaged, attack_hangs, attack_host, attack_in_full,
    attack_ordered, attack_pair, attack_pairs, attack_plans, attack_start_hangs, attack_two_devices,
};
pub use direct::DirectHost;
pub use disk::{Access, SimDisk};
pub use lode_types::Rng;
pub use machine::{Faults, Machine};
pub use minimize::PartOfHost;
pub use model::{Change, Model, SECTOR, Version};
pub use pair::{OtherPair, SimPair};
pub use rot::{Copies, pages_kept_twice};
pub use run::{Crash, Decay, Plan, RunCounts, run, run_on_one_ssd};
pub use start_hang::HangEnd;
pub use together::run_together;
pub use world::World;
