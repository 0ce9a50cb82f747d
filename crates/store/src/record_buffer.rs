//! The volume's latest journal records in memory that outlives the process: what a guest was told is written is found
//! again when the daemon dies and the host stays up, although no flush has made it durable.
//!
//! A record goes there the moment it is made, before anybody is told of what it says, without a system call. The buffer
//! is a window that begins behind what the journal durably knows. When the SSD is so slow that the window is too small,
//! what does not fit waits for the journal page that has its record. Bytes: [`lode_format::RecordBufferHeader`].

use lode_format::{BootId, Buffered, RecordBufferHeader, encode_buffered};
use lode_types::planted;

/// Memory that outlives the process that writes it, and not the host.
pub trait RecordMemory: std::fmt::Debug + Send {
    /// Puts bytes there. When this returns, a death of the process cannot undo it, and it comes after everything that was
    /// put there before.
    fn put(&mut self, offset: usize, bytes: &[u8]);
}

/// Where a volume's records go until the journal has them.
#[derive(Debug)]
pub struct RecordStorage {
    /// Memory of [`RecordStorage::bytes`], of zeroes.
    pub memory: Box<dyn RecordMemory>,
    /// Room for so many records.
    pub records: u32,
    /// The host's boot, during which it lasts.
    pub boot: BootId,
}

impl RecordStorage {
    /// Records of a volume's buffer in a daemon: what a flush of 50 ms leaves undone at 100,000 writes a second, and more.
    pub const USUAL_RECORDS: u32 = 8192;

    /// Bytes of a buffer with room for so many records.
    pub fn bytes(records: u32) -> usize {
        RecordBufferHeader::bytes(records)
    }
}

/// The window of records. Without memory it keeps nothing.
#[derive(Debug, Default)]
pub(crate) struct RecordBuffer {
    memory: Option<Memory>,
    /// Every version from here to `last` is in the buffer. Empty when `first` is above `last`.
    first: u64,
    last: u64,
}

#[derive(Debug)]
struct Memory {
    memory: Box<dyn RecordMemory>,
    records: u32,
    /// What the records' checksums begin with.
    seed: u32,
}

impl RecordBuffer {
    /// An empty buffer for what comes after the header's version.
    pub(crate) fn new(storage: RecordStorage, header: &RecordBufferHeader) -> RecordBuffer {
        let RecordStorage { mut memory, records, .. } = storage;
        let (page, seed) = header.encode();
        memory.put(0, &page[..]);
        let (first, last) = (header.after + 1, header.after);
        RecordBuffer { memory: Some(Memory { memory, records, seed }), first, last }
    }

    pub(crate) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// Takes what the next version says. The journal durably knows everything up to `durable`.
    pub(crate) fn append(&mut self, buffered: &Buffered, durable: u64) {
        let version = buffered.version();
        assert!(self.last == 0 || version == self.last + 1, "versions come in order");
        let Some(Memory { memory, records, seed }) = &mut self.memory else { return };
        self.last = version;
        if version - durable > u64::from(*records) && !planted("records-run-over") {
            self.first = version + 1;
            return;
        }
        memory.put(RecordBufferHeader::offset(*records, version), &encode_buffered(*seed, buffered));
    }

    /// The version up to which everything outlives the process, when journal pages up to `written` are on the SSD.
    pub(crate) fn kept(&self, written: u64) -> u64 {
        if self.first <= written + 1 || planted("kept-before-it-is") {
            self.last.max(written)
        } else {
            written
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use lode_format::{CacheId, VolumeTag};

    use super::*;

    #[derive(Debug)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl RecordMemory for Shared {
        fn put(&mut self, offset: usize, bytes: &[u8]) {
            self.0.lock().unwrap()[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    #[test]
    fn what_does_not_fit_is_kept_once_the_journal_has_it() {
        let cells = 64;
        let bytes = Arc::new(Mutex::new(vec![0; RecordStorage::bytes(cells)]));
        let boot = BootId([1; 16]);
        let storage = RecordStorage { memory: Box::new(Shared(Arc::clone(&bytes))), records: cells, boot };
        let (cache, volume) = (CacheId([2; 16]), VolumeTag(3));
        let header = RecordBufferHeader { cache, boot, volume, ring: 4, epoch: 5, after: 100, cells };
        let mut buffer = RecordBuffer::new(storage, &header);
        let room = u64::from(cells);
        for version in 101..=100 + room {
            buffer.append(&Buffered::Empty { version }, 100);
        }
        assert_eq!(buffer.kept(100), 100 + room);
        buffer.append(&Buffered::Empty { version: 101 + room }, 100);
        assert_eq!(buffer.kept(100), 100, "the journal's own pages say how much is kept");
        // There is room again, and still a gap before it.
        buffer.append(&Buffered::Empty { version: 102 + room }, 110);
        assert_eq!((buffer.kept(110), buffer.kept(100 + room)), (110, 100 + room));
        assert_eq!(buffer.kept(101 + room), 102 + room);
        let found = header.records(&bytes.lock().unwrap()).unwrap();
        assert_eq!(found.records.len(), cells as usize);
        assert_eq!(found.records.last().unwrap().version(), 102 + room);
    }

    #[test]
    fn without_memory_only_the_journal_keeps_anything() {
        let mut buffer = RecordBuffer::default();
        buffer.append(&Buffered::Empty { version: 7 }, 0);
        assert_eq!(buffer.kept(5), 5);
    }
}
