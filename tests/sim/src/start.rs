//! What may go wrong in the starts of a plan's host, on the SSD that they open first. It must not know what a start does.

use lode_types::Rng;

use crate::disk::SimDisk;
use crate::run::Plan;
use crate::world::World;

/// Reads of a start of which one may fail.
const MOST_READS_OF_A_START: u64 = 60;

impl Plan {
    /// Before the first start.
    pub(crate) fn prepare_starts(&self, ssd: &mut SimDisk) {
        // Of its own numbers, so that seeds are otherwise what they were.
        ssd.at_once = self.starts_at_once.then(|| Rng::new(self.seed.rotate_left(36) ^ 0xa70c));
    }

    /// Before a volume is served, with numbers of its own, so that seeds are otherwise what they were.
    pub(crate) fn prepare_world(&self, world: &mut World) {
        if self.takes_over_in_steps {
            world.take_over_in_steps(self.seed.rotate_left(28) ^ 0x57e9);
        }
        if self.slow_commands {
            world.slow_some_commands(self.seed.rotate_left(44) ^ 0x510e);
        }
    }

    /// One of the next reads fails.
    pub(crate) fn fail_read_of_start(&self, ssd: &mut SimDisk, rng: &mut Rng) {
        ssd.fail_read_after = Some(rng.below(MOST_READS_OF_A_START));
        if self.start_read_tries > 0 {
            ssd.unreadable_times = 1 + rng.below(self.start_read_tries);
        }
    }
}
