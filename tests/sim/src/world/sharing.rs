//! Volumes of one host that share a cache and divide it between them while they are served: how a start attaches them, and, where they are led by
//! hand, in whose hands the cache is, and what becomes of volumes. It must not know what guests ask for.

use lode_engine::{MembershipEnd, SharedDevice};
use lode_format::VolumeTag;
use lode_store::{MembershipChange, SpaceDirectory, Store, StoreError, StoreView, SyncDevice, VolumeSpec};
use lode_types::Level;

use super::{FoundPairs, World};
use crate::machine::Machine;
use crate::pair::{Cache, begins_again, open};
use crate::space::HostSpace;
use crate::together::Host;

/// Frames that no volume has at a start of volumes that are led by hand.
const FREE_FRAMES: u32 = 100;

/// A cache that was opened for all volumes: their tags, the epoch of the run, and the directory.
pub(crate) struct Opened {
    pub tags: Vec<VolumeTag>,
    pub epoch: u64,
    pub directory: SpaceDirectory,
}

impl Opened {
    /// Attaches volumes, those first that give space back, to a cache on this device.
    pub(crate) fn attach<'a>(
        volumes: impl Iterator<Item = &'a mut World>,
        machines: &[Machine],
        specs: &[VolumeSpec],
        mut store: Store,
        device: &mut dyn SyncDevice,
    ) -> Result<Opened, StoreError> {
        let mut volumes: Vec<_> = volumes.collect();
        let mut tags = vec![VolumeTag(0); specs.len()];
        for at in store.view().attach_order(specs) {
            let (machine, places) = (machines[at].clone(), specs[at].places);
            tags[at] = volumes[at].restart_on(machine, places, &mut store, device)?;
        }
        let epoch = store.superblock().epoch;
        Ok(Opened { tags, epoch, directory: store.into_directory() })
    }
}

impl Cache {
    /// Opens the cache for all of its volumes, which `attach` attaches.
    ///
    /// # Errors
    /// What a start is refused for.
    pub(crate) fn open_for_all(
        &mut self,
        mut attach: impl FnMut(&mut dyn SyncDevice, StoreView) -> Result<Opened, StoreError>,
    ) -> Result<(Opened, Option<FoundPairs>), StoreError> {
        let mut opened = self.open_once(&mut attach);
        if opened.is_err() && begins_again(self.pairs()) {
            opened = self.open_once(&mut attach);
        }
        opened
    }

    fn open_once(
        &mut self,
        attach: &mut dyn FnMut(&mut dyn SyncDevice, StoreView) -> Result<Opened, StoreError>,
    ) -> Result<(Opened, Option<FoundPairs>), StoreError> {
        if self.pair.is_none() {
            let view = self.first.view()?;
            let opened = attach(&mut self.first, view)?;
            self.first.shared = SharedDevice::default();
            return Ok((opened, None));
        }
        let mut array = open(self.pairs())?;
        let found = FoundPairs::of(&array);
        let view = StoreView::read(&mut array)?;
        let opened = attach(&mut array, view)?;
        found.begin_run(self.pairs(), opened.epoch, &opened.directory.used_bytes());
        Ok((opened, Some(found)))
    }
}

impl World {
    /// A volume that is to share the cache of the one that has number 0, and has this number there.
    pub fn beside(machine: Machine, seed: u64, number: usize) -> World {
        World { number, ..World::down(machine, seed) }
    }

    /// As [`World::restart`], of volumes that share the cache, which is in the hands of this one. From now on they divide it between them: those
    /// that have extents go on with these.
    ///
    /// # Errors
    /// What a start is refused for.
    pub fn restart_with(&mut self, others: &mut [World], machines: &[Machine]) -> Result<(), StoreError> {
        let (mut cache, mut space) = (Cache::default(), None);
        self.swap_cache(&mut cache, &mut space);
        let started = cache
            .open_for_all(|device, view| self.attach_with(others, machines, device, view))
            .map(|(opened, found)| {
                let on_pairs =
                    found.map(|found| found.join(&mut cache, &opened.tags, each_world(self, others), None));
                let mut space = HostSpace::new(FREE_FRAMES, opened.directory, on_pairs);
                for (&tag, world) in opened.tags.iter().zip(each_world(self, others)) {
                    space.join(tag, world.engine.gauges().frames);
                    world.tag = Some(tag);
                }
                space
            });
        let started = started.map(|divided| space = Some(divided));
        self.swap_cache(&mut cache, &mut space);
        started?;
        self.take_commands();
        others.iter_mut().for_each(|other| self.lend(other, World::take_commands));
        Ok(())
    }

    fn attach_with(
        &mut self,
        others: &mut [World],
        machines: &[Machine],
        device: &mut dyn SyncDevice,
        mut view: StoreView,
    ) -> Result<Opened, StoreError> {
        for (world, machine) in each_world(self, others).zip(machines) {
            world.offer_records(&mut view, &machine.name);
        }
        let store = Store::begin(device, view)?;
        let mut specs: Vec<VolumeSpec> = machines.iter().map(Machine::spec).collect();
        Host::keep_extents(device, store.view(), &mut specs);
        Opened::attach(each_world(self, others), machines, &specs, store, device)
    }

    /// The cache, and what the host divides of it, come into this volume's hands, or go out of them.
    pub(crate) fn swap_cache(&mut self, cache: &mut Cache, space: &mut Option<HostSpace>) {
        std::mem::swap(&mut self.ssd, &mut cache.first);
        std::mem::swap(&mut self.pair, &mut cache.pair);
        std::mem::swap(&mut self.other_pairs, &mut cache.others);
        std::mem::swap(&mut self.space, space);
    }

    /// Does something on another volume, which has the cache in its hands meanwhile. Steps of the two are counted together.
    pub fn lend<T>(&mut self, other: &mut World, act: impl FnOnce(&mut World) -> T) -> T {
        let (mut cache, mut space) = (Cache::default(), None);
        self.swap_cache(&mut cache, &mut space);
        other.swap_cache(&mut cache, &mut space);
        (other.steps, other.power_fails_at) = (self.steps, self.power_fails_at);
        let outcome = act(other);
        self.steps = other.steps;
        other.swap_cache(&mut cache, &mut space);
        self.swap_cache(&mut cache, &mut space);
        outcome
    }

    /// What volumes there are is to change. False: that cannot be any more in this run.
    pub fn change_membership(&mut self, change: MembershipChange) -> bool {
        let Some(space) = self.space.as_mut().filter(|space| !space.has_failed()) else { return false };
        space.change_membership(change);
        space.send(&mut self.ssd);
        true
    }

    /// How that ended.
    pub fn membership_ended(&mut self) -> Option<MembershipEnd> {
        self.space.as_mut().and_then(HostSpace::membership_ended)
    }

    /// What the directory knows the volume by; `None`: it is not served.
    pub fn tag(&self) -> Option<VolumeTag> {
        self.tag
    }

    /// How often the directory has said in this run that a volume has other extents.
    pub fn extent_changes(&self) -> u64 {
        self.space.as_ref().map_or(0, |space| space.changes)
    }

    /// The volume, which is at rest, is served no more, while others are. Gives what the directory knows it by.
    pub fn leave_cache(&mut self) -> Option<VolumeTag> {
        self.go_away();
        self.space.as_mut().expect("volumes divide the cache").leave(self.number);
        self.tag.take()
    }

    /// The volume, which the directory knows by this tag since a moment, is served from now on.
    pub fn join_cache(&mut self, machine: Machine, tag: VolumeTag) {
        let space = self.space.as_mut().expect("volumes divide the cache");
        let frames = space.take_frames(machine.config.places(Level::Dram) as u32);
        let attached = space.come(self.number, tag, frames, machine.config.ssd_places());
        self.tag = Some(tag);
        self.come(machine, frames, attached);
    }
}

/// The volume that has the cache in its hands, and those beside it.
fn each_world<'a>(first: &'a mut World, others: &'a mut [World]) -> impl Iterator<Item = &'a mut World> {
    std::iter::once(first).chain(others)
}
