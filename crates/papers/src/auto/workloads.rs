//! What `auto` and the single schemes are run on: every profile, and every trace of a folder. It must not know schemes.

use std::fs::read_dir;
use std::path::{Path, PathBuf};

use lode_replay::{InputReport, Recording, RequestStream};
use lode_synth::{Generator, builtins};
use lode_trace::{Merge, MergeOptions, ReadOptions, TraceError, VmBy, open_trace};
use lode_types::{OriginFields, TraceRequest};

use super::{AutoOptions, LookedIn};
use crate::error::PapersError;
use crate::run::profile;
use crate::run::source::{Lane, Together};
use crate::workload::Length;

/// Requests of a profile in a full, a reduced and the shortest run; of a trace the first so many, and all of it in a full one.
const PROFILE_REQUESTS: u64 = 200_000;
const REDUCED_REQUESTS: u64 = 30_000;
const TINY_REQUESTS: u64 = 6_000;

/// What was looked at while benefit-density and auto were made, so that what they reach on it says less: their designs, constants and
/// mended mistakes. `docs/schemes/benefit-density.md` has a star for what was not, and `docs/schemes/auto.md` says what its constants are from.
const SEEN: [&str; 24] = [
    "arc-oltp",
    "arc-p3",
    "cloudphysics-2h",
    "cloudphysics-w106-lbn",
    "exchange",
    "filebench-video",
    "fiu-mail-10k",
    "hm_1",
    "hplajw-1week",
    "mds_0",
    "msnfs",
    "msr-cut-randiops-10k",
    "msr-hm_0-sample1k",
    "proj_0",
    "prxy_0",
    "src1_2",
    "src2_0",
    "ts_0",
    "umass-financial1-first10k",
    "wdev_0",
    "web_3",
    "webserver",
    "websearch-mqsim-25k",
    "ycsb-ext4",
];

/// One workload; all of it is one VM.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) name: String,
    origin: Origin,
}

#[derive(Clone, Debug)]
enum Origin {
    Profile(&'static str),
    Trace(PathBuf),
}

/// What there is to run.
pub(super) struct Chosen {
    pub(super) workloads: Vec<Workload>,
    pub(super) folder: Option<LookedIn>,
    pub(super) passed_over: Vec<String>,
}

/// Every profile and every trace, those that take longest first.
pub(super) fn choose(options: &AutoOptions) -> Result<Chosen, PapersError> {
    let mut chosen = Chosen { workloads: Vec::new(), folder: None, passed_over: Vec::new() };
    if let Some(folder) = options.traces {
        look(folder, &mut chosen)?;
    }
    let profiles =
        builtins().map(|(name, _)| Workload { name: name.to_owned(), origin: Origin::Profile(name) });
    chosen.workloads.extend(profiles);
    if let Some(only) = &options.only {
        if let Some(unknown) = only.iter().find(|name| chosen.workloads.iter().all(|one| one.name != **name))
        {
            return Err(PapersError::Request(format!(
                "There is no workload '{unknown}'; there are {}",
                chosen.workloads.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ")
            )));
        }
        chosen.workloads.retain(|one| only.contains(&one.name));
    }
    Ok(chosen)
}

/// The folder's traces, the largest files first.
fn look(folder: &Path, chosen: &mut Chosen) -> Result<(), PapersError> {
    let in_folder = |source| PapersError::Folder { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in read_dir(folder).map_err(in_folder)? {
        let entry = entry.map_err(in_folder)?;
        let metadata = entry.metadata().map_err(in_folder)?;
        if metadata.is_file() {
            files.push((std::cmp::Reverse(metadata.len()), entry.path()));
        }
    }
    files.sort();
    let count = files.len();
    for (_, path) in files {
        match first_requests(&path) {
            Ok((stem, 1..)) if chosen.workloads.iter().any(|one| one.name == stem) => {
                chosen.passed_over.push(format!("{}: another file is that trace already", path.display()));
            }
            Ok((stem, 1..)) => chosen.workloads.push(Workload { name: stem, origin: Origin::Trace(path) }),
            Ok(_) => chosen.passed_over.push(format!("{}: it has no requests", path.display())),
            Err(error) => chosen.passed_over.push(error.to_string()),
        }
    }
    chosen.folder = Some(LookedIn { path: folder.to_owned(), files: count, traces: chosen.workloads.len() });
    Ok(())
}

/// What a trace is called, and how many requests come at once.
fn first_requests(path: &Path) -> Result<(String, usize), TraceError> {
    let mut reader = open_trace(path, &ReadOptions::default())?;
    let count = reader.next_batch(&mut Vec::new())?;
    Ok((reader.stem().to_owned(), count))
}

impl Workload {
    pub(super) fn is_synthetic(&self) -> bool {
        matches!(self.origin, Origin::Profile(_))
    }

    /// It was looked at while the schemes were made.
    pub(super) fn was_seen(&self) -> bool {
        SEEN.contains(&self.name.as_str())
    }

    /// Its requests.
    pub(super) fn record(&self, options: &AutoOptions) -> Result<Recording, PapersError> {
        let most_bytes = options.memory_bytes;
        let requests = match options.length {
            Length::Tiny => Some(TINY_REQUESTS),
            Length::Reduced => Some(REDUCED_REQUESTS),
            Length::Full => None,
        };
        let recording = match &self.origin {
            Origin::Profile(name) => {
                let whole = profile(name)?;
                let wanted = requests.unwrap_or(PROFILE_REQUESTS).min(whole.requests);
                let part = whole.scaled((wanted as f64 / whole.requests as f64).min(1.0));
                let lane = Lane::made(Generator::new(&part)?, part.requests);
                Recording::of(Together::new(vec![lane])?, most_bytes, &mut |_, _| {})?
            }
            Origin::Trace(path) => {
                let reader = open_trace(path, &ReadOptions::default())?;
                let options = MergeOptions { vm_by: VmBy::File, ..MergeOptions::default() };
                let first =
                    First { merge: Merge::new(vec![reader], options)?, left: requests.unwrap_or(u64::MAX) };
                Recording::of(first, most_bytes, &mut |_, _| {})?
            }
        };
        recording.ok_or_else(|| {
            PapersError::Request(format!(
                "The requests of {} do not fit {} of memory; allow more with --memory, or leave --full out",
                self.name,
                lode_types::show_size(most_bytes)
            ))
        })
    }
}

/// The first requests of a trace.
struct First {
    merge: Merge,
    left: u64,
}

impl RequestStream for First {
    fn next_batch(&mut self, out: &mut Vec<(u32, TraceRequest)>) -> Result<usize, TraceError> {
        if self.left == 0 {
            out.clear();
            return Ok(0);
        }
        self.merge.next_batch(out)?;
        out.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= out.len() as u64;
        Ok(out.len())
    }

    fn vm_names(&self) -> Vec<String> {
        RequestStream::vm_names(&self.merge)
    }

    fn vm_inputs(&self) -> Vec<usize> {
        RequestStream::vm_inputs(&self.merge)
    }

    fn inputs(&self) -> Vec<InputReport> {
        RequestStream::inputs(&self.merge)
    }

    fn origins(&self) -> OriginFields {
        RequestStream::origins(&self.merge)
    }

    fn warnings(&self) -> Vec<String> {
        RequestStream::warnings(&self.merge)
    }
}
