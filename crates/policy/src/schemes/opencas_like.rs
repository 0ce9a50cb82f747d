//! Open CAS, as its documentation describes it and as it is recalled where that is silent: recency lists of clean and of
//! dirty blocks, of which only clean ones give way; dirty ones are written back when they were not written for long (ALRU);
//! and a block is admitted when it comes for the n-th time (NHIT).
//!
//! It must not know what reads and writes ask for, see [`ssd_level`](crate::parts::ssd_level); nor streams, see
//! [`cut_off`](crate::parts::cut_off).

use crate::effect::{Effect, Sink};
use crate::interval::{Clock, Interval};
use crate::needs::Adjacency;
use crate::parts::cut_off::{Cleaner, CutOff, When};
use crate::parts::growth;
use crate::parts::queue_level::{QueueLevel, QueuePolicy};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::{Id, Newcomer, SsdLevel};
use crate::parts::streams::Streams;
use crate::quota::Quota;
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::settings::{SettingInfo, Settings};
use crate::sizer;
use crate::tracked::Footprint;

pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo::choice("write_policy", "wt", &["wt", "wb", "wa", "ro", "wbwo", "pt"])
        .about(
            "wt: write-through; wb: write-back; wa: write-around, a cached copy is updated; ro: writes \
             invalidate (Open CAS: wi); wbwo: write-back, reads never allocate (Open CAS: wo); pt: nothing \
             is cached",
        )
        .source("Open CAS: its cache modes, wt (recalled)"),
    SettingInfo::choice("promotion", "always", &["always", "nhit"])
        .about("always: what is missed is admitted; nhit: when it comes for the n-th time")
        .source("Open CAS: always"),
    SettingInfo::integer("nhit_threshold", "3", 2, u8::MAX as u64)
        .about("with nhit, the access of a block that admits it")
        .source("Open CAS: 3"),
    SettingInfo::integer("nhit_trigger_percent", "80", 0, 100)
        .about("with nhit, everything is admitted while less of the level is in use")
        .source("Open CAS: 80"),
    SettingInfo::choice("cleaning", "alru", &["alru", "nop"])
        .about(
            "alru: dirty blocks that were not written for long are written back; nop: only when no clean \
             one is left",
        )
        .source("Open CAS: ALRU"),
    SettingInfo::choice("trigger", "requests", &["requests", "time"])
        .about("whether cleaning counts requests of the VM or seconds")
        .source("ours: Open CAS counts seconds; with requests no decision depends on the clock"),
    SettingInfo::scaled("wake_up_requests", "1000", 1, 1_000_000_000)
        .about("requests from one look for what to clean to the next")
        .source("ours"),
    SettingInfo::number("wake_up_s", "20", 0.0, 3600.0)
        .about("seconds from one look for what to clean to the next, with trigger=time")
        .source("Open CAS: 20"),
    SettingInfo::scaled("staleness_requests", "60000", 0, u32::MAX as u64)
        .about("requests after which a block that was not written is cleaned")
        .source("ours: Open CAS's 120 s at 500 requests a second"),
    SettingInfo::integer("staleness_s", "120", 1, 3600)
        .about("seconds after which a block that was not written is cleaned, with trigger=time")
        .source("Open CAS: 120"),
    SettingInfo::scaled("flush_max_blocks", "100", 1, 10_000)
        .about("most blocks that are cleaned at a time")
        .source("Open CAS: 100"),
    SettingInfo::integer("dirty_ratio_percent", "100", 0, 100)
        .about("per cent of the level above which dirty blocks are cleaned, stale or not")
        .source("Open CAS: 100"),
    SettingInfo::choice("seq_policy", "full", &["full", "always", "never"])
        .about("when long sequential streams pass by: while the level is full, always, never")
        .source("Open CAS: full"),
    SettingInfo::integer("seq_threshold_blocks", "256", 1, 1 << 40)
        .about("blocks of a stream with which it begins to pass by")
        .source("Open CAS: 1024 KiB"),
    SettingInfo::integer("seq_streams", "64", 1, 256)
        .about("streams that are followed at once, of reads and of writes")
        .source("ours; Open CAS's number is not known to us"),
];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "opencas-like",
    about: "one SSD level under LRU that cleans what was not written for long, admits what comes several \
            times, and lets sequential streams pass by",
    source: "Open CAS, its documentation; recalled where that is silent",
    tables: &[SETTINGS],
    build: |settings, _, quota| AnyScheme::OpencasLike(Box::new(OpencasLike::new(settings, quota))),
    footprint: Footprint::new(3 * LEAN, 64).remembering(|_, share_blocks, _| share_blocks),
    adjacency: Some(Adjacency { key: "seq_policy", off: "never", what: "sequential streams" }),
    ..SchemeInfo::PLAIN
};

/// Dirty blocks that are cleaned when a newcomer finds no clean one to replace.
const CLEANED_IN_NEED: u32 = 32;

/// Blocks outside whose accesses are counted, for each block of the level.
const COUNTED_PER_BLOCK: u64 = 2;

/// One VM's SSD level under Open CAS.
pub type OpencasLike = CutOff<QueueLevel<CleanAndDirty, 3>>;

impl OpencasLike {
    /// A cache of `quota.ssd_blocks`; the scheme uses no DRAM.
    pub fn new(settings: &Settings, quota: Quota) -> OpencasLike {
        let when = match settings.text("seq_policy") {
            "always" => When::Always,
            "never" => When::Never,
            _ => When::Full,
        };
        let streams = Streams::new(settings.integer("seq_streams") as usize, true);
        CutOff::over(SsdLevel::new(settings, quota), streams, when, settings.integer("seq_threshold_blocks"))
    }
}

/// Clean blocks, by recency.
const CLEAN: usize = 0;
/// Dirty blocks, by their last writes.
const DIRTY: usize = 1;
/// Blocks outside whose accesses are counted, by the first of them. A block's mark is their number.
const COUNTED: usize = 2;

/// Who is admitted, and what is cleaned when.
#[derive(Debug)]
pub struct CleanAndDirty {
    /// The access that admits a block; 1: the first.
    admit_with: u8,
    trigger_percent: u64,
    cleans: bool,
    clock: Clock,
    wake_up: Interval,
    /// In the clock's unit.
    staleness: u32,
    most_at_once: u64,
    dirty_ratio_percent: u64,
    /// When a dirty block was last written, by its record.
    written_at: Vec<u32>,
    /// A newcomer found no clean block to replace since the last request ended.
    in_need: bool,
}

type Lists = Queues<3>;

impl CleanAndDirty {
    /// Notes a miss that would allocate: whether the block is admitted. If it is not, it is counted.
    fn admits(&self, lists: &mut Lists, new: &mut Newcomer) -> bool {
        let in_use = u64::from(lists.cached()) * 100;
        if self.admit_with <= 1 || in_use < self.trigger_percent * u64::from(lists.capacity()) {
            return true;
        }
        let id = new.ghost.unwrap_or_else(|| lists.insert(COUNTED, new.hash, new.block));
        new.ghost = Some(id);
        let accesses = lists.mark(id).saturating_add(1);
        lists.set_mark(id, accesses);
        accesses >= self.admit_with
    }

    fn clean_one<S: Sink>(&mut self, lists: &mut Lists, id: Id, sink: &mut S) {
        self.set_dirty(lists, id, false);
        if let Some(slot) = lists.slot(id) {
            sink.effect(Effect::Clean { slot, block: lists.block(id) });
        }
    }

    /// The dirty block that was not written for longest, if it is to be cleaned.
    fn due(&self, lists: &Lists) -> Option<Id> {
        let oldest = lists.oldest(DIRTY)?;
        let written_at = self.written_at.get(oldest as usize).copied().unwrap_or(0);
        let is_stale = self.clock.now().wrapping_sub(written_at) >= self.staleness;
        let dirty = u64::from(lists.len(DIRTY)) * 100;
        (is_stale || dirty > self.dirty_ratio_percent * u64::from(lists.capacity())).then_some(oldest)
    }

    #[cold]
    fn clean_in_need<S: Sink>(&mut self, lists: &mut Lists, sink: &mut S) {
        self.in_need = false;
        for _ in 0..CLEANED_IN_NEED {
            let Some(oldest) = lists.oldest(DIRTY) else { break };
            self.clean_one(lists, oldest, sink);
        }
    }
}

impl Cleaner for QueueLevel<CleanAndDirty, 3> {
    fn is_dirty(&self, id: Id) -> bool {
        self.queues.is_dirty(id)
    }

    #[inline]
    fn clean<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        let QueueLevel { queues, policy } = self;
        policy.clock.end_request(now_ns);
        if policy.in_need {
            policy.clean_in_need(queues, sink);
        }
        if policy.wake_up.ends_with(now_ns) && policy.cleans {
            for _ in 0..policy.most_at_once {
                let Some(due) = policy.due(queues) else { break };
                policy.clean_one(queues, due, sink);
            }
        }
    }
}

impl QueuePolicy<3> for CleanAndDirty {
    fn new(settings: &Settings, _: u32) -> CleanAndDirty {
        let by_time = settings.text("trigger") == "time";
        let nhit = settings.text("promotion") == "nhit";
        let staleness = settings.integer(if by_time { "staleness_s" } else { "staleness_requests" }) as u32;
        CleanAndDirty {
            admit_with: if nhit { settings.integer("nhit_threshold") as u8 } else { 1 },
            trigger_percent: settings.integer("nhit_trigger_percent"),
            cleans: settings.text("cleaning") == "alru",
            clock: Clock::new(by_time, staleness),
            wake_up: sizer::interval(settings, "wake_up_requests", "wake_up_s"),
            staleness,
            most_at_once: settings.integer("flush_max_blocks"),
            dirty_ratio_percent: settings.integer("dirty_ratio_percent"),
            written_at: Vec::new(),
            in_need: false,
        }
    }

    #[inline]
    fn touch(&mut self, lists: &mut Lists, id: Id) {
        if lists.queue(id) == CLEAN {
            lists.move_to_front(CLEAN, id);
        }
    }

    fn set_dirty(&mut self, lists: &mut Lists, id: Id, dirty: bool) {
        if dirty {
            growth::extend_to(&mut self.written_at, id, 0);
            self.written_at[id as usize] = self.clock.now();
            lists.move_to_front(DIRTY, id);
        } else if lists.queue(id) == DIRTY {
            lists.move_to_front(CLEAN, id);
        }
        lists.set_dirty(id, dirty);
    }

    fn admit<S: Sink>(&mut self, lists: &mut Lists, mut new: Newcomer, sink: &mut S) -> Option<Id> {
        let is_admitted = self.admits(lists, &mut new);
        let finds_none = lists.is_full() && lists.len(CLEAN) == 0;
        self.in_need |= is_admitted && finds_none;
        if !is_admitted || finds_none {
            self.bound_ghosts(lists);
            return None;
        }
        if lists.is_full() {
            lists.evict_oldest(CLEAN, sink);
        }
        let id = lists.enter(CLEAN, new);
        lists.set_mark(id, 0);
        Some(id)
    }

    /// Dirty blocks leave only where there is no clean one.
    fn evict<S: Sink>(&mut self, lists: &mut Lists, sink: &mut S) {
        lists.evict_oldest(if lists.len(CLEAN) > 0 { CLEAN } else { DIRTY }, sink);
    }

    fn bound_ghosts(&mut self, lists: &mut Lists) {
        lists.truncate(COUNTED, COUNTED_PER_BLOCK * u64::from(lists.capacity()));
    }

    fn memory_bytes(&self) -> usize {
        self.written_at.capacity() * size_of::<u32>()
    }
}
