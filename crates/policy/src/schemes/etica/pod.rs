//! Reuse distances measured as the stream passes: POD(RO) for the DRAM level, POD(WBWO) for the SSD
//! level (ETICA section 4.3), and what the sizer and the popularity score need of them.
//!
//! A reference stream is a timeline on which only the latest access of each block is marked; the
//! distance of an access is the number of marks after the block's previous one.

use lode_reuse::CurvePoint;
use lode_reuse::timeline::{NEVER, Timeline};

use super::config::{Config, PopularityOf};
use super::radix;
use super::records::{Record, Records};
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
    ro_log: DistanceLog,
    wbwo_log: DistanceLog,
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
            ro_log: DistanceLog::new(config.measures_demand),
            wbwo_log: DistanceLog::new(config.measures_demand),
            reset_window: config.reset_window,
            chained: config.chained,
            ro_ignore_writes: config.ro_ignore_writes,
            writes_are_popular: config.popularity == PopularityOf::Any,
        }
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
    pub(super) fn close_window(&mut self, accesses: u64, points: Points) -> Option<[LevelDemand; 2]> {
        let ro = self.ro.as_mut()?;
        if self.reset_window {
            ro.reset();
            self.wbwo.as_mut().into_iter().for_each(Timeline::reset);
            self.wb.as_mut().into_iter().for_each(|wb| wb.line.reset());
        }
        let logs = [&mut self.ro_log, &mut self.wbwo_log];
        Some(match points {
            Points::All => logs.map(|log| log.take(accesses)),
            Points::LastWithin(quota) => {
                let [dram, ssd] = logs;
                [dram.take_last(accesses, quota.dram_blocks), ssd.take_last(accesses, quota.ssd_blocks)]
            }
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let lines = [&self.ro, &self.wbwo].into_iter().flatten().map(Timeline::memory_bytes);
        let wb = self.wb.as_ref().map_or(0, |wb| wb.line.memory_bytes() + wb.positions.capacity() * 4);
        lines.sum::<usize>() + wb + self.ro_log.memory_bytes() + self.wbwo_log.memory_bytes()
    }
}

impl WbStream {
    fn touch(&mut self, id: u32) -> Option<u32> {
        let id = id as usize;
        if self.positions.len() <= id {
            self.positions.resize(id + 1, NEVER);
        }
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

/// The useful distances of one window.
///
/// Single distances are collected and now and then folded into `(distance, count)` pairs, so that the
/// memory follows the number of different distances and not the length of the window.
#[derive(Debug)]
struct DistanceLog {
    recent: Vec<u32>,
    /// Memory for sorting.
    spare: Vec<u32>,
    folded: Vec<(u32, u64)>,
    /// A fold passes over all that is folded, so it waits for as much again.
    fold_at: usize,
    on: bool,
}

impl DistanceLog {
    const LEAST_FOLD: usize = 1 << 16;

    fn new(on: bool) -> DistanceLog {
        DistanceLog {
            recent: Vec::new(),
            spare: Vec::new(),
            folded: Vec::new(),
            fold_at: Self::LEAST_FOLD,
            on,
        }
    }

    /// Adds a distance, or not, without a branch.
    #[inline]
    fn add_if(&mut self, counts: bool, distance: u32) {
        if self.on {
            let len = self.recent.len();
            self.recent.push(distance);
            self.recent.truncate(len + usize::from(counts));
            if len >= self.fold_at {
                self.fold();
            }
        }
    }

    fn fold(&mut self) {
        radix::sort(&mut self.recent, &mut self.spare);
        let before = std::mem::take(&mut self.folded);
        self.folded.reserve_exact(before.len() + self.recent.chunk_by(u32::eq).count());
        let mut before = before.into_iter().peekable();
        for same in self.recent.chunk_by(u32::eq) {
            let distance = same[0];
            self.folded.extend(std::iter::from_fn(|| before.next_if(|pair| pair.0 < distance)));
            let count = before.next_if(|pair| pair.0 == distance).map_or(0, |pair| pair.1);
            self.folded.push((distance, count + same.len() as u64));
        }
        self.folded.extend(before);
        self.recent.clear();
        self.fold_at = Self::LEAST_FOLD.max(self.folded.len());
    }

    /// The demand of the window, which starts anew. Size `distance + 1` is the first that hits.
    fn take(&mut self, accesses: u64) -> LevelDemand {
        let curve = if self.folded.is_empty() {
            radix::sort(&mut self.recent, &mut self.spare);
            let curve = curve_of(&self.recent);
            self.recent.clear();
            curve
        } else {
            self.fold();
            let mut hits = 0;
            let rise = |(distance, count)| {
                hits += count;
                CurvePoint { size_blocks: u64::from(distance) + 1, hits }
            };
            self.fold_at = Self::LEAST_FOLD;
            self.folded.drain(..).map(rise).collect()
        };
        demand_of(curve, accesses)
    }

    /// As [`DistanceLog::take`], but of the curve only the last point within `most` blocks and the last of all.
    fn take_last(&mut self, accesses: u64, most: u32) -> LevelDemand {
        if !self.folded.is_empty() {
            let mut demand = self.take(accesses);
            let within = demand.curve.partition_point(|point| point.size_blocks <= u64::from(most));
            let beyond = within.max(demand.curve.len().saturating_sub(1));
            demand.curve.drain(within..beyond);
            demand.curve.drain(..within.saturating_sub(1));
            return demand;
        }
        let (mut within, mut hits, mut last) = (0, 0, 0);
        for &distance in &self.recent {
            let size_blocks = u64::from(distance) + 1;
            let fits = size_blocks <= u64::from(most);
            within = if fits { size_blocks.max(within) } else { within };
            hits += u64::from(fits);
            last = size_blocks.max(last);
        }
        let all = self.recent.len() as u64;
        self.recent.clear();
        let points =
            [(within, hits), (last, all)].map(|(size_blocks, hits)| CurvePoint { size_blocks, hits });
        // Without hits within there is one point, and where all are within there is one, too.
        let first = usize::from(hits == 0 || hits == all);
        let points = if all == 0 { &[] } else { &points[first..] };
        demand_of(points.to_vec(), accesses)
    }

    fn memory_bytes(&self) -> usize {
        (self.recent.capacity() + self.spare.capacity()) * size_of::<u32>()
            + self.folded.capacity() * size_of::<(u32, u64)>()
    }
}

fn demand_of(curve: Vec<CurvePoint>, accesses: u64) -> LevelDemand {
    let blocks = curve.last().map_or(0, |point| point.size_blocks as u32);
    LevelDemand { blocks, curve, accesses }
}

/// The curve of distances in ascending order, of which each serves once.
fn curve_of(distances: &[u32]) -> Vec<CurvePoint> {
    let mut curve = vec![CurvePoint { size_blocks: 0, hits: 0 }; distances.len()];
    let mut points = 0;
    for (at, &distance) in distances.iter().enumerate() {
        // Of equal distances the last one's point stays; nothing foretells which are equal.
        curve[points] = CurvePoint { size_blocks: u64::from(distance) + 1, hits: at as u64 + 1 };
        points += usize::from(distances.get(at + 1) != Some(&distance));
    }
    curve.truncate(points);
    curve
}
