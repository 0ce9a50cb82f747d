//! What an operator, the host and its clock do while a guest is served. It must not know what the guest asks for.

use lode_policy::Quota;
use lode_types::Rng;

use super::Guest;
use crate::run::Plan;
use crate::scenario::{all_schemes, may_switch};
use crate::world::World;

/// Shares that a host may want, from none to several extents.
const MOST_DRAM_BLOCKS: u64 = 80;
const MOST_SSD_BLOCKS: u64 = 700;

/// Another share of the levels; without `has_dram` the scheme does not use that.
fn another_share(now: &Quota, has_dram: bool, rng: &mut Rng) -> Quota {
    let mut changed = |blocks: u32, most: u64| if rng.chance(50) { rng.below(most) as u32 } else { blocks };
    Quota {
        dram_blocks: if has_dram { changed(now.dram_blocks, MOST_DRAM_BLOCKS).max(1) } else { 0 },
        ssd_blocks: changed(now.ssd_blocks, MOST_SSD_BLOCKS),
        ..*now
    }
}

/// By chance, what a plan has happen between two requests.
pub(super) fn meanwhile(plan: &Plan, world: &mut World, rng: &mut Rng) {
    if rng.chance(2) {
        world.tick();
    }
    if plan.drains > 0 && rng.chance(plan.drains) {
        if rng.chance(20) { world.stop_drain() } else { world.drain() }
    }
    if plan.share_changes > 0 && rng.chance(plan.share_changes) {
        let has_dram = plan.scheme_switches > 0 || world.engine().config().share.dram_blocks > 0;
        world.resize(another_share(&world.engine().config().share, has_dram, rng));
    }
    if plan.scheme_switches > 0 && rng.chance(plan.scheme_switches) {
        let mut others = all_schemes();
        others.retain(|(_, machine)| may_switch(world.engine().config(), machine));
        if !others.is_empty() {
            let at = rng.below(others.len() as u64) as usize;
            world.switch_scheme(&others[at].1.settings);
        }
    }
    if plan.decay > 0 && rng.chance(plan.decay) {
        world.decay(plan.decays);
    }
    if plan.hangs > 0 {
        world.may_hang = true;
        if rng.chance(plan.hangs) {
            world.hang_something(plan.hangs_give_up, rng);
        }
    }
    if plan.member_changes > 0 && rng.chance(plan.member_changes) {
        world.change_members();
    }
}

impl Guest {
    /// The time of a request, on a clock that jumps.
    pub(super) fn clock(&mut self, plan: &Plan, world: &mut World, rng: &mut Rng) -> u64 {
        const HOUR_NS: u64 = 3_600_000_000_000;
        const HOUR_TICKS: u64 = 3_600;
        self.clock_ns += rng.below(1_000_000);
        if rng.chance(plan.clock_jumps) {
            self.tally.clock_jumps += 1;
            match rng.below(4) {
                0 => self.clock_ns = self.clock_ns.saturating_sub(rng.below(3 * HOUR_NS)),
                1 => (0..rng.below(HOUR_TICKS)).for_each(|_| world.tick()),
                _ => self.clock_ns += rng.below(20 * HOUR_NS),
            }
        }
        self.clock_ns
    }
}
