//! What a shadow's decisions cost: the time of each request, by itself, on devices that take as long as the settings say; the disk's
//! time, whoever waits for it; and blocks written to the SSD. As a replay reckons it: a request takes as long as its slowest block,
//! and what happens in the background takes nobody's time but the disk's.
//!
//! It must not know which scheme decides.

use lode_types::{Access, BlockNo, Direction, Level};

use super::trial::Spent;
use crate::effect::{CopySource, Effect, Sink};
use crate::prefetch::AccessSink;
use crate::settings::Settings;

/// Times of one block, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    dram_us: f64,
    ssd_read_us: f64,
    ssd_write_us: f64,
    disk_read_us: f64,
    disk_write_us: f64,
    /// What such a write keeps disks at work, all of them together.
    disk_write_work_us: f64,
    sequential_us: f64,
}

/// Takes a shadow's effects.
#[derive(Debug)]
pub(super) struct Cost {
    times: Times,
    /// The block that effects belong to, and the one behind the disk's last command.
    block: BlockNo,
    disk_next: Option<BlockNo>,
    /// Until the rest of a partial write is there, and the slowest block of the request so far.
    merge_us: f64,
    request_us: f64,
    /// Of all requests since it was asked last.
    sum_us: f64,
    disk_sum_us: f64,
    ssd_writes: u64,
    /// Block reads that each of [`Level::SIZED`] served.
    hits: [u64; 2],
}

impl Cost {
    pub(super) fn new(settings: &Settings) -> Cost {
        let times = Times {
            dram_us: settings.number("dram_us"),
            ssd_read_us: settings.number("ssd_read_us"),
            ssd_write_us: settings.number("ssd_write_us"),
            disk_read_us: settings.number("disk_random_us"),
            disk_write_us: settings.number("disk_write_us"),
            disk_write_work_us: settings.number("disk_write_work_us"),
            sequential_us: settings.number("disk_sequential_us"),
        };
        Cost {
            times,
            block: 0,
            disk_next: None,
            merge_us: 0.0,
            request_us: 0.0,
            sum_us: 0.0,
            disk_sum_us: 0.0,
            ssd_writes: 0,
            hits: [0; 2],
        }
    }

    /// What requests took since the last time.
    pub(super) fn take(&mut self) -> Spent {
        let ssd_writes = std::mem::take(&mut self.ssd_writes) as f64;
        let (us, disk_us) = (std::mem::take(&mut self.sum_us), std::mem::take(&mut self.disk_sum_us));
        let [dram_hits, ssd_hits] = std::mem::take(&mut self.hits).map(|hits| hits as f64);
        Spent { us, disk_us, disk_peak_us: 0.0, ssd_writes, dram_hits, ssd_hits }
    }

    /// The time of a command of the disk, which works for so long if it has to seek.
    fn disk_us(&mut self, random_us: f64, random_work_us: f64) -> f64 {
        let is_next = self.disk_next == Some(self.block);
        self.disk_next = self.block.checked_add(1);
        let (us, work_us) = match is_next {
            true => (self.times.sequential_us, self.times.sequential_us),
            false => (random_us, random_work_us),
        };
        self.disk_sum_us += work_us;
        us
    }

    fn disk_read_us(&mut self) -> f64 {
        let us = self.times.disk_read_us;
        self.disk_us(us, us)
    }

    fn level_us(&self, level: Level) -> f64 {
        if level == Level::Dram { self.times.dram_us } else { self.times.ssd_read_us }
    }

    fn lasts(&mut self, us: f64) {
        self.request_us = self.request_us.max(us);
    }
}

impl AccessSink for Cost {
    #[inline]
    fn begin_access(&mut self, access: &Access) {
        self.block = access.block;
        self.merge_us = 0.0;
    }

    #[inline]
    fn end_request(&mut self, _: Direction) {
        self.sum_us += std::mem::take(&mut self.request_us);
    }
}

impl Sink for Cost {
    #[inline]
    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::ReadLevel { level, .. } => {
                self.hits.get_mut(level.index()).into_iter().for_each(|hits| *hits += 1);
                self.lasts(self.level_us(level));
            }
            Effect::ReadBacking => {
                let us = self.disk_read_us();
                self.lasts(us);
            }
            Effect::WriteLevel { level, .. } => {
                let is_ssd = level == Level::Ssd;
                self.ssd_writes += u64::from(is_ssd);
                let us = if is_ssd { self.times.ssd_write_us } else { self.times.dram_us };
                self.lasts(self.merge_us + us);
            }
            Effect::WriteBacking => {
                let us = self.disk_us(self.times.disk_write_us, self.times.disk_write_work_us);
                self.lasts(self.merge_us + us);
            }
            Effect::MergeLevel { level, .. } => self.merge_us = self.level_us(level),
            Effect::MergeBacking => self.merge_us = self.disk_read_us(),
            Effect::Fill { level: Level::Ssd, .. } => self.ssd_writes += 1,
            Effect::Copy { to: Level::Ssd, from, .. } => {
                self.ssd_writes += 1;
                if from == CopySource::Backing {
                    self.disk_sum_us += self.times.disk_read_us;
                }
            }
            // What nobody waits for is somewhere else on the disk, each block by itself, and does not move the head from where requests
            // find it.
            Effect::Evict { dirty: true, .. } | Effect::Clean { .. } => {
                self.disk_sum_us += self.times.disk_write_work_us;
            }
            Effect::Fill { .. } | Effect::Copy { .. } | Effect::Invalidate { .. } | Effect::Evict { .. } => {}
        }
    }
}
