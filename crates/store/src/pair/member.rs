//! How many members a pair has, how they are counted, and which of them is home to what. It must not know what any part of a pair does with them.

use lode_format::PairLabel;

/// SSDs of a pair.
pub const MEMBERS: usize = PairLabel::MEMBERS;

/// Neighbours have the same home: so many bytes on one member, as many on the other.
pub const STRIPE_BYTES: u64 = 1 << 20;

/// The member from which these bytes of the pair are read, and on which alone they are where one copy is enough.
pub fn home_member(offset_bytes: u64) -> usize {
    (offset_bytes / STRIPE_BYTES % MEMBERS as u64) as usize
}

/// The member that is not this one.
pub(super) fn other(member: usize) -> usize {
    1 - member
}
