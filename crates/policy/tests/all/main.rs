//! Schemes, sizer and counters against slow, obvious oracles.

mod belady;
mod determinism;
mod docs;
mod driver;
mod etica;
mod fast_cache;
mod invariants;
mod larc;
mod mq;
mod one_level;
mod oracle;
mod popularity;
mod replacements;
mod request_oriented;
mod rpac;
mod sizer;
mod tica;
mod two_q;
mod vectors;
