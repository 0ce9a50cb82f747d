//! A key-value store like Redis before ext4, after the paper's sections 6 and 7.3: one thread an instance serves all
//! clients in turn and makes their updates durable before it answers; snapshots are written beside it. It is a model.

use lode_types::Rng;

use crate::RequestsError;
use crate::background::{Journal, Rounds, about_ns, cpu_us};
use crate::script::{DataKind, EventInfo, Mode, Primitive, Program, Script, Step, WriteOp};
use crate::settings::numbers;

numbers! {
    /// How the model works.
    RedisSettings, "redis" {
        instances = 4, 1..=1024, "independent instances on one disk", "paper, section 7.3";
        clients = 40, 1..=4096, "clients of each instance, each with one request at a time", "paper, section 7.3";
        request_cpu_us = 50, 1..=1000000, "mean processor time of a request, in microseconds", "assumed";
        spread_percent = 50, 0..=100, "per cent of their means by which this time and the pause between snapshots are shorter or longer at most", "assumed";
        updates_percent = 50, 0..=100, "updates among a hundred requests", "YCSB: 50 of workload A, 5 of B";
        updates_per_block = 4, 1..=4096, "updates that fill a block of the command log", "paper, section 7.3: records of 1 KB";
        append_blocks = 64, 1..=64, "blocks that an instance writes to its log at a time, at most", "Linux: a write of 256 KiB is one request";
        log_blocks = 65536, 64..=1073741824, "blocks of the logs, which are written round and round", "assumed: 256 MiB; rewritten logs are not modelled";
        log_first_block = 4294967296, 1..=1099511627776, "number of the logs' first block, behind all others", "ours: as far behind as a disk reaches";
        log_disk = 0, 0..=1, "1: the logs have a disk of their own; 0: they have not", "paper, section 7.3, names none";
        snapshot_blocks = 131072, 64..=16777216, "blocks of a snapshot", "paper, section 7.3: 0.5 million objects of 1 KB";
        snapshot_interval_us = 60000000, 1000..=3600000000, "pause between two snapshots of an instance, in microseconds", "Redis: 60 s after 10,000 changes";
        snapshot_mib_cpu_us = 8000, 1..=1000000, "processor time for a MiB of a snapshot, in microseconds", "assumed: 125 MiB a second";
        snapshot_tail_blocks = 8, 0..=65536, "blocks of a snapshot that its process itself writes at the end, synchronously", "assumed";
        writeback_blocks = 64, 1..=64, "blocks of a write of the kernel's writer", "assumed";
        writeback_depth = 16, 1..=4096, "writes that it has under way at most", "Linux: 4 MiB a turn";
        journal_interval_us = 5000000, 1000..=3600000000, "microseconds between commits of a journal that nobody asked for", "ext4: 5 s";
        journal_blocks = 32768, 3..=1073741824, "blocks of the journal, two more than instances at least", "ext4: 128 MiB";
        metadata_cpu_us = 5, 1..=1000000, "processor time in which a buffer of metadata is changed, in microseconds", "assumed";
        journal_close_cpu_us = 20, 1..=1000000, "processor time in which the journal closes a transaction, in microseconds", "assumed";
    }
}

const TRANSACTION: u32 = 0;
const FIRST_FILE: u32 = 1;
const COMMIT: u32 = 0;
const WRITEBACK: u32 = 1;
const WRITTEN: u32 = 2;

impl RedisSettings {
    /// The processes of these instances. Everything random follows from the seed.
    ///
    /// # Errors
    /// When a setting is outside its range.
    pub fn script(&self, seed: u64) -> Result<Script, RequestsError> {
        self.check()?;
        crate::check(
            "journal_blocks",
            self.journal_blocks,
            Journal::commit_blocks(self.instances)..=1 << 30,
        )?;
        crate::check("log_first_block", self.log_first_block, self.data_end()..=1 << 40)?;
        let mut seeds = Rng::new(seed);
        let mut rng = || Rng::new(seeds.bits());
        let journal = self.journal();
        let mut programs: Vec<Box<dyn Program>> =
            (0..self.instances as u32).map(|file| self.server(file, rng())).collect();
        programs.extend((0..self.instances).map(|_| self.snapshotter(rng())));
        programs.extend([
            self.writeback(rng()),
            journal.timer(self.journal_interval_us, rng()),
            journal.program(rng()),
        ]);
        let mut roles = vec!["servers"; self.instances as usize];
        roles.resize(2 * roles.len(), "snapshots");
        roles.extend(["kworker", "timer", "jbd2"]);
        let (jbd2, kworker) = (programs.len() as u32 - 1, programs.len() as u32 - 3);
        let mut locks = vec![Primitive::TransactionLocked];
        locks.extend((0..self.instances).map(|_| Primitive::Mutex));
        let event = |primitive, deliverers| EventInfo { primitive, deliverers };
        Ok(Script {
            programs,
            roles: roles.into_iter().map(str::to_owned).collect(),
            locks,
            events: vec![
                event(Primitive::LogWaitCommit, vec![jbd2]),
                event(Primitive::Other, Vec::new()),
                event(Primitive::Other, vec![kworker]),
            ],
            tags: self.ordered_tag() + 1,
            log_first_block: self.log_first_block,
            log_blocks: self.log_blocks,
            separate_log_disk: self.log_disk == 1,
        })
    }

    /// Blocks of snapshots lie behind the journal, those of one instance after the other's.
    fn snapshots_blocks(&self) -> u64 {
        self.snapshot_blocks.max(self.writeback_blocks) * self.instances
    }

    /// The end of a snapshot may lie behind the others.
    fn data_end(&self) -> u64 {
        let tail_end = self.snapshot_blocks + self.snapshot_tail_blocks;
        self.journal_blocks + self.snapshots_blocks().max(tail_end)
    }

    fn ordered_tag(&self) -> u32 {
        Journal::tags(self.instances as u32)
    }

    /// Commits order the data that the kernel's writer has under way.
    fn journal(&self) -> Journal {
        Journal {
            transaction: TRANSACTION,
            commit: COMMIT,
            buffers: self.instances as u32,
            first_tag: 0,
            first_block: 0,
            blocks: self.journal_blocks,
            ordered_tag: Some(self.ordered_tag()),
            change_cpu_us: self.metadata_cpu_us,
            close_cpu_us: self.journal_close_cpu_us,
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
                ns: about_ns(settings.request_cpu_us * settings.clients, settings.spread_percent, rng),
            });
            let updates =
                (0..settings.clients).filter(|_| rng.chance(settings.updates_percent)).count() as u64;
            let mut blocks = updates.div_ceil(settings.updates_per_block);
            if blocks > 0 {
                ops.push_back(Step::Lock { lock: FIRST_FILE + file, mode: Mode::Write });
                journal.change(file, ops);
                ops.push_back(Step::Unlock { lock: FIRST_FILE + file });
                while blocks > 0 {
                    let now = blocks.min(settings.append_blocks);
                    ops.push_back(Step::Append { blocks: now as u32 });
                    blocks -= now;
                }
                ops.push_back(Step::Call { event: COMMIT });
            }
            ops.push_back(Step::RequestEnd { requests: settings.clients as u32 });
        })
    }

    /// Hands a snapshot to the kernel piece by piece, then makes its end durable.
    fn snapshotter(&self, rng: Rng) -> Box<dyn Program> {
        let settings = *self;
        let piece_blocks = self.writeback_blocks * self.writeback_depth;
        let piece_cpu_us = (piece_blocks * self.snapshot_mib_cpu_us / 256).max(1);
        Rounds::boxed(rng, move |round, rng, ops| {
            let pause_us = settings.snapshot_interval_us;
            // The first one comes at any time of the first interval.
            let pause_ns = if round == 0 {
                rng.below(pause_us * 1000)
            } else {
                about_ns(pause_us, settings.spread_percent, rng)
            };
            ops.push_back(Step::Sleep { ns: pause_ns });
            for _ in 0..settings.snapshot_blocks / piece_blocks {
                ops.push_back(cpu_us(piece_cpu_us));
                ops.push_back(Step::Signal { event: WRITEBACK });
                ops.push_back(Step::Wait { event: WRITTEN });
            }
            let first = settings.journal_blocks + rng.below(settings.snapshot_blocks);
            ops.extend((0..settings.snapshot_tail_blocks).map(|i| {
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
        let (blocks, depth) = (self.writeback_blocks, self.writeback_depth);
        let area = self.snapshots_blocks();
        Rounds::boxed(rng, move |round, _, ops| {
            ops.push_back(Step::Wait { event: WRITEBACK });
            for i in 0..depth {
                let first_block = settings.journal_blocks + (round * depth + i) % (area / blocks) * blocks;
                ops.push_back(Step::Write(WriteOp {
                    tag: Some(settings.ordered_tag()),
                    first_block,
                    blocks: blocks as u32,
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
