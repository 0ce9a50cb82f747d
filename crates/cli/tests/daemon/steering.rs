//! Steering a running daemon: its control socket, keys that change while VMs are served, shares that follow demands, and what is
//! told of all this.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Daemon, MIB, Site, lode_fails, lode_ok};

const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to the control socket.
struct Control(BufReader<UnixStream>);

impl Control {
    fn connect(site: &Site) -> Control {
        let stream = UnixStream::connect(site.path("state/test.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Control(BufReader::new(stream))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn ask(&mut self, request: &Value) -> Value {
        self.send(format!("{request}\n").as_bytes());
        self.answer()
    }
}

#[test]
fn whatever_is_sent_is_answered_in_order() {
    let site = Site::new();
    let daemon = site.serve_up();
    let mut control = Control::connect(&site);
    let version = control.ask(&json!({"cmd": "version"}));
    assert_eq!((&version["protocol"], &version["name"]), (&json!(1), &json!("test")));
    for (line, kind) in [
        ("dance\n", "malformed"),
        ("\n", "malformed"),
        ("{\"cmd\":\"dance\"}\n", "malformed"),
        ("{\"cmd\":\"status\",\"protocol\":2}\n", "protocol"),
        ("{\"cmd\":\"drain\",\"vms\":[\"vm3\"]}\n", "refused"),
        // Nothing is divided here.
        ("{\"cmd\":\"divide\"}\n", "refused"),
        ("\u{fffd}{{{\n", "malformed"),
    ] {
        control.send(line.as_bytes());
        let answer = control.answer();
        assert_eq!(answer["kind"], kind, "{line:?}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|error| !error.is_empty()), "{answer}");
    }
    // Two at once, and half of a third.
    control.send(b"{\"cmd\":\"version\"}\n{\"cmd\":\"events\",\"most\":1}\n{\"cmd\":");
    assert_eq!(control.answer()["protocol"], 1);
    assert_eq!(control.answer()["events"].as_array().map(Vec::len), Some(1));
    // Others are served meanwhile, each in its turn.
    let mut others: Vec<Control> = (0..8).map(|_| Control::connect(&site)).collect();
    others.iter_mut().for_each(|other| other.send(b"{\"cmd\":\"status\"}\n"));
    for other in &mut others {
        assert_eq!(other.answer()["vms"].as_array().map(Vec::len), Some(2));
    }
    control.send(b"\"reload\"}\n");
    assert_eq!(control.answer(), json!({"changed": []}));
    // The last line may end where everything ends.
    control.send(b"{\"cmd\":\"version\"}\n{\"cmd\":\"version\"}");
    control.0.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!([control.answer(), control.answer()].map(|answer| answer["protocol"].clone()), [1, 1]);
    assert!(matches!(control.0.read(&mut [0; 64]), Ok(0)));
    daemon.stop();
}

#[test]
fn a_message_without_an_end_is_refused_and_nobody_waits() {
    let site = Site::new();
    let daemon = site.serve_up();
    let mut endless = Control::connect(&site);
    let sent = std::thread::scope(|scope| {
        let mut writer = endless.0.get_ref().try_clone().unwrap();
        let writing =
            scope.spawn(move || (0..4096).take_while(|_| writer.write_all(&[b'x'; 1024]).is_ok()).count());
        let answer = endless.answer();
        assert_eq!(answer["kind"], "too-long", "{answer}");
        assert!(matches!(endless.0.read(&mut [0; 64]), Ok(0) | Err(_)), "then it is hung up on");
        drop(endless);
        writing.join().unwrap()
    });
    assert!((128..4096).contains(&sent), "{sent} KiB");
    let began = Instant::now();
    assert_eq!(Control::connect(&site).ask(&json!({"cmd": "version"}))["protocol"], 1);
    assert!(began.elapsed() < Duration::from_secs(5));
    daemon.stop();
}

fn set(site: &Site, words: &[&str]) -> String {
    let config = site.text("test.toml");
    lode_ok(&[&["vm", "set", &config], words].concat())
}

fn set_fails(site: &Site, words: &[&str]) -> String {
    let config = site.text("test.toml");
    lode_fails(&[&["vm", "set", &config], words].concat())
}

#[test]
fn keys_change_while_vms_are_served() {
    let site = Site::new();
    site.configure("# At the end.\n");
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    let text = || std::fs::read_to_string(site.path("test.toml")).unwrap();
    let before = text();
    let said = set(&site, &["vm1", "writeback.age=2min", "limits.connections=1", "limits.slow_request_ms=5"]);
    assert!(said.contains("until a restart") && said.contains("writeback of VM vm1"), "{said}");
    let status = daemon.status();
    assert_eq!(status["vms"][0]["writeback"]["age_s"], 120);
    assert_eq!(status["vms"][0]["limits"]["connections"], 1);
    assert_eq!(status["vms"][0]["limits"]["slow_request_ms"], 5);
    assert_eq!(status["vms"][1]["limits"]["connections"], 16, "of the other VM nothing has changed");
    assert_eq!(text(), before);
    // Saved, with what people wrote.
    let said = set(&site, &["vm2", "writeback.dirty=30%", "weight=2.5", "--save"]);
    assert!(said.contains("written to"), "{said}");
    assert_eq!(daemon.status()["vms"][1]["writeback"]["dirty_limit_blocks"], 4096 * 3 / 10);
    let after = text();
    let lines: Vec<&str> = after.lines().filter(|line| !before.lines().any(|old| old == *line)).collect();
    assert_eq!(lines, ["weight = 2.5", "writeback = { dirty = \"30%\" }"], "{after}");
    assert!(after.trim_end().ends_with("# At the end."), "{after}");
    // What was not saved ends with a reload.
    let said = lode_ok(&["reload", &site.text("test.toml")]);
    assert!(said.contains("writeback of VM vm1") && !said.contains("vm2"), "{said}");
    assert_eq!(daemon.status()["vms"][0]["writeback"]["age_s"], 3600);
    client.write(0, &[1; 4096]);
    drop(client);
    daemon.stop();
    let daemon = site.serve_up();
    assert_eq!(daemon.status()["vms"][1]["sharing"]["weight"], 2.5);
    daemon.stop();
}

#[test]
fn what_cannot_be_is_said_before_anything_changes() {
    let site = Site::new();
    site.configure("[host]\ndram = \"6MiB\"\nssd = \"48MiB\"\n");
    let daemon = site.serve_up();
    let before = (
        daemon.status()["vms"][0]["sharing"].clone(),
        std::fs::read_to_string(site.path("test.toml")).unwrap(),
    );
    for (words, said) in [
        (&["vm1", "wieght=2"][..], "did you mean 'weight'?"),
        (&["vm11", "weight=2"], "did you mean 'vm1'?"),
        (&["vm1", "read_only=true"], "can only change with a restart"),
        (&["vm1", "scheme=sieves"], "did you mean 'sieve'?"),
        (&["vm1", "weight=0"], "from 0.001 to 1000"),
        (&["vm1", "writeback.age=soon"], "not a time"),
        (&["vm1", "min.dram=5MiB"], "'min.dram' is 5 MiB, more than 'dram', which is 4 MiB"),
        (
            &["vm1", "ssd=40MiB"],
            "56 MiB together (vm1 40 MiB + vm2 16 MiB), and [host] has `ssd` = 48 MiB: 8 MiB too much",
        ),
        (&["vm1", "dram=7MiB"], "7 MiB together (vm1 7 MiB), and [host] has `dram` = 6 MiB: 1 MiB too much"),
        (&["vm2", "dram=64KiB"], "does not use the dram level"),
        (&["vm1", "weight=2", "weight=3"], "given twice"),
        (&["vm1", "weight"], "not KEY=VALUE"),
        (&["vm1"], "No key is given"),
    ] {
        let found = set_fails(&site, &[words, &["--save"]].concat());
        assert!(found.contains(said), "{words:?}: {found}");
    }
    let after = (
        daemon.status()["vms"][0]["sharing"].clone(),
        std::fs::read_to_string(site.path("test.toml")).unwrap(),
    );
    assert_eq!(before, after);
    // A file that cannot be replaced leaves everything as it is: its folder is not there any more.
    std::fs::rename(site.path("test.toml"), site.path("moved.toml")).unwrap();
    let socket = site.text("state/test.sock");
    let said = lode_fails(&["vm", "set", "--socket", &socket, "vm1", "weight=2", "--save"]);
    assert!(said.contains("Nothing was changed") && said.contains("test.toml"), "{said}");
    let status: Value = serde_json::from_str(&lode_ok(&["status", "--json", "--socket", &socket])).unwrap();
    assert_eq!(status["vms"][0]["sharing"], before.0);
    std::fs::rename(site.path("moved.toml"), site.path("test.toml")).unwrap();
    daemon.stop();
}

/// Waits until a level's share in force, in blocks, is so.
fn wait_for_share(daemon: &Daemon<'_>, vm: usize, level: &str, is_so: impl Fn(u64) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = daemon.status();
        let share = status["vms"][vm]["quota"][format!("{level}_blocks")].as_u64().unwrap();
        if is_so(share) && !status["host"]["moving"].as_bool().unwrap() {
            return status;
        }
        assert!(Instant::now() < deadline, "{level} of VM {vm} has {share} blocks: {}", status["host"]);
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn shares_change_by_hand_as_far_as_a_vm_can_grow() {
    let site = Site::new();
    site.configure("");
    let text = std::fs::read_to_string(site.path("test.toml")).unwrap();
    std::fs::write(
        site.path("test.toml"),
        text.replace("dram = \"4MiB\"", "dram = \"4MiB\"\nmax = { dram = \"8MiB\" }"),
    )
    .unwrap();
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    for at in 0..8 * MIB / 4096 {
        client.write(at * 4096, &[at as u8; 4096]);
    }
    for (share, blocks) in [("8MiB", 2048), ("1MiB", 256), ("2MiB", 512)] {
        set(&site, &["vm1", &format!("dram={share}")]);
        wait_for_share(&daemon, 0, "dram", |share| share == blocks);
        for at in (0..8 * MIB / 4096).rev() {
            assert_eq!(client.read(at * 4096, 4096)[0], at as u8);
        }
        let held = daemon.status()["vms"][0]["gauges"]["dram_blocks"].as_u64().unwrap();
        assert!(held <= blocks && held > blocks / 2, "{held} of {blocks}");
    }
    set(&site, &["vm1", "ssd=4MiB"]);
    let status = wait_for_share(&daemon, 0, "ssd", |share| share == 1024);
    assert_eq!(
        status["vms"][0]["writeback"]["dirty_max_blocks"], 1024,
        "limits are parts of the share in force"
    );
    // What was dirty beyond the share is on the backing disk by then, or on its way, and nothing is lost.
    for at in 0..8 * MIB / 4096 {
        assert_eq!(client.read(at * 4096, 4096)[0], at as u8);
    }
    set(&site, &["vm1", "ssd=32MiB"]);
    wait_for_share(&daemon, 0, "ssd", |share| share == 8192);
    assert!(set_fails(&site, &["vm1", "dram=9MiB"]).contains("more than 'max.dram'"));
    drop(client);
    daemon.stop();
}

/// The configuration of two VMs that divide 4 MiB of memory.
fn configure_host(site: &Site, mode: &str) {
    site.configure(&format!(
        "[host]\nmode = \"{mode}\"\ndram = \"4MiB\"\ninterval = \"2s\"\nrate = \"1MiB\"\n"
    ));
    let text = std::fs::read_to_string(site.path("test.toml")).unwrap();
    // Both by the scheme that measures, with half of the memory each.
    let text =
        text.replace("dram = \"4MiB\"\nssd = \"32MiB\"", "ssd = \"32MiB\"").replace("scheme = \"lru\"", "");
    std::fs::write(site.path("test.toml"), text).unwrap();
}

/// Reads so many blocks again and again while `is_to_go_on`.
fn read_on(daemon: &Daemon<'_>, vm: &str, blocks: u64, mut is_to_go_on: impl FnMut() -> bool) {
    let mut client = daemon.client(vm);
    while is_to_go_on() {
        (0..blocks).for_each(|at| drop(client.read(at * 4096, 4096)));
    }
}

#[test]
fn shares_move_to_the_vm_that_profits() {
    let site = Site::new();
    configure_host(&site, "auto");
    let daemon = site.serve_up();
    assert_eq!(daemon.status()["vms"][0]["quota"]["dram_blocks"], 512, "half of it each, at first");
    // 3 MiB that are read again and again; the other VM does nothing.
    let (began, mut status) = (Instant::now(), Value::Null);
    read_on(&daemon, "vm1", 768, || {
        status = daemon.status();
        let vm = &status["vms"][0];
        assert!(began.elapsed() < PATIENCE, "{vm}");
        // What is measured is so only after something was read since the last division.
        let has_all =
            vm["quota"]["dram_blocks"].as_u64().unwrap() >= 768 && status["host"]["moving"] == false;
        !has_all
            || vm["sharing"]["expected_hit_ratio"].is_null()
            || vm["sharing"]["measured_hit_ratio"].is_null()
    });
    let quotas: Vec<u64> =
        (0..2).map(|vm| status["vms"][vm]["quota"]["dram_blocks"].as_u64().unwrap()).collect();
    assert!(quotas[0] + quotas[1] <= 1024, "{quotas:?}");
    let of_vm = &status["vms"][0]["sharing"];
    assert!(of_vm["expected_hit_ratio"].as_f64().unwrap() > 0.5, "{of_vm}");
    assert!(of_vm["measured_hit_ratio"].as_f64().is_some(), "{of_vm}");
    assert_eq!(status["host"]["ssd_grows"], true);
    // The reason is told in numbers.
    let events = lode_ok(&["events", &site.text("test.toml"), "--vm", "vm1", "--json"]);
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let share = events.iter().find(|event| event["kind"] == "share").expect("a decision");
    let (from, to) =
        (share["share"]["from_bytes"].as_u64().unwrap(), share["share"]["to_bytes"].as_u64().unwrap());
    assert!(from == 2 * MIB && to > from, "{share}");
    assert_eq!(share["share"]["others"][0]["vm"], "vm2", "{share}");
    let text = share["text"].as_str().unwrap();
    assert!(text.contains("read hits expected") && text.contains("; from vm2"), "{text}");
    assert!(site.log().contains(text), "the log has it as well");
    // By hand there is nothing to say about it; a minimum is kept at once.
    assert!(set_fails(&site, &["vm2", "dram=3MiB"]).contains("min.dram"));
    set(&site, &["vm2", "min.dram=2MiB"]);
    wait_for_share(&daemon, 1, "dram", |share| share >= 512);
    let list = lode_ok(&["vm", "list", &site.text("test.toml")]);
    assert!(list.contains("mode auto") && list.contains("vm2"), "{list}");
    let show = lode_ok(&["vm", "show", &site.text("test.toml"), "vm1"]);
    assert!(show.contains("hit % expected") && show.contains("DRAM"), "{show}");
    daemon.stop();
}

#[test]
fn advice_changes_nothing() {
    let site = Site::new();
    configure_host(&site, "advise");
    let daemon = site.serve_up();
    let began = Instant::now();
    let advice = || {
        let events = lode_ok(&["events", &site.text("test.toml"), "--json"]);
        events
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .find(|event: &Value| event["kind"] == "advice")
    };
    read_on(&daemon, "vm1", 768, || {
        assert!(began.elapsed() < PATIENCE, "no advice");
        advice().is_none()
    });
    let advice = advice().unwrap();
    assert!(advice["text"].as_str().unwrap().starts_with("advice: +"), "{advice}");
    std::thread::sleep(Duration::from_secs(2));
    let status = daemon.status();
    for vm in 0..2 {
        assert_eq!(status["vms"][vm]["quota"]["dram_blocks"], 512);
    }
    assert!(status["vms"][0]["sharing"]["dram"]["wanted_blocks"].as_u64().unwrap() > 512, "{status}");
    // To act upon it is a change of the mode, without a restart.
    let text = std::fs::read_to_string(site.path("test.toml")).unwrap();
    std::fs::write(site.path("test.toml"), text.replace("\"advise\"", "\"auto\"")).unwrap();
    assert!(lode_ok(&["reload", &site.text("test.toml")]).contains("changed: host"));
    wait_for_share(&daemon, 0, "dram", |share| share > 512);
    daemon.stop();
}

#[test]
fn keys_change_where_demands_give_only_advice() {
    let site = Site::new();
    configure_host(&site, "advise");
    let mut daemon = site.serve_up();
    let rewrite = |from: &str, to: &str| {
        let text = std::fs::read_to_string(site.path("test.toml")).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        std::fs::write(site.path("test.toml"), text.replacen(from, to, 1)).unwrap();
    };
    let reload = || lode_ok(&["reload", &site.text("test.toml")]);
    set(&site, &["vm1", "weight=2"]);
    assert_eq!(daemon.status()["vms"][0]["sharing"]["weight"], 2.0);
    rewrite("name = \"vm2\"", "name = \"vm2\"\nweight = 3");
    assert!(reload().contains("weight of VM vm2"));
    rewrite("weight = 3", "weight = 4");
    let pid = rustix::process::Pid::from_child(&daemon.child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while daemon.status()["vms"][1]["sharing"]["weight"] != 4.0 {
        assert!(Instant::now() < deadline, "it is not read again");
        std::thread::sleep(Duration::from_millis(20));
    }
    // A share that is named is had, whatever demands would give.
    set(&site, &["vm2", "dram=1MiB"]);
    wait_for_share(&daemon, 1, "dram", |share| share == 256);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(daemon.status()["vms"][1]["quota"]["dram_blocks"], 256);
    // To auto and back: shares stay where they are by then.
    rewrite("\"advise\"", "\"auto\"");
    assert!(reload().contains("host"));
    rewrite("\"auto\"", "\"advise\"");
    assert!(reload().contains("host"));
    set(&site, &["vm1", "min.dram=1MiB"]);
    let status = daemon.status();
    assert_eq!((&status["host"]["mode"], &status["host"]["stopped"]), (&json!("advise"), &json!(false)));
    assert!(daemon.child.try_wait().unwrap().is_none());
    daemon.stop();
}

#[test]
fn a_host_that_is_smaller_than_its_vms_is_refused_with_the_sum() {
    let site = Site::new();
    site.configure("[host]\nssd = \"40MiB\"\n");
    let said = site.serve_fails();
    assert!(
        said.contains(
            "48 MiB together (vm1 32 MiB + vm2 16 MiB), and [host] has `ssd` = 40 MiB: 8 MiB too much"
        ),
        "{said}"
    );
    site.configure("[host]\nmode = \"auto\"\ndram = \"3MiB\"\n");
    let said = site.serve_fails();
    assert!(
        said.contains("4 MiB together (vm1 4 MiB), and [host] has `dram` = 3 MiB: 1 MiB too much"),
        "{said}"
    );
}
