//! A read that fails in a start, of a device of a volume. It must not know how a start goes.

use lode_store::pair::MEMBERS;
use lode_types::Rng;

use super::World;
use crate::run::Plan;

impl World {
    /// One of the reads of the next start fails, of the cache SSD or, if the plan says so, of another device. Whether what cannot be read
    /// may be lost to the guest; if not, the start may be refused.
    pub(crate) fn fail_read_of_start(&mut self, plan: &Plan, rng: &mut Rng) -> bool {
        if !plan.start_reads_beside {
            plan.fail_read_of_start(&mut self.ssd, rng);
            return true;
        }
        if self.redo.size() > 0 && rng.chance(50) {
            plan.fail_read_of_start(&mut self.redo, rng);
            return false;
        }
        let pairs = self.pairs().count() as u64;
        if pairs == 0 {
            plan.fail_read_of_start(&mut self.ssd, rng);
            return true;
        }
        let (number, member) = (rng.below(pairs) as usize, rng.below(MEMBERS as u64) as usize);
        let (first, pair) = self.each_pair().nth(number).expect("one of the pairs");
        let has_other = pair.found_in_sync(first)[1 - member];
        plan.fail_read_of_start(if member == 0 { first } else { &mut pair.second }, rng);
        !has_other
    }

    /// Reads succeed again. Says whether one failed.
    pub(crate) fn end_read_errors(&mut self) -> bool {
        self.own_devices().into_iter().fold(false, |failed, disk| failed | disk.end_read_errors())
    }
}
