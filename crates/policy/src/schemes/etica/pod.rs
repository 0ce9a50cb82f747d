//! Reuse distances measured as the stream passes: POD(RO) for the DRAM level, POD(WBWO) for the SSD
//! level (ETICA section 4.3), and what the sizer and the popularity score need of them.
//!
//! A reference stream is a timeline on which only the latest access of each block is marked; the
//! distance of an access is the number of marks after the block's previous one.

use lode_reuse::timeline::{NEVER, Timeline};

use super::config::{Config, PopularityOf};
use super::records::{Record, Records};
use crate::parts::distance_log::WindowLog;
use crate::parts::growth;
use crate::scheme::{LevelDemand, Points};

/// In `Record::ro`: a write came since the read at this position, so the next read is not read-after-read.
const WRITTEN_SINCE: u32 = 0x8000_0000;

/// Records between the one whose position is replaced and the one whose place on the timeline is fetched.
const REMAP_AHEAD: usize = 16;

/// The measurements of one VM. A stream that nobody asks for is not kept.
#[derive(Debug)]
pub(super) struct Pods {
    ro: Option<Timeline>,
    wbwo: Option<Timeline>,
    wb: Option<WbStream>,
    ro_log: WindowLog,
    wbwo_log: WindowLog,
    reset_window: bool,
    chained: bool,
    ro_ignore_writes: bool,
    writes_are_popular: bool,
}

/// The stream of every access, for `popularity=wb`; positions by record, beside the records because no
/// other setting needs them.
#[derive(Debug)]
struct WbStream {
    line: Timeline,
    positions: Vec<u32>,
}

impl Pods {
    pub(super) fn new(config: &Config) -> Pods {
        let popular_wb = config.promotes() && config.popularity == PopularityOf::Wb;
        let popular_wbwo = config.promotes() && !popular_wb;
        let wbwo = config.measures_demand || popular_wbwo;
        Pods {
            ro: config.measures_demand.then(Timeline::new),
            wbwo: wbwo.then(Timeline::new),
            wb: popular_wb.then(|| WbStream { line: Timeline::new(), positions: Vec::new() }),
            ro_log: WindowLog::of_all(config.measures_demand),
            wbwo_log: WindowLog::of_all(config.measures_demand),
            reset_window: config.reset_window,
            chained: config.chained,
            ro_ignore_writes: config.ro_ignore_writes,
            writes_are_popular: config.popularity == PopularityOf::Any,
        }
    }

    /// As [`Pods::new`], for a sample that follows all blocks, for now.
    pub(super) fn of_sample(config: &Config) -> Pods {
        Pods { ro_log: WindowLog::of_sample(), wbwo_log: WindowLog::of_sample(), ..Pods::new(config) }
    }

    /// A share of all blocks is followed from now on.
    pub(super) fn set_rate(&mut self, rate: f64) {
        self.ro_log.set_rate(rate);
        self.wbwo_log.set_rate(rate);
    }

    /// A read comes, to a block that is followed or to another one. Where all blocks are followed nobody needs to say so.
    #[inline]
    pub(super) fn note_read(&mut self, is_followed: bool) {
        self.ro_log.add_access(is_followed);
        self.wbwo_log.add_access(is_followed);
    }

    /// Makes sure that the next access finds room on every timeline.
    #[inline]
    pub(super) fn make_room(&mut self, records: &mut Records) {
        if let Some(line) = self.ro.as_mut().filter(|line| line.is_full()) {
            line.compact(|remap| {
                for records in records.slices_mut() {
                    for at in 0..records.len() {
                        let later = records[(at + REMAP_AHEAD).min(records.len() - 1)];
                        remap.prefetch(later.ro & !WRITTEN_SINCE);
                        let record = &mut records[at];
                        let position = remap.new_position(record.ro & !WRITTEN_SINCE);
                        record.ro = position | (record.ro & WRITTEN_SINCE);
                    }
                }
            });
        }
        if let Some(line) = self.wbwo.as_mut().filter(|line| line.is_full()) {
            line.compact(|remap| {
                for records in records.slices_mut() {
                    for at in 0..records.len() {
                        remap.prefetch(records[(at + REMAP_AHEAD).min(records.len() - 1)].wbwo);
                        records[at].wbwo = remap.new_position(records[at].wbwo);
                    }
                }
            });
        }
        if let Some(wb) = self.wb.as_mut().filter(|wb| wb.line.is_full()) {
            let positions = &mut wb.positions;
            wb.line.compact(|remap| positions.iter_mut().for_each(|p| *p = remap.new_position(*p)));
        }
    }

    /// Brings what the block's next access needs nearer to the processor.
    #[inline]
    pub(super) fn prefetch(&self, record: &Record) {
        if let Some(line) = &self.ro {
            line.prefetch(record.ro & !WRITTEN_SINCE);
        }
        if let Some(line) = &self.wbwo {
            line.prefetch(record.wbwo);
        }
    }

    /// Notes a read. Returns the distance that counts for the block's popularity, if it does.
    #[inline]
    pub(super) fn read(&mut self, record: &mut Record, id: u32, dram_hit: bool) -> Option<u32> {
        if let Some(line) = &mut self.ro {
            let previous = record.ro & !WRITTEN_SINCE;
            if line.is_live(previous) {
                let (distance, position) = line.revisit(previous);
                // Whether a write came in between nothing foretells.
                let is_useful = self.ro_ignore_writes | (record.ro & WRITTEN_SINCE == 0);
                self.ro_log.add_if(is_useful, distance);
                record.ro = position;
            } else {
                record.ro = line.touch(NEVER);
            }
        }
        let mut popular = None;
        if let Some(line) = &mut self.wbwo
            && !(self.chained && dram_hit)
            && line.is_live(record.wbwo)
        {
            let (distance, position) = line.revisit(record.wbwo);
            self.wbwo_log.add_if(true, distance);
            record.wbwo = position;
            popular = Some(distance);
        }
        match &mut self.wb {
            Some(wb) => wb.touch(id),
            None => popular,
        }
    }

    /// Notes a write. Returns the distance that counts for the block's popularity, if it does.
    #[inline]
    pub(super) fn write(&mut self, record: &mut Record, id: u32) -> Option<u32> {
        record.ro |= WRITTEN_SINCE;
        let mut popular = None;
        if let Some(line) = &mut self.wbwo {
            if self.writes_are_popular && line.is_live(record.wbwo) {
                popular = Some(line.distance(record.wbwo));
            }
            record.wbwo = line.touch(record.wbwo);
        }
        if let Some(wb) = &mut self.wb {
            wb.touch(id);
        }
        popular
    }

    /// Forgets a block whose record is given up.
    pub(super) fn forget(&mut self, record: &Record, id: u32) {
        if let Some(line) = &mut self.ro {
            line.remove(record.ro & !WRITTEN_SINCE);
        }
        if let Some(line) = &mut self.wbwo {
            line.remove(record.wbwo);
        }
        if let Some(wb) = &mut self.wb
            && let Some(position) = wb.positions.get_mut(id as usize)
        {
            wb.line.remove(std::mem::replace(position, NEVER));
        }
    }

    /// What the window that ends now would have needed, DRAM first.
    pub(super) fn close_window(&mut self, accesses: u64, points: Points) -> [LevelDemand; 2] {
        if self.reset_window {
            [&mut self.ro, &mut self.wbwo].into_iter().flatten().for_each(Timeline::reset);
            self.wb.as_mut().into_iter().for_each(|wb| wb.line.reset());
        }
        let logs = [&mut self.ro_log, &mut self.wbwo_log];
        match points {
            Points::All => logs.map(|log| log.take(accesses)),
            Points::LastWithin(quota) => {
                let [dram, ssd] = logs;
                [dram.take_last(accesses, quota.dram_blocks), ssd.take_last(accesses, quota.ssd_blocks)]
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let lines = [&self.ro, &self.wbwo].into_iter().flatten().map(Timeline::memory_bytes);
        let wb = self.wb.as_ref().map_or(0, |wb| wb.line.memory_bytes() + wb.positions.capacity() * 4);
        lines.sum::<usize>() + wb + self.ro_log.memory_bytes() + self.wbwo_log.memory_bytes()
    }
}

impl WbStream {
    fn touch(&mut self, id: u32) -> Option<u32> {
        growth::extend_to(&mut self.positions, id, NEVER);
        let id = id as usize;
        let previous = self.positions[id];
        if self.line.is_live(previous) {
            let (distance, position) = self.line.revisit(previous);
            self.positions[id] = position;
            return Some(distance);
        }
        self.positions[id] = self.line.touch(NEVER);
        None
    }
}
