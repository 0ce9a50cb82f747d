//! Guarantees 1 to 4, 6 and 8 of `docs/design.md` under random guests and crashes.

use lode_engine::EngineConfig;
use lode_policy::{Quota, SchemeInfo};
use lode_sim::{Crash, Machine, Plan, Tally, run};
use lode_types::BlockSize;

const VOLUME_BYTES: u64 = 2 << 20;

fn machine(scheme: &str, pairs: &[&str], quota: Quota) -> Machine {
    let mut settings = SchemeInfo::find(scheme).unwrap().settings();
    for pair in pairs {
        settings.set_pair(pair).unwrap();
    }
    let config = EngineConfig {
        block: BlockSize::KIB_4,
        volume_bytes: VOLUME_BYTES - 1024,
        quota,
        reserve: Quota::new(24, 24),
    };
    Machine { config, settings, ssd_bytes: 3 << 20, extent_bytes: 1 << 20 }
}

fn all_schemes() -> Vec<(&'static str, Machine)> {
    let quota = Quota::new(20, 60);
    let ssd_only = Quota::new(0, 60);
    let fast = ["promotion_interval=10", "sizing_interval=100", "assoc=8"];
    let etica = |mode| machine("etica", &[&fast[..], &[mode]].concat(), quota);
    let one = |policy| machine("one-level", &[policy, "assoc=8"], ssd_only);
    vec![
        ("etica npe", etica("mode=npe")),
        ("etica full-hybrid", etica("mode=full-hybrid")),
        (
            "etica full-strict",
            machine("etica", &[&fast[..], &["mode=full-strict", "popularity=any"]].concat(), quota),
        ),
        ("one-level wb", one("write_policy=wb")),
        ("one-level wt", one("write_policy=wt")),
        ("one-level ro", one("write_policy=ro")),
        ("one-level wbwo", one("write_policy=wbwo")),
        ("one-level wa", one("write_policy=wa")),
    ]
}

fn seeds() -> u64 {
    std::env::var("LODE_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

fn run_all(crash: Crash, depth: usize) -> Tally {
    let mut sum = Tally::default();
    for (name, machine) in all_schemes() {
        for seed in 0..seeds() {
            let plan = Plan {
                machines: vec![machine.clone()],
                seed,
                rounds: 4,
                requests: 300,
                depth,
                crash,
                longest_sectors: 64,
            };
            let tally = run(&plan).unwrap_or_else(|error| panic!("{name}: {error}"));
            sum.sectors_checked += tally.sectors_checked;
            sum.read_hits += tally.read_hits;
            sum.write_backs += tally.write_backs;
        }
    }
    assert!(sum.read_hits > 1000 && sum.write_backs > 100, "{sum:?}");
    sum
}

#[test]
fn g2_flushed_writes_survive_power_cuts() {
    run_all(Crash::Power, 16);
}

#[test]
fn g2_flushed_writes_survive_kills() {
    run_all(Crash::Kill, 16);
}

#[test]
fn g1_one_at_a_time_is_right_too() {
    run_all(Crash::Any, 1);
}

#[test]
fn g6_an_orderly_stop_loses_nothing() {
    run_all(Crash::Stop, 8);
}

/// Guarantee 6: the next life may have another scheme, another share, another number of extents.
#[test]
fn g6_configurations_change_between_lives() {
    let mut machines: Vec<Machine> = all_schemes().into_iter().map(|(_, machine)| machine).collect();
    let mut large = machine("one-level", &["write_policy=wb"], Quota::new(0, 300));
    large.config.reserve = Quota::new(0, 40);
    machines.insert(2, large);
    for seed in 0..seeds() {
        let plan = Plan {
            machines: machines.clone(),
            seed,
            rounds: 12,
            requests: 200,
            depth: 12,
            crash: Crash::Any,
            longest_sectors: 64,
        };
        run(&plan).unwrap_or_else(|error| panic!("{error}"));
    }
}
