//! Where tests and benches find their data: what is committed in `testdata/`, the corpora of the fuzz targets, and real
//! traces, which are too large for the repository and are read from a folder outside of it. Only tests, benches and
//! examples depend on this crate; it must not know what the data means.
//!
//! What is committed has to be there: a missing file fails the test. A real trace may be missing: the test says in one
//! line that it is skipped.

#![forbid(unsafe_code)]

mod corpus;

use std::path::{Path, PathBuf};

use serde_json::Value;

pub use corpus::{check_corpus, targets};

/// Names the folder with real traces.
const TRACES_VARIABLE: &str = "LODE_TRACES";

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

/// The folder with real traces: the one that `LODE_TRACES` names, or `../shared/traces` beside the repository. `None`, and
/// one line, where neither is there.
///
/// # Panics
/// When `LODE_TRACES` names something that is no folder: who sets it does not want the tests to be skipped.
pub fn traces() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(TRACES_VARIABLE) {
        let folder = PathBuf::from(named);
        assert!(folder.is_dir(), "{TRACES_VARIABLE} names {}, which is no folder", folder.display());
        return Some(folder);
    }
    let beside = repository().join("../shared/traces");
    if beside.is_dir() {
        return Some(beside);
    }
    println!("skipped: set {TRACES_VARIABLE} to a folder with the real traces");
    None
}

/// A real trace by its file name. `None`, and one line, where it is not there.
///
/// # Panics
/// As [`traces`].
pub fn trace(name: &str) -> Option<PathBuf> {
    let path = traces()?.join(name);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: the folder of real traces has no {name}");
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_examples_are_found() {
        assert!(vector("etica_fig5").is_object());
    }

    #[test]
    #[should_panic(expected = "has no etica_fig0")]
    fn an_unknown_example_is_an_error() {
        vector("etica_fig0");
    }
}
