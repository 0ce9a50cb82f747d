//! What the configuration file takes, and how it says no.

use std::path::Path;

use lode_media::DriverChoice;
use lode_server::ServerErrorKind;
use lode_server::config::{Address, Config};

const GOOD: &str = r#"
name = "host1"
state_dir = "/srv/state"
shards = 3
io = "threads"

[ssd]
path = "/dev/nvme0n1"
uuid = "00112233-4455-4677-8899-aabbccddeeff"

[[vm]]
name = "vm1"
backing = { path = "/disks/vm1", delay = "hdd" }
dram = "64MiB"
ssd = "1GiB"
scheme = "etica"
settings = { mode = "npe" }
listen = [{ address = "unix:/run/vm1.sock", mode = "0660", group = "kvm" }, "tcp:127.0.0.1:10809"]

[[vm]]
name = "vm2"
backing = { path = "/disks/vm2" }
listen = ["unix:/run/vm2.sock"]
read_only = true

[limits]
connections = 4
connection_in_flight = "8MiB"
vm_in_flight = 1048576
slow_request_ms = 250

[metrics]
listen = "127.0.0.1:9464"
"#;

const WRITEBACK: &str = "writeback = { dirty = \"30%\", age = \"10min\" }";

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("a.toml")).map_err(|error| {
        assert_eq!(error.kind(), ServerErrorKind::Config);
        error.to_string()
    })
}

#[test]
fn every_key_arrives() {
    let config = parse(GOOD).unwrap();
    assert_eq!((config.name.as_str(), config.shards), ("host1", 3));
    assert_eq!(config.io, DriverChoice::Threads);
    assert_eq!(config.control, Path::new("/srv/state/host1.sock"));
    let ssd = config.ssd.unwrap();
    assert_eq!(ssd.uuid.unwrap().to_string(), "00112233-4455-4677-8899-aabbccddeeff");
    let [one, two] = &config.vms[..] else { panic!("two VMs") };
    assert_eq!((one.dram_bytes, one.ssd_bytes, one.backing_like_hdd), (64 << 20, 1 << 30, true));
    assert_eq!(one.settings.text("mode"), "npe");
    let limits = parse(&GOOD.replace("read_only = true", WRITEBACK)).unwrap().vms[1].write_back;
    let limits = limits.limits(1000, 4096).unwrap();
    assert_eq!((limits.dirty_limit_blocks, limits.age_ticks, limits.idle_ticks), (300, Some(600), Some(30)));
    assert_eq!(one.listen[0].address, Address::Unix("/run/vm1.sock".into()));
    assert_eq!((one.listen[0].mode, one.listen[0].group.as_deref()), (Some(0o660), Some("kvm")));
    assert_eq!(one.listen[1], Address::Tcp("127.0.0.1:10809".parse().unwrap()).into());
    assert_eq!((two.dram_bytes, two.ssd_bytes, two.read_only), (0, 0, true));
    assert_eq!(two.settings.scheme(), "etica");
    assert_eq!(
        (config.limits.connections, config.limits.connection_bytes, config.limits.vm_bytes),
        (4, 8 << 20, 1 << 20)
    );
    assert_eq!(config.limits.slow_request_ms, 250);
    assert_eq!(config.metrics, Some(Address::Tcp("127.0.0.1:9464".parse().unwrap()).into()));
}

#[test]
fn what_is_not_said_has_a_default() {
    let text = "name = \"a\"\n[[vm]]\nname = \"v\"\nbacking = { path = \"d\" }\nlisten = [\"unix:/s\"]";
    let config = parse(text).unwrap();
    assert!(config.shards >= 1 && config.ssd.is_none() && config.metrics.is_none());
    assert_eq!(config.control, Path::new("/var/lib/lodestore/a.sock"));
    assert_eq!(config.limits.connections, lode_server::config::DEFAULT_LIMITS.connections);
}

/// Each change of the good configuration is refused, at the line given, in words that name the key.
#[test]
fn mistakes_are_named_with_file_and_line() {
    let cases = [
        (
            "state_dir = \"/srv",
            "state_dir = \"srv",
            3,
            "'state_dir' cannot be 'srv/state': write an absolute path",
        ),
        ("shards = 3", "control = \"a.sock\"", 4, "control"),
        ("scheme = \"etica\"\nsettings = { mode = \"npe\" }", "scheme = \"lru\"", 14, "'dram'"),
        ("shards = 3", "shard = 3", 4, "shard"),
        ("shards = 3", "shards = 0", 4, "shards"),
        ("io = \"threads\"", "io = \"fast\"", 5, "fast"),
        ("uuid = \"0011", "uuid = \"zz11", 9, "uuid"),
        ("name = \"vm1\"", "name = \"vm 1\"", 12, "name"),
        ("name = \"vm2\"", "name = \"vm1\"", 21, "vm1"),
        ("delay = \"hdd\"", "delay = \"tape\"", 13, "tape"),
        ("dram = \"64MiB\"", "dram = \"64MB\"", 14, "64MB"),
        ("dram = \"64MiB\"", "dram = \"65KiB\"", 14, "dram"),
        ("ssd = \"1GiB\"", "ssd = \"9TiB\"", 15, "ssd"),
        ("ssd = \"1GiB\"", "ssd = -1", 15, "negative"),
        ("scheme = \"etica\"", "scheme = \"etika\"", 16, "did you mean 'etica'?"),
        ("scheme = \"etica\"", "scheme = \"belady\"", 16, "only a recorded trace can tell"),
        ("mode = \"npe\"", "mod = \"npe\"", 17, "did you mean 'mode'?"),
        ("mode = \"npe\"", "mode = 7", 17, "mode"),
        ("mode = \"npe\"", "mode = []", 17, "mode"),
        ("unix:/run/vm1.sock", "unix:run/vm1.sock", 18, "unix:run"),
        ("tcp:127.0.0.1:10809", "tcp:0.0.0.0:10809", 18, "allow_remote_tcp"),
        ("mode = \"0660\"", "mode = \"660 \"", 18, "mode"),
        ("mode = \"0660\"", "mod = \"0660\"", 18, "mod"),
        ("unix:/run/vm2.sock", "unix:/run/vm1.sock", 23, "another 'mode' or 'group'"),
        ("listen = [\"unix:/run/vm2.sock\"]", "listen = []", 20, "listen"),
        ("connections = 4", "connections = 0", 27, "connections"),
        ("vm_in_flight", "vm_inflight", 29, "vm_inflight"),
        ("127.0.0.1:9464", "0.0.0.0:9464", 33, "allow_remote_tcp"),
        ("127.0.0.1:9464", "127.0.0.1:10809", 33, "where guests connect"),
        ("127.0.0.1:9464", "localhost:9464", 33, "not an address"),
        ("listen = \"127.0.0.1:9464\"", "port = 9464", 33, "port"),
    ];
    for (from, to, line, word) in cases {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        let error = parse(&text).expect_err(to);
        assert!(error.starts_with(&format!("a.toml:{line}: ")), "{to}: {error}");
        assert!(error.contains(word), "{to}: {error}");
    }
}

/// NBD tells whether a write has FUA, and nothing else of who asks.
#[test]
fn an_admission_that_no_guest_can_tell_is_refused() {
    let with = |settings: &str| {
        let scheme = format!("scheme = \"request-oriented\"\nsettings = {{ {settings} }}");
        let text = GOOD.replacen("dram = \"64MiB\"\n", "", 1);
        parse(&text.replacen("scheme = \"etica\"\nsettings = { mode = \"npe\" }", &scheme, 1))
    };
    for (settings, words) in [
        (
            "admission = \"cp\"",
            "tell 'sync' and 'critical', and guests tell only 'sync'; set admission to all, sync or wal",
        ),
        ("admission = \"cp-pi\"", "who waits for whom, which no guest tells; simulate it"),
        ("admission = \"cp-pi-ioi\"", "with `lode requests`, or set all, sync or wal;"),
        ("admission = \"wal\"", "set log_first_block and log_blocks"),
        ("reissue = \"perhaps\"", "reissue"),
    ] {
        let error = with(settings).expect_err(settings);
        assert!(error.starts_with("a.toml:16: "), "{settings}: {error}");
        assert!(error.contains(words) && !error.contains("trace"), "{settings}: {error}");
    }
    let config = with("admission = \"sync\", reissue = true").expect("a guest tells that");
    assert_eq!(config.vms[0].settings.text("admission"), "sync");
}

#[test]
fn each_vm_keeps_its_share_unless_sizing_is_asked_for() {
    let sizing = |text: &str| parse(text).unwrap().vms[0].settings.is_on("sizing");
    assert!(!sizing(GOOD));
    for on in ["\"on\"", "true"] {
        assert!(sizing(&GOOD.replacen("mode = \"npe\"", &format!("sizing = {on}"), 1)));
    }
    let other = GOOD.replacen("dram = \"64MiB\"\n", "", 1);
    let other = other.replacen("scheme = \"etica\"\nsettings = { mode = \"npe\" }", "scheme = \"lru\"", 1);
    assert_eq!(parse(&other).unwrap().vms[0].settings.scheme(), "lru");
}

#[test]
fn parts_must_fit_each_other() {
    let without_ssd = GOOD.replacen("[ssd]\npath = \"/dev/nvme0n1\"\nuuid", "# uuid", 1);
    assert!(parse(&without_ssd).unwrap_err().contains("[ssd]"));
    assert!(parse("name = \"a\"").unwrap_err().contains("[[vm]]"));
    let remote = GOOD.replacen("tcp:127.0.0.1", "tcp:0.0.0.0", 1);
    assert!(parse(&(remote + "[danger_zone]\nallow_remote_tcp = true\n")).is_ok());
}

#[test]
fn nonsense_is_an_error_and_no_panic() {
    for length in 0..GOOD.len() {
        let _ = parse(&GOOD[..length]);
    }
    for nonsense in ["\0", "[[[", "name = 1e999", "vm = 3", "name = \"é\"", "é"] {
        assert!(parse(nonsense).is_err(), "{nonsense:?}");
    }
    assert!(Config::load(Path::new("/nonexistent/a.toml")).is_err());
}

const TWO_SSDS: &str = r#"
name = "host1"

[ssd]
path = "/dev/nvme0n1"

[read_ssd]
path = "/dev/nvme1n1"
uuid = "00112233-4455-4677-8899-aabbccddeeff"

[[vm]]
name = "vm1"
backing = { path = "/disks/vm1" }
dram = "64MiB"
ssd = "1GiB"
read_ssd = "2GiB"
scheme = "tica-ef"
listen = ["unix:/run/vm1.sock"]
"#;

#[test]
fn a_second_ssd_arrives_or_is_refused() {
    let config = parse(TWO_SSDS).unwrap();
    let read_ssd = config.read_ssd.unwrap();
    assert_eq!(read_ssd.path, Path::new("/dev/nvme1n1"));
    assert_eq!(read_ssd.uuid.unwrap().to_string(), "00112233-4455-4677-8899-aabbccddeeff");
    assert_eq!(config.vms[0].read_ssd_bytes, 2 << 30);
    assert!(parse(GOOD).unwrap().read_ssd.is_none());
    let section = "[read_ssd]\npath = \"/dev/nvme1n1\"\nuuid = \"00112233-4455-4677-8899-aabbccddeeff\"\n";
    let cases = [
        ("read_ssd = \"2GiB\"\n", "", 11, "give this VM a `read_ssd` size"),
        ("dram = \"64MiB\"\n", "", 11, "give this VM a `dram` size"),
        ("ssd = \"1GiB\"\n", "", 11, "give this VM a `ssd` size"),
        ("scheme = \"tica-ef\"", "scheme = \"etica\"", 16, "'read_ssd'"),
        ("read_ssd = \"2GiB\"", "read_ssd = \"1KiB\"", 16, "'read_ssd'"),
        (section, "", 13, "there is no [read_ssd] section"),
        ("uuid = \"0011", "uuid = \"zz11", 9, "uuid"),
    ];
    for (from, to, line, word) in cases {
        let text = TWO_SSDS.replacen(from, to, 1);
        assert_ne!(text, TWO_SSDS, "{from}");
        let error = parse(&text).expect_err(from);
        assert!(error.starts_with(&format!("a.toml:{line}: ")), "{from}: {error}");
        assert!(error.contains(word), "{from}: {error}");
    }
    let unused = TWO_SSDS.replacen("read_ssd = \"2GiB\"\nscheme = \"tica-ef\"", "", 1);
    let error = parse(&unused).expect_err("no VM uses it");
    assert!(error.starts_with("a.toml:7: No VM has a share of the read SSD"), "{error}");
}
