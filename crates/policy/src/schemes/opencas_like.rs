//! Open CAS, as its documentation describes it and as it is recalled where that is silent: recency lists of clean and of
//! dirty blocks, of which only clean ones give way; dirty ones are written back when they were not written for long (ALRU);
//! and a block is admitted when it comes for the n-th time (NHIT).
//!
//! It must not know what reads and writes ask for, see [`ssd_level`](crate::parts::ssd_level); nor streams, see
//! [`cut_off`](crate::parts::cut_off).

use lode_types::BlockNo;

use crate::effect::{Effect, Sink, Slot};
use crate::interval::{Clock, Interval};
use crate::parts::cut_off::{Cleaner, CutOff, When};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::{Id, Replacement, SsdLevel};
use crate::parts::streams::Streams;
use crate::prefetch::{Prefetch, PrefetchHint};
use crate::quota::Quota;
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::settings::{SettingInfo, SettingKind, Settings};
use crate::sizer;
use crate::tracked::Footprint;

pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo {
        key: "write_policy",
        default: "wt",
        kind: SettingKind::Choice(&["wt", "wb", "wa", "ro", "wbwo", "pt"]),
        about: "wt: write-through; wb: write-back; wa: write-around, a cached copy is updated; ro: writes invalidate \
                (Open CAS: wi); wbwo: write-back, reads never allocate (Open CAS: wo); pt: nothing is cached",
        source: "Open CAS: its cache modes, wt (recalled)",
    },
    SettingInfo {
        key: "promotion",
        default: "always",
        kind: SettingKind::Choice(&["always", "nhit"]),
        about: "always: what is missed is admitted; nhit: when it comes for the n-th time",
        source: "Open CAS: always",
    },
    SettingInfo {
        key: "nhit_threshold",
        default: "3",
        kind: SettingKind::Integer { min: 2, max: u8::MAX as u64 },
        about: "with nhit, the access of a block that admits it",
        source: "Open CAS: 3",
    },
    SettingInfo {
        key: "nhit_trigger_percent",
        default: "80",
        kind: SettingKind::Integer { min: 0, max: 100 },
        about: "with nhit, everything is admitted while less of the level is in use",
        source: "Open CAS: 80",
    },
    SettingInfo {
        key: "cleaning",
        default: "alru",
        kind: SettingKind::Choice(&["alru", "nop"]),
        about: "alru: dirty blocks that were not written for long are written back; nop: only when no clean one is left",
        source: "Open CAS: ALRU",
    },
    SettingInfo {
        key: "trigger",
        default: "requests",
        kind: SettingKind::Choice(&["requests", "time"]),
        about: "whether cleaning counts requests of the VM or seconds",
        source: "ours: Open CAS counts seconds; with requests no decision depends on the clock",
    },
    SettingInfo {
        key: "wake_up_requests",
        default: "1000",
        kind: SettingKind::Scaled { min: 1, max: 1_000_000_000 },
        about: "requests from one look for what to clean to the next",
        source: "ours",
    },
    SettingInfo {
        key: "wake_up_s",
        default: "20",
        kind: SettingKind::Number { min: 0.0, max: 3600.0 },
        about: "seconds from one look for what to clean to the next, with trigger=time",
        source: "Open CAS: 20",
    },
    SettingInfo {
        key: "staleness_requests",
        default: "60000",
        kind: SettingKind::Scaled { min: 0, max: u32::MAX as u64 },
        about: "requests after which a block that was not written is cleaned",
        source: "ours: Open CAS's 120 s at 500 requests a second",
    },
    SettingInfo {
        key: "staleness_s",
        default: "120",
        kind: SettingKind::Integer { min: 1, max: 3600 },
        about: "seconds after which a block that was not written is cleaned, with trigger=time",
        source: "Open CAS: 120",
    },
    SettingInfo {
        key: "flush_max_blocks",
        default: "100",
        kind: SettingKind::Scaled { min: 1, max: 10_000 },
        about: "most blocks that are cleaned at a time",
        source: "Open CAS: 100",
    },
    SettingInfo {
        key: "dirty_ratio_percent",
        default: "100",
        kind: SettingKind::Integer { min: 0, max: 100 },
        about: "per cent of the level above which dirty blocks are cleaned, stale or not",
        source: "Open CAS: 100",
    },
    SettingInfo {
        key: "seq_policy",
        default: "full",
        kind: SettingKind::Choice(&["full", "always", "never"]),
        about: "when long sequential streams pass by: while the level is full, always, never",
        source: "Open CAS: full",
    },
    SettingInfo {
        key: "seq_threshold_blocks",
        default: "256",
        kind: SettingKind::Integer { min: 1, max: 1 << 40 },
        about: "blocks of a stream with which it begins to pass by",
        source: "Open CAS: 1024 KiB",
    },
    SettingInfo {
        key: "seq_streams",
        default: "64",
        kind: SettingKind::Integer { min: 1, max: 256 },
        about: "streams that are followed at once, of reads and of writes",
        source: "ours; Open CAS's number is not known to us",
    },
];

static TABLES: &[&[SettingInfo]] = &[SETTINGS];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo::new(
    "opencas-like",
    "one SSD level under LRU that cleans what was not written for long, admits what comes several times, and lets \
     sequential streams pass by",
    "Open CAS, its documentation; recalled where that is silent",
    TABLES,
    |settings, _, quota| {
        AnyScheme::OpencasLike(Box::new(OpencasLike::new(settings, quota)))
    },
)
.taking(Footprint::new(3 * LEAN, 64).with_ghosts());

/// Dirty blocks that are cleaned when a newcomer finds no clean one to replace.
const CLEANED_IN_NEED: u32 = 32;

/// Blocks outside whose accesses are counted, for each block of the level.
const COUNTED_PER_BLOCK: u64 = 2;

/// One VM's SSD level under Open CAS.
pub type OpencasLike = CutOff<CleanAndDirty>;

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

/// The lists, who is admitted, and what is cleaned when.
#[derive(Debug)]
pub struct CleanAndDirty {
    queues: Queues<3>,
    capacity: u32,
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

impl CleanAndDirty {
    /// Notes a miss that would allocate: whether the block is admitted, and its record if it has one. If it is not, it is
    /// counted.
    fn count(&mut self, hash: u32, block: BlockNo, counted: Option<Id>) -> (bool, Option<Id>) {
        let in_use = u64::from(self.queues.cached()) * 100;
        if self.admit_with <= 1 || in_use < self.trigger_percent * u64::from(self.capacity) {
            return (true, counted);
        }
        let id = counted.unwrap_or_else(|| self.queues.insert(COUNTED, hash, block));
        let accesses = self.queues.mark(id).saturating_add(1);
        self.queues.set_mark(id, accesses);
        (accesses >= self.admit_with, Some(id))
    }

    fn bound_counted(&mut self) {
        while u64::from(self.queues.len(COUNTED)) > COUNTED_PER_BLOCK * u64::from(self.capacity) {
            self.queues.remove_oldest(COUNTED);
        }
    }

    fn clean_one<S: Sink>(&mut self, id: Id, sink: &mut S) {
        let block = self.queues.block(id);
        self.set_dirty(id, false);
        if let Some(slot) = self.queues.slot(id) {
            sink.effect(Effect::Clean { slot, block });
        }
    }

    /// The dirty block that was not written for longest, if it is to be cleaned.
    fn due(&self) -> Option<Id> {
        let oldest = self.queues.oldest(DIRTY)?;
        let written_at = self.written_at.get(oldest as usize).copied().unwrap_or(0);
        let is_stale = self.clock.now().wrapping_sub(written_at) >= self.staleness;
        let dirty = u64::from(self.queues.len(DIRTY)) * 100;
        (is_stale || dirty > self.dirty_ratio_percent * u64::from(self.capacity)).then_some(oldest)
    }

    #[cold]
    fn clean_in_need<S: Sink>(&mut self, sink: &mut S) {
        self.in_need = false;
        for _ in 0..CLEANED_IN_NEED {
            let Some(oldest) = self.queues.oldest(DIRTY) else { break };
            self.clean_one(oldest, sink);
        }
    }
}

impl Cleaner for CleanAndDirty {
    fn is_dirty(&self, id: Id) -> bool {
        self.queues.is_dirty(id)
    }

    #[inline]
    fn clean<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        self.clock.end_request(now_ns);
        if self.in_need {
            self.clean_in_need(sink);
        }
        if self.wake_up.ends_with(now_ns) && self.cleans {
            for _ in 0..self.most_at_once {
                let Some(due) = self.due() else { break };
                self.clean_one(due, sink);
            }
        }
    }
}

impl Prefetch for CleanAndDirty {
    prefetch_by!(queues);
}

impl Replacement for CleanAndDirty {
    fn new(settings: &Settings, blocks: u32) -> CleanAndDirty {
        let by_time = settings.text("trigger") == "time";
        let nhit = settings.text("promotion") == "nhit";
        let staleness = settings.integer(if by_time { "staleness_s" } else { "staleness_requests" }) as u32;
        CleanAndDirty {
            queues: Queues::new(),
            capacity: blocks,
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
    fn find(&self, hint: PrefetchHint, block: BlockNo) -> Option<Id> {
        self.queues.find(hint, block)
    }

    #[inline(always)]
    fn slot(&self, id: Id) -> Option<Slot> {
        self.queues.slot(id)
    }

    #[inline]
    fn touch(&mut self, _: BlockNo, id: Id) {
        if self.queues.queue(id) == CLEAN {
            self.queues.move_to_front(CLEAN, id);
        }
    }

    fn set_dirty(&mut self, id: Id, dirty: bool) {
        if dirty {
            let at = id as usize;
            if at >= self.written_at.len() {
                let len = at + at / 4 + 1;
                self.written_at.reserve_exact(len - self.written_at.len());
                self.written_at.resize(len, 0);
            }
            self.written_at[at] = self.clock.now();
            self.queues.move_to_front(DIRTY, id);
        } else if self.queues.queue(id) == DIRTY {
            self.queues.move_to_front(CLEAN, id);
        }
        self.queues.set_dirty(id, dirty);
    }

    fn admit<S: Sink>(
        &mut self,
        hash: u32,
        block: BlockNo,
        counted: Option<Id>,
        sink: &mut S,
    ) -> Option<(Id, Slot)> {
        if self.capacity == 0 {
            return None;
        }
        let (is_admitted, counted) = self.count(hash, block, counted);
        if !is_admitted {
            self.bound_counted();
            return None;
        }
        if self.queues.cached() >= self.capacity {
            let Some(oldest) = self.queues.oldest(CLEAN) else {
                self.in_need = true;
                self.bound_counted();
                return None;
            };
            self.queues.evict(oldest, sink);
            self.queues.fetch_behind(CLEAN);
        }
        let id = match counted {
            Some(id) => {
                self.queues.set_mark(id, 0);
                self.queues.move_to_front(CLEAN, id);
                id
            }
            None => self.queues.insert(CLEAN, hash, block),
        };
        Some((id, self.queues.give_slot(id)))
    }

    fn restore(&mut self, hash: u32, block: BlockNo, counted: Option<Id>) -> Option<(Id, Slot)> {
        if self.cached() >= self.capacity {
            return None;
        }
        if let Some(counted) = counted {
            self.queues.remove(counted);
        }
        let id = self.queues.insert(CLEAN, hash, block);
        Some((id, self.queues.give_slot(id)))
    }

    fn remove(&mut self, _: BlockNo, id: Id) {
        self.queues.remove(id);
    }

    fn resize<S: Sink>(&mut self, blocks: u32, sink: &mut S) {
        self.capacity = blocks;
        while self.queues.cached() > blocks {
            let oldest = self.queues.oldest(CLEAN).or_else(|| self.queues.oldest(DIRTY));
            let Some(oldest) = oldest else { break };
            self.queues.evict(oldest, sink);
        }
        self.bound_counted();
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    #[inline]
    fn cached(&self) -> u32 {
        self.queues.cached()
    }

    fn memory_bytes(&self) -> usize {
        self.queues.memory_bytes() + self.written_at.capacity() * size_of::<u32>()
    }
}
