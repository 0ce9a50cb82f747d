//! How a guest waits for answers, and for devices that hang. It must not know what it asked for.

use lode_types::Rng;

use super::{Guest, RunBudget};
use crate::run::Plan;
use crate::world::World;

/// In how many of so many steps a run ends while a device hangs.
const STEPS_OF_A_HANG: u64 = 300;

impl RunBudget {
    /// By chance the run is over while a device hangs, whatever that was asked for.
    pub(super) fn may_end_in_hang(&mut self, plan: &Plan, world: &World, rng: &mut Rng) {
        if plan.hangs > 0 && world.has_hanging_device() && rng.below(STEPS_OF_A_HANG) == 0 {
            self.left = 0;
        }
    }
}

impl Guest {
    /// Until one more request is answered, or others have to go on first.
    pub(super) fn wait_for_one(&mut self, world: &mut World) -> Result<(), String> {
        let before = self.asked.len();
        while self.asked.len() == before {
            if !world.step() {
                if world.is_held() || world.has_hanging_device() {
                    // Others have to end before this one goes on, or a device to answer.
                    return Ok(());
                }
                if !self.may_wait && world.stands_still() {
                    return Err(format!("{} requests wait, and no device is at anything", self.asked.len()));
                }
                if !world.step_or_tick() {
                    return Err(format!("{} requests are never answered", self.asked.len()));
                }
            }
            self.collect(world)?;
        }
        Ok(())
    }
}
