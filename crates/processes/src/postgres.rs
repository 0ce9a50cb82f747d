//! A database like PostgreSQL 9.2 before two ext4 file systems of Linux 3.12, after the paper's sections 2, 3.2, 6 and 7.1:
//! backends that commit in groups through one log, a checkpointer, writers of the pool and of the log, the kernel's writer of
//! dirty pages, and a journal for each file system. It is a model.
//!
//! What waits for what: a write to a file holds its mutex, and changes its inode's buffer within a transaction of the
//! journal (`mutex_lock`, `wait_transaction_locked`, `lock_buffer`, `sleep_on_shadow_bh`), looks up its blocks
//! (`down_read`), and waits for the page (`lock_page`). A checkpoint hands its pages to the kernel, then makes file by file
//! durable: what is dirty yet is written synchronously, then the journal commits, while the file's mutex is held.

use std::collections::VecDeque;

use lode_types::Rng;

use crate::background::{Journal, Rounds, Writeback, about_ns, cpu_us, page_write, sleep_us};
use crate::pages::{PageCache, Pool, Shared, shared};
use crate::script::{EventInfo, IoTarget, Mode, Primitive, Program, Script, Step};
use crate::settings::numbers;
use crate::{MAX_SCRIPT_ITEMS, RequestsError};

numbers! {
    /// How the model works.
    PostgresSettings, "postgres" {
        backends = 24, 1..=4096, "processes that serve requests, one transaction after the other", "paper, section 7.2: 24 clients";
        transaction_cpu_us = 3000, 1..=60000000, "mean processor time of a transaction, in microseconds", "fitted to a result, Fig. 1a: processors must be half idle without a cache, as with one the paper's PostgreSQL is 1.99 times as fast; the paper does not tell it";
        think_us = 0, 0..=60000000, "mean time between a client's transactions, in microseconds, network included", "assumed: the paper leaves the network out";
        spread_percent = 50, 0..=100, "per cent of their means by which these two times are shorter or longer at most", "assumed";
        pages = 262144, 1024..=1073741824, "pages of the database, of 4 KiB", "paper, section 7.2: about 1 GB";
        hot_pages = 4096, 1..=1073741824, "pages among these that many changes go to", "assumed";
        hot_percent = 50, 0..=100, "per cent of all changes that go to these", "assumed";
        files = 8, 1..=1024, "files of the database, each with a mutex", "assumed";
        dirtied_percent = 600, 0..=10000, "pages that a transaction changes, in a hundred transactions", "table 1: data written for each write of the log";
        evictions_percent = 50, 0..=1000, "changed pages that a transaction itself gives to the kernel, in a hundred transactions", "assumed";
        dirty_percent_at_start = 100, 0..=100, "per cent of the pages that are changed between two checkpoints that are dirty when the run begins, with a checkpoint", "ours: a database that has run for a while";
        writer_interval_us = 200000, 1000..=3600000000, "microseconds between rounds of the writer of the pool", "PostgreSQL: 200 ms";
        writer_pages = 100, 0..=10000, "pages that it gives to the kernel in a round, at most", "PostgreSQL: 100";
        commit_blocks = 2, 1..=64, "blocks that a commit writes to the log; commits of a group write theirs together, 64 at most", "PostgreSQL: the log's page of 8 KiB, as far as it is filled";
        log_blocks = 65536, 64..=1073741824, "blocks of the log's file, which is written round and round", "paper, section 7.2: 256 MB of log, after which a checkpoint is due";
        log_first_block = 4294967296, 1..=1099511627776, "number of the log's first block, behind all others of the database and its journal", "ours: as far behind as a disk reaches";
        log_disk = 1, 0..=1, "1: the log has a disk of its own; 0: it has not", "paper, section 7.2: database and log on different disks";
        segment_commits = 4096, 1..=1000000000, "commits after which a new file of the log is begun and made durable", "PostgreSQL: 16 MiB; 4 KiB of new log a commit is assumed";
        checkpoint_commits = 65536, 1..=1000000000, "commits between two checkpoints", "paper, section 7.2: 256 MB of log, likewise";
        checkpoint_target_percent = 50, 1..=100, "per cent of these commits by which a checkpoint has handed its pages to the kernel", "PostgreSQL: checkpoint_completion_target of 0.5";
        checkpoint_sleep_us = 100000, 1000..=3600000000, "microseconds that a checkpoint sleeps before it hands over the next pages", "PostgreSQL: 100 ms";
        checkpoint_record_blocks = 1, 1..=64, "blocks that a checkpoint writes to the log at its end", "PostgreSQL: one record";
        fsync_depth = 1048576, 1..=1048576, "writes that a checkpoint has under way at most while it makes a file durable", "ours: no limit; Linux makes the process wait behind 128 requests of a queue";
        log_writer_interval_us = 200000, 1000..=3600000000, "microseconds between writes of the log writer", "PostgreSQL: 200 ms";
        log_writer_blocks = 2, 1..=64, "blocks that it writes each time", "as a commit";
        round_cpu_us = 1, 1..=1000000, "processor time of a round of the checkpointer or the writer of the pool, in microseconds", "assumed";
        lookup_cpu_us = 5, 1..=1000000, "processor time in which the kernel looks up where a page lies, in microseconds", "assumed";
        metadata_cpu_us = 5, 1..=1000000, "processor time in which a buffer of metadata is changed, in microseconds", "assumed";
        journal_close_cpu_us = 20, 1..=1000000, "processor time in which a journal closes a transaction, in microseconds", "assumed";
        journal_blocks = 32768, 4..=1073741824, "blocks of a journal, three more than files at least", "ext4: 128 MiB";
        log_buffers = 1, 1..=1024, "buffers of metadata in the log's file system, which each commit of its journal writes", "ours: the inode of its file";
        journal_interval_us = 5000000, 1000..=3600000000, "microseconds between commits of a journal that nobody asked for", "ext4: 5 s";
        flush_interval_us = 5000000, 1000..=3600000000, "microseconds between rounds of the kernel's writer", "Linux: 5 s";
        flush_old_rounds = 6, 0..=1000000, "rounds that a page is dirty before the kernel writes it", "Linux: 30 s";
        flush_depth = 128, 1..=4096, "writes that the kernel's writer has under way at most", "Linux: 128 requests of a queue";
        flush_transaction_pages = 1024, 1..=65536, "pages of a file that it writes in one transaction", "Linux: 4 MiB a turn";
    }
}

const CHECKPOINT: u32 = 0;
const COMMIT: u32 = 1;
const LOG_COMMIT: u32 = 2;
const EVENTS: usize = 3;

const WAL: u32 = 0;
const TRANSACTION: u32 = 1;
const LOG_TRANSACTION: u32 = 2;
const LOG_FILE: u32 = 3;
const FIRST_FILE: u32 = 4;

/// What the processes share: the database's changed pages and the kernel's.
#[derive(Clone)]
struct Pages {
    pool: Shared<Pool>,
    cache: Shared<PageCache>,
    commits: Shared<u64>,
}

/// Where a checkpoint is.
enum Phase {
    Waits,
    Due,
    /// So many of its pages are written since that commit.
    HandsOver {
        dirty: Vec<u64>,
        written: usize,
        since_commit: u64,
    },
    /// It makes this file durable.
    Syncs(u32),
}

impl PostgresSettings {
    /// The processes of this database. Everything random follows from the seed.
    ///
    /// # Errors
    /// When a setting is outside its range.
    pub fn script(&self, seed: u64) -> Result<Script, RequestsError> {
        self.check()?;
        self.check_together()?;
        let mut seeds = Rng::new(seed);
        let mut rng = || Rng::new(seeds.bits());
        let pages = Pages {
            pool: shared(Pool::default()),
            cache: shared(PageCache::new(self.files)),
            commits: shared(0),
        };
        self.dirty_before(&pages, &mut rng());
        let (journal, log_journal) = (self.journal(), self.log_journal());
        let mut programs: Vec<Box<dyn Program>> =
            (0..self.backends).map(|_| self.backend(pages.clone(), rng())).collect();
        programs.extend([
            self.checkpointer(pages.clone(), rng()),
            self.writer(pages.clone(), rng()),
            self.writeback().program(pages.cache, journal, self.first_data_sem(), self.free_map(), rng()),
            self.log_writer(rng()),
            journal.timer(self.journal_interval_us, rng()),
            log_journal.timer(self.journal_interval_us, rng()),
            log_journal.program(rng()),
            journal.program(rng()),
        ]);
        let mut roles = vec!["backends"; self.backends as usize];
        roles.extend(["checkpointer", "writer", "kworker", "log writer", "timer", "timer", "jbd2", "jbd2"]);
        debug_assert!(programs.len() <= MAX_SCRIPT_ITEMS);
        let jbd2 = programs.len() as u32 - 1;
        let commit = |jbd2| EventInfo { primitive: Primitive::LogWaitCommit, deliverers: vec![jbd2] };
        let events: [EventInfo; EVENTS] = [
            EventInfo { primitive: Primitive::Other, deliverers: Vec::new() },
            commit(jbd2),
            commit(jbd2 - 1),
        ];
        let closed = Primitive::TransactionLocked;
        let mut locks = vec![Primitive::WalWriteLock, closed, closed, Primitive::Mutex];
        locks.extend((0..self.files).map(|_| Primitive::Mutex));
        locks.extend((0..self.files).map(|_| Primitive::DownRead));
        Ok(Script {
            programs,
            roles: roles.into_iter().map(str::to_owned).collect(),
            locks,
            events: Vec::from(events),
            tags: log_journal.first_tag + Journal::tags(log_journal.buffers),
            log_first_block: self.log_first_block,
            log_blocks: self.log_blocks,
            separate_log_disk: self.log_disk == 1,
        })
    }

    /// Numbers whose range hangs on others.
    fn check_together(&self) -> Result<(), RequestsError> {
        crate::check("hot_pages", self.hot_pages, 1..=self.pages)?;
        let buffers = self.files + 1;
        let longest = Journal::commit_blocks(buffers.max(self.log_buffers));
        crate::check("journal_blocks", self.journal_blocks, longest..=1 << 30)?;
        let data_end = self.pages + self.journal_blocks + buffers;
        crate::check("log_first_block", self.log_first_block, data_end..=1 << 40)
    }

    /// The buffer of the map of free blocks comes after those of the files.
    fn free_map(&self) -> u32 {
        self.files as u32
    }

    fn first_data_sem(&self) -> u32 {
        FIRST_FILE + self.files as u32
    }

    fn journal(&self) -> Journal {
        let buffers = self.free_map() + 1;
        Journal {
            transaction: TRANSACTION,
            commit: COMMIT,
            buffers,
            first_tag: 1,
            first_block: self.pages,
            blocks: self.journal_blocks,
            ordered_tag: Some(0),
            change_cpu_us: self.metadata_cpu_us,
            close_cpu_us: self.journal_close_cpu_us,
        }
    }

    /// Of the file system on the log's disk. Its file is as long as it will be, so that no data is ordered.
    fn log_journal(&self) -> Journal {
        let before = self.journal();
        Journal {
            transaction: LOG_TRANSACTION,
            commit: LOG_COMMIT,
            buffers: self.log_buffers as u32,
            first_tag: before.first_tag + Journal::tags(before.buffers),
            first_block: self.log_first_block + self.log_blocks,
            ordered_tag: None,
            ..before
        }
    }

    fn writeback(&self) -> Writeback {
        Writeback {
            interval_us: self.flush_interval_us,
            old_rounds: self.flush_old_rounds,
            depth: self.flush_depth as usize,
            transaction_pages: self.flush_transaction_pages as usize,
        }
    }

    fn about_ns(&self, mean_us: u64, rng: &mut Rng) -> u64 {
        about_ns(mean_us, self.spread_percent, rng)
    }

    fn page(&self, rng: &mut Rng) -> u64 {
        if rng.chance(self.hot_percent) { rng.below(self.hot_pages) } else { rng.below(self.pages) }
    }

    fn file_of(&self, page: u64) -> u32 {
        // Files lie one behind the other.
        (page * self.files / self.pages) as u32
    }

    /// So many in a hundred cases; several when it is more than a hundred.
    fn times(percent: u64, rng: &mut Rng) -> u64 {
        percent / 100 + u64::from(rng.chance(percent % 100))
    }

    /// The run begins with a checkpoint, of what was changed since the one before; what went to the kernel in its last
    /// rounds is dirty there.
    fn dirty_before(&self, pages: &Pages, rng: &mut Rng) {
        let mut pool = pages.pool.borrow_mut();
        let kept_percent = self.dirtied_percent.saturating_sub(self.evictions_percent);
        let commits = self.checkpoint_commits.min(self.pages) * self.dirty_percent_at_start / 100;
        for _ in 0..commits * kept_percent / 100 {
            pool.dirty(self.page(rng));
        }
        let mut cache = pages.cache.borrow_mut();
        for _ in 0..commits * self.evictions_percent / 100 {
            let page = self.page(rng);
            cache.dirty(self.file_of(page) as usize, page);
        }
    }

    /// A critical process: transactions, whose last step is to make their log durable.
    fn backend(&self, pages: Pages, rng: Rng) -> Box<dyn Program> {
        let (settings, log_journal) = (*self, self.log_journal());
        Rounds::boxed(rng, move |round, rng, ops| {
            if round == 0 {
                ops.push_back(Step::SetCritical(true));
                // So that they do not all come at once.
                ops.push_back(Step::Sleep { ns: rng.below(settings.transaction_cpu_us * 1000) });
            }
            if settings.think_us > 0 {
                ops.push_back(Step::Sleep { ns: settings.about_ns(settings.think_us, rng) });
            }
            ops.push_back(Step::RequestBegin);
            ops.push_back(Step::Cpu { ns: settings.about_ns(settings.transaction_cpu_us, rng) });
            for _ in 0..Self::times(settings.dirtied_percent, rng) {
                let page = settings.page(rng);
                pages.pool.borrow_mut().dirty(page);
            }
            for _ in 0..Self::times(settings.evictions_percent, rng) {
                let evicted = pages.pool.borrow_mut().take_oldest();
                if let Some(page) = evicted {
                    settings.give_to_kernel(page, &pages.cache, ops);
                }
            }
            let mut commits = pages.commits.borrow_mut();
            *commits += 1;
            let (new_file, checkpoint) = (
                commits.is_multiple_of(settings.segment_commits),
                commits.is_multiple_of(settings.checkpoint_commits),
            );
            let log = settings.log_write(settings.commit_blocks, new_file, log_journal);
            ops.push_back(Step::LockOrJoin { lock: WAL, skip_ops: log.len() as u32 + 1 });
            ops.extend(log);
            ops.push_back(Step::Unlock { lock: WAL });
            ops.push_back(Step::RequestEnd { requests: 1 });
            if checkpoint {
                ops.push_back(Step::Signal { event: CHECKPOINT });
            }
        })
    }

    /// What is done while the lock of the log is held: a write to its file, and another one when it is new.
    fn log_write(&self, blocks: u64, new_file: bool, log_journal: Journal) -> Vec<Step> {
        let mut ops = VecDeque::from([Step::Lock { lock: LOG_FILE, mode: Mode::Write }]);
        log_journal.change(0, &mut ops);
        ops.push_back(Step::Unlock { lock: LOG_FILE });
        ops.push_back(Step::Append { blocks: blocks as u32 });
        if new_file {
            ops.push_back(Step::Call { event: LOG_COMMIT });
        }
        Vec::from(ops)
    }

    /// A page goes to the kernel: under the file's mutex, when its metadata and it are not being written.
    fn give_to_kernel(&self, page: u64, cache: &Shared<PageCache>, ops: &mut VecDeque<Step>) {
        let file = self.file_of(page);
        let data_sem = self.first_data_sem() + file;
        let journal = self.journal();
        ops.push_back(Step::Lock { lock: FIRST_FILE + file, mode: Mode::Write });
        ops.push_back(Step::WaitIo { target: IoTarget::Block(page), primitive: Primitive::LockPage });
        ops.push_back(Step::Lock { lock: TRANSACTION, mode: Mode::Read });
        journal.change_within(file, ops);
        ops.push_back(Step::Lock { lock: data_sem, mode: Mode::Read });
        ops.push_back(cpu_us(self.lookup_cpu_us));
        ops.push_back(Step::Unlock { lock: data_sem });
        ops.push_back(Step::Unlock { lock: TRANSACTION });
        ops.push_back(Step::Unlock { lock: FIRST_FILE + file });
        cache.borrow_mut().dirty(file as usize, page);
    }

    /// When enough was committed: hands every changed page to the kernel, spread over the commits that follow, makes every
    /// file durable, and writes its record.
    fn checkpointer(&self, pages: Pages, rng: Rng) -> Box<dyn Program> {
        let (settings, log_journal) = (*self, self.log_journal());
        // The first one is due when the run begins.
        let mut phase = Phase::Due;
        Rounds::boxed(rng, move |_, rng, ops| {
            phase = match std::mem::replace(&mut phase, Phase::Due) {
                Phase::Waits => {
                    ops.push_back(Step::Wait { event: CHECKPOINT });
                    Phase::Due
                }
                Phase::Due => {
                    ops.push_back(cpu_us(settings.round_cpu_us));
                    let dirty = pages.pool.borrow_mut().take_all(rng);
                    Phase::HandsOver { written: 0, since_commit: *pages.commits.borrow(), dirty }
                }
                Phase::HandsOver { dirty, written, since_commit } => {
                    let by_commits =
                        (settings.checkpoint_commits * settings.checkpoint_target_percent / 100).max(1);
                    let commits = *pages.commits.borrow() - since_commit;
                    let due = (dirty.len() as u64 * commits / by_commits).min(dirty.len() as u64) as usize;
                    for &page in &dirty[written..due.max(written)] {
                        settings.give_to_kernel(page, &pages.cache, ops);
                    }
                    ops.push_back(sleep_us(settings.checkpoint_sleep_us));
                    if due < dirty.len() {
                        Phase::HandsOver { written: due.max(written), dirty, since_commit }
                    } else {
                        Phase::Syncs(0)
                    }
                }
                Phase::Syncs(file) if file < settings.files as u32 => {
                    settings.make_durable(file, &pages.cache, ops);
                    Phase::Syncs(file + 1)
                }
                Phase::Syncs(_) => {
                    ops.extend(settings.critical_log_write(settings.checkpoint_record_blocks, log_journal));
                    Phase::Waits
                }
            };
        })
    }

    /// What is dirty yet of a file is written synchronously, then the journal commits, under the file's mutex.
    fn make_durable(&self, file: u32, cache: &Shared<PageCache>, ops: &mut VecDeque<Step>) {
        let dirty = cache.borrow_mut().take_file(file as usize);
        for queue in dirty.chunks(self.fsync_depth as usize) {
            ops.extend(queue.iter().map(|&page| page_write(None, page, true)));
            ops.push_back(Step::Fsync);
        }
        ops.push_back(Step::Lock { lock: FIRST_FILE + file, mode: Mode::Write });
        ops.push_back(Step::Call { event: COMMIT });
        ops.push_back(Step::Unlock { lock: FIRST_FILE + file });
    }

    /// Gives a few pages to the kernel, so that backends have to do it less often.
    fn writer(&self, pages: Pages, rng: Rng) -> Box<dyn Program> {
        let settings = *self;
        Rounds::boxed(rng, move |round, _, ops| {
            ops.push_back(cpu_us(settings.round_cpu_us));
            if round.is_multiple_of(2) {
                ops.push_back(sleep_us(settings.writer_interval_us));
                return;
            }
            for _ in 0..settings.writer_pages {
                let Some(page) = pages.pool.borrow_mut().take_oldest() else { return };
                settings.give_to_kernel(page, &pages.cache, ops);
            }
        })
    }

    fn log_writer(&self, rng: Rng) -> Box<dyn Program> {
        let (settings, log_journal) = (*self, self.log_journal());
        Rounds::boxed(rng, move |_, _, ops| {
            ops.push_back(sleep_us(settings.log_writer_interval_us));
            ops.extend(settings.critical_log_write(settings.log_writer_blocks, log_journal));
        })
    }

    /// Whoever holds the lock of the log is critical (paper, section 6).
    fn critical_log_write(&self, blocks: u64, log_journal: Journal) -> Vec<Step> {
        let mut ops = vec![Step::Lock { lock: WAL, mode: Mode::Write }, Step::SetCritical(true)];
        ops.extend(self.log_write(blocks, false, log_journal));
        ops.extend([Step::SetCritical(false), Step::Unlock { lock: WAL }]);
        ops
    }
}
