//! The planner against naive ways, on random small traces.

mod advice;
mod common;
mod compare;
mod curves;
mod exhaustive;
mod fleet;
mod front;
mod limits;
mod mapping;
mod memory;
mod mini;
mod one_level;
mod one_vm;
mod sizes;
mod ssd_keeps;
mod two_levels;
mod wear;
