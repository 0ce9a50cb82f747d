//! What the completions of devices mean: for the cache's map, for writes that two devices have, for whoever waits, and what
//! devices do next. It must not know why a write went where it did.

use lode_policy::criticality::{CompletionVerdict, Device as By, WriteId};
use lode_types::BlockNo;

use super::{Command, Io, Work};
use crate::cache::Version;
use crate::device::CommandId;
use crate::world::{Happening, World};

impl World {
    /// A device is through with a command.
    pub(crate) fn command_done(&mut self, command: CommandId) {
        let Command { work, transfer, ref mut parts_left, .. } = self.io.commands[command as usize];
        *parts_left -= 1;
        let whole = *parts_left == 0;
        let now_ns = self.clock.now_ns;
        match work {
            Work::Cache(_) | Work::Reissue(_) | Work::DestageRead(_) | Work::Map(_) => {
                self.io.cache_device.end();
            }
            Work::Disk(_) | Work::DestageWrite(..) => {
                let disk = self.io.disk_of(transfer.first_block);
                self.io.disks[disk].end();
            }
        }
        if !whole {
            self.keep_devices_busy();
            return;
        }
        self.io.commands.remove(command as usize);
        match work {
            Work::Cache(id) | Work::Reissue(id) if self.io.map.is_on_cache() => {
                let first_block = self.io.writes[id as usize].op.first_block;
                self.write_map(first_block, Some(work));
            }
            Work::Cache(_) | Work::Reissue(_) => self.in_cache_for_good(work),
            Work::Map(block) => {
                let (riders, again) = self.io.map.written(block);
                riders.into_iter().for_each(|work| self.in_cache_for_good(work));
                if again {
                    self.send_map(block);
                }
            }
            Work::Disk(id) => self.disk_done(id),
            Work::DestageRead(block) => {
                let version = self.io.cache.version(block);
                self.io.send_destage(now_ns, block, version);
            }
            Work::DestageWrite(block, version) => {
                if let Some(contents) = &mut self.io.contents {
                    contents.on_disk(&[block], version);
                }
                self.io.cache.destaged(block, version);
                let disk = self.io.disk_of(block);
                self.io.destages[disk] -= 1;
                self.tally.writes.destaged_blocks += 1;
                if self.io.map.is_on_cache() {
                    self.write_map(block, None);
                }
            }
        }
        self.retry_stalled();
        self.keep_devices_busy();
    }

    /// The entry of a block of the cache changed. Who waits for that rides along.
    fn write_map(&mut self, first_block: BlockNo, rider: Option<Work>) {
        if let Some(block) = self.io.map.change(first_block, rider) {
            self.send_map(block);
        }
    }

    fn send_map(&mut self, block: u64) {
        self.tally.writes.map_writes += 1;
        self.io.send_to_cache(self.clock.now_ns, Work::Map(block), 1, true);
    }

    /// The blocks of a write are in the cache, and the map says so.
    fn in_cache_for_good(&mut self, work: Work) {
        match work {
            Work::Cache(id) => {
                self.arrived_in_cache(id, true, true);
                self.part_done(id);
                self.command_ended(id);
            }
            Work::Reissue(id) => self.reissue_done(id),
            Work::Disk(_) | Work::DestageRead(_) | Work::DestageWrite(..) | Work::Map(_) => {}
        }
    }

    fn disk_done(&mut self, id: WriteId) {
        let write = &self.io.writes[id as usize];
        let (blocks, version): (Vec<BlockNo>, _) = (write.blocks(false).collect(), write.version);
        self.arrived_on_disk(&blocks, version);
        self.completed(id, By::Disk, true);
    }

    fn reissue_done(&mut self, id: WriteId) {
        let ok = !self.io.rng.chance(self.config.machine.reissue_failures_percent);
        self.arrived_in_cache(id, false, ok);
        self.completed(id, By::Cache, ok);
    }

    /// One of the devices that have the same blocks of a write is through.
    fn completed(&mut self, id: WriteId, from: By, ok: bool) {
        match self.admission.on_complete(id, from, ok) {
            CompletionVerdict::Acknowledge => self.part_done(id),
            CompletionVerdict::Discard => {
                let counted = self.io.writes[id as usize].counted;
                self.tally.writes.discarded_completions += u64::from(counted);
            }
            // The disk never fails here, so that it still has the write.
            CompletionVerdict::Wait | CompletionVerdict::Fail => {}
        }
        self.command_ended(id);
    }

    fn arrived_in_cache(&mut self, id: WriteId, in_cache: bool, ok: bool) {
        let write = &self.io.writes[id as usize];
        let version = write.version;
        write.blocks(in_cache).for_each(|block| self.io.cache.written(block, version, ok));
    }

    fn arrived_on_disk(&mut self, blocks: &[BlockNo], version: Version) {
        if let Some(contents) = &mut self.io.contents {
            contents.on_disk(blocks, version);
        }
        self.io.end_turns(self.clock.now_ns, blocks);
    }

    /// A part of a write is durable; with the last one it is acknowledged.
    fn part_done(&mut self, id: WriteId) {
        let write = &mut self.io.writes[id as usize];
        write.parts_left -= 1;
        if write.parts_left > 0 {
            return;
        }
        assert!(!std::mem::replace(&mut write.acknowledged, true), "write {id} is acknowledged twice");
        self.tally.writes.acknowledged += u64::from(write.counted);
        let waiters = std::mem::take(&mut write.waiters);
        let (first, count, version) = (write.op.first_block, u64::from(write.op.blocks), write.version);
        if let Some(contents) = &mut self.io.contents {
            contents.acknowledged(first..first + count, version);
        }
        self.io.forget_names(id);
        waiters.into_iter().for_each(|process| self.unblock(process));
    }

    /// A device has a command of this write no longer; after the last its number may be used again.
    fn command_ended(&mut self, id: WriteId) {
        let write = &mut self.io.writes[id as usize];
        write.commands_left -= 1;
        if write.commands_left == 0 {
            assert!(write.acknowledged, "write {id} was lost");
            self.io.writes.remove(id as usize);
        }
    }

    fn retry_stalled(&mut self) {
        while let Some(id) = self.io.stalled.pop_front() {
            self.route(id, true);
            if self.io.stalled.front() == Some(&id) {
                return;
            }
        }
    }

    /// Begins what can begin: destages when too much is dirty, and commands on devices that are free.
    pub(crate) fn keep_devices_busy(&mut self) {
        for disk in 0..self.io.disks.len() {
            self.destage(disk);
        }
        let now_ns = self.clock.now_ns;
        let Io { cache_device, disks, rng, .. } = &mut self.io;
        for device in std::iter::once(cache_device).chain(disks) {
            while let Some((command, ns)) = device.start(now_ns, rng) {
                self.clock.after(ns, Happening::Done(command));
            }
        }
    }

    /// Begins to destage to a disk, so many blocks at a time, while too much is dirty.
    fn destage(&mut self, disk: usize) {
        let limit = self.io.cache.capacity_blocks() as u64 * self.config.machine.dirty_percent / 100;
        while self.io.destages[disk] < self.config.machine.destages
            && (self.io.cache.dirty_blocks() as u64 > limit + self.io.destages.iter().sum::<u64>()
                || !self.io.stalled.is_empty())
        {
            let Io { cache, turns, .. } = &mut self.io;
            // Also where nothing was issued again an older write may be on its way.
            let may_go = |block| !turns.contains_key(&block) && !self.admission.holds_destage(block);
            let Some(block) = cache.take_to_destage(disk, may_go) else { break };
            self.io.destages[disk] += 1;
            self.io.send_to_cache(self.clock.now_ns, Work::DestageRead(block), 1, false);
        }
    }
}
