//! The interface between one VM's cache policy and whoever drives it.

use lode_reuse::CurvePoint;
use lode_types::{Access, BlockNo, Level};

use crate::criticality::{Admission, SubmittedWrite, Verdict, WriteId};
use crate::decision::Decisions;
use crate::effect::{Sink, Slot};
use crate::quota::Quota;
use crate::settings::WriteBudget;

/// What one VM could use of a level in the window that just ended.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelDemand {
    /// ETICA's demand: the largest useful distance of the window plus one, so that every useful re-reference hits; 0: nothing
    /// would. A read-only level may need fewer, because writes make room in it.
    pub blocks: u32,
    /// Where the hit curve rises, ascending.
    pub curve: Vec<CurvePoint>,
    /// Block accesses of the VM in the window, hits or not.
    pub accesses: u64,
    /// How much the VM's hits count beside other VMs'; positive.
    pub weight: f64,
    /// Of the accesses, writes that a share of any size keeps from waiting for the disk and that are no hits of the curve.
    pub buffered_writes: u64,
    /// Of a measure that sees no further than the VM's share: what the VM would try beyond `blocks`. The curve says what is
    /// expected of it.
    pub trial_blocks: u32,
    /// After so many turnovers of its levels, accesses of all VMs as many as they have blocks, what the window says counts half for whoever
    /// divides a host, who then also reckons what blocks that move cost. 0: the window counts by itself, as in the papers.
    pub half_life_turnovers: f64,
}

/// Of a level that the VM could not use.
impl Default for LevelDemand {
    fn default() -> LevelDemand {
        LevelDemand {
            blocks: 0,
            curve: Vec::new(),
            accesses: 0,
            weight: 1.0,
            buffered_writes: 0,
            trial_blocks: 0,
            half_life_turnovers: 0.0,
        }
    }
}

/// Which points of its curves a VM is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// All.
    All,
    /// Of each curve the last point within this many blocks of its level, and the last of all. They decide what a VM is given
    /// that has no others beside it, where more hits are always better; and they need no sorting.
    LastWithin(Quota),
}

/// Where the second copies of a VM's dirty blocks are, in a scheme that keeps each of them on two devices: the SSD and
/// one other. The sums add up what there was at the end of each request, in blocks times requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mirrors {
    /// Dirty blocks that have no second copy now: from a restart, or the loss of a copy, until it is made.
    pub missing_blocks: u32,
    /// Sum of the dirty blocks whose second copy was in DRAM.
    pub in_dram: u64,
    /// Sum of the dirty blocks whose second copy was on the read SSD.
    pub in_read_ssd: u64,
    /// Sum of the dirty blocks that had none.
    pub missing: u64,
}

impl Mirrors {
    /// Together with those of another VM.
    pub fn and(self, other: Mirrors) -> Mirrors {
        Mirrors {
            missing_blocks: self.missing_blocks.saturating_add(other.missing_blocks),
            in_dram: self.in_dram.saturating_add(other.in_dram),
            in_read_ssd: self.in_read_ssd.saturating_add(other.in_read_ssd),
            missing: self.missing.saturating_add(other.missing),
        }
    }
}

/// Of schemes that measure what their VM could use of each level, so that shares can follow.
pub trait Sizing {
    /// Closes the sizing window and says what the VM could have used of each of [`Level::SIZED`].
    fn demand(&mut self, points: Points) -> [LevelDemand; 2];
}

/// Of schemes that hold what they write to the SSD to a budget.
pub trait Budgeting {
    /// What the host allows from now on, beside what the scheme's own setting does.
    fn set_host_budget(&mut self, budget: WriteBudget);

    /// Blocks that were worth a write to the SSD at the price that there is without a budget, written or not, since the scheme
    /// began or chose another one; 0 where that is not known.
    fn wanted_blocks(&mut self) -> u64;
}

/// Of schemes that keep every dirty block on two devices.
pub trait Mirroring {
    /// Where the second copies of dirty blocks are and were.
    fn mirrors(&self) -> Mirrors;

    /// Where the copies of `block` are after the decisions so far, indexed by [`Level::index`]: a copy may have to stand in
    /// for another one.
    fn slots(&self, block: BlockNo) -> [Option<Slot>; Level::COUNT];
}

/// Of schemes that issue writes again that are on their way to the disk. Whoever carries writes out has to call the hooks.
pub trait Reissuing {
    /// The hooks; accesses call [`Admission::on_submit`] by themselves.
    fn hooks(&mut self) -> &mut Admission;

    /// A write as the hooks see it. One that does not tell whether it is synchronous counts as not so.
    fn submitted(&self, id: WriteId, access: &Access) -> SubmittedWrite;

    /// Where a write goes when there is room. One that does not tell whether it is critical counts as not so.
    fn on_submit(&self, access: &Access) -> Verdict;

    /// A write of the whole block that is on its way to the disk is issued again: the block is cached, dirty. Without an
    /// [`Effect::WriteLevel`](crate::Effect::WriteLevel) there was no room, or the block is cached already.
    fn take_in(&mut self, block: BlockNo, sink: &mut dyn Sink);
}

/// Of schemes some of whose intervals are the host's own, and end for all of its VMs at once.
pub trait HostTimed {
    /// The interval ended, after the request that ended it: all VMs of the host hear of it, those that asked for nothing, too.
    fn end_host_interval(&mut self, sink: &mut dyn Sink);
}

/// Of schemes that choose among others.
pub trait Choosing {
    /// What was chosen.
    fn decisions(&self) -> &Decisions;
}

/// One VM's cache policy.
///
/// Calls come one at a time. An access's effects follow from the calls before it and from nothing else. Whoever knows accesses
/// ahead makes them by [`Lookahead`](crate::Lookahead); what only some schemes can do is asked for by name
/// ([`Scheme::sizing`] and what follows it).
pub trait Scheme {
    /// Decides one block access.
    fn access<S: Sink>(&mut self, access: Access, sink: &mut S);

    /// A guest request (all of its blocks) has been decided. Background work of the scheme's own
    /// intervals happens here. `now_ns` is the time of the request on the caller's clock; it is only
    /// looked at when the intervals are set to follow time.
    fn end_request<S: Sink>(&mut self, _now_ns: u64, _sink: &mut S) {}

    /// The guest no longer needs `block`: every copy is invalidated, dirty or not, and what was known of
    /// its use is forgotten.
    fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S);

    /// The world lost the copy in this slot (a media error). The scheme must not use it again. Where it was the dirty copy
    /// of a block that the scheme keeps on two devices, the caller writes the other one to the backing disk: that one is
    /// clean from now on.
    fn forget(&mut self, level: Level, block: BlockNo);

    /// The SSD's copy of `block` was written back and stays: it is no newer than the backing disk any more. Counts
    /// as no access. Nothing happens where the SSD does not hold the block.
    fn cleaned(&mut self, block: BlockNo);

    /// Takes over a block that was found in the SSD at a restart; called from least to most recent.
    /// `None`: there is no room for it, or it is dirty and the scheme keeps nothing dirty; the caller must
    /// drop it, or write it back when dirty.
    fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot>;

    /// So many blocks are about to be taken over, as far as there is room. Nothing but speed depends on it.
    fn expect(&mut self, blocks: u32);

    /// Changes the VM's share. What no longer fits is evicted.
    fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S);

    /// The VM's share in force.
    fn quota(&self) -> Quota;

    /// Blocks that the VM holds in a level now.
    fn resident_blocks(&self, level: Level) -> u32;

    /// Bytes of memory that the scheme's tables take.
    fn memory_bytes(&self) -> usize;

    /// The scheme, where it measures what its VM could use.
    fn sizing(&mut self) -> Option<&mut dyn Sizing> {
        None
    }

    /// The scheme, where it holds to budgets of SSD writes.
    fn budgeting(&mut self) -> Option<&mut dyn Budgeting> {
        None
    }

    /// The scheme, where it keeps dirty blocks on two devices.
    fn mirroring(&self) -> Option<&dyn Mirroring> {
        None
    }

    /// The scheme, where it issues writes again.
    fn reissuing(&mut self) -> Option<&mut dyn Reissuing> {
        None
    }

    /// The scheme, where it has intervals that are the host's.
    fn host_timed(&mut self) -> Option<&mut dyn HostTimed> {
        None
    }

    /// The scheme, where it chooses among others.
    fn choosing(&self) -> Option<&dyn Choosing> {
        None
    }
}
