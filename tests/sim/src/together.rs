//! Several volumes that use one SSD at the same time, each with its own engine, guest and backing disk, as in a
//! daemon: their commands on the SSD interleave, one flush covers the writes of all, and one crash ends them all.

use lode_engine::SharedDevice;
use lode_format::VolumeTag;
use lode_policy::{Quota, Tenant};
use lode_store::{Store, StoreError, StoreView, SyncDevice, VolumeSpec};
use lode_types::Rng;

use crate::disk::SimDisk;
use crate::durable::{Known, Lost};
use crate::guest::{Guest, MOST_WRITES_OF_A_START, RunBudget};
use crate::machine::Machine;
use crate::membership::Doing;
use crate::pair::Cache;
use crate::run::{Crash, Plan, RunCounts, repeat};
use crate::space::HostSpace;
use crate::world::{FoundPairs, Opened, World};

/// Bound of the frames that no volume has at a start, and of the shares.
const MOST_FREE_FRAMES: u64 = 150;
/// Bound of the places that are to be free at a start, of some 250 in an extent.
const MOST_READY_PLACES: u64 = 500;
pub(crate) const LARGEST_SHARE: Quota = Quota::new(200, 2000);

/// In how many of a hundred steps a volume that is away has no part in the run any more, unless it comes back all the same.
const STAYS_AWAY: u64 = 2;

/// The host's cache and its volumes.
pub(crate) struct Host<'p> {
    pub(crate) plans: &'p [Plan],
    pub(crate) cache: Cache,
    /// The device of all backing disks, where they are on one.
    backing: Option<SimDisk>,
    pub(crate) volumes: Vec<Volume>,
    /// Where it divides its levels between them.
    pub(crate) space: Option<HostSpace>,
    pub(crate) rng: Rng,
    /// What becomes of one of the volumes now.
    pub(crate) doing: Option<Doing>,
}

pub(crate) struct Volume {
    pub(crate) world: World,
    pub(crate) guest: Guest,
    /// It is served, and was not taken off the SSD.
    pub(crate) is_here: bool,
    pub(crate) tag: Option<VolumeTag>,
    /// The name under which the directory knows it, and another one that it may have: one that it is getting, or had before.
    pub(crate) name: String,
    pub(crate) new_name: Option<String>,
}

/// Runs the plans of volumes that share the SSD, or the pairs of them, of the first one's machine, all at once. Seed, number of runs, crash,
/// flips and failed starts are those of the first plan.
pub fn run_together(plans: &[Plan]) -> Result<Vec<RunCounts>, String> {
    let Some(first) = plans.first() else { return Ok(Vec::new()) };
    let mut cache = Cache::formatted(&first.machines[0]).map_err(|error| error.to_string())?;
    cache.first.lies = first.ssd_lies;
    first.prepare_starts(&mut cache.first);
    first.prepare_members(cache.pair.as_deref_mut(), &mut cache.others);
    let mut rng = Rng::new(first.seed);
    let mut backing_bytes = 0;
    let volume = |(number, plan): (usize, &Plan)| {
        let machine = plan.machine(0);
        let volume_bytes = machine.config.volume_bytes;
        let mut world = World::down(machine, rng.bits());
        world.number = number;
        plan.prepare_world(&mut world);
        world.failing_member = plan.faults.only_member.or(plan.faults.hanging_member);
        if first.shares_backing {
            world.backing_start = backing_bytes;
            backing_bytes += volume_bytes;
        }
        let (name, guest) = (plan.machines[0].name.clone(), Guest::new(plan, number as u32));
        Volume { world, guest, is_here: true, tag: None, name, new_name: None }
    };
    let volumes = plans.iter().enumerate().map(volume).collect();
    let backing = first.shares_backing.then(|| SimDisk::new(backing_bytes));
    let mut host = Host { plans, cache, backing, volumes, space: None, rng, doing: None };
    for round in 0..first.rounds {
        let fault = |error: String| format!("run {round}: {error}; {}", repeat(first.seed));
        host.round(first, round).map_err(fault)?;
    }
    Ok(host.volumes.into_iter().map(|volume| volume.guest.tally).collect())
}

impl Host<'_> {
    /// One run of all, its end, and what is there after it. At the end the host is down.
    fn round(&mut self, first: &Plan, round: u32) -> Result<(), String> {
        self.start(round).map_err(|error| error.to_string())?;
        self.live(round)?;
        let crash = first.crash.pick(&mut self.rng);
        if crash == Crash::Stop || first.ends_drained {
            // That waits for them.
            (0..self.volumes.len()).for_each(|at| self.with(at, |_, volume, _| volume.world.end_hangs()));
        }
        self.end_flushes();
        if crash == Crash::Stop {
            self.finish_membership(round)?;
            self.end_flushes();
        }
        for at in 0..self.volumes.len() {
            self.rest();
            if self.volumes[at].is_here {
                self.with(at, |plan, volume, _| volume.guest.end(plan, &mut volume.world, crash))?;
            }
            self.end_flushes();
        }
        self.check_shares(crash)?;
        // What was stopped in order is durable, unless a device failed.
        let is_durable = crash == Crash::Stop
            && !self.has_died()
            && self.volumes.iter().all(|volume| !volume.world.engine().alarms().failed);
        self.cache.first.counts_as_durable = is_durable;
        let failed_starts = self.rng.below(u64::from(first.failed_starts) + 1);
        let then_power = Guest::power_fails_during_starts(crash, failed_starts, &mut self.rng);
        self.crash(crash, then_power);
        // Where the power fails later, the copy that does not rot may be volatile still.
        let rot = if then_power { 0 } else { first.rot };
        self.with(0, |_, volume, _| volume.guest.tally.rotten += volume.world.rot(rot));
        let known = self.doubt(first, crash, then_power);
        self.with(0, |plan, volume, _| volume.world.damage_known(plan.flips, &known));
        if first.member_losses > 0 {
            let lose = |plan: &Plan, volume: &mut Volume, _: &mut Rng| {
                volume.guest.tally.members_dropped += volume.world.lose_members(plan.member_losses);
            };
            self.with(0, lose);
        }
        for _ in 0..failed_starts {
            self.cache.first.fail_after = Some(self.rng.below(MOST_WRITES_OF_A_START));
            let started = self.start(round + 1);
            self.cache.first.fail_after = None;
            self.volumes[0].guest.tally.failed_starts += u64::from(started.is_err());
            self.volumes[0].guest.tally.starts_cut += 1;
            self.go_down(if is_durable || then_power { Crash::Power } else { crash });
        }
        let may_lose = crash == Crash::Power || is_durable || then_power;
        self.restart(first, round + 1, may_lose).map_err(|error| error.to_string())?;
        self.end_flushes();
        for at in 0..self.volumes.len() {
            self.rest();
            let looked = self.with(at, |plan, volume, _| volume.guest.look(plan, &mut volume.world, round));
            looked.map_err(|error| format!("volume {at} after {crash:?}: {error}"))?;
            self.end_flushes();
        }
        if first.member_losses > 0 {
            self.with(0, |_, volume, _| volume.world.resilver_by_chance());
        }
        self.crash(Crash::Kill, false);
        Ok(())
    }

    /// Where volumes share a pair, one waits for what another one has under way there: lets all of it end that can.
    fn rest(&mut self) {
        if self.cache.pair.is_none() {
            return;
        }
        let mut moves = true;
        while std::mem::take(&mut moves) {
            for at in 0..self.volumes.len() {
                moves |= self.with(at, |_, volume, _| {
                    let mut moves = false;
                    while volume.world.step() {
                        moves = true;
                    }
                    moves
                });
            }
        }
    }

    /// What was damaged in this run, whoever's it was, before it was known to be durable, may look as if it had not been written. Gives
    /// what is known to be.
    fn doubt(&mut self, first: &Plan, crash: Crash, then_power: bool) -> Known {
        let known = Guest::known_durable(first, crash, then_power, &mut self.cache.first);
        let lost: Vec<Lost> =
            self.volumes.iter_mut().flat_map(|volume| std::mem::take(&mut volume.world.lost)).collect();
        for volume in &mut self.volumes {
            let doubtful = lost.iter().filter(|lost| known.is_doubtful(lost.at));
            volume.guest.doubt(doubtful, volume.world.block_bytes());
        }
        known
    }

    /// No frame is anybody's twice or lost. After a stop without a failure everybody has the share that the host wants for it,
    /// as far as the others leave it one, and has given back what is beyond it.
    fn check_shares(&mut self, crash: Crash) -> Result<(), String> {
        if self.space.is_none() {
            return Ok(());
        }
        // What an engine gave back when it was told of a failure, and nothing came to pass since.
        for at in (0..self.volumes.len()).filter(|&at| self.volumes[at].is_here).collect::<Vec<_>>() {
            self.with(at, |_, volume, _| volume.world.take_commands());
        }
        let Some(space) = &self.space else { return Ok(()) };
        let here = || self.volumes.iter().filter(|volume| volume.is_here);
        let engines = || here().map(|volume| volume.world.engine());
        let taken = if let Some(Doing::Coming(_, frames)) = self.doing { frames } else { 0 };
        let used = taken + engines().map(|engine| engine.gauges().frames).sum::<u32>();
        space.complaint_of_frames(used).map_or(Ok(()), Err)?;
        if crash != Crash::Stop || self.has_died() || engines().any(|engine| engine.alarms().failed) {
            return Ok(());
        }
        const TICKS: usize = 64;
        for _ in 0..TICKS {
            for at in 0..self.volumes.len() {
                self.with(at, |_, volume, _| {
                    volume.world.tick();
                    while volume.world.step() {}
                });
                self.end_flushes();
            }
        }
        for at in 0..self.volumes.len() {
            self.with(at, |_, volume, _| volume.world.settle());
            self.end_flushes();
        }
        let Some((free_frames, free_extents)) = self.space.as_ref().map(HostSpace::free) else {
            return Ok(());
        };
        for (at, volume) in self.volumes.iter().enumerate().filter(|(_, volume)| volume.is_here) {
            let engine = volume.world.engine();
            let gauges = engine.gauges();
            let waits_in_vain = (gauges.frames_waited_for > 0 && free_frames > 0)
                || (gauges.extents_waited_for > 0 && free_extents > 0);
            // An extent with the only copy of a damaged block stays.
            let is_left = gauges.retiring_extents > 0 && gauges.lost_blocks == 0;
            let has_all = gauges.frames_waited_for + gauges.extents_waited_for == 0;
            let is_smaller = has_all && gauges.quarantined == 0 && engine.quota() != engine.share();
            if waits_in_vain || is_left || is_smaller {
                let (quota, share) = (engine.quota(), engine.config().share);
                return Err(format!("volume {at} has {quota:?} of {share:?}: {gauges:?}"));
            }
        }
        Ok(())
    }

    /// The start that is to succeed. One during which a read fails may be refused, and succeeds when it is tried again.
    fn restart(&mut self, first: &Plan, round: u32, may_lose: bool) -> Result<(), StoreError> {
        let hangs = first.start_hangs > 0 && self.rng.chance(first.start_hangs);
        if hangs && self.start_that_hangs(round, may_lose)? {
            return Ok(());
        }
        // Somebody sees to devices that did not answer.
        (0..self.volumes.len()).for_each(|at| self.with(at, |_, volume, _| volume.world.devices_come_back()));
        if self.rng.chance(first.start_read_errors) {
            let may_lose_blocks = self.with(0, |_, volume, rng| volume.world.fail_read_of_start(first, rng));
            let started = self.start(round);
            let failed = self.with(0, |_, volume, _| volume.world.end_read_errors());
            self.volumes.iter_mut().for_each(|volume| volume.guest.note_start(failed, may_lose_blocks));
            if started.is_ok() {
                return Ok(());
            }
            self.go_down(Crash::Kill);
        }
        self.start(round)
    }

    /// A start in which a device stops answering, of one of the volumes or of all. Whether they are served from then on.
    fn start_that_hangs(&mut self, round: u32, may_lose: bool) -> Result<bool, StoreError> {
        let at = self.rng.below(self.volumes.len() as u64) as usize;
        let must_start = self.with(at, |_, volume, rng| volume.world.hang_in_start(rng));
        let started = self.start(round);
        let served =
            self.with(at, |_, volume, _| volume.guest.hung_in_start(&mut volume.world, started, must_start))?;
        if !served {
            let power_fails = may_lose && self.rng.chance(50);
            self.go_down(if power_fails { Crash::Power } else { Crash::Kill });
        }
        Ok(served)
    }

    /// All go down at once.
    fn crash(&mut self, crash: Crash, may_lose: bool) {
        if let Some(space) = &self.space {
            self.volumes[0].guest.tally.share_moves += space.changes;
        }
        let shared_failed = self.backing.as_ref().is_some_and(SimDisk::has_dropped);
        for at in 0..self.volumes.len() {
            self.with(at, |_, volume, _| {
                let disk_failed = shared_failed || volume.world.backing.has_dropped();
                volume.guest.crash(&mut volume.world, crash, disk_failed || may_lose);
            });
        }
    }

    /// Lets flushes end that are under way, for which others may wait.
    pub(crate) fn end_flushes(&mut self) {
        while let Some(at) = (0..self.volumes.len())
            .find(|&at| self.volumes[at].world.has_flushes() || self.volumes[at].world.is_held())
        {
            let mut moved = self.with(at, |_, volume, _| volume.world.step());
            if !moved {
                // It waits for one that comes later in the order.
                let others = at + 1..self.volumes.len();
                for other in others {
                    moved |= self.with(other, |_, volume, _| volume.world.step());
                }
                if !moved {
                    // One that hangs is not waited for.
                    return;
                }
            }
        }
    }

    /// Does something on one volume, which has the SSD meanwhile.
    pub(crate) fn with<T>(&mut self, at: usize, act: impl FnOnce(&Plan, &mut Volume, &mut Rng) -> T) -> T {
        let volume = &mut self.volumes[at];
        let mut swap = |volume: &mut Volume| {
            volume.world.swap_cache(&mut self.cache, &mut self.space);
            if let Some(backing) = &mut self.backing {
                std::mem::swap(&mut volume.world.backing, backing);
            }
        };
        swap(volume);
        let outcome = act(&self.plans[at], volume, &mut self.rng);
        swap(volume);
        outcome
    }

    /// A volume that was getting another name when the host went down may have it, or not. What was to come or go is there
    /// again, because every volume is served from a start on.
    fn find_names(&mut self, view: &StoreView) {
        self.doing = None;
        for volume in &mut self.volumes {
            if let Some(other) = &mut volume.new_name
                && view.volumes().any(|found| found.name == *other)
            {
                std::mem::swap(&mut volume.name, other);
            }
        }
    }

    /// Opens the cache once and attaches all volumes, those first that give space back.
    fn start(&mut self, round: u32) -> Result<(), StoreError> {
        for at in 0..self.volumes.len() {
            self.with(at, |_, volume, _| volume.world.apply_redo())?;
        }
        let mut cache = std::mem::take(&mut self.cache);
        let started = cache.open_for_all(|device, view| self.attach_all(device, view, round));
        let started = started.map(|(opened, found)| self.divide(&mut cache, opened, found));
        self.cache = cache;
        started?;
        if let Some(backing) = &mut self.backing {
            backing.shared = SharedDevice::default();
        }
        (0..self.volumes.len()).for_each(|at| self.with(at, |_, volume, _| volume.world.take_commands()));
        Ok(())
    }

    fn moves_shares(&self) -> bool {
        self.plans.iter().any(|plan| plan.share_changes > 0)
    }

    /// The volumes join the pairs that the cache is on, if it is on any, and where shares move the host divides what no volume has.
    fn divide(&mut self, cache: &mut Cache, opened: Opened, found: Option<FoundPairs>) {
        let hanging = self.plans[0].faults.hanging_member;
        let worlds = self.volumes.iter_mut().map(|volume| &mut volume.world);
        let on_pairs = found.map(|found| found.join(cache, &opened.tags, worlds, hanging));
        if !self.moves_shares() {
            return;
        }
        let free_frames = self.rng.below(MOST_FREE_FRAMES) as u32;
        let mut space = HostSpace::new(free_frames, opened.directory, on_pairs);
        for (tag, volume) in opened.tags.into_iter().zip(&mut self.volumes) {
            space.join(tag, volume.world.engine().gauges().frames);
            (volume.tag, volume.is_here) = (Some(tag), true);
        }
        self.space = Some(space);
    }

    /// Attaches all volumes to a cache on this device.
    fn attach_all(
        &mut self,
        device: &mut dyn SyncDevice,
        mut view: StoreView,
        round: u32,
    ) -> Result<Opened, StoreError> {
        self.find_names(&view);
        let named =
            |(plan, volume): (&Plan, &Volume)| Machine { name: volume.name.clone(), ..plan.machine(round) };
        let mut machines: Vec<_> = self.plans.iter().zip(&self.volumes).map(named).collect();
        let moves_shares = self.moves_shares();
        if moves_shares {
            machines.iter_mut().for_each(|machine| machine.ready_places = self.rng.below(MOST_READY_PLACES));
        }
        let mut specs: Vec<VolumeSpec> = machines.iter().map(Machine::spec).collect();
        for (volume, machine) in self.volumes.iter().zip(&machines) {
            volume.world.offer_records(&mut view, &machine.name);
        }
        let store = Store::begin(device, view)?;
        // What was found is durable from here on: until then a power cut could have the other name come back.
        self.volumes.iter_mut().for_each(|volume| volume.new_name = None);
        for (spec, plan) in specs.iter_mut().zip(self.plans) {
            spec.spare_places = match plan.most_spare_places {
                0 => 0,
                most => self.rng.below(most),
            };
        }
        if moves_shares {
            Host::keep_extents(device, store.view(), &mut specs);
            for machine in &mut machines {
                let read_ssd_blocks = machine.config.share.read_ssd_blocks;
                machine.config.largest_share = Some(Quota { read_ssd_blocks, ..LARGEST_SHARE });
            }
        }
        store.view().grant_spares(&mut specs);
        let worlds = self.volumes.iter_mut().map(|volume| &mut volume.world);
        Opened::attach(worlds, &machines, &specs, store, device)
    }

    /// Volumes go on with the extents that they have, and ask for more, or give some back, when they are served. Where one that is
    /// new finds too little room beside them, it begins with one extent, and where there is none, the others with their shares.
    pub(crate) fn keep_extents(device: &mut dyn SyncDevice, view: &StoreView, specs: &mut Vec<VolumeSpec>) {
        let as_they_are = |new_places: Option<u64>| {
            let kept = |spec: &VolumeSpec| match view.places_of(&spec.name) {
                0 => new_places.unwrap_or(spec.places),
                places => places,
            };
            specs.iter().map(|spec| VolumeSpec { places: kept(spec), ..spec.clone() }).collect()
        };
        let is_any_new = specs.iter().any(|spec| view.places_of(&spec.name) == 0);
        let choices: [Vec<VolumeSpec>; 2] = [as_they_are(None), as_they_are(Some(view.places_in(1)))];
        for choice in choices {
            if !is_any_new || view.check(device, &choice).is_ok() {
                *specs = choice;
                return;
            }
        }
    }

    /// By chance one volume after the other advances by a step, until all have asked what they had to ask.
    fn live(&mut self, round: u32) -> Result<(), String> {
        self.mirror_all();
        let mut runs: Vec<RunBudget> = Vec::new();
        for at in 0..self.volumes.len() {
            runs.push(self.with(at, |plan, volume, rng| volume.guest.begin(plan, &volume.world, rng)));
        }
        let mut over = vec![false; runs.len()];
        let mut steps_to_death = self.pick_death();
        while over.contains(&false) {
            match &mut steps_to_death {
                Some(0) => {
                    self.die();
                    steps_to_death = None;
                }
                Some(steps) => *steps -= 1,
                None => {}
            }
            self.advance_membership(round, &mut runs, &mut over)?;
            let at = self.rng.below(runs.len() as u64) as usize;
            if !self.volumes[at].is_here {
                over[at] |= self.rng.chance(STAYS_AWAY);
                self.with(at, |_, volume, _| volume.world.step());
                continue;
            }
            let run = &mut runs[at];
            let made_progress =
                self.with(at, |plan, volume, rng| volume.guest.go_on(plan, &mut volume.world, rng, run));
            if over[at] {
                // Others may wait for what it has under way.
                self.with(at, |_, volume, _| volume.world.step());
            }
            over[at] = !made_progress.map_err(|error| format!("volume {at}: {error}"))?;
        }
        Ok(())
    }

    fn go_down(&mut self, crash: Crash) {
        for at in 0..self.volumes.len() {
            self.with(at, |_, volume, _| volume.world.go_down(crash == Crash::Power));
        }
    }
}
