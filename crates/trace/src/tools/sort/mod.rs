//! Sorting of traces that do not fit memory: sorted runs in a temporary file, merged in one pass or more (external
//! merge sort: Knuth, The Art of Computer Programming, volume 3, section 5.4, -like). It is stable. It must not know
//! formats.

mod merge;
mod runs;

use std::path::{Path, PathBuf};

use lode_types::TraceRequest;

use self::merge::RunMerge;
use self::runs::{RUN_MEMORY_BYTES, RunFile, SortedRun};
use super::naming::Naming;
use crate::compact::Recorded;
use crate::error::{ErrorKind, TraceError};
use crate::limits::{BATCH_REQUESTS, MAX_SORT_FAN_IN, MIN_SORT_MEMORY_BYTES};
use crate::reader::Reader;

/// What to sort by. Equals keep the order in which they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortBy {
    /// Time.
    Time,
    /// Volume, in order of appearance.
    Volume,
}

impl SortBy {
    #[inline(always)]
    fn key(self, request: &TraceRequest) -> u64 {
        match self {
            SortBy::Time => request.time_ns,
            SortBy::Volume => request.volume.into(),
        }
    }
}

/// How far the sorting is after everything was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortProgress {
    /// Requests merged so far; one that is merged several times counts several times.
    pub done: u64,
    /// The same at the end.
    pub total: u64,
}

/// What fits the memory.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Requests sorted at once.
    run_requests: usize,
    /// Runs merged at once, at least two.
    fan_in: usize,
}

/// Takes in traces to be sorted. Volumes of one name in several traces become one volume.
#[derive(Debug)]
pub struct Sorter {
    by: SortBy,
    folder: PathBuf,
    limits: Limits,
    volumes: Naming,
    /// Requests of each volume.
    counts: Vec<u64>,
    inputs: usize,
    recorded: Option<Recorded>,
    requests: u64,
    buffer: Vec<TraceRequest>,
    spilled: Option<Spilled>,
}

/// What is in the temporary file.
#[derive(Debug)]
struct Spilled {
    file: RunFile,
    runs: Vec<SortedRun>,
    last_key: u64,
}

impl Sorter {
    /// A sorter that takes `memory_bytes` for requests, and puts what does not fit them into a temporary file in `folder`
    /// that is removed in any case. It takes about 8 bytes a request, twice that while it merges more than once.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] for less memory than [`MIN_SORT_MEMORY_BYTES`].
    pub fn new(by: SortBy, folder: &Path, memory_bytes: u64) -> Result<Sorter, TraceError> {
        if memory_bytes < MIN_SORT_MEMORY_BYTES {
            let message =
                format!("{memory_bytes} bytes are too little memory to sort with; give 1 MiB or more");
            return Err(TraceError::new(ErrorKind::Limit, folder, message));
        }
        let memory_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        // The standard library's stable sort may take as much memory as what it sorts.
        let run_requests = memory_bytes / size_of::<TraceRequest>() / 2;
        let fan_in = (memory_bytes / RUN_MEMORY_BYTES).clamp(2, MAX_SORT_FAN_IN);
        Ok(Sorter::with_limits(by, folder, Limits { run_requests, fan_in }))
    }

    fn with_limits(by: SortBy, folder: &Path, limits: Limits) -> Sorter {
        Sorter {
            by,
            folder: folder.to_owned(),
            limits,
            volumes: Naming::default(),
            counts: Vec::new(),
            inputs: 0,
            recorded: None,
            requests: 0,
            buffer: Vec::new(),
            spilled: None,
        }
    }

    /// Reads a whole trace. `progress` is called after each batch.
    ///
    /// # Errors
    /// Those of [`Reader::next_batch`]; [`ErrorKind::TooManyVolumes`]; [`ErrorKind::Io`] for the temporary file.
    pub fn read(&mut self, reader: &mut Reader, mut progress: impl FnMut(&Reader)) -> Result<(), TraceError> {
        let mut batch = Vec::new();
        let mut numbers = Vec::new();
        while reader.next_batch(&mut batch)? > 0 {
            self.number_volumes(reader, &mut numbers)?;
            for request in &mut batch {
                request.volume = numbers[request.volume as usize];
                self.counts[request.volume as usize] += 1;
            }
            let mut rest = &batch[..];
            while !rest.is_empty() {
                let remaining = (self.limits.run_requests - self.buffer.len()).min(rest.len());
                self.buffer.extend_from_slice(&rest[..remaining]);
                rest = &rest[remaining..];
                if self.buffer.len() == self.limits.run_requests {
                    self.spill()?;
                }
            }
            self.requests += batch.len() as u64;
            progress(reader);
        }
        // A trace may name volumes that it has no request of.
        self.number_volumes(reader, &mut numbers)?;
        self.inputs += 1;
        let recorded = reader.recorded();
        self.recorded = Some(self.recorded.map_or(recorded, |all| all.and(recorded)));
        Ok(())
    }

    /// Goes on with `numbers`: for each volume of the trace being read, its number in the output.
    fn number_volumes(&mut self, reader: &Reader, numbers: &mut Vec<u32>) -> Result<(), TraceError> {
        for (volume, name) in reader.volumes().iter().enumerate().skip(numbers.len()) {
            let number = self.volumes.number(self.inputs, volume as u32, || name.clone(), reader.path())?;
            numbers.push(number);
        }
        self.counts.resize(self.volumes.names().len(), 0);
        Ok(())
    }

    /// Writes the buffer as a run, or behind the last run if it belongs there, which is what it does in a trace that is
    /// sorted but for a few places.
    fn spill(&mut self) -> Result<(), TraceError> {
        let by = self.by;
        self.buffer.sort_by_key(|request| by.key(request));
        let (Some(first), Some(last)) = (self.buffer.first(), self.buffer.last()) else { return Ok(()) };
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => {
                none.insert(Spilled { file: RunFile::create(&self.folder)?, runs: Vec::new(), last_key: 0 })
            }
        };
        let start = spilled.file.end();
        spilled.file.append(&self.buffer)?;
        let end = spilled.file.end();
        match spilled.runs.last_mut() {
            Some(run) if spilled.last_key <= by.key(first) => run.end = end,
            _ => spilled.runs.push(SortedRun { start, end }),
        }
        spilled.last_key = by.key(last);
        self.buffer.clear();
        Ok(())
    }

    /// Ends the taking in, and merges until one pass is left, which [`Sorted::next_batch`] does. `progress` is called
    /// now and then.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] and [`ErrorKind::Checksum`] for the temporary file.
    pub fn finish(mut self, mut progress: impl FnMut(SortProgress)) -> Result<Sorted, TraceError> {
        let by = self.by;
        let mut sorted = Sorted {
            volumes: Naming::default(),
            counts: Vec::new(),
            recorded: self.recorded.unwrap_or(Recorded::TIMES),
            requests: self.requests,
            progress: SortProgress { done: 0, total: self.requests },
            runs: 0,
            temporary_bytes: 0,
            rest: Rest::Memory { requests: Vec::new(), next: 0 },
        };
        if self.spilled.is_none() {
            self.buffer.sort_by_key(|request| by.key(request));
            sorted.rest = Rest::Memory { requests: std::mem::take(&mut self.buffer), next: 0 };
        } else {
            self.spill()?;
            self.buffer = Vec::new();
        }
        if let Some(Spilled { mut file, mut runs, .. }) = self.spilled.take() {
            let fan_in = self.limits.fan_in;
            sorted.runs = runs.len() as u64;
            sorted.temporary_bytes = file.end();
            sorted.progress.total = self.requests * (1 + passes_before_last(runs.len(), fan_in));
            while runs.len() > fan_in {
                (file, runs) = merge_groups(&file, &runs, by, fan_in, &self.folder, |requests| {
                    sorted.progress.done += requests;
                    progress(sorted.progress);
                })?;
            }
            sorted.rest = Rest::Runs { merge: RunMerge::new(&file, &runs, by)?, file };
        }
        (sorted.volumes, sorted.counts) = (self.volumes, self.counts);
        Ok(sorted)
    }
}

/// Passes over all requests until at most `fan_in` runs are left.
fn passes_before_last(mut runs: usize, fan_in: usize) -> u64 {
    let mut passes = 0;
    while runs > fan_in {
        runs = runs.div_ceil(fan_in);
        passes += 1;
    }
    passes
}

/// Merges each `fan_in` neighbouring runs to one, in a new file. `progress` hears how many requests were merged since
/// it was called last.
fn merge_groups(
    file: &RunFile,
    runs: &[SortedRun],
    by: SortBy,
    fan_in: usize,
    folder: &Path,
    mut progress: impl FnMut(u64),
) -> Result<(RunFile, Vec<SortedRun>), TraceError> {
    let mut merged = RunFile::create(folder)?;
    let (mut merged_runs, mut batch) = (Vec::new(), Vec::new());
    for group in runs.chunks(fan_in) {
        let start = merged.end();
        let mut merge = RunMerge::new(file, group, by)?;
        loop {
            merge.next_batch(file, &mut batch)?;
            if batch.is_empty() {
                break;
            }
            merged.append(&batch)?;
            progress(batch.len() as u64);
        }
        merged_runs.push(SortedRun { start, end: merged.end() });
    }
    Ok((merged, merged_runs))
}

/// Requests in their order.
#[derive(Debug)]
pub struct Sorted {
    volumes: Naming,
    counts: Vec<u64>,
    recorded: Recorded,
    requests: u64,
    progress: SortProgress,
    runs: u64,
    temporary_bytes: u64,
    rest: Rest,
}

/// What is to come.
#[derive(Debug)]
enum Rest {
    Memory { requests: Vec<TraceRequest>, next: usize },
    Runs { file: RunFile, merge: RunMerge },
}

impl Sorted {
    /// What all traces record; see [`Reader::recorded`].
    pub fn recorded(&self) -> Recorded {
        self.recorded
    }

    /// Replaces `out` by the next requests, at most [`BATCH_REQUESTS`], and says how many; zero at the end.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] and [`ErrorKind::Checksum`] for the temporary file.
    pub fn next_batch(&mut self, out: &mut Vec<TraceRequest>) -> Result<usize, TraceError> {
        match &mut self.rest {
            Rest::Memory { requests, next } => {
                let end = requests.len().min(*next + BATCH_REQUESTS);
                out.clear();
                out.extend_from_slice(&requests[*next..end]);
                *next = end;
            }
            Rest::Runs { file, merge } => merge.next_batch(file, out)?,
        }
        self.progress.done += out.len() as u64;
        Ok(out.len())
    }

    /// Names of all volumes of all traces, in order of appearance.
    pub fn volumes(&self) -> &[String] {
        self.volumes.names()
    }

    /// Requests of each volume.
    pub fn volume_requests(&self) -> &[u64] {
        &self.counts
    }

    /// Names of the volumes that are one volume here and came from several traces.
    pub fn shared_volumes(&self) -> impl Iterator<Item = &str> {
        self.volumes.shared()
    }

    /// Requests of all traces.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Sorted runs that went to the temporary file; zero when everything fitted the memory.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Bytes of these runs.
    pub fn temporary_bytes(&self) -> u64 {
        self.temporary_bytes
    }

    /// How far the merging is.
    pub fn progress(&self) -> SortProgress {
        self.progress
    }
}

#[cfg(test)]
mod tests;
