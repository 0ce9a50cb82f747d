//! What becomes of dirty blocks when the SSD fails as a whole: its journal takes nothing any more, so that nothing can
//! be promised, but what it holds dirty can still be brought to the backing disk, from DRAM, from the read SSD, or from
//! the SSD itself as far as it can be read.
//!
//! An SSD that comes back in the next life would know nothing of that. Its dirty copies do no harm: they are no older
//! than what was acknowledged as durable, because nothing was after the failure. A clean copy may be older than what
//! was brought to the disk, which is why none of them may be believed then. Whoever drives the engine remembers that
//! durably, and only then the disk is touched.

use crate::engine::Engine;

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
}

impl Engine {
    /// The SSD failed, and not only a place of it.
    pub(crate) fn fail_ssd(&mut self) {
        if !self.alarms.failed {
            self.rescue = Rescue::Wanted;
        }
        if let Some(ssd) = &mut self.ssd {
            ssd.slots.note_journal_failed();
        }
        self.fail();
    }

    /// What the backing disk was told to keep may be lost: nothing more is brought to it.
    pub(crate) fn fail_backing(&mut self) {
        self.rescue = Rescue::Off;
        self.fail();
    }

    /// Whether dirty blocks may be written to the backing disk.
    pub(crate) fn writes_back(&self) -> bool {
        !self.alarms.failed || self.rescue == Rescue::On
    }

    /// The SSD failed with dirty blocks on it. Before these are written to the backing disk, it must be remembered
    /// durably that the next start is not to believe clean copies ([`crate::store::VolumeSpec::distrusts_clean`]); then
    /// [`Engine::fenced`] is to be called.
    pub fn wants_fence(&self) -> bool {
        self.rescue == Rescue::Wanted && self.dirty_blocks() > 0
    }

    /// Whether the SSD failed and dirty blocks are still on their way to the backing disk. What is not there when the
    /// host stops may be lost.
    pub fn is_rescuing(&self) -> bool {
        self.rescue != Rescue::Off && self.dirty_blocks() > self.blocks.lost() as u32
    }

    /// The next start will not believe clean copies: dirty blocks are written to the backing disk now.
    pub fn fenced(&mut self) {
        if self.rescue == Rescue::Wanted {
            self.rescue = Rescue::On;
            self.drain_up_to(u64::MAX);
        }
    }

    /// Goes on with what was left, and with what became dirty while the SSD failed.
    pub(crate) fn resume_rescue(&mut self) {
        if self.rescue == Rescue::On && self.drain.left().is_none() && self.is_rescuing() {
            self.drain_up_to(u64::MAX);
        }
    }

    fn dirty_blocks(&self) -> u32 {
        self.ssd.as_ref().map_or(0, |ssd| ssd.slots.dirty())
    }
}
