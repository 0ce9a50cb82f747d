//! Guarantees 2 and 5 of `docs/design.md` when reads fail during a start: an error is not an absence.

use lode_engine::{GuestError, GuestOp, GuestRequest};
use lode_policy::Quota;
use lode_sim::scenario::{
    BLOCK, all_schemes, first_seeds, flush, machine, pattern, plan, read, seeds, write,
};
use lode_sim::{Crash, Machine, Plan, Tally, World, run};

fn run_all(crash: Crash) -> Tally {
    let mut sum = Tally::default();
    for (name, machine) in all_schemes() {
        for seed in first_seeds(seeds()) {
            let plan = Plan { crash, start_read_errors: 80, ..plan(vec![machine.clone()], seed) };
            let tally = run(&plan).unwrap_or_else(|error| panic!("{name}: {error}"));
            sum.start_read_errors += tally.start_read_errors;
            sum.unreadable += tally.unreadable;
        }
    }
    println!("{sum:?}");
    assert!(sum.start_read_errors > 100, "{sum:?}");
    sum
}

#[test]
fn g5_reads_fail_during_starts_after_power_cuts() {
    run_all(Crash::Power);
}

#[test]
fn g5_reads_fail_during_starts_after_kills() {
    let tally = run_all(Crash::Kill);
    assert_eq!(tally.unreadable, 0, "what a kill left is known, and an error of the moment hides nothing");
}

/// A write with FUA is durable before the journal says so. Whatever read of the next start fails, its bytes or an error
/// come back, in that life and in later ones.
#[test]
fn g5_a_read_error_during_a_start_never_brings_older_bytes_back() {
    let mut outcomes = [0, 0, 0];
    for kept_records in [0, 1024] {
        let lru = machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 60));
        let machine = Machine { kept_records, ..lru };
        for failing_read in 0..MOST_READS {
            let mut world = World::new(machine.clone(), 1).unwrap();
            write(&mut world, 5 * BLOCK, BLOCK, 1).unwrap();
            flush(&mut world).unwrap();
            world.settle();
            write_durably(&mut world, 2);
            world.go_down(true);
            world.ssd.fail_read_after = Some(failing_read);
            let started = world.restart(machine.clone());
            world.ssd.fail_read_after = None;
            outcomes[0] += u32::from(started.is_err());
            for _later_life in 0..2 {
                if world.engine().alarms().unreadable_at_start > 0 {
                    outcomes[1] += 1;
                }
                world.go_down(true);
                world.restart(machine.clone()).unwrap();
                match read(&mut world, 5 * BLOCK, BLOCK) {
                    Ok(bytes) => {
                        assert!(bytes == pattern(2, BLOCK as usize), "read {failing_read}: older bytes")
                    }
                    Err(error) => assert_eq!(error, GuestError::Io),
                }
                flush(&mut world).unwrap();
            }
            outcomes[2] += 1;
        }
    }
    println!("{outcomes:?}");
    assert!(outcomes[0] > 0, "some starts are refused: {outcomes:?}");
}

const MOST_READS: u64 = 90;

fn write_durably(world: &mut World, name: u8) {
    let buf = lode_engine::Buf::copy_of(&pattern(name, BLOCK as usize));
    let op = GuestOp::Write { offset_bytes: 5 * BLOCK, buf, fua: true };
    let event = world.serve(GuestRequest { token: 7, op, last: true, now_ns: 0 }).unwrap();
    event.result.unwrap();
}
