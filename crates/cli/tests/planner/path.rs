//! The way of `docs/planner.md`: from a trace in MSR's CSV to a configuration that `lode serve` accepts.

use crate::common::*;

/// Goes the whole way with one trace; gives the configuration's text.
fn walk(folder: &Folder, csv: &str, dram: &str, ssd: &str, scheme: &str) -> String {
    let at = |name: &str| folder.path(name);
    assert!(good(&["trace", "info", csv]).contains("requests"));
    let trace = at("trace.lode.zst");
    good(&["trace", "convert", csv, "-o", &trace]);
    let page = at("curves.html");
    good(&["curve", &trace, "--metric", "pod", "--policy", "ro", "--html", &page]);
    assert!(std::fs::read_to_string(&page).expect("a page").contains("</html>"));
    let (config, cache) = (at("host.toml"), at("cache.img"));
    let (backing, listen) = (at("{vm}.img"), format!("unix:{}", at("{vm}.sock")));
    let plan = json(&[
        "size",
        &trace,
        "--dram",
        dram,
        "--ssd",
        ssd,
        "--scheme",
        scheme,
        "--config",
        &config,
        "--ssd-device",
        &cache,
        "--backing",
        &backing,
        "--listen",
        &listen,
    ]);
    good(&["format", &cache, "--create", "128MiB"]);
    let text = std::fs::read_to_string(&config).expect("a configuration");
    let file: toml::Table = text.parse().expect("TOML");
    let sections = file["vm"].as_array().expect("VMs");
    let recommended = &plan["recommended"];
    assert_eq!(sections.len(), list(&recommended["vms"]).len());
    for (section, vm) in sections.iter().zip(list(&recommended["vms"])) {
        assert_eq!(section["scheme"].as_str(), recommended["scheme"].as_str());
        for (key, blocks) in [("dram", &vm["share"]["dram_blocks"]), ("ssd", &vm["share"]["ssd_blocks"])] {
            let text_of = section.get(key).map_or("0", |size| size.as_str().expect("a size"));
            let share = lode_types::parse_size(text_of).expect("a size");
            assert_eq!(share % (64 << 10), 0, "{text}");
            assert_eq!(share, whole(blocks) * BLOCK, "what was planned is what is served: {text}");
        }
        let disk =
            std::fs::File::create(section["backing"]["path"].as_str().expect("a path")).expect("a disk");
        disk.set_len(64 << 20).expect("a disk");
    }
    good(&["serve", "--check", &config]);
    text
}

#[test]
fn a_made_trace_becomes_a_configuration() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    for (scheme, expected, absent) in [
        ("best", "scheme = \"lru\"", "dram ="),
        ("auto", "scheme = \"auto\"", "settings"),
        ("etica", "scheme = \"etica\"", "mode = "),
        ("arc", "scheme = \"arc\"", "settings"),
        ("lru:write_policy=wt", "write_policy = \"wt\"", "mode"),
    ] {
        let text = walk(&folder, &trace, "512KiB", "2MiB", scheme);
        for expected in ["web_0", "db_0", "[ssd]", "lode serve --check", expected] {
            assert!(text.contains(expected), "{scheme}: {text}");
        }
        assert!(!text.contains(absent), "{scheme}: {text}");
        std::fs::remove_file(folder.path("cache.img")).expect("it is there");
    }
    for scheme in ["tica-ef", "belady", "etica:mode=npe", "auto:runs=off"] {
        let message = bad(&["size", &trace, "--dram", "1MiB", "--ssd", "1MiB", "--scheme", scheme], 2);
        assert!(message.contains("has one SSD level and can be served"), "{message}");
    }
}

#[test]
fn a_downloaded_trace_becomes_a_configuration() {
    for trace in traces("msr-hm_0-sample1k") {
        walk(&Folder::new(), &trace, "8MiB", "64MiB", "best");
    }
}

#[test]
fn names_are_made_fit_for_a_configuration() {
    let folder = Folder::new();
    let names = ["a b/c", "a-b/c", "ü", "x"];
    let guests = names.map(|name| Guest { name, blocks: 50, reads: 60 });
    let trace = folder.file("odd.csv", msr_csv(&guests, 400));
    let text = walk(&folder, &trace, "1MiB", "2MiB", "etica");
    for expected in ["\"a-b-c_0\"", "\"a-b-c_0-2\"", "\"x_0\""] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let config = folder.path("other.toml");
    let one_disk = ["size", &trace, "--dram", "1MiB", "--config", &config, "--backing", "/dev/sdb"];
    // The plan is shown all the same.
    let output = lode(&one_disk);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--backing must have {vm} in it"));
    assert!(text(&output.stdout).contains("x_0"));
}

/// Where there are fewer 64 KiB than VMs, shares are whole ones still, and the file has them.
#[test]
fn few_granules_are_planned_as_they_are_served() {
    let folder = Folder::new();
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let guests = names.map(|name| Guest { name, blocks: 60, reads: 50 });
    let trace = folder.file("seven.csv", msr_csv(&guests, 2100));
    let text = walk(&folder, &trace, "256KiB", "320KiB", "etica");
    assert!(text.contains("ssd = \"0 B\"") && text.contains("ssd = \"64 KiB\""), "{text}");
}

#[test]
fn a_configuration_that_is_not_the_plan_says_so() {
    let folder = Folder::new();
    let (trace, config) = (two_vms(&folder), folder.path("host.toml"));
    let errors = |more: &[&str]| {
        both(
            &[&["size", &trace, "--dram", "512KiB", "--ssd", "2MiB", "--config", &config][..], more].concat(),
        )
        .1
    };
    let file = || std::fs::read_to_string(&config).expect("a configuration");
    assert_eq!(errors(&[]), "");
    let errors_of = |more: &[&str], expected: &str| {
        let errors = errors(more);
        assert!(errors.contains(expected), "{expected} in {errors}");
    };
    errors_of(&["--no-replay"], "no scheme is known to be the best; the configuration has auto");
    assert_eq!(file().matches("scheme = \"auto\"").count(), 2, "{}", file());
    errors_of(&["--no-replay", "--scheme", "etica"], "the configuration has etica:");
    assert_eq!(file().matches("scheme = \"etica\"").count(), 2, "{}", file());
    assert!(file().contains("mode = \"full-hybrid\""), "it is not the default: {}", file());
    assert!(!file().contains("popularity"), "what is at its default is left out: {}", file());
    errors_of(&["--solver", "talus", "--scheme", "etica"], "the plan cuts the caches of");
    // Between 72 and 80 KiB there are no whole 64 KiB, and the rule comes first.
    let rule = ["--vm", "db_0:min-ssd=72KiB,max-ssd=80KiB", "--scheme", "etica"];
    errors_of(&rule, "db_0: the plan gives it 80 KiB of ssd, the configuration");
}

/// Every command of the page is one that the program knows, with these options.
#[test]
fn the_commands_of_the_page_exist() {
    let page = include_str!("../../../../docs/planner.md").replace("\\\n", " ");
    let mut commands = 0;
    for line in page.lines().map(str::trim).filter(|line| line.starts_with("lode ")) {
        let words: Vec<&str> =
            line.split('#').next().unwrap_or_default().split_whitespace().skip(1).collect();
        let depth = if words[0] == "trace" { 2 } else { 1 };
        let help = good(&[&words[..depth], &["--help"]].concat());
        for option in words.iter().filter(|word| word.starts_with("--")) {
            let option = option.split('=').next().unwrap_or_default();
            assert!(help.contains(option), "{option} of {line}");
        }
        commands += 1;
    }
    assert!(commands >= 9, "{commands}");
}
