//! How long devices take for commands, on the virtual clock: SSDs a fraction of what disks take, but for some commands of some hosts, which
//! take longer than a block takes to come to the disk and be given up. It must not know what commands do.

use lode_engine::command::DeviceId;
use lode_types::Rng;

use super::World;

/// Of a hundred commands to SSDs so many take long, up to this.
const SLOW_OF_HUNDRED: u64 = 5;
const LONGEST_NS: u64 = 40_000_000;

impl World {
    /// From now on a few commands to SSDs take long.
    pub fn slow_some_commands(&mut self, seed: u64) {
        self.slow_commands = Some(Rng::new(seed));
    }

    /// Nanoseconds that a device takes for the next command.
    pub(super) fn service_ns(&mut self, device: DeviceId) -> u64 {
        let usual_ns = match device {
            DeviceId::Ssd | DeviceId::ReadSsd => 20_000 + self.rng.below(200_000),
            DeviceId::Backing | DeviceId::Redo => return 100_000 + self.rng.below(8_000_000),
        };
        let Some(rng) = &mut self.slow_commands else { return usual_ns };
        if rng.chance(SLOW_OF_HUNDRED) { usual_ns + rng.below(LONGEST_NS) } else { usual_ns }
    }
}
