//! Traces of bare block numbers: what they do not say is told, and nothing is made of times that are made up.

use serde_json::Value;

use crate::common::*;

/// Two passes over so many blocks of 512 bytes.
fn lis(folder: &Folder, name: &str, requests: u64) -> String {
    let lines: Vec<String> = (0..2 * requests).map(|at| format!("{} 8 0 0", at % requests * 8)).collect();
    folder.file(name, lines.join("\n"))
}

const SIZE: [&str; 4] = ["--dram", "1MiB", "--ssd", "1MiB"];

const COMPARE: [&str; 6] = ["--schemes", "etica,arc", "--dram", "1MiB", "--ssd", "1MiB"];

/// Words of what only times can tell.
const TIMED: [&str; 6] = [" a day", "years", "days of SSD", "energy", "re-use /s", " W over"];

fn assert_untimed(text: &str) {
    for word in TIMED {
        assert!(!text.contains(word), "{word}: {text}");
    }
    assert!(text.contains("No times in ") && text.contains("a.lis"), "{text}");
}

#[test]
fn tables_leave_out_what_needs_times_and_tell_the_unit() {
    let folder = Folder::new();
    let trace = lis(&folder, "a.lis", 500);
    let compact = folder.path("a.lis.lode");
    let written = good(&["trace", "convert", &trace, "-o", &compact]);
    assert!(written.contains("block numbers taken as 512 B each"), "{written}");
    let config = ["--dram", "1MiB", "--ssd", "1MiB", "--scheme", "etica"];
    for file in [&trace, &compact] {
        for (command, more) in [
            (&["trace", "info"][..], &[][..]),
            (&["curve"], &[]),
            (&["size"], &SIZE),
            (&["size", "--budget", "1usd"], &[]),
            (&["compare"], &COMPARE),
            (&["replay"], &config),
        ] {
            let text = good(&[command, &[file.as_str()], more].concat());
            assert_untimed(&text);
            let unit = "block numbers taken as 512 B each, which the format does not say; --unit to change";
            assert_eq!(text.contains(unit), file == &trace, "{command:?}: {text}");
        }
    }
    let given = good(&["curve", &trace, "--unit", "4KiB"]);
    assert!(given.contains("block numbers taken as 4 KiB each, as --unit says"), "{given}");
    let stated = good(&["curve", &two_vms(&folder)]);
    assert!(!stated.contains("taken as") && !stated.contains("No times"), "{stated}");
}

fn assert_null(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value[key].is_null(), "{key}: {value}");
    }
}

#[test]
fn in_json_what_needs_times_is_null() {
    let folder = Folder::new();
    let trace = lis(&folder, "a.lis", 500);
    let info = json(&["trace", "info", &trace]);
    assert_null(&info, &["first_ns", "last_ns", "usual_first_ns", "usual_last_ns"]);
    let about = |input: &Value| {
        (input["has_times"].clone(), input["unit_bytes"].clone(), input["unit_assumed"].clone())
    };
    assert_eq!(about(&info["input"]), (false.into(), 512.into(), true.into()));
    let curve = json(&["curve", &trace, "--interval", "400", "--unit", "4KiB"]);
    assert_eq!(about(&curve["inputs"][0]), (false.into(), 4096.into(), false.into()));
    assert_null(&curve["vms"][0], &["reuse_intensity_per_s"]);
    assert_null(&curve["vms"][0]["intervals"][1], &["reuse_intensity_per_s"]);
    let wear = ["span_s", "bytes_per_day", "drive_writes_per_day", "life_years"];
    let plan = json(&[&["size", &trace][..], &SIZE].concat());
    assert_null(&plan["wear"], &wear);
    assert_null(&plan["replayed"][1]["wear"], &wear);
    let bought = json(&["size", &trace, "--budget", "1usd", "--no-replay"]);
    assert_null(&bought["front"][0]["wear"], &wear);
    assert!(real(&bought["total"]["read_hit_ratio"]) > 0.4, "{}", bought["total"]);
    let compared = json(&[&["compare", &trace][..], &COMPARE].concat());
    assert_null(&compared["cells"][0], &["energy_j", "ssd_life_years"]);
    let out = folder.path("replay.json");
    good(&[
        "replay",
        &trace,
        "--dram",
        "1MiB",
        "--ssd",
        "1MiB",
        "--scheme",
        "etica",
        &format!("--json={out}"),
    ]);
    let replayed: Value =
        serde_json::from_str(&std::fs::read_to_string(out).expect("a report")).expect("JSON");
    let devices = &replayed["devices"];
    assert_null(
        devices,
        &[
            "span_s",
            "ssd_written_bytes_per_s",
            "ssd_life_years",
            "energy_j",
            "mean_w",
            "utilisation",
            "backing_utilisation_peak",
        ],
    );
    assert!(real(&devices["active_energy_j"]["total"]) > 0.0);
}

#[test]
fn one_trace_without_times_leaves_none_for_the_whole() {
    let folder = Folder::new();
    let (timed, untimed) = (two_vms(&folder), lis(&folder, "a.lis", 500));
    let arguments = [&["size", &timed, &untimed, "--no-replay"][..], &SIZE].concat();
    let (text, errors) = both(&arguments);
    assert_untimed(&text);
    assert!(errors.contains("their order among those of other traces is made up"), "{errors}");
    assert!(!errors.contains("overlap with no other"), "{errors}");
    assert!(json(&arguments)["wear"]["bytes_per_day"].is_null());
    assert!(
        !json(&[&["size", &timed, "--no-replay"][..], &SIZE].concat())["wear"]["bytes_per_day"].is_null()
    );
}

#[test]
fn pages_leave_it_out_too() {
    let folder = Folder::new();
    let (trace, html) = (lis(&folder, "a.lis", 500), folder.path("page.html"));
    for (command, more) in
        [("curve", &[][..]), ("size", &SIZE), ("size", &["--budget", "1usd"]), ("compare", &COMPARE)]
    {
        good(&[&[command, &trace, "--html", &html][..], more].concat());
        let page = std::fs::read_to_string(&html).expect("a page");
        let body =
            page.split("</style>").nth(1).and_then(|rest| rest.split("<script").next()).expect("a body");
        assert!(body.contains("block numbers taken as 512 B each; no times in this trace"), "{body}");
        for word in ["SSD life", "Drive writes a day", ">Life<", ">Energy<", "A day"] {
            assert!(!body.contains(word), "{command}: {word}");
        }
    }
}

#[test]
fn what_is_asked_of_times_that_are_not_there_is_refused() {
    let folder = Folder::new();
    let trace = lis(&folder, "a.lis", 500);
    let message = bad(&["curve", &trace, "--interval", "10min"], 2);
    assert!(message.contains("a.lis has no times") && message.contains("number of requests"), "{message}");
    let out = folder.path("out.lode");
    let message = bad(&["trace", "filter", &trace, "--from", "1ms", "--output", &out], 2);
    assert!(message.contains("a.lis has no times; leave --from and --until out"), "{message}");
    let profile = good(&["trace", "fit", &trace, "-o", "-"]);
    assert!(profile.contains("The trace has no times: one request a microsecond"), "{profile}");
    let sizes = ["--dram", "1MiB", "--ssd", "1MiB"];
    let message = bad(&[&["replay", &trace, "--ssd-writes", "1GiB/day"][..], &sizes].concat(), 2);
    assert!(message.contains("no times") && message.contains("--set write_budget=10"), "{message}");
    // What is made of it says so, too.
    for tool in [&["head", "--requests", "100"][..], &["filter"], &["sort"]] {
        good(&[&["trace"], tool, &[trace.as_str(), "--output", &out]].concat());
        assert_eq!(json(&["trace", "info", &out])["input"]["has_times"], false, "{tool:?}");
    }
    let parts = folder.path("parts");
    good(&["trace", "split", &trace, "--output", &parts]);
    assert_eq!(json(&["trace", "info", &format!("{parts}/a.lode")])["input"]["has_times"], false);
}
