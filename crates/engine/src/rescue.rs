//! What becomes of dirty blocks when the SSD fails as a whole: its journal takes nothing any more, so that nothing can
//! be promised, but what it holds dirty can still be brought to the backing disk, from DRAM, from the read SSD, or from
//! the SSD itself as far as it can be read.
//!
//! An SSD that comes back in the next life would know nothing of that. A clean copy that its journal knows may be older
//! than what was brought to the disk, so that none of them may be believed: whoever drives the engine remembers that
//! durably, and only then the disk is touched. Its dirty copies are no older than what was acknowledged as durable,
//! because nothing was after the failure, and until everything is on the disk they may be all that a power cut
//! leaves. When everything is there, they are out of date too, and that is remembered as well.

use crate::command::DeviceId;
use crate::engine::Engine;
use lode_store::Distrust;

/// Whether dirty blocks of an SSD that failed are brought to the backing disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rescue {
    /// Nothing failed, or the backing disk did.
    #[default]
    Off,
    /// The next start is to be told first.
    Wanted,
    /// It may begin.
    On,
    /// The next start knows that the disk has everything.
    Over,
}

impl Engine {
    /// A device that others use as well has failed one of them (see [`crate::SharedDevice`]), and so all of them: what this
    /// engine was told of its flushes is worth no more than what the other one was told.
    pub fn device_failed(&mut self, device: DeviceId) {
        if self.has_failed(device) {
            return;
        }
        match device {
            DeviceId::Ssd if self.ssd.is_some() => self.fail_ssd(),
            DeviceId::Backing => self.fail_backing(),
            // What the read SSD holds is promised to nobody.
            DeviceId::Ssd | DeviceId::ReadSsd => return,
        }
        self.run();
    }

    /// Whether a device failed in a way that ends durability, so that it has failed all who use it.
    pub fn has_failed(&self, device: DeviceId) -> bool {
        match device {
            DeviceId::Ssd => self.alarms.ssd_failed,
            DeviceId::Backing => self.alarms.backing_failed,
            DeviceId::ReadSsd => false,
        }
    }

    /// The SSD failed, and not only a place of it.
    pub(crate) fn fail_ssd(&mut self) {
        self.alarms.ssd_failed = true;
        if !self.alarms.failed {
            self.rescue = Rescue::Wanted;
        }
        if let Some(ssd) = &mut self.ssd {
            ssd.store.places_mut().note_journal_failed();
        }
        self.fail();
    }

    /// What the backing disk was told to keep may be lost: nothing more is brought to it.
    pub(crate) fn fail_backing(&mut self) {
        self.alarms.backing_failed = true;
        self.rescue = Rescue::Off;
        self.fail();
    }

    /// Whether dirty blocks may be written to the backing disk.
    pub(crate) fn writes_back(&self) -> bool {
        !self.alarms.failed || matches!(self.rescue, Rescue::On | Rescue::Over)
    }

    /// After the SSD failed: what must be remembered durably for the next start ([`lode_store::VolumeSpec`])
    /// before the engine goes on. Then [`Engine::fenced`] is to be called.
    pub fn wants_fence(&self) -> Option<Distrust> {
        match self.rescue {
            Rescue::Wanted if self.dirty_blocks() > 0 => Some(Distrust::Clean),
            Rescue::On if self.dirty_blocks() == 0 => Some(Distrust::All),
            _ => None,
        }
    }

    /// What [`Engine::wants_fence`] asked for is remembered.
    pub fn fenced(&mut self) {
        match self.wants_fence() {
            Some(Distrust::Clean) => {
                self.rescue = Rescue::On;
                self.drain_up_to(u64::MAX);
            }
            Some(Distrust::All) => self.rescue = Rescue::Over,
            None => {}
        }
    }

    /// Whether the SSD failed and something of it is still on its way to the backing disk. What is not there when the
    /// host stops may be lost.
    pub fn is_rescuing(&self) -> bool {
        let is_left = || self.dirty_blocks() > self.blocks.lost() as u32;
        self.wants_fence().is_some() || (self.rescue == Rescue::On && is_left())
    }

    /// Goes on with what was left.
    pub(crate) fn resume_rescue(&mut self) {
        if self.rescue == Rescue::On && self.drain.left().is_none() && self.is_rescuing() {
            self.drain_up_to(u64::MAX);
        }
    }

    fn dirty_blocks(&self) -> u32 {
        self.ssd.as_ref().map_or(0, |ssd| ssd.store.places().dirty())
    }
}
