//! What becomes of dirty blocks when the SSD fails as a whole: its journal takes nothing any more, so that nothing can
//! be promised, but what it holds dirty can still be brought to the backing disk, from DRAM, from the read SSD, or from
//! the SSD itself as far as it can be read.
//!
//! An SSD that comes back in the next life would know nothing of that. A clean copy that its journal knows may be older
//! than what was brought to the disk, so that none of them may be believed: whoever drives the engine remembers that
//! durably, and only then the disk is touched. Its dirty copies are no older than what was acknowledged as durable,
//! because nothing was after the failure, and until everything is on the disk they may be all that a power cut
//! leaves. When everything is there, they are out of date too, and that is remembered as well.

use lode_store::Distrust;

use crate::command::DeviceId;
use crate::engine::Engine;

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
        self.health.has_failed(device)
    }

    /// The SSD failed, and not only a place of it.
    pub(crate) fn fail_ssd(&mut self) {
        self.health.ssd_failed();
        if let Some(ssd) = &mut self.ssd {
            ssd.store.places_mut().note_journal_failed();
        }
        self.end_durability();
    }

    /// What the backing disk was told to keep may be lost: nothing more is brought to it.
    pub(crate) fn fail_backing(&mut self) {
        self.health.backing_failed();
        self.end_durability();
    }

    /// Whether dirty blocks may be written to the backing disk.
    pub(crate) fn writes_back(&self) -> bool {
        self.health.writes_back()
    }

    /// After the SSD failed: what must be remembered durably for the next start ([`lode_store::VolumeSpec`])
    /// before the engine goes on. Then [`Engine::fenced`] is to be called.
    pub fn wants_fence(&self) -> Option<Distrust> {
        self.health.wants_fence(self.dirty_blocks())
    }

    /// What [`Engine::wants_fence`] asked for is remembered.
    pub fn fenced(&mut self) {
        let Some(distrust) = self.wants_fence() else { return };
        self.health.fenced(distrust);
        if self.health.is_rescue_on() {
            self.drain_up_to(u64::MAX);
        }
    }

    /// Whether the SSD failed and something of it is still on its way to the backing disk. What is not there when the
    /// host stops may be lost.
    pub fn is_rescuing(&self) -> bool {
        let is_left = || self.dirty_blocks() > self.blocks.lost() as u32;
        self.wants_fence().is_some() || (self.health.is_rescue_on() && is_left())
    }

    /// Goes on with what was left.
    pub(crate) fn resume_rescue(&mut self) {
        if self.health.is_rescue_on() && self.drain.left().is_none() && self.is_rescuing() {
            self.drain_up_to(u64::MAX);
        }
    }

    fn dirty_blocks(&self) -> u32 {
        self.ssd.as_ref().map_or(0, |ssd| ssd.store.places().dirty())
    }
}
