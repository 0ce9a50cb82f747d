//! The schemes, one file or folder each, named as users name them. A scheme is a type that implements [`crate::Scheme`], tables
//! of its settings, and its `INFO`, which has its line in the registry. What several of them share is in `parts`.

pub mod arc;
pub mod auto;
pub mod belady;
pub mod benefit_density;
pub mod centaur_like;
pub mod eci_cache_like;
pub mod etica;
pub mod fast_cache_like;
pub mod fifo;
pub mod flashcache;
pub mod l2arc_like;
pub mod larc;
pub mod lirs;
pub mod lru;
pub mod mq;
pub mod opencas_like;
pub mod request_oriented;
pub mod rpac;
pub mod s3_fifo;
pub mod s_cave_like;
pub mod s_rac_like;
pub mod sieve;
pub mod tica;
pub mod two_q;
pub mod ucache_like;
pub mod vcacheshare_like;
pub mod w_tinylfu;
