//! Options that say where results go: the same words everywhere, old spellings, and what an interrupted command leaves.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Two volumes, three requests.
const TRACE: &str = "fio version 3 iolog\n0 a write 0 8192\n1 a read 0 4096\n2 b,c read 4096 512\n";

fn lode(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lode")).args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Standard output and standard error of a run that must succeed.
fn good(arguments: &[&str]) -> (String, String) {
    let output = lode(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

/// Standard error of a run that must refuse its arguments.
fn refused(arguments: &[&str]) -> String {
    let output = lode(arguments);
    let message = text(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}: {message}");
    message
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
        let entries = std::fs::read_dir(self.0.path()).expect("a folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> = entries.map(|entry| name(entry).into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }
}

/// Commands with a table, and what the first row of their CSV begins with.
const TABLES: [(&[&str], &str); 5] = [
    (&["trace", "info"], "path,format,name,requests,"),
    (&["replay", "--scheme", "lru", "--ssd", "1MiB"], "name,requests,read_requests,"),
    (&["curve"], "name,blocks,bytes,hit_ratio,"),
    (&["size", "--ssd", "1MiB", "--no-replay"], "name,requests,dram_blocks,"),
    (&["compare", "--schemes", "lru", "--ssd", "1MiB"], "scheme,dram_bytes,ssd_bytes,"),
];

#[test]
fn json_and_csv_go_in_place_of_the_text_or_beside_it() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", TRACE);
    for (command, titles) in TABLES {
        let run = |more: &[&str]| good(&[command, &[&trace], more].concat()).0;
        let table = run(&[]);
        let (json, csv) = (run(&["--json"]), run(&["--csv"]));
        serde_json::from_str::<Value>(&json).expect("JSON");
        assert!(csv.starts_with(titles), "{csv}");
        let columns = csv.lines().next().expect("titles").split(',').count();
        let is_compare = command[0] == "compare";
        assert_eq!(csv.contains("\"b,c\"") || csv.contains("b,c"), !is_compare, "{csv}");
        assert!(
            csv.lines().filter(|line| !line.contains('"')).all(|line| line.split(',').count() == columns)
        );
        let [json_file, csv_file] = ["r.json", "r.csv"].map(|name| folder.path(name));
        let shown = run(&[&format!("--json={json_file}"), &format!("--csv={csv_file}")]);
        // The heading has the command itself.
        let body = |text: &str| {
            text.lines().filter(|line| !line.contains(": lode ")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(body(&shown), body(&table), "{command:?}");
        assert_eq!(std::fs::read_to_string(&json_file).expect("JSON"), json);
        assert_eq!(std::fs::read_to_string(&csv_file).expect("CSV"), csv);
        let message = refused(&[command, &[&trace, "--json", "--csv"]].concat());
        assert!(message.contains("--json and --csv both go to standard output"), "{message}");
        let message = refused(
            &[command, &[&trace, &format!("--json={json_file}"), &format!("--csv={json_file}")]].concat(),
        );
        assert!(message.contains("--json and --csv are both"), "{message}");
    }
}

/// Title, date, program, command, and the result in one sentence.
#[test]
fn a_report_says_how_it_was_made_and_what_came_of_it() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", TRACE);
    for ((command, _), (title, sentence)) in TABLES[1..].iter().zip([
        ("Replay", "A request takes "),
        ("Hits by cache size", " of all block accesses"),
        ("Cache plan", "Recommended: "),
        ("Schemes side by side", "lru with 1 MiB of SSD is fastest: a request takes "),
    ]) {
        let run = |more: &[&str]| {
            let output = Command::new(env!("CARGO_BIN_EXE_lode"))
                .args(
                    [command, &[&trace, "--threads", "1"][..usize::from(title != "Replay") * 2 + 1], more]
                        .concat(),
                )
                .env("SOURCE_DATE_EPOCH", "951782400")
                .output()
                .expect("it starts");
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            text(&output.stdout)
        };
        let told = run(&[]);
        let made = format!("2000-02-29, Lodestore {}: lode {}", env!("CARGO_PKG_VERSION"), command[0]);
        assert!(told.starts_with(&format!("{title}\n{made}")), "{told}");
        assert!(told.contains(sentence) && told.contains(&trace), "{told}");
        if title != "Replay" {
            let page = run(&["--html", "-"]);
            for part in [title, "2000-02-29, Lodestore", &sentence.replace("Recommended: ", "")] {
                assert!(page.contains(part), "{part}");
            }
        }
    }
}

#[test]
fn pages_pictures_and_traces_go_to_standard_output_too() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", TRACE);
    for (command, _) in &TABLES[2..] {
        let run = |option: &str| good(&[command, &[&trace, option, "-"][..]].concat()).0;
        assert!(run("--html").starts_with("<!DOCTYPE html>") || run("--html").starts_with("<!doctype html>"));
        assert!(run("--svg").contains("<svg"));
        let png = lode(&[command, &[&trace, "--png", "-"][..]].concat());
        assert!(png.stdout.starts_with(b"\x89PNG\r\n\x1a\n"), "{}", text(&png.stderr));
    }
    let output = lode(&["trace", "convert", &trace, "-o", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let made = folder.file("made.lode", &output.stdout);
    let (told, _) = good(&["trace", "info", &made]);
    assert!(told.starts_with("Format lode"), "{told}");
    let message = refused(&["trace", "convert", &trace, "-o", "-", "--json"]);
    assert!(message.contains("--output and --json both go to standard output"), "{message}");
}

#[test]
fn old_spellings_are_answered_with_the_new_ones() {
    for (old, new) in [
        ("trace head t.csv -n 5 --out x.lode", "lode trace head t.csv -n 5 --output x.lode"),
        ("trace convert t.csv x.lode", "lode trace convert t.csv -o x.lode"),
        ("trace synth hm_1 x.lode", "lode trace synth hm_1 -o x.lode"),
        ("replay t.csv --scheme lru --json r.json", "lode replay t.csv --scheme lru --json=r.json"),
        ("replay t.csv --scheme lru --json -", "lode replay t.csv --scheme lru --json (for"),
    ] {
        let message = refused(&old.split(' ').collect::<Vec<_>>());
        assert!(message.contains(new), "{old}: {message}");
    }
}

#[test]
fn several_traces_are_described_one_by_one() {
    let folder = Folder::new();
    let one = folder.file("one.iolog", TRACE);
    let two = folder.file("two.iolog", "fio version 3 iolog\n7 d read 0 512\n");
    let (told, _) = good(&["trace", "info", &one, &two]);
    let places: Vec<_> = [&one, &two].map(|path| told.find(path.as_str()).expect("its name")).to_vec();
    assert!(places[0] < places[1] && told.matches("Format iolog").count() == 2, "{told}");
    let all: Value = serde_json::from_str(&good(&["trace", "info", &one, &two, "--json"]).0).expect("JSON");
    assert_eq!((&all[0]["total"]["requests"], &all[1]["total"]["requests"]), (&3.into(), &1.into()));
    let (csv, _) = good(&["trace", "info", &one, &two, "--csv"]);
    assert_eq!(csv.lines().count(), 4, "{csv}");
    assert!(refused(&["trace", "info", "-", "-"]).contains("name - once"));
}

#[test]
fn a_filter_that_matches_nothing_says_so() {
    let folder = Folder::new();
    let trace = folder.file("t.iolog", TRACE);
    let out = folder.path("out.lode");
    let filter = |more: &[&str]| good(&[&["trace", "filter", &trace, "-o", &out], more].concat()).1;
    let warning = filter(&["--volume", "a", "--from", "1h"]);
    assert!(
        warning
            .contains("Nothing matches: all 3 requests are left out, 1 by --volume, 2 by --from and --until"),
        "{warning}"
    );
    assert_eq!(filter(&["--op", "write"]), "");
}

/// Waits until `is_there` holds.
fn wait_for(child: &mut Child, is_there: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_there() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is written");
        assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whoever sends it, what was there before stays and nothing else is left.
#[test]
fn an_interrupted_command_leaves_no_partial_file() {
    let folder = Folder::new();
    let out = folder.file("out.lode", "precious");
    for signal in ["INT", "TERM", "HUP"] {
        // Standard input that says no more: the command waits for the rest of its trace.
        // Whoever runs the tests may ignore these signals, and programs inherit that.
        let mut child = Command::new("env")
            .args(["--default-signal=INT,TERM,HUP", env!("CARGO_BIN_EXE_lode")])
            .args(["trace", "convert", "-", "-o", &out])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut pipe = child.stdin.take().expect("a pipe");
        let lines: String = (0..50_000).map(|at| format!("{at} a read {} 4096\n", at * 4096)).collect();
        std::io::Write::write_all(&mut pipe, format!("fio version 3 iolog\n{lines}").as_bytes())
            .expect("it reads");
        wait_for(&mut child, || Path::new(&folder.path(".partial-out.lode")).exists());
        let number = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &number]).status().expect("a shell").success());
        let status = child.wait().expect("it ends");
        assert!(!status.success() && status.code().is_none(), "{signal}: {status}");
        assert_eq!(folder.names(), ["out.lode"], "{signal}");
        assert_eq!(std::fs::read(&out).expect("it is there"), b"precious");
    }
}
