//! Schemes, sizer and counters against slow, obvious oracles.

mod belady;
mod determinism;
mod docs;
mod driver;
mod etica;
mod invariants;
mod one_level;
mod oracle;
mod popularity;
mod replacements;
mod request_oriented;
mod sizer;
mod vectors;
