//! W-TinyLFU: newcomers wait in a small LRU window; who leaves it takes the place of the main part's next victim only if
//! it was accessed more often, as a sketch remembers. The main part is a segmented LRU (Einziger, Friedman and Manes,
//! "TinyLFU: A Highly Efficient Cache Admission Policy", ACM TOS 13(4), 2017, section 4).
//!
//! It must not know what reads and writes ask for, nor how accesses are counted; see [`ssd_level`] and
//! [`sketch`](self::sketch).

mod sketch;

use lode_reuse::BlockIndex;
use lode_types::BlockNo;

use self::sketch::Sketch;
use crate::effect::Sink;
use crate::parts::queue_level::{QueueLevel, QueuePolicy};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::{self, Id, Newcomer, SsdLevel};
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::settings::{SettingInfo, Settings};
use crate::tracked::Footprint;

/// Settings beside `write_policy`.
pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo::integer("window_percent", "1", 1, 100)
        .about("share of the cache that the window has, at least one block")
        .source("Einziger et al.; libcachesim: window-size 0.01"),
    SettingInfo::integer("protected_percent", "80", 0, 100)
        .about("share of the main part for blocks that were hit there")
        .source("Einziger et al."),
    SettingInfo::integer("sample_factor", "10", 1, 1000)
        .about("accesses for each block of the cache after which all counts are halved")
        .source("our choice, of the order that Einziger et al. use"),
    SettingInfo::choice("doorkeeper", "off", &["off", "on"])
        .about(
            "on: a block's first access in a sample is kept in a Bloom filter, and only further ones are \
             counted",
        )
        .source("Einziger et al."),
];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "w-tinylfu",
    about: "one SSD level with a small window for newcomers and a main part that lets in only who was \
            accessed more often than who would leave",
    source: "Einziger, Friedman and Manes, ACM TOS 13(4), 2017",
    tables: &[ssd_level::SETTINGS, SETTINGS],
    build: |settings, _, quota| AnyScheme::WTinyLfu(WTinyLfu::new(settings, quota)),
    footprint: Footprint::new(LEAN, 80),
    ..SchemeInfo::PLAIN
};

/// One VM's SSD level under W-TinyLFU.
pub type WTinyLfu = SsdLevel<QueueLevel<Contest, 3>>;

/// Newcomers.
const WINDOW: usize = 0;
/// The main part: blocks that were not hit there of late, and those that were.
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

type Segments = Queues<3>;

/// Who may stay.
#[derive(Debug)]
pub struct Contest {
    window_percent: u64,
    protected_percent: u64,
    sample_factor: u64,
    sketch: Sketch,
}

impl Contest {
    fn window_blocks(&self, segments: &Segments) -> u32 {
        (segments.percent(self.window_percent) as u32).max(1)
    }

    fn protected_blocks(&self, segments: &Segments) -> u32 {
        let main = u64::from(segments.capacity().saturating_sub(self.window_blocks(segments)));
        (main * self.protected_percent / 100) as u32
    }

    #[inline]
    fn frequency(&self, segments: &Segments, id: Id) -> u64 {
        self.sketch.frequency(BlockIndex::hash(segments.block(id)))
    }

    /// Protected blocks beyond their share are on probation again.
    #[inline]
    fn bound_protected(&self, segments: &mut Segments) {
        while segments.len(PROTECTED) > self.protected_blocks(segments) {
            let Some(oldest) = segments.oldest(PROTECTED) else { return };
            segments.move_to_front(PROBATION, oldest);
        }
    }

    /// Takes the oldest of the window out of it, into the main part if there is room or if it wins one.
    fn leave_window<S: Sink>(&self, segments: &mut Segments, sink: &mut S) {
        let Some(candidate) = segments.oldest(WINDOW) else { return };
        if !segments.is_full() {
            segments.move_to_front(PROBATION, candidate);
        } else {
            match main_victim(segments) {
                Some(victim) if self.frequency(segments, candidate) > self.frequency(segments, victim) => {
                    segments.evict(victim, sink);
                    segments.move_to_front(PROBATION, candidate);
                }
                _ => segments.evict(candidate, sink),
            }
        }
        self.fetch_next(segments);
    }

    /// Asks for what the next contest looks at.
    #[inline]
    fn fetch_next(&self, segments: &Segments) {
        for queue in [WINDOW, PROBATION] {
            segments.fetch_behind(queue);
            if let Some(oldest) = segments.oldest(queue) {
                self.sketch.prefetch(BlockIndex::hash(segments.block(oldest)));
            }
        }
    }

    /// The queue of a block that comes in without a contest.
    fn queue_of_newcomers(&self, segments: &Segments) -> usize {
        if segments.len(WINDOW) < self.window_blocks(segments) { WINDOW } else { PROBATION }
    }
}

/// The block of the main part that leaves next.
fn main_victim(segments: &Segments) -> Option<Id> {
    segments.oldest(PROBATION).or_else(|| segments.oldest(PROTECTED))
}

impl QueuePolicy<3> for Contest {
    fn new(settings: &Settings, _: u32) -> Contest {
        Contest {
            window_percent: settings.integer("window_percent"),
            protected_percent: settings.integer("protected_percent"),
            sample_factor: settings.integer("sample_factor"),
            sketch: Sketch::new(settings.text("doorkeeper") == "on"),
        }
    }

    #[inline]
    fn prefetch_by_hash(&self, hash: u32) {
        self.sketch.prefetch(hash);
    }

    #[inline(always)]
    fn note(&mut self, segments: &Segments, hash: u32) {
        self.sketch.count(hash, u64::from(segments.capacity()) * self.sample_factor);
    }

    #[inline(always)]
    fn touch(&mut self, segments: &mut Segments, id: Id) {
        let queue = segments.queue(id);
        if queue == PROBATION {
            segments.move_to_front(PROTECTED, id);
            self.bound_protected(segments);
        } else {
            segments.move_to_front(queue, id);
        }
    }

    #[inline]
    fn admit<S: Sink>(&mut self, segments: &mut Segments, new: Newcomer, sink: &mut S) -> Option<Id> {
        self.sketch.provide(u64::from(segments.cached()) + 1);
        if segments.len(WINDOW) >= self.window_blocks(segments) {
            self.leave_window(segments, sink);
        } else if segments.is_full() {
            // The cache shrank, and the main part has more than its share.
            self.evict(segments, sink);
        }
        Some(segments.enter(WINDOW, new))
    }

    fn restore(&mut self, segments: &mut Segments, hash: u32, block: BlockNo) -> Id {
        self.sketch.provide(u64::from(segments.cached()) + 1);
        segments.insert(self.queue_of_newcomers(segments), hash, block)
    }

    fn resized(&mut self, segments: &mut Segments) {
        while segments.len(WINDOW) > self.window_blocks(segments) {
            let Some(oldest) = segments.oldest(WINDOW) else { break };
            segments.move_to_front(PROBATION, oldest);
        }
        self.bound_protected(segments);
    }

    /// From the main part, as long as it has a block.
    fn evict<S: Sink>(&mut self, segments: &mut Segments, sink: &mut S) {
        if let Some(victim) = main_victim(segments).or_else(|| segments.oldest(WINDOW)) {
            segments.evict(victim, sink);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.sketch.memory_bytes()
    }
}
