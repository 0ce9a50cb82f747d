//! The durable truth about places on the cache SSD: which volume owns which space, what every place holds, and how far that
//! survives a kill of the process or a power cut.
//!
//! Before guests are served, [`StoreView`] and [`Store`] look, recover, hand out and take back space, one step after the
//! other through [`SyncDevice`]. While they are served, each volume has a [`VolumeStore`]: its places, the journal of their
//! changes and the checkpoints of its place tables, sans I/O. What the volume store wants written is taken from
//! [`VolumeStore::next_output`], and [`VolumeStore::done`] is told when it is.
//!
//! Beside the cache stands the other thing that a start may have to recover, the redo log of a volume with ordered write-back
//! ([`apply_redo_log`]). It shares devices and errors with the rest and nothing else, because it is needed when the cache is lost.
//!
//! This crate must not know guests, requests, schemes or logical slots, nor who waits for a version to be durable. Nothing about
//! the cache may touch a backing disk, of which it knows the size and what was said to be durable there; only applying a redo log
//! writes to one. Its users must not know the formats of pages and records.

#![forbid(unsafe_code)]

mod ages;
mod attach;
mod buffered;
mod change;
mod check;
mod circulation;
mod contents;
mod cut;
mod device;
mod directory;
mod dropped;
mod empty_tables;
mod error;
mod found;
mod found_page;
mod found_run;
mod free;
mod heads;
mod journal;
mod latest_versions;
mod membership;
mod order;
pub mod pair;
mod place;
mod places;
mod read_journal;
mod read_ssd;
mod record_buffer;
mod recover;
mod redo;
mod refusals;
mod remove;
mod signature;
mod spec;
mod store;
mod stretches;
mod table_runs;
mod tables_again;
mod twice;
mod unreadable_copies;
mod view;
mod volume;
mod write_tables;
mod young;

pub use ages::Era;
pub use attach::Attached;
pub use buffered::{BufferIgnored, TakenOver};
pub use change::DirectoryChange;
pub use check::{CacheCopies, CopiesCheck, CopyCounts, DamagedBlock, HeadsCheck, VolumeCheck};
pub use contents::{Contents, HeldBlock};
pub use device::{PagesRead, ReadAndWritten, SyncDevice, Task, Workers, pieces_of};
pub use directory::{DirectoryOutput, SpaceDirectory};
pub use error::{StoreError, StoreErrorKind};
pub use membership::MembershipChange;
pub use order::FoundOrder;
pub use place::Place;
pub use places::Places;
pub use read_ssd::{format_read_ssd, probe_read_ssd};
pub use record_buffer::{RecordMemory, RecordStorage};
pub use redo::{RedoLog, apply_redo_log, check_redo_log, create_redo_log, read_redo_label, read_redo_log};
pub use signature::signature_of;
pub use spec::{Distrust, VolumeSpec};
pub use store::Store;
pub use view::{BlockCounts, StoreView, VolumeInfo};
pub use volume::{Metadata, MetadataOutcome, Output, VolumeStore};
