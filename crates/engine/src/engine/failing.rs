//! What becomes of a volume's parts when a device fails.
//!
//! When the SSD fails as a whole its journal takes nothing any more, so that nothing can be promised, but what it holds dirty
//! can still be brought to the backing disk, from DRAM, from the read SSD, or from the SSD itself as far as it can be read.
//! An SSD that comes back at the next start would know nothing of that. A clean copy that its journal knows may be older
//! than what was brought to the disk, so that none of them may be believed: whoever drives the engine remembers that
//! durably, and only then the disk is touched. Its dirty copies are no older than what was acknowledged as durable,
//! because nothing was after the failure, and until everything is on the disk they may be all that a power cut
//! leaves. When everything is there, they are out of date too, and that is remembered as well.
//!
//! When a flush of the backing disk fails, what it should have covered can be read until the host goes down, also by later
//! runs, and no later flush makes it durable. A clean block that is filled from it would be newer than the disk then, so
//! that none is believed by the first start after that, nor by those before.

use lode_types::planted;

use super::Engine;
use super::carry::AtHand;
use crate::command::DeviceId;
use crate::fence::Fence;
use crate::flight::Input;

impl Engine {
    /// A device that others use as well has failed one of them (see [`crate::SharedDevice`]), and so all of them: what this
    /// engine was told of its flushes is worth no more than what the other one was told.
    pub fn device_failed(&mut self, device: DeviceId) {
        if self.has_failed(device) {
            return;
        }
        self.take_over_the_rest();
        match device {
            DeviceId::Ssd if self.levels.store().is_some() => self.fail_ssd(),
            DeviceId::Backing => self.fail_backing(),
            // What it was to keep may be lost.
            DeviceId::Redo if self.ordered.is_some() => self.fail_backing(),
            // What the read SSD holds is promised to nobody.
            DeviceId::Ssd | DeviceId::ReadSsd | DeviceId::Redo => return,
        }
        self.run();
    }

    /// An SSD of a pair was dropped, and with it went what it alone had, of which nothing is believed from now on
    /// ([`PairNews::Dropped`](lode_store::pair::PairNews::Dropped)). It was home to the bytes of the cache of which this is true.
    pub fn ssd_dropped(&mut self, is_home: impl Fn(u64) -> bool) {
        if let Some(store) = self.levels.store_mut() {
            store.drop_copies(is_home);
        }
    }

    /// Whether a device failed in a way that ends durability, so that it has failed all who use it.
    pub fn has_failed(&self, device: DeviceId) -> bool {
        self.health.has_failed(device)
    }

    /// The SSD failed, and not only a place of it.
    pub(super) fn fail_ssd(&mut self) {
        self.health.ssd_failed();
        if let Some(store) = self.levels.store_mut() {
            store.places_mut().note_journal_failed();
        }
        self.end_durability();
    }

    /// What the backing disk was told to keep may be lost: nothing more is brought to it.
    pub(super) fn fail_backing(&mut self) {
        if planted("backing-failure-told-once") {
            self.disk.forget_marks();
            return self.end_durability();
        }
        self.health.backing_failed();
        self.end_durability();
    }

    /// Durability is lost: everybody who waits for it is told, and nobody is promised it again. A failed
    /// flush is final, because what it should have covered may be gone without another error.
    fn end_durability(&mut self) {
        self.requests.end_durability();
        let gates = self.flights.open_gates(u64::MAX);
        for block in gates.into_iter().chain(self.disk.destage_mut().give_up()) {
            if self.flights.contains(block) {
                self.advance(block, Input::NeverDurable, AtHand::Nothing);
            }
        }
        self.carry_out_range(self.disk.range_never_durable());
    }

    /// After a device failed: what the host must remember durably for starts to come, if it is to be written now. What a failed
    /// SSD held is brought to the backing disk only after that. Its end is told to [`Engine::fence_ended`]; meanwhile
    /// guests are served.
    pub fn next_fence(&mut self) -> Option<Fence> {
        let wanted = self.wants_fence();
        self.fencing.next(wanted)
    }

    /// What [`Engine::next_fence`] asked for is remembered, or could not be: then it is asked for again after the next tick.
    pub fn fence_ended(&mut self, ok: bool) {
        let Some(fence) = self.fencing.ended(ok) else { return };
        self.health.fenced(fence);
        if self.health.is_rescue_on() {
            self.drain_up_to(u64::MAX);
        }
    }

    /// Whether a flush of the backing disk has failed and the host does not remember it yet.
    pub fn has_untold_failure(&self) -> bool {
        self.has_failed(DeviceId::Backing) && self.wants_fence().is_some()
    }

    fn wants_fence(&self) -> Option<Fence> {
        self.health.wants_fence(self.levels.dirty_blocks())
    }

    /// Whether the SSD failed and something of it is still on its way to the backing disk. What is not there when the
    /// host stops may be lost.
    pub fn is_rescuing(&self) -> bool {
        // A group is written as a whole, or not at all.
        let is_stuck = self.ordered.is_some() && self.flights.lost() > 0;
        let is_left = || !is_stuck && self.levels.dirty_blocks() > self.flights.lost() as u32;
        let waits_for_fence = || !self.has_failed(DeviceId::Backing) && self.wants_fence().is_some();
        waits_for_fence() || (self.health.is_rescue_on() && is_left())
    }

    /// Goes on with what was left.
    pub(super) fn resume_rescue(&mut self) {
        if self.health.is_rescue_on() && self.drain_left().is_none() && self.is_rescuing() {
            self.drain_up_to(u64::MAX);
        }
    }
}
