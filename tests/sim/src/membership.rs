//! Volumes that go, come back and get other names while others are served, as a host does it on whose SSD they are. One change
//! at a time, with all other things going on meanwhile.

use lode_engine::{EngineConfig, MembershipEnd};
use lode_policy::{Quota, SchemeInfo};
use lode_store::MembershipChange;
use lode_types::Level;

use crate::guest::RunBudget;
use crate::machine::Machine;
use crate::space::HostSpace;
use crate::together::{Host, LARGEST_SHARE};

/// In how many of a hundred steps a volume that is away is to come back.
const COMES_BACK: u64 = 10;

/// In how many of a hundred steps a volume that waits for space does not come after all.
const GIVES_UP: u64 = 2;

/// A change under way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Doing {
    Going(usize),
    /// With so many frames that were taken for it.
    Coming(usize, u32),
    Renaming(usize),
}

impl Host<'_> {
    /// By chance begins a change of what volumes there are, or takes note of the end of one.
    pub(crate) fn advance_membership(
        &mut self,
        round: u32,
        runs: &mut [RunBudget],
        over: &mut [bool],
    ) -> Result<(), String> {
        let chance = self.plans[0].membership_changes;
        if chance == 0 {
            return Ok(());
        }
        if let Some(doing) = self.doing {
            return self.end_change(doing, round, runs, over);
        }
        if self.space().has_failed() {
            return Ok(());
        }
        let at = self.rng.below(self.volumes.len() as u64) as usize;
        if !self.volumes[at].is_here {
            if self.rng.chance(COMES_BACK) {
                self.begin_coming(at, round);
            }
        } else if self.rng.chance(chance) {
            match self.rng.chance(40) {
                true => self.begin_renaming(at),
                false => self.begin_going(at)?,
            }
        }
        Ok(())
    }

    /// A stop waits for a change under way.
    pub(crate) fn finish_membership(&mut self, round: u32) -> Result<(), String> {
        const MOST_STEPS: usize = 10_000;
        for _ in 0..MOST_STEPS {
            let Some(doing) = self.doing else { return Ok(()) };
            let (mut runs, mut moves) = (Vec::new(), false);
            for at in 0..self.volumes.len() {
                moves |= self.with(at, |_, volume, _| volume.world.step());
                runs.push(self.with(at, |plan, volume, rng| volume.guest.begin(plan, &volume.world, rng)));
            }
            self.end_flushes();
            if !moves && self.plans[0].faults.hanging_member.is_some() {
                // One that hangs is given up in time.
                (0..self.volumes.len()).for_each(|at| self.with(at, |_, volume, _| volume.world.tick()));
            }
            let mut over = vec![true; runs.len()];
            self.end_change(doing, round, &mut runs, &mut over)?;
        }
        let failed = |volume: &crate::together::Volume| volume.world.engine().alarms().failed;
        match self.volumes.iter().any(failed) {
            true => Ok(()),
            false => Err(format!("{:?} does not come to its end", self.doing)),
        }
    }

    /// One that waits for space may not come after all, and has to where nobody gives any up.
    fn by_chance_give_up(&mut self, doing: Doing) {
        if let Doing::Coming(_, frames) = doing
            && self.space().membership_waits()
            && self.rng.chance(GIVES_UP)
            && self.space().cancel_membership()
        {
            self.space().give_frames(frames);
            self.doing = None;
        }
    }

    fn space(&mut self) -> &mut HostSpace {
        self.space.as_mut().expect("shares move where volumes come and go")
    }

    fn change_membership(&mut self, change: MembershipChange) {
        if let Some(space) = &mut self.space {
            space.change_membership(change);
            space.send(&mut self.cache.first);
        }
    }

    fn begin_renaming(&mut self, at: usize) {
        let mut name = format!("{}-{}", self.plans[at].machines[0].name, self.rng.below(1 << 20));
        let Some(tag) = self.volumes[at].tag else { return };
        if name == self.volumes[at].name {
            name.push('b');
        }
        self.change_membership(MembershipChange::Rename(tag, name.clone()));
        self.volumes[at].new_name = Some(name);
        self.doing = Some(Doing::Renaming(at));
    }

    /// Cuts the volume's guest off, has everything written back, and takes the volume off the SSD.
    fn begin_going(&mut self, at: usize) -> Result<(), String> {
        let Some(tag) = self.volumes[at].tag else { return Ok(()) };
        if self.with(at, |_, volume, _| volume.world.has_hanging_device()) {
            // It would have to wait.
            return Ok(());
        }
        self.end_flushes();
        let may_go = self.with(at, |_, volume, _| volume.guest.leave(&mut volume.world))?;
        // What a device that hangs was asked for may still end there.
        let may_go = may_go && !self.volumes[at].world.has_commands();
        if !may_go || self.space().is_changing(at) || self.space().has_failed() {
            return Ok(());
        }
        self.with(at, |_, volume, _| volume.guest.note_gone(&mut volume.world));
        self.with(at, |_, volume, _| volume.world.go_away());
        self.volumes[at].is_here = false;
        self.space().leave(at);
        self.change_membership(MembershipChange::Remove(tag));
        self.doing = Some(Doing::Going(at));
        Ok(())
    }

    fn begin_coming(&mut self, at: usize, round: u32) {
        let config = self.coming_config(at, round);
        let info = SchemeInfo::find(self.plans[at].machine(round).settings.scheme());
        let wanted = config.places(Level::Dram) as u32;
        let taken = self.space().take_frames(wanted);
        let first = config.within_frames(taken);
        let frames = first.places(Level::Dram) as u32;
        self.space().give_frames(taken - frames);
        let least = info.expect("it is a registered scheme").least_blocks(Level::Dram);
        if first.share.dram_blocks < least {
            // There is no memory for it now.
            return self.space().give_frames(frames);
        }
        let change = MembershipChange::Create {
            name: self.volumes[at].name.clone(),
            backing_bytes: config.volume_bytes,
            extents: 1 + self.rng.below(2) as u32,
            ready_extents: 1,
        };
        self.change_membership(change);
        self.doing = Some(Doing::Coming(at, frames));
    }

    fn coming_config(&self, at: usize, round: u32) -> EngineConfig {
        let config = self.plans[at].machine(round).config;
        let read_ssd_blocks = config.share.read_ssd_blocks;
        EngineConfig { largest_share: Some(Quota { read_ssd_blocks, ..LARGEST_SHARE }), ..config }
    }

    fn end_change(
        &mut self,
        doing: Doing,
        round: u32,
        runs: &mut [RunBudget],
        over: &mut [bool],
    ) -> Result<(), String> {
        if let Doing::Coming(at, _) = doing
            && self.volumes[at].world.has_commands()
        {
            // Of the engine that was there while it was away.
            return Ok(());
        }
        let Some(ended) = self.space().membership_ended() else {
            self.by_chance_give_up(doing);
            return Ok(());
        };
        self.doing = None;
        match (doing, ended) {
            (Doing::Going(at), MembershipEnd::Done(_)) => self.volumes[at].tag = None,
            (Doing::Renaming(at), MembershipEnd::Done(_)) => {
                let volume = &mut self.volumes[at];
                volume.name = volume.new_name.take().expect("it is to have another name");
                volume.guest.tally.renamed += 1;
            }
            (Doing::Coming(at, frames), MembershipEnd::Done(tag)) => {
                let config = self.coming_config(at, round);
                let machine =
                    Machine { config, name: self.volumes[at].name.clone(), ..self.plans[at].machine(round) };
                let attached = self.space().come(at, tag, frames, config.ssd_places());
                self.volumes[at].tag = Some(tag);
                self.volumes[at].is_here = true;
                self.with(at, |_, volume, _| volume.world.come(machine, frames, attached));
                self.volumes[at].guest.tally.came += 1;
                runs[at] = self.with(at, |plan, volume, rng| volume.guest.begin(plan, &volume.world, rng));
                over[at] = false;
            }
            (doing, MembershipEnd::Refused(error)) if !self.space().has_failed() => {
                return Err(format!("{doing:?} is refused: {error}"));
            }
            (Doing::Coming(_, frames), _) => self.space().give_frames(frames),
            // The next start knows what came of it.
            (_, MembershipEnd::Unknown | MembershipEnd::Refused(_)) => {}
        }
        Ok(())
    }
}
