//! The planner as users meet it: `lode curve`, `lode size` and `lode compare`, their tables, JSON, pages and messages,
//! and the way from a trace to a configuration. What is computed is tested in the planner's own crate.

mod auto;
#[path = "../../../draw/tests/chromium/mod.rs"]
mod chromium;
mod common;
mod compare;
mod curve;
mod drives;
mod hostile;
mod keys;
mod one_level;
mod pages;
mod path;
mod pictures;
mod run;
mod size;
mod without_times;
