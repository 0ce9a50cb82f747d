//! The volume store of the cache SSD (`lode-store`) as a part of the engine: its writes and flushes become commands, and
//! what came of them is told to those who wait for it.

use lode_store::{Metadata, Output, Progress, VolumeStore};
use lode_types::BlockNo;

use crate::command::{CommandKind, DeviceId};
use crate::engine::Engine;
use crate::io::{Io, Owner, Want};
use crate::shelf::Shelf;

/// What a volume has on the cache SSD.
#[derive(Debug)]
pub(crate) struct Ssd {
    pub(crate) store: VolumeStore,
    pub(crate) shelf: Shelf,
}

impl Ssd {
    /// The block that a slot holds, when it is not in flight.
    pub(crate) fn block_in(&self, slot: u32) -> Option<BlockNo> {
        Some(self.store.places().entry(self.shelf.get(slot)?).block)
    }

    fn carry_out(&mut self, io: &mut Io) {
        while let Some(output) = self.store.next_output() {
            match output {
                Output::Write { what, offset_bytes, buf } => io.want(Want {
                    device: DeviceId::Ssd,
                    offset_bytes,
                    len: buf.len(),
                    data: Some(buf.freeze()),
                    owner: Owner::Metadata(what),
                }),
                Output::Flush => {
                    let owner = Owner::Metadata(Metadata::JournalFlush);
                    io.command(DeviceId::Ssd, CommandKind::Flush, owner);
                }
            }
        }
    }
}

impl Engine {
    /// Commits the journal if anybody waits for it or space runs short.
    pub(crate) fn drive_journal(&mut self) {
        let durable_wanted = self.durable.version_waited_for().max(self.range_version());
        let kept_wanted = self.durable.kept_waited_for();
        let pressed = self.admission_is_blocked() || self.copies.wants_places();
        if let Some(ssd) = &mut self.ssd {
            if pressed && ssd.store.places().waiting() > 0 {
                ssd.store.want_commit();
            }
            ssd.store.commit(durable_wanted, kept_wanted);
            ssd.carry_out(&mut self.io);
        }
    }

    /// A write or flush of the volume store is done.
    pub(crate) fn metadata_done(&mut self, what: Metadata) {
        let Some(ssd) = &mut self.ssd else { return };
        let progress = ssd.store.done(what);
        ssd.carry_out(&mut self.io);
        match progress {
            Progress::None => {}
            Progress::Kept => self.release_keepers(),
            Progress::Durable(version) => self.journal_durable(version),
        }
    }
}
