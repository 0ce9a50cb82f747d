//! Every sequence of events of one block up to a length, against a model of what it has on the SSD, in the journal and on the
//! backing disk. Each step checks that reads and merges see the newest write (guarantee 1), that a damaged block is an error
//! and never older bytes (5), and that whatever a power cut leaves is no older than what a FLUSH would have promised (2, 3):
//! the copy that the journal knows, in any state from the last durable one on, or what the disk may hold.

mod grouped;
mod outcome;
mod twice;
mod waits;

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use lode_types::Level;

use self::grouped::OneGroup;
use super::*;

type Value = u8;

/// A record of the journal about the block: where its copy is and whether it is dirty; `None`: it has none.
type Record = Option<(Place, bool)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteState {
    Pending,
    Done,
    Failed,
}

/// A place of the SSD: what was written there, durably or not, and whether it reads back.
#[derive(Clone, Debug)]
struct SsdPlace {
    value: Value,
    durable: bool,
    damaged: bool,
}

/// How much of the block an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cover {
    Whole,
    Sectors,
    /// It begins or ends within a sector.
    Bytes,
}

#[derive(Clone, Debug)]
struct Model {
    flight: Flight,
    /// Writes in order of submission; the value of the n-th is n + 1, and 0 is what the disk had before.
    writes: Vec<WriteState>,
    /// How many writes came before each access in the queue, itself not counted, and how much of the block it is.
    accesses: Vec<(Value, Cover)>,
    places: Vec<SsdPlace>,
    records: Vec<Record>,
    /// Records up to here are durable.
    durable: usize,
    /// Records that wait for a flush of the disk: a clean copy of bytes that it may still lose.
    volatile: Option<Place>,
    /// What the disk holds: the last value that is durable, and those since.
    disk: Vec<Value>,
    /// What the frames hold that were ever filled, and whether they are still in use.
    frames: Vec<(Value, bool)>,
    /// What the places of the read SSD hold that were ever written.
    mirrors: Vec<Value>,
    /// The block put together, or read, for what is written next.
    bytes: Option<Value>,
    /// The write-back has reached the disk, which has yet to be flushed.
    written: bool,
    /// The zeroing that waits for the block or has hold of it: its value, and how far it is.
    zeroing: Option<(Value, Zeroing)>,
    /// A write that the SSD answered, and that the disk is still at.
    late: Option<Value>,
    /// The write at the head was issued again.
    again: bool,
    well: bool,
    fenced: bool,
    /// The latest write that a FLUSH has covered.
    least: Value,
    /// Faults that may still come.
    faults: u8,
    /// The only copy of a dirty block was damaged.
    lost: bool,
    /// The disk is written in groups alone, and the one that the block is in.
    ordered: bool,
    group: Option<OneGroup>,
    story: Vec<ModelEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zeroing {
    /// The disk was not touched.
    Asked,
    /// The disk has the zeroes, and has yet to be flushed.
    OnDisk,
    /// The dirty copy is given up, and the journal has yet to know that.
    Freed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelEvent {
    Submit(Ask),
    /// What the stage waits for from a device has ended; `bool`: well.
    Device(bool),
    /// It failed, and the disk has the bytes all the same.
    DiskFailedButWrote,
    Commit,
    Flush,
    SsdFails,
    Fence,
    /// The disk has zeroed the block.
    Zero,
    /// The zeroing that has hold of the block is over, and has failed.
    Release,
    /// The write on its way to the disk is issued again to the SSD.
    IssueAgain,
    /// The SSD is through with it; `bool`: well.
    Again(bool),
    /// A write that the SSD answered has arrived at the disk, or has failed there; `bool`: the disk has the bytes.
    Late(bool),
    /// The group comes to the disk, durably.
    Group,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Read {
        fill_ssd: bool,
        fill_frame: bool,
    },
    WriteBack {
        partial: bool,
        frame: bool,
    },
    WriteThrough,
    WriteAround(Cover),
    EvictSsd,
    EvictDram,
    Clean,
    /// A copy on the read SSD comes about, and goes.
    Mirror,
    EvictMirror,
    /// The extent that its copy is in is to be given up.
    Move,
    Scrub,
    Hold,
    /// A cut.
    Capture,
}

const ASKS: [Ask; 17] = [
    Ask::Read { fill_ssd: false, fill_frame: false },
    Ask::Read { fill_ssd: true, fill_frame: false },
    Ask::Read { fill_ssd: false, fill_frame: true },
    Ask::WriteBack { partial: false, frame: false },
    Ask::WriteBack { partial: true, frame: true },
    Ask::WriteThrough,
    Ask::WriteAround(Cover::Whole),
    Ask::WriteAround(Cover::Sectors),
    Ask::WriteAround(Cover::Bytes),
    Ask::EvictSsd,
    Ask::EvictDram,
    Ask::Clean,
    Ask::Mirror,
    Ask::EvictMirror,
    Ask::Move,
    Ask::Scrub,
    Ask::Hold,
];

impl Model {
    fn new(faults: u8, ordered: bool) -> Model {
        Model {
            flight: Flight::new(VecDeque::new(), SsdCopy::None, None, None),
            writes: Vec::new(),
            accesses: Vec::new(),
            places: Vec::new(),
            records: vec![None],
            durable: 0,
            volatile: None,
            disk: vec![0],
            frames: Vec::new(),
            mirrors: Vec::new(),
            bytes: None,
            written: false,
            zeroing: None,
            late: None,
            again: false,
            well: true,
            fenced: false,
            least: 0,
            faults,
            lost: false,
            ordered,
            group: None,
            story: Vec::new(),
        }
    }

    /// What tells states apart that differ in what can still happen.
    fn key(&self) -> (u64, u64) {
        let Model { flight, writes, accesses, places, records, durable, volatile, disk, .. } = self;
        let world = (
            &self.frames,
            &self.mirrors,
            &self.bytes,
            self.written,
            (self.zeroing, self.late, self.again),
            self.well,
            self.fenced,
            self.least,
            (self.faults, self.group),
        );
        let state = format!(
            "{flight:?}{writes:?}{accesses:?}{places:?}{records:?}{durable}{volatile:?}{disk:?}{world:?}"
        );
        // Two sums instead of the text, which there is no memory for a million times.
        let sum = |salt: u8| {
            let mut hasher = std::hash::DefaultHasher::new();
            (salt, &state).hash(&mut hasher);
            hasher.finish()
        };
        (sum(0), sum(1))
    }

    fn facts(&self) -> Facts {
        let flight = &self.flight;
        let latest = self.records.last().copied().flatten();
        let has = |record: &Record| record.is_some();
        Facts {
            is_well: self.well,
            writes_back: self.well || self.fenced,
            is_ordered: self.ordered,
            is_dirty: flight.copy.place().is_some() && matches!(latest, Some((_, true))),
            is_owed: false,
            is_recorded: self.durable + 1 == self.records.len(),
            may_come_back: latest.is_none() && self.records[self.durable..].iter().any(has),
            is_whole: self.accesses.first().is_some_and(|access| access.1 == Cover::Whole),
            is_in_sectors: self.accesses.first().is_some_and(|access| access.1 != Cover::Bytes),
            leaves_extent: self.well && flight.copy.whole().is_some(),
            is_read_ssd_gone: false,
        }
    }

    /// Whether a value may be read after so many writes were submitted and all of them have ended.
    fn may_read(&self, value: Value, submitted: Value) -> bool {
        let mut at = submitted;
        while at > 0 && value != at && self.writes[at as usize - 1] == WriteState::Failed {
            at -= 1;
        }
        value == at
    }

    fn submit(&mut self, ask: Ask) -> bool {
        let has_slot = self.flight.slot(Level::Ssd).is_some();
        let has_mirror = self.flight.slot(Level::ReadSsd).is_some();
        let submitted = self.writes.len() as Value;
        let slice = RequestSlice { request: 0, buf_at: 0, start: 0, len: 0 };
        let from = CopyAt::Ssd;
        let mut op = |kind, cover, reserved: Reserved| {
            self.accesses.push((submitted, cover));
            if !matches!(kind, AccessKind::Read { .. }) {
                self.writes.push(WriteState::Pending);
            }
            BlockOp::Access(BlockAccess { slice, kind, reserved })
        };
        let place = Reserved { frame: false, place: true };
        let (op, ssd_slot, dram_slot) = match ask {
            Ask::Read { fill_ssd: true, .. } if has_slot => return false,
            Ask::Read { fill_frame: true, .. } if self.flight.slot(Level::Dram).is_some() => return false,
            Ask::Read { fill_ssd, fill_frame } => {
                let reserved = Reserved { frame: fill_frame, place: fill_ssd };
                (
                    op(AccessKind::Read { from }, Cover::Whole, reserved),
                    fill_ssd.then_some(true),
                    fill_frame.then_some(true),
                )
            }
            Ask::WriteBack { partial, frame } => {
                let reserved = Reserved { frame, place: true };
                // Should it go to the disk instead, a part of a sector is the harder case.
                let cover = if partial { Cover::Bytes } else { Cover::Whole };
                (op(AccessKind::WriteBack { merge: from }, cover, reserved), Some(true), Some(frame))
            }
            Ask::WriteThrough => {
                (op(AccessKind::WriteThrough { merge: from }, Cover::Whole, place), Some(true), Some(false))
            }
            Ask::WriteAround(cover) => {
                (op(AccessKind::WriteAround, cover, Reserved::default()), Some(false), Some(false))
            }
            Ask::EvictSsd if has_slot => (BlockOp::Evict(Level::Ssd), Some(false), None),
            Ask::EvictDram if self.flight.slot(Level::Dram).is_some() => {
                (BlockOp::Evict(Level::Dram), None, Some(false))
            }
            Ask::Clean if has_slot => (BlockOp::Clean { asked: true }, None, None),
            Ask::Mirror if !has_mirror => {
                self.flight.slots[Level::ReadSsd.index()] = Some(1);
                (BlockOp::Copy { to: Level::ReadSsd, from }, None, None)
            }
            Ask::EvictMirror if has_mirror => {
                self.flight.slots[Level::ReadSsd.index()] = None;
                (BlockOp::Evict(Level::ReadSsd), None, None)
            }
            Ask::Move => (BlockOp::Move, None, None),
            Ask::Scrub if has_slot => (BlockOp::Scrub, None, None),
            Ask::Capture if self.group.is_none() => (self.begin_group(submitted), None, None),
            // One after the other.
            Ask::Hold if self.zeroing.is_none() => {
                self.begin_zeroing();
                (BlockOp::Hold, Some(false), Some(false))
            }
            _ => return false,
        };
        for (level, slot) in [(Level::Ssd, ssd_slot), (Level::Dram, dram_slot)] {
            if let Some(slot) = slot {
                self.flight.slots[level.index()] = slot.then_some(1);
            }
        }
        if self.flight.push(op) {
            self.happen(Input::Proceed);
        }
        true
    }

    /// A device is through with what the stage waits for.
    fn device(&mut self, ok: bool, wrote: bool) -> bool {
        let write = self.accesses.first().map(|access| access.0 + 1);
        match self.flight.stage {
            Stage::Read(copy) => {
                let intact = ok && !(copy == CopyAt::Ssd && self.is_damaged());
                if !ok && copy == CopyAt::Ssd {
                    self.places[self.flight.copy.place().unwrap() as usize].damaged = true;
                }
                self.bytes = intact.then(|| self.copy_value(copy));
                self.happen(Input::Read { intact });
            }
            Stage::WriteSsd | Stage::WriteReadSsd => {
                self.happen(Input::Written(if ok { Ok(()) } else { Err(GuestError::Io) }));
            }
            Stage::WriteBacking => {
                if self.disk_write_error().is_some() {
                    return false;
                }
                if self.accesses[0].1 == Cover::Bytes {
                    assert_eq!(self.bytes, write, "the rest of its sectors: {self:#?}");
                }
                if wrote {
                    self.disk.push(write.unwrap());
                }
                self.disk_write_ended(ok);
            }
            Stage::WriteBack if !self.written => {
                let facts = self.facts();
                let copy = match self.flight.source(CopyAt::Dram) {
                    Some(CopyAt::Ssd) if self.is_damaged() => {
                        self.happen(Input::Unreadable(CopyAt::Ssd));
                        self.flight.source(CopyAt::Dram)
                    }
                    copy => copy,
                };
                let Some(copy) = copy.filter(|&copy| copy != CopyAt::Backing) else {
                    self.happen(Input::NotWrittenBack { disk_failed: false });
                    return true;
                };
                if wrote {
                    self.disk.push(self.copy_value(copy));
                }
                match ok && facts.writes_back {
                    true => self.written = true,
                    false => self.happen(Input::NotWrittenBack { disk_failed: true }),
                }
            }
            _ => return false,
        }
        true
    }

    fn is_damaged(&self) -> bool {
        self.flight.copy.place().is_some_and(|place| self.places[place as usize].damaged)
    }

    fn event(&mut self, event: ModelEvent) -> bool {
        self.story.push(event);
        let is_fault = matches!(
            event,
            ModelEvent::Device(false)
                | ModelEvent::DiskFailedButWrote
                | ModelEvent::SsdFails
                | ModelEvent::Again(false)
                | ModelEvent::Late(false)
        );
        if is_fault && self.faults == 0 {
            return false;
        }
        self.faults -= u8::from(is_fault);
        let happened = match event {
            ModelEvent::Submit(ask) => self.submit(ask),
            ModelEvent::Device(ok) => self.device(ok, ok),
            ModelEvent::DiskFailedButWrote => match self.flight.stage {
                Stage::WriteBacking => self.device(false, true),
                Stage::WriteBack if !self.written => self.device(false, true),
                _ => false,
            },
            ModelEvent::Commit => self.commit(),
            ModelEvent::Flush => self.flush(),
            ModelEvent::SsdFails if self.well => {
                self.well = false;
                if matches!(self.flight.stage, Stage::Gate(_)) || self.written {
                    self.written = false;
                    self.happen(Input::NeverDurable);
                }
                if matches!(self.zeroing, Some((_, Zeroing::OnDisk | Zeroing::Freed))) {
                    self.zeroing_ended(WriteState::Failed);
                }
                true
            }
            ModelEvent::Fence if !self.well && !self.fenced => {
                self.fenced = true;
                true
            }
            ModelEvent::Zero => self.zero(),
            ModelEvent::Release if self.flight.stage == Stage::Held && self.is_zeroing(Zeroing::Asked) => {
                self.zeroing_ended(WriteState::Failed);
                true
            }
            ModelEvent::IssueAgain => self.issue_again(),
            ModelEvent::Again(ok) => self.again_ended(ok),
            ModelEvent::Late(wrote) => self.late_write_ended(wrote),
            ModelEvent::Group => self.group_comes_to_disk(),
            ModelEvent::SsdFails | ModelEvent::Fence | ModelEvent::Release => false,
        };
        if happened && self.well && self.durable + 1 == self.records.len() && self.disk.len() == 1 {
            let done = self.writes.iter().rposition(|&state| state == WriteState::Done);
            self.least = self.least.max(done.map_or(0, |at| at as Value + 1));
        }
        happened
    }

    /// The journal becomes durable, and the bytes that it speaks of before it.
    fn commit(&mut self) -> bool {
        if !self.well || self.durable + 1 == self.records.len() {
            return false;
        }
        self.durable = self.records.len() - 1;
        for place in self.records.iter().flatten().map(|record| record.0) {
            self.places[place as usize].durable = true;
        }
        if matches!(self.flight.stage, Stage::Gate(_)) {
            self.happen(Input::Durable);
        } else if self.is_zeroing(Zeroing::Freed) {
            self.zeroing_ended(WriteState::Done);
        }
        true
    }

    fn flush(&mut self) -> bool {
        if self.disk.len() == 1 && !self.written && !self.is_zeroing(Zeroing::OnDisk) {
            return false;
        }
        self.disk = vec![*self.disk.last().unwrap()];
        if let Some(place) = self.volatile.take()
            && self.flight.copy.place() == Some(place)
        {
            self.record(Some((place, false)));
        }
        if std::mem::take(&mut self.written) {
            self.happen(Input::OnDisk);
        }
        if self.is_zeroing(Zeroing::OnDisk) {
            self.happen(Input::Zeroed);
            self.zeroing = self.zeroing.map(|(value, _)| (value, Zeroing::Freed));
        }
        true
    }

    /// Looks at everything that a power cut could leave.
    fn check_power_cut(&self) {
        let is_young_enough = |value: Value| value >= self.least;
        for end in self.durable..self.records.len() {
            // A record is believed when its bytes are there; those of later ones may be, or not.
            let believed = |record: &&Record| !matches!(record, Some((_, false)) if self.fenced);
            let record = self.records[..=end].last().filter(believed).copied().flatten();
            let older = self.records[..=self.durable].last().filter(believed).copied().flatten();
            for record in [record, older] {
                match record {
                    Some((place, _)) if self.places[place as usize].damaged => {}
                    Some((place, dirty)) => {
                        let value = self.places[place as usize].value;
                        assert!(is_young_enough(value), "{value} is on the SSD after a power cut: {self:#?}");
                        let differs = self.disk.iter().any(|&on_disk| on_disk != value);
                        assert!(
                            dirty || !differs,
                            "a clean copy comes back that is not the disk's: {self:#?}"
                        );
                    }
                    None => {
                        let old = self.disk.iter().find(|&&value| !is_young_enough(value));
                        assert!(old.is_none(), "{old:?} is on the disk after a power cut: {self:#?}");
                    }
                }
            }
        }
    }

    /// Lets everything that is under way come to an end, with devices that work, or only fail, from now on. It does come to an
    /// end, and what is there then can be read.
    fn check_end(mut self, ok: bool) {
        let events = [
            ModelEvent::Device(ok),
            ModelEvent::Again(ok),
            ModelEvent::Late(ok),
            ModelEvent::Commit,
            ModelEvent::Fence,
            ModelEvent::Flush,
            if ok { ModelEvent::Zero } else { ModelEvent::Release },
            ModelEvent::Release,
            ModelEvent::Group,
        ];
        for _ in 0..100 {
            let step = |event| {
                let mut next = self.clone();
                next.faults = 1;
                next.event(event).then_some(next)
            };
            let Some(next) = events.into_iter().find_map(step) else { break };
            self = next;
            self.check_power_cut();
        }
        assert!(self.flight.queue.is_empty(), "it never ends: {self:#?}");
        assert!(self.accesses.is_empty() && !self.writes.contains(&WriteState::Pending), "{self:#?}");
        let source = self.flight.source(CopyAt::Dram);
        assert!(source.is_some() || self.lost, "another copy was there to repair it from: {self:#?}");
        if let Some(copy) = source.filter(|_| !self.is_damaged()) {
            assert!(self.may_read(self.copy_value(copy), self.writes.len() as Value), "{self:#?}");
        }
    }
}

/// Tries all sequences of so many events, of which so many are operations and so many faults.
fn explore(events: u32, most_ops: usize, faults: u8, asks: &[Ask]) -> usize {
    let is_ordered = asks.contains(&Ask::Capture);
    let mut seen = HashSet::new();
    let mut states = vec![(Model::new(faults, is_ordered), 0)];
    for _ in 0..events {
        let mut next_states = Vec::new();
        for (model, ops) in states {
            let asks = asks.iter().filter(|_| ops < most_ops).map(|&ask| ModelEvent::Submit(ask));
            let others = [
                ModelEvent::Device(true),
                ModelEvent::Device(false),
                ModelEvent::DiskFailedButWrote,
                ModelEvent::Commit,
                ModelEvent::Flush,
                ModelEvent::SsdFails,
                ModelEvent::Fence,
                ModelEvent::Zero,
                ModelEvent::Release,
                ModelEvent::IssueAgain,
                ModelEvent::Again(true),
                ModelEvent::Again(false),
                ModelEvent::Late(true),
                ModelEvent::Late(false),
                ModelEvent::Group,
            ];
            for event in asks.chain(others) {
                let mut next = model.clone();
                if next.event(event) && seen.insert(next.key()) {
                    next.check_power_cut();
                    next.check_waits();
                    next.clone().check_end(true);
                    next.clone().check_end(false);
                    next_states.push((next, ops + usize::from(matches!(event, ModelEvent::Submit(_)))));
                }
            }
        }
        states = next_states;
    }
    seen.len()
}

#[test]
fn g1_g2_g3_g5_every_sequence_of_events_of_one_block() {
    let states = explore(9, 4, 1, &ASKS);
    println!("{states} states");
    assert!(states > 100_000, "{states}");
}

#[test]
fn g1_g2_g3_g5_two_faults_of_one_block() {
    let states = explore(8, 3, 2, &ASKS);
    println!("{states} states");
    assert!(states > 50_000, "{states}");
}
