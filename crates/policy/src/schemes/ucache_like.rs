//! uCache, as far as it is known (its abstract, and what TICA section 5 says of it): DRAM filters what is worth a place on the
//! SSD, and the SSD holds that and the writes, under LRU.
//!
//! It must not know device mirrors: TICA's comparison puts the SSD on two devices, which is a matter of counting them.

use lode_types::{Access, BlockNo, Direction, Level};

use crate::effect::{Effect, Sink, Slot};
use crate::parts::growth;
use crate::parts::queue_level::{QueueLevel, QueuePolicy};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::{Id, Newcomer, Replacement};
use crate::parts::two_levels::TwoLevels;
use crate::prefetch::{Lookahead, Prefetch, PrefetchHint};
use crate::quota::Quota;
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::scheme::Scheme;
use crate::settings::{SettingInfo, Settings};
use crate::tracked::Footprint;

/// How a block comes to the SSD from DRAM.
const ARRIVAL: &str = "arrival";
const USE: &str = "use";
/// What becomes of a block that the SSD serves.
const STAY: &str = "stay";
const COPY: &str = "copy";

pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo::integer("worth_hits", "1", 0, u8::MAX as u64)
        .about("hits of a block while it was in DRAM that make it worth a place on the SSD when it leaves")
        .source("ours; uCache's rule is not known to us"),
    SettingInfo::choice("ssd_order", ARRIVAL, &[ARRIVAL, USE])
        .about(
            "arrival: a block that leaves DRAM is the newest on the SSD; use: it is as old there as its last use, so that both levels \
             together are one LRU",
        )
        .source("ours"),
    SettingInfo::choice("ssd_hits", STAY, &[STAY, COPY])
        .about("stay: what the SSD serves is there alone; copy: it is copied to DRAM, too")
        .source("ours"),
];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "ucache-like",
    about: "DRAM that filters what is worth a place on the SSD; writes go to the SSD",
    source: "uCache: its abstract and TICA's text; the rest recalled",
    tables: &[SETTINGS],
    build: |settings, _, quota| AnyScheme::UcacheLike(Box::new(UcacheLike::new(settings, quota))),
    footprint: Footprint::new(2 * LEAN, 96).remembering(|_, share_blocks, _| share_blocks),
    levels: &[Level::Dram, Level::Ssd],
    ..SchemeInfo::PLAIN
};

/// DRAM's only queue, by recency. A block's mark is the number of its hits.
const LRU: usize = 0;

/// LRU that counts hits.
#[derive(Debug)]
struct CountedLru;

impl QueuePolicy<1> for CountedLru {
    fn new(_: &Settings, _: u32) -> CountedLru {
        CountedLru
    }

    #[inline(always)]
    fn touch(&mut self, queue: &mut Queues<1>, id: Id) {
        queue.set_mark(id, queue.mark(id).saturating_add(1));
        queue.move_to_front(LRU, id);
    }
}

/// One VM's DRAM filter over an SSD that is by recency, too.
#[derive(Debug)]
pub struct UcacheLike {
    level: TwoLevels<QueueLevel<CountedLru, 1>>,
    /// When the block of a record of DRAM was used last, by the SSD's clock.
    used_at: Vec<u32>,
    rule: Rule,
}

/// What comes from DRAM to the SSD, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    /// Hits in DRAM that make a block worth it.
    worth_hits: u8,
    /// As old as its last use, and not as the newest.
    by_use: bool,
    /// What the SSD serves is copied to DRAM.
    copies_hits: bool,
}

impl UcacheLike {
    /// A cache with this share.
    pub fn new(settings: &Settings, quota: Quota) -> UcacheLike {
        let rule = Rule {
            worth_hits: settings.integer("worth_hits") as u8,
            by_use: settings.text("ssd_order") == USE,
            copies_hits: settings.text("ssd_hits") == COPY,
        };
        UcacheLike::with_rule(settings, quota, rule)
    }

    /// A cache where so many hits make a block worth a place on the SSD, which comes there as the newest.
    pub(crate) fn with_worth(settings: &Settings, quota: Quota, worth_hits: u8) -> UcacheLike {
        UcacheLike::with_rule(settings, quota, Rule { worth_hits, by_use: false, copies_hits: false })
    }

    /// A cache both levels of which together are one LRU.
    pub(crate) fn as_one_lru(settings: &Settings, quota: Quota) -> UcacheLike {
        UcacheLike::with_rule(settings, quota, Rule { worth_hits: 0, by_use: true, copies_hits: false })
    }

    fn with_rule(settings: &Settings, quota: Quota, rule: Rule) -> UcacheLike {
        let lru = QueueLevel::of(Level::Dram, settings, quota.dram_blocks);
        UcacheLike { level: TwoLevels::new(lru, quota.ssd_blocks, true), used_at: Vec::new(), rule }
    }

    /// Sets `worth_hits` anew.
    pub(crate) fn set_worth_hits(&mut self, hits: u8) {
        self.rule.worth_hits = hits;
    }

    /// Where a block is in a level, and whether the copy is newer than the disk.
    pub(crate) fn copy(&self, level: Level, block: BlockNo) -> Option<(Slot, bool)> {
        let hint = PrefetchHint::new(block);
        match level {
            Level::Dram => self.level.dram.lookup(hint, block).1.map(|(_, slot)| (slot, false)),
            Level::Ssd => self.level.ssd.copy(hint.hash, block),
            Level::ReadSsd => None,
        }
    }

    /// Every slot of a level that holds a block, in any order.
    pub(crate) fn each_slot(&self, level: Level, note: &mut dyn FnMut(Slot)) {
        match level {
            Level::Dram => self.level.dram.queues.slots().for_each(note),
            Level::Ssd => self.level.ssd.slots().for_each(note),
            Level::ReadSsd => {}
        }
    }

    fn read<S: Sink>(&mut self, block: BlockNo, hint: PrefetchHint, sink: &mut S) {
        self.level.ssd.count_access();
        if let (_, Some((id, slot))) = self.level.dram.lookup(hint, block) {
            self.level.dram.touch(block, id);
            self.used_at[id as usize] = self.level.ssd.now();
            sink.effect(Effect::ReadLevel { level: Level::Dram, slot });
            return;
        }
        if let Some((id, slot)) = self.level.ssd.find(hint.hash, block) {
            self.level.ssd.touch(id);
            sink.effect(Effect::ReadLevel { level: Level::Ssd, slot });
            if !self.rule.copies_hits {
                return;
            }
        } else {
            sink.effect(Effect::ReadBacking);
            if self.rule.worth_hits == 0 && self.level.dram.capacity() == 0 {
                return self.fill_ssd(block, hint, sink);
            }
        }
        self.fill(block, hint, sink);
    }

    /// The block that was read comes to the SSD, if there is room at all: a DRAM of no blocks gives it up at once.
    fn fill_ssd<S: Sink>(&mut self, block: BlockNo, hint: PrefetchHint, sink: &mut S) {
        if self.level.ssd.capacity() > 0 {
            let (_, slot) = self.level.ssd.put(hint.hash, block, sink);
            sink.effect(Effect::Fill { level: Level::Ssd, slot });
        }
    }

    /// The block that was read comes to DRAM, if there is room at all.
    fn fill<S: Sink>(&mut self, block: BlockNo, hint: PrefetchHint, sink: &mut S) {
        self.filter(sink);
        let new = Newcomer { hash: hint.hash, block, ghost: None };
        if let Some(id) = self.level.fill_dram(new, sink) {
            growth::extend_to(&mut self.used_at, id, 0);
            self.used_at[id as usize] = self.level.ssd.now();
        }
    }

    /// If a block has to leave DRAM now, it goes to the SSD if it is worth that.
    fn filter<S: Sink>(&mut self, sink: &mut S) {
        let queue = &self.level.dram.queues;
        let Some(oldest) = queue.oldest(LRU).filter(|_| queue.is_full()) else { return };
        let Some(from) = queue.slot(oldest) else { return };
        let (block, hits, used_at) = (queue.block(oldest), queue.mark(oldest), self.used_at[oldest as usize]);
        let hash = PrefetchHint::new(block).hash;
        let ssd = &mut self.level.ssd;
        if let Some((id, _)) = ssd.find(hash, block) {
            // It was used in DRAM since the SSD served it.
            return if self.rule.by_use { ssd.touch_as_of(used_at, id) } else { ssd.touch(id) };
        }
        let as_of = self.rule.by_use.then_some(used_at);
        let has_place = ssd.capacity() > 0 && !as_of.is_some_and(|at| ssd.is_oldest(at));
        if has_place && hits >= self.rule.worth_hits {
            self.level.copy_to_ssd((hash, block), from, as_of, sink);
        }
    }

    fn write<S: Sink>(&mut self, block: BlockNo, partial: bool, hint: PrefetchHint, sink: &mut S) {
        let ssd = &mut self.level.ssd;
        ssd.count_access();
        let in_ssd = ssd.find(hint.hash, block);
        let target = match in_ssd {
            None if ssd.capacity() > 0 => Some(ssd.put(hint.hash, block, sink)),
            known => known,
        };
        if let Some((id, _)) = target {
            ssd.touch(id);
            ssd.set_dirty(id, true);
            if partial {
                sink.effect(match (self.level.dram.lookup(hint, block).1, in_ssd) {
                    (Some((_, slot)), _) => Effect::MergeLevel { level: Level::Dram, slot },
                    (None, Some((_, slot))) => Effect::MergeLevel { level: Level::Ssd, slot },
                    (None, None) => Effect::MergeBacking,
                });
            }
        }
        self.level.invalidate_in_dram(hint, block, sink);
        sink.effect(match target {
            Some((_, slot)) => {
                Effect::WriteLevel { level: Level::Ssd, slot, hit: in_ssd.is_some(), dirty: true }
            }
            None => Effect::WriteBacking,
        });
    }
}

impl Prefetch for UcacheLike {
    prefetch_by!(level);
}

impl Lookahead for UcacheLike {
    #[inline]
    fn access_prefetched<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        match access.op {
            Direction::Read => self.read(access.block, hint, sink),
            Direction::Write => self.write(access.block, access.partial, hint, sink),
        }
    }
}

impl Scheme for UcacheLike {
    forward_to_level!();

    fn memory_bytes(&self) -> usize {
        self.level.memory_bytes() + self.used_at.capacity() * size_of::<u32>()
    }
}
