//! The second level of ZFS's cache, as its documentation and common knowledge have it: an ARC in DRAM, and on the SSD a FIFO
//! of clean copies that is fed, at a limited rate, with what will leave the ARC next.
//!
//! It must not know how the ARC divides itself; see [`arc`](super::arc).

use lode_types::{Access, AccessOp, BlockNo, Level};

use crate::effect::{CopySource, Effect, Sink, Slot};
use crate::interval::Interval;
use crate::quota::Quota;
use crate::scheme::{Hint, Scheme};
use crate::schemes::arc::{Division, T1, T2};
use crate::schemes::queue_level::QueueLevel;
use crate::schemes::ssd_level::{Id, Replacement};
use crate::schemes::ssd_queue::SsdQueue;
use crate::settings::{SettingInfo, SettingKind, Settings};
use crate::sizer;

pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo {
        key: "trigger",
        default: "requests",
        kind: SettingKind::Choice(&["requests", "time"]),
        about: "whether feeding counts requests of the VM or seconds",
        source: "ours: ZFS counts seconds; with requests no decision depends on the clock",
    },
    SettingInfo {
        key: "feed_interval",
        default: "1000",
        kind: SettingKind::Requests { min: 1, max: 1_000_000_000 },
        about: "requests from feed to feed",
        source: "ours",
    },
    SettingInfo {
        key: "feed_interval_s",
        default: "1",
        kind: SettingKind::Number { min: 0.001, max: 86_400.0 },
        about: "seconds from feed to feed, with trigger=time",
        source: "ZFS: l2arc_feed_secs, 1",
    },
    SettingInfo {
        key: "feed_blocks",
        default: "512",
        kind: SettingKind::Integer { min: 1, max: 1 << 20 },
        about: "most blocks that one feed copies to the SSD",
        source: "ZFS: l2arc_write_max, 8 MiB a second, at 4000 requests a second",
    },
    SettingInfo {
        key: "headroom",
        default: "2",
        kind: SettingKind::Integer { min: 1, max: 1 << 10 },
        about: "how many times as many blocks a feed looks at, from the end of each list of the ARC",
        source: "ZFS: l2arc_headroom, 2",
    },
];

pub(crate) static TABLES: &[&[SettingInfo]] = &[SETTINGS];

/// One VM's ARC in DRAM over a fed SSD.
#[derive(Debug)]
pub struct L2arcLike {
    dram: QueueLevel<Division, 4>,
    /// In order of arrival.
    ssd: SsdQueue,
    feed: Interval,
    feed_blocks: u32,
    headroom: u32,
}

impl L2arcLike {
    /// A cache with this share.
    pub fn new(settings: &Settings, quota: Quota) -> L2arcLike {
        L2arcLike {
            dram: QueueLevel::of(Level::Dram, settings, quota.dram_blocks),
            ssd: SsdQueue::new(quota.ssd_blocks),
            feed: sizer::interval(settings, "feed_interval", "feed_interval_s"),
            feed_blocks: settings.integer("feed_blocks") as u32,
            headroom: settings.integer("headroom") as u32,
        }
    }

    /// What the ARC knows of a block, and where DRAM holds it.
    #[inline]
    fn in_dram(&self, hint: Hint, block: BlockNo) -> (Option<Id>, Option<(Id, Slot)>) {
        let known = self.dram.find(hint, block);
        (known, known.and_then(|id| self.dram.slot(id).map(|slot| (id, slot))))
    }

    fn read<S: Sink>(&mut self, block: BlockNo, hint: Hint, sink: &mut S) {
        let (known, cached) = self.in_dram(hint, block);
        if let Some((id, slot)) = cached {
            self.dram.touch(block, id);
            sink.effect(Effect::ReadLevel { level: Level::Dram, slot });
            return;
        }
        sink.effect(match self.ssd.find(hint.hash, block) {
            Some((_, slot)) => Effect::ReadLevel { level: Level::Ssd, slot },
            None => Effect::ReadBacking,
        });
        if let Some((_, slot)) = self.dram.admit(hint.hash, block, known, sink) {
            sink.effect(Effect::Fill { level: Level::Dram, slot });
        }
    }

    /// Forgets the copies of a block.
    fn invalidate<S: Sink>(&mut self, block: BlockNo, hint: Hint, sink: &mut S) {
        if let (_, Some((id, slot))) = self.in_dram(hint, block) {
            self.dram.remove(block, id);
            sink.effect(Effect::Invalidate { level: Level::Dram, slot });
        }
        self.ssd.invalidate(hint.hash, block, sink);
    }

    /// Copies what will leave the ARC next: first from the blocks seen more often, then from those seen once.
    #[inline(never)]
    fn feed<S: Sink>(&mut self, sink: &mut S) {
        let mut left = self.feed_blocks.min(self.ssd.capacity());
        for list in [T2, T1] {
            let mut at = self.dram.queues().oldest(list);
            for _ in 0..u64::from(self.headroom) * u64::from(self.feed_blocks) {
                let Some(id) = at.filter(|_| left > 0) else { break };
                let block = self.dram.queues().block(id);
                at = self.dram.queues().newer(id);
                let hash = Hint::new(block).hash;
                if let Some(from) = self.dram.slot(id)
                    && self.ssd.find(hash, block).is_none()
                {
                    let (_, slot) = self.ssd.put(hash, block, sink);
                    let from = CopySource::Level { level: Level::Dram, slot: from };
                    sink.effect(Effect::Copy { to: Level::Ssd, slot, block, from });
                    left -= 1;
                }
            }
        }
    }
}

impl Scheme for L2arcLike {
    #[inline]
    fn access_foreseen<S: Sink>(&mut self, access: Access, hint: Hint, sink: &mut S) {
        match access.op {
            AccessOp::Read => self.read(access.block, hint, sink),
            AccessOp::Write => {
                self.invalidate(access.block, hint, sink);
                sink.effect(Effect::WriteBacking);
            }
        }
    }

    #[inline]
    fn end_request<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        if self.feed.ends_with(now_ns) {
            self.feed(sink);
        }
    }

    fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        let hint = Hint::new(block);
        self.invalidate(block, hint, sink);
        if let Some(ghost) = self.dram.find(hint, block) {
            self.dram.remove(block, ghost);
        }
    }

    fn forget(&mut self, level: Level, block: BlockNo) {
        let hint = Hint::new(block);
        if level == Level::Dram {
            if let (_, Some((id, _))) = self.in_dram(hint, block) {
                self.dram.remove(block, id);
            }
        } else if level == Level::Ssd {
            self.ssd.forget(hint.hash, block);
        }
    }

    /// Nothing is ever dirty.
    fn cleaned(&mut self, _: BlockNo) {}

    fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        if dirty {
            return None;
        }
        self.ssd.restore(Hint::new(block).hash, block, false)
    }

    fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        self.dram.resize(quota.dram_blocks, sink);
        self.ssd.resize(quota.ssd_blocks, sink);
    }

    fn quota(&self) -> Quota {
        Quota::new(self.dram.capacity(), self.ssd.capacity())
    }

    fn resident_blocks(&self, level: Level) -> u32 {
        match level {
            Level::Dram => self.dram.cached(),
            Level::Ssd => self.ssd.cached(),
            Level::ReadSsd => 0,
        }
    }

    #[inline]
    fn announce(&self, block: BlockNo) -> Hint {
        self.ssd.announce(block);
        self.dram.announce(block)
    }

    #[inline]
    fn locate<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut Hint)>) {
        self.dram.locate(self.ssd.locate_too(blocks));
    }

    #[inline]
    fn follow(&self, blocks: impl Iterator<Item = (BlockNo, Hint)>) {
        self.dram.follow(blocks);
    }

    fn memory_bytes(&self) -> usize {
        self.dram.memory_bytes() + self.ssd.memory_bytes()
    }
}
