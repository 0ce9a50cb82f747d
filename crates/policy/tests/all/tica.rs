//! TICA's three schemes: against plain lists, effect by effect; the worked examples; what each is there for.

use lode_policy::schemes::tica::choice::{Identifier, Policy, Reading, SmbiState, StateMachine, Window};
use lode_policy::schemes::tica::partition::{Partition, growth_units, shrinkage_units};
use lode_policy::{Mirroring, NullSink, Quota, Scheme, SchemeInfo, Settings, build};
use lode_types::Level;
use proptest::prelude::*;
use serde_json::Value;

use crate::driver::{Driver, Observed, Step, any_blocks, any_step, settings};
use crate::oracle::tica::{PlainAdaptive, PlainChoice, PlainConfig, PlainTica};
use lode_testdata::vector;

const SCHEMES: [&str; 3] = ["tica-ef", "tica-wed", "tica-adaptive"];

fn any_quota() -> BoxedStrategy<Quota> {
    let level = || prop_oneof![1 => any_blocks(), 2 => 2u32..40];
    (level(), level(), level())
        .prop_map(|(dram, ssd, read_ssd)| Quota::new(dram, ssd).with(Level::ReadSsd, read_ssd))
        .boxed()
}

fn any_choice() -> impl Strategy<Value = PlainChoice> {
    let share = || prop_oneof![Just(0.0), 0.0..0.5];
    let identifier = (any::<bool>(), share(), share(), prop_oneof![Just(0.05), 0.1..3.0], 0u32..300);
    let machine = (any::<bool>(), share(), share(), 1usize..12, 1u32..5);
    let adaptive = (identifier, machine).prop_map(
        |(
            (printed, t_min, t_max, window_per_block, evicted_percent),
            (hits_not_asked, t_hdd, t_read, sample, steps),
        )| {
            PlainChoice::Adaptive(PlainAdaptive {
                printed,
                t_min,
                t_max,
                window_per_block,
                evicted_percent,
                hits_not_asked,
                t_hdd,
                t_read,
                sample,
                steps,
            })
        },
    );
    prop_oneof![1 => Just(PlainChoice::Ef), 2 => Just(PlainChoice::Wed), 4 => adaptive]
}

fn any_config() -> impl Strategy<Value = PlainConfig> {
    let rate = prop_oneof![Just(0u32), Just(300), Just(1000), 0u32..4000];
    (any_choice(), 1u32..=99, prop_oneof![Just(1u32), Just(8), 1u32..20], rate).prop_map(
        |(choice, write_percent, unit_parts, copy_rate)| PlainConfig {
            choice,
            write_percent,
            unit_parts,
            copy_rate,
        },
    )
}

fn to_settings(config: &PlainConfig) -> Settings {
    let mut pairs = vec![
        ("write_percent", config.write_percent.to_string()),
        ("unit_parts", config.unit_parts.to_string()),
        ("copy_rate", (f64::from(config.copy_rate) / 1000.0).to_string()),
    ];
    let name = match &config.choice {
        PlainChoice::Ef => SCHEMES[0],
        PlainChoice::Wed => SCHEMES[1],
        PlainChoice::Adaptive(adaptive) => {
            pairs.extend([
                ("identifier", if adaptive.printed { "printed" } else { "text" }.to_owned()),
                ("t_min", adaptive.t_min.to_string()),
                ("t_max", adaptive.t_max.to_string()),
                ("window_requests_per_block", adaptive.window_per_block.to_string()),
                ("evicted_percent", adaptive.evicted_percent.to_string()),
                ("state_machine", if adaptive.hits_not_asked { "printed" } else { "text" }.to_owned()),
                ("t_hdd", adaptive.t_hdd.to_string()),
                ("t_read", adaptive.t_read.to_string()),
                ("sample_size", adaptive.sample.to_string()),
                ("steps", adaptive.steps.to_string()),
            ]);
            SCHEMES[2]
        }
    };
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (*key, value.as_str())).collect();
    settings(name, &pairs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn equals_the_oracle_effect_by_effect(
        config in any_config(),
        quota in any_quota(),
        steps in prop::collection::vec(any_step(60, any_quota()), 0..300),
    ) {
        let physical = Quota::new(64, 64).with(Level::ReadSsd, 64);
        let mut driver = Driver::new(&to_settings(&config), physical, quota);
        let mut oracle = PlainTica::new(config, quota);
        for (at, &step) in steps.iter().enumerate() {
            prop_assert_eq!(driver.step(step), oracle.step(step), "step {}: {:?}", at, step);
            for level in Level::ALL {
                prop_assert_eq!(driver.residents(level), oracle.residents(level), "after step {}", at);
            }
            // What was lost or came back after a restart is counted until it is on two devices again.
            let mirrors = driver.scheme.mirroring().map(Mirroring::mirrors).expect("it keeps two copies");
            let alone = driver.dirty_on_one_device();
            prop_assert_eq!(alone, mirrors.missing_blocks as usize, "after step {}: {:?}", at, step);
        }
        prop_assert_eq!(driver.counters, oracle.counters);
        driver.check_counters();
        let mirrors = driver.scheme.mirroring().map(Mirroring::mirrors).expect("it keeps two copies");
        prop_assert_eq!([mirrors.in_dram, mirrors.in_read_ssd, mirrors.missing], oracle.sums);
    }

    /// Nothing but a restart and the loss of a copy leaves a dirty block on one device.
    #[test]
    fn every_dirty_block_is_on_two_devices(
        config in any_config(),
        quota in any_quota(),
        steps in prop::collection::vec(any_step(60, any_quota()), 0..200),
    ) {
        let mut driver = Driver::new(&to_settings(&config), quota, quota);
        let loses = |step: &Step| matches!(step, Step::Forget(..) | Step::Restore(..));
        for step in steps.into_iter().filter(|step| !loses(step)) {
            driver.step(step);
            prop_assert_eq!(driver.dirty_on_one_device(), 0, "{:?}", step);
        }
    }

    /// After a restart every request makes at least one second copy, and the scheme goes on as one that lost nothing.
    #[test]
    fn what_comes_back_is_mirrored_again(
        config in any_config(),
        blocks in prop::collection::btree_map(0u64..100, any::<bool>(), 0..30),
    ) {
        let quota = Quota::new(8, 40).with(Level::ReadSsd, 40);
        let mut driver = Driver::new(&to_settings(&config), quota, quota);
        for (&block, &dirty) in &blocks {
            prop_assert_eq!(driver.step(Step::Restore(block, dirty)), [Observed::Restored(true)]);
        }
        let dirty = blocks.values().filter(|dirty| **dirty).count();
        prop_assert_eq!(driver.dirty_on_one_device(), dirty);
        for left in (0..dirty).rev() {
            driver.step(Step::EndRequest);
            prop_assert!(driver.dirty_on_one_device() <= left);
        }
        prop_assert_eq!(driver.residents(Level::Ssd), blocks.clone());
        prop_assert_eq!(driver.residents(Level::ReadSsd).len(), dirty);
    }
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

fn windows(vector: &Value) -> &Vec<Value> {
    let windows = vector["windows"].as_array().expect("windows");
    assert!(!windows.is_empty());
    windows
}

#[test]
fn the_write_partition_grows_and_shrinks_as_worked_out() {
    let vector = vector("tica_partition");
    let reading = &vector["unit_reading"];
    let default_blocks = whole(&reading["def_"]) as u32;
    let unit_parts = default_blocks / whole(&reading["U"]) as u32;
    let mut partition = Partition::new(4 * default_blocks, 25, unit_parts);
    let sequence =
        |key: &str| -> Vec<u64> { reading[key].as_array().expect("a sequence").iter().map(whole).collect() };
    let mut found = vec![u64::from(partition.write_blocks())];
    while found.len() < sequence("grow_sequence").len() {
        partition.grow();
        found.push(partition.write_blocks().into());
    }
    assert_eq!(found, sequence("grow_sequence"));
    let mut found = vec![u64::from(partition.write_blocks())];
    while found.len() < sequence("shrink_sequence").len() {
        partition.shrink(0);
        found.push(partition.write_blocks().into());
    }
    assert_eq!(found, sequence("shrink_sequence"));
}

/// What is printed, with a page as the unit: a million full partitions in a row gain 19 pages, and one shrink takes all.
#[test]
fn the_printed_partition_hardly_grows() {
    let vector = vector("tica_partition");
    let number = |value: &Value| value.as_f64().expect("a number");
    let literal = vector["literal_after_n_grow_events"].as_object().expect("sizes by events");
    assert_eq!(literal.len(), 8);
    for (events, expected) in literal {
        let events: u32 = events.parse().expect("a number of events");
        let grown = (0..events).fold(0.0, |grown, _| grown + growth_units(grown));
        // The example has four digits.
        assert!((grown - number(expected)).abs() < 1e-3, "{grown} after {events}");
    }
    let examples = vector["shrink_examples"].as_array().expect("examples");
    assert_eq!(examples.len(), 3);
    for example in examples {
        let [pages, default] = ["w", "d"].map(|key| number(&example[key]));
        let left = pages - shrinkage_units(pages - default);
        assert_eq!(left, number(&example["expected"]), "{example}");
    }
}

#[test]
fn a_partition_leaves_reads_a_block() {
    for dram_blocks in 0..40 {
        let mut partition = Partition::new(dram_blocks, 99, 8);
        (0..100).for_each(|_| partition.grow());
        assert_eq!(partition.write_blocks(), dram_blocks.saturating_sub(1));
        partition.shrink(0);
        assert!(partition.write_blocks() >= dram_blocks.min(2) / 2);
    }
}

#[test]
fn the_identifier_decides_as_worked_out() {
    let vector = vector("tica_alg2");
    let number = |key: &str| vector[key].as_f64().expect("a threshold");
    for window in windows(&vector) {
        let known = Window {
            requests: whole(&window["n"]),
            dram_hits: whole(&window["dram"]),
            evicted_hits: whole(&window["eq"]),
            ..Window::default()
        };
        for (reading, key) in [(Reading::Text, "text"), (Reading::Printed, "printed")] {
            let identifier = Identifier { reading, t_min: number("tmin"), t_max: number("tmax") };
            assert_eq!(policy_name(identifier.policy(&known)), window[key], "{window} {key}");
        }
    }
}

fn policy_name(policy: Policy) -> &'static str {
    match policy {
        Policy::EnduranceFriendly => "EF",
        Policy::WriteToEnduranceDisk => "WED",
    }
}

#[test]
fn the_state_machine_goes_as_worked_out() {
    let vector = vector("tica_smbi");
    let number = |key: &str| vector[key].as_f64().expect("a threshold");
    let steps = whole(&vector["steps"]) as u32;
    let mut machine = StateMachine::new(Reading::Text, number("thdd"), number("tread"), steps);
    for window in windows(&vector) {
        machine.step(&Window {
            requests: whole(&window["n"]),
            disk_reads: whole(&window["disk_reads"]),
            read_hits: whole(&window["read_hits"]),
            ..Window::default()
        });
        let state = match machine.state() {
            SmbiState::Initial => "initial",
            SmbiState::Wed => "WED",
            SmbiState::Wait => "wait",
        };
        assert_eq!(state, window["state"], "{window}");
        assert_eq!(policy_name(machine.policy()), window["policy"], "{window}");
    }
}

fn levels(dram: u32, ssd: u32) -> Quota {
    Quota::new(dram, ssd).with(Level::ReadSsd, ssd)
}

/// Line 13 as it is printed, where the text asks for hits, too: many reads of the disk alone begin WED, which goes on when
/// hits come of it, and waits otherwise.
#[test]
fn the_printed_state_machine_copies_to_see_whether_it_helps() {
    let window = |read_hits| Window { requests: 100, disk_reads: 90, read_hits, ..Window::default() };
    for (reading, begins) in [(Reading::Text, SmbiState::Initial), (Reading::Printed, SmbiState::Wed)] {
        let mut machine = StateMachine::new(reading, 0.2, 0.2, 3);
        machine.step(&window(10));
        assert_eq!(machine.state(), begins);
    }
    let states = |hits_of_copying: u64| {
        let mut machine = StateMachine::new(Reading::Printed, 0.2, 0.2, 2);
        let mut states = Vec::new();
        for _ in 0..6 {
            let copied = machine.state() == SmbiState::Wed;
            machine.step(&window(if copied { hits_of_copying } else { 10 }));
            states.push(machine.state());
        }
        states
    };
    assert_eq!(states(30), [SmbiState::Wed; 6]);
    use SmbiState::{Initial, Wait, Wed};
    assert_eq!(states(10), [Wed, Wait, Wait, Initial, Wed, Wait]);
}

/// Section 4, Fig. 5: two writes reach both SSDs, each once.
#[test]
fn each_write_reaches_both_ssds() {
    let quota = levels(8, 16);
    let mut driver = Driver::new(&settings("tica-ef", &[]), quota, quota);
    for block in [1, 2] {
        driver.step(Step::Write(block, false));
        assert_eq!(driver.step(Step::EndRequest).len(), 2, "a copy to the read SSD, and DRAM is free");
    }
    assert_eq!(driver.counters.cwf(), Some(2.0));
    // A rewrite before its copy was begun needs one copy only.
    for _ in 0..3 {
        driver.step(Step::Write(3, false));
    }
    driver.step(Step::EndRequest);
    assert_eq!((driver.counters.ssd_writes.total(), driver.counters.read_ssd_writes), (5, 3));
}

/// A request of more blocks than the write partition has makes it grow, and reads shrink it again.
#[test]
fn a_burst_of_writes_takes_room_from_reads_and_gives_it_back() {
    let quota = levels(32, 100);
    let mut driver = Driver::new(&settings("tica-ef", &[]), quota, quota);
    (0..24).for_each(|block| drop(driver.step(Step::Read(block))));
    let evicted: Vec<usize> =
        (100..116).map(|block| driver.step(Step::Write(block, false)).len() - 2).collect();
    // 8 blocks by default, a unit of 1: one block of reads leaves at a time.
    assert_eq!(evicted, [[0; 8], [1; 8]].concat());
    assert_eq!((driver.residents(Level::Dram).len(), driver.counters.read_ssd_writes), (32, 0));
    let observed = driver.step(Step::Read(50));
    let copied = Observed::Mirror { block: 100, from: Level::Dram };
    let left = Observed::Evict { level: Level::Dram, block: 100, dirty: false };
    assert_eq!(observed, [Observed::ReadBacking, copied, left, Observed::Fill(Level::Dram)]);
}

/// Reads of more blocks than DRAM has, fewer than the SSD: EF reads all from the disk, WED finds them on the SSD, and
/// the adaptive scheme comes to that by itself, however much larger than DRAM they are.
#[test]
fn too_small_a_dram_is_recognised() {
    too_small_a_dram(140);
    too_small_a_dram(700);
}

fn too_small_a_dram(blocks: u64) {
    let quota = levels(100, 1000);
    let read_hits = |scheme: &str, pairs: &[(&str, &str)]| {
        let mut driver = Driver::new(&settings(scheme, pairs), quota, quota);
        for round in 0..40u64 {
            for block in 0..blocks {
                driver.step(Step::Read(block + (round % 2) * 7));
                driver.step(Step::EndRequest);
            }
        }
        assert_eq!(driver.counters.read_ssd_writes, 0);
        driver.counters.read_hits[Level::Ssd.index()]
    };
    assert_eq!(read_hits("tica-ef", &[]), 0);
    let wed = read_hits("tica-wed", &[]);
    assert!(wed > blocks * 17, "{wed}");
    let adaptive = read_hits("tica-adaptive", &[]);
    assert!(adaptive > wed * 9 / 10, "{adaptive} of {wed}");
    // The evicted queue is what it knows it by, when that is long enough.
    let found = read_hits("tica-adaptive", &[("evicted_percent", "10")]);
    assert_eq!(found > 0, blocks < 200, "{found} with as many as DRAM has");
    assert_eq!(read_hits("tica-adaptive", &[("evicted_percent", "0")]), 0);
}

/// Blocks that were written long ago keep the SSDs from what is read now: the state machine copies for a while.
#[test]
fn cold_blocks_do_not_stay_for_ever() {
    let quota = levels(100, 1000);
    let run = |scheme: &str| {
        // The identifier never asks for WED; only the state machine can.
        let pairs: &[_] =
            if scheme == "tica-adaptive" { &[("t_min", "1"), ("sample_size", "500")] } else { &[] };
        let mut driver = Driver::new(&settings(scheme, pairs), quota, quota);
        for block in 0..1000 {
            driver.step(Step::Write(block, false));
            driver.step(Step::EndRequest);
        }
        // A hot set that DRAM holds, and a larger one that it does not.
        for at in 0..40_000u64 {
            let block = if at % 2 == 0 { 5_000 + at % 40 } else { 6_000 + at / 2 % 300 };
            driver.step(Step::Read(block));
            driver.step(Step::EndRequest);
        }
        driver.counters.read_misses
    };
    let (ef, adaptive) = (run("tica-ef"), run("tica-adaptive"));
    assert!(adaptive < ef / 3, "{adaptive} of {ef}");
}

#[test]
fn a_run_without_the_read_ssd_is_refused() {
    for scheme in SCHEMES {
        let info = SchemeInfo::find(scheme).unwrap();
        assert_eq!(info.check_needs(levels(8, 8)), Ok(()));
        let error = info.check_needs(Quota::new(8, 8)).unwrap_err().to_string();
        assert_eq!(error, format!("Scheme '{scheme}' needs the read-ssd level; give it --read-ssd SIZE"));
        assert!(info.check_needs(levels(0, 8)).unwrap_err().to_string().contains("--dram"));
        let too_small = Quota::new(1, 8).with(Level::ReadSsd, 8);
        let error = info.check_needs(too_small).unwrap_err().to_string();
        assert!(error.contains("needs 2 blocks or more of the dram level"), "{error}");
        let smallest = Quota::new(2, 1).with(Level::ReadSsd, 1);
        assert_eq!(info.check_needs(smallest), Ok(()));
        // With these it keeps a write, on both SSDs in the end.
        let mut driver = Driver::new(&info.settings(), smallest, smallest);
        driver.step(Step::Write(7, false));
        assert_eq!(driver.counters.ssd_writes.write, 1);
    }
    let lru = SchemeInfo::find("lru").unwrap();
    assert_eq!(lru.check_needs(Quota::default()), Ok(()));
    let error = lru.check_levels(levels(0, 8)).unwrap_err().to_string();
    assert!(error.contains("does not use the read-ssd level"), "{error}");
}

#[test]
fn restoring_twice_or_beyond_the_share_is_refused() {
    for scheme in SCHEMES {
        let settings = settings(scheme, &[]);
        let quota = levels(4, 2);
        let mut scheme = build(&settings, quota, quota);
        assert!(scheme.restore(7, true).is_some());
        assert!(scheme.restore(7, false).is_none());
        assert!(scheme.restore(8, false).is_some());
        assert!(scheme.restore(9, false).is_none());
        scheme.resize(Quota::default(), &mut NullSink);
        assert!(scheme.restore(7, false).is_none());
        // Without a read SSD nothing dirty is taken over.
        scheme.resize(Quota::new(4, 2), &mut NullSink);
        assert!(scheme.restore(7, true).is_none() && scheme.restore(7, false).is_some());
    }
}
