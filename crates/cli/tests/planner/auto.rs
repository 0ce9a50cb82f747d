//! `lode size` plans for `auto`, as `lode serve` and `lode replay` run it, unless another scheme is better or is asked for.

use serde_json::Value;

use crate::common::*;

/// One VM: blocks that are read again and again and written now and then, under a stream of writes that come once.
fn hot_blocks_under_a_stream(folder: &Folder) -> String {
    let line = |at: u64| {
        let (op, block, blocks) = match at % 3 {
            0 => (if (at / 3).is_multiple_of(10) { "Write" } else { "Read" }, at / 3 * 7 % 97 * 10, 1),
            _ => ("Write", 10_000 + at * 8, 8),
        };
        let tick = 128_166_372_000_000_000 + at * 600_000_000;
        format!("{tick},one,0,{op},{},{},100\n", block * BLOCK, blocks * BLOCK)
    };
    folder.file("one.csv", (0..9000).map(line).collect::<String>())
}

const LEVELS: [&str; 4] = ["--dram", "64KiB", "--ssd", "512KiB"];

fn label(plan: &Value) -> &str {
    plan["recommended"]["label"].as_str().expect("a label")
}

#[test]
fn whoever_does_not_choose_gets_the_best_and_its_name() {
    let folder = Folder::new();
    let (trace, config) = (hot_blocks_under_a_stream(&folder), folder.path("host.toml"));
    let of = |more: &[&str]| json(&[&["size", &trace, "--config", &config][..], &LEVELS, more].concat());
    let file = || std::fs::read_to_string(&config).expect("a configuration");
    let plan = of(&[]);
    assert_eq!((label(&plan), &plan["two_levels"], &plan["mode"]), ("auto", &"auto".into(), &Value::Null));
    assert!(file().contains("scheme = \"auto\"") && !file().contains("settings"), "{}", file());
    assert_eq!(plan, of(&["--scheme", "best"]), "that is the default");
    // It takes no more time than itself with other levels, and less than all others that were replayed.
    let us = |one: &Value| real(&one["mean_latency_us"]);
    let all = list(&plan["replayed"]).iter().chain([&plan["one_level"], &plan["one_level_of_auto"]]);
    let is_beaten = |other: &Value| match other["label"] == "auto" {
        true => us(other) >= us(&plan["recommended"]),
        false => us(other) > us(&plan["recommended"]),
    };
    assert!(all.into_iter().all(is_beaten), "{plan}");
    let alone = of(&["--scheme", "auto"]);
    let schemes: Vec<&str> =
        list(&alone["replayed"]).iter().filter_map(|replayed| replayed["scheme"].as_str()).collect();
    assert_eq!((label(&alone), &schemes[..]), ("auto", &["auto"][..]));
    assert_eq!(alone["recommended"]["mean_latency_us"], list(&plan["replayed"])[0]["mean_latency_us"]);
    // A replay of its own says the same.
    let share = &plan["recommended"]["vms"][0]["share"];
    let bytes = |level: &str| (whole(&share[level]) * BLOCK).to_string();
    let (dram, ssd) = (bytes("dram_blocks"), bytes("ssd_blocks"));
    let replayed = json(&["replay", &trace, "--dram", &dram, "--ssd", &ssd]);
    assert_eq!(replayed["total"]["mean_latency_us"], plan["recommended"]["mean_latency_us"]);
    assert_eq!(label(&of(&["--scheme", "etica"])).split(':').next(), Some("etica"));
    assert!(file().contains("scheme = \"etica\""), "{}", file());
}

/// A loop of more blocks than the plan's money buys of SSD alone, which LRU has no hit of: with `auto` on one level that is what is
/// recommended, and the configuration has it.
#[test]
fn one_level_of_auto_is_served() {
    let folder = Folder::new();
    let line = |at: u64| {
        let tick = 128_166_372_000_000_000 + at * 600_000_000;
        format!("{tick},one,0,Read,{},{BLOCK},100\n", at * 7 % 600 * BLOCK)
    };
    let trace = folder.file("loop.csv", (0..9000).map(line).collect::<String>());
    let config = folder.path("host.toml");
    let (ssd, disk) = (folder.path("no.img"), folder.path("{vm}.img"));
    let paths = ["--config", &config, "--ssd-device", &ssd, "--backing", &disk];
    let arguments = [&["size", &trace][..], &LEVELS, &paths].concat();
    let plan = json(&arguments);
    let (recommended, told) = (&plan["recommended"], &plan["one_level_of_auto"]);
    assert_eq!(
        (label(&plan), &recommended["levels"], &told["label"]),
        ("auto", &told["levels"], &"auto".into())
    );
    assert!(whole(&recommended["levels"]["dram_bytes"]) == 0 && told["command"].is_null(), "{told}");
    for key in ["mean_latency_us", "read_hit_ratio", "wear", "host_memory", "utilisation", "cost_usd"] {
        assert_eq!(recommended[key], told[key], "{key}");
    }
    let file = std::fs::read_to_string(&config).expect("a configuration");
    assert!(file.contains("scheme = \"auto\"") && !file.contains("settings"), "{file}");
    let checked = json(&["serve", "--check", &config]);
    assert_eq!(recommended["host_memory"]["tables_bytes"], checked["together"]["tables_bytes"]);
    // A replay of the level alone says the same, and so do words and page.
    let bytes = (whole(&told["shares_blocks"][0]) * BLOCK).to_string();
    let replayed = json(&["replay", &trace, "--dram", "0", "--ssd", &bytes]);
    assert_eq!(replayed["total"]["mean_latency_us"], told["mean_latency_us"]);
    let page = folder.path("plan.html");
    let text = good(&[&arguments[..], &["--html", &page]].concat());
    let page = std::fs::read_to_string(&page).expect("a page");
    let sentence = told["sentence"].as_str().expect("it is better");
    assert!(text.contains(sentence) && page.contains(sentence), "{text}");
    assert!(text.contains(", replayed with auto: ") && page.contains("auto, the same money"), "{text}");
}

/// What is told of memory is what `lode serve --check` counts of the configuration, with disks that are not there.
#[test]
fn memory_is_counted_as_a_check_counts_it() {
    let folder = Folder::new();
    for trace in [hot_blocks_under_a_stream(&folder), two_vms(&folder)] {
        for scheme in ["best", "auto", "etica", "lru"] {
            let config = folder.path("host.toml");
            let (ssd, disk) = (folder.path("no.img"), folder.path("{vm}.img"));
            let paths = ["--config", &config, "--ssd-device", &ssd, "--backing", &disk, "--scheme", scheme];
            let arguments = [&["size", &trace, "--dram", "512KiB", "--ssd", "2MiB"][..], &paths].concat();
            let plan = json(&arguments);
            let checked = json(&["serve", "--check", &config]);
            let told = &plan["recommended"]["host_memory"];
            for key in ["frames_bytes", "tables_bytes"] {
                assert_eq!(told[key], checked["together"][key], "{scheme} {key}: {checked}");
            }
            let one_levels = [&plan["one_level"], &plan["one_level_of_auto"]];
            // Those of both levels have the same.
            let has_both = plan["recommended"]["levels"] == plan["levels"];
            let candidates =
                if has_both { list(&plan["replayed"]).iter().collect() } else { one_levels.to_vec() };
            let same = candidates.into_iter().filter(|one| one["label"] == plan["recommended"]["label"]);
            assert!(same.into_iter().all(|one| one["host_memory"] == *told), "{plan}");
            let tables = lode_types::show_size(whole(&told["tables_bytes"]));
            let text = good(&arguments);
            let sentence = format!(", whose tables take at most {tables} of host memory, for ");
            assert!(
                text.contains(&sentence) && text.contains(&format!(" Tables: at most {tables} ")),
                "{text}"
            );
        }
    }
}

/// Where its replay takes more memory than is allowed, the others are replayed without it.
#[test]
fn what_does_not_fit_the_memory_is_left_out_and_said() {
    let folder = Folder::new();
    let trace = folder.file("long.csv", msr_csv(&TWO, 20_000));
    let arguments =
        ["size", &trace, "--dram", "1MiB", "--ssd", "2MiB", "--sample", "size=64", "--memory", "1MiB"];
    let (text, errors) = both(&arguments);
    assert!(errors.contains("the plan is not replayed with auto: that may take "), "{errors}");
    assert!(!text.contains("Replayed with auto") && text.contains("Replayed with etica"), "{text}");
    let plan = json(&arguments);
    assert!(errors.contains(plan["not_replayed"].as_str().expect("a reason")), "{errors}");
    assert_ne!(plan["recommended"]["scheme"], "auto");
    let enough = errors.split("; --memory ").nth(1).and_then(|rest| rest.split(' ').next());
    let enough = enough.expect("an amount");
    let (text, errors) = both(&[&arguments[..9], &[enough]].concat());
    assert!(errors.is_empty() && text.contains("Replayed with auto"), "{errors}");
}

/// What a candidate had saved, and what is asked for, is what decided: both are told beside the means of the last looks.
#[test]
fn a_decision_says_what_was_saved() {
    let folder = Folder::new();
    let trace = hot_blocks_under_a_stream(&folder);
    let arguments = [&["replay", &trace, "--scheme", "auto"][..], &LEVELS].concat();
    let report = json(&arguments);
    let latest = list(&report["vms"][0]["decisions"]["latest"]);
    assert!(!latest.is_empty(), "{report}");
    let text = good(&arguments);
    for decision in latest {
        let (saved, asked) = (real(&decision["saved_turnovers"]), real(&decision["asked_turnovers"]));
        assert!(saved > asked && asked == 0.1, "another price has to save a tenth of a turnover: {decision}");
        let begin = format!("  after {} block accesses ", decision["block_accesses"]);
        let line = text.lines().find(|line| line.starts_with(&begin)).expect("its line");
        let told =
            line.split("had saved ").nth(1).and_then(|rest| rest.split(" % of a turnover, 10 % are").next());
        let told: f64 = told.expect("what was saved").parse().expect("a number");
        assert!((told - 100.0 * saved).abs() < 0.01, "{line}");
    }
}
