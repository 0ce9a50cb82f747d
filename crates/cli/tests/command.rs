//! The built `lode` program, as users meet it: results, messages and exit codes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const GOOD: &str =
    "fio version 3 iolog\n0 a write 0 8192\n1 a read 0 4096\n2 b read 4096 512\n3 a sync 0 0\n";
const BAD_LINE: &str = "fio version 3 iolog\n0 a write 0 8192\n1 a read zero 4096\n2 a read 0 4096\n";

fn lode(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lode")).args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// Standard output of a run that must succeed.
fn good(arguments: &[&str]) -> String {
    let output = lode(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    stdout(&output).to_owned()
}

/// Standard error of a run that must fail with this code and say nothing else.
fn bad(arguments: &[&str], code: i32) -> String {
    let output = lode(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
    assert_eq!(stdout(&output), "", "{arguments:?}");
    let message = stderr(&output).to_owned();
    assert!(message.starts_with("lode: "), "{message}");
    message
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), bytes).expect("a file");
        text(&self.path(name))
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

fn replay<'a>(trace: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["replay", trace, "--scheme", "etica", "--dram", "64KiB", "--ssd", "1MiB"];
    arguments.extend(more);
    arguments
}

#[test]
fn a_replay_prints_a_table() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", GOOD);
    let output = lode(&replay(&trace, &[]));
    // Nothing but that years are told of a trace that takes no time.
    let warned = stderr(&output);
    assert!(output.status.success() && warned.lines().count() == 1, "{warned}");
    assert!(warned.contains("less than a second of trace"), "{warned}");
    let table = stdout(&output);
    for expected in [
        "etica, blocks of 4 KiB, DRAM 64 KiB, SSD 1 MiB",
        "hits % of block reads",
        "\n a ",
        "\n b ",
        "\n all ",
    ] {
        assert!(table.contains(expected), "{expected:?} in {table}");
    }
}

#[test]
fn json_goes_to_standard_output_or_a_file() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", GOOD);
    let report = json(&good(&replay(&trace, &["--json", "--set", "mode=npe", "--backing", "raid5"])));
    assert_eq!(report["scheme"], "etica");
    assert_eq!(report["settings"]["mode"], "npe");
    assert_eq!(report["model"]["disk_small_write_factor"], 2.0);
    assert_eq!(report["physical"]["dram_blocks"], 16);
    assert_eq!((&report["total"]["requests"], &report["total"]["flushes"]), (&3.into(), &1.into()));
    assert_eq!(report["vms"].as_array().map(Vec::len), Some(2));
    let out = text(&folder.path("report.json"));
    let table = good(&replay(&trace, &[&format!("--json={out}"), "--vm-by", "file", "--align", "start"]));
    assert!(table.contains("hits % of block reads"), "{table}");
    let report = json(&std::fs::read_to_string(out).expect("the report"));
    assert_eq!(report["vms"][0]["name"], "t");
    let nowhere = text(&folder.path("nowhere/report.json"));
    assert!(lode(&replay(&trace, &[&format!("--json={nowhere}")])).status.code() == Some(1));
}

#[test]
fn standard_input_is_a_trace() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lode"))
        .args(replay("-", &["--json"]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(GOOD.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(json(stdout(&output))["total"]["requests"], 3);
    assert!(bad(&["replay", "-", "-", "--scheme", "lru", "--ssd", "1M"], 2).contains("once"));
}

const PROFILE: &str =
    "[host.mine]\nabout = 'a'\nsource = 's'\ndram = 'ddr4'\nssd = 'nvme'\nbacking = 'hdd-raid5'\n";

#[test]
fn devices_are_chosen_by_name_or_file() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", GOOD);
    let plain = json(&good(&replay(&trace, &["--json"])));
    assert_eq!((&plain["model"]["host"], &plain["devices"]["host"]), (&"default".into(), &"default".into()));
    assert_eq!(plain["model"]["disk_random_us"], 8000.0);
    let named = json(&good(&replay(&trace, &["--json", "--devices", "nvme-cluster"])));
    assert_eq!(
        (&named["model"]["host"], &named["model"]["ssd_read_us"]),
        (&"nvme-cluster".into(), &80.0.into())
    );
    let profile = folder.file("mine.toml", PROFILE);
    let own = json(&good(&replay(&trace, &["--json", "--devices", &profile])));
    assert_eq!((&own["model"]["host"], &own["model"]["disk_by_distance"]), (&"mine".into(), &true.into()));
    assert_eq!(plain["total"]["ssd_writes"], own["total"]["ssd_writes"]);
    let table = good(&replay(&trace, &["--devices", &profile]));
    let last = table.trim_end().lines().last().expect("a line");
    for part in ["Devices mine: ", " J, ", " W over 0 s", "SSD takes 8 KiB, lasts ", "levels cost 0.00 usd."]
    {
        assert!(last.contains(part), "{part:?} in {last:?}");
    }
}

#[test]
fn bad_devices_are_refused_with_advice() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", GOOD);
    assert!(bad(&replay(&trace, &["--devices", "sata-raid"]), 2).contains("sata-raid5"));
    let both = bad(&replay(&trace, &["--devices", "default", "--backing", "hdd"]), 2);
    assert!(both.contains("--backing"), "{both}");
    let wrong = folder.file("wrong.toml", PROFILE.replace("ssd =", "sdd ="));
    let message = bad(&["devices", &wrong], 2);
    assert!(message.contains("wrong.toml") && message.contains("'host.mine'"), "{message}");
    bad(&["devices", &text(&folder.path("absent.toml"))], 1);
    assert!(bad(&["devices", &folder.file("bytes.toml", [0xffu8])], 2).contains("UTF-8"));
    let large = folder.file("large.toml", "#".repeat((1 << 20) + 5));
    assert!(bad(&["devices", &large], 2).contains("more than 1048576"));
}

#[test]
fn devices_say_their_figures_and_sources() {
    let list = good(&["devices"]);
    for name in ["default", "sata-raid5", "nvme-hdd", "nvme-cluster", "tica-wo"] {
        assert!(list.contains(&format!("\n {name} ")), "{name} in {list}");
    }
    let one = good(&["devices", "sata-raid5"]);
    for part in ["TICA (Salkhordeh et al.), Table 1", "seek_mean_us = 8500.0", "ssd_writes_per_gb      6416"]
    {
        assert!(one.contains(part), "{part:?} in {one}");
    }
    let hosts = json(&good(&["devices", "--json"]));
    let hosts = hosts["hosts"].as_array().expect("a list");
    let wo = hosts.iter().find(|host| host["name"] == "tica-wo").expect("TICA's WO-SSD");
    assert_eq!((&wo["ssd"]["power_w"]["idle"], &wo["ssd_writes_per_gb"]), (&1.3.into(), &6416.0.into()));
    assert_eq!(wo["backing"]["disk"]["hdd"]["rpm"], 7200.0);
    let folder = Folder::new();
    let own = json(&good(&["devices", &folder.file("mine.toml", PROFILE), "--json"]));
    assert_eq!(
        (&own["hosts"][0]["name"], &own["hosts"][0]["backing_data_disks"]),
        (&"mine".into(), &5.into())
    );
}

#[test]
fn what_cannot_be_is_refused_with_advice() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", GOOD);
    let cases: [(&[&str], &str); 17] = [
        (&["--scheme", "scave", "--ssd", "1M"], "did you mean 's-cave-like'?"),
        (&["--scheme", "lru", "--ssd", "1M", "--set", "assoc=4", "--set", "assoc=8"], "given twice"),
        (&["--scheme", "l2arc-like", "--dram", "0", "--ssd", "1M"], "needs the dram level; give it --dram"),
        (&["--scheme", "tica-ef", "--dram", "4K", "--ssd", "1M", "--read-ssd", "1M"], "2 blocks or more"),
        (&["--scheme", "etcia", "--ssd", "1M"], "did you mean 'etica'?"),
        (&["--scheme", "etica", "--dram", "1M", "--ssd", "1M", "--set", "mod=npe"], "did you mean 'mode'?"),
        (
            &["--scheme", "etica", "--dram", "1M", "--ssd", "1M", "--set", "mode=x"],
            "npe|full-hybrid|full-strict",
        ),
        (&["--scheme", "etica", "--dram", "1M", "--ssd", "1M", "--set", "mode"], "KEY=VALUE"),
        (&["--scheme", "etica", "--ssd", "1M"], "--dram SIZE"),
        (&["--scheme", "lru"], "--ssd SIZE"),
        (&["--scheme", "lru", "--dram", "1M", "--ssd", "1M"], "does not use the dram level"),
        (&["--scheme", "lru", "--ssd", "1MB"], "--ssd <SIZE>': write a whole number"),
        (&["--scheme", "lru", "--ssd", "512"], "smaller than one block"),
        (&["--scheme", "lru", "--ssd", "5TiB"], "more than 1073741824 blocks"),
        (&["--scheme", "lru", "--ssd", "1M", "--block", "5KiB"], "power of two"),
        (&["--scheme", "lru", "--ssd", "1M", "--format", "xml"], "vscsi"),
        (&["--ssd", "1M"], "Scheme 'auto' uses the dram level; write --dram SIZE"),
    ];
    for (arguments, advice) in cases {
        let message = bad(&[&["replay", &trace], arguments].concat(), 2);
        assert!(message.contains(advice), "{advice:?} in {message:?}");
    }
    assert!(bad(&["replya"], 2).contains("replay"));
    bad(&[], 2);
}

#[test]
fn a_bad_line_is_named_or_skipped_and_counted() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", BAD_LINE);
    let message = bad(&replay(&trace, &[]), 1);
    assert!(message.contains(&trace) && message.contains("line 3"), "{message}");
    let message = bad(&["trace", "info", &trace], 1);
    assert!(message.contains(&trace) && message.contains("line 3"), "{message}");
    let output = lode(&replay(&trace, &["--on-error", "skip", "--json"]));
    assert_eq!(output.status.code(), Some(0));
    let warning = stderr(&output);
    assert!(warning.starts_with("lode: warning: ") && warning.contains("1 skipped"), "{warning}");
    assert!(warning.contains("line 3"), "{warning}");
    let report = json(stdout(&output));
    assert_eq!(
        (&report["total"]["requests"], &report["inputs"][0]["bad_records"][0]["count"]),
        (&2.into(), &1.into())
    );
}

#[test]
fn a_truncated_or_missing_trace_is_a_failure() {
    let folder = Folder::new();
    let whole = folder.file("t.iolog", GOOD);
    for (name, cut_name, complaint) in
        [("t.lode", "cut.lode", "ends too early"), ("t.lode.zst", "cut.lode.zst", "fetch")]
    {
        let compact = text(&folder.path(name));
        good(&["trace", "convert", &whole, "-o", &compact]);
        let bytes = std::fs::read(&compact).expect("the compact trace");
        let cut = folder.file(cut_name, &bytes[..bytes.len() - 5]);
        let message = bad(&replay(&cut, &[]), 1);
        assert!(message.contains(complaint) && message.contains(&cut), "{message}");
    }
    let missing = text(&folder.path("missing.csv"));
    assert!(bad(&replay(&missing, &[]), 1).contains(&missing));
    let unknown = folder.file("unknown", "what is this\n");
    assert!(bad(&replay(&unknown, &[]), 1).contains("no known format"));
}

#[test]
fn a_converted_trace_replays_the_same() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", GOOD);
    for name in ["t.lode", "t.lode.zst"] {
        let converted = text(&folder.path(name));
        assert!(good(&["trace", "convert", &trace, "-o", &converted]).contains("4 requests of 2 volumes"));
        let totals =
            [&trace, &converted].map(|trace| json(&good(&replay(trace, &["--json"])))["total"].clone());
        assert_eq!(totals[0], totals[1], "{name}");
    }
    // What is read is never replaced.
    let misnamed = folder.file("misnamed.lode", GOOD);
    assert!(
        bad(&["trace", "convert", &misnamed, "-o", &misnamed], 2).contains("replace a file that is read")
    );
    assert_eq!(std::fs::read(&misnamed).expect("it is there"), GOOD.as_bytes());
}

#[test]
fn a_failed_conversion_leaves_nothing_and_harms_nothing() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", BAD_LINE);
    let out = folder.file("out.lode", "precious");
    assert!(bad(&["trace", "convert", &trace, "-o", &out], 1).contains("line 3"));
    assert_eq!(std::fs::read(&out).expect("it is there"), b"precious");
    let mut names: Vec<_> = std::fs::read_dir(folder.0.path())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["out.lode", "t.iolog"]);
    let output = lode(&["trace", "convert", &trace, "-o", &out, "--on-error", "skip"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("1 skipped"));
    assert!(bad(&["trace", "convert", &trace, "-o", &text(folder.0.path())], 2).contains("is not a file"));
}

#[test]
fn a_conversion_writes_only_to_names_that_say_what_is_in_them() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", GOOD);
    for (name, better) in [
        ("x.csv", "x.lode'"),
        ("x.csv.gz", "x.lode'"),
        ("x", "x.lode'"),
        ("x.zst", "x.lode.zst'"),
        ("x.lode.xz", "x.lode'"),
        ("t.iolog", "replace a file that is read"),
    ] {
        let message = bad(&["trace", "convert", &trace, "-o", &text(&folder.path(name))], 2);
        assert!(message.contains(better), "{name}: {message}");
        assert!(name == "t.iolog" || !folder.path(name).exists(), "{name}");
    }
    assert_eq!(std::fs::read(&trace).expect("it is there"), GOOD.as_bytes());
    for name in ["X.LODE", "x.lode.ZST"] {
        good(&["trace", "convert", &trace, "-o", &text(&folder.path(name))]);
    }
    good(&["trace", "convert", &trace, "-o", "/dev/null"]);
}

#[test]
fn what_a_cut_compressed_trace_still_gives_is_used_and_the_cut_is_told() {
    let folder = Folder::new();
    let mut lines = "fio version 3 iolog\n".to_owned();
    for i in 0..100_000_u64 {
        // Without a pattern, so that compression leaves several of its blocks, of which half are cut off.
        let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let offset = (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20 << 12;
        lines += &format!("{i} a read {offset} 4096\n");
    }
    let whole = text(&folder.path("whole.lode.zst"));
    good(&["trace", "convert", &folder.file("t.iolog", lines), "-o", &whole]);
    let packed = std::fs::read(whole).expect("the compact trace");
    let cut = folder.file("cut.lode.zst", &packed[..packed.len() / 2]);
    let message = bad(&["trace", "info", &cut], 1);
    assert!(message.contains("ends too early") && message.contains("--on-error skip"), "{message}");
    let skip = ["--on-error", "skip", "--json"];
    for command in [[&["trace", "info", &cut], &skip[..]].concat(), replay(&cut, &skip)] {
        let output = lode(&command);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let warning = stderr(&output);
        assert!(warning.contains("truncated; byte ") && warning.contains(&cut), "{warning}");
        let report = json(stdout(&output));
        let input = if report["input"].is_null() { &report["inputs"][0] } else { &report["input"] };
        let records = &input["bad_records"][0];
        assert_eq!((&records["kind"], &records["count"]), (&"truncated".into(), &1.into()));
        assert!(records["first"][0]["byte"].as_u64() > Some(100_000), "{records}");
        assert!(report["total"]["requests"].as_u64() > Some(10_000), "{}", report["total"]);
    }
}

#[test]
fn what_is_no_trace_file_is_said() {
    let folder = Folder::new();
    assert!(bad(&["trace", "info", &text(folder.0.path())], 1).contains("folder"));
    assert!(bad(&replay(&text(folder.0.path()), &[]), 1).contains("folder"));
    assert!(bad(&["trace", "info", "/dev/null"], 1).contains("empty"));
    assert!(bad(&["trace", "info", "/dev/zero"], 1).contains("no known format"));
}

#[test]
fn a_bogus_time_does_not_hide_how_long_a_trace_is() {
    let folder = Folder::new();
    let mut lines = "fio version 3 iolog\n".to_owned();
    (0..50).for_each(|i| lines += &format!("{} a read 0 4096\n", 5_000_000 + i * 40_000));
    lines += "1266874889000000 a read 0 4096\n";
    let trace = folder.file("t.iolog", lines);
    let text = good(&["trace", "info", &trace]);
    assert!(text.contains("1.960 s without 1 time far from the rest (1266874884.000 s with)"), "{text}");
    let info = json(&good(&["trace", "info", &trace, "--json"]));
    assert_eq!((&info["stray_times"], &info["usual_last_ns"]), (&1.into(), &6_960_000_000_u64.into()));
    assert_eq!(info["last_ns"], 1_266_874_889_000_000_000_u64);
}

#[test]
fn a_trace_is_described() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", GOOD);
    let info = json(&good(&["trace", "info", &trace, "--json"]));
    assert_eq!((&info["input"]["format"], &info["total"]["requests"]), (&"iolog".into(), &4.into()));
    assert_eq!((&info["total"]["distinct_blocks"], &info["volumes"][1]["name"]), (&3.into(), &"b".into()));
    assert_eq!((&info["sizes"]["max_bytes"], &info["first_ns"]), (&8192.into(), &0.into()));
    let table = good(&["trace", "info", &trace]);
    assert!(table.contains("Format iolog") && table.contains("footprint"), "{table}");
}

#[test]
fn schemes_and_help_are_complete() {
    let schemes = json(&good(&["schemes", "--json"]));
    let names: Vec<_> =
        schemes.as_array().expect("a list").iter().map(|scheme| scheme["name"].clone()).collect();
    assert!(names.contains(&"etica".into()) && names.contains(&"lru".into()), "{names:?}");
    for scheme in schemes.as_array().expect("a list") {
        for setting in scheme["settings"].as_array().expect("a list") {
            for key in ["key", "default", "values", "about", "source"] {
                assert!(setting[key].as_str().is_some_and(|text| !text.is_empty()), "{setting}");
            }
        }
    }
    let etica = schemes.as_array().expect("a list").iter().find(|scheme| scheme["name"] == "etica");
    let settings = etica.and_then(|etica| etica["settings"].as_array()).expect("a list");
    let marked: Vec<_> = settings.iter().filter(|setting| setting["reproduction_only"] == true).collect();
    let marked: Vec<_> = marked.iter().filter_map(|setting| setting["key"].as_str()).collect();
    assert_eq!(marked, ["promotion_clock", "evict", "popularity", "window"]);
    let one = json(&good(&["schemes", "etica", "--json"]));
    assert_eq!(one.as_array().and_then(|list| list.first()), etica);
    let text = good(&["schemes", "auto"]);
    assert!(
        text.starts_with("auto (") && text.contains("shadow_blocks") && !text.contains("etica ("),
        "{text}"
    );
    let text = good(&["schemes"]);
    assert!(text.contains("window* ") && text.contains("* Only to reproduce"), "{text}");
    assert!(text.contains("promotion_interval") && text.contains("write_policy"), "{text}");
    for command in [&["replay"][..], &["trace", "info"], &["trace", "convert"], &["schemes"], &[]] {
        let help = good(&[command, &["--help"]].concat());
        assert!(help.contains("Example") && help.contains("Usage: lode"), "{help}");
    }
    assert!(good(&["--version"]).starts_with("lode "));
}
