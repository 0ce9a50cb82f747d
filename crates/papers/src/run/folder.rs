//! The user's own copies of the original traces: which of them are what they are named after. It must not know experiments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_dir;
use std::path::{Path, PathBuf};

use lode_trace::{ReadOptions, Reader, open_trace};
use lode_types::RequestOp;
use serde::Serialize;

use super::published::{PUBLISHED, Verdict, judge, published};
use crate::error::PapersError;

/// What was found in the folder.
#[derive(Clone, Debug, Serialize)]
pub struct Folder {
    /// The folder.
    pub path: PathBuf,
    /// Volumes that were looked for, by the names that files should have.
    pub looked_for: Vec<&'static str>,
    /// Files that are named after one of them.
    pub found: Vec<FoundTrace>,
    /// Files that are named after a known volume which nothing that is run needs.
    pub not_needed: Vec<PathBuf>,
    /// Files with other names.
    pub other_files: usize,
}

/// A file that is named after a volume.
#[derive(Clone, Debug, Serialize)]
pub struct FoundTrace {
    /// The volume.
    pub volume: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Its requests; none where it could not be read.
    pub requests: Option<u64>,
    /// Share of them that read.
    pub read_share: Option<f64>,
    /// What came of it.
    pub verdict: Verdict,
}

impl Folder {
    /// Looks through the folder for files named after the volumes that the profiles `needed` stand for, and reads each
    /// to its end. `progress` hears of every file before it is read.
    ///
    /// # Errors
    /// [`PapersError::Folder`]. A trace that cannot be read is no error: it is not used.
    pub fn look(
        path: &Path,
        needed: &BTreeSet<&'static str>,
        progress: &dyn Fn(&Path),
    ) -> Result<Folder, PapersError> {
        let in_folder = |source| PapersError::Folder { path: path.to_owned(), source };
        let looked_for: Vec<_> =
            PUBLISHED.iter().filter(|one| needed.contains(one.profile())).map(|one| one.volume).collect();
        let mut files = Vec::new();
        for entry in read_dir(path).map_err(in_folder)? {
            files.push(entry.map_err(in_folder)?.path());
        }
        files.retain(|file| file.is_file());
        files.sort();
        let mut folder = Folder {
            path: path.to_owned(),
            looked_for,
            found: Vec::new(),
            not_needed: Vec::new(),
            other_files: 0,
        };
        for file in files {
            let Some(volume) = volume_of(&file) else {
                folder.other_files += 1;
                continue;
            };
            if !folder.looked_for.contains(&volume) {
                folder.not_needed.push(file);
                continue;
            }
            let is_there =
                |one: &FoundTrace| one.volume == volume && matches!(one.verdict, Verdict::Used { .. });
            let twice = folder.found.iter().find(|one| is_there(one)).map(|one| one.path.clone());
            progress(&file);
            folder.found.push(match twice {
                Some(first) => unusable(
                    volume,
                    file,
                    format!("{} is that volume already; keep one of them there", first.display()),
                ),
                None => looked_at(volume, file),
            });
        }
        Ok(folder)
    }

    /// The trace of each profile's volume, by the profile's name.
    pub fn by_profile(&self) -> BTreeMap<&'static str, PathBuf> {
        let used = self.found.iter().filter(|one| matches!(one.verdict, Verdict::Used { .. }));
        used.filter_map(|one| Some((published(one.volume)?.profile(), one.path.clone()))).collect()
    }

    /// What was looked for, found and used, in sentences.
    pub fn in_words(&self) -> Vec<String> {
        let mut words = vec![self.looked_in_words()];
        if !self.not_needed.is_empty() {
            words.push(format!("No figure here needs these volumes: {}", names(&self.not_needed)));
        }
        match self.other_files {
            0 => {}
            1 => words.push("1 file is named after no known volume and stands for none".to_owned()),
            files => words.push(format!("{files} files are named after no known volume and stand for none")),
        }
        words.extend(self.found.iter().map(FoundTrace::in_words));
        words
    }

    fn looked_in_words(&self) -> String {
        let Some(first) = self.looked_for.first() else {
            return format!(
                "Looked in {}: of what is run here there is no trace whose figures are published (models of processes, worked examples, \
                 calculations, benchmarks), so that none can be used; profiles and models stand for all of it",
                self.path.display()
            );
        };
        let used = self.found.iter().filter(|one| matches!(one.verdict, Verdict::Used { .. })).count();
        format!(
            "Looked in {} for traces named after {} (such as {first}.csv.gz): {} found, {used} used; profiles stand for the rest",
            self.path.display(),
            self.looked_for.join(", "),
            self.found.len(),
        )
    }
}

/// The names of files, without their folder.
fn names(files: &[PathBuf]) -> String {
    let name = |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    files.iter().map(name).collect::<Vec<_>>().join(", ")
}

impl FoundTrace {
    /// Whether it is its reads alone that differ.
    fn has_published_requests(&self) -> bool {
        let known = published(self.volume).zip(self.requests);
        known.is_some_and(|(known, requests)| known.has_requests(requests))
    }

    fn in_words(&self) -> String {
        let file = self.path.display();
        let share =
            |share: Option<f64>| share.map_or("?".to_owned(), |share| format!("{:.1}", 100.0 * share));
        let counts = format!("{} requests, {} % reads", self.requests.unwrap_or(0), share(self.read_share));
        match &self.verdict {
            Verdict::Used { source } => {
                format!("{file}: {counts}, as published of {} ({source})", self.volume)
            }
            Verdict::WrongVolume { is } => {
                format!("{file} is not {} but {is} ({counts}); not used: give it its own name", self.volume)
            }
            Verdict::OtherFigures { read_share, source, .. } if self.has_published_requests() => format!(
                "{file} has as many requests as {} and another share of reads: {counts}, published are {} % ({source}); not used: \
                 get the volume as it was published",
                self.volume,
                share(*read_share)
            ),
            Verdict::OtherFigures { requests, read_share, source } => format!(
                "{file} is not all of {}: {counts}, published are {requests} and {} % ({source}); not used: get the whole \
                 volume",
                self.volume,
                share(*read_share)
            ),
            Verdict::Unusable { reason } => format!("{file}: not used: {reason}"),
        }
    }
}

/// The volume that a file is named after: up to the first dot, whatever its case.
pub(crate) fn volume_of(file: &Path) -> Option<&'static str> {
    let name = file.file_name()?.to_str()?;
    published(name.split('.').next()?).map(|one| one.volume)
}

fn unusable(volume: &'static str, path: PathBuf, reason: String) -> FoundTrace {
    FoundTrace { volume, path, requests: None, read_share: None, verdict: Verdict::Unusable { reason } }
}

fn looked_at(volume: &'static str, path: PathBuf) -> FoundTrace {
    let counted = open_trace(&path, &ReadOptions::default()).and_then(counts);
    let (requests, reads, volumes) = match counted {
        Ok(counts) => counts,
        Err(error) => return unusable(volume, path, format!("{error}; correct it, or get another copy")),
    };
    if volumes.len() > 1 {
        let reason = format!("it has {} volumes; split it with lode trace split", volumes.len());
        return unusable(volume, path, reason);
    }
    let known = published(volume).expect("volumes are named after published ones");
    let verdict = judge(known, volumes.first().map(String::as_str), requests, reads);
    let read_share = (requests > 0).then(|| reads as f64 / requests as f64);
    FoundTrace { volume, path, requests: Some(requests), read_share, verdict }
}

/// Requests, reads among them, and volumes.
fn counts(mut reader: Reader) -> Result<(u64, u64, Vec<String>), lode_trace::TraceError> {
    let (mut requests, mut reads, mut batch) = (0, 0, Vec::new());
    while reader.next_batch(&mut batch)? > 0 {
        for request in &batch {
            let is_read = request.op == RequestOp::Read;
            requests += u64::from(is_read || request.op == RequestOp::Write);
            reads += u64::from(is_read);
        }
    }
    Ok((requests, reads, reader.volumes().to_vec()))
}
