//! `lode compare`.

use serde_json::Value;

use crate::common::*;

#[test]
fn every_scheme_meets_every_size_and_replays_as_lode_replay_does() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let schemes = ["etica:mode=npe", "lru", "arc"];
    let joined = schemes.join(",");
    let arguments = ["compare", &trace, "--schemes", &joined, "--dram", "512KiB,1MiB", "--ssd", "2MiB,4MiB"];
    let (table, errors) = both(&arguments);
    assert_eq!((errors.as_str(), table.lines().count()), ("", 4 + 2 + 6 + 2));
    assert!(table.contains("as not all schemes know them: etica:mode=npe, lru;"), "{table}");
    assert!(table.contains("DRAM and SSD for etica:mode=npe; SSD for lru, arc;"), "{table}");
    assert!(table.contains("SSD life") && (table.contains(" years ") || table.contains(" days ")), "{table}");
    let report = json(&[&arguments[..], &["--threads", "1"]].concat());
    assert_eq!(report, json(&[&arguments[..], &["--threads", "2"]].concat()));
    let cells = list(&report["cells"]);
    assert_eq!((cells.len(), list(&report["sizes"]).len()), (6, 2));
    for (number, cell) in cells.iter().enumerate() {
        let (scheme, size) = (whole(&cell["scheme"]) as usize, whole(&cell["size"]) as usize);
        assert_eq!(number, scheme * 2 + size, "scheme by scheme");
        assert_eq!(report["schemes"][scheme]["label"], schemes[scheme]);
        if scheme < 2 {
            assert_eq!(report["schemes"][scheme]["settings"]["assoc"], "0");
        }
        let mut parts = schemes[scheme].split(':');
        let ssd = ["2MiB", "4MiB"][size];
        let mut replay = vec!["replay", &trace, "--scheme", parts.next().expect("a name"), "--ssd", ssd];
        if scheme == 0 {
            replay.extend(["--dram", ["512KiB", "1MiB"][size], "--set", parts.next().expect("a setting")]);
        } else {
            assert_eq!(cell["levels"]["dram_bytes"], 0, "a level that it does not use");
        }
        if scheme < 2 {
            // As ARC knows no sets.
            replay.extend(["--set", "assoc=0"]);
        }
        replay.extend(["--json"]);
        let alone: serde_json::Value = serde_json::from_str(&good(&replay)).expect("JSON");
        assert_eq!(cell["mean_latency_us"], alone["total"]["mean_latency_us"], "{}", schemes[scheme]);
        assert_eq!(cell["cwf"], alone["total"]["cwf"]);
        assert_eq!(cell["ssd_written_bytes"], alone["devices"]["ssd_written_bytes"]);
        let hits = whole(&alone["total"]["read_hits"]["dram"]) + whole(&alone["total"]["read_hits"]["ssd"]);
        let reads = whole(&alone["total"]["block_reads"]);
        assert_eq!(real(&cell["read_hit_ratio"]), hits as f64 / reads as f64);
        assert_eq!(list(&cell["vms"]).len(), 2);
    }
}

#[test]
fn schemes_map_blocks_alike_unless_told_otherwise() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    for (schemes, mapping, word) in [
        ("lru,arc", r#"{"kind":"any","assoc":0,"map":null,"undivided":["lru"]}"#, "no sets"),
        (
            "lru,flashcache",
            r#"{"kind":"sets","assoc":512,"map":"modulo","undivided":[]}"#,
            "sets of 512 blocks (modulo)",
        ),
        ("lru:assoc=8,arc", r#"{"kind":"mixed","assoc":null,"map":null,"undivided":[]}"#, "mixed mappings"),
    ] {
        let page = folder.path("page.html");
        let arguments = ["compare", &trace, "--schemes", schemes, "--ssd", "2MiB", "--html", &page];
        let report = json(&arguments);
        assert_eq!(report["mapping"], serde_json::from_str::<Value>(mapping).expect("JSON"), "{schemes}");
        let page = std::fs::read_to_string(&page).expect("a page");
        let text = good(&arguments);
        assert!(text.lines().nth(4).is_some_and(|line| line.ends_with(word)), "{text}");
        assert!(page.contains(word), "{schemes}");
        for note in list(&report["notes"]) {
            let note = note.as_str().expect("a text");
            assert!(text.contains(note) && page.contains(note), "{note}");
        }
        assert_eq!(list(&report["notes"]).is_empty(), schemes == "lru,flashcache");
    }
}

#[test]
fn levels_that_nobody_uses_and_schemes_without_a_level_are_named() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let unused = "No scheme here uses DRAM: --dram changes nothing";
    let without = "Without DRAM, which they can use: etica, ucache-like; --dram gives it";
    let sometimes = "Without DRAM, which they can use, with some sizes: etica; --dram gives it";
    for (schemes, sizes, notes) in [
        ("lru,arc", &["--dram", "1MiB"][..], &[unused][..]),
        ("lru,fifo", &[], &[]),
        ("lru,etica,ucache-like", &[], &[without]),
        ("lru,etica", &["--dram", "0,1MiB"], &[sometimes]),
        ("etica", &["--dram", "1MiB"], &[]),
    ] {
        let arguments = [&["compare", &trace, "--schemes", schemes, "--ssd", "2MiB"][..], sizes].concat();
        let report = json(&arguments);
        let found: Vec<_> = list(&report["notes"]).iter().filter_map(Value::as_str).collect();
        let found: Vec<_> = found.into_iter().filter(|note| note.contains("--dram")).collect();
        assert_eq!(found, notes, "{schemes}");
        assert!(notes.iter().all(|note| good(&arguments).contains(note)));
    }
}

#[test]
fn one_size_of_a_level_goes_with_all_of_the_other() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let report =
        json(&["compare", &trace, "--schemes", "etica", "--dram", "1MiB", "--ssd", "2MiB,4MiB,8MiB"]);
    let sizes: Vec<_> = list(&report["sizes"])
        .iter()
        .map(|size| (whole(&size["dram_bytes"]) >> 20, whole(&size["ssd_bytes"]) >> 20))
        .collect();
    assert_eq!(sizes, [(1, 2), (1, 4), (1, 8)]);
    let hits: Vec<f64> = list(&report["cells"]).iter().map(|cell| real(&cell["hit_ratio"])).collect();
    assert!(hits[0] < hits[2], "{hits:?}");
}

#[test]
fn traces_that_do_not_fit_the_memory_are_read_again() {
    let folder = Folder::new();
    let trace = folder.file("long.csv", msr_csv(&TWO, 40_000));
    let arguments = ["compare", &trace, "--schemes", "etica,arc", "--dram", "1MiB", "--ssd", "2MiB"];
    assert_eq!(json(&arguments), json(&[&arguments[..], &["--memory", "1MiB"]].concat()));
}

#[test]
fn replays_that_do_not_fit_the_memory_are_refused_with_the_figure() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let arguments = ["compare", &trace, "--schemes", "arc,sieve", "--ssd", "1TiB", "--memory"];
    let message = bad(&[&arguments[..], &["1KiB"]].concat(), 1);
    assert!(message.contains(" with 1 TiB of SSD may take"), "{message}");
    assert!(message.contains("and 1 KiB are allowed"), "{message}");
    // What the message says to do is enough.
    let enough = message.split("allow more with --memory ").nth(1).and_then(|rest| rest.split(',').next());
    let report = json(&[&arguments[..], &[enough.expect("an amount")]].concat());
    assert_eq!(list(&report["cells"]).len(), 2);
}

#[test]
fn a_scheme_that_needs_the_future_is_told_it() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let arguments = ["compare", &trace, "--schemes", "belady,belady:bypass=on,lru:assoc=0,arc,lirs"];
    let arguments = [&arguments[..], &["--ssd", "1MiB,2MiB"]].concat();
    let (_, told) = both(&arguments);
    assert!(told.contains("the traces are kept in memory") && told.lines().count() == 1, "{told}");
    let report = json(&arguments);
    let hits = |scheme: u64, size: u64| {
        let is_it = |cell: &&Value| whole(&cell["scheme"]) == scheme && whole(&cell["size"]) == size;
        real(&list(&report["cells"]).iter().find(is_it).expect("a cell")["hit_ratio"])
    };
    for size in 0..2 {
        assert!(hits(1, size) >= hits(0, size));
        for scheme in 2..5 {
            assert!(hits(0, size) >= hits(scheme, size), "scheme {scheme}, size {size}");
        }
        assert!(hits(0, size) > hits(2, size), "more than LRU");
    }
    let replay = ["replay", &trace, "--scheme", "belady", "--ssd", "1MiB", "--json"];
    let alone: Value = serde_json::from_str(&good(&replay)).expect("JSON");
    let total = &alone["total"];
    let found = whole(&total["read_hits"]["ssd"]) + whole(&total["write_hits"]["ssd"]);
    assert_eq!(hits(0, 0), found as f64 / whole(&total["block_accesses"]) as f64);

    let too_little = |arguments: &[&str]| bad(&[arguments, &["--memory", "1KiB"]].concat(), 1);
    for message in [too_little(&arguments), too_little(&replay)] {
        assert!(message.contains("takes more than 1024 bytes; allow more with --memory"), "{message}");
    }
    let curve = bad(&["curve", &trace, "--scheme", "belady"], 2);
    assert!(curve.contains("only a recorded trace can tell"), "{curve}");
}

#[test]
fn a_scheme_with_a_read_ssd_stands_beside_those_without() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let levels = ["--dram", "1MiB", "--ssd", "2MiB", "--read-ssd", "2MiB"];
    let arguments =
        [&["compare", &trace, "--schemes", "lru,tica-wed"][..], &levels, &["--devices", "tica"]].concat();
    let report = json(&arguments);
    let [lru, tica] = list(&report["cells"]) else { panic!("{report}") };
    assert!(lru["levels"]["read_ssd_bytes"].is_null() && lru["dirty_loss_per_year"].is_null());
    assert_eq!(whole(&tica["levels"]["read_ssd_bytes"]), 2 << 20);
    let (read_ssd, ssd) = (whole(&tica["read_ssd_written_bytes"]), whole(&tica["ssd_written_bytes"]));
    assert!(read_ssd > 0 && ssd >= read_ssd, "{tica}");
    // Between that of a pair of its SSDs and that of one of them with DRAM, which fails less often.
    let loss = real(&tica["dirty_loss_per_year"]);
    assert!((9.5e-6..1.92e-5).contains(&loss), "{loss}");
    // Two SSDs and DRAM against one SSD.
    assert!(real(&tica["cost_usd"]) > 2.0 * real(&lru["cost_usd"]) * 0.74 / 0.842, "{tica}");
    // Titles are broken into lines, but words are not.
    let columns = |arguments: &[&str]| ["written", "life"].map(|word| good(arguments).matches(word).count());
    assert_eq!(columns(&arguments), [2, 2]);
    assert_eq!(columns(&["compare", &trace, "--schemes", "lru", "--ssd", "2MiB"]), [1, 1]);
    let replayed = ["replay", &trace, "--scheme", "tica-wed", "--devices", "tica"];
    let text = good(&[&replayed[..], &levels].concat());
    assert!(
        text.contains("read SSD takes") && text.contains("second copies of dirty blocks are in DRAM"),
        "{text}"
    );
    let refused = bad(&[&replayed[..], &levels[..4]].concat(), 2);
    assert!(
        refused.contains("Scheme 'tica-wed' needs the read-ssd level; give it --read-ssd SIZE"),
        "{refused}"
    );
}

#[test]
fn comparisons_that_cannot_be_are_refused() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let many = (1..=2049).map(|mib| format!("{mib}MiB")).collect::<Vec<_>>().join(",");
    for (more, expected) in [
        (&["--schemes", "etica"][..], "Give the levels' sizes"),
        (&["--schemes", "etica,arc,etica", "--ssd", "1MiB"], "--schemes has 'etica' twice"),
        (&["--schemes", "none", "--ssd", "1MiB"], "Unknown scheme 'none'"),
        (&["--schemes", "etica:none=1", "--ssd", "1MiB"], "no setting 'none'"),
        (&["--schemes", "lru:assoc=0:assoc=4", "--ssd", "1MiB"], "'assoc' is given twice, as '0' and '4'"),
        (&["--schemes", "lru", "--ssd", "1MiB,2MiB,1024KiB"], "The sizes in places 1 and 3 are the same"),
        (&["--schemes", "l2arc-like", "--ssd", "1MiB"], "needs the dram level; give it --dram SIZE"),
        (&["--schemes", "etica:mode=none", "--ssd", "1MiB"], "mode"),
        (&["--schemes", "lru", "--dram", "1MiB"], "give it --ssd"),
        (&["--schemes", "etica", "--ssd", "1KiB"], "smaller than one block"),
        (&["--schemes", "tica-ef", "--dram", "1MiB", "--ssd", "1MiB"], "give it --read-ssd SIZE"),
        (
            &["--schemes", "tica-ef", "--dram", "4KiB", "--ssd", "1MiB", "--read-ssd", "1MiB"],
            "needs 2 blocks or more of the dram level",
        ),
        (
            &["--schemes", "tica-ef", "--ssd", "1MiB,2MiB", "--read-ssd", "1MiB,2MiB,3MiB"],
            "--ssd has 2 sizes and --read-ssd 3",
        ),
        (
            &["--schemes", "etica", "--dram", "1MiB,2MiB", "--ssd", "1MiB,2MiB,3MiB"],
            "--dram has 2 sizes and --ssd 3",
        ),
        (
            &["--schemes", "etica,arc", "--ssd", &many],
            "1 to 4096 pairs of scheme and size, and this one 4098",
        ),
    ] {
        let message = bad(&[&["compare", &trace][..], more].concat(), 2);
        assert!(message.contains(expected), "{more:?}: {message}");
    }
}

#[test]
fn schemes_are_measured_against_one_of_them() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let arguments = ["compare", &trace, "--schemes", "lru,arc", "--ssd", "1MiB,2MiB", "--baseline", "lru"];
    let report = json(&arguments);
    assert_eq!(report["baseline"], "lru");
    let cells = list(&report["cells"]);
    let saved = |cell: &Value, base: &Value, key: &str, of: fn(f64) -> f64| {
        let [own, base] = [cell, base].map(|cell| of(real(&cell[key])));
        (base - own) / base
    };
    for size in 0..2 {
        let (base, other) = (&cells[size], &cells[2 + size]);
        assert_eq!(real(&base["against"]["miss_ratio_reduction"]), 0.0);
        let misses = |ratio| 1.0 - ratio;
        let (found, expected) =
            (real(&other["against"]["miss_ratio_reduction"]), saved(other, base, "hit_ratio", misses));
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        let found = real(&other["against"]["latency_reduction"]);
        assert!((found - saved(other, base, "mean_latency_us", |us| us)).abs() < 1e-12);
        let of_vms = [0, 1].map(|vm| saved(&other["vms"][vm], &base["vms"][vm], "hit_ratio", misses));
        let over = &other["against"]["over_vms"];
        assert_eq!(whole(&over["count"]), 2);
        assert!((real(&over["mean"]) - of_vms.iter().sum::<f64>() / 2.0).abs() < 1e-12);
        for (percentile, expected) in [("p10", of_vms[0].min(of_vms[1])), ("p90", of_vms[0].max(of_vms[1]))] {
            assert!((real(&over[percentile]) - expected).abs() < 1e-12, "{over}");
        }
    }
    let text = good(&arguments);
    for expected in ["fewer misses %", "less time %", "Fewer misses than with lru, over the VMs"] {
        assert!(text.contains(expected), "{text}");
    }
    let page = good(&[&arguments[..], &["--html", "-"]].concat());
    assert!(page.contains("Fewer misses than lru"));
    let message = bad(&["compare", &trace, "--schemes", "arc", "--ssd", "1MiB", "--baseline", "lru"], 2);
    assert!(message.contains("add it to --schemes"), "{message}");
}

#[test]
fn sizes_in_per_cent_are_of_what_is_touched() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let info: Value = serde_json::from_str(&good(&["trace", "info", &trace, "--json"])).expect("JSON");
    let touched = whole(&info["total"]["footprint_bytes"]);
    let report = json(&["compare", &trace, "--schemes", "lru,arc", "--ssd", "10%,50%"]);
    assert_eq!(whole(&report["footprint_bytes"]), touched);
    for (size, percent) in list(&report["sizes"]).iter().zip([10, 50]) {
        let blocks = (touched as f64 * f64::from(percent) / 100.0 / 4096.0).round() as u64;
        assert_eq!((whole(&size["ssd_bytes"]), whole(&size["dram_bytes"])), (blocks * 4096, 0));
    }
    let (text, _) = both(&["compare", &trace, "--schemes", "lru", "--ssd", "10%"]);
    assert!(text.contains("Per cent are of the "), "{text}");
    let message = bad(&["compare", &trace, "--schemes", "lru", "--ssd", "120%"], 2);
    assert!(message.contains("above 0 and up to 100"), "{message}");
}

#[test]
fn each_trace_by_itself_is_as_alone_and_counts_the_same() {
    let folder = Folder::new();
    let (one, two) = (two_vms(&folder), lode_testdata::committed("traces/hplajw-1week.lode.zst"));
    let two = two.to_str().expect("UTF-8");
    let more = ["--schemes", "lru,arc", "--ssd", "10%,1MiB", "--baseline", "lru"];
    let report = json(&[&["compare", &one, two, "--each"][..], &more].concat());
    assert_eq!(report["sizes"], serde_json::json!(["SSD 10 %", "SSD 1 MiB"]));
    assert_eq!(report["schemes"], serde_json::json!(["lru", "arc"]));
    for (entry, trace) in list(&report["traces"]).iter().zip([one.as_str(), two]) {
        assert_eq!(entry["trace"], trace);
        assert_eq!(entry["comparison"], json(&[&["compare", trace][..], &more].concat()));
    }
    let over = list(&report["over_traces"]);
    assert_eq!(over.len(), 4);
    for (at, cell) in over.iter().enumerate() {
        assert_eq!((whole(&cell["scheme"]) as usize, whole(&cell["size"]) as usize), (at / 2, at % 2));
        let ratios =
            list(&report["traces"]).iter().map(|one| real(&one["comparison"]["cells"][at]["hit_ratio"]));
        let mean = ratios.sum::<f64>() / 2.0;
        assert!((real(&cell["hit_ratio"]["mean"]) - mean).abs() < 1e-12, "{cell}");
        assert_eq!(whole(&cell["miss_ratio_reduction"]["count"]), 2);
    }
    let text = good(&[&["compare", &one, two, "--each"][..], &more].concat());
    assert!(text.contains("Fewer misses than with lru, over the traces"), "{text}");
    assert!(text.contains("hplajw-1week") && text.contains("SSD 10 %"), "{text}");
    let csv = good(&[&["compare", &one, two, "--each", "--csv"][..], &more].concat());
    assert_eq!((csv.lines().count(), csv.starts_with("trace,scheme,")), (1 + 2 * 4, true), "{csv}");
    let message = bad(&[&["compare", &one, "--each", "--html", "x.html"][..], &more].concat(), 2);
    assert!(message.contains("cannot be used with"), "{message}");
}
