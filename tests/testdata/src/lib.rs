//! Where tests and benches find their data: what is committed in `testdata/`, the corpora of the fuzz targets, and public
//! traces that cannot be committed, in a folder that `LODE_TRACES` names. Only tests, benches and examples depend on this
//! crate; it must not know what the data means.
//!
//! A test never depends on that folder: it reads committed traces, and the public ones beside them where they are.

#![forbid(unsafe_code)]

mod corpus;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub use corpus::{check_corpus, targets};

/// Names the folder with public traces.
const TRACES_VARIABLE: &str = "LODE_TRACES";
/// Set where a test that is skipped has failed, as in continuous integration.
const NO_SKIPS_VARIABLE: &str = "LODE_NO_SKIPS";

/// The committed traces: the name, the public file that the profile is fitted to, and the bytes of its unit if it states none.
const TRACES: [(&str, &str, Option<u64>); 6] = [
    ("arc-oltp", "arc-oltp.lis.zst", Some(4096)),
    ("arc-p3", "arc-p3.lis.zst", None),
    ("cloudphysics-2h", "cloudphysics-2h.vscsi.zst", None),
    ("hplajw-1week", "hplajw-1week.srt.zst", None),
    ("msr-hm_0-sample1k", "msr-hm_0-sample1k.csv.zst", None),
    ("umass-financial1-first10k", "umass-financial1-first10k.ascii.zst", None),
];

/// This repository.
fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A file of `testdata/`.
pub fn committed(name: &str) -> PathBuf {
    repository().join("testdata").join(name)
}

/// The papers' worked examples, by name.
///
/// # Panics
/// When `testdata/vectors.json` cannot be read.
pub fn vectors() -> Value {
    let path = committed("vectors.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The worked example of this name.
///
/// # Panics
/// When there is none.
pub fn vector(key: &str) -> Value {
    let vector = vectors()[key].take();
    assert!(!vector.is_null(), "testdata/vectors.json has no {key}");
    vector
}

/// A trace that tests read.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Where it is.
    pub path: PathBuf,
    /// What a block number counts, where the file does not state it.
    pub unit_bytes: Option<u64>,
}

/// The committed trace of this name, and the public one that it is like where that is there.
///
/// # Panics
/// When no committed trace has the name, and as [`public_traces`].
pub fn traces(name: &str) -> Vec<Trace> {
    let known = TRACES.iter().find(|(known, ..)| *known == name);
    let &(_, file, unit_bytes) = known.unwrap_or_else(|| panic!("testdata/traces has no {name}"));
    let committed = Trace { path: committed(&format!("traces/{name}.lode.zst")), unit_bytes: None };
    let public = public_traces().map(|folder| Trace { path: folder.join(file), unit_bytes });
    std::iter::once(committed).chain(public).collect()
}

/// The folder with public traces, if there is one: the one that `LODE_TRACES` names, or `../shared/traces` beside the
/// repository.
///
/// # Panics
/// When `LODE_TRACES` names something that is no folder.
pub fn public_traces() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(TRACES_VARIABLE) {
        let folder = PathBuf::from(named);
        assert!(folder.is_dir(), "{TRACES_VARIABLE} names {}, which is no folder", folder.display());
        return Some(folder);
    }
    Some(repository().join("../shared/traces")).filter(|beside| beside.is_dir())
}

/// Says in one line that the machine lacks what a test needs.
///
/// # Panics
/// With the reason, where `LODE_NO_SKIPS` is set.
pub fn skip(reason: impl Display) {
    assert!(std::env::var_os(NO_SKIPS_VARIABLE).is_none(), "{NO_SKIPS_VARIABLE} is set, and {reason}");
    println!("skipped: {reason}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_examples_are_found() {
        assert!(vector("etica_fig5").is_object());
    }

    #[test]
    fn every_committed_trace_is_known() {
        let files = std::fs::read_dir(committed("traces")).expect("a folder");
        let names = files.map(|file| file.expect("a file").file_name().into_string().expect("a name"));
        let mut names: Vec<_> =
            names.filter_map(|name| name.strip_suffix(".toml").map(str::to_owned)).collect();
        names.sort_unstable();
        assert_eq!(names, TRACES.map(|(name, ..)| name));
        assert!(names.iter().all(|name| traces(name)[0].path.is_file()));
    }

    #[test]
    #[should_panic(expected = "has no etica_fig0")]
    fn an_unknown_example_is_an_error() {
        vector("etica_fig0");
    }
}
