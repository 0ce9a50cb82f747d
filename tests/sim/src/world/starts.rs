//! How a volume comes to be served, and is served no more: after the host went down, and while others are served. It must not know
//! what is done with it meanwhile.

use std::sync::Arc;

use lode_engine::{Engine, EngineConfig, SharedDevice};
use lode_format::VolumeTag;
use lode_policy::{Quota, SchemeInfo, Tenant};
use lode_store::{Attached, Distrust, Store, StoreError, StoreView, SyncDevice, VolumeSpec};
use lode_types::Rng;

use super::World;
use crate::disk::SimDisk;
use crate::machine::Machine;
use crate::pair::open;

impl World {
    /// Starts an engine on what the devices hold. `machine` may differ from the one before in what a new
    /// configuration may change.
    pub fn restart(&mut self, machine: Machine) -> Result<(), StoreError> {
        self.machine = machine;
        self.apply_redo()?;
        let attached = match self.machine.ssd_bytes {
            0 => None,
            _ if self.pair.is_some() => Some(self.attach_pairs()?),
            _ => {
                let mut view = self.ssd.view()?;
                self.offer_records(&mut view, &self.machine.name);
                let mut store = Store::begin(&mut self.ssd, view)?;
                let spec = self.spec();
                Some(store.attach(&mut self.ssd, &spec)?)
            }
        };
        self.begin_run(attached)?;
        self.take_commands();
        Ok(())
    }

    /// The cache as somebody finds it who serves no volume from it, and may write to it.
    ///
    /// # Errors
    /// What a start is refused for.
    pub fn open_cache(&mut self) -> Result<Box<dyn SyncDevice + '_>, StoreError> {
        if self.pair.is_none() {
            return Ok(Box::new(&mut self.ssd));
        }
        Ok(Box::new(open(self.each_pair())?))
    }

    /// As [`World::restart`], with so many places on an SSD that others share and that was opened for all of them.
    pub fn restart_on(
        &mut self,
        machine: Machine,
        places: u64,
        store: &mut Store,
        ssd: &mut dyn SyncDevice,
    ) -> Result<VolumeTag, StoreError> {
        self.machine = machine;
        let attached = store.attach(ssd, &VolumeSpec { places, ..self.spec() })?;
        let tag = attached.tag();
        self.begin_run(Some(attached))?;
        Ok(tag)
    }

    /// Has a start take over what the volume's last run left in the host's memory.
    pub(crate) fn offer_records(&self, view: &mut StoreView, volume: &str) {
        self.memory.offer(view, volume);
    }

    /// What the host remembers of a device that failed.
    pub(crate) fn remember_fence(&mut self, distrust: Option<Distrust>) {
        self.fenced = distrust;
    }

    /// What the volume asks of the cache SSD after what happened to it.
    pub(super) fn spec(&self) -> VolumeSpec {
        VolumeSpec { distrusts: self.fenced, ..self.machine.spec() }
    }

    /// A start has succeeded.
    fn begin_run(&mut self, attached: Option<Attached>) -> Result<(), StoreError> {
        for disk in [&mut self.ssd, &mut self.backing, &mut self.redo] {
            disk.shared = SharedDevice::default();
        }
        self.begin_engine(attached)
    }

    /// The volume is served from now on. What an earlier run left on the read SSD is still there, and nobody's.
    fn begin_engine(&mut self, mut attached: Option<Attached>) -> Result<(), StoreError> {
        let last_group = attached.as_ref().map_or(Ok(None), |attached| self.prepare_redo(attached))?;
        if let Some(attached) = &mut attached
            && self.machine.kept_records > 0
        {
            attached.keep_records_in(self.memory.renew(self.machine.kept_records));
        }
        let mut config = self.machine.config;
        if let (Some(ordered), Some(last_group)) = (&mut config.ordered, last_group) {
            ordered.last_group = last_group;
        }
        let start = if self.taking_over.is_some() { Engine::start } else { Engine::new };
        self.engine = start(config, &self.machine.settings, attached);
        self.ticks = 0;
        self.fenced = self.fenced_until_reboot.then_some(Distrust::Clean);
        self.bad_places.clear();
        self.sizer = World::sizer(&self.machine);
        let needed = self.machine.config.read_ssd_bytes();
        if self.read_ssd.size_bytes() < needed {
            self.read_ssd = SimDisk::new(needed);
        }
        Ok(())
    }

    /// From now on schemes are told by and by of what starts find, while guests are served.
    pub fn take_over_in_steps(&mut self, seed: u64) {
        self.taking_over = Some(Rng::new(seed));
    }

    /// The scheme is told of some more of what the start found. False: of nothing, as a device has its turn.
    pub(super) fn take_over_step(&mut self) -> bool {
        const MOST_BLOCKS: u64 = 8;
        let Some(rng) = &mut self.taking_over else { return false };
        if !self.engine.is_taking_over() || !(self.due.is_empty() || rng.chance(40)) {
            return false;
        }
        self.engine.set_clock(self.now_ns);
        self.engine.take_over(1 + rng.below(MOST_BLOCKS) as usize);
        self.take_commands();
        true
    }

    /// A volume that was at rest is served no more, while others are.
    pub(crate) fn go_away(&mut self) {
        assert!(self.engine.is_idle() && !self.has_commands(), "a volume is at rest before it goes");
        self.leave_pairs();
        let config = EngineConfig { share: Quota::default(), largest_share: None, ..self.machine.config };
        let plain = SchemeInfo::find("lru").expect("it is registered").settings();
        self.engine = Engine::new(config, &plain, None);
    }

    /// A volume that is new to the SSD is served from now on, while others are, and may use so many frames at first.
    pub(crate) fn come(&mut self, machine: Machine, frames: u32, attached: Attached) {
        assert!(!self.has_commands(), "nobody has asked for anything since");
        let stripes = Arc::new(self.array.stripes().clone());
        self.join_own_pairs(&stripes, attached.tag());
        let share = machine.config.share;
        self.machine = machine;
        self.machine.config = self.machine.config.within_frames(frames);
        self.begin_engine(Some(attached)).expect("a log that nobody fails");
        self.machine.config.share = share;
        self.engine.resize(share);
        self.take_commands();
    }
}
