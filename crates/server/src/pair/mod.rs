//! Pairs of SSDs as the daemon has them: two files with all that is dirty on both. [`found`] finds out what paths are together, [`awaiting`] what one
//! is alone, [`device`] is the cache as starts see it, [`served`] what all volumes of all shards know of it while they are served, [`volume`] one volume's
//! commands to it, [`volumes`] those to all pairs of its cache, and [`manage`] what an operator does with members, of the pair that
//! [`which`] finds. None of them must know what volumes put there.

mod awaiting;
mod begin;
mod device;
mod found;
mod manage;
mod resilver;
mod served;
mod volume;
mod volumes;
mod which;

pub(crate) use awaiting::find_awaiting;
pub(crate) use begin::begin_pairs;
pub(crate) use device::{CacheDevice, CachePairs, PairFiles};
pub(crate) use found::find_pairs;
pub use manage::{MemberState, MemberView, PairView, add_member, members, remove_member, replace_member};
pub(crate) use manage::{add_served, open_for, remove_served, resume_resilver};
pub(crate) use served::{MemberDisks, ServedPair};
pub(crate) use volume::FileChange;
pub(crate) use volumes::{PairsNews, ServedPairs, VolumePairs};
