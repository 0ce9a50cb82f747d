//! What is written to the SSD, and how much may be. It must not know who allows it.

use lode_policy::{Scheme, WriteBudget};

use crate::engine::Engine;

/// What was written to the SSD since the engine began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SsdWriteUse {
    /// The scheme holds to budgets.
    pub holds: bool,
    /// Blocks that the scheme found worth a write without a budget, since it began; it may begin anew.
    pub wanted_blocks: u64,
    /// Blocks that were decided to be written.
    pub written_blocks: u64,
    /// Bytes that the SSD took, journal and tables included.
    pub device_bytes: u64,
}

impl Engine {
    /// Has the scheme hold to a budget of writes to the SSD, as far as it can, and any that follows it. What guests were promised
    /// never waits for it: what a budget denies a place goes to the backing disk. Not held back are writes that are no decision of
    /// a scheme: the journal and its tables, blocks that are moved between extents or repaired.
    pub fn set_host_budget(&mut self, budget: WriteBudget) {
        self.config.host_budget = budget;
        if let Some(budgeting) = self.front.scheme.budgeting() {
            budgeting.set_host_budget(budget);
        }
    }

    /// What was written to the SSD.
    pub fn ssd_write_use(&mut self) -> SsdWriteUse {
        let gauges = self.gauges();
        let written_blocks = self.counters().ssd_writes.total();
        let wanted = self.front.scheme.budgeting().map(|budgeting| budgeting.wanted_blocks());
        SsdWriteUse {
            holds: wanted.is_some(),
            wanted_blocks: wanted.unwrap_or(0),
            written_blocks,
            device_bytes: gauges.ssd_data_bytes + gauges.ssd_metadata_bytes,
        }
    }
}
