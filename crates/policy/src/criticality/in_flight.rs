//! Writes on their way to the disk that were not admitted, and what became of those that were issued again.
//!
//! A write that goes to both devices is complete when the first of them has it; the second completion is discarded
//! (paper, section 4.2.2). It must not know why a write is issued again.

use lode_types::BlockNo;

use super::{CompletionVerdict, Device, SubmittedWrite, WriteId};

/// Marks a write that is not listed.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Only the disk has it.
    OnDisk,
    /// Only the disk has it, and it shall not be issued again: the cache failed or had no room.
    DiskOnly,
    /// Both have it.
    Both,
    /// The cache completed it; the disk still has it.
    Cached,
    /// The disk completed it; the cache still has it.
    Written,
    /// The disk failed; the cache still has it.
    CacheOnly,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: WriteId,
    first_block: BlockNo,
    blocks: u32,
    state: State,
}

impl Entry {
    fn overlaps(&self, first_block: BlockNo, blocks: u32) -> bool {
        // Written so that no sum can overflow.
        if self.first_block <= first_block {
            first_block - self.first_block < u64::from(self.blocks) && blocks > 0
        } else {
            self.first_block - first_block < u64::from(blocks) && self.blocks > 0
        }
    }
}

/// The list of outstanding writes that were not admitted (paper, section 5).
#[derive(Debug, Default)]
pub(super) struct InFlight {
    entries: Vec<Entry>,
    /// Place in `entries` by write; as long as the largest number that was ever under way.
    places: Vec<u32>,
}

impl InFlight {
    /// The disk has this write now.
    pub fn insert(&mut self, write: &SubmittedWrite) {
        let index = write.id as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, NONE);
        }
        debug_assert_eq!(self.places[index], NONE, "write {index} is still under way");
        self.places[index] = self.entries.len() as u32;
        let &SubmittedWrite { id, first_block, blocks, .. } = write;
        self.entries.push(Entry { id, first_block, blocks, state: State::OnDisk });
    }

    fn place(&self, write: WriteId) -> Option<usize> {
        self.places.get(write as usize).filter(|&&place| place != NONE).map(|&place| place as usize)
    }

    fn remove(&mut self, place: usize) {
        let gone = self.entries.swap_remove(place);
        self.places[gone.id as usize] = NONE;
        if let Some(moved) = self.entries.get(place) {
            self.places[moved.id as usize] = place as u32;
        }
    }

    /// Marks a write as issued again. False: it is not listed, or was issued again before.
    pub fn reissue(&mut self, write: WriteId) -> bool {
        let Some(place) = self.place(write) else { return false };
        let entry = &mut self.entries[place];
        let first = entry.state == State::OnDisk;
        if first {
            entry.state = State::Both;
        }
        first
    }

    /// The cache did not take what was issued again.
    pub fn no_space(&mut self, write: WriteId) {
        if let Some(place) = self.place(write)
            && self.entries[place].state == State::Both
        {
            self.entries[place].state = State::DiskOnly;
        }
    }

    /// Marks every write that overlaps these blocks as issued again, and calls `reissued` for each in order of their
    /// places.
    pub fn reissue_overlapping(&mut self, blocks: Option<(BlockNo, u32)>, mut reissued: impl FnMut(WriteId)) {
        for entry in &mut self.entries {
            let concerned = blocks.is_none_or(|(first, count)| entry.overlaps(first, count));
            if concerned && entry.state == State::OnDisk {
                entry.state = State::Both;
                reissued(entry.id);
            }
        }
    }

    /// Whether a write of this block that the cache has, too, is still on its way to the disk.
    pub fn holds_destage(&self, block: BlockNo) -> bool {
        let both = |entry: &Entry| matches!(entry.state, State::Both | State::Cached);
        self.entries.iter().any(|entry| both(entry) && entry.overlaps(block, 1))
    }

    /// One device is through with a write.
    pub fn complete(&mut self, write: WriteId, from: Device, ok: bool) -> CompletionVerdict {
        let Some(place) = self.place(write) else {
            return if ok { CompletionVerdict::Acknowledge } else { CompletionVerdict::Fail };
        };
        let (next, completion) = match (self.entries[place].state, from, ok) {
            (State::Both, Device::Cache, true) => (Some(State::Cached), CompletionVerdict::Acknowledge),
            (State::Both, Device::Cache, false) => (Some(State::DiskOnly), CompletionVerdict::Wait),
            (State::Both, Device::Disk, true) => (Some(State::Written), CompletionVerdict::Acknowledge),
            (State::Both, Device::Disk, false) => (Some(State::CacheOnly), CompletionVerdict::Wait),
            // The dirty copy stays and is destaged later, also when the disk failed now.
            (State::Cached | State::Written, ..) => (None, CompletionVerdict::Discard),
            (State::OnDisk | State::DiskOnly | State::CacheOnly, _, true) => {
                (None, CompletionVerdict::Acknowledge)
            }
            (State::OnDisk | State::DiskOnly | State::CacheOnly, _, false) => (None, CompletionVerdict::Fail),
        };
        match next {
            Some(state) => self.entries[place].state = state,
            None => self.remove(place),
        }
        completion
    }

    /// Writes of which a completion is still to come.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}
