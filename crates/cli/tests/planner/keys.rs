//! JSON has exactly the fields that `docs/reports.md` describes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::*;

/// The part of the page under this heading.
fn section(command: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reports.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let heading = format!("## `lode {command} --json`");
    let from = page.find(&heading).expect("a section") + heading.len();
    let rest = &page[from..];
    rest[..rest.find("\n## ").unwrap_or(rest.len())].to_owned()
}

/// Names between backticks; of `{"a", "b"}`, those within.
fn named(text: &str) -> BTreeSet<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let words = quoted.flat_map(|code| code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Fields of the section's table of that number, from their first column.
fn fields(section: &str, table: usize) -> BTreeSet<String> {
    let tables: Vec<&str> = section.split("|---|---|\n").skip(1).collect();
    let rows = tables[table].lines().take_while(|line| line.starts_with('|'));
    rows.flat_map(|row| named(row.split('|').nth(1).expect("a first column"))).collect()
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap_or_else(|| panic!("{value} is no object")).keys().cloned().collect()
}

/// That a value has these fields, and the section names every one.
fn assert_keys(section: &str, value: &Value, expected: &str) {
    let expected: BTreeSet<String> = expected.split(' ').map(str::to_owned).collect();
    assert_eq!(keys(value), expected);
    let described = named(section);
    let missing: Vec<_> = expected.difference(&described).collect();
    assert!(missing.is_empty(), "{missing:?} not described");
}

const OUTCOME: &str = "block_reads block_writes dram_hits ssd_hits read_hit_ratio mean_latency_us";
const WEAR: &str = "written_bytes span_s bytes_per_day drive_writes_per_day life_years drives";

#[test]
fn of_curves() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let section = section("curve");
    for more in [&["--interval", "1000"][..], &["--scheme", "arc"], &["--sample", "aet"]] {
        let report = json(&[&["curve", &trace][..], more].concat());
        assert_eq!(keys(&report), fields(&section, 0), "{more:?}");
        assert_eq!(keys(&report["vms"][0]), fields(&section, 1), "{more:?}");
        for part in list(&report["vms"][0]["parts"]) {
            assert_keys(&section, part, "share hit_ratio standard_error");
        }
        for interval in list(&report["vms"][0]["intervals"]) {
            assert_keys(
                &section,
                interval,
                "accesses working_set_blocks max_distance blocks hit_ratio reuse_intensity_per_s",
            );
        }
    }
}

#[test]
fn of_sizes() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let section = section("size");
    let sized = json(&["size", &trace, "--dram", "512KiB", "--ssd", "2MiB", "--solver", "talus"]);
    let bought = json(&["size", &trace, "--budget", "0.01usd", "--no-replay"]);
    for report in [&sized, &bought] {
        assert_eq!(keys(report), fields(&section, 0));
        assert_keys(&section, &report["levels"], "dram_bytes ssd_bytes");
        for level in ["dram", "ssd"] {
            assert_keys(&section, &report[level], "capacity_blocks demand_blocks given_blocks solver");
            assert_keys(&section, &report["totals"][level], "sizes_bytes asked shares_blocks");
        }
        assert_keys(&section, &report["totals"], "dram ssd outcomes cost_usd ssd_writes ssd_bytes_per_day");
        let vm =
            format!("name requests demand share {OUTCOME} dram_curve ssd_curve split rate standard_error");
        assert_keys(&section, &report["vms"][0], &vm);
        assert_keys(&section, &report["vms"][0]["demand"], "dram_blocks ssd_blocks");
        assert_keys(&section, &report["vms"][0]["share"], "dram_blocks ssd_blocks");
        for outcome in [&report["total"], &report["without_cache"], &report["totals"]["outcomes"][0][0]] {
            assert_keys(&section, outcome, OUTCOME);
        }
        assert_keys(&section, &report["wear"], WEAR);
        assert_keys(&section, &report["ssd_rating"], "drive_writes_per_day years");
        let recommended = &report["recommended"];
        let fields = "label scheme settings levels cost_usd vms read_hit_ratio mean_latency_us wear utilisation reason sentence host_memory";
        assert_keys(&section, recommended, fields);
        assert_keys(&section, &recommended["vms"][0], "name share read_hit_ratio mean_latency_us");
    }
    assert_keys(&section, &sized["vms"][0]["split"], "dram ssd");
    assert_keys(&section, &sized["vms"][0]["split"]["ssd"], "smaller_blocks larger_blocks smaller_share");
    let replayed = &sized["replayed"][1];
    assert_keys(
        &section,
        replayed,
        "label scheme mode shares read_hit_ratio mean_latency_us wear utilisation host_memory",
    );
    assert_keys(&section, &replayed["host_memory"], "frames_bytes tables_bytes");
    assert_keys(&section, &replayed["wear"], WEAR);
    assert_keys(&section, &replayed["utilisation"], "ssd read_ssd backing");
    let one_level = &sized["one_level"];
    let of_level = "label levels shares_blocks by_curves cost_usd read_hit_ratio mean_latency_us wear utilisation host_memory is_faster writes_far_less sentence command";
    assert_keys(&section, one_level, of_level);
    assert_keys(&section, &one_level["wear"], WEAR);
    assert_keys(&section, &sized["one_level_of_auto"], of_level);
    assert_keys(&section, &bought["front"][0], &format!("cost_usd levels {OUTCOME} wear"));
}

#[test]
fn of_comparisons() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let section = section("compare");
    let report = json(&[
        "compare",
        &trace,
        "--schemes",
        "etica,arc",
        "--dram",
        "1MiB",
        "--ssd",
        "2MiB",
        "--baseline",
        "arc",
    ]);
    let against = &report["cells"][0]["against"];
    assert_keys(&section, against, "miss_ratio_reduction latency_reduction over_vms");
    assert_keys(&section, &against["over_vms"], "count mean p10 p50 p90");
    assert_eq!(keys(&report), fields(&section, 0));
    assert_keys(&section, &report["schemes"][0], "label scheme settings");
    assert_keys(&section, &report["sizes"][0], "dram_bytes ssd_bytes");
    let cell = "scheme size levels cost_usd drives hit_ratio read_hit_ratio mean_latency_us ssd_written_bytes \
                read_ssd_written_bytes ssd_life_years read_ssd_life_years dirty_loss_per_year energy_j cwf against vms";
    assert_keys(&section, &report["cells"][1], cell);
    let vm = "name hit_ratio read_hit_ratio mean_latency_us ssd_written_bytes read_ssd_written_bytes";
    assert_keys(&section, &report["cells"][1]["vms"][0], vm);
}

/// A number that has no meaning is null.
#[test]
fn null_where_there_is_nothing_to_divide_by() {
    let folder = Folder::new();
    let writes = folder.file("writes.csv", "128166372003061629,a,0,Write,0,4096,1\n");
    let curve = json(&["curve", &writes]);
    let vm = &curve["vms"][0];
    assert!(vm["max_distance"].is_null() && vm["reuse_intensity_per_s"].is_null(), "{vm}");
    assert_eq!((whole(&vm["blocks"]), points(&vm["curve"])), (0, vec![(0, 0.0)]));
    let plan = json(&["size", &writes, "--dram", "1MiB", "--ssd", "1MiB"]);
    assert!(plan["total"]["read_hit_ratio"].is_null() && plan["vms"][0]["read_hit_ratio"].is_null());
    for key in ["bytes_per_day", "drive_writes_per_day", "life_years"] {
        assert!(plan["wear"][key].is_null() && plan["replayed"][0]["wear"][key].is_null(), "{key}");
    }
    let compared = json(&["compare", &writes, "--schemes", "etica", "--ssd", "1MiB"]);
    for key in ["read_hit_ratio", "energy_j", "ssd_life_years"] {
        assert!(compared["cells"][0][key].is_null(), "{key}");
    }
}
