//! Guarantees 1 to 4, 6 and 8 of `docs/design.md` under random guests and crashes.

use lode_engine::{GuestOp, GuestRequest};
use lode_policy::Quota;
use lode_sim::scenario::{
    BLOCK, all_schemes, damage, first_seeds, flush, machine, pattern, plan, read, run_each, seeds, write,
};
use lode_sim::{Crash, Machine, Plan, RunCounts, World, run};

fn run_all(crash: Crash, depth: usize) -> RunCounts {
    run_machines(all_schemes(), crash, depth)
}

fn run_machines(machines: Vec<(&'static str, Machine)>, crash: Crash, depth: usize) -> RunCounts {
    let plan_of = |machine, seed| Plan { depth, crash, ..plan(vec![machine], seed) };
    let sum = run_each(machines, seeds(), plan_of);
    assert!(sum.read_hits > 1000 && sum.write_backs > 100, "{sum:?}");
    sum
}

#[test]
fn g2_flushed_writes_survive_power_cuts() {
    run_all(Crash::Power, 16);
}

#[test]
fn g10_acknowledged_writes_survive_kills() {
    run_all(Crash::Kill, 16);
}

/// Where nothing outlives the daemon but the SSD.
fn without_memory_for_records() -> Vec<(&'static str, Machine)> {
    let without = |(name, machine)| (name, Machine { kept_records: 0, ..machine });
    all_schemes().into_iter().map(without).collect()
}

#[test]
fn g10_acknowledged_writes_survive_kills_without_memory_for_records() {
    run_machines(without_memory_for_records(), Crash::Kill, 16);
}

/// Where there is memory for fewer records than a flush leaves undone.
#[test]
fn g10_acknowledged_writes_survive_kills_with_little_memory_for_records() {
    for kept_records in [3, 24] {
        let little = |(name, machine)| (name, Machine { kept_records, ..machine });
        run_machines(all_schemes().into_iter().map(little).collect(), Crash::Kill, 16);
    }
}

#[test]
fn g2_flushed_writes_survive_power_cuts_without_memory_for_records() {
    run_machines(without_memory_for_records(), Crash::Power, 16);
}

#[test]
fn g1_one_at_a_time_is_right_too() {
    run_all(Crash::Any, 1);
}

#[test]
fn g6_an_orderly_stop_loses_nothing() {
    run_all(Crash::Stop, 8);
}

/// Guarantee 6: the next run may have another scheme, another share, another number of extents.
#[test]
fn g6_configurations_change_between_lives() {
    let mut machines: Vec<Machine> = all_schemes().into_iter().map(|(_, machine)| machine).collect();
    let mut large = machine("lru", &["write_policy=wb"], Quota::new(0, 300));
    large.config.reserve = Quota::new(0, 40);
    machines.insert(2, large);
    for seed in first_seeds(seeds()) {
        let plan = Plan { rounds: 12, requests: 200, depth: 12, ..plan(machines.clone(), seed) };
        run(&plan).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Guarantee 3: whatever the moment, DRAM holds nothing that the media do not.
#[test]
fn g3_power_cuts_at_every_step() {
    for (name, machine) in all_schemes() {
        for most_steps in 1..seeds() * 8 {
            let plan = Plan {
                rounds: 2,
                crash: Crash::Power,
                most_steps: Some(most_steps),
                ..plan(vec![machine.clone()], 1)
            };
            run(&plan).unwrap_or_else(|error| panic!("{name}, step {most_steps}: {error}"));
        }
    }
}

/// What an earlier run wrote to the backing disk and did not flush may still be lost: a copy that is made of
/// it in the meantime must not outlive it.
#[test]
fn g2_what_a_killed_life_left_unflushed() {
    let writes_around = machine("lru", &["write_policy=ro", "assoc=8"], Quota::new(0, 60));
    let mut outcomes = [0, 0];
    for case in 0..600 {
        let mut world = World::new(writes_around.clone(), case).unwrap();
        write(&mut world, 5 * BLOCK, BLOCK, 1).unwrap();
        flush(&mut world).unwrap();
        write(&mut world, 5 * BLOCK, BLOCK, 2).unwrap();
        world.go_down(false);
        world.restart(writes_around.clone()).unwrap();
        read(&mut world, 5 * BLOCK, BLOCK).unwrap();
        // The copy on the SSD comes about.
        world.step();
        world.submit(GuestRequest { token: 1, op: GuestOp::Flush, now_ns: 0 });
        (0..case % 6).for_each(|_| {
            world.step();
        });
        world.go_down(true);
        world.restart(writes_around.clone()).unwrap();
        let first = read(&mut world, 5 * BLOCK, BLOCK).unwrap();
        flush(&mut world).unwrap();
        world.settle();
        // Without the SSD's copy the disk must say the same.
        damage(&mut world, 2);
        let second = read(&mut world, 5 * BLOCK, BLOCK).unwrap();
        assert!(first == second, "case {case}: the bytes changed by themselves");
        outcomes[usize::from(first == pattern(2, BLOCK as usize))] += 1;
    }
    assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
}
