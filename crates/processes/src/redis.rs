//! A key-value store like Redis before ext4, after the paper's sections 6 and 7.3: one thread an instance serves all
//! clients in turn and makes their updates durable before it answers; snapshots are written beside it. It is a model.

use lode_types::Rng;

use crate::background::{Journal, Rounds, about_ns, cpu_us};
use crate::script::{DataKind, EventInfo, Mode, Primitive, Program, Script, Step, WriteOp};
use crate::{RequestsError, check};

/// How the model works. Values are [assumed] where nothing else is said.
#[derive(Clone, Copy, Debug)]
pub struct RedisSettings {
    /// Independent instances on one disk. 4 (paper, section 7.3).
    pub instances: u32,
    /// Clients of each instance, each with one request at a time. 40 (paper, section 7.3).
    pub clients: u32,
    /// Processor time of a request, in microseconds. 50.
    pub request_cpu_us: u64,
    /// Updates among a hundred requests. 50 (YCSB's workload A; B has 5).
    pub updates_percent: u64,
    /// Updates that fill a block of the command log. 4: records of 1 KB (paper, section 7.3).
    pub updates_per_block: u64,
    /// Blocks of a snapshot. 32,768: 128 MiB, a fourth of the paper's data set, for shorter runs.
    pub snapshot_blocks: u64,
    /// Pause between two snapshots of an instance, in microseconds. 10,000,000.
    pub snapshot_interval_us: u64,
    /// Blocks of a write of the kernel's writer. 64.
    pub writeback_blocks: u32,
    /// Writes that it has under way at most. 16.
    pub writeback_depth: u64,
    /// Everything random follows from it.
    pub seed: u64,
}

impl Default for RedisSettings {
    fn default() -> RedisSettings {
        RedisSettings {
            instances: 4,
            clients: 40,
            request_cpu_us: 50,
            updates_percent: 50,
            updates_per_block: 4,
            snapshot_blocks: 32_768,
            snapshot_interval_us: 10_000_000,
            writeback_blocks: 64,
            writeback_depth: 16,
            seed: 1,
        }
    }
}

const TRANSACTION: u32 = 0;
const FIRST_FILE: u32 = 1;
const COMMIT: u32 = 0;
const WRITEBACK: u32 = 1;
const WRITTEN: u32 = 2;
const JOURNAL_BLOCKS: u64 = 32_768;
const LOG_FIRST_BLOCK: u64 = 1 << 32;
/// 256 MiB; rewritten logs are not modelled.
const LOG_BLOCKS: u64 = 65_536;
/// Synchronous blocks at the end of a snapshot.
const SNAPSHOT_TAIL: u64 = 8;
/// The kernel's timer commits the journal every five seconds (ext4's default).
const JOURNAL_INTERVAL_US: u64 = 5_000_000;

impl RedisSettings {
    /// The processes of these instances.
    ///
    /// # Errors
    /// When a setting is outside its range.
    pub fn script(&self) -> Result<Script, RequestsError> {
        check("instances", self.instances.into(), 1..=1024, "1 to 1024")?;
        check("clients", self.clients.into(), 1..=4096, "1 to 4096")?;
        check("request_cpu_us", self.request_cpu_us, 1..=1_000_000, "1 to 1000000")?;
        check("updates_percent", self.updates_percent, 0..=100, "0 to 100")?;
        check("updates_per_block", self.updates_per_block, 1..=4096, "1 to 4096")?;
        check("snapshot_blocks", self.snapshot_blocks, 64..=1 << 24, "64 to 16777216")?;
        check("snapshot_interval_us", self.snapshot_interval_us, 1000..=3_600_000_000, "1000 to 3600000000")?;
        check("writeback_blocks", self.writeback_blocks.into(), 1..=64, "1 to 64")?;
        check("writeback_depth", self.writeback_depth, 1..=4096, "1 to 4096")?;
        let mut seeds = Rng::new(self.seed);
        let mut rng = || Rng::new(seeds.bits());
        let journal = self.journal();
        let mut programs: Vec<Box<dyn Program>> =
            (0..self.instances).map(|file| self.server(file, rng())).collect();
        programs.extend((0..self.instances).map(|_| self.snapshotter(rng())));
        programs.extend([
            self.writeback(rng()),
            journal.timer(JOURNAL_INTERVAL_US, rng()),
            journal.program(rng()),
        ]);
        let (jbd2, kworker) = (programs.len() as u32 - 1, programs.len() as u32 - 3);
        let mut locks = vec![Primitive::TransactionLocked];
        locks.extend((0..self.instances).map(|_| Primitive::Mutex));
        let event = |primitive, deliverers| EventInfo { primitive, deliverers };
        Ok(Script {
            programs,
            locks,
            events: vec![
                event(Primitive::LogWaitCommit, vec![jbd2]),
                event(Primitive::Other, Vec::new()),
                event(Primitive::Other, vec![kworker]),
            ],
            tags: self.instances + 1,
            log_first_block: LOG_FIRST_BLOCK,
            log_blocks: LOG_BLOCKS,
            separate_log_disk: false,
        })
    }

    /// Commits order the data that the kernel's writer has under way.
    fn journal(&self) -> Journal {
        Journal {
            transaction: TRANSACTION,
            commit: COMMIT,
            files: self.instances,
            first_block: 0,
            blocks: JOURNAL_BLOCKS,
            ordered_tag: Some(self.instances),
        }
    }

    /// A critical process: a round serves every client once. The log grew, so that it is only durable when the journal has
    /// committed its new length.
    fn server(&self, file: u32, rng: Rng) -> Box<dyn Program> {
        let (settings, journal) = (*self, self.journal());
        Rounds::boxed(rng, move |round, rng, ops| {
            if round == 0 {
                ops.push_back(Step::SetCritical(true));
            }
            ops.push_back(Step::RequestBegin);
            ops.push_back(Step::Cpu {
                ns: about_ns(settings.request_cpu_us * u64::from(settings.clients), rng),
            });
            let updates =
                (0..settings.clients).filter(|_| rng.chance(settings.updates_percent)).count() as u64;
            let mut blocks = updates.div_ceil(settings.updates_per_block);
            if blocks > 0 {
                ops.push_back(Step::Lock { lock: FIRST_FILE + file, mode: Mode::Write });
                journal.change(file, ops);
                ops.push_back(Step::Unlock { lock: FIRST_FILE + file });
                while blocks > 0 {
                    let now = blocks.min(64);
                    ops.push_back(Step::Append { blocks: now as u32 });
                    blocks -= now;
                }
                ops.push_back(Step::Call { event: COMMIT });
            }
            ops.push_back(Step::RequestEnd { requests: settings.clients });
        })
    }

    /// Hands a snapshot to the kernel piece by piece, then makes its end durable.
    fn snapshotter(&self, rng: Rng) -> Box<dyn Program> {
        let settings = *self;
        let pieces = self.snapshot_blocks / (u64::from(self.writeback_blocks) * self.writeback_depth);
        Rounds::boxed(rng, move |_, rng, ops| {
            ops.push_back(Step::Cpu { ns: about_ns(settings.snapshot_interval_us, rng) });
            for _ in 0..pieces {
                ops.push_back(cpu_us(1000));
                ops.push_back(Step::Signal { event: WRITEBACK });
                ops.push_back(Step::Wait { event: WRITTEN });
            }
            let first = JOURNAL_BLOCKS + rng.below(settings.snapshot_blocks);
            ops.extend((0..SNAPSHOT_TAIL).map(|i| {
                Step::Write(WriteOp {
                    tag: None,
                    first_block: first + i,
                    blocks: 1,
                    sync: true,
                    waits: true,
                    data: DataKind::Db,
                })
            }));
            ops.push_back(Step::Call { event: COMMIT });
        })
    }

    /// The kernel's writer: pieces of snapshots, one after the other through the file.
    fn writeback(&self, rng: Rng) -> Box<dyn Program> {
        let settings = *self;
        let (blocks, depth) = (u64::from(self.writeback_blocks), self.writeback_depth);
        let area = self.snapshot_blocks.max(blocks) * u64::from(self.instances);
        Rounds::boxed(rng, move |round, _, ops| {
            ops.push_back(Step::Wait { event: WRITEBACK });
            for i in 0..depth {
                let first_block = JOURNAL_BLOCKS + (round * depth + i) % (area / blocks) * blocks;
                ops.push_back(Step::Write(WriteOp {
                    tag: Some(settings.instances),
                    first_block,
                    blocks: settings.writeback_blocks,
                    sync: false,
                    waits: false,
                    data: DataKind::Db,
                }));
            }
            ops.push_back(Step::Fsync);
            ops.push_back(Step::Signal { event: WRITTEN });
        })
    }
}
