//! That no worked example is left out: every key of testdata/vectors.json, inner ones too, is named by a test that reads its
//! example, or stands here with the reason why none does.

use std::path::Path;

use serde_json::Value;

use lode_testdata::vectors;

/// Keys of what is said about an example, in words.
const PROSE: [&str; 8] = ["note", "source", "unit", "formula", "verdict", "model", "grow", "shrink"];

const BUILT: &str = "its test puts the name together";
const ALL_OF_THEM: &str = "its test goes through all of them";
const SCRIPT: &str = "prose; its test has it as the processes' scripts";
const OF_A_TESTBED: &str = "came out of the paper's machines and traces, which are not here; the schemes' pages have what \
                            was measured with the traces that are";

/// Keys that no test names, by their path without list positions; `*` is any key, and what is below goes with it.
const NOT_NAMED: &[(&str, &str)] = &[
    ("*.expected.RO_exact", BUILT),
    ("*.expected.WBWO_exact", BUILT),
    ("tica_energy_eq2.input.*", BUILT),
    ("etica_eq3_ppc.literal_ppc.*", ALL_OF_THEM),
    ("etica_eq3_ppc.sum_hit_ratio.*", ALL_OF_THEM),
    ("etica_eq3_ppc.single_vm_H_over_c.*", ALL_OF_THEM),
    ("tica_partition.literal_after_n_grow_events.*", ALL_OF_THEM),
    ("rpac_trace.region_popularity.*", ALL_OF_THEM),
    ("rpac_table2_overlap.*", ALL_OF_THEM),
    ("aet_cyclic.miss_ratio.*", ALL_OF_THEM),
    ("reqorient_table3.rows.*", ALL_OF_THEM),
    ("reqorient_fig3.events", SCRIPT),
    ("headlines.ETICA", OF_A_TESTBED),
    ("headlines.ECI_abstract", OF_A_TESTBED),
    ("headlines.TICA", OF_A_TESTBED),
    ("headlines.RPAC", OF_A_TESTBED),
    ("headlines.REQ", OF_A_TESTBED),
];

/// The files below `folder`, as text; but this one, which names keys to say that they are not read.
fn sources_within(folder: &Path, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            sources_within(&entry, texts);
        } else if entry.extension().is_some_and(|end| end == "rs") && !entry.ends_with("vector_keys.rs") {
            texts.push(std::fs::read_to_string(&entry).expect("a source file"));
        }
    }
}

fn tests_of_all_crates() -> Vec<String> {
    let mut texts = Vec::new();
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for entry in std::fs::read_dir(crates).expect("a folder") {
        let tests_of_crate = entry.expect("an entry").path().join("tests");
        if tests_of_crate.is_dir() {
            sources_within(&tests_of_crate, &mut texts);
        }
    }
    texts
}

/// Every path of keys below `value`.
fn paths_below(value: &Value, path: &[&str], found: &mut Vec<Vec<String>>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let path = [path, &[key]].concat();
                found.push(path.iter().map(|&key| key.to_owned()).collect());
                paths_below(inner, &path, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| paths_below(inner, path, found)),
        _ => {}
    }
}

fn matches(pattern: &str, path: &[String]) -> bool {
    let parts: Vec<&str> = pattern.split('.').collect();
    parts.len() <= path.len() && parts.iter().zip(path).all(|(part, key)| *part == "*" || part == key)
}

#[test]
fn no_worked_example_is_left_out() {
    let all = vectors();
    let tests = tests_of_all_crates();
    let names = |text: &String, key: &str| text.contains(&format!("\"{key}\""));
    let mut unnamed = Vec::new();
    for (example, value) in all.as_object().expect("examples by name") {
        if example.starts_with('_') {
            continue;
        }
        // Those beginning with "extra_" are read by that.
        let known_as = if example.starts_with("extra_") { "extra_" } else { example };
        let readers: Vec<&String> = tests.iter().filter(|text| names(text, known_as)).collect();
        assert!(!readers.is_empty(), "no test reads {example}");
        let mut paths = Vec::new();
        paths_below(value, &[example], &mut paths);
        let is_named = |key: &str| PROSE.contains(&key) || readers.iter().any(|text| names(text, key));
        unnamed.extend(paths.into_iter().filter(|path| !path.last().is_some_and(|key| is_named(key))));
    }
    for (pattern, why) in NOT_NAMED {
        assert!(unnamed.iter().any(|path| matches(pattern, path)), "{pattern} ({why}) is named by now");
    }
    unnamed.retain(|path| !NOT_NAMED.iter().any(|(pattern, _)| matches(pattern, path)));
    assert!(unnamed.is_empty(), "{unnamed:?}");
}
