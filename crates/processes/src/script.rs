//! What the processes of a simulation do: their operations, and what they share. It must not know time or devices.

use lode_policy::criticality::{EventId, LockId, Population, ProcessId};
use lode_types::BlockNo;

use crate::{RequestsError, check};

/// Most processes, locks, events or tags of a script.
pub const MAX_SCRIPT_ITEMS: usize = 1 << 16;
/// Most blocks of one write: one bit each.
pub const MAX_WRITE_BLOCKS: u32 = 64;
/// Most blocks of a log, and its last first block.
const MAX_LOG_BLOCKS: u64 = 1 << 40;
/// Longest single use of the processor, and longest sleep: one hour.
pub const MAX_CPU_NS: u64 = 3_600_000_000_000;

/// What a process was found waiting in. Most are named after the functions of Linux in the paper's table 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Primitive {
    /// The completion of its own synchronous write.
    SyncWrite,
    /// The database's lock around writes of its log.
    WalWriteLock,
    /// A mutex, as a file's.
    Mutex,
    /// The journal closes its transaction.
    TransactionLocked,
    /// The journal has not yet committed what must be durable.
    LogWaitCommit,
    /// The kernel gives blocks to a file.
    DownRead,
    /// A buffer of metadata is being written to its place.
    LockBuffer,
    /// A buffer is being written to the journal.
    ShadowBuffer,
    /// A page is being written.
    LockPage,
    /// All of a file's writes.
    Fsync,
    /// Anything else.
    Other,
}

impl Primitive {
    /// Every primitive, in the order to show them.
    pub const ALL: [Primitive; 11] = [
        Primitive::DownRead,
        Primitive::TransactionLocked,
        Primitive::Mutex,
        Primitive::LogWaitCommit,
        Primitive::WalWriteLock,
        Primitive::LockBuffer,
        Primitive::ShadowBuffer,
        Primitive::LockPage,
        Primitive::SyncWrite,
        Primitive::Fsync,
        Primitive::Other,
    ];

    /// Mean and longest wait of PostgreSQL's backends under CP, in milliseconds, as the paper's table 2 has them.
    pub const fn paper_ms(self) -> Option<(f64, f64)> {
        match self {
            Primitive::DownRead => Some((1088.09, 6065.2)),
            Primitive::TransactionLocked => Some((493.05, 4806.8)),
            Primitive::Mutex => Some((134.55, 6313.55)),
            Primitive::LogWaitCommit => Some((40.96, 391.36)),
            Primitive::LockBuffer => Some((912.38, 3811.35)),
            Primitive::ShadowBuffer => Some((225.25, 3560.47)),
            Primitive::LockPage => Some((8.08, 3009.84)),
            Primitive::SyncWrite => Some((0.04, 19.12)),
            Primitive::WalWriteLock | Primitive::Fsync | Primitive::Other => None,
        }
    }

    /// The primitive with this name.
    pub fn from_name(name: &str) -> Option<Primitive> {
        Primitive::ALL.into_iter().find(|primitive| primitive.name() == name)
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Primitive::SyncWrite => "wait_on_page_writeback",
            Primitive::WalWriteLock => "WALWriteLock",
            Primitive::Mutex => "mutex_lock",
            Primitive::TransactionLocked => "wait_transaction_locked",
            Primitive::LogWaitCommit => "jbd2_log_wait_commit",
            Primitive::DownRead => "down_read",
            Primitive::LockBuffer => "lock_buffer",
            Primitive::ShadowBuffer => "sleep_on_shadow_bh",
            Primitive::LockPage => "lock_page",
            Primitive::Fsync => "fsync",
            Primitive::Other => "other",
        }
    }
}

/// What a write writes, as in the paper's table 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataKind {
    /// The application's data.
    Db,
    /// The application's log.
    Log,
    /// The file system's metadata in place.
    Metadata,
    /// The file system's journal.
    Journal,
}

/// How a lock is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With other readers.
    Read,
    /// Alone.
    Write,
}

/// A write.
#[derive(Clone, Copy, Debug)]
pub struct WriteOp {
    /// A name under which the last write that has it can be waited for.
    pub tag: Option<u32>,
    /// First block.
    pub first_block: BlockNo,
    /// Blocks, at most [`MAX_WRITE_BLOCKS`].
    pub blocks: u32,
    /// It is marked as synchronous: somebody waits for it, now or soon.
    pub sync: bool,
    /// The process goes on when the write is complete.
    pub waits: bool,
    /// What it writes.
    pub data: DataKind,
}

/// Which write to wait for.
#[derive(Clone, Copy, Debug)]
pub enum IoTarget {
    /// The last one with this tag.
    Tag(u32),
    /// The last one of this block.
    Block(BlockNo),
}

/// One operation of a process.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Uses a processor.
    Cpu {
        /// For so long.
        ns: u64,
    },
    /// Sleeps, and needs no processor for it.
    Sleep {
        /// For so long.
        ns: u64,
    },
    /// Takes a lock, first come first served.
    Lock {
        /// Which.
        lock: LockId,
        /// How.
        mode: Mode,
    },
    /// Takes a lock alone, unless another owner takes and releases it meanwhile and so does the work for both, as
    /// PostgreSQL commits in groups. Then the next `skip_ops` operations are left out.
    LockOrJoin {
        /// Which.
        lock: LockId,
        /// How many operations belong to the work, the release of the lock included.
        skip_ops: u32,
    },
    /// Releases a lock.
    Unlock {
        /// Which.
        lock: LockId,
    },
    /// Waits until the event was signalled once more.
    Wait {
        /// Which.
        event: EventId,
    },
    /// Signals an event: one process that waits goes on, now or later.
    Signal {
        /// Which.
        event: EventId,
    },
    /// Asks for a service, and waits until it is delivered.
    Call {
        /// Which.
        event: EventId,
    },
    /// Waits until somebody asks for the service, and serves all who do.
    Collect {
        /// Which.
        event: EventId,
    },
    /// Delivers the service to those who were collected.
    Deliver {
        /// Which.
        event: EventId,
    },
    /// Writes.
    Write(WriteOp),
    /// Writes the log's next blocks synchronously: so many for itself, and as many for everyone whose work it does (see
    /// [`Step::LockOrJoin`]), [`MAX_WRITE_BLOCKS`] in all.
    Append {
        /// How many.
        blocks: u32,
    },
    /// Waits until a write is complete, if it is under way.
    WaitIo {
        /// Which.
        target: IoTarget,
        /// What this wait is called.
        primitive: Primitive,
    },
    /// Waits until every write of this process is complete.
    Fsync,
    /// A request begins.
    RequestBegin,
    /// The request ends.
    RequestEnd {
        /// How many requests were served together.
        requests: u32,
    },
    /// The process becomes critical, or is no longer.
    SetCritical(bool),
}

/// The operations of a process, one after the other. Programs know no time. Processes that serve requests do the same under
/// every policy; what others find to do in the background may follow from that, as a kernel's writer does.
pub trait Program {
    /// The next operation; `None`: the process ends.
    fn next(&mut self) -> Option<Step>;
}

impl Program for std::vec::IntoIter<Step> {
    fn next(&mut self) -> Option<Step> {
        Iterator::next(self)
    }
}

/// An event, and who brings it about.
#[derive(Clone, Debug)]
pub struct EventInfo {
    /// What waiting for it is called.
    pub primitive: Primitive,
    /// The processes that signal or deliver it.
    pub deliverers: Vec<ProcessId>,
}

/// Processes and what they share.
pub struct Script {
    /// What each process does.
    pub programs: Vec<Box<dyn Program>>,
    /// What each process is called in reports of writes, where those of one name are counted together.
    pub roles: Vec<String>,
    /// What waiting for each lock is called.
    pub locks: Vec<Primitive>,
    /// The events.
    pub events: Vec<EventInfo>,
    /// Tags are below this.
    pub tags: u32,
    /// Blocks from here on are the log's.
    pub log_first_block: BlockNo,
    /// Blocks of the log, which begins anew at its end.
    pub log_blocks: u64,
    /// The log has a disk of its own.
    pub separate_log_disk: bool,
}

impl Script {
    /// How many of each there are.
    ///
    /// # Errors
    /// When there are more than [`MAX_SCRIPT_ITEMS`], or an event names a process that does not exist.
    pub fn population(&self) -> Result<Population, RequestsError> {
        let sizes = [
            ("processes", self.programs.len()),
            ("locks", self.locks.len()),
            ("events", self.events.len()),
            ("tags", self.tags as usize),
        ];
        for (what, count) in sizes {
            if count > MAX_SCRIPT_ITEMS {
                return Err(RequestsError::TooMany { what, count, most: MAX_SCRIPT_ITEMS });
            }
        }
        // No block number can overflow then.
        check("log blocks", self.log_blocks, 0..=MAX_LOG_BLOCKS)?;
        check("first block of the log", self.log_first_block, 0..=MAX_LOG_BLOCKS)?;
        let deliverers = self.events.iter().flat_map(|event| &event.deliverers);
        if let Some(&process) =
            deliverers.into_iter().find(|&&process| process as usize >= self.programs.len())
        {
            return Err(RequestsError::BadOp {
                process,
                step: 0,
                what: "deliver an event: there is no such process",
            });
        }
        Ok(Population {
            processes: self.programs.len() as u32,
            locks: self.locks.len() as u32,
            events: self.events.len() as u32,
        })
    }

    /// Why an operation cannot be carried out.
    pub(crate) fn complaint(&self, op: &Step) -> Option<&'static str> {
        let lock =
            |lock: LockId| (lock as usize >= self.locks.len()).then_some("use a lock that does not exist");
        let event = |event: EventId| {
            (event as usize >= self.events.len()).then_some("use an event that does not exist")
        };
        let tag = |tag: u32| (tag >= self.tags).then_some("use a tag that does not exist");
        match *op {
            Step::Cpu { ns } | Step::Sleep { ns } => {
                (ns > MAX_CPU_NS).then_some("use the processor, or sleep, for more than an hour")
            }
            Step::Lock { lock: id, .. } | Step::LockOrJoin { lock: id, .. } | Step::Unlock { lock: id } => {
                lock(id)
            }
            Step::Wait { event: id }
            | Step::Signal { event: id }
            | Step::Call { event: id }
            | Step::Collect { event: id }
            | Step::Deliver { event: id } => event(id),
            Step::Write(WriteOp { first_block, blocks, tag: name, .. }) => {
                if blocks == 0 || blocks > MAX_WRITE_BLOCKS {
                    Some("write no block, or more than 64")
                } else if first_block.checked_add(u64::from(blocks)).is_none() {
                    Some("write beyond the last block number")
                } else {
                    name.and_then(tag)
                }
            }
            Step::Append { blocks } => {
                let fits = blocks > 0 && blocks <= MAX_WRITE_BLOCKS && u64::from(blocks) <= self.log_blocks;
                (!fits).then_some("append no block, more than 64, or more than the log has")
            }
            Step::WaitIo { target: IoTarget::Tag(id), .. } => tag(id),
            Step::WaitIo { .. }
            | Step::Fsync
            | Step::RequestBegin
            | Step::RequestEnd { .. }
            | Step::SetCritical(_) => None,
        }
    }
}
