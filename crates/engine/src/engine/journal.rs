//! Carries what the volume's store wants written to the SSD, and what is durable there to those that wait for it. It must not know
//! what records say.

use lode_store::{Metadata, MetadataOutcome, Output, VolumeStore};
use lode_types::planted;

use super::Engine;
use super::carry::AtHand;
use crate::command::{CommandKind, DeviceId};
use crate::flight::Input;
use crate::io::{Io, Owner, Want};

impl Engine {
    /// Commits the journal if anybody waits for it or space runs short.
    pub(super) fn drive_journal(&mut self) {
        let waits = [self.requests.version_waited_for(), self.flights.version_waited_for()];
        let durable_wanted = waits.into_iter().fold(self.disk.version_waited_for(), u64::max);
        let durable_wanted = durable_wanted.max(self.group_version_waited_for());
        let kept_wanted = self.requests.kept_waited_for();
        let pressed = self.is_blocked() || self.copies.wants_places();
        if let Some(store) = self.levels.store_mut() {
            if pressed && store.places().waiting() > 0 && !planted("pressure-without-commit") {
                store.want_commit();
            }
            store.commit(durable_wanted, kept_wanted);
            carry_out(store, &mut self.io);
        }
    }

    /// A write or flush of the volume store is done.
    pub(super) fn metadata_written(&mut self, what: Metadata) {
        let Some(store) = self.levels.store_mut() else { return };
        let outcome = store.done(what);
        carry_out(store, &mut self.io);
        match outcome {
            MetadataOutcome::None => {}
            MetadataOutcome::Kept => {
                let now = self.durability();
                self.requests.release_kept(&now);
            }
            MetadataOutcome::Durable(version) => self.journal_durable(version),
        }
    }

    fn journal_durable(&mut self, version: u64) {
        for block in self.flights.open_gates(version) {
            if self.flights.contains(block) {
                self.advance(block, Input::Durable, AtHand::Nothing);
            }
        }
        let next = self.disk.range_durable(version);
        self.carry_out_range(next);
        let now = self.durability();
        self.requests.release_durable(&now);
    }
}

/// Makes commands of what the store wants written and flushed.
fn carry_out(store: &mut VolumeStore, io: &mut Io) {
    while let Some(output) = store.next_output() {
        match output {
            Output::Write { what, offset_bytes, buf } => {
                io.want(Want::write(DeviceId::Ssd, offset_bytes, buf.freeze(), Owner::Metadata(what)));
            }
            Output::Flush { what } => {
                io.command(DeviceId::Ssd, CommandKind::Flush, Owner::Metadata(what));
            }
        }
    }
}
