//! The schemes, one module each. A scheme is a type that implements [`crate::Scheme`], tables of its
//! settings, and one line in the registry.

pub mod arc;
mod arrivals;
pub mod belady;
mod cut_off;
mod dirty_lists;
mod distance_log;
pub mod etica;
pub mod fast_cache;
pub mod flashcache;
pub mod l2arc;
pub mod larc;
pub mod lirs;
mod mapping;
pub mod mq;
pub mod opencas;
mod queue_level;
mod queues;
mod radix;
pub mod regions;
mod rings;
pub mod rpac;
pub mod s3_fifo;
pub mod sets;
pub mod sieve;
pub mod sized;
mod sketch;
mod ssd_level;
mod streams;
pub mod tica;
pub mod two_q;
pub mod ucache;
pub mod w_tinylfu;
pub mod write_cache;
