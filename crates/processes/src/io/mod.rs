//! Where writes go and what their completions mean: the cache's room, the order of writes of one block, destaging, and
//! the safety of writes that are issued again. It must not know processes beyond who waits for which write.

mod completions;

use std::collections::{BTreeMap, HashMap, VecDeque};

use lode_policy::criticality::{
    AdmissionPolicy, Device as By, ProcessId, Stall, SubmittedWrite, Verdict, WriteId,
};
use lode_types::{BlockNo, Rng};
use slab::Slab;

use crate::RunConfig;
use crate::cache::{Cache, Version};
use crate::device::{CommandId, Device, Transfer};
use crate::map::MapWrites;
use crate::recovery::Contents;
use crate::report::DeviceReport;
use crate::script::{IoTarget, Primitive, Script, WriteOp};
use crate::world::World;

/// What a device is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// The blocks of a write that go to the cache.
    Cache(WriteId),
    /// Its other blocks go to the disk.
    Disk(WriteId),
    /// What goes to the disk goes to the cache, too.
    Reissue(WriteId),
    DestageRead(BlockNo),
    DestageWrite(BlockNo, Version),
    /// A block of the map.
    Map(u64),
}

/// A command that some device has, or that waits for an older one of the same block.
#[derive(Debug)]
struct Command {
    work: Work,
    transfer: Transfer,
    /// Blocks for which it is not its turn.
    turns_missing: u32,
    /// How often the device will be through with it.
    parts_left: u32,
}

/// A write under way.
#[derive(Debug)]
pub(crate) struct Write {
    process: ProcessId,
    /// Its number among all that were submitted.
    submission: Version,
    op: WriteOp,
    verdict: Verdict,
    pub version: Version,
    /// Bit i: the block at i goes to the cache.
    in_cache: u64,
    /// Devices whose part is not durable.
    parts_left: u32,
    /// Commands that devices still have.
    commands_left: u32,
    acknowledged: bool,
    /// It was submitted while it was counted.
    counted: bool,
    disk_command: Option<CommandId>,
    waiters: Vec<ProcessId>,
}

impl Write {
    fn blocks(&self, in_cache: bool) -> impl Iterator<Item = BlockNo> + use<> {
        let (first, count, mask) = (self.op.first_block, self.op.blocks, self.in_cache);
        (0..count).filter(move |i| ((mask >> i) & 1 == 1) == in_cache).map(move |i| first + u64::from(i))
    }

    fn as_submitted(&self, id: WriteId, log_first_block: BlockNo) -> SubmittedWrite {
        let WriteOp { first_block, blocks, sync, .. } = self.op;
        SubmittedWrite { id, first_block, blocks, sync, log: first_block >= log_first_block }
    }
}

/// Devices, the cache's map, and all that is under way.
#[derive(Debug)]
pub(crate) struct Io {
    pub cache: Cache,
    pub contents: Option<Contents>,
    writes: Slab<Write>,
    commands: Slab<Command>,
    cache_device: Device,
    disks: Vec<Device>,
    map: MapWrites,
    log_first_block: BlockNo,
    /// Commands for the disk by block, in the order in which they must reach it.
    turns: HashMap<BlockNo, VecDeque<CommandId>>,
    /// Last write that has each tag.
    tags: Vec<Option<(WriteId, Version)>>,
    /// Last write of each block that is under way.
    newest: HashMap<BlockNo, (WriteId, Version)>,
    /// Writes under way by process, the oldest first.
    of_process: Vec<BTreeMap<Version, WriteId>>,
    stalled: VecDeque<WriteId>,
    /// Under way to each disk.
    destages: [u64; 2],
    /// Counts writes as they are submitted.
    submissions: Version,
    versions: Version,
    appended_blocks: u64,
    log_blocks: u64,
    rng: Rng,
}

impl Io {
    pub fn new(config: &RunConfig, script: &Script, tracks_contents: bool) -> Io {
        let disks = if script.separate_log_disk { 2 } else { 1 };
        Io {
            cache: Cache::new(
                config.cache_blocks,
                if script.separate_log_disk { script.log_first_block } else { BlockNo::MAX },
            ),
            contents: tracks_contents.then(Contents::default),
            writes: Slab::new(),
            commands: Slab::new(),
            cache_device: Device::new(config.cache),
            disks: (0..disks).map(|_| Device::new(config.disk)).collect(),
            map: MapWrites::new(&config.machine),
            log_first_block: script.log_first_block,
            turns: HashMap::new(),
            tags: vec![None; script.tags as usize],
            newest: HashMap::new(),
            of_process: vec![BTreeMap::new(); script.programs.len()],
            stalled: VecDeque::new(),
            destages: [0; 2],
            submissions: 0,
            versions: 0,
            appended_blocks: 0,
            log_blocks: script.log_blocks,
            rng: Rng::new(config.seed),
        }
    }

    /// The write to wait for, unless it is complete.
    pub fn find(&self, target: IoTarget) -> Option<WriteId> {
        let (write, _) = match target {
            IoTarget::Tag(tag) => self.tags[tag as usize],
            IoTarget::Block(block) => self.newest.get(&block).copied(),
        }?;
        Some(write)
    }

    /// The oldest write of a process that is under way.
    pub fn oldest_of(&self, process: ProcessId) -> Option<WriteId> {
        self.of_process[process as usize].values().next().copied()
    }

    pub fn add_waiter(&mut self, write: WriteId, process: ProcessId) {
        self.writes[write as usize].waiters.push(process);
    }

    /// Writes of which a completion is still to come.
    pub fn under_way(&self) -> usize {
        self.writes.len()
    }

    pub fn devices(&self) -> Vec<DeviceReport> {
        let names = ["cache", "disk", "log disk"];
        let loads = std::iter::once(&self.cache_device).chain(&self.disks).map(Device::load);
        names.into_iter().zip(loads).map(|(name, load)| DeviceReport::new(name, load)).collect()
    }

    /// Devices count anew.
    pub fn forget_loads(&mut self) {
        std::iter::once(&mut self.cache_device).chain(&mut self.disks).for_each(Device::forget_load);
    }

    /// What each device is doing or has waiting, for a power cut: the blocks, their version, and whether it is the
    /// cache. Commands that wait for their turn have not reached a device.
    pub fn at_devices(&self) -> Vec<(BlockNo, Version, By)> {
        let mut found = Vec::new();
        let commands = self.commands.iter().filter(|(_, command)| command.turns_missing == 0);
        for work in commands.map(|(_, command)| command.work).chain(self.map.riders()) {
            match work {
                Work::Cache(id) => self.list(id, true, By::Cache, &mut found),
                Work::Reissue(id) => self.list(id, false, By::Cache, &mut found),
                Work::Disk(id) => self.list(id, false, By::Disk, &mut found),
                Work::DestageWrite(block, version) => found.push((block, version, By::Disk)),
                Work::DestageRead(_) | Work::Map(_) => {}
            }
        }
        found
    }

    fn list(&self, id: WriteId, in_cache: bool, to: By, found: &mut Vec<(BlockNo, Version, By)>) {
        let write = &self.writes[id as usize];
        found.extend(write.blocks(in_cache).map(|block| (block, write.version, to)));
    }

    /// The next place in the log for so many blocks, at its beginning again when they do not fit at its end.
    pub fn append(&mut self, blocks: u32) -> BlockNo {
        if self.appended_blocks + u64::from(blocks) > self.log_blocks {
            self.appended_blocks = 0;
        }
        let first_block = self.log_first_block + self.appended_blocks;
        self.appended_blocks += u64::from(blocks);
        first_block
    }

    /// Remembers a new write under its names.
    fn insert(&mut self, process: ProcessId, op: &WriteOp) -> WriteId {
        let entry = self.writes.vacant_entry();
        let id = entry.key() as WriteId;
        self.submissions += 1;
        entry.insert(Write {
            process,
            submission: self.submissions,
            op: *op,
            verdict: Verdict::Disk,
            version: 0,
            in_cache: 0,
            parts_left: 0,
            commands_left: 0,
            acknowledged: false,
            counted: false,
            disk_command: None,
            waiters: Vec::new(),
        });
        let name = (id, self.submissions);
        if let Some(tag) = op.tag {
            self.tags[tag as usize] = Some(name);
        }
        for i in 0..u64::from(op.blocks) {
            self.newest.insert(op.first_block + i, name);
        }
        self.of_process[process as usize].insert(self.submissions, id);
        id
    }

    /// Forgets the names of a write that is complete now.
    fn forget_names(&mut self, id: WriteId) {
        let write = &self.writes[id as usize];
        let (process, op, submission) = (write.process, write.op, write.submission);
        self.of_process[process as usize].remove(&submission);
        if let Some(tag) = op.tag
            && let slot = &mut self.tags[tag as usize]
            && slot.is_some_and(|(other, _)| other == id)
        {
            *slot = None;
        }
        for block in op.first_block..op.first_block + u64::from(op.blocks) {
            if self.newest.get(&block).is_some_and(|(other, _)| *other == id) {
                self.newest.remove(&block);
            }
        }
    }

    fn disk_of(&self, block: BlockNo) -> usize {
        usize::from(block >= self.log_first_block).min(self.disks.len() - 1)
    }

    /// A command for the cache; a cache that serves several at a time gets one for each block, as from FlashCache.
    fn send_to_cache(&mut self, now_ns: u64, work: Work, blocks: u32, write: bool) {
        let (parts, part_blocks) = if self.cache_device.is_parallel() { (blocks, 1) } else { (1, blocks) };
        let transfer = Transfer { first_block: 0, blocks: part_blocks, write };
        let command = self.commands.insert(Command { work, transfer, turns_missing: 0, parts_left: parts });
        for _ in 0..parts {
            self.cache_device.submit(now_ns, command as CommandId, transfer);
        }
    }

    /// A command for a disk, when all older ones of its blocks are through.
    fn send_to_disk(&mut self, now_ns: u64, work: Work, blocks: &[BlockNo]) -> CommandId {
        let transfer = Transfer { first_block: blocks[0], blocks: blocks.len() as u32, write: true };
        let id =
            self.commands.insert(Command { work, transfer, turns_missing: 0, parts_left: 1 }) as CommandId;
        let mut missing = 0;
        for &block in blocks {
            let turns = self.turns.entry(block).or_default();
            missing += u32::from(!turns.is_empty());
            turns.push_back(id);
        }
        self.commands[id as usize].turns_missing = missing;
        if missing == 0 {
            let disk = self.disk_of(transfer.first_block);
            self.disks[disk].submit(now_ns, id, transfer);
        }
        id
    }

    /// The disk gets a copy from the cache. It needs no turn: it began when no write of the block was on its way, and until
    /// it is through every write of the block goes to the cache.
    fn send_destage(&mut self, now_ns: u64, block: BlockNo, version: Version) {
        let (work, transfer) =
            (Work::DestageWrite(block, version), Transfer { first_block: block, blocks: 1, write: true });
        let command = self.commands.insert(Command { work, transfer, turns_missing: 0, parts_left: 1 });
        let disk = self.disk_of(block);
        self.disks[disk].submit(now_ns, command as CommandId, transfer);
    }

    /// A command for the disk is through: the next ones of its blocks may go.
    fn end_turns(&mut self, now_ns: u64, blocks: &[BlockNo]) {
        for block in blocks {
            let Some(turns) = self.turns.get_mut(block) else { continue };
            turns.pop_front();
            let Some(&next) = turns.front() else {
                self.turns.remove(block);
                continue;
            };
            let command = &mut self.commands[next as usize];
            command.turns_missing -= 1;
            if command.turns_missing == 0 {
                let transfer = command.transfer;
                let disk = self.disk_of(transfer.first_block);
                self.disks[disk].submit(now_ns, next, transfer);
            }
        }
    }
}

impl World {
    /// A process writes. True: it goes on at once.
    pub(crate) fn write(&mut self, process: ProcessId, op: &WriteOp) -> bool {
        let id = self.io.insert(process, op);
        let submitted = self.io.writes[id as usize].as_submitted(id, self.io.log_first_block);
        let verdict = self.admission.on_submit(process, &submitted);
        let warm = self.warm();
        let write = &mut self.io.writes[id as usize];
        (write.verdict, write.counted) = (verdict, warm);
        let counts = &mut self.tally.writes;
        counts.submitted += 1;
        counts.submitted_blocks += u64::from(op.blocks);
        if op.sync {
            counts.sync += 1;
            counts.sync_blocks += u64::from(op.blocks);
        }
        self.tally.written_blocks[process as usize][usize::from(!op.sync)] += u64::from(op.blocks);
        let counts = &mut self.tally.writes;
        if verdict == Verdict::Cache {
            counts.admitted += 1;
            if self.config.admission.policy >= AdmissionPolicy::Cp {
                let by_hint = op.sync && self.admission.is_critical(process);
                self.tally.critical[usize::from(!by_hint)].add(op.data, op.sync);
            }
        }
        self.route(id, false);
        if op.waits {
            self.wait_for_write(process, id, Primitive::SyncWrite);
        }
        self.keep_devices_busy();
        !op.waits
    }

    /// Sends a write's blocks to where they belong. One that waits for room is tried again later.
    fn route(&mut self, id: WriteId, again: bool) {
        let write = &self.io.writes[id as usize];
        let (first, count, verdict) = (write.op.first_block, write.op.blocks, write.verdict);
        let blocks: Vec<BlockNo> = (first..first + u64::from(count)).collect();
        let has_space = verdict == Verdict::Cache && self.io.cache.reserve(&blocks);
        if verdict == Verdict::Cache && !has_space {
            if !again {
                self.tally.writes.stalled += 1;
                self.tally.writes.stalled_blocks += u64::from(count);
            }
            let can_wait = count as usize <= self.io.cache.capacity_blocks();
            if self.config.admission.stall == Stall::Wait && can_wait {
                // In order: the first to wait is the first to be served.
                if again {
                    self.io.stalled.push_front(id)
                } else {
                    self.io.stalled.push_back(id)
                }
                return;
            }
        }
        self.io.versions += 1;
        let version = self.io.versions;
        let mut in_cache = if has_space { u64::MAX } else { 0 };
        if !has_space {
            for (i, &block) in blocks.iter().enumerate() {
                if self.io.cache.must_take(block) && self.io.cache.reserve(&[block]) {
                    in_cache |= 1 << i;
                } else {
                    self.io.cache.invalidate(block);
                }
            }
        }
        let write = &mut self.io.writes[id as usize];
        (write.version, write.in_cache) = (version, in_cache);
        let cached = write.blocks(true).count() as u32;
        let to_disk: Vec<BlockNo> = write.blocks(false).collect();
        write.parts_left = u32::from(cached > 0) + u32::from(!to_disk.is_empty());
        write.commands_left = write.parts_left;
        if let Some(contents) = &mut self.io.contents {
            contents.sent(&blocks, version);
        }
        if cached > 0 {
            self.tally.writes.cached += 1;
            self.tally.writes.cached_blocks += u64::from(cached);
            self.io.send_to_cache(self.clock.now_ns, Work::Cache(id), cached, true);
        }
        if !to_disk.is_empty() {
            self.tally.writes.disk += 1;
            let command = self.io.send_to_disk(self.clock.now_ns, Work::Disk(id), &to_disk);
            let write = &mut self.io.writes[id as usize];
            write.disk_command = Some(command);
            if verdict == Verdict::Disk {
                self.admission.on_disk(&write.as_submitted(id, self.io.log_first_block));
            }
        }
    }

    /// Somebody critical waits for a write that is on its way to the disk.
    pub(crate) fn reissue(&mut self, id: WriteId) {
        let write = &self.io.writes[id as usize];
        let blocks: Vec<BlockNo> = write.blocks(false).collect();
        // A newer write of the same block waits for the disk behind this one. A copy in the cache would count as newer
        // than what that one writes.
        let is_newest =
            |block| self.io.turns.get(block).and_then(VecDeque::back).copied() == write.disk_command;
        if !blocks.iter().all(is_newest) || !self.io.cache.reserve(&blocks) {
            self.tally.writes.reissues_refused += 1;
            self.admission.on_no_space(id);
            return;
        }
        let (data, sync) = (write.op.data, write.op.sync);
        self.tally.critical[2].add(data, sync);
        let counts = &mut self.tally.writes;
        counts.reissued += 1;
        counts.cached += 1;
        counts.cached_blocks += blocks.len() as u64;
        self.io.writes[id as usize].commands_left += 1;
        self.io.send_to_cache(self.clock.now_ns, Work::Reissue(id), blocks.len() as u32, true);
        self.keep_devices_busy();
    }
}
