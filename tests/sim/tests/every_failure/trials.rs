//! An operation that is tried with one failure after the other. It must not know which operations there are.

use std::time::Instant;

use lode_sim::{Access, World};

use super::{MOST_SECONDS, Operation, check_guest, disk};

/// Says what was tried where it fails.
struct Tried<'a>(&'a str, bool);

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}, then {}", self.0, if self.1 { "a power cut" } else { "a kill" });
        }
    }
}

/// An operation comes to its N-th trouble, with which the world is `armed`, and the host goes down. Says whether there was one.
fn run_once(
    operation: &Operation,
    what: &str,
    power_cut: bool,
    arm: impl FnOnce(&mut World),
    has_happened: impl FnOnce(&mut World) -> bool,
) -> bool {
    let _tried = Tried(what, power_cut);
    let mut site = (operation.prepare)();
    arm(&mut site.world);
    let done = (operation.run)(&mut site);
    let happened = has_happened(&mut site.world);
    for &device in operation.devices {
        let disk = disk(&mut site.world, device);
        (disk.fail_nth, disk.fail_after) = (None, None);
    }
    site.world.go_down(power_cut);
    (operation.check)(&mut site, done);
    check_guest(&mut site, what);
    happened
}

/// What has been tried so far, and since when.
pub(super) struct Trials {
    pub began: Instant,
    pub runs: u64,
}

impl Trials {
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
    pub fn operation(&mut self, operation: &Operation) {
        let mut counts = Vec::new();
        for &device in operation.devices {
            for access in [Access::Read, Access::Write, Access::Flush] {
                let count = self.each(|n, power_cut| {
                    let what = format!("{}: {access:?} {} of {device:?} fails", operation.name, n + 1);
                    let arm = |world: &mut World| disk(world, device).fail_nth = Some((access, n));
                    let has_happened = |world: &mut World| disk(world, device).fail_nth.is_none();
                    run_once(operation, &what, power_cut, arm, has_happened)
                });
                counts.push(format!("{count} {access:?} of {device:?}"));
            }
            // What is done before volumes are served has no steps: the power fails after so many writes and flushes.
            let count = self.each(|n, power_cut| {
                let what =
                    format!("{}: all fails after {n} writes and flushes of {device:?}", operation.name);
                let arm = |world: &mut World| disk(world, device).fail_after = Some(n);
                let has_happened = |world: &mut World| disk(world, device).fail_after == Some(0);
                run_once(operation, &what, power_cut, arm, has_happened)
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
            run_once(operation, &what, power_cut, arm, |world| {
                world.power_fails_at.is_some_and(|at| world.steps() >= at)
            })
        });
        println!("{}: {}, {steps} steps", operation.name, counts.join(", "));
    }
}
