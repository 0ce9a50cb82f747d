//! `lode trace convert`, `head`, `filter`, `split` and `sort`, as users meet them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use lode_trace::{ReadOptions, open_trace};
use lode_types::Origin;
use serde_json::Value;

/// Times in microseconds, volume, operation: backwards in one place, and two equal times.
const BACKWARDS: &str = "fio version 3 iolog\n\
    10 a write 0 8192\n11 b read 4096 512\n5 a read 8192 4096\n11 a trim 0 4096\n3000000 b sync 0 0\n";

fn lode(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lode")).args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn good(arguments: &[&str]) -> (String, String) {
    let output = lode(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    (String::from_utf8(output.stdout.clone()).expect("UTF-8"), stderr(&output))
}

/// The summary of a run.
fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&good(&[arguments, &["--json"]].concat()).0).expect("JSON")
}

fn bad(arguments: &[&str], code: i32) -> String {
    let output = lode(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
    assert!(output.stdout.is_empty(), "{arguments:?}");
    stderr(&output)
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), bytes).expect("a file");
        self.path(name)
    }

    fn names(&self) -> Vec<String> {
        names_in(self.0.path())
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// Time in microseconds, volume's name and offset of every request.
fn read(path: impl Into<PathBuf>) -> Vec<(u64, String, u64)> {
    let mut reader = open_trace(path.into(), &ReadOptions::default()).expect("a trace");
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).expect("a good trace") > 0 {
        let volumes = reader.volumes();
        all.extend(
            batch.iter().map(|r| (r.time_ns / 1000, volumes[r.volume as usize].clone(), r.offset_bytes)),
        );
    }
    all
}

fn brief(path: &str) -> Vec<(u64, String)> {
    read(path).into_iter().map(|(time, volume, _)| (time, volume)).collect()
}

fn of(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    expected.iter().map(|&(time, volume)| (time, volume.to_owned())).collect()
}

#[test]
fn backwards_times_are_told_with_the_way_to_repair_them() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", BACKWARDS);
    let out = folder.path("t.lode");
    for command in [
        &["trace", "info", &trace][..],
        &["trace", "convert", &trace, "-o", &out],
        &["trace", "head", &trace, "-n", "9", "--output", &out],
        &["trace", "filter", &trace, "--output", &out],
        &["trace", "split", &trace, "--output", &folder.path("split")],
        &["replay", &trace, "--scheme", "lru", "--ssd", "1MiB"],
    ] {
        let (_, warning) = good(command);
        let expected = format!(
            "1 request earlier than the one before; to put them in order: lode trace sort {trace} -o SORTED.lode"
        );
        assert!(warning.contains(&expected), "{command:?}: {warning}");
    }
    let sort = ["trace", "sort", &trace, "--output", &out];
    let (text, warning) = good(&sort);
    assert!(text.contains("5 requests of 2 volumes") && text.contains("1 request came earlier"), "{text}");
    assert_eq!(warning, "");
    assert_eq!(brief(&out), of(&[(5, "a"), (10, "a"), (11, "b"), (11, "a"), (3_000_000, "b")]));
    assert_eq!(good(&["trace", "info", &out]).1, "");
    // What would need quotes in a shell is not put into a command to be copied.
    let odd = folder.file("t $(x).iolog", BACKWARDS);
    assert!(good(&["trace", "info", &odd]).1.contains("lode trace sort TRACE -o"));
}

#[test]
fn sorting_with_little_memory_gives_the_same_and_leaves_nothing() {
    let folder = Folder::new();
    let mut lines = "fio version 3 iolog\n".to_owned();
    let mut expected = Vec::new();
    for i in 0..120_000_u64 {
        let (time, volume) =
            (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50, if i % 3 == 0 { "a" } else { "b" });
        lines += &format!("{time} {volume} read {} 4096\n", i * 4096);
        expected.push((time, volume.to_owned(), i * 4096));
    }
    expected.sort_by_key(|request| request.0);
    let trace = folder.file("t.iolog", lines);
    let (small, large) = (folder.path("small.lode"), folder.path("large.lode.zst"));
    let summary = json(&["trace", "sort", &trace, "-o", &small, "--memory", "1MiB"]);
    // 1 MiB sorts 16,384 requests at once and merges 4 runs.
    assert_eq!(
        (&summary["runs"], &summary["requests"], &summary["volumes"]),
        (&8.into(), &120_000.into(), &2.into())
    );
    assert!(summary["temporary_bytes"].as_u64() > Some(120_000), "{summary}");
    let summary = json(&["trace", "sort", &trace, "-o", &large]);
    assert_eq!((&summary["runs"], &summary["temporary_bytes"]), (&0.into(), &0.into()));
    assert_eq!(summary["output"], Value::from(large.clone()));
    assert!(summary["inputs"][0]["backwards"].as_u64() > Some(10_000), "{summary}");
    assert_eq!(read(&small), expected);
    assert_eq!(read(&large), expected);
    assert_eq!(folder.names(), ["large.lode.zst", "small.lode", "t.iolog"]);
    assert!(bad(&["trace", "sort", &trace, "-o", &small, "--memory", "1023KiB"], 2).contains("1MiB"));
    let nowhere = folder.path("nowhere");
    let message = bad(&["trace", "sort", &trace, "-o", &small, "--memory", "1MiB", "--temp", &nowhere], 1);
    assert!(message.contains("temporary data") && message.contains("nowhere"), "{message}");
}

#[test]
fn several_traces_become_one() {
    let folder = Folder::new();
    let one = folder.file("one.iolog", BACKWARDS);
    let two = folder.file("two.iolog", "fio version 3 iolog\n7 c read 0 512\n11 a read 0 512\n");
    let out = folder.path("out.lode");
    let (_, warning) = good(&["trace", "sort", &one, &two, "-o", &out]);
    assert!(warning.contains("1 volume name in several of the traces, such as a,"), "{warning}");
    let sorted = of(&[(5, "a"), (7, "c"), (10, "a"), (11, "b"), (11, "a"), (11, "a"), (3_000_000, "b")]);
    assert_eq!(brief(&out), sorted);
    let part = folder.path("part.lode");
    let summary = json(&["trace", "filter", &out, &two, "--volume", "c", "--volume", "z*", "-o", &part]);
    assert_eq!(brief(&part), of(&[(7, "c"), (7, "c")]));
    assert_eq!((&summary["requests"], &summary["volumes"]), (&2.into(), &1.into()));
    assert_eq!((&summary["dropped"]["volume"], &summary["unmatched"]), (&7.into(), &vec!["z*"].into()));
}

#[test]
fn a_filter_takes_times_volumes_and_operations() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", BACKWARDS);
    let out = folder.path("out.lode");
    let filter = |more: &[&str]| {
        let summary = json(&[&["trace", "filter", &trace, "-o", &out], more].concat());
        (brief(&out), summary)
    };
    // The first request came at 10 us.
    assert_eq!(filter(&["--from", "1us"]).0, of(&[(11, "b"), (11, "a"), (3_000_000, "b")]));
    assert_eq!(filter(&["--from", "@10us", "--until", "@11us"]).0, of(&[(10, "a")]));
    assert_eq!(filter(&["--until", "1s", "--op", "read,trim"]).0, of(&[(11, "b"), (5, "a"), (11, "a")]));
    assert_eq!(filter(&["--op", "flush", "--op", "write"]).0, of(&[(10, "a"), (3_000_000, "b")]));
    let (kept, summary) = filter(&["--volume", "[b-z]", "--from", "3h"]);
    assert_eq!((kept, &summary["start_ns"]), (of(&[]), &10_000.into()));
    assert_eq!(summary["dropped"], serde_json::json!({"volume": 3, "op": 0, "time": 2}));
    assert!(
        bad(&["trace", "filter", &trace, "-o", &out, "--from", "1h", "--until", "60m"], 2)
            .contains("--until")
    );
    for time in ["10", "yesterday", "-1s"] {
        assert!(
            bad(&["trace", "filter", &trace, "-o", &out, &format!("--from={time}")], 2)
                .contains("such as 10s")
        );
    }
    assert!(bad(&["trace", "filter", &trace, "-o", &out, "--volume", "[a"], 2).contains("is not a pattern"));
}

#[test]
fn the_head_of_a_trace_is_written() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", BACKWARDS);
    let out = folder.path("out.lode");
    let head = |count: &str| json(&["trace", "head", &trace, "-n", count, "-o", &out]);
    assert_eq!((&head("1")["missing"], &head("1")["volumes"]), (&0.into(), &1.into()));
    assert_eq!(brief(&out), of(&[(10, "a")]));
    assert_eq!(head("0")["requests"], 0);
    assert_eq!(brief(&out), of(&[]));
    assert_eq!((&head("7")["missing"], &head("7")["requests"]), (&2.into(), &5.into()));
}

#[test]
fn a_trace_is_split_into_its_volumes() {
    let folder = Folder::new();
    let lines =
        "fio version 3 iolog\n9 /dev/sda read 0 512\n1 _dev_sda read 512 512\n2 /dev/sda read 1024 512\n";
    let trace = folder.file("t.iolog", lines);
    let out = folder.path("deep/er");
    let summary = json(&["trace", "split", &trace, "--output", &out]);
    assert_eq!(names_in(Path::new(&out)), ["_dev_sda-2.lode", "_dev_sda.lode"]);
    assert_eq!((&summary["volumes"], &summary["requests"]), (&2.into(), &3.into()));
    let files = &summary["files"];
    assert_eq!((&files[0]["volume"], &files[0]["requests"]), (&"/dev/sda".into(), &2.into()));
    assert_eq!(files[1]["volume"], "_dev_sda");
    // The order of the trace stays, and so does the volume's own name.
    let first = files[0]["path"].as_str().expect("a path");
    assert_eq!(brief(first), of(&[(9, "/dev/sda"), (2, "/dev/sda")]));
    assert_eq!(brief(files[1]["path"].as_str().expect("a path")), of(&[(1, "_dev_sda")]));

    let before = std::fs::read(first).expect("a file");
    std::fs::remove_file(files[1]["path"].as_str().expect("a path")).expect("it was there");
    let message = bad(&["trace", "split", &trace, "--output", &out], 2);
    assert!(message.contains("is there already; --force"), "{message}");
    assert_eq!(names_in(Path::new(&out)), ["_dev_sda.lode"]);
    assert_eq!(std::fs::read(first).expect("a file"), before);
    // What else is there is replaced, but not what is read.
    folder.file("deep/er/_dev_sda-2.lode", "other");
    good(&["trace", "split", &trace, "--output", &out, "--force"]);
    assert_eq!(brief(&folder.path("deep/er/_dev_sda-2.lode")), of(&[(1, "_dev_sda")]));
    std::fs::remove_file(folder.path("deep/er/_dev_sda-2.lode")).expect("it was there");
    let message = bad(&["trace", "split", first, "--output", &out, "--force"], 2);
    assert!(message.contains("a file that is read"), "{message}");
    assert_eq!(brief(first), of(&[(9, "/dev/sda"), (2, "/dev/sda")]));
    good(&["trace", "split", first, "--output", &out, "--zstd"]);
    assert_eq!(names_in(Path::new(&out)), ["_dev_sda.lode", "_dev_sda.lode.zst"]);
    assert!(bad(&["trace", "split", &trace, "--output", &trace], 1).contains("folder"));
}

#[test]
fn more_volumes_than_open_files_are_split() {
    let folder = Folder::new();
    let mut lines = "fio version 3 iolog\n".to_owned();
    for i in 0..3000 {
        lines += &format!("{i} v{} read {} 512\n", i % 1500, i * 512);
    }
    let trace = folder.file("t.iolog", lines);
    let out = folder.path("out");
    let command =
        format!("ulimit -n 64; exec '{}' trace split '{trace}' --output '{out}'", env!("CARGO_BIN_EXE_lode"));
    let output = Command::new("sh").args(["-c", &command]).output().expect("a shell");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(names_in(Path::new(&out)).len(), 1500);
    assert_eq!(brief(&format!("{out}/v7.lode")), of(&[(7, "v7"), (1507, "v7")]));
}

#[test]
fn a_bad_trace_or_a_full_disk_leaves_nothing() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", "fio version 3 iolog\n0 a write 0 8192\n1 a read zero 4096\n");
    let (out, new) = (folder.file("out.lode", "precious"), folder.path("new"));
    for command in [
        &["trace", "sort", &trace, "-o", &out][..],
        &["trace", "filter", &trace, "-o", &out],
        &["trace", "head", &trace, "-n", "5", "-o", &out],
        &["trace", "split", &trace, "-o", &new],
    ] {
        assert!(bad(command, 1).contains("line 3"), "{command:?}");
    }
    let trace = folder.file("t.iolog", BACKWARDS);
    for command in [
        &["trace", "sort", &trace, "-o", "/dev/full"][..],
        &["trace", "filter", &trace, "-o", "/dev/full"],
        &["trace", "convert", &trace, "-o", "/dev/full"],
    ] {
        let message = bad(command, 1);
        assert!(message.contains("No space left on device") && message.contains("check space"), "{message}");
    }
    assert_eq!(std::fs::read(&out).expect("it is there"), b"precious");
    assert_eq!(folder.names(), ["out.lode", "t.iolog"]);
}

#[test]
fn what_is_read_is_never_replaced() {
    let folder = Folder::new();
    let trace = folder.path("t.lode");
    good(&["trace", "convert", &folder.file("t.iolog", BACKWARDS), "-o", &trace]);
    let other = folder.path("other.lode");
    std::fs::copy(&trace, &other).expect("a copy");
    let linked = folder.path("linked.lode");
    std::os::unix::fs::symlink(&trace, &linked).expect("a link");
    // The name under which x.lode is written until it is complete.
    let partial = folder.path(".partial-x.lode");
    std::fs::copy(&trace, &partial).expect("a copy");
    let beside = folder.path("x.lode");
    let (before, names) = (std::fs::read(&trace).expect("a file"), folder.names());
    for command in [
        &["trace", "head", &trace, "-n", "2", "-o", &trace][..],
        &["trace", "head", &linked, "-n", "2", "-o", &trace],
        &["trace", "head", &trace, "-n", "2", "-o", &linked],
        &["trace", "head", &partial, "-n", "2", "-o", &beside],
        &["trace", "filter", &other, &trace, "--op", "read", "-o", &trace],
        &["trace", "sort", &other, &trace, "-o", &trace],
        &["trace", "convert", &trace, "-o", &trace],
        &["replay", &trace, "--scheme", "lru", "--ssd", "1MiB", &format!("--json={trace}")],
    ] {
        let message = bad(command, 2);
        assert!(message.contains("a file that is read"), "{command:?}: {message}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_lode"))
        .args(["trace", "head", "-", "-n", "2", "-o", &trace])
        .stdin(std::fs::File::open(&trace).expect("a file"))
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("a file that is read"), "{}", stderr(&output));
    let profile = folder.file("p.lode", good(&["trace", "synth", "--show", "hm_1"]).0);
    assert!(bad(&["trace", "synth", &profile, "-o", &profile], 2).contains("a file that is read"));
    std::fs::remove_file(profile).expect("it was there");
    assert_eq!(folder.names(), names);
    for path in [&trace, &other, &partial] {
        assert_eq!(std::fs::read(path).expect("a file"), before, "{path}");
    }
}

#[test]
fn traces_of_nothing_and_of_one_request_work() {
    let folder = Folder::new();
    for (lines, count) in [("fio version 3 iolog\n", 0), ("fio version 3 iolog\n7 a read 0 512\n", 1)] {
        let trace = folder.file("t.iolog", lines);
        let out = folder.path("out.lode");
        for command in [
            &["trace", "sort", &trace, "-o", &out][..],
            &["trace", "filter", &trace, "-o", &out],
            &["trace", "head", &trace, "-n", "5", "-o", &out],
        ] {
            assert_eq!(json(command)["requests"], count, "{command:?}");
            assert_eq!(brief(&out).len() as u64, count, "{command:?}");
        }
        let split = json(&["trace", "split", &trace, "-o", &folder.path("split")]);
        assert_eq!((&split["requests"], &split["volumes"]), (&count.into(), &count.into()));
    }
}

#[test]
fn every_tool_has_help_with_an_example() {
    for tool in ["convert", "head", "filter", "split", "sort"] {
        let (help, _) = good(&["trace", tool, "--help"]);
        assert!(help.contains("Example") && help.contains("--json"), "{help}");
    }
}

/// Who asked, in two volumes, not in order of time. What a field is left empty for is not known.
const TOLD: &str = "time_ns,volume,op,offset_bytes,length_bytes,process,sync,critical\n\
    5000,a,W,8192,4096,1207,1,1\n\
    3000,b,W,1048576,65536,88,0,0\n\
    4000,a,F,0,0,1207,1,\n\
    9000,b,R,4096,512,,1,0\n\
    9000,a,R,0,512,0,,\n";

/// Time and issuer of each request.
fn origins(path: &str) -> Vec<(u64, Origin)> {
    let mut reader = open_trace(Path::new(path), &ReadOptions::default()).expect("a trace");
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).expect("a good trace") > 0 {
        all.extend(batch.iter().map(|r| (r.time_ns, r.origin)));
    }
    all
}

#[test]
fn tools_keep_who_asked() {
    let folder = Folder::new();
    let (text, compact, out) = (folder.file("t.csv", TOLD), folder.path("t.lode"), folder.path("out.lode"));
    let process = |number| Origin::UNKNOWN.with_process(number).expect("it is small");
    let told = [
        (5000, process(1207).with_sync(true).with_critical(true)),
        (3000, process(88).with_sync(false).with_critical(false)),
        (4000, process(1207).with_sync(true)),
        (9000, Origin::UNKNOWN.with_sync(true).with_critical(false)),
        (9000, process(0)),
    ];
    let only = |kept: &[usize]| kept.iter().map(|&at| told[at]).collect::<Vec<_>>();
    assert_eq!(origins(&text), told);
    good(&["trace", "convert", &text, "-o", &compact]);
    for trace in [&text, &compact] {
        let made = |tool: &[&str]| {
            good(&[&["trace", tool[0], trace], &tool[1..]].concat());
            let tells = json(&["trace", "info", &out])["tells"].clone();
            assert_eq!(tells, serde_json::json!(["process", "sync", "critical"]), "{tool:?}");
            origins(&out)
        };
        assert_eq!(made(&["convert", "-o", &out]), told);
        assert_eq!(made(&["sort", "-o", &out]), only(&[1, 2, 0, 3, 4]));
        let volume_b = ["filter", "-o", &out, "--volume", "b"];
        assert_eq!(made(&volume_b), only(&[1, 3]));
        assert_eq!(made(&["filter", "-o", &out, "--op", "write,flush"]), only(&[0, 1, 2]));
        assert_eq!(made(&["head", "-o", &out, "-n", "3"]), only(&[0, 1, 2]));
        let parts = folder.path("parts");
        good(&["trace", "split", trace, "--output", &parts, "--force"]);
        let part = |name: &str| origins(&format!("{parts}/{name}.lode"));
        assert_eq!((part("a"), part("b")), (only(&[0, 2, 4]), only(&[1, 3])));
    }
}

/// An admission by who asks is refused before anything starts where the trace does not tell.
#[test]
fn an_admission_by_who_asks_needs_a_trace_that_tells() {
    let folder = Folder::new();
    let silent = folder.file("silent.iolog", BACKWARDS);
    let told = folder.file("told.csv", TOLD);
    let lines: Vec<String> =
        TOLD.lines().map(|line| line.rsplit_once(',').expect("columns").0.to_owned()).collect();
    let sync_only = folder.file("sync.csv", lines.join("\n"));
    let replay = |trace: &str, admission: &str| {
        let set = format!("admission={admission}");
        let report = folder.path("report.json");
        let arguments = [
            "replay",
            trace,
            "--scheme",
            "request-oriented",
            "--ssd",
            "1MiB",
            "--set",
            &set,
            &format!("--json={report}"),
        ];
        let output = lode(&arguments);
        (output.status.code(), stderr(&output), Path::new(&report).exists())
    };
    for (trace, admission, words) in [
        (&silent, "sync", "'sync', and these tell nothing of who asks"),
        (&silent, "cp", "'sync' and 'critical', and these tell nothing"),
        (&sync_only, "cp", "and these tell only 'process', 'sync'"),
        (&told, "cp-pi", "who waits for whom"),
    ] {
        let (code, said, is_reported) = replay(trace, admission);
        assert!(code == Some(2) && said.contains(words), "{admission}: {code:?} {said}");
        assert!(!is_reported && !said.contains("requests/s"), "nothing started: {said}");
    }
    for (trace, admission) in [(&sync_only, "sync"), (&told, "cp"), (&silent, "all")] {
        let (code, said, is_reported) = replay(trace, admission);
        assert!(code == Some(0) && is_reported, "{admission}: {said}");
        std::fs::remove_file(folder.path("report.json")).expect("it is there");
    }
}

#[test]
fn what_a_trace_was_taken_for_is_told_where_that_is_in_doubt() {
    let folder = Folder::new();
    let line = "373.94074 0 720749690880 1024 1\n";
    let (text, warning) = good(&["trace", "info", &folder.file("short.trace", line)]);
    assert!(text.starts_with("Format heimdall"), "{text}");
    assert!(warning.contains("taken for heimdall; disksim would fit, too"), "{warning}");
    let long = folder.file("long.trace", line.repeat(8));
    assert_eq!(good(&["trace", "info", &long]).1, "");
    let (text, warning) = good(&["trace", "info", &long, "--format", "disksim"]);
    assert!(text.contains("requests of 512 KiB to 512 KiB"), "{text}");
    assert!(warning.contains("half of the first requests are of 512 KiB or more"), "{warning}");
    let input = &json(&["trace", "info", &long, "--format", "disksim"])["input"];
    assert_eq!((&input["implausible_bytes"], &input["also_fits"]), (&524_288.into(), &Value::Array(vec![])));
    // Block numbers have units of their own to be wrong in.
    let numbers = folder.file("n.lis", "1 1 0 1\n2 1 0 2\n");
    assert_eq!(good(&["trace", "info", &numbers, "--unit", "1MiB"]).1, "");
}
