//! What devices make of a world's commands: they carry them out, or fail, and guarantee 4 is looked at on the way.

use lode_engine::Fence;
use lode_engine::command::{Command, CommandKind, Completion, DeviceId, MediaError};
use lode_policy::SchemeInfo;
use lode_store::SyncDevice;
use lode_types::{Bufs, Level};

use super::{Held, Pending, World};
use crate::disk::{Access, is_metadata};
use crate::durable::{Known, Lost};
use crate::model::SECTOR;
use crate::pair::To;
use crate::run::Decay;

/// Bytes of a page.
const PAGE: u64 = lode_format::PAGE_BYTES as u64;

impl World {
    /// What failed another volume on the same device has failed this one, and the other way round.
    pub(super) fn notice_failures(&mut self) {
        self.notice_failed_members();
        for device in [DeviceId::Ssd, DeviceId::Backing] {
            let is_pair = device == DeviceId::Ssd && self.pair.is_some();
            if !is_pair && self.disk(device, None).shared.has_failed() {
                self.engine.device_failed(device);
            }
        }
    }

    /// Hands a command to its device. By chance that is through with a flush long before it says so.
    pub(super) fn send(&mut self, command: Command, member: Option<To>) -> Pending {
        self.note_in_digest(&command);
        self.check_owner(&command, member);
        self.check_bad_places(&command);
        let disk = self.disk(command.device, member);
        let mark = disk.flush_mark();
        let is_flush = matches!(command.kind, CommandKind::Flush);
        disk.flushes += u64::from(is_flush);
        let ticket = is_flush.then(|| disk.shared.begin_flush());
        let flushed = (is_flush && self.rng.chance(50)).then(|| self.flush(&command, member, mark));
        Pending { command, member, mark, ticket, flushed, is_given_up: false }
    }

    fn flush(&mut self, command: &Command, member: Option<To>, mark: u64) -> Result<(), MediaError> {
        let error = self.fails(command, member);
        let disk = self.disk(command.device, member);
        match error {
            None => disk.settle(mark),
            Some(MediaError::Gone) => {}
            Some(_) => disk.drop_covered(mark),
        }
        error.map_or(Ok(()), Err)
    }

    fn fails(&mut self, command: &Command, member: Option<To>) -> Option<MediaError> {
        if self.is_gone(command.device, member) {
            return Some(MediaError::Gone);
        }
        let access = match command.kind {
            CommandKind::Read { .. } => Access::Read,
            CommandKind::Flush => Access::Flush,
            _ => Access::Write,
        };
        if self.disk(command.device, member).is_nth(access) {
            return Some(MediaError::Io);
        }
        if !self.is_concerned(member, self.faults.only_member) {
            return None;
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
            (CommandKind::Flush, DeviceId::Redo) => faults.redo_flush_errors,
            (_, DeviceId::Redo) => faults.redo_write_errors,
        };
        (percent > 0 && self.rng.chance(percent)).then_some(MediaError::Io)
    }

    /// A write, trim or zeroing that failed may have reached any of its sectors.
    fn apply_in_part(&mut self, command: &Command, member: Option<To>) {
        let (offset_bytes, bytes) = match &command.kind {
            CommandKind::Write { offset_bytes, data } => (offset_bytes, data.concat()),
            CommandKind::Trim { offset_bytes, length_bytes }
            | CommandKind::WriteZeroes { offset_bytes, length_bytes, .. } => {
                (offset_bytes, vec![0; *length_bytes as usize])
            }
            CommandKind::Read { .. } | CommandKind::Flush => return,
        };
        let offset_bytes = self.start_of(command.device) + offset_bytes;
        for (i, sector) in bytes.chunks(SECTOR).enumerate() {
            if self.rng.chance(50) {
                self.disk(command.device, member).put(offset_bytes + (i * SECTOR) as u64, sector);
            }
        }
    }

    /// The end of a command, unless it is that of a flush of which nobody knows yet what it is worth.
    pub(super) fn carry_out(&mut self, pending: Pending) -> Option<(Completion, Option<To>)> {
        let Pending { command, member, mark, ticket, flushed, is_given_up } = pending;
        let (id, device) = (command.id, command.device);
        if let Some(ticket) = ticket {
            let mut result = flushed.unwrap_or_else(|| self.flush(&command, member, mark));
            if is_given_up {
                // The device may have been through with it.
                self.disk(device, member).drop_covered(mark);
                result = Err(MediaError::Io);
            }
            let completion = Completion { id, result, bufs: Bufs::new() };
            let ended = self.disk(device, member).shared.end_flush(ticket, result.is_ok());
            self.held.push_back(Held { device, member, ended, completion });
            return self.next_decided();
        }
        let given_up = is_given_up.then_some(MediaError::Io);
        if let Some(error) = given_up.or_else(|| self.fails(&command, member)) {
            if error != MediaError::Gone {
                self.note_bad_place(&command);
                self.apply_in_part(&command, member);
            }
            let bufs = if let CommandKind::Read { bufs, .. } = command.kind { bufs } else { Bufs::new() };
            return Some((Completion { id, result: Err(error), bufs }, member));
        }
        self.check_owner(&command, member);
        if !self.goes_astray(&command, member) {
            self.apply(&command, member);
        }
        let start = self.start_of(device);
        let disk = self.disk(device, member);
        let mut filled = Bufs::new();
        if let CommandKind::Read { offset_bytes, bufs } = command.kind {
            filled = bufs;
            disk.peek_into(start + offset_bytes, &mut filled);
        }
        Some((Completion { id, result: Ok(()), bufs: filled }, member))
    }

    fn start_of(&self, device: DeviceId) -> u64 {
        if device == DeviceId::Backing { self.backing_start } else { 0 }
    }

    /// Guarantee 4, before reads show it: a volume writes to extents that are its own, when the command is sent and when it is
    /// carried out. What a device of a pair does that was dropped does not count.
    fn check_owner(&self, command: &Command, member: Option<To>) {
        let (Some(space), DeviceId::Ssd, &CommandKind::Write { offset_bytes, .. }) =
            (&self.space, command.device, &command.kind)
        else {
            return;
        };
        match member.map(|to| (to, self.pairs().nth(to.pair))) {
            None => space.assert_may_write(self.number, offset_bytes),
            Some((to, Some(pair))) if pair.health.uses(to.member) && !pair.is_gone(to) => {
                space.assert_may_write(self.number, self.in_cache(to, offset_bytes));
            }
            Some(_) => {}
        }
    }

    /// A block's write to the SSD failed. Where extents come and go, their next owner tries again; of a pair of SSDs, the one
    /// that failed is gone.
    fn note_bad_place(&mut self, command: &Command) {
        if let (DeviceId::Ssd, CommandKind::Write { offset_bytes, data }) = (command.device, &command.kind)
            && data.len() == 1
            && !is_metadata(&data[0])
            && self.machine.config.largest_share.is_none()
            && self.pair.is_none()
        {
            self.bad_places.push(*offset_bytes);
        }
    }

    /// Guarantee 7: a failed write costs the place.
    fn check_bad_places(&mut self, command: &Command) {
        let (offset_bytes, length_bytes) = command.kind.range();
        let is_write = command.device == DeviceId::Ssd && matches!(command.kind, CommandKind::Write { .. });
        let end = offset_bytes + length_bytes;
        if is_write && self.bad_places.iter().any(|at| (offset_bytes..end).contains(at)) {
            self.complaint = Some(format!("a write to {offset_bytes} of the SSD, where one has failed"));
        }
    }

    /// What must not have been asked of a device, once.
    pub(crate) fn take_complaint(&mut self) -> Result<(), String> {
        self.complaint.take().map_or(Ok(()), Err)
    }

    /// By chance a write of blocks to the SSD goes to other ones there.
    fn goes_astray(&mut self, command: &Command, member: Option<To>) -> bool {
        let percent = self.faults.ssd_misdirected;
        let CommandKind::Write { offset_bytes, data } = &command.kind else { return false };
        let is_data = command.device == DeviceId::Ssd && !is_metadata(&data[0]);
        if percent == 0 || !is_data || !self.is_concerned(member, self.faults.only_member) {
            return false;
        }
        if !self.rng.chance(percent) {
            return false;
        }
        let bytes = data.concat();
        let pages = (bytes.len() as u64).div_ceil(PAGE);
        let Some(at) = self.some_data(member, pages).filter(|at| at != offset_bytes) else { return false };
        if member.is_none() {
            for (number, page) in bytes.chunks(PAGE as usize).enumerate() {
                let offset = number as u64 * PAGE;
                self.note_lost(at + offset);
                self.lost.push(Lost { at: offset_bytes + offset, bytes: page.to_vec() });
            }
        }
        self.disk(DeviceId::Ssd, member).put(at, &bytes);
        self.misdirected += 1;
        true
    }

    /// What is at this page of the SSD is about to be damaged.
    fn note_lost(&mut self, at: u64) {
        let mut bytes = vec![0; PAGE as usize];
        self.ssd.peek(at, &mut bytes);
        self.lost.push(Lost { at, bytes });
    }

    /// Where on an SSD so many pages of data lie together, by chance; none where that is not easily found.
    fn some_data(&mut self, member: Option<To>, pages: u64) -> Option<u64> {
        const TRIES: usize = 100;
        let last = (self.shared_disk(DeviceId::Ssd, member).size_bytes() / PAGE).checked_sub(pages)?;
        let picks: Vec<u64> = (0..TRIES).map(|_| self.rng.below(last + 1) * PAGE).collect();
        let is_data = |at: u64| {
            let mut bytes = [0; PAGE as usize];
            self.shared_disk(DeviceId::Ssd, member).peek(at, &mut bytes);
            !is_metadata(&bytes) && bytes.iter().any(|&byte| byte != 0)
        };
        picks.into_iter().find(|&at| (0..pages).all(|page| is_data(at + page * PAGE)))
    }

    /// What a command changes on its device. A trim does something or does not.
    pub(super) fn apply(&mut self, command: &Command, member: Option<To>) {
        if matches!(command.kind, CommandKind::Trim { .. }) && self.rng.chance(50) {
            return;
        }
        let start = self.start_of(command.device);
        let disk = self.disk(command.device, member);
        match &command.kind {
            CommandKind::Write { offset_bytes, data } => {
                disk.put_parts(start + offset_bytes, data.iter().map(|part| &part[..]));
            }
            CommandKind::Trim { offset_bytes, length_bytes }
            | CommandKind::WriteZeroes { offset_bytes, length_bytes, .. } => {
                disk.put(start + offset_bytes, &vec![0; *length_bytes as usize]);
            }
            CommandKind::Read { .. } | CommandKind::Flush => {}
        }
    }

    /// One of these blocks goes bad while volumes are served.
    pub(crate) fn decay(&mut self, decays: Decay) {
        match decays {
            Decay::Ssd => {}
            Decay::Mirrored if self.is_mirrored() => {}
            Decay::Mirrored => return,
            Decay::ReadSsd => return self.decay_read_ssd(),
        }
        let Some(at) = self.some_data(None, 1) else { return };
        self.note_lost(at);
        let named = self.lost.last().and_then(Lost::named);
        if decays == Decay::Mirrored && named.is_none_or(|(volume, _)| volume as usize != self.number) {
            self.lost.pop();
            return;
        }
        self.flip_at(at);
    }

    fn decay_read_ssd(&mut self) {
        let pages = self.read_ssd.size_bytes() / PAGE;
        if pages > 0 {
            let at = self.rng.below(pages) * PAGE + self.rng.below(PAGE);
            self.read_ssd.flip_bit(at, self.rng.below(8) as u8);
            self.decayed += 1;
        }
    }

    /// Whether the scheme keeps dirty blocks on two devices, and all of them are.
    pub(crate) fn is_mirrored(&self) -> bool {
        let info = SchemeInfo::find(self.machine.settings.scheme()).expect("it is a registered scheme");
        info.levels.contains(&Level::ReadSsd)
            && !self.engine.is_switching()
            && self.engine.gauges().unmirrored_blocks == 0
    }

    fn flip_at(&mut self, at: u64) {
        let (byte, bit) = (self.rng.below(PAGE), self.rng.below(8) as u8);
        self.ssd.flip_bit(at + byte, bit);
        self.decayed += 1;
    }

    /// Flips one bit in each of so many blocks that are known to be durable.
    pub(crate) fn damage_known(&mut self, blocks: u32, known: &Known) {
        match known {
            Known::All => self.damage(blocks),
            Known::Pages { durable, .. } if !durable.is_empty() => {
                for _ in 0..blocks {
                    let at = self.rng.below(durable.len() as u64) as usize;
                    self.flip_at(durable[at]);
                }
            }
            Known::Nothing | Known::Pages { .. } => {}
        }
    }

    /// Flips one bit in each of so many blocks of data on the SSD.
    pub fn damage(&mut self, blocks: u32) {
        for _ in 0..blocks {
            let victim = self.some_victim();
            if let Some(at) = self.some_data(victim, 1) {
                let (byte, bit) = (self.rng.below(PAGE), self.rng.below(8) as u8);
                self.disk(DeviceId::Ssd, victim).flip_bit(at + byte, bit);
            }
        }
    }

    /// Remembers for an engine whose device failed what it asks for, by chance later than sooner, or not.
    pub(super) fn fence(&mut self) {
        const CHANCE_TO_END: u64 = 25;
        const CHANCE_TO_FAIL: u64 = 10;
        self.fencing = self.fencing.or_else(|| self.engine.next_fence());
        let Some(fence) = self.fencing else { return };
        self.disk_failure_untold |= fence == Fence::CleanUntilReboot;
        if self.rng.chance(CHANCE_TO_END) {
            let fails = self.rng.chance(CHANCE_TO_FAIL);
            match fails {
                true => self.fence_may_be_there(),
                false => self.remember(fence),
            }
            self.fencing = None;
            self.engine.fence_ended(!fails);
        }
    }

    /// What the host was being told to remember when that failed, or the host did, it may remember all the same.
    fn fence_may_be_there(&mut self) {
        if let Some(fence) = self.fencing.take()
            && self.rng.chance(50)
        {
            self.remember(fence);
        }
    }

    fn remember(&mut self, fence: Fence) {
        self.fenced = self.fenced.max(Some(fence.distrust()));
        if fence == Fence::CleanUntilReboot {
            (self.fenced_until_reboot, self.disk_failure_untold) = (true, false);
        }
    }

    /// The run is over. Whether it is settled now what a flush of the backing disk that failed in it has lost: it would be remembered
    /// by nobody, where the daemon was killed in the moment between. Nothing helps against that (`docs/design.md`), so that it is not
    /// looked for.
    pub(super) fn fence_goes_down(&mut self, power_cut: bool) -> bool {
        self.notice_failures();
        self.disk_failure_untold |= self.engine.next_fence() == Some(Fence::CleanUntilReboot);
        self.fence_may_be_there();
        let is_untold = std::mem::take(&mut self.disk_failure_untold);
        let is_unknown = !self.engine.has_failed(DeviceId::Backing);
        let is_forgotten = !self.fenced_until_reboot && (is_untold || is_unknown);
        self.fenced_until_reboot &= !power_cut;
        is_forgotten
    }
}
