//! A database like PostgreSQL before ext4, after the paper's sections 2, 3.2 and 6: backends that commit through one log, a
//! checkpointer that writes in bursts, the kernel's writer of dirty pages and its journal. It is a model: what happens how
//! often is chosen so that the mix of writes is near the paper's table 1.

use std::collections::VecDeque;

use lode_types::Rng;

use crate::background::{Journal, Rounds, about_ns, cpu_us};
use crate::script::{DataKind, EventInfo, IoTarget, Mode, Primitive, Program, Script, Step, WriteOp};
use crate::{MAX_SCRIPT_ITEMS, RequestsError, check};

/// How the model works. Values are [assumed] where nothing else is said.
#[derive(Clone, Copy, Debug)]
pub struct PostgresSettings {
    /// Processes that serve requests, one transaction after the other. 24 (paper, section 7.2).
    pub backends: u32,
    /// Mean processor time of a transaction, in microseconds. 30,000: 24 of them keep 8 processors busy with 10 ms each.
    pub transaction_cpu_us: u64,
    /// Pages of the database. 262,144 of 4 KiB: 1 GiB (paper, section 7.2: about 1 GB).
    pub pages: u64,
    /// Pages among these that half of all writes go to. 4,096.
    pub hot_pages: u64,
    /// Files, each with a mutex. 8.
    pub files: u32,
    /// Dirty pages that a transaction gives to the kernel, in a hundred transactions. 50.
    pub evictions_percent: u64,
    /// Blocks that a commit writes to the log. 2: a log page of 8 KiB.
    pub commit_blocks: u32,
    /// Transactions of each backend between two checkpoints. 50.
    pub checkpoint_transactions: u64,
    /// Pages that the checkpointer writes, in a hundred transactions. 78: table 1, for each write of the log.
    pub checkpoint_percent: u64,
    /// Pages that it writes while it holds a file's mutex. 8.
    pub checkpoint_run: u64,
    /// Pages that the kernel's writer writes, in a hundred transactions. 46: table 1, likewise.
    pub writeback_percent: u64,
    /// Time between commits of the journal that nobody asked for, in microseconds. 5,000,000 (ext4's default).
    pub journal_interval_us: u64,
    /// Time between writes of the log writer, in microseconds. 200,000 (PostgreSQL's default).
    pub log_writer_interval_us: u64,
    /// Everything random follows from it.
    pub seed: u64,
}

impl Default for PostgresSettings {
    fn default() -> PostgresSettings {
        PostgresSettings {
            backends: 24,
            transaction_cpu_us: 30_000,
            pages: 262_144,
            hot_pages: 4_096,
            files: 8,
            evictions_percent: 50,
            commit_blocks: 2,
            checkpoint_transactions: 50,
            checkpoint_percent: 78,
            checkpoint_run: 8,
            writeback_percent: 46,
            journal_interval_us: 5_000_000,
            log_writer_interval_us: 200_000,
            seed: 1,
        }
    }
}

const CHECKPOINT: u32 = 0;
const WRITEBACK: u32 = 1;
const COMMIT: u32 = 2;
/// A backend signals the kernel's writer once in so many transactions.
const WRITEBACK_TRANSACTIONS: u64 = 10;
const WAL: u32 = 0;
const TRANSACTION: u32 = 1;
const FIRST_FILE: u32 = 2;
const JOURNAL_BLOCKS: u64 = 32_768;
const LOG_FIRST_BLOCK: u64 = 1 << 32;
/// 256 MiB: what triggers a checkpoint in the paper, and so at least as long as the log.
const LOG_BLOCKS: u64 = 65_536;

impl PostgresSettings {
    /// The processes of this database.
    ///
    /// # Errors
    /// When a setting is outside its range.
    pub fn script(&self) -> Result<Script, RequestsError> {
        check("clients", self.backends.into(), 1..=4096, "1 to 4096")?;
        check("transaction_cpu_us", self.transaction_cpu_us, 1..=60_000_000, "1 to 60000000")?;
        check("pages", self.pages, 1024..=1 << 30, "1024 to 1073741824")?;
        check("hot_pages", self.hot_pages, 1..=self.pages, "1 to the number of pages")?;
        check("files", self.files.into(), 1..=1024, "1 to 1024")?;
        check("commit_blocks", self.commit_blocks.into(), 1..=64, "1 to 64")?;
        check("checkpoint_transactions", self.checkpoint_transactions, 1..=1_000_000, "1 to 1000000")?;
        check("checkpoint_run", self.checkpoint_run, 1..=4096, "1 to 4096")?;
        for (key, value) in [
            ("evictions_percent", self.evictions_percent),
            ("checkpoint_percent", self.checkpoint_percent),
            ("writeback_percent", self.writeback_percent),
        ] {
            check(key, value, 0..=1000, "0 to 1000")?;
        }
        for (key, value) in [
            ("journal_interval_us", self.journal_interval_us),
            ("log_writer_interval_us", self.log_writer_interval_us),
        ] {
            check(key, value, 1000..=3_600_000_000, "1000 to 3600000000")?;
        }
        let mut seeds = Rng::new(self.seed);
        let mut rng = || Rng::new(seeds.bits());
        let journal = self.journal();
        let mut programs: Vec<Box<dyn Program>> = (0..self.backends).map(|_| self.backend(rng())).collect();
        programs.extend([
            self.checkpointer(rng()),
            self.writeback(rng()),
            self.log_writer(rng()),
            journal.timer(self.journal_interval_us, rng()),
            journal.program(rng()),
        ]);
        debug_assert!(programs.len() <= MAX_SCRIPT_ITEMS);
        let jbd2 = programs.len() as u32 - 1;
        let mut locks = vec![Primitive::WalWriteLock, Primitive::TransactionLocked];
        locks.extend((0..self.files).map(|_| Primitive::Mutex));
        let idle = || EventInfo { primitive: Primitive::Other, deliverers: Vec::new() };
        let commit = EventInfo { primitive: Primitive::LogWaitCommit, deliverers: vec![jbd2] };
        Ok(Script {
            programs,
            locks,
            events: vec![idle(), idle(), commit],
            tags: self.files,
            log_first_block: LOG_FIRST_BLOCK,
            log_blocks: LOG_BLOCKS,
            separate_log_disk: true,
        })
    }

    fn journal(&self) -> Journal {
        Journal {
            transaction: TRANSACTION,
            commit: COMMIT,
            files: self.files,
            first_block: self.pages,
            blocks: JOURNAL_BLOCKS,
            ordered_tag: None,
        }
    }

    fn page(&self, rng: &mut Rng) -> u64 {
        if rng.chance(50) { rng.below(self.hot_pages) } else { rng.below(self.pages) }
    }

    /// So many in a hundred cases; several when it is more than a hundred.
    fn times(percent: u64, rng: &mut Rng) -> u64 {
        percent / 100 + u64::from(rng.chance(percent % 100))
    }

    /// A critical process: transactions, whose last step is to make their log durable.
    fn backend(&self, rng: Rng) -> Box<dyn Program> {
        let (settings, journal) = (*self, self.journal());
        Rounds::boxed(rng, move |round, rng, ops| {
            if round == 0 {
                ops.push_back(Step::SetCritical(true));
                // So that they do not all come at once.
                ops.push_back(Step::Cpu { ns: rng.below(settings.transaction_cpu_us * 1000) });
            }
            ops.push_back(Step::RequestBegin);
            ops.push_back(Step::Cpu { ns: about_ns(settings.transaction_cpu_us, rng) });
            for _ in 0..Self::times(settings.evictions_percent, rng) {
                let page = settings.page(rng);
                settings.evict(page, journal, ops);
            }
            ops.extend([
                Step::LockOrJoin { lock: WAL, skip_ops: 2 },
                Step::Append { blocks: settings.commit_blocks },
                Step::Unlock { lock: WAL },
                Step::RequestEnd { requests: 1 },
            ]);
            let due = |every| (round + 1).is_multiple_of(every);
            if due(WRITEBACK_TRANSACTIONS) {
                ops.push_back(Step::Signal { event: WRITEBACK });
            }
            if due(settings.checkpoint_transactions) {
                ops.push_back(Step::Signal { event: CHECKPOINT });
            }
        })
    }

    /// A page goes to the kernel: under the file's mutex, when it is not being written.
    fn evict(&self, page: u64, journal: Journal, ops: &mut VecDeque<Step>) {
        let file = (page % u64::from(self.files)) as u32;
        ops.push_back(Step::Lock { lock: FIRST_FILE + file, mode: Mode::Write });
        journal.change(file, ops);
        ops.push_back(Step::WaitIo { target: IoTarget::Block(page), primitive: Primitive::LockPage });
        ops.push_back(cpu_us(5));
        ops.push_back(Step::Unlock { lock: FIRST_FILE + file });
    }

    /// Writes many pages synchronously, in order and file by file, when every backend has done its share of transactions.
    fn checkpointer(&self, rng: Rng) -> Box<dyn Program> {
        let (settings, journal) = (*self, self.journal());
        let pages = u64::from(self.backends) * self.checkpoint_transactions * self.checkpoint_percent / 100;
        Rounds::boxed(rng, move |_, rng, ops| {
            ops.extend((0..settings.backends).map(|_| Step::Wait { event: CHECKPOINT }));
            let mut dirty: Vec<u64> = (0..pages).map(|_| settings.page(rng)).collect();
            let file_of = |page: u64| (page % u64::from(settings.files)) as u32;
            dirty.sort_unstable_by_key(|&page| (file_of(page), page));
            for of_file in dirty.chunk_by(|a, b| file_of(*a) == file_of(*b)) {
                let file = file_of(of_file[0]);
                for run in of_file.chunks(settings.checkpoint_run as usize) {
                    ops.push_back(Step::Lock { lock: FIRST_FILE + file, mode: Mode::Write });
                    journal.change(file, ops);
                    ops.extend(run.iter().map(|&page| page_write(page, true)));
                    ops.push_back(Step::Unlock { lock: FIRST_FILE + file });
                    ops.push_back(cpu_us(50));
                }
            }
            ops.push_back(Step::Call { event: COMMIT });
            // The checkpoint's record.
            ops.extend(log_write(1));
        })
    }

    /// The kernel's writer: pages that nobody waits for, unless somebody wants to change one of them.
    fn writeback(&self, rng: Rng) -> Box<dyn Program> {
        let settings = *self;
        let pages = u64::from(self.backends) * WRITEBACK_TRANSACTIONS * self.writeback_percent / 100;
        Rounds::boxed(rng, move |_, rng, ops| {
            ops.extend((0..settings.backends).map(|_| Step::Wait { event: WRITEBACK }));
            let mut dirty: Vec<u64> = (0..pages).map(|_| settings.page(rng)).collect();
            dirty.sort_unstable();
            ops.extend(dirty.iter().map(|&page| page_write(page, false)));
            ops.push_back(Step::Fsync);
        })
    }

    fn log_writer(&self, rng: Rng) -> Box<dyn Program> {
        let interval_us = self.log_writer_interval_us;
        Rounds::boxed(rng, move |_, _, ops| {
            ops.push_back(cpu_us(interval_us));
            ops.extend(log_write(2));
        })
    }
}

fn page_write(page: u64, sync: bool) -> Step {
    Step::Write(WriteOp { tag: None, first_block: page, blocks: 1, sync, waits: sync, data: DataKind::Db })
}

/// Whoever holds the lock of the log is critical (paper, section 6).
fn log_write(blocks: u32) -> [Step; 5] {
    [
        Step::Lock { lock: WAL, mode: Mode::Write },
        Step::SetCritical(true),
        Step::Append { blocks },
        Step::SetCritical(false),
        Step::Unlock { lock: WAL },
    ]
}
