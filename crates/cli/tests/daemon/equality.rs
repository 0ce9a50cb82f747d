//! The one idea, tested: a trace, one request at a time, gives the same counters in replay, in the simulated world and
//! against the daemon over its socket.

use std::fs::File;
use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;

use lode_engine::{Buf, EngineConfig, GuestOp, GuestRequest};
use lode_nbd::Command;
use lode_policy::{CounterReport, Quota, SchemeInfo, all_schemes};
use lode_sim::{Machine, World};
use lode_trace::{ReadOptions, Recorded, create_compact_with, open_trace};
use lode_types::{BlockSize, Level, OriginFields, RequestOp, SECTOR_BYTES, TraceRequest};
use serde_json::Value;

use crate::common::{Site, lode_ok};

/// How many requests of which trace, and what caches.
#[derive(Clone, Copy)]
struct Scale {
    trace: &'static str,
    requests: usize,
    dram_mib: u64,
    ssd_mib: u64,
    read_ssd_mib: u64,
}

const TWO_LEVELS: Scale =
    Scale { trace: "cloudphysics-2h", requests: 5_000, dram_mib: 4, ssd_mib: 16, read_ssd_mib: 0 };
const ONE_LEVEL: Scale = Scale { dram_mib: 0, ssd_mib: 8, ..TWO_LEVELS };
const TWO_SSDS: Scale = Scale { dram_mib: 8, read_ssd_mib: 16, ..TWO_LEVELS };
/// With more reads of the same blocks, so that small caches promote and evict.
const REUSE: Scale = Scale { trace: "hplajw-1week", requests: 20_000, dram_mib: 1, ssd_mib: 1, ..TWO_LEVELS };

/// Counters that the three worlds report under the same names.
pub const COUNTERS: &[&str] = &[
    "/requests",
    "/block_accesses",
    "/block_reads",
    "/block_writes",
    "/read_hits/dram",
    "/read_hits/ssd",
    "/read_hits/read_ssd",
    "/write_hits/ssd",
    "/ssd_writes/total",
    "/ssd_writes/fill",
    "/ssd_writes/write",
    "/ssd_writes/promotion",
    "/ssd_writes/move",
    "/read_ssd_writes",
    "/backing_reads",
    "/backing_writes",
    "/read_misses",
    "/write_backs",
    "/dram_writes",
    "/evictions/dram",
    "/evictions/ssd",
    "/evictions/read_ssd",
];

/// Requests of each trace that are passed over: the recorded one begins with thousands that are nearly all writes.
const FIRST_REQUEST: usize = 20_000;

/// For each trace, requests and the size of the disk they were made for.
fn requests(scale: Scale) -> impl Iterator<Item = (Vec<TraceRequest>, u64)> {
    lode_testdata::traces(scale.trace).into_iter().map(move |trace| requests_of(&trace.path, scale.requests))
}

pub fn requests_of(path: &Path, count: usize) -> (Vec<TraceRequest>, u64) {
    let mut reader = open_trace(path, &ReadOptions::default()).unwrap();
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while all.len() < FIRST_REQUEST + count && reader.next_batch(&mut batch).unwrap() > 0 {
        all.append(&mut batch);
    }
    all.drain(..FIRST_REQUEST);
    all.truncate(count);
    for request in &mut all {
        request.volume = 0;
        // A profile puts rare lengths together, and their mean need not be whole sectors.
        request.offset_bytes = request.offset_bytes.next_multiple_of(SECTOR_BYTES);
        request.length_bytes = request.length_bytes.next_multiple_of(SECTOR_BYTES as u32);
    }
    let end = all.iter().filter_map(TraceRequest::end_bytes).max().unwrap();
    (all, end.next_multiple_of(1 << 20))
}

/// The traces do not tell which writes are synchronous. Here every third is, which is synthetic: to a guest such a write is
/// one with FUA.
fn with_synthetic_sync(mut all: Vec<TraceRequest>) -> Vec<TraceRequest> {
    for (request, number) in all.iter_mut().zip(0..) {
        request.origin = request.origin.with_sync(request.op == RequestOp::Write && number % 3 == 0);
    }
    all
}

fn is_sync(request: &TraceRequest) -> bool {
    request.origin.sync() == Some(true)
}

/// What all three worlds are given.
struct Case<'c> {
    scheme: &'c str,
    sets: &'c [&'c str],
    scale: Scale,
    all: &'c [TraceRequest],
    disk_bytes: u64,
}

fn in_replay(site: &Site, case: &Case<'_>) -> Vec<u64> {
    let &Case { scheme, sets, scale: Scale { dram_mib, ssd_mib, read_ssd_mib, .. }, all, .. } = case;
    let path = site.path("first.lode");
    let recorded = Recorded { origins: OriginFields { sync: true, ..OriginFields::NONE }, ..Recorded::TIMES };
    let mut writer = create_compact_with(&path, recorded).unwrap();
    writer.write(&["vm1".to_owned()], all).unwrap();
    writer.close().unwrap();
    let [dram, ssd, read_ssd] = [dram_mib, ssd_mib, read_ssd_mib].map(|mib| format!("{mib}MiB"));
    let path = path.to_str().unwrap();
    let mut arguments = vec!["replay", path, "--scheme", scheme, "--ssd", &ssd, "--json"];
    if dram_mib > 0 {
        arguments.extend(["--dram", &dram]);
    }
    if read_ssd_mib > 0 {
        arguments.extend(["--read-ssd", &read_ssd]);
    }
    for set in sets {
        arguments.extend(["--set", set]);
    }
    let report: Value = serde_json::from_str(&lode_ok(&arguments)).unwrap();
    pick(&report["vms"][0])
}

pub fn pick(counters: &Value) -> Vec<u64> {
    let number = |pointer: &&str| counters.pointer(pointer).and_then(Value::as_u64);
    COUNTERS
        .iter()
        .map(|pointer| number(pointer).unwrap_or_else(|| panic!("{pointer}: {counters}")))
        .collect()
}

fn in_simulation(case: &Case<'_>) -> Vec<u64> {
    let &Case { scheme, sets, scale: Scale { dram_mib, ssd_mib, read_ssd_mib, .. }, all, disk_bytes } = case;
    let mut settings = SchemeInfo::find(scheme).unwrap().settings();
    sets.iter().for_each(|set| settings.set_pair(set).unwrap());
    let blocks = |mib: u64| (mib << 20 >> 12) as u32;
    let quota = Quota::new(blocks(dram_mib), blocks(ssd_mib)).with(Level::ReadSsd, blocks(read_ssd_mib));
    let config = EngineConfig::new(BlockSize::KIB_4, disk_bytes, quota);
    let name = "vm1".to_owned();
    let (ssd_bytes, extent_bytes) = (128 << 20, 1 << 20);
    let machine = Machine {
        name,
        config,
        settings,
        ssd_bytes,
        other_pairs: 0,
        mirror_later: false,
        extent_bytes,
        kept_records: 1024,
        ready_places: u64::MAX,
    };
    let mut world = World::new(machine, 1).unwrap();
    for (token, request) in all.iter().enumerate() {
        let (offset_bytes, length) = (request.offset_bytes, u64::from(request.length_bytes));
        let op = match request.op {
            RequestOp::Read => GuestOp::Read { offset_bytes, length_bytes: length },
            _ => GuestOp::write(offset_bytes, Buf::zeroed(length as usize), is_sync(request)),
        };
        let request = GuestRequest { token: token as u64, op, now_ns: request.time_ns };
        world.serve(request).expect("an answer").result.unwrap();
    }
    pick(&serde_json::to_value(CounterReport::from(world.engine().counters())).unwrap())
}

fn in_daemon(site: &Site, case: &Case<'_>) -> Vec<u64> {
    let &Case { scheme, sets, scale: Scale { dram_mib, ssd_mib, read_ssd_mib, .. }, all, disk_bytes } = case;
    File::create(site.path("vm1.img")).unwrap().set_len(disk_bytes).unwrap();
    let folder = site.folder.path().display();
    let settings: Vec<String> = sets
        .iter()
        .map(|set| set.split_once('=').unwrap())
        .map(|(key, value)| format!("{key} = \"{value}\""))
        .collect();
    let (mut read_ssd, mut share) = (String::new(), String::new());
    if read_ssd_mib > 0 {
        lode_ok(&["format", "--read-ssd", &site.text("read.img"), "--create", "64MiB"]);
        read_ssd = format!("[read_ssd]\npath = \"{folder}/read.img\"\n");
        share = format!("read_ssd = \"{read_ssd_mib}MiB\"\n");
    }
    let text = format!(
        "name = \"test\"\nstate_dir = \"{folder}/state\"\nshards = 1\n[ssd]\npath = \"{folder}/ssd.img\"\n\
         {read_ssd}[[vm]]\nname = \"vm1\"\nbacking = {{ path = \"{folder}/vm1.img\" }}\nscheme = \"{scheme}\"\nwriteback = \"scheme\"\n\
         dram = \"{dram_mib}MiB\"\nssd = \"{ssd_mib}MiB\"\n{share}settings = {{ {} }}\n\
         listen = [\"unix:{folder}/vm1.sock\"]\n",
        settings.join(", ")
    );
    std::fs::write(site.path("test.toml"), text).unwrap();
    let daemon = site.serve();
    let mut client = daemon.client("vm1");
    let zeroes = vec![0; 1 << 20];
    for request in all {
        let (offset, length) = (request.offset_bytes, request.length_bytes);
        match request.op {
            RequestOp::Read => {
                client.read(offset, length);
            }
            _ => {
                let payload = &zeroes[..length as usize];
                client
                    .ask(Command::Write, offset, length, is_sync(request), payload)
                    .expect("an answer")
                    .unwrap();
            }
        }
    }
    let counters = pick(&daemon.status()["vms"][0]["counters"]);
    drop(client);
    daemon.stop();
    counters
}

/// For each trace, the counters on which they agree, in the order of [`COUNTERS`].
fn three_worlds_agree(scheme: &str, sets: &[&str], scale: Scale) -> Vec<Vec<u64>> {
    let agree = |(all, disk_bytes)| three_worlds_agree_on(scheme, sets, scale, all, disk_bytes);
    requests(scale).map(agree).collect()
}

fn three_worlds_agree_on(
    scheme: &str,
    sets: &[&str],
    scale: Scale,
    all: Vec<TraceRequest>,
    disk_bytes: u64,
) -> Vec<u64> {
    assert!(all.iter().all(|r| matches!(r.op, RequestOp::Read | RequestOp::Write)
        && r.offset_bytes.is_multiple_of(SECTOR_BYTES)
        && u64::from(r.length_bytes).is_multiple_of(SECTOR_BYTES)));
    let site = Site::in_memory();
    let case = Case { scheme, sets, scale, all: &all, disk_bytes };
    let replay = in_replay(&site, &case);
    assert_eq!(replay[0], scale.requests as u64);
    println!("{scheme} {sets:?}: {replay:?}");
    let simulation = in_simulation(&case);
    assert_eq!(replay, simulation, "{scheme}: replay and simulation differ in {COUNTERS:?}");
    let daemon = in_daemon(&site, &case);
    assert_eq!(replay, daemon, "{scheme}: replay and daemon differ in {COUNTERS:?}");
    replay
}

/// With intervals so short, and queues so long, that blocks are promoted and shares change many times.
fn etica_agrees(mode: &str) {
    let sets = [
        mode,
        "sizing=on",
        "sizing_interval=1000",
        "promotion_interval=100",
        "queue_percent=50",
        "distances=exact",
    ];
    for counters in three_worlds_agree("etica", &sets, REUSE) {
        let count = |pointer| counters[COUNTERS.iter().position(|known| *known == pointer).unwrap()];
        assert_eq!(count("/ssd_writes/promotion") > 0, mode != "mode=npe", "{counters:?}");
        assert!(count("/read_hits/dram") > 0 && count("/evictions/dram") > 0, "{counters:?}");
        assert!(count("/read_hits/ssd") > 0 && count("/evictions/ssd") > 0, "{counters:?}");
    }
}

#[test]
fn etica_npe_is_the_same_everywhere() {
    etica_agrees("mode=npe");
}

#[test]
fn etica_full_hybrid_is_the_same_everywhere() {
    etica_agrees("mode=full-hybrid");
}

#[test]
fn etica_full_strict_is_the_same_everywhere() {
    etica_agrees("mode=full-strict");
}

#[test]
fn lru_ro_is_the_same_everywhere() {
    three_worlds_agree("lru", &["write_policy=ro"], ONE_LEVEL);
}

/// Settings with which more happens in these requests, of schemes that need them for that.
pub fn eventful(scheme: &str) -> &'static [&'static str] {
    match scheme {
        "s-rac-like" => &["write_policy=wt"],
        "fast-cache-like" => &["promote_after=2"],
        "rpac" => &["decay_interval=20000"],
        "rpac-prototype" => &["region_blocks=100"],
        "eci-cache-like" => &["policy_interval=500", "write_threshold=0.2"],
        "flashcache" => &["dirty_thresh_pct=5", "fallow_delay_requests=300", "skip_seq_blocks=64"],
        "opencas-like" => {
            &["write_policy=wb", "promotion=nhit", "staleness_requests=500", "wake_up_requests=100"]
        }
        "l2arc-like" => &["feed_interval=10", "feed_blocks=100"],
        "auto" => &["look_accesses=100", "shadow_blocks=1000", "switch_cost_percent=1", "set_cost_percent=0"],
        "tica-adaptive" => &["sample_size=500", "steps=2"],
        _ => &[],
    }
}

fn scale_of(info: &SchemeInfo) -> Scale {
    match (info.name, info.levels) {
        ("l2arc-like", _) => Scale { ssd_mib: 8, ..TWO_LEVELS },
        ("ucache-like", _) => Scale { ssd_mib: 64, ..TWO_LEVELS },
        (_, [_]) => ONE_LEVEL,
        (_, [_, _]) => TWO_LEVELS,
        _ => TWO_SSDS,
    }
}

/// Schemes with tests of their own: one has three modes, the other needs requests that tell more.
const ELSEWHERE: &[&str] = &["etica", "request-oriented"];

/// Each other scheme of the registry that a daemon can run.
#[test]
fn every_scheme_is_the_same_everywhere() {
    let left = all_schemes().iter().filter(|info| !info.needs_future() && !ELSEWHERE.contains(&info.name));
    let left: Mutex<Vec<_>> = Mutex::new(left.collect());
    let next = || left.lock().unwrap().pop();
    let compare_some = || {
        while let Some(info) = next() {
            let is_sized = info.setting_infos().any(|setting| setting.key == "sizing_interval");
            let sizing: &[&str] = if is_sized { &["sizing=on", "sizing_interval=1000"] } else { &[] };
            let measures = info.setting_infos().any(|setting| setting.key == "distances");
            // The default of a daemon, which is not that of a replay.
            let distances: &[&str] = if measures { &["distances=sampled"] } else { &[] };
            three_worlds_agree(info.name, &[sizing, distances, eventful(info.name)].concat(), scale_of(info));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(compare_some);
        }
    });
}

/// With a budget of so many blocks for each hundred accesses.
#[test]
fn auto_under_a_budget_is_the_same_everywhere() {
    three_worlds_agree("auto", &[eventful("auto"), &["write_budget=20"]].concat(), TWO_LEVELS);
}

/// A budget for each day counts the time of the requests, which a replay and a simulation take from the trace. A daemon has a
/// clock of its own.
#[test]
fn a_daily_budget_is_the_same_in_replay_and_simulation() {
    let free = &[][..];
    let held = &["write_budget=20GiB/day"][..];
    for (all, disk_bytes) in requests(TWO_LEVELS) {
        let site = Site::in_memory();
        let mut written = [free, held].into_iter().map(|sets| {
            let case = Case { scheme: "auto", sets, scale: TWO_LEVELS, all: &all, disk_bytes };
            let replay = in_replay(&site, &case);
            assert_eq!(
                replay,
                in_simulation(&case),
                "{sets:?}: replay and simulation differ in {COUNTERS:?}"
            );
            replay[COUNTERS.iter().position(|known| *known == "/ssd_writes/total").unwrap()]
        });
        let (free, held) = (written.next().unwrap(), written.next().unwrap());
        assert!(0 < held && held < free, "{held} of {free}");
    }
}

#[test]
fn request_oriented_is_the_same_everywhere() {
    // One request at a time gives nobody a reason to issue a write again.
    let sets = ["admission=sync", "reissue=on", "dirty_thresh_pct=5", "fallow_delay_requests=300"];
    for (all, disk_bytes) in requests(ONE_LEVEL) {
        three_worlds_agree_on("request-oriented", &sets, ONE_LEVEL, with_synthetic_sync(all), disk_bytes);
    }
}
