//! TICA's cache write factor as a report has it, and the workloads of its Table 2.

use std::path::Path;

use lode_policy::{CounterReport, Counters, SsdWrites};
use lode_trace::synth::builtin;
use serde_json::Value;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/vectors.json");

/// The worked examples; `None` without the file.
fn vectors() -> Option<Value> {
    let Ok(text) = std::fs::read_to_string(PATH) else {
        println!("skipped: ../shared is absent");
        return None;
    };
    Some(serde_json::from_str(&text).expect("vectors.json is JSON"))
}

/// That of this name.
fn vector(key: &str) -> Option<Value> {
    let vector = vectors()?[key].take();
    assert!(!vector.is_null(), "{key} is not in {PATH}");
    Some(vector)
}

#[test]
fn the_cache_write_factor_is_that_of_equation_1() {
    let Some(vector) = vector("tica_cwf") else { return };
    let examples = vector["examples"].as_array().expect("examples");
    assert!(!examples.is_empty());
    for example in examples {
        let count = |key: &str| example[key].as_u64().expect("a count");
        // Whatever wrote them.
        let writes = count("writes_ssd");
        let ssd_writes = SsdWrites { write: writes / 2, fill: (writes + 1) / 4, ..SsdWrites::default() };
        let read_ssd_writes = writes - ssd_writes.total();
        let block_writes = count("writes_workload");
        let counters = Counters { ssd_writes, read_ssd_writes, block_writes, ..Counters::default() };
        assert_eq!(CounterReport::from(&counters).cwf, example["expected"].as_f64(), "{example}");
    }
}

/// The counts of Table 2, from which some of its percentages do not follow, are those of the built-in profiles.
#[test]
fn every_workload_of_table_2_has_its_profile() {
    let Some(vector) = vector("tica_table2") else { return };
    let rows = vector.as_array().expect("rows");
    assert_eq!(rows.len(), 17);
    for row in rows {
        let name = row["workload"].as_str().expect("a name").to_lowercase();
        // Printed so, but with the counts of another volume.
        let name = if name == "src1_2" { "src1_2-tica".to_owned() } else { name };
        let profile = builtin(&name).expect("a good profile").unwrap_or_else(|| panic!("no profile {name}"));
        let count = |key: &str| row[key].as_u64().expect("a count");
        assert_eq!(profile.requests, count("requests"), "{name}");
        let reads = profile.read_share * profile.requests as f64;
        assert!((reads - count("reads") as f64).abs() < 0.5, "{name}: {reads} reads");
        assert_eq!(count("reads") + count("writes"), count("requests"), "{name}");
        let percent = row["read_pct_from_counts"].as_f64().expect("a share");
        assert!((100.0 * profile.read_share - percent).abs() < 0.006, "{name}");
    }
}

fn sources_within(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            sources_within(&entry, text);
        } else if entry.extension().is_some_and(|end| end == "rs") {
            text.push_str(&std::fs::read_to_string(&entry).expect("a source file"));
        }
    }
}

/// Every worked example is read by some test of the workspace, by its name or, those beginning with "extra_", by that.
#[test]
fn no_worked_example_is_left_out() {
    let Some(all) = vectors() else { return };
    let mut tests = String::new();
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for entry in std::fs::read_dir(crates).expect("a folder") {
        let tests_of_crate = entry.expect("an entry").path().join("tests");
        if tests_of_crate.is_dir() {
            sources_within(&tests_of_crate, &mut tests);
        }
    }
    let examples = all.as_object().expect("examples by name").keys().filter(|key| !key.starts_with('_'));
    let is_read = |key: &str| tests.contains(&format!("\"{key}\"")) || key.starts_with("extra_");
    let unread: Vec<&String> = examples.filter(|key| !is_read(key)).collect();
    assert!(unread.is_empty(), "{unread:?}");
}
