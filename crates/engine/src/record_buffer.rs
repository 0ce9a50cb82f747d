//! The volume's latest journal records in memory that outlives the process: what a guest was told is written is found
//! again when the daemon dies and the host lives, although no flush has made it durable.
//!
//! A record goes there the moment it is made, before anybody is told of what it says, without a system call. The buffer
//! is a window that begins behind what the journal durably knows. When the SSD is so slow that the window is too small,
//! what does not fit waits for the journal page that has its record. Bytes: [`lode_format::RecordBufferHeader`].

use lode_format::{BootId, Buffered, RecordBufferHeader, encode_buffered};

/// Memory that outlives the process that writes it, and not the host.
pub trait RecordMemory: std::fmt::Debug + Send {
    /// Puts bytes there. When this returns, a death of the process cannot undo it, and it comes after everything that was
    /// put there before.
    fn put(&mut self, offset: usize, bytes: &[u8]);
}

/// Where a volume's records go until the journal has them.
#[derive(Debug)]
pub struct RecordStorage {
    /// Memory of [`RecordStorage::BYTES`], of zeroes.
    pub memory: Box<dyn RecordMemory>,
    /// The host's boot, during which it lasts.
    pub boot: BootId,
}

impl RecordStorage {
    /// Records of one volume's buffer: what a flush of 50 ms leaves undone at 100,000 writes a second, and more.
    pub const RECORDS: u32 = 8192;
    /// Bytes of one volume's buffer.
    pub const BYTES: usize =
        lode_format::PAGE_BYTES + Self::RECORDS as usize * lode_format::BUFFERED_RECORD_BYTES;
}

/// The window of records. Without memory it keeps nothing.
#[derive(Debug, Default)]
pub(crate) struct RecordBuffer {
    memory: Option<(Box<dyn RecordMemory>, u32)>,
    /// Every version from here to `last` is in the buffer. Empty when `first` is above `last`.
    first: u64,
    last: u64,
}

impl RecordBuffer {
    /// An empty buffer for what comes after `version`.
    pub(crate) fn new(storage: RecordStorage, header: &RecordBufferHeader, version: u64) -> RecordBuffer {
        let RecordStorage { mut memory, .. } = storage;
        let (page, seed) = header.encode();
        memory.put(0, &page[..]);
        RecordBuffer { memory: Some((memory, seed)), first: version + 1, last: version }
    }

    pub(crate) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// Takes what the next version says. The journal durably knows everything up to `durable`.
    pub(crate) fn append(&mut self, buffered: &Buffered, durable: u64) {
        let version = buffered.version();
        debug_assert!(self.last == 0 || version == self.last + 1, "versions come in order");
        let Some((memory, seed)) = &mut self.memory else { return };
        self.last = version;
        if version - durable > u64::from(RecordStorage::RECORDS) {
            self.first = version + 1;
            return;
        }
        let at = RecordBufferHeader::offset(RecordStorage::RECORDS, version);
        memory.put(at, &encode_buffered(*seed, buffered));
    }

    /// The version up to which everything outlives the process, when journal pages up to `written` are on the SSD.
    pub(crate) fn kept(&self, written: u64) -> u64 {
        if self.first <= written + 1 { self.last.max(written) } else { written }
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
        let bytes = Arc::new(Mutex::new(vec![0; RecordStorage::BYTES]));
        let boot = BootId([1; 16]);
        let storage = RecordStorage { memory: Box::new(Shared(Arc::clone(&bytes))), boot };
        let slots = RecordStorage::RECORDS;
        let (cache, volume) = (CacheId([2; 16]), VolumeTag(3));
        let header = RecordBufferHeader { cache, boot, volume, ring: 4, epoch: 5, slots };
        let mut buffer = RecordBuffer::new(storage, &header, 100);
        let room = u64::from(slots);
        for version in 101..=100 + room {
            buffer.append(&Buffered::Empty { version }, 100);
        }
        assert_eq!(buffer.kept(100), 100 + room);
        buffer.append(&Buffered::Empty { version: 101 + room }, 100);
        assert_eq!(buffer.kept(100), 100, "the journal's own pages say how much is kept");
        // There is room again, and still a gap before it.
        buffer.append(&Buffered::Empty { version: 102 + room }, 200);
        assert_eq!((buffer.kept(200), buffer.kept(100 + room)), (200, 100 + room));
        assert_eq!(buffer.kept(101 + room), 102 + room);
        let found = header.records(&bytes.lock().unwrap()).unwrap();
        assert_eq!(found.records.len(), slots as usize);
        assert_eq!(found.records.last().unwrap().version(), 102 + room);
    }

    #[test]
    fn without_memory_only_the_journal_keeps_anything() {
        let mut buffer = RecordBuffer::default();
        buffer.append(&Buffered::Empty { version: 7 }, 0);
        assert_eq!(buffer.kept(5), 5);
    }
}
