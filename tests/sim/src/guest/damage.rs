//! What damage on the SSD may do to what a guest reads after a crash. It must not know how blocks are damaged.

use super::Guest;
use crate::disk::SimDisk;
use crate::durable::{Known, Lost};
use crate::model::SECTOR;
use crate::run::{Crash, Plan};

impl Guest {
    /// What damage cannot hide from the next start. Where the power fails later, less may be durable than seems so.
    pub(crate) fn known_durable(plan: &Plan, crash: Crash, then_power: bool, ssd: &mut SimDisk) -> Known {
        // The other one of a pair has what was damaged.
        let is_pair = plan.machines[0].config.ssd_is_pair;
        match crash {
            _ if is_pair || !plan.is_damaged() => Known::All,
            Crash::Stop => Known::All,
            _ if then_power => Known::Nothing,
            _ => Known::of(ssd),
        }
    }

    /// The blocks of these, of this volume, may look as if they had not been written last.
    pub(crate) fn doubt<'a>(&mut self, lost: impl Iterator<Item = &'a Lost>, block_bytes: u64) {
        let sectors_per_block = block_bytes as usize / SECTOR;
        for (_, sector) in lost.filter_map(Lost::named).filter(|&(volume, _)| volume == self.volume) {
            let first = sector - sector % sectors_per_block;
            let end = (first + sectors_per_block).min(self.model.sectors());
            self.model.may_be_older(first..end);
            self.tally.doubtful += 1;
        }
    }
}
