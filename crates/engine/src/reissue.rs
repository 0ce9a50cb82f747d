//! Writes that are issued again: a guest's write on its way to the backing disk that somebody comes to wait for is written
//! to the SSD as well, and answered by the first of the two (Kim et al., USENIX ATC 2015, section 4.2.2). Which writes,
//! and which completion counts, the hooks of [`lode_policy::criticality`] say: the same as in the simulation of
//! processes. What a guest tells of waiting is a read, a write with FUA, and a FLUSH.
//!
//! What could go wrong, and what keeps it from doing so:
//! - The disk's completion may come long after the guest was answered. Until it comes the block stays in flight, and
//!   whatever else concerns the disk waits: write-backs, cleanings, trims and zeroings, other writes of the block there.
//!   So an old write never arrives after a newer one. What the SSD serves goes on.
//! - The SSD's copy is dirty, in a place and with a journal record of its own. A restart that finds the record believes the
//!   copy and not the disk, whatever arrived there of the old write. Before the old write was sent no older copy was left
//!   that could come back, as before every write to the disk.
//! - Only the newest write of a block is issued again, and only as a whole: the rest of the block would have to come from
//!   the same slow disk.
//! - Both devices are given the same bytes, which stay until both are through with them.
//!
//! This part knows which writes may be issued again, and asks the hooks; it must not know who waits and why, nor blocks in
//! flight.

use lode_policy::Reissuing;
use lode_policy::criticality::{CompletionVerdict, Consequence, Device, Verdict, WriteId};
use lode_policy::schemes::request_oriented::WAITED_FOR;
use lode_store::Place;
use lode_types::{Access, BlockNo};
use slab::Slab;

use crate::guest::GuestError;

/// A write on its way to the backing disk that the hooks know. It stays with its block until the disk is through with it,
/// also when the SSD was faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskWrite {
    pub(crate) id: WriteId,
    /// Place and checksum of the copy on its way to the SSD.
    pub(crate) copy: Option<(Place, u32)>,
    /// The disk failed, and the SSD is still at it.
    pub(crate) error: Option<GuestError>,
}

/// What became of writes that the hooks wanted issued again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReissueCounts {
    pub(crate) issued: u64,
    pub(crate) refused: u64,
    pub(crate) discarded: u64,
}

/// The writes that the hooks know.
#[derive(Debug, Default)]
pub(crate) struct Reissues {
    /// Their blocks, by number.
    writes: Slab<BlockNo>,
    counts: ReissueCounts,
}

/// The writes among these consequences; nobody inherits anything here.
fn writes_of(consequences: &[Consequence]) -> Vec<WriteId> {
    let write = |consequence: &Consequence| match *consequence {
        Consequence::Reissue(id) => Some(id),
        _ => None,
    };
    consequences.iter().filter_map(write).collect()
}

impl Reissues {
    pub(crate) fn counts(&self) -> ReissueCounts {
        self.counts
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// A write begins its way to the backing disk. The hooks hear of those that were not admitted; one that found no room
    /// is left to the disk.
    pub(crate) fn list(&mut self, cache: &mut dyn Reissuing, access: &Access) -> Option<DiskWrite> {
        if cache.on_submit(access) == Verdict::Cache {
            return None;
        }
        let id = self.writes.insert(access.block) as WriteId;
        let write = cache.submitted(id, access);
        cache.hooks().on_disk(&write);
        Some(DiskWrite { id, copy: None, error: None })
    }

    /// The write is over.
    pub(crate) fn forget(&mut self, write: DiskWrite) {
        self.writes.remove(write.id as usize);
    }

    /// The block of a write.
    pub(crate) fn block(&self, id: WriteId) -> BlockNo {
        self.writes[id as usize]
    }

    /// Somebody waits for a request of this block: the writes that go before it.
    pub(crate) fn overlapped(&self, cache: &mut dyn Reissuing, block: BlockNo) -> Vec<WriteId> {
        let mut out = Vec::new();
        cache.hooks().on_overlap(WAITED_FOR, block, 1, &mut out);
        writes_of(&out)
    }

    /// Somebody waits for a flush: the writes that go before it.
    pub(crate) fn flushed(&self, cache: &mut dyn Reissuing) -> Vec<WriteId> {
        let mut out = Vec::new();
        cache.hooks().on_flush(WAITED_FOR, &mut out);
        writes_of(&out)
    }

    /// The write is issued again.
    pub(crate) fn issued(&mut self) {
        self.counts.issued += 1;
    }

    /// The write cannot be issued again.
    pub(crate) fn refuse(&mut self, cache: &mut dyn Reissuing, id: WriteId) {
        self.counts.refused += 1;
        cache.hooks().on_no_space(id);
    }

    /// A device is through with a write: what that means for its guest.
    pub(crate) fn completed(
        &mut self,
        cache: &mut dyn Reissuing,
        id: WriteId,
        device: Device,
        ok: bool,
    ) -> CompletionVerdict {
        let completion = cache.hooks().on_complete(id, device, ok);
        self.counts.discarded += u64::from(completion == CompletionVerdict::Discard);
        completion
    }
}
