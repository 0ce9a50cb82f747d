//! The schemes, one module each. A scheme is a type that implements [`crate::Scheme`], tables of its
//! settings, and one line in the registry.

pub mod arc;
mod arrivals;
pub mod belady;
pub mod etica;
pub mod fast_cache;
pub mod larc;
pub mod lirs;
mod mapping;
pub mod mq;
mod queue_level;
mod queues;
pub mod regions;
mod rings;
pub mod rpac;
pub mod s3_fifo;
pub mod sets;
pub mod sieve;
mod sketch;
mod ssd_level;
pub mod tica;
pub mod two_q;
pub mod w_tinylfu;
