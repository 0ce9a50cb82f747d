//! A device that serves some commands at a time, each for a time that follows from where the one before ended and from a
//! seed. It must not know what the commands are for.

use std::collections::VecDeque;

use lode_types::{BlockNo, Rng};

/// A command's number.
pub(crate) type CommandId = u32;

/// Service times.
#[derive(Clone, Copy, Debug)]
pub struct DeviceModel {
    /// Commands served at a time.
    pub parallel: u32,
    /// To reach a block anywhere.
    pub random_ns: u64,
    /// To reach the next block after a pause, in which a disk has turned on.
    pub next_ns: u64,
    /// To reach the next block at once after the one before.
    pub stream_ns: u64,
    /// To read a block.
    pub read_block_ns: u64,
    /// To write a block.
    pub write_block_ns: u64,
    /// Each time is longer or shorter by up to this share, at most 100.
    pub jitter_percent: u32,
}

impl DeviceModel {
    /// A disk of 10,000 turns a minute without a write cache of its own: 2.5 ms to a place that an elevator and command
    /// queueing chose, a whole turn for the next block after a pause, 4 KiB at 120 MB/s. [assumed]
    pub const DISK_10K: DeviceModel = DeviceModel {
        parallel: 1,
        random_ns: 2_500_000,
        next_ns: 6_000_000,
        stream_ns: 0,
        read_block_ns: 34_000,
        write_block_ns: 34_000,
        jitter_percent: 20,
    };

    /// Memory that keeps its contents. [assumed: 2 us a block]
    pub const RAM: DeviceModel = DeviceModel {
        parallel: 1,
        random_ns: 0,
        next_ns: 0,
        stream_ns: 0,
        read_block_ns: 2_000,
        write_block_ns: 2_000,
        jitter_percent: 0,
    };

    /// A SATA SSD: 120 us to read, 60 us to write a block. [assumed]
    pub const SSD: DeviceModel = DeviceModel {
        parallel: 1,
        random_ns: 0,
        next_ns: 0,
        stream_ns: 0,
        read_block_ns: 120_000,
        write_block_ns: 60_000,
        jitter_percent: 20,
    };
}

/// A device with its queue, which is served in order of arrival.
#[derive(Debug)]
pub(crate) struct Device {
    model: DeviceModel,
    queue: VecDeque<(CommandId, Extent)>,
    busy: u32,
    next_block: BlockNo,
    ended_ns: u64,
    longest_queue: usize,
}

/// What a command moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub first_block: BlockNo,
    pub blocks: u32,
    pub write: bool,
}

impl Device {
    pub fn new(model: DeviceModel) -> Device {
        let model = DeviceModel { parallel: model.parallel.max(1), ..model };
        Device { model, queue: VecDeque::new(), busy: 0, next_block: 0, ended_ns: 0, longest_queue: 0 }
    }

    pub fn submit(&mut self, command: CommandId, extent: Extent) {
        self.queue.push_back((command, extent));
        self.longest_queue = self.longest_queue.max(self.queue.len());
    }

    /// Starts the next command, if one waits and the device can serve it: the command and its service time.
    pub fn start(&mut self, now_ns: u64, rng: &mut Rng) -> Option<(CommandId, u64)> {
        if self.busy == self.model.parallel {
            return None;
        }
        let (command, Extent { first_block, blocks, write }) = self.queue.pop_front()?;
        self.busy += 1;
        let model = &self.model;
        let reach_ns = match first_block == self.next_block {
            true if self.ended_ns == now_ns => model.stream_ns,
            true => model.next_ns,
            false => model.random_ns,
        };
        self.next_block = first_block + u64::from(blocks);
        let block_ns = if write { model.write_block_ns } else { model.read_block_ns };
        let ns = reach_ns + block_ns * u64::from(blocks);
        let jitter = u64::from(model.jitter_percent.min(100));
        Some((command, ns * (100 - jitter + rng.below(2 * jitter + 1)) / 100))
    }

    /// A command ended.
    pub fn end(&mut self, now_ns: u64) {
        self.busy -= 1;
        self.ended_ns = now_ns;
    }

    /// Most commands that ever waited.
    pub fn longest_queue(&self) -> usize {
        self.longest_queue
    }
}
