//! From what the parts of the engine want read and written to device commands: neighbours are merged,
//! and a merged command that fails is tried again part by part, so that one bad sector fails one block.

use lode_store::Metadata;
use slab::Slab;

use crate::Buf;
use crate::command::{Command, CommandKind, DeviceId, MediaError};
use crate::disk::JobPart;

/// Most bytes of a merged command.
const MAX_COMMAND_BYTES: usize = 1 << 20;
/// Most buffers kept for later, and the largest one kept.
const MAX_SPARE: usize = 32;
const MAX_SPARE_BYTES: usize = 64 << 10;

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
    Destage(JobPart),
    /// A write or flush of the volume store.
    Metadata(Metadata),
    /// The flush of the backing disk in flight.
    BackingFlush,
    /// The trim or zeroing in flight.
    Range,
}

/// One read or write of one owner.
#[derive(Debug)]
pub(crate) struct Want {
    pub(crate) device: DeviceId,
    pub(crate) offset_bytes: u64,
    pub(crate) len: usize,
    /// The bytes of a write; a read has none.
    pub(crate) data: Option<Buf>,
    pub(crate) owner: Owner,
}

impl Want {
    fn end(&self) -> u64 {
        self.offset_bytes + self.len as u64
    }

    fn order(&self) -> (DeviceId, bool, u64) {
        (self.device, self.data.is_some(), self.offset_bytes)
    }
}

/// One owner's share of a command in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) owner: Owner,
    pub(crate) len: usize,
}

/// A command in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) device: DeviceId,
    offset_bytes: u64,
    pub(crate) is_write: bool,
    pub(crate) parts: Vec<Part>,
}

/// Wants, and commands on their way.
#[derive(Debug, Default)]
pub(crate) struct Io {
    wants: Vec<Want>,
    ready: std::collections::VecDeque<Command>,
    in_flight: Slab<InFlight>,
    /// Buffers of one block that came back, for reads to come.
    spare: Vec<Buf>,
}

impl Io {
    pub(crate) fn want(&mut self, want: Want) {
        self.wants.push(want);
    }

    /// A command that is no read or write. It is never merged.
    pub(crate) fn command(&mut self, device: DeviceId, kind: CommandKind, owner: Owner) {
        let parts = vec![Part { owner, len: 0 }];
        let id = self.in_flight.insert(InFlight { device, offset_bytes: 0, is_write: false, parts });
        self.ready.push_back(Command { id: id as u64, device, kind });
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
        let mut run: Vec<Want> = Vec::new();
        let mut run_bytes = 0;
        for want in wants.drain(..) {
            let joins = run.last().is_some_and(|last| {
                last.device == want.device
                    && last.data.is_some() == want.data.is_some()
                    && last.end() == want.offset_bytes
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
        self.wants = wants;
    }

    /// A buffer to read into; what it holds means nothing.
    fn buffer(&mut self, len: usize) -> Buf {
        // Buffers of another size make way.
        while let Some(spare) = self.spare.pop() {
            if spare.len() == len {
                return spare;
            }
        }
        Buf::zeroed(len)
    }

    /// Takes back the buffer of a command that has ended.
    pub(crate) fn recycle(&mut self, buf: Buf) {
        if self.spare.len() < MAX_SPARE && buf.len() <= MAX_SPARE_BYTES {
            self.spare.push(buf);
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.spare.iter().map(Buf::len).sum()
    }

    /// Makes one command of a run of neighbours.
    fn issue(&mut self, run: &mut Vec<Want>) {
        let Some(first) = run.first() else { return };
        let (device, offset_bytes, is_write) = (first.device, first.offset_bytes, first.data.is_some());
        let parts: Vec<Part> = run.iter().map(|w| Part { owner: w.owner, len: w.len }).collect();
        let buf = if run.len() == 1 {
            let only = run.pop().expect("the run has one");
            only.data.unwrap_or_else(|| self.buffer(only.len))
        } else {
            let mut buf = Buf::zeroed(parts.iter().map(|part| part.len).sum());
            let mut at = 0;
            for want in run.drain(..) {
                if let Some(data) = want.data {
                    buf.as_mut_slice()[at..at + want.len].copy_from_slice(data.as_slice());
                }
                at += want.len;
            }
            buf
        };
        let id = self.in_flight.insert(InFlight { device, offset_bytes, is_write, parts }) as u64;
        let kind = match is_write {
            true => CommandKind::Write { offset_bytes, buf },
            false => CommandKind::Read { offset_bytes, buf },
        };
        self.ready.push_back(Command { id, device, kind });
    }

    /// The end of a command: its parts, to be told. A merged command that failed comes back as commands
    /// for its parts instead, and nobody is told yet. `None` also for an id that is not in flight.
    pub(crate) fn finish(
        &mut self,
        id: u64,
        result: Result<(), MediaError>,
        buf: Option<&Buf>,
    ) -> Option<InFlight> {
        let command = self.in_flight.try_remove(usize::try_from(id).ok()?)?;
        // A write that came back without its bytes cannot be tried again.
        let is_repeatable = !command.is_write || buf.is_some();
        if result != Err(MediaError::Io) || command.parts.len() < 2 || !is_repeatable {
            return Some(command);
        }
        let mut at = 0;
        for part in &command.parts {
            let data = buf.filter(|_| command.is_write);
            let mut run = vec![Want {
                device: command.device,
                offset_bytes: command.offset_bytes + at as u64,
                len: part.len,
                data: data.map(|buf| Buf::copy_of(&buf.as_slice()[at..at + part.len])),
                owner: part.owner,
            }];
            self.issue(&mut run);
            at += part.len;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(offset_bytes: u64, block: u64) -> Want {
        Want { device: DeviceId::Ssd, offset_bytes, len: 4096, data: None, owner: Owner::Block(block) }
    }

    #[test]
    fn neighbours_become_one_command_and_a_failure_splits_it() {
        let mut io = Io::default();
        for (offset, block) in [(8192, 2), (0, 0), (4096, 1), (20480, 5)] {
            io.want(read(offset, block));
        }
        let first = io.next().unwrap();
        let CommandKind::Read { offset_bytes: 0, buf } = &first.kind else { panic!("{first:?}") };
        assert_eq!(buf.len(), 3 * 4096);
        assert!(matches!(io.next().unwrap().kind, CommandKind::Read { offset_bytes: 20480, .. }));
        assert!(io.finish(first.id, Err(MediaError::Io), None).is_none());
        let parts: Vec<u64> = std::iter::from_fn(|| io.next())
            .map(|command| match command.kind {
                CommandKind::Read { offset_bytes, .. } => offset_bytes,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(parts, [0, 4096, 8192]);
        assert!(io.finish(999, Ok(()), None).is_none());
    }
}
