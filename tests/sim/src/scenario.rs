//! Machines, plans and single requests that the tests of the guarantees share.

use lode_engine::{Buf, GuestError, GuestOp, GuestRequest};
use lode_engine::{EngineConfig, OrderedConfig};
use lode_policy::{Quota, SchemeInfo, WriteBudget};
use lode_store::SyncDevice;
use lode_types::{BlockSize, Level, Rng};

use crate::{Crash, Decay, Faults, Machine, Plan, RunCounts, SimDisk, World, run, run_together};

/// Bytes of the usual volume, which ends two sectors before.
pub const VOLUME_BYTES: u64 = 2 << 20;

/// A small machine with this scheme and these settings.
pub fn machine(scheme: &str, pairs: &[&str], quota: Quota) -> Machine {
    let mut settings = SchemeInfo::find(scheme).unwrap().settings();
    for pair in pairs {
        settings.set_pair(pair).unwrap();
    }
    let config = EngineConfig {
        block: BlockSize::KIB_4,
        volume_bytes: VOLUME_BYTES - 1024,
        share: quota,
        largest_share: None,
        reserve: Quota::new(24, 24).with(Level::ReadSsd, quota.read_ssd_blocks.min(24)),
        write_back: None,
        scrub_ticks: None,
        ssd_is_pair: false,
        ordered: None,
        host_budget: WriteBudget::Any,
        read_ssd_start_bytes: 0,
    };
    let (ssd_bytes, extent_bytes) = (3 << 20, 1 << 20);
    let name = "vm".to_owned();
    let (other_pairs, kept_records, ready_places) = (0, 1024, u64::MAX);
    Machine {
        config,
        settings,
        name,
        ssd_bytes,
        other_pairs,
        mirror_later: false,
        extent_bytes,
        kept_records,
        ready_places,
    }
}

/// Has `auto` choose anew as often as it can.
const AUTO: &[&str] = &[
    "shadow_blocks=64",
    "look_accesses=10",
    "switch_percent=0",
    "switch_cost_percent=0",
    "set_percent=0",
    "set_cost_percent=0",
];

/// Has `ucache-like` keep blocks in both levels.
const IN_BOTH: &[&str] = &["worth_hits=0", "ssd_order=use", "ssd_hits=copy"];

const ECI_CACHE: &[&str] = &["policy_interval=20", "write_threshold=0.1", "sizing_interval=100", "assoc=8"];

/// One machine for each way of caching that there is.
pub fn all_schemes() -> Vec<(&'static str, Machine)> {
    let quota = Quota::new(20, 60);
    let ssd_only = Quota::new(0, 60);
    let fast = ["promotion_interval=10", "sizing_interval=100", "assoc=8"];
    let etica = |mode| machine("etica", &[&fast[..], &[mode]].concat(), quota);
    let one = |policy| machine("lru", &[policy, "assoc=8"], ssd_only);
    vec![
        ("etica npe", etica("mode=npe")),
        ("etica full-hybrid", etica("mode=full-hybrid")),
        (
            "etica full-strict",
            machine("etica", &[&fast[..], &["mode=full-strict", "popularity=any"]].concat(), quota),
        ),
        ("lru wb", one("write_policy=wb")),
        ("lru wt", one("write_policy=wt")),
        ("lru ro", one("write_policy=ro")),
        ("lru wbwo", one("write_policy=wbwo")),
        ("lru wa", one("write_policy=wa")),
        ("arc wb", machine("arc", &["write_policy=wb"], ssd_only)),
        // Writes that pass the cache although it keeps dirty blocks.
        ("larc wb", machine("larc", &["write_policy=wb"], ssd_only)),
        ("l2arc-like", machine("l2arc-like", &["feed_interval=10", "feed_blocks=6"], quota)),
        ("ucache-like", machine("ucache-like", &[], quota)),
        // Copies in both levels, of what is dirty as well.
        ("ucache-like both", machine("ucache-like", IN_BOTH, quota)),
        // Copies in both levels, and moves on demand; the second lets writes pass what is dirty on the SSD.
        ("benefit-density", machine("benefit-density", &["write_price_us=0"], quota)),
        ("benefit-density by recency", machine("benefit-density", &["order=recency"], quota)),
        ("benefit-density budget", machine("benefit-density", &["write_budget=30"], quota)),
        // Schemes that follow each other within it, at nearly every look.
        ("auto", machine("auto", AUTO, quota)),
        // From write-back to read-only and back, with all that is dirty cleaned at once.
        ("eci-cache-like", machine("eci-cache-like", ECI_CACHE, ssd_only)),
        // Blocks that are cleaned under the guest's hands.
        (
            "flashcache wb",
            machine(
                "flashcache",
                &["assoc=8", "dirty_thresh_pct=30", "fallow_delay_requests=40", "skip_seq_blocks=12"],
                ssd_only,
            ),
        ),
        (
            "request-oriented sync",
            machine(
                "request-oriented",
                &["admission=sync", "assoc=8", "dirty_thresh_pct=30", "fallow_delay_requests=40"],
                ssd_only,
            ),
        ),
        (
            "opencas-like wb",
            machine(
                "opencas-like",
                &["write_policy=wb", "staleness_requests=30", "wake_up_requests=5", "seq_threshold_blocks=8"],
                ssd_only,
            ),
        ),
        ("tica-ef", tica("tica-ef")),
        ("tica-wed", tica("tica-wed")),
        ("tica-adaptive", tica("tica-adaptive")),
        ("request-oriented reissue", reissuing()),
    ]
}

/// Whether a volume of this machine can be served by this other one's scheme, which has all that it needs: where shares do not
/// move, a share of each level that it uses.
pub(crate) fn may_switch(config: &EngineConfig, to: &Machine) -> bool {
    let levels = SchemeInfo::find(to.settings.scheme()).unwrap().levels;
    let moves = config.largest_share.is_some();
    levels.iter().all(|&level| config.share.of(level) > 0 || (moves && level != Level::ReadSsd))
}

/// The same machine on a pair of SSDs.
pub fn paired(mut machine: Machine) -> Machine {
    machine.config.ssd_is_pair = true;
    machine
}

/// The same machine on one SSD that has room for a second one to come, and be its pair.
pub fn paired_later(machine: Machine) -> Machine {
    Machine { mirror_later: true, ..paired(machine) }
}

/// The same machine on several pairs of SSDs, with blocks so large that what it has takes extents on more than one of them.
pub fn spread(machine: Machine, other_pairs: u64) -> Machine {
    let mut machine = paired(machine);
    machine.config.block = BlockSize::new(16 << 10).expect("a power of two");
    machine.config.volume_bytes = 2 * VOLUME_BYTES - 1024;
    Machine { other_pairs, ..machine }
}

/// A machine that issues writes again to the SSD when somebody comes to wait for them.
pub fn reissuing() -> Machine {
    let pairs =
        ["admission=sync", "reissue=on", "assoc=8", "dirty_thresh_pct=30", "fallow_delay_requests=40"];
    machine("request-oriented", &pairs, Quota::new(0, 60))
}

/// The same machine with a backing disk that is written in the order of its guest's flushes, in groups of so many blocks.
pub fn ordered(machine: Machine, group_blocks: u32, group_ticks: u32) -> Machine {
    let ordered =
        OrderedConfig { group_blocks, group_ticks, max_lag_ticks: None, last_group: 0, generation: 0 };
    let config = EngineConfig { ordered: Some(ordered), write_back: None, ..machine.config };
    Machine { config, ..machine }
}

/// A machine with two SSDs and a scheme that uses both.
pub fn tica(scheme: &str) -> Machine {
    machine(scheme, &[], Quota::new(20, 40).with(Level::ReadSsd, 48))
}

/// The machines of [`all_schemes`] that have two SSDs.
pub fn tica_schemes() -> Vec<(&'static str, Machine)> {
    let mut all = all_schemes();
    all.retain(|(_, machine)| machine.config.share.read_ssd_blocks > 0);
    all
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// How many seeds a test tries: `LODE_SIM_SEEDS`, or few enough for every day.
pub fn seeds() -> u64 {
    number("LODE_SIM_SEEDS").unwrap_or(8)
}

/// The first so many seeds; or with `LODE_SIM_SEED` that one alone, to see a failure again.
pub fn first_seeds(count: u64) -> std::ops::Range<u64> {
    number("LODE_SIM_SEED").map_or(0..count, |seed| seed..seed + 1)
}

/// A plan with the usual sizes.
pub fn plan(machines: Vec<Machine>, seed: u64) -> Plan {
    Plan {
        machines,
        seed,
        rounds: 4,
        requests: 300,
        depth: 16,
        crash: Crash::Any,
        longest_sectors: 64,
        faults: Faults::default(),
        flips: 0,
        decay: 0,
        decays: Decay::Ssd,
        ssd_deaths: 0,
        member_losses: 0,
        member_changes: 0,
        ssd_losses: 0,
        rot: 0,
        failed_starts: 0,
        start_read_errors: 0,
        start_read_tries: 0,
        start_reads_beside: false,
        start_hangs: 0,
        starts_at_once: false,
        slow_commands: Rng::new(seed.rotate_left(40) ^ 0x7a11).chance(30),
        takes_over_in_steps: Rng::new(seed.rotate_left(4) ^ 0x7a0e).chance(50),
        shares_backing: false,
        drains: 0,
        write_arounds: 0,
        share_changes: 0,
        membership_changes: 0,
        scheme_switches: 0,
        most_spare_places: 500,
        looks_around: false,
        ends_drained: false,
        hangs: 0,
        hangs_give_up: false,
        clock_jumps: 0,
        ssd_lies: false,
        most_steps: None,
    }
}

/// Runs what `plan_of` makes of each of these machines and of each of the first so many seeds. What happened in all runs.
///
/// # Panics
/// At the first run that breaks a promise.
pub fn run_each(
    machines: Vec<(&'static str, Machine)>,
    count: u64,
    plan_of: impl Fn(Machine, u64) -> Plan,
) -> RunCounts {
    let mut sum = RunCounts::default();
    for (name, machine) in machines {
        for seed in first_seeds(count) {
            sum += run(&plan_of(machine.clone(), seed)).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
    println!("{sum:?}");
    sum
}

/// Runs so many volumes together on one SSD, with this much of it each, under all schemes in turn; `plan_of` makes the plan of
/// each machine and seed. What happened in all runs.
///
/// # Panics
/// As [`run_each`].
pub fn run_neighbours(volumes: usize, ssd_bytes: u64, plan_of: impl Fn(Machine, u64) -> Plan) -> RunCounts {
    let machines: Vec<Machine> = all_schemes().into_iter().map(|(_, machine)| machine).collect();
    let mut sum = RunCounts::default();
    for at in 0..machines.len() {
        for seed in first_seeds(seeds().div_ceil(4)) {
            let plan = |number: usize| {
                let machine = machines[(at + number * 5) % machines.len()].clone();
                plan_of(Machine { name: format!("vm{number}"), ssd_bytes, ..machine }, seed)
            };
            let plans: Vec<Plan> = (0..volumes).map(plan).collect();
            let counts = run_together(&plans).unwrap_or_else(|error| panic!("machine {at}: {error}"));
            counts.into_iter().for_each(|counts| sum += counts);
        }
    }
    println!("{sum:?}");
    sum
}

/// Bytes of a block of these tests.
pub const BLOCK: u64 = 4096;

/// A block full of one byte's own pattern.
pub fn pattern(name: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| name ^ (i / 512) as u8 ^ (i % 251) as u8).collect()
}

fn serve(world: &mut World, op: GuestOp) -> Result<Vec<u8>, GuestError> {
    let event = world.serve(GuestRequest { token: 1, op, now_ns: 0 }).expect("an answer");
    event.result.map(|()| event.data.concat())
}

/// Writes bytes of the pattern `name`.
pub fn write(world: &mut World, offset_bytes: u64, len: u64, name: u8) -> Result<(), GuestError> {
    let buf = Buf::copy_of(&pattern(name, len as usize));
    serve(world, GuestOp::write(offset_bytes, buf, false)).map(drop)
}

/// Reads.
pub fn read(world: &mut World, offset_bytes: u64, length_bytes: u64) -> Result<Vec<u8>, GuestError> {
    serve(world, GuestOp::Read { offset_bytes, length_bytes })
}

/// Flushes.
pub fn flush(world: &mut World) -> Result<(), GuestError> {
    serve(world, GuestOp::Flush).map(drop)
}

/// Flips a bit in every copy of the block with the pattern `name` on the SSD. Returns how many there are.
pub fn damage(world: &mut World, name: u8) -> usize {
    damage_on(&mut world.ssd, name)
}

/// As [`damage`], on this device.
pub fn damage_on(disk: &mut SimDisk, name: u8) -> usize {
    let want = pattern(name, BLOCK as usize);
    let is_it = |at: &u64| {
        let mut bytes = [0; BLOCK as usize];
        disk.peek(*at, &mut bytes);
        bytes[..] == want
    };
    let places: Vec<u64> = (0..disk.size_bytes()).step_by(BLOCK as usize).filter(is_it).collect();
    places.iter().for_each(|&at| disk.flip_bit(at + 700, 3));
    places.len()
}
