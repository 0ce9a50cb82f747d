//! What a volume writes to the SSD, and may. It must not know who allows it.

use lode_engine::SsdWriteUse;
use lode_policy::WriteBudget;

use super::Volume;

impl Volume {
    /// What it has written.
    pub(crate) fn ssd_write_use(&mut self) -> SsdWriteUse {
        self.engine.ssd_write_use()
    }

    /// What it may write from now on, as far as its scheme can hold to that.
    pub(crate) fn set_host_budget(&mut self, budget: WriteBudget) {
        self.engine.set_host_budget(budget);
    }
}
