//! A folder with traces of any name and format: which of its files are traces, and the first requests of one. It must not
//! know what becomes of them.

use std::fs::{metadata, read_dir};
use std::path::{Path, PathBuf};

use lode_replay::{InputReport, Recording, RequestStream};
use lode_trace::{Merge, MergeOptions, ReadOptions, TraceError, VmBy, open_trace};
use lode_types::{OriginFields, TraceRequest};

use crate::error::PapersError;

/// What is in a folder.
#[derive(Clone, Debug)]
pub(crate) struct Readable {
    /// Files in it.
    pub files: usize,
    /// Its traces, the largest files first.
    pub traces: Vec<ReadableTrace>,
    /// Files that are not traces, or hold one that is there already, with the reason.
    pub passed_over: Vec<String>,
}

/// A file that begins as a trace does.
#[derive(Clone, Debug)]
pub(crate) struct ReadableTrace {
    /// What the trace is called: the file's name without what says how it is packed and written.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The volume of its first requests, if they have only one.
    pub volume: Option<String>,
}

impl Readable {
    /// Looks through the folder, and reads the beginning of every file.
    ///
    /// # Errors
    /// [`PapersError::Folder`]. A file that is not a trace is no error.
    pub(crate) fn look(folder: &Path) -> Result<Readable, PapersError> {
        let in_folder = |source| PapersError::Folder { path: folder.to_owned(), source };
        let mut files = Vec::new();
        let mut passed_over = Vec::new();
        for entry in read_dir(folder).map_err(in_folder)? {
            let path = entry.map_err(in_folder)?.path();
            match metadata(&path) {
                Ok(metadata) if metadata.is_file() => {
                    files.push((std::cmp::Reverse(metadata.len()), path));
                }
                Ok(_) => {}
                Err(error) => passed_over.push(format!("{}: {error}", path.display())),
            }
        }
        files.sort();
        passed_over.sort();
        let mut found = Readable { files: files.len(), passed_over, traces: Vec::new() };
        let mut is_hint_given = false;
        for (_, path) in files {
            match begun(&path) {
                Ok(Some(trace)) if found.traces.iter().any(|one| one.name == trace.name) => {
                    found.passed_over.push(format!("{}: another file is that trace already", path.display()));
                }
                Ok(Some(trace)) => found.traces.push(trace),
                Ok(None) => found.passed_over.push(format!("{}: it has no requests", path.display())),
                Err(error) => {
                    let mut line = error.in_list();
                    // The names of all formats, which the first line tells for all.
                    if let Some(hint) = error.hint().filter(|_| !is_hint_given) {
                        line += &format!("; {hint}");
                        is_hint_given = true;
                    }
                    found.passed_over.push(line);
                }
            }
        }
        Ok(found)
    }
}

/// What a trace is called; none where it has no requests.
fn begun(path: &Path) -> Result<Option<ReadableTrace>, TraceError> {
    let mut reader = open_trace(path, &ReadOptions::default())?;
    if reader.next_batch(&mut Vec::new())? == 0 {
        return Ok(None);
    }
    let volume = match reader.volumes() {
        [one] => Some(one.clone()),
        _ => None,
    };
    Ok(Some(ReadableTrace { name: reader.stem().to_owned(), path: path.to_owned(), volume }))
}

/// The first `requests` of a trace by time, all volumes of which are one VM; none when they take more than `most_bytes`.
///
/// # Errors
/// Those of reading it.
pub(crate) fn first_requests(
    path: &Path,
    requests: Option<u64>,
    most_bytes: u64,
) -> Result<Option<Recording>, TraceError> {
    let reader = open_trace(path, &ReadOptions::default())?;
    let options = MergeOptions { vm_by: VmBy::File, ..MergeOptions::default() };
    let merge = Merge::new(vec![reader], options)?;
    Recording::of(First { merge, left: requests.unwrap_or(u64::MAX) }, most_bytes, &mut |_, _| {})
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
