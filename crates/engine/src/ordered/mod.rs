//! Ordered write-back: which blocks guests wrote since the last *cut*, and the *group* of those before it, which is on its way to the
//! backing disk. Requests are decided one after the other; a cut is a moment between two of them, so that what was written
//! before it is a state that a power cut at that moment could have left of a disk that loses nothing. Groups go to the backing
//! disk one after the other and each as a whole, by way of a redo log beside it (`group`), so that the disk with its log is
//! never anything but such a state.
//!
//! A cut is made at a guest's FLUSH where one comes in time, and otherwise when it must be. There is room for one group while
//! the next one gathers; when there is none, what would gather more waits.
//!
//! This part is pure: it must not know bytes' places, blocks in flight, devices or the scheme.

mod group;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use hashbrown::HashMap;
use lode_format::{RedoLayout, RedoState};
use lode_policy::Slot;
use lode_types::{BlockNo, BlockSize, Counter, planted};

pub(crate) use group::{Group, GroupFacts, GroupNext, GroupWrite, Identity};

/// How the backing disk is written in the order of a guest's flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedConfig {
    /// Blocks of a group at which the next cut is made at the latest. Their bytes are in memory while the group is written.
    pub group_blocks: u32,
    /// Ticks from one cut to the next FLUSH at which one is made.
    pub group_ticks: u32,
    /// Ticks by which the backing disk may be behind before writes wait.
    pub max_lag_ticks: Option<u32>,
    /// Number of the latest group in the redo log.
    pub last_group: u64,
    /// What groups are noted with in the log: as long as it stays the same, nobody else has had the disk.
    pub generation: u64,
}

/// Blocks by which what gathers may be more than a group: a piece of a request that was admitted when there was room for one
/// block, and the ends of a zeroing.
const SLACK_BLOCKS: u32 = 128;

impl OrderedConfig {
    /// Where everything is in the redo log. It has room for a group and for what gathers meanwhile, because after a crash all
    /// of that is one group.
    pub fn redo_layout(&self, block: BlockSize) -> RedoLayout {
        RedoLayout { block, capacity_blocks: self.capacity_blocks() }
    }

    /// Most dirty blocks with which a start can go on.
    pub fn capacity_blocks(&self) -> u32 {
        self.group_blocks.saturating_add(SLACK_BLOCKS).saturating_mul(2).min(RedoLayout::MAX_BLOCKS)
    }

    /// Bytes of memory that groups of a volume with so many places take at most: a start may make one of all that is dirty, so that it
    /// is the bytes of two, and what is known of each block.
    pub(crate) fn most_memory_bytes(&self, block: BlockSize, ssd_places: u64) -> u64 {
        const BLOCK_TABLES_BYTES: u64 = 160;
        u64::from(self.capacity_blocks()).min(ssd_places) * (block.bytes() + BLOCK_TABLES_BYTES)
    }
}

/// How far the backing disk, with its redo log, is behind what guests wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Ticks since the first write that it lacks.
    pub ticks: u32,
    /// Blocks that it lacks.
    pub blocks: u32,
    /// The number of the latest group that it has.
    pub group: u64,
    /// It lacks what was written before this start, and nobody knows how long before.
    pub is_of_before_start: bool,
    /// What is to be written cannot be: a device fails, or a block is lost. The disk stays as it is.
    pub is_stuck: bool,
}

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gathered {
    /// It goes past groups.
    Past,
    /// It gathers, and the disk has it with the next group.
    Taken,
    /// There is no room, and there will be none.
    Refused,
}

/// What gathers, and the group under way.
#[derive(Debug)]
pub(crate) struct Ordered {
    config: OrderedConfig,
    /// Blocks of which a write was decided since the last cut.
    open: BTreeSet<BlockNo>,
    /// Tick of the first of these writes.
    open_since: u32,
    group: Option<Group>,
    group_since: u32,
    /// The slots of dirty blocks that are not in flight.
    slots: HashMap<BlockNo, Slot>,
    /// Blocks of groups on the disk whose copies are not noted as clean yet.
    settling: usize,
    /// Number of the latest cut, and of the latest group that the disk has with its log.
    cuts: u64,
    reached: u64,
    last_cut: u32,
    /// When the latest group was over.
    over_at: u32,
    now: u32,
    /// A drain is over when this cut is on the disk.
    drain_until: Option<u64>,
    /// The disk lacks what was written before the start.
    is_of_before_start: bool,
}

impl Ordered {
    pub(crate) fn new(config: OrderedConfig) -> Ordered {
        Ordered {
            config,
            open: BTreeSet::new(),
            open_since: 0,
            group: None,
            group_since: 0,
            slots: HashMap::new(),
            settling: 0,
            cuts: config.last_group,
            reached: config.last_group,
            last_cut: 0,
            over_at: 0,
            now: 0,
            drain_until: None,
            is_of_before_start: false,
        }
    }

    /// A start found this block newer than the disk.
    pub(crate) fn found(&mut self, block: BlockNo) {
        self.dirtied(block);
        self.is_of_before_start = true;
    }

    /// A write of this block was decided.
    pub(crate) fn dirtied(&mut self, block: BlockNo) {
        if self.open.is_empty() {
            self.open_since = self.now;
        }
        self.open.insert(block);
    }

    /// A write of this block was decided. Where writes go around the SSD it may have its way once the disk has everything;
    /// `is_without_hope`: there will be no more room than there is.
    pub(crate) fn gather(&mut self, block: BlockNo, writes_around: bool, is_without_hope: bool) -> Gathered {
        if writes_around && self.has_everything() {
            return Gathered::Past;
        }
        let is_taken = self.open.contains(&block) || self.has_room() || !is_without_hope;
        if !is_taken {
            return Gathered::Refused;
        }
        self.dirtied(block);
        Gathered::Taken
    }

    /// Whether writes have to wait: for room, because the disk is too far behind, or because they are to go around the SSD and what
    /// was written before is on its way.
    pub(crate) fn holds_writes(&self, writes_around: bool) -> bool {
        let is_late = self.is_too_far_behind() && !planted("lag-limit-ignored");
        !self.has_room() || is_late || (writes_around && !self.has_everything())
    }

    /// Whether nothing was written since the last cut.
    pub(crate) fn has_gathered_nothing(&self) -> bool {
        self.open.is_empty()
    }

    /// A dirty block left flight, with this slot or none.
    pub(crate) fn note_slot(&mut self, block: BlockNo, slot: Option<Slot>) {
        match slot {
            Some(slot) => self.slots.insert(block, slot),
            None => self.slots.remove(&block),
        };
    }

    /// The slot of a dirty block, if it is not in flight: it comes into flight now.
    pub(crate) fn take_slot(&mut self, block: BlockNo) -> Option<Slot> {
        self.slots.remove(&block)
    }

    /// Whether a group is on its way.
    pub(crate) fn is_busy(&self) -> bool {
        self.group.is_some()
    }

    /// Whether nothing will happen before the next tick.
    pub(crate) fn is_resting(&self) -> bool {
        self.group.as_ref().is_none_or(Group::is_paused)
    }

    /// Whether a device refused the group under way.
    pub(crate) fn is_paused(&self) -> bool {
        self.group.as_ref().is_some_and(Group::is_paused)
    }

    /// Whether the backing disk has everything, its log is empty and the cache knows that.
    pub(crate) fn has_everything(&self) -> bool {
        self.open.is_empty() && self.group.is_none() && self.settling == 0
    }

    /// Whether the disk is to get it with a group, the next one or the one under way: whatever it got of it before, its copy stays
    /// dirty.
    pub(crate) fn is_owed(&self, block: BlockNo) -> bool {
        let is_in_group = || self.group.as_ref().is_some_and(|group| group.has(block));
        self.open.contains(&block) || (is_in_group() && !planted("settled-past-the-next-cut"))
    }

    /// Whether copies are still to be noted as clean, so that there is soon more room.
    pub(crate) fn is_settling(&self) -> bool {
        self.settling > 0
    }

    /// Whether there is room for one more block to gather. What is not noted as clean yet is found dirty by a start, and may
    /// have to gather again.
    pub(crate) fn has_room(&self) -> bool {
        let group = self.group.as_ref().map_or(0, Group::blocks);
        let most = self.config.group_blocks as usize;
        self.open.len() < most && self.open.len() + group + self.settling < 2 * most
    }

    /// Whether the backing disk is so far behind that writes wait.
    pub(crate) fn is_too_far_behind(&self) -> bool {
        self.config.max_lag_ticks.is_some_and(|most| self.lag_ticks() >= most)
    }

    fn lag_ticks(&self) -> u32 {
        let since = match &self.group {
            Some(group) if !group.is_committed() && !planted("lag-of-what-gathers-alone") => self.group_since,
            _ if self.open.is_empty() => self.now,
            _ => self.open_since,
        };
        self.now - since
    }

    /// How far the disk is behind.
    pub(crate) fn behind(&self) -> Behind {
        let in_group = self.group.as_ref().filter(|group| !group.is_committed()).map_or(0, Group::blocks);
        Behind {
            ticks: self.lag_ticks(),
            blocks: (self.open.len() + in_group) as u32,
            group: self.reached,
            is_of_before_start: self.is_of_before_start,
            is_stuck: self.is_paused(),
        }
    }

    /// Whether a cut is due at a FLUSH.
    pub(crate) fn is_due_at_flush(&self) -> bool {
        self.may_cut()
            && (self.now - self.last_cut >= self.config.group_ticks
                || self.open.len() * 2 >= self.config.group_blocks as usize)
    }

    /// Whether a cut is due whether or not a FLUSH comes: nobody flushes, there is no more room, or `pressed`: somebody waits for
    /// what only a cut can give.
    pub(crate) fn is_due(&self, pressed: bool) -> bool {
        // While a group is under way no FLUSH makes a cut; after it one has its time to come.
        let waited = self.now - self.last_cut.max(self.open_since).max(self.over_at);
        let is_waited_for = pressed || self.drain_until.is_some_and(|until| until > self.cuts);
        self.may_cut() && (is_waited_for || !self.has_room() || waited > self.config.group_ticks)
    }

    fn may_cut(&self) -> bool {
        self.group.is_none() && !self.open.is_empty()
    }

    /// A cut is made: what gathered is a group now. Its blocks, which are to be captured.
    pub(crate) fn cut(&mut self) -> Vec<BlockNo> {
        assert!(self.group.is_none(), "one group after the other");
        assert!(
            self.open.len() <= self.config.capacity_blocks() as usize,
            "a start sees that the log has room"
        );
        let blocks: Vec<BlockNo> = std::mem::take(&mut self.open).into_iter().collect();
        self.cuts += 1;
        (self.last_cut, self.group_since) = (self.now, self.open_since);
        self.group = Some(Group::new(self.cuts, &blocks));
        blocks
    }

    pub(crate) fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    pub(crate) fn group_mut(&mut self) -> Option<&mut Group> {
        self.group.as_mut()
    }

    /// What is next for the group under way.
    pub(crate) fn next(&mut self, facts: &GroupFacts) -> GroupNext {
        let Some(group) = &mut self.group else { return GroupNext::Wait };
        let next = group.next(facts);
        if group.is_committed() {
            self.reached = group.number();
            self.is_of_before_start = false;
        }
        next
    }

    /// The group under way is on the disk. Its blocks, whose copies are to be noted as clean in their turn, unless the disk is owed
    /// them again by then ([`Ordered::is_owed`]).
    pub(crate) fn take_settled(&mut self) -> Vec<BlockNo> {
        let blocks = self.group.as_mut().expect("it is on the disk").take_blocks();
        self.settling += blocks.len();
        blocks
    }

    /// A block of these is noted as clean, or does not need to be.
    pub(crate) fn settled(&mut self) {
        self.settling.count_down();
        self.end_drain();
    }

    /// The group is over.
    pub(crate) fn group_over(&mut self) {
        assert!(self.group.take().is_some(), "it is under way");
        self.over_at = self.now;
        self.end_drain();
    }

    /// A block of the group could not be captured: it is as if there had been no cut.
    pub(crate) fn undo_cut(&mut self) {
        let Some(mut group) = self.group.take() else { return };
        self.open.extend(group.take_blocks());
        self.open_since = self.group_since;
        self.drain_until = None;
    }

    /// A drain of what was decided until now begins.
    pub(crate) fn drain(&mut self) {
        self.drain_until = Some(self.cuts + u64::from(!self.open.is_empty()));
        self.end_drain();
    }

    fn end_drain(&mut self) {
        let is_over = |until| self.reached >= until && self.group.is_none() && self.settling == 0;
        if self.drain_until.is_some_and(is_over) {
            self.drain_until = None;
        }
    }

    /// The drain is given up.
    pub(crate) fn stop_drain(&mut self) {
        self.drain_until = None;
    }

    /// Blocks that a drain has before it; none: there is no drain, or it is over.
    pub(crate) fn drain_left(&self) -> Option<u32> {
        let until = self.drain_until?;
        let gathered = if until > self.cuts { self.open.len() } else { 0 };
        Some((gathered + self.group.as_ref().map_or(0, Group::blocks) + self.settling) as u32)
    }

    /// A tick is over: what a device refused is tried again.
    pub(crate) fn tick(&mut self) {
        self.now = self.now.saturating_add(1);
        if let Some(group) = &mut self.group {
            group.resume();
        }
    }

    /// Bytes of memory that this takes, those that are captured included.
    pub(crate) fn memory_bytes(&self) -> usize {
        /// Of a tree's entry, its share of a node that is half full.
        const TREE_ENTRY_BYTES: usize = 24;
        self.open.len() * TREE_ENTRY_BYTES
            + self.slots.capacity() * (size_of::<(BlockNo, Slot)>() + 1)
            + self.group.as_ref().map_or(0, Group::memory_bytes)
    }
}

impl Identity {
    fn state(&self, group: u64, blocks: u32) -> RedoState {
        RedoState { volume: self.volume, group, blocks, generation: self.generation }
    }
}
