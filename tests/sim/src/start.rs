//! What may go wrong in the starts of a plan's host, on the SSD that they open first. It must not know what a start does.

use lode_types::Rng;

use crate::disk::SimDisk;
use crate::pair::{OtherPair, SimPair};
use crate::run::Plan;
use crate::world::World;

/// Reads of a start of which one may fail.
const MOST_READS_OF_A_START: u64 = 60;

impl Plan {
    /// Before the first start.
    pub(crate) fn prepare_starts(&self, ssd: &mut SimDisk) {
        ssd.at_once = self.order_at_once(0);
    }

    /// The same of the other members, where the cache is on pairs.
    pub(crate) fn prepare_members(&self, pair: Option<&mut SimPair>, others: &mut [OtherPair]) {
        let others = others.iter_mut().flat_map(|OtherPair { first, pair }| [first, &mut pair.second]);
        let members = pair.map(|pair| &mut pair.second).into_iter().chain(others);
        (1..).zip(members).for_each(|(number, member)| member.at_once = self.order_at_once(number));
    }

    /// In which order a device does what it is asked for at once. Of its own numbers, so that seeds are otherwise what they were.
    fn order_at_once(&self, device: u64) -> Option<Rng> {
        self.starts_at_once.then(|| Rng::new((self.seed.rotate_left(36) ^ 0xa70c) + (device << 32)))
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
