//! TICA: DRAM, an SSD that takes writes and one that takes reads, every dirty block on two of them (Salkhordeh,
//! Hadizadeh and Asadi, "An Efficient Hybrid I/O Caching Architecture Using Heterogeneous SSDs", IEEE TPDS 2019).
//!
//! A write goes to DRAM and to the SSD at once; later the read SSD gets a copy and DRAM gives its one up. Reads fill DRAM
//! only; what leaves it is dropped (EF), copied to the SSD (WED), or one of the two by what the workload gains from it
//! (adaptive). `docs/schemes/tica.md` lists the readings. It must not know how long anything takes: how fast copies to
//! the read SSD are made is a setting.

pub mod choice;
mod config;
mod evict;
pub mod partition;
mod table;

use lode_types::{Access, BlockNo, Direction, Level};

use crate::effect::{Effect, Sink, Slot};
use crate::prefetch::{Lookahead, Prefetch, PrefetchHint};
use crate::quota::Quota;
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::scheme::{Mirroring, Mirrors, Scheme};
use crate::settings::Settings;
use crate::tracked::{Footprint, percent_of};
use choice::Policy;
use config::{Adaptive, COPY_PARTS, Config};
use partition::Partition;
use table::{Id, List, Table};

use config::{ADAPTIVE_TABLES, TABLES};

/// Every dirty block is on two devices, which have none to spare; DRAM is for reads and for writes.
const LEAST: Quota = Quota::new(2, 1).with(Level::ReadSsd, 1);

/// The endurance-friendly policy.
pub(crate) const EF_INFO: SchemeInfo = SchemeInfo {
    name: "tica-ef",
    about: "DRAM over an SSD for writes and one for reads, every dirty block on two of them; what leaves \
            DRAM is dropped, which spares the SSDs",
    source: "TICA (Salkhordeh et al.)",
    tables: TABLES,
    build: |settings, _, quota| {
        AnyScheme::Tica(Box::new(Tica::fixed(settings, quota, Policy::EnduranceFriendly)))
    },
    footprint: Footprint::new(2 * LEAN, 64),
    levels: &Level::ALL,
    least: LEAST,
    ..SchemeInfo::PLAIN
};

/// The policy that writes to the endurance disk.
pub(crate) const WED_INFO: SchemeInfo = SchemeInfo {
    name: "tica-wed",
    about: "as tica-ef, but what leaves DRAM is copied to the SSD, which saves reads from the disk",
    build: |settings, _, quota| {
        AnyScheme::Tica(Box::new(Tica::fixed(settings, quota, Policy::WriteToEnduranceDisk)))
    },
    ..EF_INFO
};

/// The one of the two that fits.
pub(crate) const ADAPTIVE_INFO: SchemeInfo = SchemeInfo {
    name: "tica-adaptive",
    about: "tica-ef or tica-wed, by whether DRAM is too small for what is read, or the SSDs hold what \
            nobody uses",
    tables: ADAPTIVE_TABLES,
    build: |settings, _, quota| AnyScheme::Tica(Box::new(Tica::adaptive(settings, quota))),
    footprint: Footprint::new(2 * LEAN, 64)
        .remembering(|settings, share_blocks, _| percent_of(share_blocks, settings, "evicted_percent")),
    variants: &["identifier", "state_machine"],
    ..EF_INFO
};

/// Who decides what happens to blocks that leave the read partition.
#[derive(Debug)]
enum Choice {
    Fixed(Policy),
    Adaptive(Box<Adaptive>),
}

/// One VM's cache under TICA.
#[derive(Debug)]
pub struct Tica {
    config: Config,
    choice: Choice,
    quota: Quota,
    partition: Partition,
    table: Table,
    /// Dirty blocks, and those of them whose second copy is in DRAM.
    dirty: u32,
    dirty_in_dram: u32,
    /// What may be copied to the read SSD beside whole blocks, in [`COPY_PARTS`].
    credit_parts: u64,
    mirrors: Mirrors,
}

impl Tica {
    /// A cache of `quota` that always follows one policy.
    pub fn fixed(settings: &Settings, quota: Quota, policy: Policy) -> Tica {
        Tica::new(settings, quota, Choice::Fixed(policy))
    }

    /// A cache of `quota` that chooses.
    pub fn adaptive(settings: &Settings, quota: Quota) -> Tica {
        Tica::new(settings, quota, Choice::Adaptive(Box::new(Adaptive::new(settings))))
    }

    fn new(settings: &Settings, quota: Quota, choice: Choice) -> Tica {
        let config = Config::new(settings);
        let mut tica = Tica {
            config,
            choice,
            quota,
            partition: Partition::new(0, config.write_percent, config.unit_parts),
            table: Table::new(),
            dirty: 0,
            dirty_in_dram: 0,
            credit_parts: 0,
            mirrors: Mirrors::default(),
        };
        tica.set_quota(quota);
        tica
    }

    fn set_quota(&mut self, quota: Quota) {
        self.quota = quota;
        // Without both SSDs nothing is buffered, so that reads have all of DRAM.
        let divided = if quota.ssd_blocks > 0 && quota.read_ssd_blocks > 0 { quota.dram_blocks } else { 0 };
        let next = Partition::new(divided, self.config.write_percent, self.config.unit_parts);
        self.partition = self.partition.kept_in(next);
        if let Choice::Adaptive(adaptive) = &mut self.choice {
            adaptive.set_dram(quota.dram_blocks);
        }
    }

    /// Whether writes can be kept on two devices.
    fn buffers_writes(&self) -> bool {
        self.partition.write_blocks() > 0
    }

    /// Blocks that the read partition may hold.
    #[inline]
    fn read_blocks(&self) -> u32 {
        self.quota.dram_blocks - self.partition.write_blocks()
    }

    #[inline]
    fn read<S: Sink>(&mut self, block: BlockNo, hint: PrefetchHint, sink: &mut S) {
        let known = self.table.find(hint, block);
        if let Some(id) = known
            && let Some((level, slot)) = self.nearest(id)
        {
            self.note_read(level.into(), self.table.list(id));
            self.use_copy(level, id);
            sink.effect(Effect::ReadLevel { level, slot });
            return;
        }
        self.note_read(choice::ReadSource::Disk, known.map_or(List::None, |id| self.table.list(id)));
        sink.effect(Effect::ReadBacking);
        if self.quota.dram_blocks == 0 {
            return;
        }
        // Known of a block without a copy is only that it was evicted. It leaves that queue before others enter it.
        let id = known.unwrap_or_else(|| self.table.insert(hint.hash, block));
        self.table.leave(id);
        self.make_room_for_read(sink);
        let slot = self.table.give(Level::Dram, id);
        self.table.enter(List::Read, id);
        sink.effect(Effect::Fill { level: Level::Dram, slot });
    }

    /// The copy that reads are served from: DRAM before the read SSD before the SSD.
    #[inline]
    fn nearest(&self, id: Id) -> Option<(Level, Slot)> {
        [Level::Dram, Level::ReadSsd, Level::Ssd]
            .into_iter()
            .find_map(|level| self.table.slot(level, id).map(|slot| (level, slot)))
    }

    /// A read was served from a level.
    #[inline]
    fn use_copy(&mut self, level: Level, id: Id) {
        if level == Level::Dram {
            // Writes wait for their copy in the order of their arrival, whoever reads them.
            if self.table.list(id) == List::Read {
                self.table.move_to_front(id);
            }
            return;
        }
        for level in [Level::ReadSsd, Level::Ssd] {
            if self.table.slot(level, id).is_some() {
                self.table.touch(level, id);
            }
        }
    }

    #[inline]
    fn note_read(&mut self, found: choice::ReadSource, list: List) {
        if let Choice::Adaptive(adaptive) = &mut self.choice {
            adaptive.chooser.note_read(found, list == List::Evicted);
        }
    }

    fn write<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        let Access { block, partial, .. } = access;
        let known = self.table.find(hint, block);
        if !self.buffers_writes() {
            known.into_iter().for_each(|id| self.write_around(id, sink));
            sink.effect(Effect::WriteBacking);
            return;
        }
        if partial {
            sink.effect(match known.and_then(|id| self.nearest(id)) {
                Some((level, slot)) => Effect::MergeLevel { level, slot },
                None => Effect::MergeBacking,
            });
        }
        let id = known.unwrap_or_else(|| self.table.insert(hint.hash, block));
        self.leave(id);
        for level in [Level::Dram, Level::ReadSsd] {
            if let Some(slot) = self.table.take(level, id) {
                sink.effect(Effect::Invalidate { level, slot });
            }
        }
        self.make_room_for_write(id, sink);
        let held = self.table.slot(Level::Ssd, id);
        if held.is_some() {
            self.table.touch(Level::Ssd, id);
        } else {
            self.make_room_on_ssd(id, sink);
        }
        let ssd_slot = held.unwrap_or_else(|| self.table.give(Level::Ssd, id));
        let dram_slot = self.table.give(Level::Dram, id);
        self.set_dirty(id, true);
        self.table.enter(List::Pending, id);
        self.dirty_in_dram += 1;
        sink.effect(Effect::WriteLevel { level: Level::Dram, slot: dram_slot, hit: false, dirty: false });
        sink.effect(Effect::WriteLevel {
            level: Level::Ssd,
            slot: ssd_slot,
            hit: held.is_some(),
            dirty: true,
        });
    }

    /// A known block is written to the disk alone. What the SSD has of it besides is written there first.
    fn write_around<S: Sink>(&mut self, id: Id, sink: &mut S) {
        if self.table.is_dirty(id) {
            self.give_up(id, sink);
        } else {
            self.invalidate(id, sink);
        }
    }

    /// Forgets a block and all its copies.
    fn invalidate<S: Sink>(&mut self, id: Id, sink: &mut S) {
        self.leave(id);
        self.set_dirty(id, false);
        for level in Level::ALL {
            if let Some(slot) = self.table.take(level, id) {
                sink.effect(Effect::Invalidate { level, slot });
            }
        }
        self.table.release_unknown(id);
    }

    /// Takes a block out of its list, and keeps count of what is dirty where.
    #[inline]
    fn leave(&mut self, id: Id) {
        let in_dram = self.table.list(id) == List::Pending && self.table.is_dirty(id);
        self.dirty_in_dram -= u32::from(in_dram);
        self.table.leave(id);
    }

    #[inline]
    fn set_dirty(&mut self, id: Id, dirty: bool) {
        let was_dirty = self.table.is_dirty(id);
        self.dirty = self.dirty - u32::from(was_dirty) + u32::from(dirty);
        if self.table.list(id) == List::Pending {
            self.dirty_in_dram = self.dirty_in_dram - u32::from(was_dirty) + u32::from(dirty);
        }
        self.table.set_dirty(id, dirty);
    }

    /// Adds what there is of second copies to the sums.
    #[inline]
    fn sum_mirrors(&mut self) {
        let missing = self.table.len(List::Missing);
        self.mirrors.in_dram += u64::from(self.dirty_in_dram);
        self.mirrors.missing += u64::from(missing);
        self.mirrors.in_read_ssd += u64::from(self.dirty - self.dirty_in_dram - missing);
    }

    /// Makes copies on the read SSD: first of blocks that have no second copy, at least one, then of those in the write
    /// partition.
    fn copy_some<S: Sink>(&mut self, sink: &mut S) {
        let (missing, pending) = (self.table.len(List::Missing), self.table.len(List::Pending));
        if missing == 0 && pending == 0 {
            // What was not used while there was nothing to do is no credit for later.
            self.credit_parts = 0;
            return;
        }
        self.credit_parts += self.config.copy_rate_parts;
        let mut blocks = self.credit_parts / COPY_PARTS;
        self.credit_parts %= COPY_PARTS;
        if missing > 0 {
            let copies = blocks.max(1).min(missing.into());
            (0..copies).for_each(|_| self.copy_missing(sink));
            blocks = blocks.saturating_sub(copies);
        }
        let copies = blocks.min(self.table.len(List::Pending).into());
        (0..copies).for_each(|_| self.copy_pending(sink));
    }
}

impl From<Level> for choice::ReadSource {
    fn from(level: Level) -> choice::ReadSource {
        if level == Level::Dram { choice::ReadSource::Dram } else { choice::ReadSource::Ssd }
    }
}

impl Prefetch for Tica {
    prefetch_by!(table);
}

impl Mirroring for Tica {
    fn mirrors(&self) -> Mirrors {
        Mirrors { missing_blocks: self.table.len(List::Missing), ..self.mirrors }
    }

    fn slots(&self, block: BlockNo) -> [Option<Slot>; Level::COUNT] {
        let known = self.table.find(PrefetchHint::new(block), block);
        Level::ALL.map(|level| known.and_then(|id| self.table.slot(level, id)))
    }
}

impl Lookahead for Tica {
    #[inline]
    fn access_prefetched<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        match access.op {
            Direction::Read => self.read(access.block, hint, sink),
            Direction::Write => self.write(access, hint, sink),
        }
    }
}

impl Scheme for Tica {
    #[inline]
    fn access<S: Sink>(&mut self, access: Access, sink: &mut S) {
        self.access_prefetched(access, PrefetchHint::new(access.block), sink);
    }

    #[inline]
    fn end_request<S: Sink>(&mut self, _now_ns: u64, sink: &mut S) {
        if let Choice::Adaptive(adaptive) = &mut self.choice {
            adaptive.chooser.end_request();
        }
        self.sum_mirrors();
        self.copy_some(sink);
    }

    fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        if let Some(id) = self.table.find(PrefetchHint::new(block), block) {
            self.invalidate(id, sink);
        }
    }

    fn forget(&mut self, level: Level, block: BlockNo) {
        let Some(id) = self.table.find(PrefetchHint::new(block), block) else { return };
        if self.table.take(level, id).is_none() {
            return;
        }
        match level {
            Level::Dram => self.leave(id),
            // The copies that are left are clean to the scheme: whoever lost the dirty one writes it to the disk.
            Level::Ssd => {
                self.set_dirty(id, false);
                if self.table.list(id) == List::Missing {
                    self.leave(id);
                }
            }
            Level::ReadSsd => {}
        }
        let has_mirror =
            [Level::Dram, Level::ReadSsd].iter().any(|&level| self.table.slot(level, id).is_some());
        if self.table.is_dirty(id) && !has_mirror {
            self.table.enter(List::Missing, id);
        }
        self.table.release_unknown(id);
    }

    fn cleaned(&mut self, block: BlockNo) {
        if let Some(id) = self.table.find(PrefetchHint::new(block), block) {
            self.set_dirty(id, false);
            if self.table.list(id) == List::Missing {
                self.leave(id);
            }
        }
    }

    fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        let hint = PrefetchHint::new(block);
        let known = self.table.find(hint, block);
        let is_full = self.table.used(Level::Ssd) >= self.quota.ssd_blocks;
        // Dirty blocks that could have no second copy are not taken over: the caller writes them back.
        let is_unwelcome = dirty && self.quota.read_ssd_blocks == 0;
        if is_full || is_unwelcome || known.is_some_and(|id| self.table.is_cached(id)) {
            return None;
        }
        let id = known.unwrap_or_else(|| self.table.insert(hint.hash, block));
        self.leave(id);
        self.set_dirty(id, dirty);
        if dirty {
            self.table.enter(List::Missing, id);
        }
        Some(self.table.give(Level::Ssd, id))
    }

    fn expect(&mut self, blocks: u32) {
        self.table.expect(blocks.min(self.quota.ssd_blocks));
    }

    fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        self.set_quota(quota);
        self.shrink_to_quota(sink);
    }

    fn quota(&self) -> Quota {
        self.quota
    }

    fn resident_blocks(&self, level: Level) -> u32 {
        self.table.used(level)
    }

    fn mirroring(&self) -> Option<&dyn Mirroring> {
        Some(self)
    }

    fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}
