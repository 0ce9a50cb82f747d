//! Schemes, sizer and counters against slow, obvious oracles.

mod belady;
mod cut_off;
mod determinism;
mod docs;
mod driver;
mod etica;
mod fast_cache;
mod invariants;
mod larc;
mod memory;
mod mq;
mod one_level;
mod oracle;
mod popularity;
mod replacements;
mod request_oriented;
mod rpac;
mod sized;
mod sizer;
mod tica;
mod tracked;
mod two_level;
mod two_q;
mod vectors;
mod write_cache;
