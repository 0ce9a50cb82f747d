//! The one idea for a host: the merged trace of three VMs that divide two levels, one request at a time, gives every VM the same
//! counters, and the same share after every interval, in replay, with three simulated engines and in a daemon with two shards.

use std::fs::File;
use std::time::{Duration, Instant};

use lode_engine::{Buf, EngineConfig, GuestOp, GuestRequest};
use lode_hardware::Host;
use lode_nbd::Command;
use lode_policy::host::{HostOptions, HostSizer, VmRule};
use lode_policy::{AccessTimes, CounterReport, OfSized, Points, Quota, SchemeInfo, Settings, Tenant};
use lode_reuse::sizing::Objective;
use lode_sim::{DirectHost, Machine};
use lode_trace::{Recorded, create_compact_with};
use lode_types::{BlockSize, Level, RequestOp, TraceRequest};
use serde_json::Value;

use crate::common::{Daemon, Site, lode_ok};
use crate::equality::{COUNTERS, eventful, pick, requests_of};

const VMS: usize = 3;
/// Of each VM.
const REQUESTS: usize = 4_000;
/// Requests of all VMs between two divisions.
const INTERVAL: usize = 1_000;
/// Of `auto`: intervals as short as here are looked at one by one, and shares follow each of them.
const EACH_BY_ITSELF: &str = "demand_half_life_turnovers=0";
const DRAM_MIB: u64 = 6;
const SSD_MIB: u64 = 12;
const PATIENCE: Duration = Duration::from_secs(30);

/// What each world gives: for every VM its counters and its shares of DRAM and SSD after each interval.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    counters: Vec<Vec<u64>>,
    shares: Vec<Vec<[u64; 2]>>,
}

/// One VM's scheme and settings of it.
#[derive(Clone, Copy)]
struct Caching<'c> {
    scheme: &'c str,
    sets: &'c [&'c str],
}

impl Caching<'_> {
    fn info(&self) -> &'static SchemeInfo {
        SchemeInfo::find(self.scheme).unwrap()
    }

    /// What a VM can be given.
    fn levels(&self) -> Quota {
        let blocks = |mib: u64| (mib << 20 >> 12) as u32;
        let levels = Quota::new(blocks(DRAM_MIB), blocks(SSD_MIB));
        levels.map(|level, blocks| if self.info().levels.contains(&level) { blocks } else { 0 })
    }

    /// As a daemon has them where the host divides.
    fn settings(&self) -> Settings {
        let mut settings = self.info().settings();
        let measures = self.info().setting_infos().any(|info| info.key == "sizing");
        let sets = self.sets.iter().copied().chain(measures.then_some("sizing=host"));
        sets.for_each(|set| settings.set_pair(set).unwrap());
        settings
    }
}

/// What divisions maximise.
#[derive(Clone, Copy)]
enum Maximised<'c> {
    HitRatios,
    /// Minus the mean latencies on these devices.
    LatencyOf(&'c str),
    /// Performance per cost, with this floor.
    PpcTotal(f64),
}

impl Maximised<'_> {
    /// Of a replay.
    fn arguments(&self) -> Vec<String> {
        match self {
            Maximised::HitRatios => Vec::new(),
            Maximised::LatencyOf(devices) => {
                ["--devices", devices, "--set", "objective=latency"].map(str::to_owned).into()
            }
            Maximised::PpcTotal(floor) => {
                let floor = format!("ppc_floor={floor}");
                ["--set", "objective=ppc_total", "--set", &floor].map(str::to_owned).into()
            }
        }
    }

    /// Of a daemon's `[host]`.
    fn keys(&self) -> String {
        match self {
            Maximised::HitRatios => String::new(),
            Maximised::LatencyOf(devices) => format!("objective = \"latency\"\ndevices = \"{devices}\"\n"),
            Maximised::PpcTotal(floor) => format!("objective = \"ppc_total\"\nppc_floor = {floor}\n"),
        }
    }

    fn options(&self) -> HostOptions {
        match self {
            Maximised::HitRatios => HostOptions::default(),
            Maximised::LatencyOf(devices) => {
                let times = Host::find(devices).unwrap().service_times(BlockSize::KIB_4);
                let times = AccessTimes::of_us(times.one_block_us());
                HostOptions { objective: times.objective(), times, ..HostOptions::default() }
            }
            Maximised::PpcTotal(floor) => {
                HostOptions { objective: Objective::PpcTotal { floor: *floor }, ..HostOptions::default() }
            }
        }
    }
}

/// What all worlds are given.
struct Case<'c> {
    vms: [Caching<'c>; VMS],
    maximised: Maximised<'c>,
    all: &'c [TraceRequest],
    disk_bytes: u64,
}

impl Case<'_> {
    /// What the VMs divide.
    fn levels(&self) -> Quota {
        let of_vm =
            |quota: Quota, vm: &Caching<'_>| quota.map(|level, blocks| blocks.max(vm.levels().of(level)));
        self.vms.iter().fold(Quota::default(), of_vm)
    }

    /// What a VM begins with: equal parts for those that use a level.
    fn first_share(&self, vm: &Caching<'_>) -> Quota {
        let users = |level| self.vms.iter().filter(|other| other.info().levels.contains(&level)).count();
        vm.levels().map(|level, blocks| blocks / users(level).max(1) as u32)
    }
}

/// Requests of three VMs in turn: of one trace, and of two stretches of another. The times are made up.
fn merged(number: usize) -> Option<(Vec<TraceRequest>, u64)> {
    let [first, second] = ["cloudphysics-2h", "hplajw-1week"].map(lode_testdata::traces);
    let (first, first_bytes) = requests_of(&first.get(number)?.path, REQUESTS);
    let (mut second, second_bytes) = requests_of(&second.get(number)?.path, 2 * REQUESTS);
    let third = second.split_off(REQUESTS);
    let mut all = Vec::new();
    for in_turn in first.into_iter().zip(second).zip(third) {
        let ((first, second), third) = in_turn;
        for (volume, request) in (0..).zip([first, second, third]) {
            all.push(TraceRequest { volume, time_ns: all.len() as u64 * 1_000_000, ..request });
        }
    }
    assert!(all.iter().all(|request| matches!(request.op, RequestOp::Read | RequestOp::Write)));
    Some((all, first_bytes.max(second_bytes)))
}

/// Every VM under the first one's scheme.
fn in_replay(site: &Site, case: &Case<'_>) -> Outcome {
    let [Caching { scheme, sets }, ..] = case.vms;
    let path = site.path("host.lode");
    let mut writer = create_compact_with(&path, Recorded::TIMES).unwrap();
    let names: Vec<String> = (1..=VMS).map(|vm| format!("vm{vm}")).collect();
    writer.write(&names, case.all).unwrap();
    writer.close().unwrap();
    let [dram, ssd] = [DRAM_MIB, SSD_MIB].map(|mib| format!("{mib}MiB"));
    let interval = format!("sizing_interval={INTERVAL}");
    let path = path.to_str().unwrap();
    let mut arguments = vec!["replay", path, "--scheme", scheme, "--ssd", &ssd, "--json"];
    if case.levels().dram_blocks > 0 {
        arguments.extend(["--dram", &dram]);
    }
    let maximised = case.maximised.arguments();
    arguments.extend(maximised.iter().map(String::as_str));
    for set in sets.iter().copied().chain(["sizing=host", &interval]) {
        arguments.extend(["--set", set]);
    }
    let report: Value = serde_json::from_str(&lode_ok(&arguments)).unwrap();
    let mut outcome = Outcome::default();
    for vm in report["vms"].as_array().unwrap() {
        assert_eq!(vm["first_interval"], 0, "{vm}");
        outcome.counters.push(pick(vm));
        outcome.shares.push(vm["intervals"].as_array().unwrap().iter().map(share_of).collect());
    }
    outcome
}

fn share_of(quota: &Value) -> [u64; 2] {
    ["dram_blocks", "ssd_blocks"].map(|key| quota[key].as_u64().unwrap_or_else(|| panic!("{key}: {quota}")))
}

fn in_simulation(case: &Case<'_>) -> Outcome {
    let levels = case.levels();
    let first = case.vms.map(|vm| case.first_share(&vm));
    let machine = |(at, vm): (usize, &Caching<'_>)| {
        let config = EngineConfig::new(BlockSize::KIB_4, case.disk_bytes, first[at]);
        let config = EngineConfig { largest_share: Some(vm.levels()), ..config };
        let (name, settings) = (format!("vm{}", at + 1), vm.settings());
        Machine {
            config,
            settings,
            name,
            ssd_bytes: 256 << 20,
            other_pairs: 0,
            mirror_later: false,
            extent_bytes: 4 << 20,
            kept_records: 0,
            // The daemon has more ready: what is decided does not depend on it.
            ready_places: 1,
        }
    };
    let mut host = DirectHost::new(case.vms.iter().enumerate().map(machine).collect(), levels.dram_blocks);
    let mut sizer = HostSizer::new(levels, case.maximised.options());
    let rule = |(at, vm): (usize, &Caching<'_>)| VmRule {
        name: format!("vm{}", at + 1),
        weight: 1.0,
        least: vm.levels().map(|level, _| vm.info().least_blocks(level)),
        most: vm.levels(),
        reach: vm.levels(),
        named: OfSized::default(),
    };
    sizer.set_vms(case.vms.iter().enumerate().map(rule).collect());
    sizer.put_shares(&first);
    let mut outcome = Outcome { shares: vec![Vec::new(); VMS], ..Outcome::default() };
    for (at, request) in all_with_ends(case.all) {
        if let Some(request) = request {
            let (offset_bytes, length) = (request.offset_bytes, u64::from(request.length_bytes));
            let op = match request.op {
                RequestOp::Read => GuestOp::Read { offset_bytes, length_bytes: length },
                _ => GuestOp::write(offset_bytes, Buf::zeroed(length as usize), false),
            };
            let request = GuestRequest { token: 0, op, now_ns: request.time_ns };
            host.serve(at, request);
            continue;
        }
        sizer.divide(host.engines.iter_mut().map(|engine| engine.demand(Points::All)).collect());
        resize(&mut host, &sizer.shrink(u32::MAX));
        resize(&mut host, &sizer.grow(&[Quota::default(); VMS], |_, _| true));
        for (shares, engine) in outcome.shares.iter_mut().zip(&host.engines) {
            let quota = engine.quota();
            shares.push([quota.dram_blocks.into(), quota.ssd_blocks.into()]);
        }
    }
    assert_eq!(host.failed, 0);
    let counters = |engine: &lode_engine::Engine| {
        pick(&serde_json::to_value(CounterReport::from(engine.counters())).unwrap())
    };
    outcome.counters = host.engines.iter().map(counters).collect();
    outcome
}

fn resize(host: &mut DirectHost, shares: &[(usize, Quota)]) {
    for &(vm, share) in shares {
        host.engines[vm].resize(share.with(Level::ReadSsd, 0));
        host.run(&mut |_| {});
    }
}

/// The requests, each with its VM, and nothing where an interval ends.
fn all_with_ends(all: &[TraceRequest]) -> impl Iterator<Item = (usize, Option<&TraceRequest>)> {
    all.chunks(INTERVAL).flat_map(|interval| {
        let end = (interval.len() == INTERVAL).then_some((0, None));
        interval.iter().map(|request| (request.volume as usize, Some(request))).chain(end)
    })
}

fn in_daemon(site: &Site, case: &Case<'_>) -> Outcome {
    let folder = site.folder.path().display();
    let dram =
        if case.levels().dram_blocks > 0 { format!("dram = \"{DRAM_MIB}MiB\"\n") } else { String::new() };
    let mut text = format!(
        "name = \"test\"\nstate_dir = \"{folder}/state\"\nshards = 2\n[ssd]\npath = \"{folder}/ssd.img\"\n\
         [host]\nmode = \"auto\"\n{dram}ssd = \"{SSD_MIB}MiB\"\ninterval = \"1 h\"\nrate = \"1GiB\"\n{}",
        case.maximised.keys()
    );
    for (vm, caching) in (1..).zip(&case.vms) {
        let settings = caching.sets.iter().map(|set| set.split_once('=').unwrap());
        let settings: Vec<String> = settings.map(|(key, value)| format!("{key} = \"{value}\"")).collect();
        File::create(site.path(&format!("vm{vm}.img"))).unwrap().set_len(case.disk_bytes).unwrap();
        text += &format!(
            "[[vm]]\nname = \"vm{vm}\"\nbacking = {{ path = \"{folder}/vm{vm}.img\" }}\nscheme = \"{}\"\n\
             writeback = \"scheme\"\nsettings = {{ {} }}\nlisten = [\"unix:{folder}/vm{vm}.sock\"]\n",
            caching.scheme,
            settings.join(", ")
        );
    }
    std::fs::write(site.path("test.toml"), text).unwrap();
    let daemon = site.serve();
    let mut clients: Vec<_> = (1..=VMS).map(|vm| daemon.client(&format!("vm{vm}"))).collect();
    let zeroes = vec![0; 1 << 20];
    let mut outcome = Outcome { shares: vec![Vec::new(); VMS], ..Outcome::default() };
    for (at, request) in all_with_ends(case.all) {
        let Some(request) = request else {
            for (shares, share) in outcome.shares.iter_mut().zip(divided(site, &daemon)) {
                shares.push(share);
            }
            continue;
        };
        let (offset, length) = (request.offset_bytes, request.length_bytes);
        match request.op {
            RequestOp::Read => drop(clients[at].read(offset, length)),
            _ => {
                let payload = &zeroes[..length as usize];
                clients[at].ask(Command::Write, offset, length, false, payload).expect("an answer").unwrap();
            }
        }
    }
    let status = daemon.status();
    outcome.counters = (0..VMS).map(|vm| pick(&status["vms"][vm]["counters"])).collect();
    drop(clients);
    daemon.stop();
    outcome
}

/// Ends an interval of the daemon, and waits until every VM is served with its new share.
fn divided(site: &Site, daemon: &Daemon<'_>) -> Vec<[u64; 2]> {
    lode_ok(&["divide", &site.text("test.toml"), "--wait"]);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = daemon.status();
        let vms = status["vms"].as_array().unwrap();
        let target =
            |vm: &Value| ["dram", "ssd"].map(|level| vm["sharing"][level]["share_blocks"].as_u64().unwrap());
        let shares: Vec<[u64; 2]> = vms.iter().map(|vm| share_of(&vm["quota"])).collect();
        if vms.iter().map(target).eq(shares.iter().copied()) {
            return shares;
        }
        assert!(Instant::now() < deadline, "shares do not arrive: {shares:?} of {status}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns how many shares changed, by trace; of the committed one, which is there everywhere, all at least once.
fn three_worlds_agree(scheme: &str, sets: &[&str], maximised: Maximised<'_>) -> Vec<usize> {
    let changes = share_changes_of_all(scheme, sets, maximised);
    assert!(changes[0] >= VMS, "{scheme} {sets:?}: {changes:?}");
    changes
}

/// Compares the worlds, and returns how many shares changed, by trace.
fn share_changes_of_all(scheme: &str, sets: &[&str], maximised: Maximised<'_>) -> Vec<usize> {
    let mut changes = Vec::new();
    for (all, disk_bytes) in (0..).map_while(merged) {
        let site = Site::in_memory();
        let case = Case { vms: [Caching { scheme, sets }; VMS], maximised, all: &all, disk_bytes };
        let replay = in_replay(&site, &case);
        println!("{scheme} {sets:?}: {:?}", replay.shares);
        changes.push(share_changes(&replay));
        assert_eq!(replay, in_simulation(&case), "{scheme}: replay and simulation differ in {COUNTERS:?}");
        assert_eq!(replay, in_daemon(&site, &case), "{scheme}: replay and daemon differ in {COUNTERS:?}");
    }
    println!("{scheme} {sets:?}: shares moved {changes:?} times");
    changes
}

/// As above, where shares have to move with each trace.
fn three_worlds_agree_and_move(scheme: &str, sets: &[&str], maximised: Maximised<'_>) {
    let changes = three_worlds_agree(scheme, sets, maximised);
    assert!(changes.iter().all(|&changes| changes >= VMS), "{scheme} {sets:?}: {changes:?}");
}

/// How many shares changed. All requests were served, and all intervals ended.
fn share_changes(outcome: &Outcome) -> usize {
    assert!(outcome.counters.iter().all(|vm| vm[0] == REQUESTS as u64));
    assert!(outcome.shares.iter().all(|vm| vm.len() == VMS * REQUESTS / INTERVAL));
    outcome.shares.iter().flat_map(|vm| vm.windows(2)).filter(|two| two[0] != two[1]).count()
}

/// A daemon measures distances on a sample unless told otherwise, a replay all of them.
const EXACT: &str = "distances=exact";
const SAMPLED: &str = "distances=sampled";

#[test]
fn hosts_with_etica_are_the_same_everywhere() {
    let sets = ["assoc=0", "promotion_interval=100", "queue_percent=50"];
    for more in [["mode=full-hybrid", EXACT], ["mode=npe", EXACT], ["mode=npe", SAMPLED]] {
        three_worlds_agree_and_move("etica", &[&sets[..], &more].concat(), Maximised::HitRatios);
    }
}

#[test]
fn hosts_that_divide_by_latency_or_cost_are_the_same_everywhere() {
    let sets = ["assoc=0", "promotion_interval=100", "queue_percent=50", "mode=full-hybrid", EXACT];
    three_worlds_agree_and_move("etica", &sets, Maximised::LatencyOf("nvme-raid10"));
    three_worlds_agree_and_move("eci-cache-like", &["assoc=0", EXACT], Maximised::LatencyOf("default-raid5"));
    three_worlds_agree("etica", &sets, Maximised::PpcTotal(0.3));
}

#[test]
fn hosts_with_one_level_are_the_same_everywhere() {
    let objective = "objective=sum_hit_ratio";
    three_worlds_agree_and_move("eci-cache-like", &["assoc=0", objective, EXACT], Maximised::HitRatios);
    three_worlds_agree_and_move("centaur-like", &["assoc=0", objective, SAMPLED], Maximised::HitRatios);
    three_worlds_agree("vcacheshare-like", &["assoc=0", EXACT], Maximised::HitRatios);
    three_worlds_agree("s-cave-like", &["assoc=0", "chunk_percent=30"], Maximised::HitRatios);
}

/// The default, with looks at its shadows so often, and changes so cheap, that schemes follow each other while shares move.
#[test]
fn hosts_with_auto_are_the_same_everywhere() {
    let by_hits = Maximised::HitRatios;
    for distances in [EXACT, SAMPLED] {
        let sets = [eventful("auto"), &["objective=sum_hit_ratio", distances, EACH_BY_ITSELF]].concat();
        three_worlds_agree_and_move("auto", &sets, by_hits);
    }
    let sets = [eventful("auto"), &[SAMPLED, EACH_BY_ITSELF]].concat();
    three_worlds_agree_and_move("auto", &sets, Maximised::LatencyOf("nvme-raid10"));
    // Demands that last, as they do unless set otherwise, and for a short time. Traces as short as these may move no share then.
    for lasting in ["demand_half_life_turnovers=16", "demand_half_life_turnovers=0.5"] {
        let sets = [eventful("auto"), &[SAMPLED, lasting]].concat();
        share_changes_of_all("auto", &sets, Maximised::LatencyOf("nvme-raid10"));
    }
}

/// Demands that shadows of other shares put right, which they do often enough that shares are others.
#[test]
fn hosts_whose_sizes_have_shadows_are_the_same_everywhere() {
    let sets = |size_shadows| ["look_accesses=10", "shadow_blocks=64", SAMPLED, EACH_BY_ITSELF, size_shadows];
    three_worlds_agree_and_move("auto", &sets("size_shadows=on"), Maximised::LatencyOf("nvme-raid10"));
    let (all, disk_bytes) = merged(0).expect("the committed trace");
    let [with, without] = ["size_shadows=on", "size_shadows=off"].map(|size_shadows| {
        let sets = sets(size_shadows);
        let vms = [Caching { scheme: "auto", sets: &sets }; VMS];
        let maximised = Maximised::LatencyOf("nvme-raid10");
        in_replay(&Site::in_memory(), &Case { vms, maximised, all: &all, disk_bytes }).shares
    });
    assert_ne!(with, without);
}

/// VMs of several schemes, one of which measures nothing, so that its share goes by its weight. A replay has one scheme for all.
#[test]
fn hosts_of_several_schemes_are_the_same_in_simulation_and_daemon() {
    let etica = Caching { scheme: "etica", sets: &["assoc=0", "promotion_interval=100", "mode=npe", EXACT] };
    let eci = Caching { scheme: "eci-cache-like", sets: &["assoc=0", EXACT] };
    let lru = Caching { scheme: "lru", sets: &["assoc=0"] };
    let mut changes = 0;
    for (all, disk_bytes) in (0..).map_while(merged) {
        for vms in [[etica, eci, lru], [etica, etica, eci]] {
            let site = Site::in_memory();
            let case = Case { vms, maximised: Maximised::HitRatios, all: &all, disk_bytes };
            let simulated = in_simulation(&case);
            changes += share_changes(&simulated);
            assert_eq!(simulated, in_daemon(&site, &case), "simulation and daemon differ in {COUNTERS:?}");
        }
    }
    assert!(changes >= VMS, "shares moved {changes} times");
}
