//! Every file of the fuzz targets' corpus as an ordinary test, and that every format has a target and a corpus.

use std::fs;
use std::path::PathBuf;

use lode_trace::formats;

#[path = "../../../../fuzz/src/lib.rs"]
mod invariants;

fn fuzz_folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz"))
}

/// Files whose names start with `good` are whole traces, the others have bad records; what the fuzzer found is named
/// `found-...` and may be either.
#[test]
fn every_file_of_the_corpus() {
    for format in formats() {
        let (mut good, mut bad) = (0, 0);
        let folder = fuzz_folder().join("corpus").join(format.name);
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry").path();
            let outcome = invariants::check(format.name, &fs::read(&path).expect("a file"));
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            let facts =
                format!("{}: {} requests, {:?}", path.display(), outcome.requests.len(), outcome.error);
            if name.starts_with("good") {
                assert!(outcome.error.is_none() && !outcome.requests.is_empty(), "{facts}");
                good += 1;
            } else if name.starts_with("bad") {
                assert!(outcome.error.is_some(), "{facts}");
                bad += 1;
            } else {
                assert!(name.starts_with("found-"), "{facts}");
            }
        }
        assert!(good > 0 && bad > 0, "{}: {good} good and {bad} bad files", format.name);
    }
}

#[test]
fn every_format_has_a_target() {
    let manifest = fs::read_to_string(fuzz_folder().join("Cargo.toml")).expect("a manifest");
    let targets = manifest.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let mut targets: Vec<_> = targets.filter(|name| *name != "lode-fuzz").map(str::to_owned).collect();
    let mut names: Vec<_> = formats().map(|format| format.name.to_owned()).collect();
    for name in &names {
        let target = fuzz_folder().join("fuzz_targets").join(format!("{}.rs", name.replace('-', "_")));
        let text =
            fs::read_to_string(&target).unwrap_or_else(|error| panic!("{}: {error}", target.display()));
        assert!(text.contains(&format!("check(\"{name}\", data)")), "{name}");
    }
    // Parquet is a feature of the crate that the targets have.
    targets.retain(|target| target != "parquet" || cfg!(feature = "parquet"));
    targets.sort_unstable();
    names.sort_unstable();
    assert_eq!(targets, names);
}
