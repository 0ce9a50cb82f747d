//! Schemes side by side over a grid of sizes, replayed at the same time by several threads.
//!
//! The traces are read once and kept in memory where they fit; otherwise every replay reads them again. It must not
//! know how a scheme decides, nor how results are shown.

use std::sync::{Mutex, PoisonError};

use lode_hardware::Host;
use lode_policy::{Quota, RequestSource, SchemeInfo};
use lode_replay::{
    Future, Options, Recording, ReplayError, Report, RequestStream, count_distinct_blocks, level_blocks,
    most_memory_bytes, replay_with_future,
};
use lode_trace::{Merge, TraceError};
use lode_types::{BlockSize, Level};

use crate::error::PlanError;
use crate::jobs::in_parallel;
use crate::levels::LevelBytes;
use crate::mapping::ComparedSchemes;
use crate::memory::at_once;
use crate::planned::PlannedShares;

/// Most cells of one comparison.
pub const MAX_CELLS: usize = 4096;

/// What to compare, and how.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// Schemes, each with what it is called and its settings.
    pub schemes: ComparedSchemes,
    /// Sizes of the levels; a scheme is given only those that it uses.
    pub sizes: Vec<LevelBytes>,
    /// The plan whose money every scheme has instead, each VM with its part of it; `sizes` are then those of its levels alone.
    pub planned: Option<PlannedShares>,
    /// Size of a block.
    pub block_size: BlockSize,
    /// The devices.
    pub host: Host,
    /// Replays at the same time, at least 1.
    pub threads: usize,
    /// Memory that the traces, their future and the tables of all replays under way may take. Fewer replays run at the same
    /// time where they do not fit it otherwise.
    pub memory_bytes: u64,
}

/// One scheme with one size.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Index of the scheme.
    pub scheme: usize,
    /// Index of the size.
    pub size: usize,
    /// The levels that the scheme had.
    pub levels: LevelBytes,
    /// What happened; without the shares of every interval.
    pub report: Report,
}

/// How far a comparison is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareProgress {
    /// The traces are being read; this many requests so far.
    Reading(u64),
    /// The different blocks of the traces are being counted, to know how much memory replays may take; this many requests
    /// so far.
    Counting(u64),
    /// A scheme needs to know what comes next: what is kept in memory for it.
    ReadingFuture {
        /// Bytes of the traces.
        traces_bytes: u64,
        /// Bytes of their future.
        future_bytes: u64,
    },
    /// Replays: requests done of all cells, and of how many where that is known.
    Replaying {
        /// Done.
        requests: u64,
        /// In all; 0 when not known, as the traces do not fit the memory.
        of_requests: u64,
        /// Cells that are finished.
        cells: usize,
    },
}

/// Compares. `open` starts the traces anew each time it is called. `progress` hears from all threads.
///
/// # Errors
/// [`PlanError::Request`] for an empty or too large grid, and for a scheme that has none of the levels it uses;
/// [`PlanError::ReplayMemory`] before any replay begins; [`PlanError::Replay`], also for a scheme that needs to know more of who
/// asks than the traces tell.
pub fn compare(
    open: &(dyn Fn() -> Result<Merge, TraceError> + Sync),
    options: &CompareOptions,
    progress: &(dyn Fn(CompareProgress) + Sync),
) -> Result<Vec<Cell>, PlanError> {
    let grid = grid(options)?;
    let mut read = 0;
    let merge = open()?;
    for (_, settings) in options.schemes.as_slice() {
        let info = SchemeInfo::find(settings.scheme()).map_err(ReplayError::from)?;
        info.check_origins(settings, merge.recorded().origins, RequestSource::Trace)
            .map_err(ReplayError::from)?;
    }
    let recording = Recording::of(merge, options.memory_bytes, &mut |_, requests| {
        read += requests as u64;
        progress(CompareProgress::Reading(read));
    })?;
    let future = record_future(&grid, recording.as_ref(), options.memory_bytes, progress)?;
    let names = match &recording {
        Some(recording) => recording.vm_names().to_vec(),
        None => vm_names(open()?, progress)?,
    };
    options.planned.iter().try_for_each(|planned| planned.check_vms(&names))?;
    let known_vms = names.len();
    let of_requests = recording.as_ref().map_or(0, |recording| (recording.requests() * grid.len()) as u64);
    let needs_bytes = needs(&grid, recording.as_ref(), open, known_vms, options, progress)?;
    let mut held = Held { recording, future };
    let threads = held.fit(&grid, &needs_bytes, options)?;
    let meter = Meter { progress, of_requests, done: Mutex::default() };
    let run = |job: &Job| match &held.recording {
        Some(recording) => run_cell(recording.play(), job, known_vms, held.future.as_ref(), &meter),
        None => run_cell(open()?, job, known_vms, None, &meter),
    };
    in_parallel(&grid, threads, run)
}

/// Bytes that the tables of each replay take at most. The different blocks are only counted where it matters.
fn needs(
    grid: &[Job],
    recording: Option<&Recording>,
    open: &dyn Fn() -> Result<Merge, TraceError>,
    known_vms: usize,
    options: &CompareOptions,
    progress: &(dyn Fn(CompareProgress) + Sync),
) -> Result<Vec<u64>, PlanError> {
    let with = |distinct_blocks: &[u64]| -> Vec<u64> {
        grid.iter().map(|job| most_memory_bytes(&job.options, distinct_blocks)).collect()
    };
    let held_bytes = recording.map_or(0, Recording::memory_bytes);
    let by_levels = with(&vec![u64::MAX; known_vms]);
    if at_once(&by_levels, options.threads, options.memory_bytes.saturating_sub(held_bytes))
        >= options.threads
    {
        return Ok(by_levels);
    }
    let mut counted = 0;
    let mut count = |requests: usize| {
        counted += requests as u64;
        progress(CompareProgress::Counting(counted));
    };
    let distinct_blocks = match recording {
        Some(recording) => {
            count_distinct_blocks(recording.play(), options.block_size, &mut |_, requests| count(requests))
        }
        None => count_distinct_blocks(open()?, options.block_size, &mut |_, requests| count(requests)),
    };
    Ok(with(&distinct_blocks?))
}

/// What is kept in memory while replays run.
struct Held {
    recording: Option<Recording>,
    future: Option<Future>,
}

impl Held {
    fn memory_bytes(&self) -> u64 {
        let recording = self.recording.as_ref().map_or(0, Recording::memory_bytes);
        recording + self.future.as_ref().map_or(0, Future::memory_bytes)
    }

    /// How many replays may run at the same time. The traces are let go where not even one fits beside them.
    fn fit(
        &mut self,
        grid: &[Job],
        needs_bytes: &[u64],
        options: &CompareOptions,
    ) -> Result<usize, PlanError> {
        let left_bytes = |held: &Held| options.memory_bytes.saturating_sub(held.memory_bytes());
        let mut threads = at_once(needs_bytes, options.threads, left_bytes(self));
        if threads == 0 && self.future.is_none() {
            self.recording = None;
            threads = at_once(needs_bytes, options.threads, left_bytes(self));
        }
        let most = grid.iter().zip(needs_bytes).max_by_key(|(_, bytes)| **bytes);
        match most {
            Some((job, bytes)) if threads == 0 => Err(PlanError::ReplayMemory {
                scheme: options.schemes.as_slice()[job.scheme].0.clone(),
                levels: job.levels.in_words(),
                needed_bytes: bytes.saturating_add(self.memory_bytes()),
                limit_bytes: options.memory_bytes,
            }),
            _ => Ok(threads),
        }
    }
}

/// The future, if a scheme needs it; it has the memory that the traces left.
fn record_future(
    grid: &[Job],
    recording: Option<&Recording>,
    memory_bytes: u64,
    progress: &(dyn Fn(CompareProgress) + Sync),
) -> Result<Option<Future>, PlanError> {
    let Some(job) = grid.iter().find(|job| job.needs_future) else { return Ok(None) };
    let too_large = || ReplayError::FutureTooLarge {
        scheme: job.options.settings.scheme().to_owned(),
        most_bytes: memory_bytes,
    };
    let recording = recording.ok_or_else(too_large)?;
    let traces_bytes = recording.memory_bytes();
    let left_bytes = memory_bytes.saturating_sub(traces_bytes);
    let future = Future::of(recording, &job.options, left_bytes)?.ok_or_else(too_large)?;
    progress(CompareProgress::ReadingFuture { traces_bytes, future_bytes: future.memory_bytes() });
    Ok(Some(future))
}

/// VMs of traces that do not fit the memory, in a pass of its own.
fn vm_names(mut merge: Merge, progress: &dyn Fn(CompareProgress)) -> Result<Vec<String>, TraceError> {
    let (mut batch, mut read) = (Vec::new(), 0);
    while merge.next_batch(&mut batch)? > 0 {
        read += batch.len() as u64;
        progress(CompareProgress::Reading(read));
    }
    Ok(merge.vm_names())
}

struct Job {
    scheme: usize,
    size: usize,
    levels: LevelBytes,
    needs_future: bool,
    options: Options,
}

/// Every cell, with everything checked that can be checked before the traces are read.
fn grid(options: &CompareOptions) -> Result<Vec<Job>, PlanError> {
    let schemes = options.schemes.as_slice();
    let cells = schemes.len().saturating_mul(options.sizes.len());
    if !(1..=MAX_CELLS).contains(&cells) {
        return Err(PlanError::Request(format!(
            "A comparison has 1 to {MAX_CELLS} pairs of scheme and size, and this one {cells}; name schemes and sizes"
        )));
    }
    let mut jobs = Vec::with_capacity(cells);
    for (scheme, (name, settings)) in schemes.iter().enumerate() {
        let info = SchemeInfo::find(settings.scheme()).map_err(ReplayError::from)?;
        for (size, wanted) in options.sizes.iter().enumerate() {
            let (levels, shares) = match &options.planned {
                Some(planned) => {
                    let (levels, shares) = planned.of_scheme(info, &options.host)?;
                    (levels, Some(shares))
                }
                None => (levels_of(name, info, *wanted)?, None),
            };
            let mut physical = Quota::default();
            for level in Level::ALL {
                physical = physical.with(level, level_blocks(level, levels.of(level), options.block_size)?);
            }
            info.check_needs(physical).map_err(ReplayError::from)?;
            let settings = settings.clone();
            let options = Options {
                settings: if shares.is_some() { settings.without_sizing() } else { settings },
                physical,
                block_size: options.block_size,
                host: options.host.clone(),
                shares,
                daily_ssd_bytes: None,
            };
            jobs.push(Job { scheme, size, levels, needs_future: info.needs_future(), options });
        }
    }
    Ok(jobs)
}

/// Of the levels that are wanted, those that the scheme called `name` uses.
fn levels_of(name: &str, info: &SchemeInfo, wanted: LevelBytes) -> Result<LevelBytes, PlanError> {
    let used = |level, bytes| if info.levels.contains(&level) { bytes } else { 0 };
    let levels = LevelBytes {
        dram_bytes: used(Level::Dram, wanted.dram_bytes),
        ssd_bytes: used(Level::Ssd, wanted.ssd_bytes),
        read_ssd_bytes: used(Level::ReadSsd, wanted.read_ssd_bytes),
    };
    if levels == LevelBytes::default() {
        let names: Vec<_> = info.levels.iter().map(|level| format!("--{}", level.name())).collect();
        return Err(PlanError::Request(format!(
            "{name} has no level to work with; give it {}",
            names.join(" or ")
        )));
    }
    Ok(levels)
}

/// Adds up what all threads have done.
struct Meter<'a> {
    progress: &'a (dyn Fn(CompareProgress) + Sync),
    of_requests: u64,
    /// Requests and cells.
    done: Mutex<(u64, usize)>,
}

impl Meter<'_> {
    fn add(&self, requests: usize, cells: usize) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.0 += requests as u64;
        done.1 += cells;
        let (requests, cells) = *done;
        drop(done);
        (self.progress)(CompareProgress::Replaying { requests, of_requests: self.of_requests, cells });
    }
}

fn run_cell<S: RequestStream>(
    source: S,
    job: &Job,
    known_vms: usize,
    future: Option<&Future>,
    meter: &Meter<'_>,
) -> Result<Cell, PlanError> {
    let mut report =
        replay_with_future(source, &job.options, Some(known_vms), future, &mut |_, requests| {
            meter.add(requests, 0);
        })?;
    report.vms.iter_mut().for_each(|vm| vm.intervals = Vec::new());
    meter.add(0, 1);
    Ok(Cell { scheme: job.scheme, size: job.size, levels: job.levels, report })
}
