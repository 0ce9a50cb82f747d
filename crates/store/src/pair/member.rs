//! How many members a pair has, and how they are counted. It must not know what any part of a pair does with them.

use lode_format::PairLabel;

/// SSDs of a pair.
pub const MEMBERS: usize = PairLabel::MEMBERS;

/// The member that is not this one.
pub(super) fn other(member: usize) -> usize {
    1 - member
}
