//! A device that serves some commands at a time, chosen among those that wait, each for a time that follows from where its
//! head is and from a seed. It must not know what the commands are for.

use std::collections::VecDeque;

use lode_types::{BlockNo, Rng};

/// A command's number.
pub(crate) type CommandId = u32;

/// Service times.
#[derive(Clone, Copy, Debug)]
pub struct DeviceModel {
    /// Commands served at a time.
    pub parallel: u32,
    /// Commands that wait longest, of which the one that is reached soonest comes next. 1: in order of arrival.
    pub window: u32,
    /// A command that has waited so long comes next, wherever it is.
    pub expiry_ns: u64,
    /// Of each command that reads, before anything else.
    pub read_ns: u64,
    /// Of each command that writes.
    pub write_ns: u64,
    /// To read a block.
    pub read_block_ns: u64,
    /// To write a block.
    pub write_block_ns: u64,
    /// Each time is longer or shorter by up to this share, at most 100; not of what turns.
    pub jitter_percent: u32,
    /// What turns, if anything does.
    pub disk: Option<Platter>,
}

/// A turning disk with one head: to reach a block it seeks, and waits until the block comes by.
#[derive(Clone, Copy, Debug)]
pub struct Platter {
    /// One turn.
    pub turn_ns: u64,
    /// To the next track but one.
    pub seek_min_ns: u64,
    /// Over all blocks. Between the two a seek grows with the square root of its length.
    pub seek_max_ns: u64,
    /// All blocks.
    pub span_blocks: u64,
}

impl DeviceModel {
    /// Of a command and of each block.
    fn costs(&self, write: bool) -> (u64, u64) {
        if write { (self.write_ns, self.write_block_ns) } else { (self.read_ns, self.read_block_ns) }
    }
}

impl Platter {
    /// From one block to another, the time of the seek and of what is left of the turn then.
    fn reach_ns(&self, from: BlockNo, to: BlockNo, now_ns: u64, block_ns: u64) -> u64 {
        let turn_ns = self.turn_ns.max(1);
        let distance = from.abs_diff(to);
        let track_blocks = turn_ns / block_ns.max(1);
        let seek_ns = if distance <= track_blocks {
            0
        } else {
            let part = (distance as f64 / self.span_blocks.max(1) as f64).min(1.0).sqrt();
            self.seek_min_ns + (self.seek_max_ns.saturating_sub(self.seek_min_ns) as f64 * part) as u64
        };
        // Blocks lie one behind the other on one long spiral.
        let angle_ns = (to % turn_ns) * (block_ns % turn_ns) % turn_ns;
        let arrives_ns = (now_ns + seek_ns) % turn_ns;
        seek_ns + (angle_ns + turn_ns - arrives_ns) % turn_ns
    }
}

/// A command that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    command: CommandId,
    transfer: Transfer,
    since_ns: u64,
}

/// A device with its queue.
#[derive(Debug)]
pub(crate) struct Device {
    model: DeviceModel,
    queue: VecDeque<Waiting>,
    busy: u32,
    head: BlockNo,
    load: DeviceLoad,
}

/// What a device had to do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceLoad {
    /// Commands that it began.
    pub commands: u64,
    /// Time that they waited, in nanoseconds.
    pub waited_ns: u64,
    /// Time that it served them, in nanoseconds.
    pub served_ns: u64,
    /// Most that waited.
    pub longest_queue: usize,
}

/// What a command moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub first_block: BlockNo,
    pub blocks: u32,
    pub write: bool,
}

impl Device {
    pub fn new(model: DeviceModel) -> Device {
        let model = DeviceModel { parallel: model.parallel.max(1), window: model.window.max(1), ..model };
        Device { model, queue: VecDeque::new(), busy: 0, head: 0, load: DeviceLoad::default() }
    }

    /// Whether it serves several commands at a time.
    pub fn is_parallel(&self) -> bool {
        self.model.parallel > 1
    }

    pub fn submit(&mut self, now_ns: u64, command: CommandId, transfer: Transfer) {
        self.queue.push_back(Waiting { command, transfer, since_ns: now_ns });
        self.load.longest_queue = self.load.longest_queue.max(self.queue.len());
    }

    /// Starts the next command, if one waits and the device can serve it: the command and its service time.
    pub fn start(&mut self, now_ns: u64, rng: &mut Rng) -> Option<(CommandId, u64)> {
        if self.busy == self.model.parallel {
            return None;
        }
        let chosen = self.choose(now_ns)?;
        let Waiting { command, transfer, since_ns } = self.queue.remove(chosen)?;
        self.busy += 1;
        let model = &self.model;
        let (command_ns, block_ns) = model.costs(transfer.write);
        let mut ns = command_ns + block_ns * u64::from(transfer.blocks);
        match &model.disk {
            Some(disk) => ns += disk.reach_ns(self.head, transfer.first_block, now_ns + command_ns, block_ns),
            None => {
                let jitter = u64::from(model.jitter_percent.min(100));
                ns = ns * (100 - jitter + rng.below(2 * jitter + 1)) / 100;
            }
        }
        self.head = transfer.first_block.saturating_add(u64::from(transfer.blocks));
        self.load.commands += 1;
        self.load.waited_ns += now_ns - since_ns;
        self.load.served_ns += ns;
        Some((command, ns))
    }

    /// Which of those that wait longest comes next.
    fn choose(&self, now_ns: u64) -> Option<usize> {
        let oldest = self.queue.front()?;
        let Some(disk) = &self.model.disk else { return Some(0) };
        if now_ns - oldest.since_ns >= self.model.expiry_ns {
            return Some(0);
        }
        let reach_ns = |waiting: &Waiting| {
            let (command_ns, block_ns) = self.model.costs(waiting.transfer.write);
            disk.reach_ns(self.head, waiting.transfer.first_block, now_ns + command_ns, block_ns)
        };
        let window = self.queue.iter().take(self.model.window as usize);
        window.enumerate().min_by_key(|(_, waiting)| reach_ns(waiting)).map(|(at, _)| at)
    }

    /// A command ended.
    pub fn end(&mut self) {
        self.busy -= 1;
    }

    /// What it had to do since this was last forgotten.
    pub fn load(&self) -> DeviceLoad {
        self.load
    }

    /// Counts anew.
    pub fn forget_load(&mut self) {
        self.load = DeviceLoad { longest_queue: self.queue.len(), ..DeviceLoad::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(window: u32) -> Device {
        let platter = Platter {
            turn_ns: 6_000_000,
            seek_min_ns: 500_000,
            seek_max_ns: 8_000_000,
            span_blocks: 1 << 20,
        };
        Device::new(DeviceModel {
            parallel: 1,
            window,
            expiry_ns: 5_000_000_000,
            read_ns: 0,
            write_ns: 0,
            read_block_ns: 30_000,
            write_block_ns: 30_000,
            jitter_percent: 0,
            disk: Some(platter),
        })
    }

    fn write(first_block: BlockNo) -> Transfer {
        Transfer { first_block, blocks: 1, write: true }
    }

    fn serve(device: &mut Device, now_ns: u64) -> (CommandId, u64) {
        let started = device.start(now_ns, &mut Rng::new(1)).unwrap();
        device.end();
        started
    }

    #[test]
    fn the_next_block_costs_nothing_at_once_and_the_rest_of_a_turn_later() {
        let mut device = disk(1);
        device.submit(0, 0, write(0));
        assert_eq!(serve(&mut device, 0), (0, 30_000));
        device.submit(30_000, 1, write(1));
        assert_eq!(serve(&mut device, 30_000), (1, 30_000));
        device.submit(60_000, 2, write(2));
        assert_eq!(serve(&mut device, 1_060_000), (2, 5_000_000 + 30_000));
    }

    #[test]
    fn a_gap_is_turned_over_and_a_long_way_is_a_seek() {
        let mut device = disk(1);
        device.submit(0, 0, write(10));
        assert_eq!(serve(&mut device, 0), (0, 10 * 30_000 + 30_000));
        device.submit(0, 1, write(1 << 20));
        let (_, ns) = serve(&mut device, 330_000);
        assert!((7_900_000..8_000_000 + 6_030_000).contains(&ns), "{ns}");
    }

    #[test]
    fn the_soonest_reached_comes_next_unless_one_has_waited_too_long() {
        for (now_ns, first) in [(0, 1), (5_000_000_000, 0)] {
            let mut device = disk(8);
            device.submit(0, 0, write(100_000));
            device.submit(0, 1, write(3));
            assert_eq!(serve(&mut device, now_ns).0, first);
        }
    }
}
