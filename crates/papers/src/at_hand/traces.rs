//! Which traces of a folder are at hand for which paper. It must not know what is run of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use lode_plan::in_parallel;
use serde::Serialize;

use super::{Together, TraceFacts, no_room};
use crate::error::PapersError;
use crate::paper::Paper;
use crate::run::readable::{Readable, ReadableTrace, first_requests};
use crate::run::{RunOptions, needed_profiles, published, volume_of};

/// What a folder has beside the papers' own traces.
#[derive(Clone, Debug, Serialize)]
pub struct AtHandTraces {
    /// The folder.
    pub path: PathBuf,
    /// Files in it.
    pub files: usize,
    /// Traces that can be used for one of the papers, by name.
    pub traces: Vec<TraceFacts>,
    /// Files that cannot, or not for all of the papers, with the reason.
    pub passed_over: Vec<String>,
    /// For each of the traces, the papers after whose workloads it is named: it is not at hand for these.
    #[serde(skip)]
    named_after: Vec<BTreeSet<&'static str>>,
}

/// Traces of which the beginning is known.
pub(super) struct Candidates {
    folder: PathBuf,
    files: usize,
    traces: Vec<(ReadableTrace, BTreeSet<&'static str>)>,
    passed_over: Vec<String>,
}

/// The papers after whose workloads a file is named.
fn named_after(path: &Path) -> BTreeSet<&'static str> {
    let Some(profile) = volume_of(path).and_then(published).map(|one| one.profile()) else {
        return BTreeSet::new();
    };
    let jobs = |paper: Paper| {
        let of_paper = crate::experiments().filter(move |one| one.paper == paper);
        of_paper.flat_map(|experiment| (experiment.jobs)()).collect::<Vec<_>>()
    };
    let papers = Paper::ALL.into_iter().filter(|paper| needed_profiles(&jobs(*paper)).contains(profile));
    papers.map(Paper::name).collect()
}

/// Why a trace that is named after one volume is not it, by the name that it bears inside.
fn contradicts_its_name(trace: &ReadableTrace) -> Option<String> {
    let volume = volume_of(&trace.path)?;
    let inside = published(trace.volume.as_deref()?)?.volume;
    let path = trace.path.display();
    (inside != volume).then(|| format!("{path} is not {volume} but {inside}: give it its own name"))
}

impl Candidates {
    /// Looks through the folder for traces that are at hand for one of these papers.
    pub(super) fn look(folder: &Path, papers: &[Paper]) -> Result<Candidates, PapersError> {
        let Readable { files, traces, mut passed_over } = Readable::look(folder)?;
        let mut candidates = Vec::new();
        for trace in traces {
            if let Some(why) = contradicts_its_name(&trace) {
                passed_over.push(why);
                continue;
            }
            let named_after = named_after(&trace.path);
            let own: Vec<_> =
                papers.iter().map(|paper| paper.name()).filter(|name| named_after.contains(name)).collect();
            if !own.is_empty() {
                let path = trace.path.display();
                passed_over.push(format!(
                    "{path}: named after a workload of {}, whose figures take it: no other trace there",
                    own.join(", ")
                ));
            }
            if own.len() < papers.len() {
                candidates.push((trace, named_after));
            }
        }
        candidates.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
        Ok(Candidates { folder: folder.to_owned(), files, traces: candidates, passed_over })
    }

    /// Reads what is run of every one of them.
    pub(super) fn read(
        self,
        most_requests: Option<u64>,
        options: &RunOptions,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<AtHandTraces, PapersError> {
        let Candidates { folder, files, traces, mut passed_over } = self;
        let done = Mutex::new(0);
        progress(0, traces.len());
        let read = in_parallel(&traces, options.threads, |(trace, _)| {
            let recording = first_requests(&trace.path, most_requests, options.memory_bytes);
            let facts = match recording {
                Ok(Some(recording)) => Ok(TraceFacts::of(&trace.name, &trace.path, &recording)),
                Ok(None) => Err(no_room(&trace.name, options.memory_bytes).to_string()),
                Err(error) => Err(error.in_list()),
            };
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            *done += 1;
            progress(*done, traces.len());
            Ok::<_, PapersError>(facts)
        })?;
        let (mut known, mut papers) = (Vec::new(), Vec::new());
        for ((trace, named_after), facts) in traces.into_iter().zip(read) {
            match facts {
                Ok(facts) if facts.block_accesses == 0 => {
                    passed_over.push(format!("{}: it neither reads nor writes", trace.path.display()));
                }
                Ok(facts) => {
                    known.push(facts);
                    papers.push(named_after);
                }
                Err(why) => passed_over.push(why),
            }
        }
        Ok(AtHandTraces { path: folder, files, traces: known, passed_over, named_after: papers })
    }
}

impl AtHandTraces {
    /// What is run of a paper: each of its traces, then those that read and write as VMs of one host, if it is about many VMs.
    pub(super) fn together(&self, paper: Paper, of_many_vms: bool) -> Vec<Together> {
        let of_paper: Vec<usize> =
            (0..self.traces.len()).filter(|&at| !self.named_after[at].contains(paper.name())).collect();
        let mut groups: Vec<Together> = of_paper.iter().map(|&at| vec![at]).collect();
        let vms: Together = of_paper.into_iter().filter(|&at| self.traces[at].reads_and_writes()).collect();
        if of_many_vms && vms.len() > 1 {
            groups.push(vms);
        }
        groups
    }

    /// Of these traces.
    pub(super) fn block_accesses(&self, together: &[usize]) -> u64 {
        together.iter().map(|&at| self.traces[at].block_accesses).sum()
    }

    /// What was looked for and found, in a sentence.
    pub fn in_words(&self) -> String {
        let files = match self.files {
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        };
        let traces = match self.traces.len() {
            0 => "none".to_owned(),
            traces => traces.to_string(),
        };
        let path = self.path.display();
        format!("Looked in {path} for traces of other workloads than the papers': {files}, {traces} of them")
    }
}
