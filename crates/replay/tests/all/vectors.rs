//! TICA's cache write factor as a report has it, and the workloads of its Table 2.

use lode_policy::{CounterReport, Counters, SsdWrites};
use lode_synth::{Profile, builtin};
use lode_testdata::vector;
use serde_json::Value;

#[test]
fn the_cache_write_factor_is_that_of_equation_1() {
    let vector = vector("tica_cwf");
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
    let vector = vector("tica_table2");
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
        check_sizes(row, &profile);
        // Of some rows the printed percentages are not those of the printed counts.
        let near = |key: &str, percent: f64| (row[key].as_f64().expect("a share") - percent).abs() < 1.0;
        let follows = near("stated_read_pct", percent) && near("stated_write_pct", 100.0 - percent);
        let said = row["note"].as_str().is_some_and(|note| note.contains("percentage does not follow"));
        assert_eq!(follows, !said, "{name}");
    }
}

/// The lengths of a profile's requests are those of the row: on average, and all together, in GiB and KiB as the paper has it.
fn check_sizes(row: &Value, profile: &Profile) {
    let number = |key: &str| row[key].as_f64().expect("a number");
    let mean_of = |sizes: &[(u32, f64)]| {
        let weights: f64 = sizes.iter().map(|&(_, weight)| weight).sum();
        sizes.iter().map(|&(bytes, weight)| f64::from(bytes) * weight).sum::<f64>() / weights
    };
    let reads = profile.read_share * mean_of(&profile.sizes.read);
    let mean_bytes = reads + (1.0 - profile.read_share) * mean_of(&profile.sizes.write);
    let (name, mean_kib) = (&profile.name, mean_bytes / 1024.0);
    assert!((mean_kib - number("mean_KiB")).abs() < 0.006, "{name}: {mean_kib} KiB");
    let all_gib = mean_bytes * profile.requests as f64 / f64::from(1 << 30);
    assert!((all_gib / number("total_GB") - 1.0).abs() < 1e-6, "{name}: {all_gib} GiB");
}
