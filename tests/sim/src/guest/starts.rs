//! The start that follows an end, and what may go wrong in it. It must not know how a start goes.

use lode_store::StoreError;
use lode_types::Rng;

use super::Guest;
use crate::machine::Machine;
use crate::run::{Crash, Plan};
use crate::world::World;

impl Guest {
    /// The start that is to succeed. One during which a read fails may be refused, and succeeds when it is tried again.
    pub(super) fn restart(
        &mut self,
        plan: &Plan,
        world: &mut World,
        rng: &mut Rng,
        machine: Machine,
        may_lose: bool,
    ) -> Result<(), StoreError> {
        // Of no other plan's numbers, so that their seeds are what they were.
        if plan.start_hangs > 0 && rng.chance(plan.start_hangs) {
            let must_start = world.hang_in_start(rng);
            let started = world.restart(machine.clone());
            if self.hung_in_start(world, started, must_start)? {
                return Ok(());
            }
            world.go_down(may_lose && rng.chance(50));
        }
        // Somebody sees to devices that did not answer.
        world.devices_come_back();
        if rng.chance(plan.start_read_errors) {
            let may_lose_blocks = world.fail_read_of_start(plan, rng);
            let started = world.restart(machine.clone());
            self.note_start(world.end_read_errors(), may_lose_blocks);
            if started.is_ok() {
                return Ok(());
            }
            world.go_down(false);
        }
        world.restart(machine)
    }

    /// What came of a start in which a device was to stop answering. Whether guests are served from then on.
    ///
    /// # Errors
    /// It failed, and the other SSD of the pair has everything.
    pub(crate) fn hung_in_start(
        &mut self,
        world: &mut World,
        started: Result<(), StoreError>,
        must_start: bool,
    ) -> Result<bool, StoreError> {
        self.tally.start_hangs += u64::from(world.end_start_hang());
        let is_served = started.is_ok() && !world.start_never_ends();
        self.tally.failed_starts += u64::from(!is_served);
        if must_start { started.map(|()| is_served) } else { Ok(is_served) }
    }

    /// Whether the power fails while a start takes over what a kill left: then no more need be there than after a power cut,
    /// and no less.
    pub(crate) fn power_fails_during_starts(crash: Crash, failed_starts: u64, rng: &mut Rng) -> bool {
        crash == Crash::Kill && failed_starts > 0 && rng.chance(50)
    }

    /// Whether a read failed during a start, and whether what could not be read may be lost to the guest.
    pub(crate) fn note_start(&mut self, read_failed: bool, may_lose_blocks: bool) {
        self.start_had_read_error |= read_failed && may_lose_blocks;
        self.tally.start_read_errors += u64::from(read_failed);
    }
}
