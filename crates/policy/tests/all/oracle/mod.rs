//! The same decisions from plain vectors, scans and tables.

pub mod arc;
pub mod belady;
pub mod etica;
pub mod level;
pub mod lirs;
pub mod one_level;
pub mod pod;
pub mod request_oriented;
pub mod s3_fifo;
pub mod sieve;
pub mod w_tinylfu;
