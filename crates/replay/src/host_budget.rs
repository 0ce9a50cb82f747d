//! The budget of SSD writes that all VMs of a replay hold to together, as those of a host do. It must not know how it is divided, or how
//! a scheme holds to its part.

use lode_policy::Scheme;
use lode_policy::host::{WriteGovernor, WriteUse};

use crate::tally::Tally;

/// All VMs count alike.
const WEIGHT: f64 = 1.0;

/// What may be written in a day, and what is known of who writes.
#[derive(Debug)]
pub(crate) struct HostBudget {
    blocks_per_day: f64,
    governor: WriteGovernor,
    /// VMs that hold to a part of it.
    known: usize,
}

impl HostBudget {
    pub(crate) fn new(blocks_per_day: f64) -> HostBudget {
        HostBudget { blocks_per_day, governor: WriteGovernor::default(), known: 0 }
    }

    /// VMs came, of which nothing is known yet.
    pub(crate) fn admit<T: Scheme>(&mut self, vms: &mut [(T, Tally)]) {
        self.note(self.known, None, vms);
        self.known = vms.len();
        self.divide(vms);
    }

    /// Looks at what was written in the last `passed_ns`.
    pub(crate) fn look<T: Scheme>(&mut self, passed_ns: u64, vms: &mut [(T, Tally)]) {
        self.note(0, Some(passed_ns), vms);
        self.divide(vms);
    }

    /// Notes what VMs from this one on have written.
    fn note<T: Scheme>(&mut self, first: usize, passed_ns: Option<u64>, vms: &mut [(T, Tally)]) {
        for (number, (scheme, tally)) in vms.iter_mut().enumerate().skip(first) {
            let wanted = scheme.budgeting().map(|budgeting| budgeting.wanted_blocks());
            let used = WriteUse {
                holds: wanted.is_some(),
                wanted_blocks: wanted.unwrap_or(0),
                written_blocks: tally.counters().ssd_writes.total(),
            };
            self.governor.note(number, used, passed_ns);
        }
    }

    fn divide<T: Scheme>(&self, vms: &mut [(T, Tally)]) {
        let division = self.governor.divide(self.blocks_per_day, (0..vms.len()).map(|vm| (vm, WEIGHT)));
        for ((scheme, _), budget) in vms.iter_mut().zip(division.budgets) {
            if let Some(budgeting) = scheme.budgeting() {
                budgeting.set_host_budget(budget);
            }
        }
    }
}
