//! The second level of ZFS's cache, as its documentation and common knowledge have it: an ARC in DRAM, and on the SSD a FIFO
//! of clean copies that is fed, at a limited rate, with what will leave the ARC next.
//!
//! It must not know how the ARC divides itself; see [`arc`](crate::schemes::arc).

use lode_types::{Access, BlockNo, Direction, Level};

use crate::effect::{Effect, Sink, Slot};
use crate::interval::Interval;
use crate::parts::queue_level::QueueLevel;
use crate::parts::ssd_level::{Id, Newcomer, Replacement};
use crate::parts::two_levels::TwoLevels;
use crate::prefetch::{Lookahead, Prefetch, PrefetchHint};
use crate::quota::Quota;
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::scheme::Scheme;
use crate::schemes::arc::{Division, T1, T2};
use crate::settings::{SettingInfo, Settings};
use crate::sizer;
use crate::tracked::Footprint;

pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo::choice("trigger", "requests", &["requests", "time"])
        .about("whether feeding counts requests of the VM or seconds")
        .source("ours: ZFS counts seconds; with requests no decision depends on the clock"),
    SettingInfo::scaled("feed_interval", "1000", 1, 1_000_000_000)
        .about("requests from feed to feed")
        .source("ours"),
    SettingInfo::number("feed_interval_s", "1", 0.001, 86_400.0)
        .about("seconds from feed to feed, with trigger=time")
        .source("ZFS: l2arc_feed_secs, 1"),
    SettingInfo::scaled("feed_blocks", "512", 1, 1 << 20)
        .about("most blocks that one feed copies to the SSD")
        .source("ZFS: l2arc_write_max, 8 MiB a second, at 4000 requests a second"),
    SettingInfo::integer("headroom", "2", 1, 1 << 10)
        .about("how many times as many blocks a feed looks at, from the end of each list of the ARC")
        .source("ZFS: l2arc_headroom, 2"),
];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "l2arc-like",
    about: "an ARC in DRAM, and an SSD in order of arrival that is fed with what will leave the ARC next; \
            writes go to the disk",
    source: "ZFS's L2ARC, recalled",
    tables: &[SETTINGS],
    build: |settings, _, quota| AnyScheme::L2arcLike(Box::new(L2arcLike::new(settings, quota))),
    footprint: Footprint::new(2 * LEAN, 96).remembering(|_, share_blocks, _| share_blocks),
    levels: &[Level::Dram, Level::Ssd],
    // What feeds an SSD from DRAM alone caches nothing without.
    least: Quota::new(1, 0),
    ..SchemeInfo::PLAIN
};

/// How many blocks the second look of a feed is ahead.
const LOOK_AHEAD: usize = 8;

type Levels = TwoLevels<QueueLevel<Division, 4>>;

/// One VM's ARC in DRAM over a fed SSD, which is in order of arrival.
#[derive(Debug)]
pub struct L2arcLike {
    level: Levels,
    feed: Interval,
    feed_blocks: u32,
    headroom: u32,
}

impl L2arcLike {
    /// A cache with this share.
    pub fn new(settings: &Settings, quota: Quota) -> L2arcLike {
        let arc = QueueLevel::of(Level::Dram, settings, quota.dram_blocks);
        L2arcLike {
            level: TwoLevels::new(arc, quota.ssd_blocks, false),
            feed: sizer::interval(settings, "feed_interval", "feed_interval_s"),
            feed_blocks: settings.integer("feed_blocks") as u32,
            headroom: settings.integer("headroom") as u32,
        }
    }

    fn read<S: Sink>(&mut self, block: BlockNo, hint: PrefetchHint, sink: &mut S) {
        let (ghost, cached) = self.level.dram.lookup(hint, block);
        if let Some((id, slot)) = cached {
            self.level.dram.touch(block, id);
            sink.effect(Effect::ReadLevel { level: Level::Dram, slot });
            return;
        }
        sink.effect(match self.level.ssd.find(hint.hash, block) {
            Some((_, slot)) => Effect::ReadLevel { level: Level::Ssd, slot },
            None => Effect::ReadBacking,
        });
        self.level.fill_dram(Newcomer { hash: hint.hash, block, ghost }, sink);
    }

    /// Copies what will leave the ARC next: first from the blocks seen more often, then from those seen once. Neighbours in a
    /// list are far apart in memory, so that a second look is ahead of the first and asks for what that will need.
    #[inline(never)]
    fn feed<S: Sink>(&mut self, sink: &mut S) {
        let levels = &mut self.level;
        let mut left = self.feed_blocks.min(levels.ssd.capacity());
        for list in [T2, T1] {
            let mut at = levels.dram.queues.oldest(list);
            let mut ahead = (0..LOOK_AHEAD).fold(at, |ahead, _| fetch(levels, ahead));
            for _ in 0..u64::from(self.headroom) * u64::from(self.feed_blocks) {
                let Some(id) = at.filter(|_| left > 0) else { break };
                let block = levels.dram.queues.block(id);
                at = levels.dram.queues.newer(id);
                ahead = fetch(levels, ahead);
                let hash = PrefetchHint::new(block).hash;
                if let Some(from) = levels.dram.slot(id)
                    && levels.ssd.find(hash, block).is_none()
                {
                    levels.copy_to_ssd((hash, block), from, None, sink);
                    left -= 1;
                }
            }
        }
    }
}

/// Fetches what the SSD's index says of a block of the ARC, and the next record, which it gives.
#[inline]
fn fetch(levels: &Levels, at: Option<Id>) -> Option<Id> {
    let id = at?;
    levels.ssd.prefetch_index(PrefetchHint::new(levels.dram.queues.block(id)).hash);
    levels.dram.queues.newer(id).inspect(|&newer| levels.dram.queues.fetch_record(newer))
}

impl Prefetch for L2arcLike {
    prefetch_by!(level);
}

impl Lookahead for L2arcLike {
    #[inline]
    fn access_prefetched<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        match access.op {
            Direction::Read => self.read(access.block, hint, sink),
            Direction::Write => {
                self.level.invalidate(hint, access.block, sink);
                sink.effect(Effect::WriteBacking);
            }
        }
    }
}

impl Scheme for L2arcLike {
    #[inline]
    fn end_request<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        if self.feed.ends_with(now_ns) {
            self.feed(sink);
        }
    }

    forward_to_level!(memory);
}
