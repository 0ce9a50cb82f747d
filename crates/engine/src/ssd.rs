//! What a volume has on the cache SSD: its store (`lode-store`), whose writes and flushes become commands, and which place
//! each slot has.

use lode_store::{Output, VolumeStore};
use lode_types::BlockNo;

use crate::command::{CommandKind, DeviceId};
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
        Some(self.store.places().held(self.shelf.get(slot)?).block)
    }

    /// Makes commands of what the store wants written and flushed.
    pub(crate) fn carry_out(&mut self, io: &mut Io) {
        while let Some(output) = self.store.next_output() {
            match output {
                Output::Write { what, offset_bytes, buf } => io.want(Want {
                    device: DeviceId::Ssd,
                    offset_bytes,
                    len: buf.len(),
                    data: Some(buf.freeze()),
                    owner: Owner::Metadata(what),
                    find: None,
                }),
                Output::Flush { what } => {
                    io.command(DeviceId::Ssd, CommandKind::Flush, Owner::Metadata(what));
                }
            }
        }
    }
}
