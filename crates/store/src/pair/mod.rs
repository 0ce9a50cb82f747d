//! Two cache SSDs that hold the same, so that the loss of either loses nothing: a *pair* of *members*. To whoever uses it a pair is one
//! device. A member that fails is dropped: the other one says so durably in its label before anything is acknowledged that the
//! dropped one lacks. What is damaged on one member is read from the other one and written again.
//!
//! [`Pair`] is what labels say, [`PairDevice`] the pair as starts see it, one step after the other, and [`Fanout`] while volumes are
//! served: commands to the pair become commands to its members. Meanwhile [`Resilver`] brings a member up to date. None of them must
//! know what volumes put there.

mod device;
mod fanout;
mod members;
mod resilver;

pub use device::PairDevice;
pub use fanout::{Fanout, Leg, PairEnd, PairHealth, PairRead};
pub use members::{Pair, erase_label, probe_pair, write_label};
pub use resilver::Resilver;

use lode_format::PairLabel;

/// SSDs of a pair.
pub const MEMBERS: usize = PairLabel::MEMBERS;

/// The member that is not this one.
pub(crate) fn other(member: usize) -> usize {
    1 - member
}
