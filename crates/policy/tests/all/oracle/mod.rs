//! The same decisions from plain vectors, scans and tables.

pub mod arc;
pub mod auto;
pub mod auto_sizes;
pub mod belady;
pub mod benefit_density;
pub mod criticality;
pub mod cut_off;
pub mod etica;
pub mod fast_cache;
pub mod larc;
pub mod level;
pub mod life_table;
pub mod lirs;
pub mod mq;
pub mod one_level;
pub mod opencas;
pub mod pod;
pub mod rpac;
pub mod s3_fifo;
pub mod sieve;
pub mod sized;
pub mod tica;
pub mod two_level;
pub mod two_q;
pub mod w_tinylfu;
pub mod write_cache;
