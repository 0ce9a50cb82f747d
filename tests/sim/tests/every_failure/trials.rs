//! An operation that is tried with one failure after the other. It must not know which operations there are.

use std::time::Instant;

use lode_sim::{Access, HangEnd, World};

use super::{ACCESSES, Device, MOST_SECONDS, Operation, check_guest, disk, end_failures};

/// Says what was tried where it fails.
struct Tried<'a>(&'a str, bool);

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}, then {}", self.0, if self.1 { "a power cut" } else { "a kill" });
        }
    }
}

/// What an operation meets: something of a device, or the end of the power.
struct Trouble<'a, A, H> {
    what: &'a str,
    of: Option<Device>,
    /// What a world is armed with.
    arm: A,
    has_happened: H,
}

/// An operation comes to its trouble, and the host goes down. Says whether there was one.
fn run_once<A: FnOnce(&mut World), H: FnOnce(&mut World) -> bool>(
    operation: &Operation,
    trouble: Trouble<A, H>,
    power_cut: bool,
) -> bool {
    let Trouble { what, of, arm, has_happened } = trouble;
    let _tried = Tried(what, power_cut);
    let mut site = (operation.prepare)();
    site.failing = of;
    arm(&mut site.world);
    let done = (operation.run)(&mut site);
    let happened = has_happened(&mut site.world);
    if !happened || of.is_some_and(|device| operation.spare.contains(&device)) {
        assert!(done && !site.guest_failed, "{what}: it succeeds ({done}), and the guest does not notice");
    }
    end_failures(&mut site.world);
    site.go_down(power_cut);
    site.world.devices_come_back();
    (operation.check)(&mut site, done);
    check_guest(&mut site, what);
    happened
}

/// What has been tried so far, and since when.
pub(super) struct Trials {
    began: Instant,
    runs: u64,
}

impl Trials {
    /// Has each of these operations meet each single failure, which are more than so many.
    pub fn of_all(operations: &[Operation], least_runs: u64) {
        let mut trials = Trials { began: Instant::now(), runs: 0 };
        operations.iter().for_each(|operation| trials.operation(operation));
        let (runs, seconds) = (trials.runs, trials.began.elapsed().as_secs_f64());
        println!("{} operations, {runs} runs, {seconds:.0} s", operations.len());
        assert!(runs > least_runs, "{runs}");
    }

    /// Runs `once` with N = 0, 1, 2 and so on, each with a kill and a power cut after it, until what is to happen does not. Gives how
    /// often it did.
    fn each(&mut self, mut once: impl FnMut(u64, bool) -> bool) -> u64 {
        for n in 0.. {
            assert!(self.began.elapsed().as_secs() < MOST_SECONDS, "it takes longer than {MOST_SECONDS} s");
            let happened = [false, true].map(|power_cut| once(n, power_cut));
            self.runs += 2;
            if happened == [false; 2] {
                return n;
            }
        }
        unreachable!("an operation ends");
    }

    /// Has an operation meet each single failure of each of its devices.
    fn operation(&mut self, operation: &Operation) {
        let mut counts = Vec::new();
        for &device in operation.devices {
            for &access in operation.failing {
                let count = self.each(|n, power_cut| {
                    let what = format!("{}: {access:?} {} of {device:?} fails", operation.name, n + 1);
                    let arm = |world: &mut World| disk(world, device).fail_nth = Some((access, n));
                    let has_happened = |world: &mut World| disk(world, device).fail_nth.is_none();
                    let trouble = Trouble { what: &what, of: Some(device), arm, has_happened };
                    run_once(operation, trouble, power_cut)
                });
                counts.push(format!("{count} {access:?} of {device:?}"));
            }
            if operation.is_offline || operation.failing == [Access::Read] {
                // Where many places are read at once, one that fails is read once more by itself.
                let count = self.each(|n, power_cut| {
                    let what =
                        format!("{}: what read {} of {device:?} asks for fails twice", operation.name, n + 1);
                    let arm = |world: &mut World| {
                        let disk = disk(world, device);
                        (disk.fail_read_after, disk.unreadable_times) = (Some(n), 2);
                    };
                    let has_happened = |world: &mut World| disk(world, device).fail_read_after.is_none();
                    let trouble = Trouble { what: &what, of: Some(device), arm, has_happened };
                    run_once(operation, trouble, power_cut)
                });
                counts.push(format!("{count} places of {device:?}"));
            }
            if operation.is_offline {
                let count = self.each(|n, power_cut| {
                    let what = format!("{}: {device:?} does not answer command {}", operation.name, n + 1);
                    let arm = |world: &mut World| disk(world, device).hang_at_command(n, HangEnd::Late, n);
                    let trouble =
                        Trouble { what: &what, of: Some(device), arm, has_happened: World::end_start_hang };
                    run_once(operation, trouble, power_cut)
                });
                counts.push(format!("{count} commands of {device:?}"));
            }
            if operation.failing != ACCESSES {
                continue;
            }
            // What is done before volumes are served has no steps: the power fails after so many writes and flushes.
            let count = self.each(|n, power_cut| {
                let what =
                    format!("{}: all fails after {n} writes and flushes of {device:?}", operation.name);
                let arm = |world: &mut World| disk(world, device).fail_after = Some(n);
                let has_happened = |world: &mut World| disk(world, device).fail_after == Some(0);
                let trouble = Trouble { what: &what, of: Some(device), arm, has_happened };
                run_once(operation, trouble, power_cut)
            });
            counts.push(format!("{count} ends of {device:?}"));
        }
        let steps = self.each(|n, power_cut| {
            let what = format!("{}: all ends after {n} steps", operation.name);
            let mut last = 0;
            let arm = |world: &mut World| {
                last = world.steps() + n;
                world.power_fails_at = Some(last);
            };
            let has_happened = |world: &mut World| world.power_fails_at.is_some_and(|at| world.steps() >= at);
            run_once(operation, Trouble { what: &what, of: None, arm, has_happened }, power_cut)
        });
        println!("{}: {}, {steps} steps", operation.name, counts.join(", "));
    }
}
