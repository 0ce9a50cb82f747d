//! Words that every crate shares: operations, requests, block accesses, levels, units, buffers and errors of device commands,
//! the seeded generator, the filter of numbers, and the prefetch of cache lines.
//!
//! This crate owns vocabulary and nothing else. It must not know any policy, format, device or clock.

// Only `pool` and `prefetch` need any.
#![deny(unsafe_code)]

mod access;
mod buf;
mod command;
mod counter;
mod number_filter;
mod origin;
mod planted;
#[allow(unsafe_code)]
mod pool;
#[allow(unsafe_code)]
pub mod prefetch;
mod request;
mod rng;
mod size;
mod span;

pub use access::{Access, Direction, Level};
pub use buf::{Buf, Bufs, ByteList, PAGE_BYTES};
pub use bytes::Bytes;
pub use command::{CommandKind, MediaError};
pub use counter::Counter;
pub use number_filter::NumberFilter;
pub use origin::{Origin, OriginFields};
pub use planted::planted;
pub use pool::pool_bytes;
pub use request::{RequestOp, TraceRequest};
pub use rng::{Rng, mix, scaled};
pub use size::{SizeError, parse_daily_bytes, parse_size, show_size};
pub use span::{BlockRange, BlockSize, BlockSizeError, blocks_of};

/// Bytes of one sector, the smallest unit a guest may address.
pub const SECTOR_BYTES: u64 = 512;

/// Number of a block within one VM's address space: byte offset divided by the block size.
pub type BlockNo = u64;
