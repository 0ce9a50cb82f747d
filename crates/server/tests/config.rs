//! What the configuration file takes, and how it says no.

use std::path::{Path, PathBuf};

use lode_media::DriverChoice;
use lode_policy::OfSized;
use lode_reuse::sizing::Objective;
use lode_server::ServerErrorKind;
use lode_server::config::{Address, Config, HostMode, ResilverRates};
use lode_types::{BlockSize, Level};

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
    assert_eq!(two.settings.scheme(), lode_policy::DEFAULT_SCHEME);
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

#[test]
fn a_host_has_a_budget_of_ssd_writes_where_a_vm_can_hold_to_it() {
    let text = |host: &str, scheme: &str| {
        format!(
            "name = \"a\"\n[ssd]\npath = \"/ssd\"\n[host]\n{host}\n[[vm]]\nname = \"v\"\nbacking = {{ path = \"/d\" }}\n\
             ssd = \"1GiB\"\nlisten = [\"unix:/s\"]\n{scheme}"
        )
    };
    let budget = |text: &str| parse(text).map(|config| config.host.ssd_writes.map(|daily| daily.0));
    let auto = "scheme = \"auto\"";
    assert_eq!(budget(&text("ssd_writes = \"50GiB/day\"", auto)).unwrap(), Some(50 << 30));
    assert_eq!(budget(&text("", "")).unwrap(), None);
    for (host, scheme, words) in [
        ("ssd_writes = \"50GiB\"", "", "such as 50GiB/day"),
        ("ssd_writes = \"0/day\"", "", "above 0"),
        ("ssd_writes = 5", "", "expected a string"),
        ("ssd_writes = \"50GiB/day\"", "scheme = \"lru\"", "no VM has a scheme that can keep to a budget"),
    ] {
        let error = budget(&text(host, scheme)).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    let without_ssd = text("ssd_writes = \"1GiB/day\"", "")
        .replace("[ssd]\npath = \"/ssd\"\n", "")
        .replace("ssd = \"1GiB\"\n", "");
    assert!(budget(&without_ssd).unwrap_err().contains("no [ssd] section"));
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
fn distances_are_those_of_a_sample_unless_all_are_asked_for() {
    let distances = |text: &str| parse(text).unwrap().vms[0].settings.text("distances").to_owned();
    assert_eq!(distances(GOOD), "sampled");
    assert_eq!(distances(&GOOD.replacen("mode = \"npe\"", "distances = \"exact\"", 1)), "exact");
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

#[test]
fn a_pair_of_ssds_arrives_or_is_refused() {
    let ssd = "[ssd]\npath = \"/dev/nvme0n1\"\n";
    let of = |keys: &str| parse(&HOST.replacen(ssd, &format!("{ssd}{keys}\n"), 1));
    let pair =
        of("mirror = \"/dev/nvme1n1\"\ntimeout = \"3s\"\nresilver_rate = \"1MiB\"").unwrap().ssd.unwrap();
    let rates = |most_bytes, least_bytes| ResilverRates { most_bytes, least_bytes };
    assert_eq!(pair.pairs, [["/dev/nvme0n1", "/dev/nvme1n1"].map(PathBuf::from)]);
    assert_eq!(pair.timeout.as_secs(), 3);
    assert_eq!(pair.resilver, rates(1 << 20, 1 << 20));
    let usual = of("mirror = \"/dev/nvme1n1\"").unwrap().ssd.unwrap();
    assert_eq!((usual.timeout.as_secs(), usual.resilver), (10, rates(200 << 20, 4 << 20)));
    let never = of("mirror = \"/dev/nvme1n1\"\nresilver_min_rate = \"0\"").unwrap().ssd.unwrap();
    assert_eq!(never.resilver, rates(200 << 20, 0));
    assert!(of("").unwrap().ssd.unwrap().pairs.is_empty());
    let rated = |keys: &str| of(keys).unwrap().ssd.unwrap().rated_write_bytes;
    assert_eq!(rated("written_tb = 1200"), Some(1_200_000_000_000_000));
    assert_eq!((rated("written_tb = 0.5"), rated("")), (Some(500_000_000_000), None));
    for (keys, word) in [
        ("mirror = \"/dev/nvme0n1\"", "same path"),
        ("timeout = \"3s\"", "add 'mirror'"),
        ("resilver_rate = \"1MiB\"", "add 'mirror'"),
        ("mirror = \"/dev/nvme1n1\"\ntimeout = \"never\"", "'timeout'"),
        ("mirror = \"/dev/nvme1n1\"\ntimeout = \"11min\"", "'timeout'"),
        ("mirror = \"/dev/nvme1n1\"\nresilver_rate = \"1KiB\"", "'resilver_rate'"),
        ("resilver_min_rate = \"1MiB\"", "add 'mirror'"),
        ("mirror = \"/dev/nvme1n1\"\nresilver_min_rate = \"201MiB\"", "more than 'resilver_rate', 200 MiB"),
        ("written_tb = 0", "'written_tb'"),
        ("written_tb = -1.0", "'written_tb'"),
        ("written_tb = nan", "'written_tb'"),
        ("written_tb = inf", "'written_tb'"),
        ("written_tb = \"1PB\"", "1PB"),
    ] {
        let error = of(keys).expect_err(keys);
        assert!(error.starts_with("a.toml:5: ") || error.starts_with("a.toml:6: "), "{keys}: {error}");
        assert!(error.contains(word), "{keys}: {error}");
    }
    let text = TWO_SSDS.replacen("[read_ssd]\n", "[read_ssd]\nmirror = \"/dev/x\"\n", 1);
    assert!(parse(&text).expect_err("a read SSD has none").contains("are of [ssd]"));
    let text = TWO_SSDS.replacen("[read_ssd]\n", "[read_ssd]\nwritten_tb = 300\n", 1);
    assert!(parse(&text).expect_err("nothing is held to it").contains("'written_tb' is of [ssd]"));
}

#[test]
fn an_ssd_that_comes_is_named_as_the_mirror_of_the_only_one() {
    let ssd = "path = \"/dev/nvme0n1\"\n";
    let comes = |config: &Config| config.with_ssd(None, Path::new("/dev/new"));
    let with = comes(&parse(HOST).unwrap()).unwrap();
    assert_eq!(with.ssd.as_ref().unwrap().pairs, [["/dev/nvme0n1", "/dev/new"].map(PathBuf::from)]);
    // An operator has named it already, or another one.
    let same = comes(&with).unwrap();
    assert_eq!(same.ssd.unwrap().pairs, with.ssd.unwrap().pairs);
    let other = parse(&HOST.replacen(ssd, &format!("{ssd}mirror = \"/dev/b\"\n"), 1)).unwrap();
    assert!(comes(&other).expect_err("one is named").to_string().contains("another `mirror`"));
}

#[test]
fn several_pairs_arrive_or_are_refused() {
    let ssd = "path = \"/dev/nvme0n1\"\n";
    let of = |keys: &str| parse(&HOST.replacen(ssd, &format!("{keys}\n"), 1));
    let pairs = "pairs = [[\"/dev/a\", \"/dev/b\"], [\"/dev/c\", \"/dev/d\"]]";
    let config = of(&format!("{pairs} # four\ntimeout = \"3s\"")).unwrap();
    let found = config.ssd.as_ref().unwrap();
    assert_eq!(found.pairs, [["/dev/a", "/dev/b"], ["/dev/c", "/dev/d"]].map(|pair| pair.map(PathBuf::from)));
    assert_eq!((found.path.as_path(), found.paths().count()), (Path::new("/dev/a"), 4));
    // Another device in the place of one of them.
    let other = config.with_ssd(Some(Path::new("/dev/c")), Path::new("/dev/e")).unwrap();
    let named: Vec<_> = other.ssd.unwrap().paths().map(|path| path.display().to_string()).collect();
    assert_eq!(named, ["/dev/a", "/dev/b", "/dev/e", "/dev/d"]);
    assert!(config.with_ssd(Some(Path::new("/dev/x")), Path::new("/dev/e")).is_err());
    for (keys, word) in [
        (&*format!("{pairs}\n{ssd}"), "take 'path' and 'mirror' out"),
        (&format!("{pairs}\nmirror = \"/dev/e\""), "take 'path' and 'mirror' out"),
        ("pairs = []", "two pairs or more"),
        ("pairs = [[\"/dev/a\", \"/dev/b\"]]", "with 'path' and 'mirror'"),
        ("pairs = [[\"/dev/a\", \"/dev/b\"], [\"/dev/c\"]]", "two paths for each pair"),
        ("pairs = [[\"/dev/a\", \"/dev/b\"], [\"/dev/c\", \"/dev/a\"]]", "names /dev/a twice"),
        (&format!("pairs = [{}]", "[\"/dev/a\", \"/dev/b\"],".repeat(65)), "has 65 pairs"),
        ("mirror = \"/dev/b\"", "'path' is missing"),
        ("", "'path' is missing"),
    ] {
        let error = of(keys).expect_err(keys);
        assert!(error.contains(word), "{keys}: {error}");
    }
    let text = TWO_SSDS.replacen("[read_ssd]\n", &format!("[read_ssd]\n{pairs}\n"), 1);
    assert!(parse(&text).expect_err("a read SSD has none").contains("are of [ssd]"));
}

const HOST: &str = r#"
name = "host1"
[ssd]
path = "/dev/nvme0n1"
[host]
dram = "10MiB"
ssd = "1GiB"
interval = "1min"
rate = "1MiB"
objective = "hits"
[[vm]]
name = "one"
backing = { path = "/disks/one" }
listen = ["unix:/run/one.sock"]
dram = "4MiB"
ssd = "512MiB"
min = { dram = "1MiB" }
max = { dram = "5MiB", ssd = "1GiB" }
limits = { connections = 2, slow_request_ms = 7 }
[[vm]]
name = "two"
backing = { path = "/disks/two" }
listen = ["unix:/run/two.sock"]
weight = 2
[[vm]]
name = "three"
backing = { path = "/disks/three" }
listen = ["unix:/run/three.sock"]
[[vm]]
name = "four"
backing = { path = "/disks/four" }
listen = ["unix:/run/four.sock"]
scheme = "lru"
"#;

#[test]
fn a_host_divides_what_has_no_name() {
    let config = parse(HOST).unwrap();
    assert_eq!((config.host.mode, config.host.interval.as_secs()), (HostMode::Auto, 60));
    assert_eq!((config.host.rate_bytes, config.host.objective.name()), (1 << 20, "hits"));
    let drams: Vec<u64> = config.vms.iter().map(|vm| vm.dram_bytes >> 20).collect();
    assert_eq!(drams, [4, 4, 2, 0], "by weight, and nothing to a scheme that does not use it");
    let ssds: Vec<u64> = config.vms.iter().map(|vm| vm.ssd_bytes >> 20).collect();
    assert_eq!(ssds, [512, 256, 128, 128]);
    let one = &config.vms[0];
    assert_eq!(
        (one.bounds.weight, one.bounds.min_bytes, one.bounds.named),
        (1.0, OfSized::new([1 << 20, 0]), OfSized::new([true, true]))
    );
    assert_eq!((one.limits.connections, one.limits.slow_request_ms), (2, 7));
    assert_eq!(one.limits.vm_bytes, config.limits.vm_bytes, "what is not said is the host's");
    let reach = |at: usize| config.reach_bytes(&config.vms[at], Level::Dram) >> 20;
    assert_eq!([reach(0), reach(1), reach(3)], [5, 10, 0]);
    // Schemes measure, unless it is said otherwise.
    assert_eq!(one.settings.text("sizing"), "on");
    let fixed = parse(&HOST.replace("dram = \"10MiB\"", "mode = \"fixed\"\ndram = \"10MiB\"")).unwrap();
    assert_eq!((fixed.vms[1].dram_bytes, fixed.vms[0].settings.text("sizing")), (0, "off"));
    assert_eq!(fixed.reach_bytes(&fixed.vms[0], Level::Dram) >> 20, 5, "as far as it may grow by hand");
    let latency = |devices: &str| {
        let host = parse(&HOST.replace("\"hits\"", &format!("\"latency\"{devices}"))).unwrap().host;
        let options = host.options(BlockSize::KIB_4);
        (options.objective, options.times.disk_write_us)
    };
    let usual = lode_hardware::Host::find("default").unwrap().service_times(BlockSize::KIB_4).one_block_us();
    let (cache_us, backing_us) = (usual[0], usual[2]);
    assert_eq!(latency(""), (Objective::Latency { cache_us, backing_us }, usual[3]));
    assert_ne!(latency("\ndevices = \"nvme-raid10\"").0, latency("").0);
    let own =
        "\ndevices = { ssd_read_us = 90, ssd_write_us = 20.5, disk_read_us = 700, disk_write_us = 900 }";
    assert_eq!(latency(own), (Objective::Latency { cache_us: 90.0, backing_us: 700.0 }, 900.0));
    let of_cost = |keys: &str| {
        let host = parse(&HOST.replace("\"hits\"", keys)).unwrap().host;
        (host.options(BlockSize::KIB_4).objective, host.options(BlockSize::new(65_536).unwrap()).objective)
    };
    let total = |floor| (Objective::PpcTotal { floor }, Objective::PpcTotal { floor });
    assert_eq!(of_cost("\"ppc_total\""), total(0.9));
    assert_eq!(of_cost("\"ppc_total\"\nppc_floor = 0.25"), total(0.25));
    let literal = |min_blocks| Objective::PpcLiteral { min_blocks };
    assert_eq!(of_cost("\"ppc_literal\""), (literal(256), literal(16)));
    assert_eq!(of_cost("\"ppc_literal\"\nppc_least = \"100KiB\""), (literal(25), literal(2)));
    let without = HOST.replace("dram = \"10MiB\"", "").replace("ssd = \"1GiB\"\ninterval", "interval");
    assert_eq!(parse(&without).unwrap().host.mode, HostMode::Fixed, "there is nothing to divide");
}

#[test]
fn minimums_and_maximums_come_before_weights_whatever_the_order() {
    // 6 MiB for two and three: three has to have 5 of them, and two, of twice its weight, gets what is left.
    let bounded = |bounds: &str| {
        let text = HOST.replace("name = \"three\"", &format!("name = \"three\"\n{bounds}"));
        parse(&text).unwrap().vms.iter().map(|vm| vm.dram_bytes >> 20).collect::<Vec<_>>()
    };
    assert_eq!(bounded("min = { dram = \"5MiB\" }"), [4, 1, 5, 0]);
    assert_eq!(bounded("max = { dram = \"1MiB\" }"), [4, 5, 1, 0]);
    assert_eq!(bounded("min = { dram = \"6MiB\" }"), [4, 0, 6, 0]);
}

#[test]
fn a_host_that_cannot_be_is_refused_with_the_sum() {
    for (old, new, said) in [
        ("dram = \"4MiB\"", "dram = \"11MiB\"", "'dram' is 11 MiB, more than 'max.dram', which is 5 MiB"),
        (
            "min = { dram = \"1MiB\" }",
            "min = { dram = \"6MiB\" }",
            "'min.dram' is 6 MiB, more than 'max.dram'",
        ),
        ("min = { dram = \"1MiB\" }", "min = { dram = \"70000\" }", "multiple of 64 KiB"),
        ("min = { dram = \"1MiB\" }", "min = { ssd = \"600MiB\" }", "'min.ssd' is 600 MiB, more than 'ssd'"),
        ("weight = 2", "weight = -1", "from 0.001 to 1000"),
        ("weight = 2", "weight = nan", "from 0.001 to 1000"),
        ("weight = 2", "min = { ssd = \"1GiB\" }\nweight = 2", "1.50 GiB together (two 1 GiB + one 512 MiB)"),
        ("interval = \"1min\"", "interval = \"never\"", "mode = \"fixed\""),
        ("rate = \"1MiB\"", "rate = 5", "less than 64 KiB"),
        (
            "objective = \"hits\"",
            "objective = \"luck\"",
            "sum_hit_ratio, hits, latency, ppc_total, ppc_literal, maxmin",
        ),
        ("objective = \"hits\"", "ppc_floor = 0.5", "only for objective = \"ppc_total\""),
        ("objective = \"hits\"", "objective = \"ppc_total\"\nppc_floor = 1.5", "from 0 to 1"),
        ("objective = \"hits\"", "objective = \"ppc_total\"\nppc_least = \"1MiB\"", "only for objective"),
        ("objective = \"hits\"", "objective = \"ppc_literal\"\nppc_least = 0", "from 1 byte to"),
        (
            "objective = \"hits\"",
            "objective = \"ppc_literal\"\nppc_least = \"4MiB\"",
            "`host.ppc_least` are 12 MiB together (one 4 MiB + two 4 MiB + three 4 MiB), and [host] has `dram` = 10 MiB: 2 MiB too much",
        ),
        ("objective = \"hits\"", "devices = \"floppy\"", "other devices are a table of their times"),
        ("objective = \"hits\"", "devices = { ssd_read_us = 1 }", "expected the name of devices"),
        (
            "objective = \"hits\"",
            "devices = { ssd_read_us = 1, ssd_write_us = 1, disk_read_us = nan, disk_write_us = 1 }",
            "times from 0 to 10000000 microseconds",
        ),
        ("objective = \"hits\"", "mode = \"sometimes\"", "unknown variant `sometimes`"),
        ("objective = \"hits\"", "colour = 1", "Key 'colour' is unknown; write one of"),
    ] {
        let text = HOST.replace(old, new);
        assert_ne!(text, HOST, "{old}");
        let found = parse(&text).expect_err(new);
        assert!(found.contains(said), "{new}: {found}");
    }
}

/// What is no table where one belongs is answered with how one is written, and not with names of the program's own.
#[test]
fn where_a_table_belongs_one_is_shown() {
    for (old, new, said) in [
        ("backing = { path = \"/disks/vm2\" }", "backing = \"/disks/vm2\"", "a table { path ="),
        ("state_dir", "read_ssd = \"/dev/nvme1n1\"\nstate_dir", "a table { path ="),
        ("read_only = true", "danger_zone = true", "a table { acknowledge_before_durable"),
        ("read_only = true", "limits = 4", "a table { connections"),
        ("read_only = true", "min = \"1GiB\"", "a table { dram ="),
        ("state_dir", "danger_zone = true\nstate_dir", "a table [danger_zone]"),
        ("state_dir", "host = \"auto\"\nstate_dir", "a table { dram ="),
    ] {
        let text = GOOD.replace(old, new);
        assert_ne!(text, GOOD, "{old}");
        let found = parse(&text).expect_err(new);
        assert!(found.contains(said) && !found.contains("Raw"), "{new}: {found}");
    }
}
