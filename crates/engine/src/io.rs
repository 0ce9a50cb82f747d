//! From what the parts of the engine want read and written to device commands: neighbours are merged,
//! and a merged command that fails is tried again segment by segment, so that one bad sector fails one block.

use lode_store::Metadata;
use lode_store::pair::{PairOptions, STRIPE_BYTES};
use lode_types::{BlockNo, Buf, ByteList, Bytes};
use slab::Slab;
use smallvec::SmallVec;

use crate::command::{Command, CommandKind, DeviceId, MediaError};
use crate::disk::JobBlockId;

/// Most bytes of a merged command.
const MAX_COMMAND_BYTES: usize = 1 << 20;

/// Who wanted it, and is told how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The operation at the head of this block's queue.
    Block(u64),
    /// The guest's write of this block to the backing disk, which may outlast its operation.
    DiskWrite(u64),
    /// The same write, issued again to the SSD.
    Reissue(u64),
    /// This block of a write-back job.
    Destage(JobBlockId),
    /// A write or flush of the volume store.
    Metadata(Metadata),
    /// The flush of the backing disk in flight.
    BackingFlush,
    /// The trim or zeroing in flight.
    Range,
    /// This write of the group under way.
    Group(u32),
    /// What the redo log says of trims and zeroings.
    RedoRanges,
    /// The flush of the redo log in flight.
    RedoFlush,
    /// This part of a read that is served past the scheme.
    EarlyRead(usize),
}

/// One read or write of one owner.
#[derive(Debug)]
pub(crate) struct Want {
    pub(crate) device: DeviceId,
    pub(crate) offset_bytes: u64,
    pub(crate) len: usize,
    /// The bytes of a write; a read has none.
    pub(crate) data: Option<Bytes>,
    pub(crate) owner: Owner,
    /// What a read is to find.
    pub(crate) find: Option<Find>,
    /// Of a pair of SSDs, the block's home alone has it, or is to have it.
    pub(crate) one_copy: bool,
}

/// A block that a read is to find, with this checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Find {
    pub(crate) block: BlockNo,
    pub(crate) crc: u32,
    /// In every copy that there is.
    pub(crate) every_copy: bool,
}

impl Want {
    /// A write of these bytes, to every SSD of a pair.
    pub(crate) fn write(device: DeviceId, offset_bytes: u64, data: Bytes, owner: Owner) -> Want {
        let len = data.len();
        Want { device, offset_bytes, len, data: Some(data), owner, find: None, one_copy: false }
    }

    fn end(&self) -> u64 {
        self.offset_bytes + self.len as u64
    }

    fn every_copy(&self) -> bool {
        self.find.is_some_and(|find| find.every_copy)
    }

    /// Which SSD of a pair is its home goes by this, where that matters.
    fn stripe(&self) -> Option<u64> {
        (self.one_copy || self.find.is_some()).then_some(self.offset_bytes / STRIPE_BYTES)
    }

    fn order(&self) -> (DeviceId, bool, u64) {
        (self.device, self.data.is_some(), self.offset_bytes)
    }
}

/// Those of one command.
type Segments = SmallVec<[Segment; 1]>;

/// One owner's share of a command in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) owner: Owner,
    pub(crate) len: usize,
    find: Option<Find>,
    one_copy: bool,
}

/// A command in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) device: DeviceId,
    offset_bytes: u64,
    pub(crate) is_write: bool,
    pub(crate) segments: Segments,
    /// The bytes of a merged write, segment by segment: it may have to be taken apart.
    data: ByteList,
}

/// Wants, and commands on their way.
#[derive(Debug, Default)]
pub(crate) struct Io {
    wants: Vec<Want>,
    /// Those that become one command; empty but for its memory.
    run: Vec<Want>,
    ready: std::collections::VecDeque<Command>,
    in_flight: Slab<InFlight>,
}

impl Io {
    pub(crate) fn want(&mut self, want: Want) {
        self.wants.push(want);
    }

    /// A command that is no read or write. It is never merged.
    pub(crate) fn command(&mut self, device: DeviceId, kind: CommandKind, owner: Owner) {
        let segments = Segments::from_elem(Segment { owner, len: 0, find: None, one_copy: false }, 1);
        let data = ByteList::new();
        let id = self.in_flight.insert(InFlight { device, offset_bytes: 0, is_write: false, segments, data });
        let options = PairOptions::default();
        self.ready.push_back(Command { id: id as u64, device, kind, options });
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.wants.is_empty() && self.in_flight.is_empty()
    }

    /// The next command to carry out.
    pub(crate) fn next(&mut self) -> Option<Command> {
        if self.ready.is_empty() && !self.wants.is_empty() {
            self.merge();
        }
        self.ready.pop_front()
    }

    fn merge(&mut self) {
        let mut wants = std::mem::take(&mut self.wants);
        if wants.len() > 1 {
            wants.sort_by_key(Want::order);
        }
        let mut run = std::mem::take(&mut self.run);
        let mut run_bytes = 0;
        for want in wants.drain(..) {
            let joins = run.last().is_some_and(|last| {
                last.device == want.device
                    && last.data.is_some() == want.data.is_some()
                    && last.end() == want.offset_bytes
                    && last.every_copy() == want.every_copy()
                    && last.one_copy == want.one_copy
                    && last.stripe() == want.stripe()
                    && run_bytes + want.len <= MAX_COMMAND_BYTES
            });
            if !joins {
                self.issue(&mut run);
                run_bytes = 0;
            }
            run_bytes += want.len;
            run.push(want);
        }
        self.issue(&mut run);
        (self.wants, self.run) = (wants, run);
    }

    /// Makes one command of a run of neighbours.
    fn issue(&mut self, run: &mut Vec<Want>) {
        let Some(first) = run.first() else { return };
        let (device, offset_bytes, is_write) = (first.device, first.offset_bytes, first.data.is_some());
        let one_copy = first.one_copy;
        let segment = |want: &Want| Segment { owner: want.owner, len: want.len, find: want.find, one_copy };
        let segments: Segments = run.iter().map(segment).collect();
        let checks = run.iter().filter_map(|want| Some((want.find?.block, want.find?.crc))).collect();
        let options = PairOptions { checks, every_copy: first.every_copy(), one_copy };
        let mut data = ByteList::new();
        let kind = if is_write {
            let all: ByteList = run.drain(..).filter_map(|want| want.data).collect();
            if segments.len() > 1 {
                data.clone_from(&all);
            }
            CommandKind::Write { offset_bytes, data: all }
        } else {
            run.clear();
            let bufs = segments.iter().map(|segment| Buf::for_overwrite(segment.len)).collect();
            CommandKind::Read { offset_bytes, bufs }
        };
        let id = self.in_flight.insert(InFlight { device, offset_bytes, is_write, segments, data }) as u64;
        self.ready.push_back(Command { id, device, kind, options });
    }

    /// The end of a command: its segments, to be told. A merged command that failed comes back as commands
    /// for its segments instead, and nobody is told yet. `None` also for an id that is not in flight.
    pub(crate) fn finish(&mut self, id: u64, result: Result<(), MediaError>) -> Option<InFlight> {
        let command = self.in_flight.try_remove(usize::try_from(id).ok()?)?;
        if result != Err(MediaError::Io) || command.segments.len() < 2 {
            return Some(command);
        }
        let mut offset_bytes = command.offset_bytes;
        for (i, &Segment { owner, len, find, one_copy }) in command.segments.iter().enumerate() {
            let data = command.is_write.then(|| command.data[i].clone());
            let device = command.device;
            self.issue(&mut vec![Want { device, offset_bytes, len, data, owner, find, one_copy }]);
            offset_bytes += len as u64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(offset_bytes: u64, block: u64) -> Want {
        let owner = Owner::Block(block);
        let (device, len) = (DeviceId::Ssd, 4096);
        Want { device, offset_bytes, len, data: None, owner, find: None, one_copy: false }
    }

    #[test]
    fn neighbours_become_one_command_and_a_failure_splits_it() {
        let mut io = Io::default();
        for (offset, block) in [(8192, 2), (0, 0), (4096, 1), (20480, 5)] {
            io.want(read(offset, block));
        }
        let first = io.next().unwrap();
        let CommandKind::Read { offset_bytes: 0, bufs } = &first.kind else { panic!("{first:?}") };
        assert_eq!(bufs.iter().map(Buf::len).collect::<Vec<_>>(), [4096; 3]);
        assert!(matches!(io.next().unwrap().kind, CommandKind::Read { offset_bytes: 20480, .. }));
        assert!(io.finish(first.id, Err(MediaError::Io)).is_none());
        let segments: Vec<u64> = std::iter::from_fn(|| io.next())
            .map(|command| match command.kind {
                CommandKind::Read { offset_bytes, .. } => offset_bytes,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(segments, [0, 4096, 8192]);
        assert!(io.finish(999, Ok(())).is_none());
    }

    #[test]
    fn a_merged_write_that_failed_is_tried_again_with_the_same_bytes() {
        let mut io = Io::default();
        for block in [1, 0] {
            let data = Some(Buf::copy_of(&[block as u8; 4096]).freeze());
            io.want(Want { data, ..read(block * 4096, block) });
        }
        let written = |command: Command| match command.kind {
            CommandKind::Write { offset_bytes, data } => {
                (offset_bytes, data.iter().map(|bytes| bytes[0]).collect::<Vec<u8>>())
            }
            other => panic!("{other:?}"),
        };
        let first = io.next().unwrap();
        let id = first.id;
        assert_eq!(written(first), (0, vec![0, 1]));
        assert!(io.finish(id, Err(MediaError::Io)).is_none());
        let again: Vec<_> = std::iter::from_fn(|| io.next()).map(written).collect();
        assert_eq!(again, [(0, vec![0]), (4096, vec![1])]);
    }
}
