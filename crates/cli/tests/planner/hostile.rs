//! Traces, files and settings that nobody wanted: they work, or the message says what to do next.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::*;

/// Each command, with what it needs besides a trace.
const COMMANDS: [&[&str]; 3] = [
    &["curve"],
    &["size", "--dram", "1MiB", "--ssd", "1MiB"],
    &["compare", "--schemes", "etica", "--dram", "1MiB", "--ssd", "1MiB"],
];

fn fed(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lode"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // A run that refuses its arguments does not read.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

#[test]
fn traces_with_no_request_and_with_one() {
    let folder = Folder::new();
    let empty = folder.file("empty.csv", "");
    let one = folder.file("one.csv", msr_csv(&TWO, 1));
    let by_money: &[&str] = &["size", "--budget", "5usd"];
    for command in COMMANDS.into_iter().chain([by_money]) {
        let message = bad(&[command, &[&empty]].concat(), 1);
        assert!(message.contains("The trace is empty") && message.contains("name one of"), "{message}");
        let nothing = json(&[command, &[&empty, "--format", "msr"]].concat());
        assert!(list(&nothing["inputs"]).len() == 1, "{nothing}");
        json(&[command, &[&one]].concat());
        let html = folder.path("page.html");
        // Programs find the same columns.
        let titles =
            |trace: &[&str]| good(&[command, trace, &["--csv"]].concat()).lines().next().map(str::to_owned);
        let of_nothing = titles(&[&empty, "--format", "msr"]);
        assert!(of_nothing.is_some() && of_nothing == titles(&[&one]), "{of_nothing:?}");
        for trace in [&[one.as_str()][..], &[&empty, "--format", "msr"]] {
            good(&[command, trace, &["--html", &html]].concat());
            assert!(std::fs::read_to_string(&html).expect("a page").contains("</html>"));
        }
    }
}

#[test]
fn requests_at_the_end_of_what_can_be_addressed() {
    let folder = Folder::new();
    let line = |offset: u64, bytes: u64| format!("128166372003061629,a,0,Read,{offset},{bytes},1\n");
    let last = u64::MAX - 4095;
    let good_trace = folder.file("top.csv", line(last, 4095) + &line(last, 4095));
    let beyond = folder.file("beyond.csv", line(0, 4096) + &line(last, 4096));
    for command in COMMANDS {
        good(&[command, &[&good_trace]].concat());
        let message = bad(&[command, &[&beyond]].concat(), 1);
        for expected in ["ends below 2^64", "beyond.csv, line 2", "--on-error skip"] {
            assert!(message.contains(expected), "{message}");
        }
        let (_, errors) = both(&[command, &[&beyond, "--on-error", "skip"]].concat());
        assert!(errors.contains("1 skipped: out of range; line 2"), "{errors}");
    }
    assert_eq!(json(&["curve", &good_trace])["vms"][0]["blocks"], 1);
    // One line is enough to tell what it is, and what is wrong with it.
    for number in ["18446744073709551616", "99999999999999999999999999"] {
        let alone = folder.file("alone.csv", format!("128166372003061629,a,0,Read,{number},4096,1\n"));
        let message = bad(&["curve", &alone], 1);
        assert!(message.contains("alone.csv, line 1") && message.contains("below 2^64"), "{message}");
    }
}

#[test]
fn times_below_zero_and_times_that_go_back() {
    let folder = Folder::new();
    let below = folder.file("below.csv", "5,a,0,Read,0,4096,1\n-5,a,0,Read,0,4096,1\n");
    let forth: Vec<String> = msr_csv(&TWO, 20).lines().map(str::to_owned).collect();
    let back: Vec<String> = forth.iter().rev().cloned().collect();
    let back = folder.file("back.csv", back.join("\n"));
    for command in COMMANDS {
        let message = bad(&[command, &[&below, "--format", "msr"]].concat(), 1);
        assert!(message.contains("below.csv, line 2"), "{message}");
        let (_, errors) = both(&[command, &[&back]].concat());
        assert!(errors.contains("back.csv: 19 requests earlier than the one before"), "{errors}");
        assert!(errors.contains(&format!("lode trace sort {back} -o ")), "{errors}");
    }
    let sorted = folder.path("sorted.lode");
    good(&["trace", "sort", &back, "--output", &sorted]);
    assert_eq!(both(&["curve", &sorted]).1, "");
}

#[test]
fn standard_input_is_read_once() {
    let trace = msr_csv(&TWO, 400);
    let run = |arguments: &[&str], code: i32| {
        let output = fed(arguments, &trace);
        let errors = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        errors
    };
    assert_eq!(run(&["curve", "-"], 0), "");
    let errors = run(&["size", "-", "--ssd", "1MiB"], 0);
    assert!(errors.contains("the plan is not replayed"), "{errors}");
    let errors = run(&["compare", "-", "--schemes", "etica", "--ssd", "1MiB"], 2);
    assert!(errors.contains("read more than once") && errors.contains("write them to a file"), "{errors}");
    for command in COMMANDS {
        let errors = run(&[command, &["-", "-"]].concat(), 2);
        assert!(errors.contains("name - once"), "{errors}");
    }
}

/// Nothing can be read again.
#[test]
fn a_trace_of_nothing() {
    for command in COMMANDS {
        let message = bad(&[command, &["/dev/null"]].concat(), 1);
        assert!(message.contains("The trace is empty"), "{message}");
    }
}

/// As `head` does.
#[test]
fn whoever_stops_reading_has_what_they_wanted() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    for command in COMMANDS {
        let page = folder.path("page.html");
        let mut child = Command::new(env!("CARGO_BIN_EXE_lode"))
            .args([command, &[&trace, "--json", "--html", &page]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{command:?}");
        assert!(std::fs::read_to_string(&page).expect("a page").contains("</html>"));
        std::fs::remove_file(&page).expect("a page");
    }
}

#[test]
fn folders_and_files_that_are_not_there() {
    let folder = Folder::new();
    let root = folder.root().to_str().expect("UTF-8").to_owned();
    for command in COMMANDS {
        let message = bad(&[command, &[&root]].concat(), 1);
        assert!(message.contains("Cannot read a folder as a trace; name a file in it"), "{message}");
        let message = bad(&[command, &[&folder.path("none.csv")]].concat(), 1);
        assert!(message.contains("check its path and rights") && message.contains("none.csv"), "{message}");
        let message = bad(&[command, &[&folder.path("*.csv")]].concat(), 1);
        assert!(message.contains("no file matches this pattern") && message.contains("*.csv"), "{message}");
    }
}

#[test]
fn results_that_cannot_be_written() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let nowhere = folder.path("none/file");
    for command in COMMANDS {
        for option in ["--html", "--svg", "--png"] {
            let message = bad(&[command, &[&trace, option, &nowhere]].concat(), 1);
            assert!(
                message.contains("Cannot write") && message.contains("check folder and rights"),
                "{message}"
            );
        }
    }
    // Nothing is measured, and nothing else written, for a page that cannot be.
    let config = folder.path("host.toml");
    bad(&["size", &folder.path("none.csv"), "--ssd", "1MiB", "--html", &nowhere, "--config", &config], 1);
    let message = bad(&["size", &trace, "--ssd", "1MiB", "--html", &nowhere, "--config", &config], 1);
    assert!(message.contains("none/file") && !Path::new(&config).exists(), "{message}");
    let message = bad(&["size", &trace, "--ssd", "1MiB", "--no-replay", "--config", &nowhere], 1);
    assert!(message.contains("check folder and rights"), "{message}");
}

#[test]
fn more_vms_than_a_daemon_serves_are_planned_for_all_the_same() {
    let folder = Folder::new();
    let line = |vm: u64| format!("{},h{vm},0,Read,0,4096,1\n", 128_166_372_000_000_000 + vm);
    let trace = folder.file("many.csv", (0..1025).map(line).collect::<String>());
    let config = folder.path("host.toml");
    let page = folder.path("page.html");
    let output =
        lode(&["size", &trace, "--dram", "64MiB", "--no-replay", "--config", &config, "--html", &page]);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let (table, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.starts_with("lode: warning: No configuration: there are more than 1024 VMs"), "{errors}");
    assert!(table.contains("985 more VMs") && Path::new(&page).exists(), "{table}");
    assert!(!Path::new(&config).exists());
}

/// A trace costs more than any result.
#[test]
fn what_is_read_is_never_written_over() {
    let folder = Folder::new();
    let text = msr_csv(&TWO, 100);
    let trace = folder.file("two.csv", &text);
    let (linked, hard) = (folder.path("linked.html"), folder.path("hard.html"));
    std::os::unix::fs::symlink(&trace, &linked).expect("a link");
    std::fs::hard_link(&trace, &hard).expect("a link");
    let refused = |arguments: &[&str], expected: &str| {
        let message = bad(arguments, 2);
        assert!(message.contains(expected), "{arguments:?}: {message}");
        assert_eq!(std::fs::read_to_string(&trace).expect("the trace"), text);
    };
    for command in COMMANDS {
        for option in ["--html", "--svg", "--png"] {
            for path in [&trace, &linked, &hard] {
                refused(&[command, &[&trace, option, path]].concat(), "a file that is read");
            }
        }
        let new = folder.path("new.html");
        refused(&[command, &[&trace, "--html", &new, "--svg", &new]].concat(), "--html and --svg are both");
        assert!(!Path::new(&new).exists());
    }
    let size = ["size", &trace, "--dram", "1MiB"];
    refused(&[&size[..], &["--config", &trace]].concat(), "a file that is read");
    refused(&[&size[..], &["--config", "x.toml", "--devices", "x.toml"]].concat(), "x.toml");
    let both = folder.file("both", "");
    refused(&[&size[..], &["--config", &both, "--svg", &both]].concat(), "--svg and --config are both");
    let replay = ["replay", &trace, "--scheme", "lru", "--ssd", "1MiB"];
    refused(&[&replay[..], &[&format!("--json={trace}")]].concat(), "a file that is read");
    refused(&["trace", "fit", &trace, "--output", &trace], "a file that is read");
}

#[test]
fn results_appear_whole_or_not_at_all() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let page = folder.file("page.html", "an older page");
    let before = folder.path("before.html");
    std::fs::hard_link(&page, &before).expect("a link");
    good(&["curve", &trace, "--html", &page, "--svg", "/dev/null"]);
    assert!(std::fs::read_to_string(&page).expect("a page").contains("</html>"));
    // Another file has taken its name.
    assert_eq!(std::fs::read_to_string(&before).expect("a page"), "an older page");
    let names = std::fs::read_dir(folder.root()).expect("a folder").count();
    assert_eq!(names, 3, "the trace and both pages");
}

/// Runs a command whose standard error takes nothing; gives its exit code and whether it printed a result.
fn unheard(arguments: &[&str], errors: Stdio) -> (Option<i32>, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lode"));
    let output = command.args(arguments).stdin(Stdio::null()).stderr(errors).output().expect("it starts");
    (output.status.code(), !output.stdout.is_empty())
}

#[test]
fn messages_that_nobody_takes_change_no_result() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let warns = ["size", &trace, "--dram", "256KiB", "--no-replay"];
    assert!(both(&warns).1.contains("warning"), "there is something to be said");
    for (arguments, expected) in [
        (&warns[..], (Some(0), true)),
        (&["size", &folder.path("none.csv"), "--dram", "1MiB"], (Some(1), false)),
        (&["size", &trace], (Some(2), false)),
        (&["size", &trace, "--dram"], (Some(2), false)),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a device");
        assert_eq!(unheard(arguments, full.into()), expected, "{arguments:?}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert_eq!(unheard(arguments, writer.into()), expected, "{arguments:?}");
    }
}

#[test]
fn sizes_and_money_out_of_range() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    for (more, expected) in [
        (&[][..], "Say what there is to divide"),
        (&["--dram", "0", "--ssd", "0"], "Say what there is to divide"),
        (&["--dram", "1"], "--dram is less than a block of 4 KiB"),
        (&["--ssd", "4095", "--dram", "1MiB"], "--ssd is less than a block of 4 KiB"),
        (&["--dram", "16EiB"], "KiB, MiB, GiB or TiB"),
        (&["--dram=-1"], "KiB, MiB, GiB or TiB"),
        (&["--budget", "0"], "above 0 in US dollars"),
        (&["--budget", "-5usd"], "Amounts are positive; write one above 0 in US dollars"),
        (&["--budget", "-0.5"], "Amounts are positive"),
        (&["--budget", "--html"], "above 0 in US dollars"),
        (&["--dram", "1MiB", "--floor", "0.5"], "--floor means nothing to this objective"),
        (&["--dram", "1MiB", "--floor", "0.5"], "--objective ppc-total"),
        (&["--dram", "1MiB", "--objective", "ppc-total", "--least", "1MiB"], "--objective ppc-literal"),
        (&["--budget", "5eur"], "above 0 in US dollars"),
        (&["--budget", "1e300"], "up to 1e12 usd"),
        (&["--budget=1e99"], "'--budget <MONEY>'"),
        (&["--dram", "1MiB", "--sample", "foo"], "Write exact, rate=R or size=N\n"),
        (&["--dram", "1MiB", "--sample", "aet"], "Write exact, rate=R or size=N\n"),
        (&["--dram", "1MiB", "--vm", "db_0:weight=2,weight=3"], "'weight' is given twice"),
        (&["--dram", "1MiB", "--vm", ":weight=2"], "the VM's name before the colon"),
        (&["--dram", "1MiB", "--vm", "db_0:max-ssd=1"], "--vm db_0: max-ssd is less than a block of 4 KiB"),
        (&["--budget", "inf"], "above 0 in US dollars"),
        (&["--budget", "5usd", "--dram", "1MiB"], "cannot be used with"),
        (&["--dram", "1MiB", "--floor", "2"], "--floor is 2; write a number from 0 to 1"),
        (&["--dram", "1MiB", "--floor", "NaN"], "--floor is NaN"),
        (
            &["--dram", "1MiB", "--objective", "ppc-literal", "--least", "4GiB"],
            "VMs are guaranteed 8 GiB of dram",
        ),
        (&["--dram", "1MiB", "--objective", "maxmin", "--solver", "talus"], "Talus solver knows"),
        (&["--dram", "1MiB", "--ssd-device", "x"], "--config"),
        (&["--dram", "1MiB", "--devices", "none"], "none"),
    ] {
        let message = bad(&[&["size", &trace, "--no-replay"][..], more].concat(), 2);
        assert!(message.contains(expected), "{more:?}: {message}");
    }
    // More than anyone can use is no error.
    let plan = json(&["size", &trace, "--budget", "1e12", "--no-replay"]);
    assert!(real(&plan["cost_usd"]) < 1.0, "{}", plan["cost_usd"]);
}
