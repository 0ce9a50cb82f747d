//! Schemes that change while volumes are served: what a volume holds stays, dirty or clean, and guests see nothing of it
//! (guarantees 1, 2, 4, 6, 7 and 10 of `docs/design.md`).

use lode_engine::Engine;
use lode_policy::{Counters, Quota, SchemeInfo, Settings};
use lode_sim::scenario::{BLOCK, flush, machine, plan, read, reissuing, run_neighbours, tica, write};
use lode_sim::{Crash, Faults, Machine, Plan, RunCounts, World};

/// Two volumes on one SSD whose schemes change all the time, each scheme first in turn.
fn run_all(change: impl Fn(Plan) -> Plan) -> RunCounts {
    let plan_of =
        |machine, seed| change(Plan { scheme_switches: 3, requests: 400, ..plan(vec![machine], seed) });
    let sum = run_neighbours(2, 7 << 20, plan_of);
    assert!(sum.switches > 500 && sum.write_backs > 500, "{sum:?}");
    sum
}

#[test]
fn g1_g6_schemes_that_change_between_stops() {
    let tally = run_all(|plan| Plan { crash: Crash::Stop, ..plan });
    assert!(tally.failed_writes == 0, "{tally:?}");
}

#[test]
fn g2_power_cuts_while_schemes_change() {
    let tally = run_all(|plan| Plan { crash: Crash::Power, failed_starts: 2, ..plan });
    assert!(tally.failed_writes == 0, "{tally:?}");
}

#[test]
fn g10_kills_while_schemes_and_shares_change() {
    let tally = run_all(|plan| Plan { crash: Crash::Kill, failed_starts: 2, share_changes: 1, ..plan });
    assert!(tally.failed_writes == 0, "{tally:?}");
}

#[test]
fn g7_devices_that_fail_while_schemes_change() {
    let faults = Faults {
        ssd_write_errors: 2,
        ssd_read_errors: 2,
        ssd_metadata_errors: 1,
        ssd_flush_errors: 1,
        backing_write_errors: 3,
        read_ssd_write_errors: 2,
        ..Faults::default()
    };
    let tally = run_all(|plan| Plan { faults, crash: Crash::Any, ..plan });
    assert!(tally.failed_writes > 100, "{tally:?}");
}

#[test]
fn g1_drains_while_schemes_change() {
    run_all(|plan| Plan { drains: 3, ends_drained: true, crash: Crash::Any, ..plan });
}

fn settings(scheme: &str, pairs: &[&str]) -> Settings {
    let mut settings = SchemeInfo::find(scheme).unwrap().settings();
    pairs.iter().for_each(|pair| settings.set_pair(pair).unwrap());
    settings
}

/// A machine whose blocks do not crowd one set.
fn wide(scheme: &str, pairs: &[&str]) -> Machine {
    machine(scheme, pairs, Quota::new(0, 60))
}

/// Writes blocks with names of their own, so many.
fn write_blocks(world: &mut World, blocks: u8) {
    (0..blocks).for_each(|at| write(world, u64::from(at) * BLOCK, BLOCK, at + 1).unwrap());
}

fn check_blocks(world: &mut World, blocks: u8) {
    for at in 0..blocks {
        let found = read(world, u64::from(at) * BLOCK, BLOCK).unwrap();
        assert_eq!(found, lode_sim::scenario::pattern(at + 1, BLOCK as usize), "block {at}");
    }
}

fn read_hits(engine: &Engine) -> u64 {
    let counters: &Counters = engine.counters();
    counters.read_hits.iter().sum()
}

#[test]
fn g6_dirty_and_clean_blocks_stay_where_they_are() {
    const BLOCKS: u8 = 40;
    let mut world = World::new(wide("lru", &["write_policy=wb"]), 1).unwrap();
    write_blocks(&mut world, BLOCKS);
    assert_eq!(world.engine().gauges().dirty_blocks, u32::from(BLOCKS));
    for (scheme, pairs) in
        [("arc", &["write_policy=wb"][..]), ("sieve", &["write_policy=wb"]), ("flashcache", &[])]
    {
        let quota = world.engine().share();
        assert!(world.switch_scheme(&settings(scheme, pairs)));
        assert!(!world.engine().is_switching());
        let gauges = world.engine().gauges();
        assert_eq!(
            (gauges.ssd_blocks, gauges.dirty_blocks),
            (u32::from(BLOCKS), u32::from(BLOCKS)),
            "{scheme}"
        );
        assert_eq!(world.engine().share(), quota, "{scheme}");
        let before = read_hits(world.engine());
        check_blocks(&mut world, BLOCKS);
        assert_eq!(
            read_hits(world.engine()) - before,
            u64::from(BLOCKS),
            "all of them are hits under {scheme}"
        );
    }
    assert_eq!(world.engine().gauges().scheme_switches, 3);
    flush(&mut world).unwrap();
    world.go_down(true);
    world.restart(wide("lru", &["write_policy=wb"])).unwrap();
    check_blocks(&mut world, BLOCKS);
}

#[test]
fn g1_a_scheme_that_keeps_nothing_dirty_has_all_of_it_written_back() {
    const BLOCKS: u8 = 40;
    let mut world = World::new(wide("lru", &["write_policy=wb"]), 1).unwrap();
    write_blocks(&mut world, BLOCKS);
    assert!(world.switch_scheme(&settings("lru", &["write_policy=wt"])));
    check_blocks(&mut world, BLOCKS);
    world.settle();
    let gauges = world.engine().gauges();
    assert_eq!((gauges.dirty_blocks, gauges.write_backs_waiting), (0, 0));
    for at in 0..BLOCKS {
        let mut bytes = vec![0; BLOCK as usize];
        world.backing.peek(u64::from(at) * BLOCK, &mut bytes);
        assert_eq!(bytes, lode_sim::scenario::pattern(at + 1, BLOCK as usize), "block {at} on the disk");
    }
}

#[test]
fn g9_a_scheme_without_mirrors_keeps_what_was_mirrored_and_one_with_them_mirrors_it_again() {
    const BLOCKS: u8 = 20;
    let mut world = World::new(tica("tica-ef"), 1).unwrap();
    write_blocks(&mut world, BLOCKS);
    world.settle();
    assert!(world.switch_scheme(&settings("lru", &["write_policy=wb"])));
    assert_eq!(world.engine().gauges().dirty_blocks, u32::from(BLOCKS));
    check_blocks(&mut world, BLOCKS);
    assert!(world.switch_scheme(&tica("tica-wed").settings));
    let unmirrored = world.engine().gauges().unmirrored_blocks;
    assert!(unmirrored > 0, "from a switch on they are on one device, as after a start");
    check_blocks(&mut world, BLOCKS);
    world.settle();
    assert_eq!(world.engine().gauges().unmirrored_blocks, 0);
}

#[test]
fn g2_a_switch_waits_for_writes_that_may_be_issued_again() {
    let mut world = World::new(reissuing(), 7).unwrap();
    let op = lode_engine::GuestOp::write(0, lode_engine::Buf::copy_of(&[5; BLOCK as usize]), false);
    world.submit(lode_engine::GuestRequest { token: 9, op, now_ns: 0 });
    assert!(world.switch_scheme(&settings("lru", &["write_policy=wb"])));
    assert!(world.engine().is_switching(), "the write is on its way to the disk");
    while world.step() {}
    assert!(!world.engine().is_switching());
    assert_eq!(world.take_events().len(), 1);
    write_blocks(&mut world, 3);
    assert_eq!(world.engine().gauges().dirty_blocks, 3);
}

#[test]
fn g7_after_a_failure_nothing_is_switched() {
    let mut world = World::new(wide("lru", &["write_policy=wb"]), 1).unwrap();
    write_blocks(&mut world, 3);
    world.faults = Faults { ssd_flush_errors: 100, ..Faults::default() };
    assert!(flush(&mut world).is_err());
    assert!(!world.switch_scheme(&settings("arc", &["write_policy=wb"])));
    assert_eq!(world.engine().gauges().scheme_switches, 0);
    check_blocks(&mut world, 3);
}
