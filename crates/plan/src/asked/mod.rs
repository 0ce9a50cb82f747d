//! What is asked for, in the words that users write: how curves are obtained, intervals, schemes with settings, sizes, money,
//! rules for VMs. Every program that plans understands the same words.
//!
//! It must not know command lines, nor who asks.

mod division;
mod level_size;
mod method;
mod size;

pub use division::DivisionWords;
pub use level_size::{LevelSize, pair_sizes};
pub use method::{Followed, auto_method, parse_interval, parse_method, parse_sampling};
pub use size::{SHARE_GRANULE_BYTES, check_rule, parse_money, parse_rule, parse_scheme, parse_wish};
