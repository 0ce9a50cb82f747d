//! Describing a trace in one pass. It must not print, and must not know formats.

use hashbrown::HashMap;
use lode_types::{BlockSize, OriginFields, RequestOp, TraceRequest};

use crate::error::{ErrorKind, TraceError};
use crate::limits::{MAX_DISTINCT_SIZES, MAX_FOOTPRINT_RUNS, TOP_SIZES};
use crate::reader::Reader;
use crate::skips::Skips;
use crate::span::{Span, SpanInfo};

/// Unit of footprints and block touches.
const BLOCK: BlockSize = BlockSize::KIB_4;
/// Blocks in a run: one bit each.
const RUN_SHIFT: u32 = 6;
/// Bits of a run number: 64-bit offsets, 12 bits within a block, 6 within a run.
const RUN_BITS: u32 = 46;
const _: () = assert!(crate::limits::MAX_VOLUMES <= 1 << (64 - RUN_BITS));

/// What one volume's requests are. Trims and flushes touch no block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeInfo {
    /// The volume's name; empty in the total.
    pub name: String,
    /// All requests.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Trims.
    pub trims: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub written_bytes: u64,
    /// Bytes of the trims.
    pub trimmed_bytes: u64,
    /// 4 KiB blocks touched by reads and writes, each time counted.
    pub block_touches: u64,
    /// Different 4 KiB blocks touched by reads and writes.
    pub distinct_blocks: u64,
}

/// Sizes of reads and writes, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeInfo {
    /// The smallest.
    pub min_bytes: u32,
    /// The mean.
    pub mean_bytes: f64,
    /// Half of the requests are at most this large.
    pub p50_bytes: u32,
    /// Nine in ten requests are at most this large.
    pub p90_bytes: u32,
    /// The largest.
    pub max_bytes: u32,
    /// The commonest sizes and their requests, commonest first, at most [`TOP_SIZES`].
    pub top: Vec<(u32, u64)>,
}

/// What a trace is.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceInfo {
    /// Name of its format.
    pub format: &'static str,
    /// What it tells of who asks.
    pub origins: OriginFields,
    /// Everything together.
    pub total: VolumeInfo,
    /// Each volume, in the order of [`Reader::volumes`].
    pub volumes: Vec<VolumeInfo>,
    /// Sizes of reads and writes, if there are any.
    pub sizes: Option<SizeInfo>,
    /// From when to when, if there are requests and their times were recorded.
    pub span: Option<SpanInfo>,
    /// Requests whose time is before that of the request just before them.
    pub backwards: u64,
    /// What was skipped.
    pub skipped: Skips,
}

impl VolumeInfo {
    /// Reads among reads and writes, 0 to 1; `None` without any.
    pub fn read_share(&self) -> Option<f64> {
        share(self.reads, self.reads + self.writes)
    }

    /// Touches of blocks that were touched before, 0 to 1; `None` without touches.
    pub fn re_reference_share(&self) -> Option<f64> {
        share(self.block_touches - self.distinct_blocks, self.block_touches)
    }

    /// Bytes of the different blocks touched.
    pub fn footprint_bytes(&self) -> u64 {
        self.distinct_blocks.saturating_mul(BLOCK.bytes())
    }

    fn add(&mut self, request: &TraceRequest) {
        self.requests += 1;
        let bytes = u64::from(request.length_bytes);
        match request.op {
            RequestOp::Read => {
                (self.reads, self.read_bytes) = (self.reads + 1, self.read_bytes.saturating_add(bytes))
            }
            RequestOp::Write => {
                (self.writes, self.written_bytes) =
                    (self.writes + 1, self.written_bytes.saturating_add(bytes));
            }
            RequestOp::Trim => {
                (self.trims, self.trimmed_bytes) = (self.trims + 1, self.trimmed_bytes.saturating_add(bytes));
            }
            RequestOp::Flush => self.flushes += 1,
        }
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Reads the trace to its end and describes it.
///
/// # Errors
/// Those of [`Reader::next_batch`] and [`InfoCollector::add`].
pub fn info(reader: &mut Reader) -> Result<TraceInfo, TraceError> {
    let mut collector = InfoCollector::default();
    let mut batch = Vec::new();
    while reader.next_batch(&mut batch)? > 0 {
        collector.add(reader, &batch)?;
    }
    Ok(collector.finish(reader))
}

/// Gathers the description batch by batch, for callers that do something else with the batches as well.
#[derive(Default)]
pub struct InfoCollector {
    total: VolumeInfo,
    volumes: Vec<VolumeInfo>,
    sizes: HashMap<u32, u64>,
    /// For each run of 64 blocks of a volume, which were touched.
    runs: HashMap<u64, u64>,
    span: Span,
}

impl InfoCollector {
    /// Adds a batch that `reader` gave.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] when the footprint has more than [`MAX_FOOTPRINT_RUNS`] runs, or there are more than
    /// [`MAX_DISTINCT_SIZES`] sizes.
    pub fn add(&mut self, reader: &Reader, batch: &[TraceRequest]) -> Result<(), TraceError> {
        self.volumes.resize(reader.volumes().len(), VolumeInfo::default());
        for request in batch {
            let too_much = |what: String| {
                TraceError::new(
                    ErrorKind::Limit,
                    reader.path(),
                    format!("{what}; describe a part of the trace"),
                )
            };
            self.span.add(request.time_ns);
            self.total.add(request);
            self.volumes[request.volume as usize].add(request);
            if matches!(request.op, RequestOp::Trim | RequestOp::Flush) {
                continue;
            }
            *self.sizes.entry(request.length_bytes).or_insert(0) += 1;
            if self.sizes.len() > MAX_DISTINCT_SIZES {
                return Err(too_much(format!("More than {MAX_DISTINCT_SIZES} different request sizes")));
            }
            self.touch(request);
            if self.runs.len() > MAX_FOOTPRINT_RUNS {
                return Err(too_much(format!("Footprint of more than {MAX_FOOTPRINT_RUNS} runs of 256 KiB")));
            }
        }
        Ok(())
    }

    /// Marks the blocks of a read or write, a run at a time.
    fn touch(&mut self, request: &TraceRequest) {
        let first = BLOCK.block_of(request.offset_bytes);
        let last = BLOCK.block_of(request.offset_bytes + u64::from(request.length_bytes) - 1);
        let mut fresh = 0;
        for run in first >> RUN_SHIFT..=last >> RUN_SHIFT {
            let from = first.max(run << RUN_SHIFT) & 63;
            let to = last.min(run << RUN_SHIFT | 63) & 63;
            let mask = (u64::MAX << from) & (u64::MAX >> (63 - to));
            let touched = self.runs.entry(u64::from(request.volume) << RUN_BITS | run).or_insert(0);
            fresh += u64::from((mask & !*touched).count_ones());
            *touched |= mask;
        }
        for info in [&mut self.total, &mut self.volumes[request.volume as usize]] {
            info.block_touches += last - first + 1;
            info.distinct_blocks += fresh;
        }
    }

    /// The description of what was added.
    pub fn finish(mut self, reader: &Reader) -> TraceInfo {
        self.volumes.resize(reader.volumes().len(), VolumeInfo::default());
        for (volume, name) in self.volumes.iter_mut().zip(reader.volumes()) {
            volume.name.clone_from(name);
        }
        let sizes = size_info(self.sizes.into_iter().collect());
        TraceInfo {
            format: reader.format(),
            origins: reader.recorded().origins,
            total: self.total,
            volumes: self.volumes,
            sizes,
            span: self.span.finish().filter(|_| reader.has_times()),
            backwards: reader.backwards(),
            skipped: reader.skipped().clone(),
        }
    }
}

/// Distribution of (size, requests) pairs with different sizes.
fn size_info(mut counts: Vec<(u32, u64)>) -> Option<SizeInfo> {
    counts.sort_unstable();
    let (min_bytes, max_bytes) = (counts.first()?.0, counts.last()?.0);
    let requests: u64 = counts.iter().map(|&(_, count)| count).sum();
    let bytes: f64 = counts.iter().map(|&(size, count)| f64::from(size) * count as f64).sum();
    let percentile = |percent: u64| {
        let wanted = (u128::from(requests) * u128::from(percent)).div_ceil(100);
        let mut seen = 0;
        let reached = counts.iter().find(|&&(_, count)| {
            seen += u128::from(count);
            seen >= wanted
        });
        reached.map_or(max_bytes, |&(size, _)| size)
    };
    let (p50_bytes, p90_bytes) = (percentile(50), percentile(90));
    counts.sort_by_key(|&(size, count)| (std::cmp::Reverse(count), size));
    counts.truncate(TOP_SIZES);
    Some(SizeInfo {
        min_bytes,
        mean_bytes: bytes / requests as f64,
        p50_bytes,
        p90_bytes,
        max_bytes,
        top: counts,
    })
}
