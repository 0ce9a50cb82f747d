//! The death of the SSD that volumes share, while they are served: what each of them has on a second device then has to reach its disk.
//! It must not know what volumes do meanwhile.

use lode_engine::{GuestOp, GuestRequest};

use crate::guest::Guest;
use crate::model::{Model, SECTOR};
use crate::run::Decay;
use crate::together::Host;
use crate::world::World;

/// Bound of the steps of a run after which the SSD dies.
const MOST_STEPS: u64 = 1500;

impl Host<'_> {
    /// By chance a step of the next run at which the SSD dies.
    pub(crate) fn pick_death(&mut self) -> Option<u64> {
        let chance = self.plans[0].ssd_deaths;
        (chance > 0 && self.rng.chance(chance)).then(|| self.rng.below(MOST_STEPS))
    }

    /// Lets schemes that keep dirty blocks on two devices make the copies that a start has not found, where the run is about that.
    pub(crate) fn mirror_all(&mut self) {
        const MOST_REQUESTS: usize = 48;
        let plan = &self.plans[0];
        if plan.ssd_deaths == 0 && (plan.decay == 0 || plan.decays != Decay::Mirrored) {
            return;
        }
        for _ in 0..MOST_REQUESTS {
            for at in 0..self.volumes.len() {
                self.with(at, |_, volume, _| {
                    if !volume.world.is_mirrored() {
                        let op = GuestOp::Read { offset_bytes: 0, length_bytes: SECTOR as u64 };
                        volume.world.submit(GuestRequest { token: 0, op, now_ns: 0 });
                        volume.world.settle();
                    }
                });
                self.end_flushes();
            }
        }
        // Nobody has asked for these, and some may have waited for flushes of others.
        for at in 0..self.volumes.len() {
            self.with(at, |_, volume, _| {
                volume.world.settle();
                volume.world.take_events();
            });
            self.end_flushes();
        }
    }

    /// Nothing reaches the SSD from now on, and nobody knows it yet.
    pub(crate) fn die(&mut self) {
        for volume in &mut self.volumes {
            (volume.world.ssd_died, volume.world.switched_since) = (true, false);
            if volume.is_here {
                volume.guest.ssd_died(&volume.world);
            }
        }
    }

    /// Whether it has died in this run.
    pub(crate) fn has_died(&self) -> bool {
        self.volumes.iter().any(|volume| volume.world.ssd_died)
    }
}

impl Guest {
    fn ssd_died(&mut self, world: &World) {
        self.is_rescued = world.is_mirrored();
        self.tally.rescued += u64::from(self.is_rescued);
    }

    /// Guarantee 9: all that was acknowledged is on the disk, flushed or not.
    pub(crate) fn check_rescued(&mut self, world: &mut World) -> Result<(), String> {
        // Whoever has had nothing to do there since is told by others.
        world.ssd_has_failed_another();
        world.settle();
        self.collect(world)?;
        let gauges = world.engine().gauges();
        if (gauges.dirty_blocks, gauges.lost_blocks) != (0, 0) {
            return Err(format!("what a dead SSD held has not reached the disk: {gauges:?}"));
        }
        for sector in 0..self.model.sectors() {
            let mut bytes = [0; SECTOR];
            world.backing.peek(world.backing_start + (sector * SECTOR) as u64, &mut bytes);
            let expected = self.model.expected(sector, true);
            if let Some(complaint) = Model::complaint(sector, &bytes, &expected) {
                return Err(format!("on the disk after the death of the SSD: {complaint}"));
            }
        }
        Ok(())
    }
}
