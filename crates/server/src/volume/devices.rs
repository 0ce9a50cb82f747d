//! What a volume's engine asks of its devices, and what becomes of it: a cache SSD may be a pair, and devices are shared with others.
//! It must not know guests.

use lode_engine::command::{Command as DeviceCommand, CommandKind, Completion, DeviceId, MediaError};
use lode_format::VolumeTag;
use lode_media::{Done, Driver, FileId, Payload};
use lode_store::pair::PairEnd;
use lode_types::Bufs;

use super::Volume;
use crate::flushes::Verdict;
use crate::pair::{FileChange, PairsNews, VolumePairs};
use crate::ssd::SsdMedia;

/// What the engine's commands to the cache SSD go to.
pub(super) enum VolumeSsd {
    One(FileId),
    Pairs(Box<VolumePairs>),
}

/// Which of a volume's [`Flushes`] are those of a device.
pub(super) fn flushed(device: DeviceId) -> usize {
    match device {
        DeviceId::Backing => 0,
        DeviceId::Ssd => 1,
        // What it holds is promised to nobody.
        DeviceId::ReadSsd => 2,
        DeviceId::Redo => 3,
    }
}

/// Marks the token of a command to a member of a pair, of which the engine does not know.
pub(super) const OF_MEMBER: u64 = 1 << 45;

impl VolumeSsd {
    /// The volume of this tag is on it.
    pub(super) fn open(ssd: SsdMedia, tag: Option<VolumeTag>, driver: &mut impl Driver) -> VolumeSsd {
        match ssd {
            SsdMedia::One(file) => VolumeSsd::One(driver.add_file(file)),
            SsdMedia::Pairs(pairs) => {
                let tag = tag.expect("an engine with an SSD has a volume there");
                VolumeSsd::Pairs(Box::new(VolumePairs::new(pairs, tag, |file| driver.add_file(file))))
            }
        }
    }

    /// Blocks that were written again on an SSD of a pair, with what the other one has.
    pub(super) fn healed(&self) -> Option<u64> {
        match self {
            VolumeSsd::One(_) => None,
            VolumeSsd::Pairs(pairs) => Some(pairs.healed()),
        }
    }
}

/// Why a device command failed, in words.
fn reason(done: &Done, error: MediaError) -> String {
    match (done.os_error, error) {
        (Some(number), _) => std::io::Error::from_raw_os_error(number).to_string(),
        (None, MediaError::Io) => "the device failed".to_owned(),
        (None, MediaError::Gone) => "the device is gone".to_owned(),
        (None, MediaError::NoSpace) => "the device is full".to_owned(),
    }
}

impl Volume {
    /// The next device command: its number, its file, and what is to be done there.
    pub(crate) fn next_command(&mut self) -> Option<(u64, FileId, CommandKind)> {
        loop {
            if let Some(VolumeSsd::Pairs(pairs)) = &mut self.ssd
                && let Some((token, file, kind)) = pairs.next_leg()
            {
                return Some((token | OF_MEMBER, file, kind));
            }
            let Some(DeviceCommand { id, device, kind, options }) = self.engine.next_command() else {
                // What could not be sent to a member has ended.
                return if self.take_pair_ends() { continue } else { None };
            };
            // Nothing may fail between its begin and its end, which others on the device wait for.
            if matches!(kind, CommandKind::Flush) {
                self.flushes.begin(id, flushed(device));
            }
            let file = match (device, &mut self.ssd) {
                (DeviceId::Backing, _) => self.backing,
                (DeviceId::Ssd, Some(VolumeSsd::One(file))) => *file,
                (DeviceId::Ssd, Some(VolumeSsd::Pairs(pairs))) => {
                    pairs.begin(id, kind, options);
                    continue;
                }
                (DeviceId::Ssd, None) => unreachable!("an engine without an SSD does not use one"),
                (DeviceId::ReadSsd, _) => {
                    self.read_ssd.expect("an engine without a read SSD does not use one")
                }
                (DeviceId::Redo, _) => self.redo.expect("an engine without a redo log does not use one"),
            };
            return Some((id, file, kind));
        }
    }

    /// Takes the end of device command `id`.
    pub(crate) fn complete(&mut self, id: u64, done: Done) {
        let why = done.result.err().map(|error| reason(&done, error));
        if id & OF_MEMBER != 0 {
            if let Some(VolumeSsd::Pairs(pairs)) = &mut self.ssd {
                pairs.leg_ended(id & !OF_MEMBER, done, why);
            }
            self.take_pair_ends();
            return;
        }
        let bufs = if let Payload::Bufs(bufs) = done.payload { bufs } else { Bufs::new() };
        self.command_ended(Completion { id, result: done.result.map(drop), bufs }, why);
    }

    /// Takes the ends of commands to the pairs of SSDs. Says whether there were any.
    fn take_pair_ends(&mut self) -> bool {
        let mut were_any = false;
        while let Some(VolumeSsd::Pairs(pairs)) = &mut self.ssd {
            let Some(news) = pairs.next_news() else { break };
            let PairEnd { id, result, bufs, .. } = match news {
                PairsNews::End(end) => end,
                PairsNews::Dropped(device) => {
                    let stripes = pairs.stripes();
                    self.engine.ssd_dropped(|offset_bytes| stripes.home(offset_bytes) == device);
                    continue;
                }
            };
            let why = result.err().map(|_| pairs.failure());
            self.command_ended(Completion { id, result, bufs }, why);
            were_any = true;
        }
        were_any
    }

    fn command_ended(&mut self, completion: Completion, why: Option<String>) {
        let failure = why.map(|why| (why, self.engine.alarms()));
        let (id, result) = (completion.id, completion.result);
        match self.flushes.end(id, result.is_ok()) {
            Some(verdict) if result.is_ok() => self.flush_decided(id, verdict),
            _ => self.engine.complete(completion),
        }
        if let Some((reason, before)) = failure {
            self.log.command_failed(&reason, &before, &self.engine.alarms());
        }
        for device in [DeviceId::Ssd, DeviceId::Backing] {
            if self.engine.has_failed(device) {
                self.flushes.fail(flushed(device));
            }
        }
    }

    fn flush_decided(&mut self, id: u64, verdict: Verdict) {
        let result = match verdict {
            Verdict::Open => return,
            Verdict::Durable => Ok(()),
            Verdict::Failed => Err(MediaError::Gone),
        };
        self.engine.complete(Completion { id, result, bufs: Bufs::new() });
    }

    /// Changes when there may be something for [`Volume::note_shared_devices`] of any volume.
    pub(crate) fn news(&self) -> u64 {
        self.flushes.news()
    }

    /// Tells the engine what is known by now of devices that others use as well.
    pub(crate) fn note_shared_devices(&mut self) {
        while let Some((id, verdict)) = self.flushes.next_decided() {
            self.flush_decided(id, verdict);
        }
        if let Some(VolumeSsd::Pairs(pairs)) = &mut self.ssd {
            pairs.note();
            self.take_pair_ends();
        }
        for device in [DeviceId::Ssd, DeviceId::Backing, DeviceId::Redo] {
            if self.flushes.has_failed(flushed(device)) {
                self.engine.device_failed(device);
            }
        }
    }

    /// What its shard's driver is to do with a file of a pair of SSDs next, and of which pair.
    pub(crate) fn next_file_change(&mut self) -> Option<(usize, FileChange)> {
        match &mut self.ssd {
            Some(VolumeSsd::Pairs(pairs)) => pairs.next_file_change(),
            _ => None,
        }
    }

    /// The file of a member of a pair is open.
    pub(crate) fn file_opened(&mut self, pair: usize, member: usize, file: FileId) {
        if let Some(VolumeSsd::Pairs(pairs)) = &mut self.ssd {
            pairs.opened(pair, member, file);
        }
    }

    /// About a second has gone by.
    pub(super) fn tick_pair(&mut self) {
        if let Some(VolumeSsd::Pairs(pairs)) = &mut self.ssd {
            pairs.tick();
            self.take_pair_ends();
        }
    }
}
