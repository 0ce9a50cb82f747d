//! Holds what a host's VMs write to the SSD to what it may take in a day: looks every so often at what each wrote and wanted to
//! write, and divides. A pure state machine, the same in a replay and in the daemon. It must not know clocks, bytes, or how a
//! scheme holds to its part.

use std::collections::BTreeMap;

use super::budget::{BudgetDivision, Writer, divide_writes};
use crate::interval::NS_PER_DAY;

/// From one division of a budget to the next: often enough that what a VM does not use is soon another one's.
pub const BUDGET_INTERVAL_NS: u64 = 60_000_000_000;
/// How far means follow in that time what they are of, so that they take about ten intervals.
const RATE: f64 = 0.1;

/// What a VM has written to the SSD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteUse {
    /// The scheme holds to budgets.
    pub holds: bool,
    /// Blocks that the scheme found worth a write without a budget, since it began; it may begin anew.
    pub wanted_blocks: u64,
    /// Blocks that were decided to be written.
    pub written_blocks: u64,
}

/// What is known of a VM's writes.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    last: WriteUse,
    /// Blocks a day, on average of some time; none before it was looked at for the second time.
    wanted: Option<f64>,
    written: Option<f64>,
}

/// What is known of all VMs' writes, by number.
#[derive(Clone, Debug, Default)]
pub struct WriteGovernor {
    vms: BTreeMap<usize, Known>,
}

impl WriteGovernor {
    /// Forgets VMs that are not among these.
    pub fn retain(&mut self, is_there: impl Fn(usize) -> bool) {
        self.vms.retain(|&number, _| is_there(number));
    }

    /// Notes what a VM has written so far, `passed_ns` after the last look at all of them, if there was one. Gives the blocks that
    /// it has written since it was looked at last.
    pub fn note(&mut self, number: usize, now: WriteUse, passed_ns: Option<u64>) -> u64 {
        let Some(known) = self.vms.get_mut(&number) else {
            // What it wants will be known the next time.
            self.vms.insert(number, Known { last: now, ..Known::default() });
            return now.written_blocks;
        };
        // A scheme that began anew has wanted nothing before.
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        let written = since(now.written_blocks, known.last.written_blocks);
        let wanted = since(now.wanted_blocks, known.last.wanted_blocks).max(written);
        if let Some(passed_ns) = passed_ns.filter(|&ns| ns > 0) {
            let days = passed_ns as f64 / NS_PER_DAY;
            let follow = |mean: Option<f64>, new: f64| mean.map_or(new, |mean| follow(mean, new, passed_ns));
            known.wanted = Some(follow(known.wanted, wanted as f64 / days));
            known.written = Some(follow(known.written, written as f64 / days));
        }
        known.last = now;
        written
    }

    /// What a VM would write in a day without a budget, in blocks; none where that is not known yet.
    pub fn wanted(&self, number: usize) -> Option<f64> {
        self.vms.get(&number)?.wanted
    }

    /// What is divided by, of a VM of this weight.
    pub fn writer(&self, number: usize, weight: f64) -> Writer {
        let Known { last, wanted, written } = self.vms.get(&number).copied().unwrap_or_default();
        Writer { weight, holds: last.holds, wanted, written: written.unwrap_or(0.0) }
    }

    /// Divides what may be written in a day between VMs of these numbers and weights, in their order.
    pub fn divide(&self, blocks_per_day: f64, vms: impl Iterator<Item = (usize, f64)>) -> BudgetDivision {
        let writers: Vec<Writer> = vms.map(|(number, weight)| self.writer(number, weight)).collect();
        divide_writes(blocks_per_day, &writers)
    }
}

/// A mean of about ten intervals, after `passed_ns` in which what it is of was `new`.
pub fn follow(mean: f64, new: f64, passed_ns: u64) -> f64 {
    let rate = 1.0 - (1.0 - RATE).powf(passed_ns as f64 / BUDGET_INTERVAL_NS as f64);
    mean + (new - mean) * rate
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(blocks: u64) -> WriteUse {
        WriteUse { holds: true, wanted_blocks: blocks, written_blocks: blocks }
    }

    #[test]
    fn what_a_vm_wants_is_known_from_the_second_look_on() {
        let mut governor = WriteGovernor::default();
        assert_eq!(governor.note(0, used(1000), Some(BUDGET_INTERVAL_NS)), 1000);
        assert_eq!(governor.wanted(0), None);
        assert_eq!(governor.note(0, used(1060), Some(BUDGET_INTERVAL_NS)), 60);
        assert_eq!(governor.wanted(0).map(f64::round), Some(86_400.0));
        governor.retain(|number| number != 0);
        assert_eq!(governor.wanted(0), None);
    }

    #[test]
    fn a_look_after_a_moment_says_little() {
        let mut governor = WriteGovernor::default();
        governor.note(0, used(0), None);
        governor.note(0, used(60), Some(BUDGET_INTERVAL_NS));
        // A hundred blocks in five milliseconds, as after a reload.
        governor.note(0, used(160), Some(5_000_000));
        let after = governor.wanted(0).unwrap();
        assert!(after < 3.0 * 86_400.0, "{after} blocks a day");
        assert!(
            (follow(0.0, 1.0, BUDGET_INTERVAL_NS) - RATE).abs() < 1e-12
                && follow(0.0, 1.0, 10 * BUDGET_INTERVAL_NS) < 1.0
        );
    }

    #[test]
    fn a_scheme_that_began_anew_has_written_what_it_says() {
        let mut governor = WriteGovernor::default();
        governor.note(0, used(1000), None);
        assert_eq!(governor.note(0, used(60), Some(BUDGET_INTERVAL_NS)), 60);
        assert_eq!(governor.writer(0, 2.0).written.round(), 86_400.0);
    }
}
