//! Bringing the member of a pair up to date that lacks something, while the volume is served: step by step, so that a crash may come
//! between any two, and writes with it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;

use lode_engine::command::{Command, CommandKind};
use lode_format::{DeviceLayout, PAGE_BYTES, PairLabel};
use lode_store::SyncDevice;
use lode_store::pair::{MEMBERS, Pair, Resilver};

use crate::disk::SimDisk;

/// Commands of the pair that a fill has to know of, and the fill.
#[derive(Debug, Default)]
pub(crate) struct Fill {
    /// Writes and flushes under way that were begun while nothing was filled.
    plain: BTreeSet<u64>,
    /// The others, with their numbers; flushes have none.
    known: HashMap<u64, Option<u64>>,
    parked: VecDeque<Command>,
    resilver: Resilver,
    step: Step,
}

/// What comes next.
#[derive(Debug, Default)]
enum Step {
    #[default]
    Nothing,
    /// The label that says that it lacks something.
    Label(usize),
    /// What was begun before ends.
    Draining,
    Next,
    /// A part, once nobody writes to it.
    Part(Range<u64>),
    Copying(Range<u64>, Vec<u8>),
    Flush,
    /// The labels that say that it has everything: so many writes and flushes of them are done.
    Labels(Pair, usize, usize),
}

/// What a fill has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// It waits for something.
    Waits,
    On,
    /// Everything goes to the member as well from now on.
    Begun,
    /// It has everything, and is waited for from now on.
    Counts,
    /// Labels of this generation say so.
    Over(u64),
}

impl Fill {
    /// The member failed.
    pub(crate) fn give_up(&mut self) {
        self.resilver.give_up();
        self.step = Step::Nothing;
    }

    pub(crate) fn begin(&mut self, member: usize) {
        self.step = Step::Label(member);
    }

    pub(crate) fn is_under_way(&self) -> bool {
        !matches!(self.step, Step::Nothing)
    }

    /// A command is about to begin. Gives it back unless it has to wait.
    pub(crate) fn admit(&mut self, command: Command, is_filling: bool) -> Option<Command> {
        match &command.kind {
            CommandKind::Read { .. } => return Some(command),
            _ if !is_filling => _ = self.plain.insert(command.id),
            CommandKind::Flush => _ = self.known.insert(command.id, None),
            kind => {
                let (offset_bytes, length_bytes) = kind.range();
                let Some(number) = self.resilver.begin_write(offset_bytes..offset_bytes + length_bytes)
                else {
                    self.parked.push_back(command);
                    return None;
                };
                self.known.insert(command.id, Some(number));
            }
        }
        Some(command)
    }

    /// One that waited.
    pub(crate) fn next_parked(&mut self) -> Option<Command> {
        self.parked.pop_front()
    }

    pub(crate) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// A write or flush is over.
    pub(crate) fn ended(&mut self, id: u64) {
        match self.known.remove(&id) {
            Some(number) => number.into_iter().for_each(|number| self.resilver.end_write(number)),
            None => _ = self.plain.remove(&id),
        }
    }

    /// Goes a step further. `labels` are those of the pair now, `used` the bytes of it that mean anything.
    pub(crate) fn step(
        &mut self,
        disks: [&mut SimDisk; MEMBERS],
        labels: &Pair,
        used: &[Range<u64>],
    ) -> Came {
        let member = usize::from(labels.in_sync[0]);
        match std::mem::take(&mut self.step) {
            Step::Nothing => return Came::Waits,
            Step::Label(member) => {
                let disk = &mut *disks[member];
                (0..2).for_each(|copy| disk.put(DeviceLayout::superblock(copy), &[0; PAGE_BYTES]));
                disk.settle(disk.flush_mark());
                put_label(disk, &PairLabel { device_bytes: disk.size_bytes(), ..labels.label(member) });
                disk.settle(disk.flush_mark());
                self.step = Step::Draining;
                return Came::Begun;
            }
            Step::Draining if !self.plain.is_empty() => {
                self.step = Step::Draining;
                return Came::Waits;
            }
            Step::Draining => {
                self.resilver.begin(used.to_vec());
                self.step = Step::Next;
            }
            Step::Next => {
                self.step = self.resilver.next_part().map_or(Step::Flush, Step::Part);
            }
            Step::Part(part) if !self.resilver.may_copy() => {
                self.step = Step::Part(part);
                return Came::Waits;
            }
            Step::Part(part) => {
                let mut bytes = vec![0; (part.end - part.start) as usize];
                disks[1 - member].peek(PairLabel::DATA_START_BYTES + part.start, &mut bytes);
                self.step = Step::Copying(part, bytes);
            }
            Step::Copying(part, bytes) => {
                disks[member].put(PairLabel::DATA_START_BYTES + part.start, &bytes);
                self.resilver.part_copied();
                self.step = Step::Next;
            }
            Step::Flush => {
                let disk = &mut *disks[member];
                disk.settle(disk.flush_mark());
                self.step = Step::Labels(labels.with(member, disk.size_bytes()), member, 0);
                return Came::Counts;
            }
            Step::Labels(said, member, done) => {
                let at = if done < 2 { member } else { 1 - member };
                let disk = &mut *disks[at];
                match done % 2 {
                    0 => put_label(disk, &said.label(at)),
                    _ => disk.settle(disk.flush_mark()),
                }
                if done == 3 {
                    return Came::Over(said.generation);
                }
                self.step = Step::Labels(said, member, done + 1);
            }
        }
        Came::On
    }
}

fn put_label(disk: &mut SimDisk, label: &PairLabel) {
    disk.put(DeviceLayout::superblock(label.copy()), &label.encode()[..]);
}
