//! The schemes, one module each. A scheme is a type that implements [`crate::Scheme`], tables of its
//! settings, and one line in the registry.

pub mod arc;
pub mod belady;
pub mod etica;
pub mod lirs;
mod mapping;
pub mod one_level;
mod queue_level;
mod queues;
mod rings;
pub mod s3_fifo;
pub mod sieve;
mod sketch;
mod ssd_level;
pub mod w_tinylfu;
