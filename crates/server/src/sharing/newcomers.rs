//! VMs that are added, removed and renamed while the loop runs. It must not know how they are served.

use lode_engine::EngineConfig;
use lode_policy::Quota;
use lode_policy::host::HostSizer;
use lode_types::{BlockSize, Level};

use super::{Sharing, Started, Vm, blocks, rule};
use crate::config::{Config, HostMode, Size, VmConfig};
use crate::division::{HostFrames, frames_of_host, ssd_shares};
use crate::records::records_bytes;
use crate::start::engine_config;

/// Bytes of a disk whose size is not known before it is opened: what is not on the disk does not depend on it.
const ANY_DISK_BYTES: u64 = 1 << 40;

impl Sharing {
    /// A VM that is to come: the share that it begins with, the largest one that it can be given, and the frames that the host has
    /// more with it.
    ///
    /// # Errors
    /// Why it cannot come, with the arithmetic.
    pub(crate) fn newcomer(
        &self,
        old: &Config,
        new: &Config,
        vm: &VmConfig,
    ) -> Result<(Quota, Quota, u32), String> {
        let block = BlockSize::new(self.block_bytes).map_err(|error| error.to_string())?;
        let mut engine = engine_config(new, vm, ANY_DISK_BYTES, block).map_err(|error| error.to_string())?;
        let reach = Level::SIZED.into_iter().fold(Quota::default(), |reach, level| {
            reach.with(level, blocks(new.reach_bytes(vm, level), self.block_bytes))
        });
        // The read SSD is not divided by need: what is asked for is there as a whole, or the VM does not come.
        let reach = reach.with(Level::ReadSsd, engine.share.read_ssd_blocks);
        engine.largest_share = Some(reach);
        let more_frames = self.frames(new, Some(&engine)).saturating_sub(self.frames(old, None));
        let share = self.first_share(new, vm, reach)?;
        engine.share = share;
        let beside_bytes = self.beside_bytes(reach.ssd_blocks > 0, more_frames);
        let missing = self.tables.missing_for(&engine, &vm.settings, beside_bytes);
        if missing > 0 {
            return Err(format!(
                "VM {} cannot come: the host has {} of memory for tables and shares of others, of which {} are taken, and {} is \
                 missing; `lode serve --check` says what each VM takes",
                vm.name,
                Size(self.tables.limit_bytes()),
                Size(self.tables.bytes()),
                Size(missing)
            ));
        }
        Ok((share, reach, u32::try_from(more_frames).unwrap_or(u32::MAX)))
    }

    /// Frames of a host of this configuration, with one engine more.
    pub(super) fn frames(&self, config: &Config, more: Option<&EngineConfig>) -> u64 {
        frames_of_host(config, self.tables.engines().chain(more)).frames
    }

    /// The same where VMs could be given other shares at most.
    pub(super) fn frames_with(
        &self,
        config: &Config,
        largest: impl Fn(usize) -> Option<Quota>,
    ) -> HostFrames {
        let engines: Vec<EngineConfig> = self
            .tables
            .engines()
            .enumerate()
            .map(|(at, engine)| EngineConfig {
                largest_share: largest(at).or(engine.largest_share),
                ..*engine
            })
            .collect();
        frames_of_host(config, engines.iter())
    }

    /// What shares find space for where they could reach so far: frames come with the schemes that use them, unless the host has
    /// them anyway.
    pub(super) fn room_under(&self, config: &Config, reaches: &[Quota]) -> Option<Quota> {
        let room = self.room?;
        let shares = match config.host.bytes.get(Level::Dram) {
            Some(_) => 0,
            None => self.frames_with(config, |at| reaches.get(at).copied()).shares,
        };
        Some(room.with(Level::Dram, room.dram_blocks.max(shares)))
    }

    /// That the SSD has room for what another configuration wants the host to have of it.
    pub(super) fn check_room(&self, old: &Config, new: &Config, room: Option<Quota>) -> Result<(), String> {
        let of_host = |config: &Config| config.host.bytes.get(Level::Ssd).copied();
        let (Some(room), Some(bytes)) = (room, of_host(new)) else { return Ok(()) };
        let room_bytes = u64::from(room.ssd_blocks) * self.block_bytes;
        if of_host(old) == Some(bytes) || bytes <= room_bytes {
            return Ok(());
        }
        Err(format!(
            "`host.ssd` cannot be {}: the SSD has room for shares of {} in all beside what replacing blocks safely takes",
            Size(bytes),
            Size(room_bytes)
        ))
    }

    fn frames_without(&self, at: usize, config: &Config) -> u64 {
        let others = self.tables.engines().enumerate().filter(|(vm, _)| *vm != at);
        frames_of_host(config, others.map(|(_, engine)| engine)).frames
    }

    /// Memory that a VM takes beside its tables.
    fn beside_bytes(&self, has_volume: bool, frames: u64) -> u64 {
        frames * self.block_bytes + if has_volume { records_bytes() } else { 0 }
    }

    /// What is free now of what it is to have, and no less than its scheme needs; where nobody divides, all of it.
    fn first_share(&self, new: &Config, vm: &VmConfig, reach: Quota) -> Result<Quota, String> {
        let mut sizer = self.sizer.clone();
        let reaches: Vec<Quota> = self.vms.iter().map(|vm| vm.reach).chain([reach]).collect();
        sizer.set_capacity(self.capacity(new, &reaches, self.room));
        let at = self.vms.len();
        let newcomer = Vm::new(&vm.name, Started { largest_share: Some(reach), ..Started::default() });
        let known = self.vms.iter().chain([&newcomer]);
        let rules = new.vms.iter().zip(known).map(|(vm, known)| rule(vm, known, new, self.block_bytes));
        sizer.set_vms(rules.collect());
        let free = sizer.shares().nth(at).unwrap_or_default();
        let wanted = super::share(vm, self.block_bytes);
        for level in Level::SIZED {
            if new.host.mode == HostMode::Fixed && free.of(level) < wanted.of(level) {
                return Err(self.no_room(&sizer, new, at, level));
            }
        }
        Ok(free.map(|level, blocks| match Level::SIZED.contains(&level) {
            true => blocks.max(vm.scheme().least_blocks(level)),
            false => reach.of(level),
        }))
    }

    /// A VM has come, the last one of this configuration. Returns its share.
    pub(crate) fn join(
        &mut self,
        new: &Config,
        started: Started,
        engine: EngineConfig,
        more_frames: u32,
    ) -> Quota {
        let Some(vm) = new.vms.last() else { return Quota::default() };
        let reach = started.largest_share.unwrap_or(started.share);
        let beside_bytes = self.beside_bytes(started.has_volume, more_frames.into());
        self.vms.push(Vm::new(&vm.name, started));
        self.tables.join(engine, vm.settings.clone(), beside_bytes);
        self.host = new.host.clone();
        self.take_rules(new);
        let in_force = |sizer: &HostSizer| {
            let share = sizer.shares().last().unwrap_or_default();
            share.map(|level, blocks| blocks.max(started.share.of(level)).min(reach.of(level)))
        };
        self.tell_first(in_force(&self.sizer));
        self.divide_for_others();
        in_force(&self.sizer)
    }

    /// A VM has gone. Returns the frames that the host has less without it.
    pub(crate) fn leave(&mut self, at: usize, old: &Config, new: &Config) -> u32 {
        let before = self.frames(old, None);
        let gone = self.vms.remove(at);
        let less_frames = before.saturating_sub(self.frames_without(at, new));
        self.tables.leave(at, self.beside_bytes(gone.started.has_volume, less_frames));
        self.take_rules(new);
        self.divide_for_others();
        u32::try_from(less_frames).unwrap_or(u32::MAX)
    }

    /// What a VM is guaranteed, and what one leaves behind, is not for the end of the interval.
    fn divide_for_others(&mut self) {
        if self.host.mode.measures() {
            for division in self.sizer.divide_again() {
                self.tell(&division);
            }
        }
        self.publish();
    }

    /// A VM's share in force, where the host gives it. A level that its scheme did not use for a moment is to be had again.
    pub(crate) fn share(&self, at: usize) -> Option<Quota> {
        let vm = &self.vms[at];
        let share = self.sizer.shares().nth(at).filter(|_| vm.started.largest_share.is_some())?;
        Some(share.with(Level::ReadSsd, vm.reach.read_ssd_blocks))
    }

    /// The largest share that a VM can be given, where shares grow.
    pub(crate) fn largest_share(&self, at: usize) -> Option<Quota> {
        let vm = &self.vms[at];
        vm.started.largest_share.map(|_| vm.reach)
    }

    /// A VM has another name.
    pub(crate) fn rename(&mut self, at: usize, to: &str) {
        let vm = &mut self.vms[at];
        self.sizer.rename(&vm.name, to);
        to.clone_into(&mut vm.name);
        self.publish();
    }

    /// Shares find space for so many places of the SSD together, in extents of so many.
    pub(crate) fn set_room(&mut self, config: &Config, places: u64, extent_places: u64) {
        let Some(room) = self.room else { return };
        let engines = self.vms.iter().zip(self.tables.engines());
        let volumes = engines.filter(|(vm, _)| vm.started.has_volume).map(|(_, engine)| engine);
        let shares = ssd_shares(places, extent_places, volumes);
        // What the host has is settled at the start.
        let dram = match config.host.bytes.get(Level::Dram) {
            Some(_) => room.dram_blocks,
            None => frames_of_host(config, self.tables.engines()).shares,
        };
        self.room = Some(Quota::new(dram, u32::try_from(shares).unwrap_or(u32::MAX)));
        self.take_rules(config);
        self.publish();
    }
}
