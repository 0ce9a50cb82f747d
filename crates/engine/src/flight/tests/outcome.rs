//! Carries out in the model what the state machine says is next.

use lode_types::Level;

use super::*;

impl Model {
    pub(super) fn happen(&mut self, input: Input) {
        let mut input = Some(input);
        while let Some(happened) = input {
            let facts = self.facts();
            let next = self.flight.step(happened, &facts);
            input = self.carry_out(next);
        }
    }

    pub(super) fn copy_value(&self, copy: CopyAt) -> Value {
        match copy {
            CopyAt::Dram => self.frame().expect("the frame holds something"),
            CopyAt::Ssd => self.places[self.flight.copy.place().unwrap() as usize].value,
            CopyAt::Backing => *self.disk.last().unwrap(),
            CopyAt::ReadSsd => self.mirrors[self.flight.mirror.expect("it is there") as usize],
        }
    }

    /// What the block's frame holds.
    pub(super) fn frame(&self) -> Option<Value> {
        let (value, in_use) = self.frames[self.flight.frame? as usize];
        assert!(in_use, "the frame is free: {self:#?}");
        Some(value)
    }

    pub(super) fn free(&mut self, frame: Frame) {
        assert!(std::mem::take(&mut self.frames[frame as usize].1), "the frame is free: {self:#?}");
    }

    pub(super) fn record(&mut self, record: Record) {
        if self.well {
            self.records.push(record);
        }
    }

    pub(super) fn carry_out(&mut self, next: Next) -> Option<Input> {
        if let Some(put) = next.put {
            let is_move = self.flight.queue.front() == Some(&BlockOp::Move);
            let is_stable = match is_move {
                true => self.volatile.is_none() || put.old != self.volatile,
                false => self.disk.len() == 1,
            };
            match put.dirty || is_stable {
                true => self.record(Some((put.place, put.dirty))),
                false => {
                    // What it takes the place of is forgotten all the same.
                    if self.records.last().is_some_and(Option::is_some) {
                        self.record(None);
                    }
                    self.volatile = Some(put.place);
                }
            }
        }
        if next.give_up.is_some() || next.give_up_dirty.is_some() {
            self.volatile = None;
            if self.records.last().is_some_and(Option::is_some) {
                self.record(None);
            }
        }
        if let Some(damage) = next.damage {
            if matches!(damage, Damage::Clean(_)) {
                self.volatile = None;
                self.record(None);
            }
            self.lost |= matches!(damage, Damage::Lost(_) | Damage::Mirror { last: true });
        }
        let submitted = self.accesses.first().map(|access| access.0);
        if next.deliver {
            let value = self.bytes.or(self.frame()).expect("bytes are at hand");
            assert!(self.may_read(value, submitted.unwrap()), "read {value}: {self:#?}");
        }
        if next.capture {
            let value = self.bytes.or(self.frame()).expect("bytes are at hand");
            let submitted = self.group.as_ref().expect("a cut was made").submitted;
            assert!(self.may_read(value, submitted), "captures {value}: {self:#?}");
            self.group.as_mut().expect("a cut was made").value = Some(value);
        }
        if let Some(frame) = next.free_frame {
            self.free(frame);
        }
        if let Some(fill) = next.fill_frame {
            self.frames.push((self.bytes.expect("what fills a frame is there"), true));
            self.flight.fill(fill, self.frames.len() as Frame - 1);
        }
        if let Some(end) = next.end {
            let access = self.flight.access().expect("an access is at the head");
            if access.is_write() {
                let state =
                    if matches!(end, PartEnd::Served(_)) { WriteState::Done } else { WriteState::Failed };
                self.writes[submitted.unwrap() as usize] = state;
            }
        }
        self.act(next.act)
    }

    pub(super) fn act(&mut self, act: Act) -> Option<Input> {
        match act {
            Act::Wait | Act::Fetch(_) | Act::WriteBack => None,
            Act::WriteBacking => {
                self.list_disk_write();
                None
            }
            Act::Proceed => Some(Input::Proceed),
            Act::Queue => {
                // In its own turn nothing is at hand.
                self.bytes = None;
                Some(Input::Proceed)
            }
            Act::Leave => {
                self.leave();
                None
            }
            Act::Finish => {
                self.bytes = None;
                self.finish();
                Some(Input::Proceed)
            }
            Act::Merge => {
                let (submitted, cover) = self.accesses[0];
                let old = self.bytes.or(self.frame());
                if cover != Cover::Whole {
                    let old = old.expect("old bytes are at hand");
                    assert!(self.may_read(old, submitted), "merges with {old}: {self:#?}");
                }
                self.bytes = Some(submitted + 1);
                Some(Input::Proceed)
            }
            Act::WriteSsd => {
                let value = self.bytes.expect("what is written is there");
                self.places.push(SsdPlace { value, durable: false, damaged: false });
                self.flight.next_place = Some((self.places.len() as Place - 1, 0));
                None
            }
            Act::AwaitGate(_) if self.well => {
                (self.durable + 1 == self.records.len()).then_some(Input::Durable)
            }
            Act::AwaitGate(_) => Some(Input::NeverDurable),
            Act::AwaitFlush => {
                self.written = true;
                None
            }
            Act::NoteWrittenBack { place, stays } => {
                assert!(stays || self.flight.copy == SsdCopy::None, "the place is given up: {self:#?}");
                self.written = false;
                if !self.well {
                    return Some(Input::NeverDurable);
                }
                self.record(stays.then_some((place, false)));
                None
            }
            Act::AwaitTurn => Some(Input::Proceed),
            Act::AwaitPlace(_) => {
                self.bytes = self.bytes.or(self.frame());
                Some(Input::Proceed)
            }
            Act::WriteReadSsd => {
                self.mirrors.push(self.bytes.expect("what is copied is there"));
                self.flight.next_place = Some((self.mirrors.len() as Place - 1, 0));
                None
            }
            Act::Hold => None,
        }
    }

    fn finish(&mut self) {
        match self.flight.finish() {
            Some(BlockOp::Access(_)) => drop(self.accesses.remove(0)),
            Some(BlockOp::Capture) => self.group.as_mut().expect("a cut was made").is_captured = true,
            Some(BlockOp::Settle) => self.group = None,
            _ => {}
        }
    }

    /// As `Levels::settle` does it.
    pub(super) fn leave(&mut self) {
        let facts = self.facts();
        let stands_in = self.flight.stands_in(&facts);
        let flight = &mut self.flight;
        if flight.copy.is_lost() || flight.copy == SsdCopy::None {
            flight.slots[Level::Ssd.index()] = None;
        }
        if flight.slot(Level::Ssd).is_none() && !facts.is_dirty && flight.copy.whole().is_some() {
            flight.copy = SsdCopy::None;
            self.volatile = None;
            if self.records.last().is_some_and(Option::is_some) {
                self.record(None);
            }
        }
        let flight = &mut self.flight;
        if flight.frame.is_none() {
            flight.slots[Level::Dram.index()] = None;
        } else if flight.slot(Level::Dram).is_none()
            && !stands_in
            && let Some(frame) = flight.frame.take()
        {
            self.free(frame);
        }
        let has_mirror_slot = self.flight.slot(Level::ReadSsd).is_some();
        if self.flight.mirror.is_none() {
            self.flight.slots[Level::ReadSsd.index()] = None;
        } else if !has_mirror_slot && !stands_in {
            self.flight.mirror = None;
        }
        self.flight.backing_failed = false;
        assert_eq!(self.flight.next_frame, None, "{self:#?}");
        let in_use = self.frames.iter().filter(|(_, in_use)| *in_use).count();
        assert_eq!(in_use, usize::from(self.flight.frame.is_some()), "a frame is lost: {self:#?}");
    }
}
