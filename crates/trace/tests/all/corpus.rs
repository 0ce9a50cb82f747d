//! Every file of the fuzz targets' corpora as an ordinary test, and that every format has a target and a corpus.

use std::fs;
use std::path::Path;

use lode_testdata::{check_corpus, targets};
use lode_trace::formats;

#[path = "../../../../fuzz/src/trace.rs"]
mod invariants;

/// Good files are whole traces, bad ones have bad records.
#[test]
fn every_file_of_the_corpus() {
    for format in formats() {
        check_corpus(format.name, |bytes| {
            let outcome = invariants::check(format.name, bytes);
            outcome.error.is_none() && !outcome.requests.is_empty()
        });
    }
}

#[test]
fn every_format_has_a_target() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fuzz_targets"));
    let targets = targets();
    for name in formats().map(|format| format.name) {
        assert!(targets.iter().any(|target| target == name), "{name}");
        let target = folder.join(format!("{}.rs", name.replace('-', "_")));
        let text =
            fs::read_to_string(&target).unwrap_or_else(|error| panic!("{}: {error}", target.display()));
        assert!(text.contains(&format!("check(\"{name}\", data)")), "{name}");
    }
}
