//! What hosts and operators ask of a volume while it is served. It must not know devices.

use lode_engine::WriteBackLimits;
use lode_policy::{Quota, Settings, Tenant};

use super::World;

impl World {
    /// The host wants another share for the volume.
    pub fn resize(&mut self, share: Quota) {
        self.notice_failures();
        self.engine.resize(share);
        self.take_commands();
    }

    /// When dirty blocks are written back in the background from now on.
    pub fn set_write_back_limits(&mut self, limits: Option<WriteBackLimits>) {
        self.engine.set_write_back_limits(limits);
        self.take_commands();
    }

    /// Another scheme is to decide from now on. False: that is not possible any more.
    pub fn switch_scheme(&mut self, settings: &Settings) -> bool {
        self.notice_failures();
        let is_begun = self.engine.switch_scheme(settings, self.machine.config.largest_share);
        if is_begun {
            self.machine.settings = settings.clone();
            self.switched_since = true;
            self.sizer = World::sizer(&self.machine);
        }
        self.take_commands();
        is_begun
    }

    /// The engine begins to write everything back.
    pub fn drain(&mut self) {
        self.engine.drain();
        self.take_commands();
    }

    /// The engine stops writing everything back.
    pub fn stop_drain(&mut self) {
        self.engine.stop_drain();
    }

    /// Writes go past the SSD from now on, or no more.
    pub fn set_writes_around(&mut self, writes_around: bool) {
        self.engine.set_writes_around(writes_around);
        self.take_commands();
    }
}
