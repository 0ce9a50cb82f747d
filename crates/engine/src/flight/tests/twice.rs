//! Writes and zeroings that are not over with one completion: a write that is issued again to the SSD while the disk is at it,
//! as `again.rs` and the hooks do it, and a zeroing as the range operation does it.

use super::*;
use crate::reissue::DiskWrite;

impl Model {
    /// A write past the SSD begins its way to the disk, and may be issued again.
    pub(super) fn list_disk_write(&mut self) {
        if self.flight.access().is_some_and(|access| access.kind == AccessKind::WriteAround) {
            self.again = false;
            self.flight.set_disk_write(Some(DiskWrite { id: 0, copy: None, error: None }));
        }
    }

    /// How the disk failed with the write that the SSD is still at.
    pub(super) fn disk_write_error(&self) -> Option<GuestError> {
        self.flight.disk_write.and_then(|write| write.error)
    }

    /// The disk is through with the write at the head.
    pub(super) fn disk_write_ended(&mut self, ok: bool) {
        match self.flight.disk_write {
            Some(DiskWrite { copy: Some(_), .. }) if ok => self.happen(Input::DiskFirst),
            Some(DiskWrite { copy: Some(_), .. }) => self.flight.disk_ended(Some(GuestError::Io)),
            _ => {
                self.flight.forget_disk_write();
                self.happen(Input::Written(if ok { Ok(()) } else { Err(GuestError::Io) }));
            }
        }
    }

    /// As `Engine::to_be_issued_again` says when.
    pub(super) fn issue_again(&mut self) -> bool {
        let is_read = |op: &BlockOp| matches!(op, BlockOp::Access(access) if !access.is_write());
        let is_newest = self.flight.queue.iter().skip(1).all(is_read);
        let is_listed =
            self.flight.disk_write.is_some_and(|write| write.copy.is_none() && write.error.is_none());
        let may = self.flight.stage == Stage::WriteBacking && is_listed && is_newest && self.well;
        if !may || self.flight.copy != SsdCopy::None || self.accesses[0].1 != Cover::Whole || self.again {
            return false;
        }
        // The hooks ask for it once.
        self.again = true;
        self.places.push(SsdPlace { value: self.accesses[0].0 + 1, durable: false, damaged: false });
        self.flight.issued_again(self.places.len() as Place - 1, 0);
        self.flight.set_slot(Level::Ssd, Some(1));
        true
    }

    /// The SSD is through with what was issued again.
    pub(super) fn again_ended(&mut self, ok: bool) -> bool {
        let Some((place, crc)) = self.flight.take_issued_again() else { return false };
        let (ok, error) = (ok && self.well, self.disk_write_error());
        if ok {
            let put = self.flight.put(place, crc, true);
            self.record(Some((put.place, true)));
        }
        let is_disk_first = self.flight.stage == Stage::WriteAgain;
        let input = match (is_disk_first, ok, error) {
            (true, ..) => Input::BothTook,
            (false, true, _) => Input::SsdFirst,
            (false, false, Some(error)) => Input::BothFailed(error),
            // The disk is still at it.
            (false, false, None) => return true,
        };
        match input == Input::SsdFirst && error.is_none() {
            true => self.late = Some(self.accesses[0].0 + 1),
            false => _ = self.flight.forget_disk_write(),
        }
        self.happen(input);
        true
    }

    /// The disk is through with a write that the SSD has answered.
    pub(super) fn late_write_ended(&mut self, wrote: bool) -> bool {
        let Some(value) = self.late.take() else { return false };
        if wrote {
            self.disk.push(value);
        }
        self.flight.forget_disk_write();
        self.happen(Input::LateArrived);
        true
    }

    /// What is submitted later comes after the zeroes.
    pub(super) fn begin_zeroing(&mut self) {
        self.flight.set_slot(Level::ReadSsd, None);
        self.writes.push(WriteState::Pending);
        self.zeroing = Some((self.writes.len() as Value, Zeroing::Asked));
    }

    pub(super) fn is_zeroing(&self, step: Zeroing) -> bool {
        self.zeroing.is_some_and(|(_, at)| at == step)
    }

    /// The disk zeroes the block, once the journal durably knows that clean copies are gone. A dirty one is given up when the
    /// disk was flushed.
    pub(super) fn zero(&mut self) -> bool {
        let is_forgotten = self.durable + 1 == self.records.len();
        let Some((value, Zeroing::Asked)) = self.zeroing else { return false };
        if self.flight.stage != Stage::Held || !self.well || !is_forgotten {
            return false;
        }
        self.disk.push(value);
        match self.flight.copy {
            SsdCopy::None => self.zeroing_ended(WriteState::Done),
            _ => self.zeroing = Some((value, Zeroing::OnDisk)),
        }
        true
    }

    pub(super) fn zeroing_ended(&mut self, state: WriteState) {
        let (value, _) = self.zeroing.take().expect("it has hold of the block");
        self.writes[value as usize - 1] = state;
        self.happen(Input::Released);
    }
}
