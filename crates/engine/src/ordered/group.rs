//! One group of blocks on its way to the backing disk, as a pure state machine. Steps in their order, each after the one before
//! has ended well:
//!
//! | step | ends when | because |
//! |---|---|---|
//! | `Capture` | the bytes of all blocks as of the cut are in memory | they may be written again at any time |
//! | `Record` | the cache's journal knows these copies durably, and the disk has what was written to it past groups | an older copy that came back would be older than the disk; a group may not come before what it follows |
//! | `Log`, `LogFlush` | table and blocks are in the redo log, durably | |
//! | `Commit`, `CommitFlush` | the log says so, durably | from here on the group counts |
//! | `Disk`, `DiskFlush` | the backing disk has all blocks, durably | a crash in between leaves a part of it there, and all of it in the log |
//! | `Empty`, `EmptyFlush` | the log says that it is empty, durably | it must not be applied to what others make of the disk |
//!
//! Writes that fail are tried again at the next tick.

use std::collections::VecDeque;

use lode_format::{
    CacheId, REDO_ENTRIES_PER_PAGE, RedoEntry, RedoLayout, RedoTablePage, VolumeTag, data_checksum,
};
use lode_types::{BlockNo, Buf, Bytes, Counter, planted};

/// Writes that are begun together: neighbours of them become one command.
const WRITES_AT_ONCE: usize = 512;

/// Whose log it is, and where everything is in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) cache: CacheId,
    pub(crate) volume: VolumeTag,
    pub(crate) layout: RedoLayout,
    /// [`OrderedConfig::generation`](super::OrderedConfig).
    pub(crate) generation: u64,
}

/// What a group waits for beside its own commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupFacts {
    /// What is acknowledged as durable is.
    pub(crate) is_well: bool,
    /// The backing disk may be written to with what it does not have yet.
    pub(crate) may_begin: bool,
    /// It has not failed, so that what was begun comes to its end.
    pub(crate) disk_works: bool,
    /// The journal's latest version, and up to where it is durable.
    pub(crate) version: u64,
    pub(crate) durable: u64,
    /// The latest mark of the backing disk, and up to where it was flushed.
    pub(crate) mark: u64,
    pub(crate) flushed: u64,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupNext {
    /// Nothing now.
    Wait,
    /// A block could not be captured.
    Lost,
    /// These writes ([`Group::write`]).
    Write(Vec<u32>),
    /// The log is to be flushed.
    FlushLog,
    /// The disk has all blocks, and is to be flushed up to a mark that [`Group::await_disk`] is told.
    FlushDisk,
    /// The disk has all blocks durably.
    OnDisk,
    /// The group is over.
    Over,
}

/// A write of a group.
#[derive(Clone, Debug)]
pub(crate) enum GroupWrite {
    /// To the log, at this offset.
    Log(u64, Bytes),
    /// Of this block, to the backing disk.
    Disk(BlockNo, Bytes),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Capture,
    Record { version: u64, mark: u64 },
    Log,
    LogFlush,
    Commit,
    CommitFlush,
    Disk,
    DiskFlush(u64),
    Empty,
    EmptyFlush,
    Over,
}

/// A block, and its bytes once they are captured.
struct GroupBlock {
    block: BlockNo,
    bytes: Option<Bytes>,
    crc: u32,
}

impl std::fmt::Debug for GroupBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.block, if self.bytes.is_some() { "" } else { "?" })
    }
}

/// The group under way.
#[derive(Debug)]
pub(crate) struct Group {
    number: u64,
    /// Ascending.
    blocks: Vec<GroupBlock>,
    captures_left: usize,
    is_lost: bool,
    step: Step,
    /// Writes of the step that are to be begun, those that failed, and how many are under way.
    todo: VecDeque<u32>,
    failed: Vec<u32>,
    in_flight: usize,
    is_paused: bool,
}

impl Group {
    /// A group of these blocks, ascending, which are to be captured.
    pub(crate) fn new(number: u64, blocks: &[BlockNo]) -> Group {
        Group {
            number,
            blocks: blocks.iter().map(|&block| GroupBlock { block, bytes: None, crc: 0 }).collect(),
            captures_left: blocks.len(),
            is_lost: false,
            step: Step::Capture,
            todo: VecDeque::new(),
            failed: Vec::new(),
            in_flight: 0,
            is_paused: false,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Whether a block is in it, until its copies are noted as clean.
    pub(crate) fn has(&self, block: BlockNo) -> bool {
        self.blocks.binary_search_by_key(&block, |one| one.block).is_ok()
    }

    /// Whether the backing disk with its log has it.
    pub(crate) fn is_committed(&self) -> bool {
        matches!(self.step, Step::Disk | Step::DiskFlush(_) | Step::Empty | Step::EmptyFlush | Step::Over)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// The bytes of a block as of the cut, a whole block of them.
    pub(crate) fn captured(&mut self, volume: VolumeTag, block: BlockNo, bytes: Bytes) {
        if let Ok(at) = self.blocks.binary_search_by_key(&block, |one| one.block) {
            let crc = data_checksum(volume, block, &bytes);
            self.blocks[at] = GroupBlock { block, bytes: Some(bytes), crc };
        }
    }

    /// The capture of a block is over. `is_lost`: it is newer than the disk, and its bytes cannot be read. Without bytes it was not
    /// newer than the disk.
    pub(crate) fn capture_ended(&mut self, is_lost: bool) {
        self.captures_left.count_down();
        self.is_lost |= is_lost;
    }

    /// Whether its blocks are being captured.
    pub(crate) fn is_capturing(&self) -> bool {
        self.captures_left > 0
    }

    /// The version of the journal that it waits for; 0 if it does not.
    pub(crate) fn version_waited_for(&self) -> u64 {
        if let Step::Record { version, .. } = self.step { version } else { 0 }
    }

    /// The mark of the backing disk that it waits for; 0 if it does not.
    pub(crate) fn mark_waited_for(&self) -> u64 {
        match self.step {
            Step::Record { mark, .. } | Step::DiskFlush(mark) => mark,
            _ => 0,
        }
    }

    /// What is next. To be asked again after it was done, until nothing is.
    pub(crate) fn next(&mut self, facts: &GroupFacts) -> GroupNext {
        match self.step {
            _ if self.is_paused || !facts.disk_works => GroupNext::Wait,
            _ if !self.is_committed() && !facts.may_begin => GroupNext::Wait,
            Step::Capture if self.captures_left > 0 => GroupNext::Wait,
            Step::Capture if self.is_lost && !planted("group-without-lost-block") => GroupNext::Lost,
            Step::Capture => {
                self.blocks.retain(|one| one.bytes.is_some());
                if self.blocks.is_empty() {
                    self.step = Step::Over;
                    return GroupNext::Over;
                }
                self.step = Step::Record { version: facts.version, mark: facts.mark };
                self.next(facts)
            }
            Step::Record { version, mark } => {
                // Without a journal nobody believes clean copies any more.
                let is_recorded =
                    !facts.is_well || facts.durable >= version || planted("group-before-record");
                if !is_recorded || facts.flushed < mark {
                    return GroupNext::Wait;
                }
                self.begin(Step::Log, self.table_pages() + self.blocks.len() as u32);
                self.next_writes()
            }
            Step::Log | Step::Commit | Step::Disk | Step::Empty => self.next_writes(),
            Step::LogFlush | Step::CommitFlush | Step::EmptyFlush => GroupNext::Wait,
            Step::DiskFlush(mark) if facts.flushed >= mark || planted("group-ends-before-flush") => {
                self.begin(Step::Empty, RedoLayout::STATES.into());
                GroupNext::OnDisk
            }
            Step::DiskFlush(_) => GroupNext::Wait,
            Step::Over => GroupNext::Over,
        }
    }

    fn table_pages(&self) -> u32 {
        RedoLayout::table_pages(self.blocks.len() as u32)
    }

    fn begin(&mut self, step: Step, writes: u32) {
        self.step = step;
        self.todo = (0..writes).collect();
    }

    fn next_writes(&mut self) -> GroupNext {
        if self.in_flight > 0 {
            return GroupNext::Wait;
        }
        if !self.todo.is_empty() {
            let batch: Vec<u32> = self.todo.drain(..self.todo.len().min(WRITES_AT_ONCE)).collect();
            self.in_flight = batch.len();
            return GroupNext::Write(batch);
        }
        if !self.failed.is_empty() {
            self.is_paused = true;
            return GroupNext::Wait;
        }
        match self.step {
            Step::Disk => GroupNext::FlushDisk,
            Step::Log if planted("group-log-not-flushed") => {
                self.begin(Step::Commit, RedoLayout::STATES.into());
                self.next_writes()
            }
            Step::Log => self.flush_log(Step::LogFlush),
            Step::Commit => self.flush_log(Step::CommitFlush),
            _ => self.flush_log(Step::EmptyFlush),
        }
    }

    fn flush_log(&mut self, step: Step) -> GroupNext {
        self.step = step;
        if step == Step::CommitFlush && planted("group-commit-not-flushed") {
            self.log_flushed();
            return self.next_writes();
        }
        GroupNext::FlushLog
    }

    /// A write has ended.
    pub(crate) fn write_ended(&mut self, number: u32, ok: bool) {
        self.in_flight.count_down();
        if !ok {
            self.failed.push(number);
        }
    }

    /// The log was flushed.
    pub(crate) fn log_flushed(&mut self) {
        match self.step {
            Step::LogFlush => self.begin(Step::Commit, RedoLayout::STATES.into()),
            Step::CommitFlush => self.begin(Step::Disk, self.blocks.len() as u32),
            Step::EmptyFlush => self.step = Step::Over,
            step => unreachable!("a flush of the log in {step:?}"),
        }
    }

    /// The disk has all blocks durably when it was flushed up to this mark.
    pub(crate) fn await_disk(&mut self, mark: u64) {
        self.step = Step::DiskFlush(mark);
    }

    /// What failed is tried again.
    pub(crate) fn resume(&mut self) {
        if std::mem::take(&mut self.is_paused) {
            self.todo = std::mem::take(&mut self.failed).into();
        }
    }

    /// The write of this number of the step.
    pub(crate) fn write(&self, identity: &Identity, number: u32) -> GroupWrite {
        let blocks = self.blocks.len() as u32;
        match self.step {
            Step::Log if number < self.table_pages() => {
                let page = self.table_page(identity, number).encode(identity.cache);
                GroupWrite::Log(RedoLayout::table_page(number), Buf::copy_of(&page[..]).freeze())
            }
            Step::Log => {
                let number = number - self.table_pages();
                GroupWrite::Log(identity.layout.block(number), self.bytes(number))
            }
            Step::Disk => GroupWrite::Disk(self.blocks[number as usize].block, self.bytes(number)),
            Step::Commit => self.state(identity, number, blocks),
            Step::Empty => self.state(identity, number, 0),
            step => unreachable!("nothing is written in {step:?}"),
        }
    }

    fn bytes(&self, number: u32) -> Bytes {
        self.blocks[number as usize].bytes.clone().expect("it was captured")
    }

    fn state(&self, identity: &Identity, copy: u32, blocks: u32) -> GroupWrite {
        let page = identity.state(self.number, blocks).encode(identity.cache);
        GroupWrite::Log(RedoLayout::state(copy as u8), Buf::copy_of(&page[..]).freeze())
    }

    fn table_page(&self, identity: &Identity, page: u32) -> RedoTablePage {
        let first = page as usize * REDO_ENTRIES_PER_PAGE;
        let entry = |one: &GroupBlock| RedoEntry { block: one.block, crc: one.crc };
        let entries = self.blocks.iter().skip(first).take(REDO_ENTRIES_PER_PAGE).map(entry).collect();
        RedoTablePage { volume: identity.volume, group: self.number, page, entries }
    }

    /// Its blocks, whose bytes are not needed any more.
    pub(crate) fn take_blocks(&mut self) -> Vec<BlockNo> {
        std::mem::take(&mut self.blocks).into_iter().map(|one| one.block).collect()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let bytes = |one: &GroupBlock| one.bytes.as_ref().map_or(0, |bytes| bytes.len());
        self.blocks.iter().map(bytes).sum::<usize>()
            + self.blocks.capacity() * size_of::<GroupBlock>()
            + self.todo.capacity() * size_of::<u32>()
    }
}
