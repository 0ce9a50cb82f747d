//! One volume's cache as a sans-I/O state machine: guest requests and device completions in, ordered
//! device commands and guest answers out.
//!
//! The scheme (`lode-policy`) decides in logical slots, in the order in which requests arrive, and is
//! never asked to wait. This crate carries the decisions out and keeps the promises of `docs/design.md`
//! while commands are in flight: operations on one block in arrival order, nothing acknowledged as
//! durable before it is, nothing dirty forgotten, no place reused while a command still uses it.
//!
//! The driver's loop is always the same: [`Engine::submit`] what guests ask and [`Engine::complete`] what
//! devices finished, then carry out [`Engine::next_command`] and hand out [`Engine::next_answer`] until
//! both are empty. The engine must not know files, sockets, clocks, operating systems or protocols.

#![forbid(unsafe_code)]

mod background;
mod broker;
pub mod command;
mod config;
mod copies;
mod disk;
mod drain;
mod dram;
mod engine;
mod fence;
mod flight;
mod flights;
mod front;
mod gauges;
mod grow;
mod guest;
mod health;
mod io;
mod levels;
mod membership;
mod memory;
mod ordered;
mod read_ssd;
mod reissue;
mod requests;
mod scrub;
mod shared;
mod shelf;
mod space;
mod ssd;
mod switch;
mod taking_over;
mod waiting;
mod waits;
mod written;

pub use background::WriteBackLimits;
pub use broker::SpaceBroker;
pub use config::EngineConfig;
pub use engine::Engine;
pub use fence::Fence;
pub use gauges::{Alarms, Gauges, SsdWriteUse};
pub use guest::{
    Answer, GuestError, GuestOp, GuestRequest, MAX_PIECE_BYTES, MAX_RANGE_BYTES, MAX_REQUEST_BYTES, Served,
};
pub use lode_types::{Buf, ByteList, Bytes, PAGE_BYTES};
pub use membership::{MembershipEnd, MembershipRefusal};
pub use memory::Memory;
pub use ordered::{Behind, OrderedConfig};
pub use shared::{EndedFlush, FlushTicket, SharedDevice, Worth};
pub use space::{SpaceAnswer, SpaceRequest};
pub use waits::{WaitedFor, Waits};
