//! Pages out of made-up data, for the examples and the tests. It must not know how they are tested.

pub mod compare;
pub mod planner;
