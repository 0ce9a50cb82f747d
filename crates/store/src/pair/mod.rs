//! Two cache SSDs with all that is dirty on both, so that the loss of either loses nothing: a *pair* of *members*. To whoever uses it a pair is one
//! device. A member that fails is dropped: the other one says so durably in its label before anything is acknowledged that the
//! dropped one lacks. What is damaged on one member is read from the other one and written again.
//!
//! [`Pair`] is what labels say, [`PairDevice`] the pair as starts see it, one step after the other. While volumes are served each has
//! a [`PairVolume`], whose [`Fanout`] makes commands to members of those to the pair, and [`Followers`] knows how far they have
//! followed changes of the pair. Meanwhile [`Resilver`] says what is copied to a member that lacks something. Several pairs hold one cache
//! together where [`Stripes`] says: to starts they are a [`PairArray`], and while volumes are served each has [`ArrayCommands`], which
//! says which pairs a command goes to. What members are asked for one after the other is [`InTurn`]. None of them must know what volumes put there.

mod array;
mod array_commands;
mod device;
mod fanout;
mod followers;
mod in_turn;
mod labels;
mod member;
mod resilver;
mod stripes;
mod volume;

pub use array::PairArray;
pub use array_commands::ArrayCommands;
pub use device::PairDevice;
pub use fanout::{Fanout, Leg, PairCommand, PairEnd, PairHealth, PairOptions};
pub use followers::{Followed, Followers};
pub use in_turn::InTurn;
pub use labels::{Pair, count_labels, erase_label, probe_pair, write_label};
pub use member::{MEMBERS, STRIPE_BYTES, home_member};
pub use resilver::{Resilver, read_part, write_part};
pub use stripes::{Part, Stripes};
pub use volume::{DeviceChange, PairNews, PairVolume, bytes_of};
