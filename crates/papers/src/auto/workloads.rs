//! What `auto` and the single schemes are run on: every profile, and every trace of a folder. It must not know schemes.

use std::path::{Path, PathBuf};

use lode_replay::Recording;
use lode_synth::{Generator, builtins};

use super::{AutoOptions, LookedIn};
use crate::error::PapersError;
use crate::run::profile;
use crate::run::readable::{Readable, ReadableTrace, first_requests};
use crate::run::source::{Lane, Together};
use crate::workload::Length;

/// Requests of a profile in a full, a reduced and the shortest run; of a trace the first so many, and all of it in a full one.
const PROFILE_REQUESTS: u64 = 200_000;
const REDUCED_REQUESTS: u64 = 30_000;
const TINY_REQUESTS: u64 = 6_000;

/// The recordings that were looked at while benefit-density and auto were made, so that what they reach on them says less: their designs,
/// constants and mended mistakes. Every profile was as well. `docs/schemes/auto.md` says what its constants are from.
const SEEN: [&str; 16] = [
    "arc-oltp",
    "arc-p3",
    "arc-p6",
    "cloudphysics-2h",
    "cloudphysics-w106-lbn",
    "disksim-ascii-14dev",
    "fiu-mail-10k",
    "hplajw-1week",
    "msr-cut-randiops-10k",
    "msr-cut-rw20_80-10k",
    "msr-hm_0-sample1k",
    "systor17-lun0-sample1k",
    "tencent-cbs-sample50k",
    "umass-financial1-first10k",
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

/// The folder's traces.
fn look(folder: &Path, chosen: &mut Chosen) -> Result<(), PapersError> {
    let Readable { files, traces, passed_over } = Readable::look(folder)?;
    chosen.folder = Some(LookedIn { path: folder.to_owned(), files, traces: traces.len() });
    let workload = |trace: ReadableTrace| Workload { name: trace.name, origin: Origin::Trace(trace.path) };
    chosen.workloads.extend(traces.into_iter().map(workload));
    chosen.passed_over = passed_over;
    Ok(())
}

impl Workload {
    pub(super) fn is_synthetic(&self) -> bool {
        matches!(self.origin, Origin::Profile(_))
    }

    /// It was looked at while the schemes were made.
    pub(super) fn was_seen(&self) -> bool {
        self.is_synthetic() || SEEN.contains(&self.name.as_str())
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
            Origin::Trace(path) => first_requests(path, requests, most_bytes)?,
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
