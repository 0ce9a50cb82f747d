//! The host's memory as far as it outlives the daemon: a volume's record buffer. A kill keeps it and a power cut takes it,
//! or leaves something of another boot behind.

use std::sync::{Arc, Mutex};

use lode_format::BootId;
use lode_store::{RecordMemory, RecordStorage, StoreView};
use lode_types::Rng;

type Shared = Arc<Mutex<Vec<u8>>>;

/// The record buffer of one volume, and the boot of its host.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostMemory {
    boot: u64,
    buffer: Option<Shared>,
}

#[derive(Debug)]
struct Writer(Shared);

impl RecordMemory for Writer {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        let mut buffer = self.0.lock().expect("nobody panics with it");
        buffer[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

impl HostMemory {
    fn boot(&self) -> BootId {
        BootId((1 + u128::from(self.boot)).to_le_bytes())
    }

    /// Memory for so many records of the next run.
    pub(crate) fn renew(&mut self, records: u32) -> RecordStorage {
        let buffer = Arc::new(Mutex::new(vec![0; RecordStorage::bytes(records)]));
        self.buffer = Some(Arc::clone(&buffer));
        RecordStorage { memory: Box::new(Writer(buffer)), records, boot: self.boot() }
    }

    /// The host starts anew. What it finds in its memory is nothing, or of an earlier boot.
    pub(crate) fn power_cut(&mut self, rng: &mut Rng) {
        self.boot += 1;
        if rng.chance(50) {
            self.buffer = None;
        }
    }

    /// Has a start take over what is there, if that is of this boot.
    pub(crate) fn offer(&self, view: &mut StoreView, volume: &str) {
        if let Some(buffer) = &self.buffer {
            // What is refused is of a past that the SSD knows better.
            let _ = view.take_over(volume, self.boot(), &buffer.lock().expect("nobody panics with it"));
        }
    }
}
