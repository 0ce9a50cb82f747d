//! The same decisions from plain vectors, scans and tables.

pub mod arc;
pub mod belady;
pub mod etica;
pub mod fast_cache;
pub mod larc;
pub mod level;
pub mod lirs;
pub mod mq;
pub mod one_level;
pub mod pod;
pub mod request_oriented;
pub mod rpac;
pub mod s3_fifo;
pub mod sieve;
pub mod tica;
pub mod two_q;
pub mod w_tinylfu;
