//! The resilver of a member of a pair while the volume is served, step by step, so that a crash may come between any two, and writes
//! with it.

use std::ops::Range;

use lode_format::{DeviceLayout, PAGE_BYTES, PairLabel};
use lode_store::SyncDevice;
use lode_store::pair::{Followers, MEMBERS, Pair, Resilver, read_part, write_part};
use lode_types::MediaError;

use crate::disk::SimDisk;

/// Writes and flushes of [`begin_label`].
const LABEL_STEPS: usize = 5;
/// Writes and flushes of the labels of both members.
const BOTH_LABELS_STEPS: usize = 4;
/// Those of the label that is written first.
const FIRST_LABEL_STEPS: usize = 2;

/// How far a resilver is.
#[derive(Debug, Default)]
pub(crate) struct Resilvering {
    pub(crate) resilver: Resilver,
    member: usize,
    step: Step,
}

/// What comes next.
#[derive(Debug, Default)]
enum Step {
    #[default]
    Nothing,
    /// The label that says that it has nothing: so many writes and flushes of it are done.
    Label(usize, usize),
    /// Nobody sends anything to the device that was there, as of this change of the pair.
    Replacing(u64),
    /// What was begun before this change ends; none yet.
    Draining(Option<u64>),
    Next,
    /// A part, once nobody writes to it.
    Part(Range<u64>),
    Copying(Range<u64>, Vec<u8>),
    /// What was copied until now becomes durable.
    FlushPart,
    /// The labels that say how much is resilvered: so many writes and flushes of them are done.
    Progress(Pair, usize),
    Flush,
    /// The labels of before it counts: so many writes and flushes of them are done.
    Before(Pair, Pair, usize),
    /// Everybody goes by this change, with which it has everything; none yet.
    Counted(Option<u64>, Pair, usize),
    /// The labels that say that it has everything: so many writes and flushes of them are done.
    Labels(Pair, usize, usize),
}

/// What a resilver has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// It waits for something.
    Waits,
    On,
    /// Everything goes to the member as well from now on.
    Begun,
    /// It is over, and this member is to be dropped: the one that cannot be written, or not be resilvered from the other one.
    Failed(usize),
    /// The other one has these labels of how much is resilvered.
    Says(Pair),
    /// The other one has these labels of before it counts.
    IsToCount(Pair),
    /// It has everything, and is waited for from now on, as these labels are to say.
    Counts(Pair),
    /// Labels of this generation say so.
    Over(u64),
}

impl Resilvering {
    /// The member failed.
    pub(crate) fn give_up(&mut self) {
        self.resilver.give_up();
        self.step = Step::Nothing;
    }

    pub(crate) fn begin(&mut self, member: usize) {
        self.member = member;
        self.step = Step::Label(member, 0);
    }

    /// Which member it is of, while it is under way.
    pub(crate) fn member(&self) -> Option<usize> {
        (!matches!(self.step, Step::Nothing)).then_some(self.member)
    }

    /// What comes next are the labels that say that the member counts.
    pub(crate) fn labels_come_next(&self) -> bool {
        matches!(self.step, Step::Labels(_, _, 0))
    }

    /// What comes next is to look for what is to be copied.
    pub(crate) fn begins_to_copy(&self) -> bool {
        matches!(self.step, Step::Draining(_))
    }

    /// It goes on where another run ended. The member gets what is written, as of this change of the pair.
    pub(crate) fn resume(&mut self, member: usize, version: u64) {
        self.member = member;
        self.step = Step::Draining(Some(version));
    }

    /// It has begun with this change of the pair.
    pub(crate) fn begun(&mut self, version: u64) {
        self.step = Step::Draining(Some(version));
    }

    /// The member has everything with this change of the pair.
    pub(crate) fn counted(&mut self, version: u64) {
        if let Step::Counted(since, ..) = &mut self.step {
            *since = Some(version);
        }
    }

    /// Goes a step further. `labels` are those of the pair now, `used` the bytes of it that mean anything, and volumes have followed so
    /// far of the changes up to `version`.
    pub(crate) fn step(
        &mut self,
        disks: [&mut SimDisk; MEMBERS],
        labels: &Pair,
        used: &[Range<u64>],
        (followers, version): (&Followers, u64),
        epoch: u64,
    ) -> Came {
        let member = usize::from(labels.in_sync[0]);
        match std::mem::take(&mut self.step) {
            Step::Nothing => return Came::Waits,
            Step::Label(member, done) => {
                let new = labels.label_of_new(disks[member].size_bytes());
                return self.begin_label(disks[member], &new, done, version);
            }
            Step::Replacing(before) if !followers.may_replace(before) => {
                self.step = Step::Replacing(before);
                return Came::Waits;
            }
            Step::Replacing(before) => {
                // Where something else has happened to the pair it is not begun.
                assert_eq!(before, version, "nobody drops the last member");
                self.step = Step::Draining(None);
                return Came::Begun;
            }
            Step::Draining(Some(since)) if followers.may_copy(since) => {
                self.resilver.begin(used.to_vec(), labels.resilvered_bytes);
                self.step = Step::Next;
            }
            Step::Draining(since) => {
                self.step = Step::Draining(since);
                return Came::Waits;
            }
            Step::Next => {
                self.step = self.resilver.next_part(Resilver::PART_BYTES).map_or(Step::Flush, Step::Part)
            }
            copying @ (Step::Part(_) | Step::Copying(..) | Step::FlushPart | Step::Progress(..)) => {
                return self.copy_step(copying, disks, labels);
            }
            Step::Flush => {
                let Ok(()) = disks[member].flush() else { return Came::Failed(member) };
                let (before, counting) = labels.counting(member, disks[member].size_bytes(), epoch);
                self.step = Step::Before(before, counting, 0);
            }
            Step::Before(before, counting, done) => {
                return self.label_before(disks, (before, counting), member, done);
            }
            Step::Counted(since, said, member) => {
                if since.is_none_or(|since| !followers.have_adopted(since)) {
                    self.step = Step::Counted(since, said, member);
                    return Came::Waits;
                }
                // Where one was dropped again, a later label says so.
                if said == *labels {
                    self.step = Step::Labels(said, member, 0);
                }
            }
            Step::Labels(said, member, done) => return self.label_counting(disks, said, member, done),
        }
        Came::On
    }

    /// One step of the copying of a part, and of what labels say then.
    fn copy_step(&mut self, step: Step, disks: [&mut SimDisk; MEMBERS], labels: &Pair) -> Came {
        let member = self.member;
        match step {
            Step::Part(part) if !self.resilver.may_copy() => {
                self.step = Step::Part(part);
                return Came::Waits;
            }
            Step::Part(part) => {
                let Ok(bytes) = read_part(disks[1 - member], &part) else { return Came::Failed(member) };
                self.step = Step::Copying(part, bytes);
            }
            Step::Copying(part, bytes) => {
                let Ok(()) = write_part(disks[member], &part, &bytes) else { return Came::Failed(member) };
                self.resilver.part_copied();
                self.step = Step::FlushPart;
            }
            Step::FlushPart => {
                let Ok(()) = disks[member].flush() else { return Came::Failed(member) };
                let said =
                    labels.with_resilvered(disks[member].size_bytes(), self.resilver.resilvered_bytes());
                self.step = Step::Progress(said, 0);
            }
            Step::Progress(said, done) => {
                // As of all labels, the other one must not be older than what this one says.
                if write_label(disks, &said, 1 - member, done).is_err() {
                    return Came::Failed(member);
                }
                let is_over = done == BOTH_LABELS_STEPS - 1;
                self.step = if is_over { Step::Next } else { Step::Progress(said, done + 1) };
                if done + 1 == FIRST_LABEL_STEPS {
                    return Came::Says(said);
                }
            }
            _ => unreachable!("nothing else is a step of a part"),
        }
        Came::On
    }

    /// One write or flush of the labels of before the member counts.
    fn label_before(
        &mut self,
        disks: [&mut SimDisk; MEMBERS],
        (before, counting): (Pair, Pair),
        member: usize,
        done: usize,
    ) -> Came {
        // The other one first, which has everything: it must not be older than what this one says.
        if write_label(disks, &before, 1 - member, done).is_err() {
            return Came::Failed(member);
        }
        let is_over = done == BOTH_LABELS_STEPS - 1;
        self.step = match is_over {
            true => Step::Counted(None, counting, member),
            false => Step::Before(before, counting, done + 1),
        };
        match done + 1 {
            FIRST_LABEL_STEPS => Came::IsToCount(before),
            _ if is_over => Came::Counts(counting),
            _ => Came::On,
        }
    }

    /// One write or flush of the labels that say that the member counts.
    fn label_counting(
        &mut self,
        disks: [&mut SimDisk; MEMBERS],
        said: Pair,
        member: usize,
        done: usize,
    ) -> Came {
        if let Err(at) = write_label(disks, &said, member, done) {
            return Came::Failed(at);
        }
        if done == BOTH_LABELS_STEPS - 1 {
            return Came::Over(said.generation);
        }
        self.step = Step::Labels(said, member, done + 1);
        Came::On
    }

    /// One write or flush of the label that says that it has nothing.
    fn begin_label(&mut self, disk: &mut SimDisk, label: &PairLabel, done: usize, version: u64) -> Came {
        if begin_label(disk, label, done).is_err() {
            return Came::Failed(label.member);
        }
        let is_over = done == LABEL_STEPS - 1;
        self.step = if is_over { Step::Replacing(version) } else { Step::Label(label.member, done + 1) };
        Came::On
    }
}

/// One write or flush of the labels of both, first that of this member. Gives the one that fails.
fn write_label(disks: [&mut SimDisk; MEMBERS], said: &Pair, first: usize, done: usize) -> Result<(), usize> {
    let at = if done < FIRST_LABEL_STEPS { first } else { 1 - first };
    let disk = &mut *disks[at];
    let taken = if done.is_multiple_of(2) { put_label(disk, &said.label(at)) } else { disk.flush() };
    taken.map_err(|_| at)
}

/// One write or flush of the label of a device that is to be a member, and says nothing of before.
fn begin_label(disk: &mut SimDisk, label: &PairLabel, done: usize) -> Result<(), MediaError> {
    match done {
        0 | 1 => disk.write(DeviceLayout::superblock(done as u8), &[0; PAGE_BYTES]),
        3 => put_label(disk, label),
        _ => disk.flush(),
    }
}

/// Writes a label, which no flush covers.
pub(crate) fn put_label(disk: &mut SimDisk, label: &PairLabel) -> Result<(), MediaError> {
    disk.write(DeviceLayout::superblock(label.copy()), &label.encode()[..])
}
