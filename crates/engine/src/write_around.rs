//! Writing around the SSD, before the backing disk is to be used elsewhere: what guests write goes to the backing disk alone,
//! whatever the scheme says, so that with what a drain brings there nothing is dirty in the end and nothing becomes so. It must
//! not know why.
//!
//! To the scheme it is as if the SSD had failed to take each write: the block's copies go, and the scheme is told that they are
//! missing. What it counts is what it decided.

use crate::engine::Engine;
use crate::flight::{AccessKind, Flight, Reserved};

impl Engine {
    /// From now on writes go past the SSD, or no more.
    pub fn set_writes_around(&mut self, writes_around: bool) {
        self.writes_around = writes_around;
        self.run();
    }

    /// Whether writes go past the SSD.
    pub fn writes_around(&self) -> bool {
        self.writes_around
    }

    /// Whether anything is dirty or may become so. Once it is false while writes go around, it stays false until they do so no
    /// more: the backing disk has everything that was acknowledged, durably as soon as a FLUSH is.
    pub fn may_have_dirty(&self) -> bool {
        let becomes_dirty = |flight: &Flight| flight.may_become_dirty();
        let is_gathered = self.ordered.as_ref().is_some_and(|ordered| !ordered.has_everything());
        self.levels.dirty_blocks() > 0
            || !self.writes_around
            || is_gathered
            || self.flights.all().any(becomes_dirty)
    }

    /// What a write amounts to, and what is to be set aside for it.
    pub(crate) fn past_ssd(&self, kind: AccessKind, wants: Reserved) -> (AccessKind, Reserved) {
        match kind {
            AccessKind::WriteBack { .. } if self.writes_around => {
                (AccessKind::WriteAround, Reserved::default())
            }
            kind => (kind, wants),
        }
    }
}
