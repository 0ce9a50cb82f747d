//! What `lode size` says of one SSD level for the money of its plan.

use std::process::Command;

use serde_json::Value;

use crate::common::*;

/// Words of a command line as a shell takes them, without the program's name.
fn words(command: &str) -> Vec<String> {
    assert!(!command.contains('\''), "no word of a test needs quotes: {command}");
    command.split(' ').skip(1).map(str::to_owned).collect()
}

/// One VM that writes all over its disk and reads some of it again.
fn one_vm(folder: &Folder) -> String {
    let guest = Guest { name: "one", blocks: 3000, reads: 60 };
    folder.file("one.csv", msr_csv(&[guest], 4000))
}

fn same(one: &Value, other: &Value, key: &str) {
    assert!((real(&one[key]) / real(&other[key]) - 1.0).abs() < 1e-12, "{key}: {one} {other}");
}

/// The command that is printed is run, and shows what was said.
#[test]
fn the_command_shows_what_is_said() {
    let folder = Folder::new();
    let trace = one_vm(&folder);
    for (levels, cells) in [
        (&["--dram", "128KiB", "--ssd", "512KiB"][..], 4),
        (&["--ssd", "512KiB"], 2),
        (&["--dram", "128KiB"], 1),
        (
            &[
                "--dram",
                "256KiB",
                "--ssd",
                "1MiB",
                "--devices",
                "nvme-hdd",
                "--align",
                "start",
                "--vm-by",
                "file",
            ],
            4,
        ),
    ] {
        let plan = json(&[&["size", &trace], levels].concat());
        let instead = &plan["one_level"];
        let command = words(instead["command"].as_str().expect("one VM"));
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let shown = json(&command);
        assert_eq!(list(&shown["cells"]).len(), cells, "{levels:?}");
        let cell = |label: &str, ssd_bytes: &Value| {
            let is_it = |cell: &&Value| {
                let label_of = &shown["schemes"][whole(&cell["scheme"]) as usize]["label"];
                label_of.as_str().is_some_and(|found| found.starts_with(label))
                    && cell["levels"]["ssd_bytes"] == *ssd_bytes
            };
            list(&shown["cells"]).iter().find(is_it).cloned()
        };
        let found = cell("lru:assoc=0", &instead["levels"]["ssd_bytes"]).expect("the one level");
        for key in ["read_hit_ratio", "mean_latency_us", "cost_usd"] {
            same(&found, instead, key);
        }
        assert_eq!(found["ssd_written_bytes"], instead["wear"]["written_bytes"]);
        let planned = (whole(&plan["vms"][0]["share"]["ssd_blocks"]) * BLOCK).into();
        let Some(found) = cell(plan["two_levels"].as_str().expect("a label"), &planned) else {
            assert_eq!(planned, 0, "{levels:?}");
            continue;
        };
        let taken = list(&plan["replayed"]).iter().find(|one| one["label"] == plan["two_levels"]);
        for key in ["read_hit_ratio", "mean_latency_us"] {
            same(&found, taken.expect("it was replayed"), key);
        }
    }
}

/// All of the money is spent, and no more, and what is said follows from the figures.
#[test]
fn it_costs_what_the_plan_costs() {
    let folder = Folder::new();
    for (trace, vms) in [(one_vm(&folder), 1), (two_vms(&folder), 2)] {
        let mut sentences = 0;
        for (dram, ssd) in [("64KiB", "256KiB"), ("256KiB", "2MiB"), ("1MiB", "1MiB"), ("4MiB", "0")] {
            let arguments = ["size", &trace, "--dram", dram, "--ssd", ssd];
            let plan = json(&arguments);
            let instead = &plan["one_level"];
            let (ours, theirs) = (real(&instead["cost_usd"]), real(&plan["cost_usd"]));
            let granule =
                ours / (whole(&instead["levels"]["ssd_bytes"]) / whole(&plan["granule_bytes"])) as f64;
            assert_eq!(whole(&instead["levels"]["ssd_bytes"]) % (64 << 10), 0, "as a daemon has it");
            assert!(
                ours <= theirs * (1.0 + 1e-12) && theirs - ours < (vms as f64 + 1.0) * granule,
                "{ours} {theirs}"
            );
            assert_eq!(whole(&instead["levels"]["dram_bytes"]), 0);
            let taken = list(&plan["replayed"]).iter().find(|one| one["label"] == plan["two_levels"]);
            let taken = taken.expect("it was replayed");
            let faster = real(&instead["mean_latency_us"]) < 0.99 * real(&taken["mean_latency_us"]);
            let [ours, theirs] = [instead, taken].map(|one| whole(&one["wear"]["written_bytes"]));
            assert_eq!(
                (&instead["is_faster"], &instead["writes_far_less"]),
                (&faster.into(), &(2 * ours < theirs).into())
            );
            assert_eq!(instead["sentence"].is_string(), faster || 2 * ours < theirs, "{instead}");
            let command = instead["command"].as_str().expect("text");
            assert_eq!(command.ends_with(" --plan plan.json"), vms > 1, "{command}");
            let table = good(&arguments);
            assert!(table.contains("The same money on one SSD level of "), "{table}");
            let Some(sentence) = instead["sentence"].as_str() else { continue };
            sentences += 1;
            assert!(
                table.contains(sentence) && table.contains("To see it: lode compare") == (vms == 1),
                "{table}"
            );
            assert!(table.contains(command), "{table}");
            assert_eq!(sentence.contains("divided as suits it best"), vms > 1, "{sentence}");
            let page = folder.path("plan.html");
            good(&[&arguments[..], &["--html", &page]].concat());
            let page = std::fs::read_to_string(&page).expect("a page");
            assert!(page.contains("For the same money, one SSD level of"));
        }
        assert!(sentences > 0, "a level several times as large is faster with one of these");
    }
    let plan = json(&["size", &two_vms(&folder), "--ssd", "1MiB", "--no-replay"]);
    assert!(plan["one_level"].is_null());
}

/// The name of a trace may look like an option.
#[test]
fn the_command_to_see_it_runs_whatever_the_trace_is_called() {
    let folder = Folder::new();
    let trace = one_vm(&folder);
    std::fs::copy(trace, folder.path("-x.csv")).expect("a copy");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lode"));
        let output = command.args(arguments).current_dir(folder.root()).output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let plan = run(&["size", "--dram", "256KiB", "--ssd", "1MiB", "--json", "--", "-x.csv"]);
    let command = words(plan["one_level"]["command"].as_str().expect("text"));
    let mut command: Vec<&str> = command.iter().map(String::as_str).collect();
    command.push("--json");
    assert!(!list(&run(&command)["cells"]).is_empty());
}

/// Schemes for the money of a plan, VM by VM.
#[test]
fn a_plan_is_compared_share_by_share() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let planned = json(&["size", &trace, "--dram", "256KiB", "--ssd", "1MiB", "--vm", "db*:weight=3"]);
    let plan = folder.file("plan.json", planned.to_string());
    let command = words(planned["one_level"]["command"].as_str().expect("text"));
    let command: Vec<&str> =
        command.iter().map(|word| if word == "plan.json" { plan.as_str() } else { word }).collect();
    let compared = json(&command);
    let cells = list(&compared["cells"]);
    assert_eq!((cells.len(), &compared["sizes"][0]), (2, &planned["levels"]));
    let taken = list(&planned["replayed"]).iter().find(|one| one["label"] == planned["two_levels"]);
    for (cell, expected) in cells.iter().zip([taken.expect("it was replayed"), &planned["one_level"]]) {
        for key in ["read_hit_ratio", "mean_latency_us"] {
            same(cell, expected, key);
        }
        assert_eq!(cell["ssd_written_bytes"], expected["wear"]["written_bytes"]);
        assert_eq!(list(&cell["vms"]).len(), 2);
    }
    assert!(real(&cells[1]["cost_usd"]) <= real(&cells[0]["cost_usd"]) * (1.0 + 1e-12));
    // A scheme whose shares follow demand keeps those of the plan.
    let with =
        |scheme: &str| json(&["compare", &trace, "--schemes", scheme, "--plan", &plan])["cells"][0].clone();
    assert_eq!(with("etica:assoc=0")["mean_latency_us"], with("etica:assoc=0:sizing=off")["mean_latency_us"]);

    for (scheme, why) in [
        ("tica-ef", "tica-ef needs read SSD, and a plan has none; leave the scheme out, or give sizes"),
        ("lru,tica-wed", "tica-wed needs read SSD, and a plan has none"),
    ] {
        let message = bad(&["compare", &trace, "--schemes", scheme, "--plan", &plan], 2);
        assert!(message.contains(why) && !message.contains("--read-ssd"), "{message}");
    }
    let mut without_dram = planned.clone();
    without_dram["levels"]["dram_bytes"] = 0.into();
    let vms = without_dram["vms"].as_array_mut().expect("VMs");
    vms.iter_mut().for_each(|vm| vm["share"]["dram_blocks"] = 0.into());
    let without_dram = folder.file("without.json", without_dram.to_string());
    let message = bad(&["compare", &trace, "--schemes", "l2arc-like", "--plan", &without_dram], 2);
    assert!(message.contains("l2arc-like needs DRAM, and this plan has none"), "{message}");

    let one = one_vm(&folder);
    let (broken, moved) = (folder.file("broken.json", "{}"), folder.path("none.json"));
    let mut greedy = planned.clone();
    greedy["levels"]["ssd_bytes"] = 4096.into();
    let greedy = folder.file("greedy.json", greedy.to_string());
    let two = [Guest { name: "other", ..TWO[0] }, Guest { ..TWO[1] }];
    let two = msr_csv(&two, 3000);
    let other = folder.file("other.csv", two);
    for (arguments, code, expected) in [
        (&[trace.as_str(), "--plan", &broken][..], 2, "This is not a plan: missing field"),
        (&[&trace, "--plan", &moved], 1, "none.json"),
        (&[&trace, "--plan", &greedy], 2, "The plan's ssd level has 4096 bytes"),
        (&[&one, "--plan", &plan], 2, "The plan has web_0 where these traces have one_0"),
        (&[&other, "--plan", &plan], 2, "The plan has web_0 where these traces have other_0"),
        (&[&trace, "--plan", &plan, "--block", "8KiB"], 2, "The plan counts blocks of 4096 bytes"),
        (&[&trace, "--plan", &plan, "--ssd", "1MiB"], 2, "--ssd"),
    ] {
        let message = bad(&[&["compare", "--schemes", "lru"][..], arguments].concat(), code);
        assert!(message.contains(expected), "{expected} in {message}");
    }
}
