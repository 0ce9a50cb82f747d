//! The pages of `--html` as readers open them: from a file, in Chromium, without a network.

use std::path::Path;

use crate::chromium::{browse, opened, texts};
use crate::common::*;

/// A name that would do harm if it were not taken as text.
const EVIL: &str = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">";

/// What keeps a page from asking for anything; a browser says so on the console when it had to.
const POLICY: &str = "default-src 'none'";

/// The page after its script has run, which asked for nothing; none where there is no browser.
fn quiet(file: &str, fragment: &str) -> Option<String> {
    let html = std::fs::read_to_string(file).expect("a page");
    assert!(html.contains(POLICY), "{file} may ask for things");
    opened(Path::new(file), fragment)
}

fn page(folder: &Folder, name: &str, arguments: &[&str]) -> String {
    let file = folder.path(name);
    good(&[arguments, &["--html", &file]].concat());
    file
}

#[test]
fn a_request_would_be_noticed() {
    let folder = Folder::new();
    let file = page(&folder, "page.html", &["curve", &two_vms(&folder)]);
    let html = std::fs::read_to_string(&file).expect("a page");
    folder.file("page.html", html.replace("</body>", "<img src=\"http://127.0.0.1:9/x.png\"></body>"));
    let Some((_, log)) = browse(folder.root(), &format!("file://{file}")) else { return };
    assert!(
        log.lines().any(|line| line.contains("CONSOLE") && line.contains("Content Security Policy")),
        "{log}"
    );
}

#[test]
fn a_plan_follows_its_sliders_and_fields() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    // Its levels are divided independently, so that every pair of positions is a plan of its own.
    let arguments = ["size", &trace, "--dram", "512KiB", "--ssd", "2MiB", "--scheme", "etica"];
    let plan = json(&arguments);
    let file = page(&folder, "plan.html", &arguments);
    let Some(first) = quiet(&file, "") else { return };
    let asked = whole(&plan["totals"]["dram"]["asked"]);
    let last = list(&plan["totals"]["dram"]["sizes_bytes"]).len() as u64 - 1;
    let ssd = whole(&plan["totals"]["ssd"]["asked"]);
    let rating = &plan["ssd_rating"];
    let moved = quiet(
        &file,
        &format!(
            "#slider={last},{ssd}&field={},{}",
            2.0 * real(&rating["drive_writes_per_day"]),
            rating["years"]
        ),
    )
    .expect("a browser");
    assert_eq!(texts(&first, "<output"), ["512 KiB", "2 MiB"]);
    assert_eq!(texts(&moved, "<output"), ["8 MiB", "2 MiB"]);
    let served = |dom: &str| texts(dom, "<dd")[0].trim_end_matches(" %").parse::<f64>().expect("a share");
    let of_plan =
        |dram: u64| 100.0 * real(&plan["totals"]["outcomes"][dram as usize][ssd as usize]["read_hit_ratio"]);
    assert!((served(&first) - of_plan(asked)).abs() < 0.06 && (served(&moved) - of_plan(last)).abs() < 0.06);
    assert!(served(&moved) > served(&first));
    for mark in ["class=\"bar\"", "class=\"marker\"", "<td class=\"n\""] {
        let parts = |dom: &str| {
            dom.split(mark).skip(1).map(|rest| rest.chars().take(200).collect::<String>()).collect::<Vec<_>>()
        };
        assert!(!parts(&first).is_empty() && parts(&first) != parts(&moved), "{mark}");
    }
    // What is shown is rounded.
    let priced = |dom: &str, dram: u64| {
        let usd = real(&plan["totals"]["cost_usd"][dram as usize][ssd as usize]);
        let texts = texts(dom, "<dd");
        let shown = texts.into_iter().find_map(|text| text.strip_prefix('$')).expect("a price");
        let shown: f64 = shown.parse().expect("a number");
        assert!((shown / usd - 1.0).abs() < 0.05, "{shown} {usd}");
        usd
    };
    assert!(priced(&moved, last) > 2.0 * priced(&first, asked));
    // The table of the VMs is that of a plan of these sizes.
    let dram_size = plan["totals"]["dram"]["sizes_bytes"][last as usize].to_string();
    let there = ["size", &trace, "--dram", &dram_size, "--ssd", "2MiB", "--no-replay", "--scheme", "etica"];
    let there = json(&there);
    let has = |dom: &str, vm: &serde_json::Value| {
        let wanted = 100.0 * real(&vm["read_hit_ratio"]);
        let is_it = |text: &&str| {
            text.strip_suffix(" %")
                .and_then(|text| text.parse::<f64>().ok())
                .is_some_and(|shown| (shown - wanted).abs() < 0.06)
        };
        texts(dom, "<td").iter().any(is_it)
    };
    let vms = || list(&there["vms"]).iter();
    assert!(vms().all(|vm| has(&moved, vm)) && !vms().all(|vm| has(&first, vm)));
    // Twice the writes a day last twice as long.
    let days = |dom: &str| {
        let units = [(" years", 365.0), (" days", 1.0)];
        let of_unit = |text: &str| {
            units.iter().find_map(|&(unit, days)| Some((text.strip_suffix(unit)?.parse::<f64>().ok()?, days)))
        };
        let (number, days) = texts(dom, "<dd").into_iter().find_map(of_unit).expect("a life");
        number * days
    };
    assert!((days(&moved) / days(&first) - 2.0).abs() < 0.1, "{} {}", days(&moved), days(&first));
}

/// What the page advises at any position of its sliders is what a plan of those sizes advises; for `auto`, whose SSD is divided
/// behind the DRAM, at any size of the SSD.
#[test]
fn advice_follows_the_sliders() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let moved = |dram, ssd| (Some(dram), ssd);
    let etica = &[moved(12, 12), moved(4, 12), moved(12, 3), moved(15, 16), moved(19, 19)][..];
    let auto = &[12, 3, 17, 19].map(|ssd| (None, ssd))[..];
    for (scheme, positions) in [("etica", etica), ("auto", auto)] {
        follow(&folder, &trace, scheme, positions);
    }
}

/// The slider of DRAM stays at what was asked for where there is no position.
fn follow(folder: &Folder, trace: &str, scheme: &str, positions: &[(Option<usize>, usize)]) {
    let of = |dram: &str, ssd: &str| -> Vec<String> {
        let words = ["size", trace, "--dram", dram, "--ssd", ssd, "--no-replay", "--scheme", scheme];
        words.map(str::to_owned).into()
    };
    let arguments = of("512KiB", "2MiB");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let plan = json(&arguments);
    let file = page(folder, "plan.html", &arguments);
    let sizes =
        |level: &str| list(&plan["totals"][level]["sizes_bytes"]).iter().map(whole).collect::<Vec<_>>();
    let (drams, ssds) = (sizes("dram"), sizes("ssd"));
    let mut seen = Vec::new();
    for &(dram, ssd) in positions {
        let dram = dram.unwrap_or(whole(&plan["totals"]["dram"]["asked"]) as usize);
        let Some(dom) = quiet(&file, &format!("#slider={dram},{ssd}")) else { return };
        let (dram_size, ssd_size) = (drams[dram].to_string(), ssds[ssd].to_string());
        let there = of(&dram_size, &ssd_size);
        let there = json(&there.iter().map(String::as_str).collect::<Vec<_>>());
        let advised: Vec<&str> = list(&there["advice"]).iter().filter_map(|text| text.as_str()).collect();
        let mut shown = texts(&dom, "<li");
        // What the page's head links to has no text, and what it recommends to serve is no advice.
        let recommended = there["recommended"]["label"].as_str().expect("a label");
        shown.retain(|text| !text.trim().is_empty() && !text.starts_with(&format!("{recommended}: ")));
        assert_eq!(shown, advised, "{dram_size} and {ssd_size}");
        assert!(!seen.contains(&there["advice"]), "{advised:?}");
        seen.push(there["advice"].clone());
    }
}

#[test]
fn a_level_that_nobody_gets_has_no_bars() {
    let folder = Folder::new();
    let reader = [Guest { name: "reader", blocks: 400, reads: 100 }];
    let trace = folder.file("reads.csv", msr_csv(&reader, 2000));
    let (svg, both) = (folder.path("one.svg"), folder.path("both.svg"));
    let draw = |trace: &str, file: &str| {
        let sizes = ["--dram", "512KiB", "--ssd", "2MiB", "--scheme", "etica"];
        good(&[&["size", trace, "--no-replay", "--svg", file][..], &sizes].concat());
        std::fs::read_to_string(file).expect("a picture")
    };
    let (one, both) = (draw(&trace, &svg), draw(&two_vms(&folder), &both));
    assert!(one.contains(">DRAM<") && !one.contains(">SSD<"), "{one}");
    assert!(both.contains(">DRAM<") && both.contains(">SSD<"), "{both}");
}

/// Bars are of those that get something, the largest share first.
#[test]
fn bars_are_in_the_order_of_shares() {
    let folder = Folder::new();
    let guests = [
        Guest { name: "busy", blocks: 100_000_000, reads: 0 },
        Guest { name: "small", blocks: 40, reads: 100 },
        Guest { name: "large", blocks: 300, reads: 100 },
    ];
    let trace = folder.file("three.csv", msr_csv(&guests, 3000));
    let svg = folder.path("shares.svg");
    let arguments = ["size", &trace, "--dram", "4MiB", "--no-replay", "--svg", &svg];
    let plan = json(&arguments);
    let shares: Vec<u64> = list(&plan["vms"]).iter().map(|vm| whole(&vm["share"]["dram_blocks"])).collect();
    assert!(shares[0] == 0 && shares[1] > 0 && shares[2] > shares[1], "{shares:?}");
    let drawn = std::fs::read_to_string(&svg).expect("a picture");
    let at = |name: &str| drawn.find(name);
    assert!(at("large_0") < at("small_0") && at("large_0").is_some(), "{drawn}");
    assert_eq!(at("busy_0"), None);
}

/// Curves of few hits are not pressed to the bottom of the chart.
#[test]
fn the_axis_of_hits_ends_near_the_best() {
    let folder = Folder::new();
    let guest = [Guest { name: "cold", blocks: 60_000, reads: 100 }];
    let trace = folder.file("cold.csv", msr_csv(&guest, 3000));
    let svg = folder.path("cold.svg");
    let best = points(&json(&["curve", &trace, "--svg", &svg])["vms"][0]["curve"]).last().expect("a point").1;
    assert!(best < 0.2, "{best}");
    let drawn = std::fs::read_to_string(&svg).expect("a picture");
    assert!(!drawn.contains(">100 %<"), "{drawn}");
}

#[test]
fn a_page_of_a_hundred_vms_stays_small() {
    let folder = Folder::new();
    let names: Vec<String> = (0..100).map(|vm| format!("vm{vm:02}")).collect();
    let guests: Vec<Guest<'_>> = (0..100)
        .map(|vm| Guest { name: &names[vm as usize], blocks: 60 + 7 * vm, reads: 30 + vm % 7 * 10 })
        .collect();
    let trace = folder.file("many.csv", msr_csv(&guests, 60_000));
    let file =
        page(&folder, "plan.html", &["size", &trace, "--dram", "16MiB", "--ssd", "64MiB", "--no-replay"]);
    let bytes = std::fs::metadata(&file).expect("a page").len();
    // Curves are there twice: as a picture, and as the values that are drawn when a reader zooms.
    assert!(bytes < 1_000_000, "{bytes} bytes");
    let Some(dom) = quiet(&file, "#slider=6,15") else { return };
    assert!(texts(&dom, "<li").len() > 3 && texts(&dom, "<th").contains(&"vm99_0"));
}

#[test]
fn synthetic_is_said_in_every_page_and_picture() {
    let folder = Folder::new();
    let trace = folder.path("made.lode");
    good(&["trace", "synth", "hm_1", "-o", &trace, "--requests", "3000"]);
    for (name, arguments) in [
        ("c", &["curve", &trace][..]),
        ("s", &["size", &trace, "--dram", "128KiB", "--ssd", "256KiB", "--no-replay"]),
        ("r", &["compare", &trace, "--schemes", "etica", "--dram", "128KiB", "--ssd", "256KiB,1MiB"]),
    ] {
        let (html, svg) = (folder.path(&format!("{name}.html")), folder.path(&format!("{name}.svg")));
        good(&[arguments, &["--html", &html, "--svg", &svg]].concat());
        for file in [html, svg] {
            let drawn = std::fs::read_to_string(&file).expect("a drawing");
            // Where it can be read, not only among what browsers keep to themselves.
            assert!(drawn.contains(">synthetic: made.lode; "), "{file}");
        }
    }
}

#[test]
fn budgets_curves_and_comparisons_have_pages() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let budget = page(&folder, "budget.html", &["size", &trace, "--budget", "0.01usd", "--no-replay"]);
    let Some(dom) = quiet(&budget, "") else { return };
    assert!(texts(&dom, "<h2").contains(&"What money buys"), "{:?}", texts(&dom, "<h2"));
    let curve = ["curve", &trace, "--metric", "pod", "--policy", "ro", "--sample", "rate=0.5"];
    let dom = quiet(&page(&folder, "curve.html", &curve), "").expect("a browser");
    assert!(texts(&dom, "<th").contains(&"web_0"), "{:?}", texts(&dom, "<th"));
    let compare = ["compare", &trace, "--schemes", "etica,arc", "--dram", "512KiB", "--ssd", "1MiB,2MiB"];
    let dom = quiet(&page(&folder, "compare.html", &compare), "").expect("a browser");
    let rows = texts(&dom, "<th").iter().filter(|text| ["etica", "arc"].contains(text)).count();
    assert_eq!(rows, 4);
    let measures = ["Hits", "Hits of block reads", "Latency of a request", "Writes to the SSDs"];
    assert_eq!(texts(&dom, "<option"), [&measures[..], &["All VMs", "web_0", "db_0"]].concat());
}

#[test]
fn names_of_vms_are_only_text() {
    let folder = Folder::new();
    let guests =
        [Guest { name: EVIL, blocks: 400, reads: 80 }, Guest { name: "plain", blocks: 90, reads: 40 }];
    let trace = folder.file("evil.csv", msr_csv(&guests, 2000));
    for (name, arguments) in [
        ("c", &["curve", &trace][..]),
        ("s", &["size", &trace, "--dram", "128KiB", "--ssd", "256KiB"]),
        ("r", &["compare", &trace, "--schemes", "etica", "--dram", "128KiB", "--ssd", "256KiB,1MiB"]),
    ] {
        let Some(dom) = quiet(&page(&folder, &format!("{name}.html"), arguments), "#slider=3,3") else {
            return;
        };
        assert!(!dom.contains("<title>owned") && !dom.contains("<img"), "{name}");
        assert!(name == "r" || dom.contains("&lt;script&gt;document.title"), "the name is shown: {name}");
    }
}

/// A level that one of the schemes has counts in the sizes, has its columns, and what is hit may be looked at as what is missed.
#[test]
fn a_comparison_has_every_level() {
    let folder = Folder::new();
    let sizes = ["--dram", "1MiB", "--ssd", "16MiB", "--read-ssd", "16MiB"];
    let trace = two_vms(&folder);
    let file =
        page(&folder, "tica.html", &[&["compare", &trace, "--schemes", "tica-ef,lru"][..], &sizes].concat());
    let html = std::fs::read_to_string(file).expect("a page");
    // Numbers have six digits: 33 MiB are 34,603,008 bytes, written 34603e3.
    for wanted in ["Read SSD written", "Read SSD life", "Misses of all accesses", "\"x\":[34603e3"] {
        assert!(html.contains(wanted), "{wanted}");
    }
    let file = page(&folder, "lru.html", &["compare", &trace, "--schemes", "lru", "--ssd", "16MiB"]);
    assert!(!std::fs::read_to_string(file).expect("a page").contains("Read SSD"));
}
