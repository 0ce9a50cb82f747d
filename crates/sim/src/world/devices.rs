//! What devices make of a world's commands: they carry them out, or fail, and guarantee 4 is looked at on the way.

use lode_engine::command::{Command, CommandKind, Completion, DeviceId, MediaError};
use lode_types::Bufs;

use super::{Held, Pending, World, is_metadata};
use crate::model::SECTOR;

impl World {
    /// Hands a command to its device. By chance that is through with a flush long before it says so.
    pub(super) fn send(&mut self, command: Command) -> Pending {
        self.note_in_digest(&command);
        self.check_owner(&command);
        let disk = self.disk(command.device);
        let mark = disk.flush_mark();
        let is_flush = matches!(command.kind, CommandKind::Flush);
        let ticket = is_flush.then(|| disk.shared.begin_flush());
        let flushed = (is_flush && self.rng.chance(50)).then(|| self.flush(&command, mark));
        Pending { command, mark, ticket, flushed }
    }

    fn flush(&mut self, command: &Command, mark: u64) -> Result<(), MediaError> {
        let error = self.fails(command);
        let disk = self.disk(command.device);
        match error {
            None => disk.settle(mark),
            Some(MediaError::Gone) => {}
            Some(_) => disk.drop_covered(mark),
        }
        error.map_or(Ok(()), Err)
    }

    fn fails(&mut self, command: &Command) -> Option<MediaError> {
        if self.is_gone(command.device) {
            return Some(MediaError::Gone);
        }
        let faults = &self.faults;
        let percent = match (&command.kind, command.device) {
            (CommandKind::Read { .. }, DeviceId::Ssd) => faults.ssd_read_errors,
            (CommandKind::Flush, DeviceId::Ssd) => faults.ssd_flush_errors,
            (CommandKind::Write { data, .. }, DeviceId::Ssd) if is_metadata(&data[0]) => {
                faults.ssd_metadata_errors
            }
            (_, DeviceId::Ssd) => faults.ssd_write_errors,
            (CommandKind::Read { .. }, DeviceId::ReadSsd) => faults.read_ssd_read_errors,
            (_, DeviceId::ReadSsd) => faults.read_ssd_write_errors,
            (CommandKind::Read { .. }, DeviceId::Backing) => faults.backing_read_errors,
            (CommandKind::Flush, DeviceId::Backing) => faults.backing_flush_errors,
            (_, DeviceId::Backing) => faults.backing_write_errors,
        };
        (percent > 0 && self.rng.chance(percent)).then_some(MediaError::Io)
    }

    /// A write that failed may have reached any of its sectors.
    fn apply_in_part(&mut self, command: &Command) {
        let CommandKind::Write { offset_bytes, data } = &command.kind else { return };
        let offset_bytes = self.start_of(command.device) + offset_bytes;
        for (i, sector) in data.concat().chunks(SECTOR).enumerate() {
            if self.rng.chance(50) {
                self.disk(command.device).put(offset_bytes + (i * SECTOR) as u64, sector);
            }
        }
    }

    /// The end of a command, unless it is that of a flush of which nobody knows yet what it is worth.
    pub(super) fn carry_out(&mut self, pending: Pending) -> Option<Completion> {
        let Pending { command, mark, ticket, flushed } = pending;
        let (id, device) = (command.id, command.device);
        if let Some(ticket) = ticket {
            let result = flushed.unwrap_or_else(|| self.flush(&command, mark));
            let completion = Completion { id, result, bufs: Bufs::new() };
            let ended = self.disk(device).shared.end_flush(ticket, result.is_ok());
            self.held.push_back(Held { device, ended, completion });
            return self.next_decided();
        }
        if let Some(error) = self.fails(&command) {
            if error != MediaError::Gone {
                self.apply_in_part(&command);
            }
            let bufs = if let CommandKind::Read { bufs, .. } = command.kind { bufs } else { Bufs::new() };
            return Some(Completion { id, result: Err(error), bufs });
        }
        self.check_owner(&command);
        self.apply(&command);
        let start = self.start_of(device);
        let disk = self.disk(device);
        let mut filled = Bufs::new();
        if let CommandKind::Read { offset_bytes, bufs } = command.kind {
            filled = bufs;
            disk.peek_into(start + offset_bytes, &mut filled);
        }
        Some(Completion { id, result: Ok(()), bufs: filled })
    }

    fn start_of(&self, device: DeviceId) -> u64 {
        if device == DeviceId::Backing { self.backing_start } else { 0 }
    }

    /// Guarantee 4, before reads show it: a volume writes to extents that are its own, when the command is sent and when it is
    /// carried out.
    fn check_owner(&self, command: &Command) {
        if let (Some(space), DeviceId::Ssd, CommandKind::Write { offset_bytes, .. }) =
            (&self.space, command.device, &command.kind)
        {
            let is_its_own = space.may_write(self.number, *offset_bytes);
            assert!(is_its_own, "volume {} writes at {offset_bytes}, which is not its own", self.number);
        }
    }

    /// What a command changes on its device. A trim does something or does not.
    pub(super) fn apply(&mut self, command: &Command) {
        if matches!(command.kind, CommandKind::Trim { .. }) && self.rng.chance(50) {
            return;
        }
        let start = self.start_of(command.device);
        let disk = self.disk(command.device);
        match &command.kind {
            CommandKind::Write { offset_bytes, data } => disk.put(start + offset_bytes, &data.concat()),
            CommandKind::Trim { offset_bytes, length_bytes }
            | CommandKind::WriteZeroes { offset_bytes, length_bytes, .. } => {
                disk.put(start + offset_bytes, &vec![0; *length_bytes as usize]);
            }
            CommandKind::Read { .. } | CommandKind::Flush => {}
        }
    }
}
