//! The budget of SSD writes that all VMs of a replay hold to together, as those of a host do. It must not know how it is divided, or how
//! a scheme holds to its part.

use lode_policy::host::{WriteGovernor, WriteUse};
use lode_policy::{Counters, Scheme};

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
    pub(crate) fn admit<'a, T: Scheme + 'a>(&mut self, vms: impl Iterator<Item = (&'a mut T, Counters)>) {
        let mut vms: Vec<(&mut T, Counters)> = vms.collect();
        for (number, (scheme, counters)) in vms.iter_mut().enumerate().skip(self.known) {
            self.governor.note(number, written(*scheme, counters), None);
        }
        self.known = vms.len();
        self.divide(&mut vms);
    }

    /// Looks at what was written in the last `passed_ns`.
    pub(crate) fn look<'a, T: Scheme + 'a>(
        &mut self,
        passed_ns: u64,
        vms: impl Iterator<Item = (&'a mut T, Counters)>,
    ) {
        let mut vms: Vec<(&mut T, Counters)> = vms.collect();
        for (number, (scheme, counters)) in vms.iter_mut().enumerate() {
            self.governor.note(number, written(*scheme, counters), Some(passed_ns));
        }
        self.divide(&mut vms);
    }

    fn divide<T: Scheme>(&self, vms: &mut [(&mut T, Counters)]) {
        let budgets =
            self.governor.divide(self.blocks_per_day, (0..vms.len()).map(|vm| (vm, WEIGHT))).budgets;
        for ((scheme, _), budget) in vms.iter_mut().zip(budgets) {
            if let Some(budgeting) = scheme.budgeting() {
                budgeting.set_host_budget(budget);
            }
        }
    }
}

fn written<T: Scheme>(scheme: &mut T, counters: &Counters) -> WriteUse {
    let wanted = scheme.budgeting().map(|budgeting| budgeting.wanted_blocks());
    WriteUse {
        holds: wanted.is_some(),
        wanted_blocks: wanted.unwrap_or(0),
        written_blocks: counters.ssd_writes.total(),
    }
}
