//! Several volumes that use one SSD at the same time, each with its own engine, guest and backing disk, as in a
//! daemon: their commands on the SSD interleave, one flush covers the writes of all, and one crash ends them all.

use lode_engine::store::{Store, StoreError, VolumeSpec};

use crate::disk::SimDisk;
use crate::guest::{Guest, Life, MOST_WRITES_OF_A_START};
use crate::rng::Rng;
use crate::run::{Crash, Plan, Tally};
use crate::world::World;

/// The host's SSD and its volumes.
struct Host<'p> {
    plans: &'p [Plan],
    ssd: SimDisk,
    volumes: Vec<Volume>,
    rng: Rng,
}

struct Volume {
    world: World,
    guest: Guest,
}

/// Runs the plans of volumes that share the SSD of the first one's machine, all at once. Seed, number of lives, crash,
/// flips and failed starts are those of the first plan.
pub fn run_together(plans: &[Plan]) -> Result<Vec<Tally>, String> {
    let Some(first) = plans.first() else { return Ok(Vec::new()) };
    let ssd = World::formatted_ssd(&first.machines[0]).map_err(|error| error.to_string())?;
    let mut rng = Rng::new(first.seed);
    let volume = |(number, plan): (usize, &Plan)| Volume {
        world: World::down(plan.machine(0), rng.bits()),
        guest: Guest::new(plan, number as u32),
    };
    let volumes = plans.iter().enumerate().map(volume).collect();
    let mut host = Host { plans, ssd, volumes, rng };
    for round in 0..first.rounds {
        let fault = |error: String| format!("life {round}: {error}; repeat with seed {}", first.seed);
        host.round(first, round).map_err(fault)?;
    }
    Ok(host.volumes.into_iter().map(|volume| volume.guest.tally).collect())
}

impl Host<'_> {
    /// One life of all, its end, and what is there after it. At the end the host is down.
    fn round(&mut self, first: &Plan, round: u32) -> Result<(), String> {
        self.start(round).map_err(|error| error.to_string())?;
        self.live()?;
        let crash = first.crash.pick(&mut self.rng);
        for at in 0..self.volumes.len() {
            self.with(at, |plan, volume, _| volume.guest.end(plan, &mut volume.world, crash))?;
        }
        for at in 0..self.volumes.len() {
            self.with(at, |_, volume, _| volume.guest.crash(&mut volume.world, crash));
        }
        self.with(0, |plan, volume, _| volume.world.damage(plan.flips));
        for _ in 0..self.rng.below(u64::from(first.failed_starts) + 1) {
            self.ssd.fail_after = Some(self.rng.below(MOST_WRITES_OF_A_START));
            let started = self.start(round + 1);
            self.ssd.fail_after = None;
            self.volumes[0].guest.tally.failed_starts += u64::from(started.is_err());
            self.go_down(Crash::Power);
        }
        self.start(round + 1).map_err(|error| error.to_string())?;
        for at in 0..self.volumes.len() {
            let looked = self.with(at, |plan, volume, _| volume.guest.look(plan, &mut volume.world));
            looked.map_err(|error| format!("volume {at} after {crash:?}: {error}"))?;
        }
        self.go_down(Crash::Kill);
        Ok(())
    }

    /// Does something on one volume, which has the SSD meanwhile.
    fn with<T>(&mut self, at: usize, act: impl FnOnce(&Plan, &mut Volume, &mut Rng) -> T) -> T {
        let volume = &mut self.volumes[at];
        std::mem::swap(&mut volume.world.ssd, &mut self.ssd);
        let outcome = act(&self.plans[at], volume, &mut self.rng);
        std::mem::swap(&mut volume.world.ssd, &mut self.ssd);
        outcome
    }

    /// Opens the SSD once and attaches all volumes, those first that give space back.
    fn start(&mut self, round: u32) -> Result<(), StoreError> {
        let machines: Vec<_> = self.plans.iter().map(|plan| plan.machine(round)).collect();
        let specs: Vec<VolumeSpec> = machines.iter().map(|machine| machine.spec()).collect();
        let mut store = Store::open(&mut self.ssd)?;
        for at in store.view().attach_order(&specs) {
            self.volumes[at].world.restart_on(machines[at].clone(), &mut store, &mut self.ssd)?;
        }
        Ok(())
    }

    /// By chance one volume after the other gets on by a step, until all have asked what they had to ask.
    fn live(&mut self) -> Result<(), String> {
        let mut lives: Vec<Life> = Vec::new();
        for at in 0..self.volumes.len() {
            lives.push(self.with(at, |plan, volume, rng| volume.guest.begin(plan, &volume.world, rng)));
        }
        let mut over = vec![false; lives.len()];
        while over.contains(&false) {
            let at = self.rng.below(lives.len() as u64) as usize;
            let life = &mut lives[at];
            let gets_on =
                self.with(at, |plan, volume, rng| volume.guest.live_on(plan, &mut volume.world, rng, life));
            over[at] = !gets_on.map_err(|error| format!("volume {at}: {error}"))?;
        }
        Ok(())
    }

    fn go_down(&mut self, crash: Crash) {
        for at in 0..self.volumes.len() {
            self.with(at, |_, volume, _| volume.world.go_down(crash == Crash::Power));
        }
    }
}
