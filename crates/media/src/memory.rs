//! A file in memory, for tests and demonstrations. It must not know who drives it.

use std::sync::{Mutex, PoisonError};

use lode_types::CommandKind;
use rustix::io::Errno;

/// The bytes live as long as any handle on the file; they do not survive the process.
pub(crate) struct MemoryFile {
    bytes: Mutex<Vec<u8>>,
    size_bytes: u64,
}

impl MemoryFile {
    pub fn new(size_bytes: usize) -> MemoryFile {
        MemoryFile { bytes: Mutex::new(vec![0; size_bytes]), size_bytes: size_bytes as u64 }
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Carries out a command whose range was checked. Trimmed bytes read back as zeroes.
    pub fn carry_out(&self, kind: &mut CommandKind) -> Result<usize, Errno> {
        // A panic elsewhere cannot leave plain bytes half-valid, so a poisoned lock is still good.
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        match kind {
            CommandKind::Read { offset_bytes, bufs } => {
                let mut moved = 0;
                for buf in bufs {
                    let from = range(&mut bytes, *offset_bytes + moved as u64, buf.len() as u64)?;
                    buf.as_mut_slice().copy_from_slice(from);
                    moved += buf.len();
                }
                Ok(moved)
            }
            CommandKind::Write { offset_bytes, data } => {
                let mut moved = 0;
                for part in data {
                    range(&mut bytes, *offset_bytes + moved as u64, part.len() as u64)?.copy_from_slice(part);
                    moved += part.len();
                }
                Ok(moved)
            }
            CommandKind::Flush => Ok(0),
            CommandKind::Trim { offset_bytes, length_bytes }
            | CommandKind::WriteZeroes { offset_bytes, length_bytes, .. } => {
                range(&mut bytes, *offset_bytes, *length_bytes)?.fill(0);
                Ok(0)
            }
        }
    }
}

fn range(bytes: &mut [u8], offset_bytes: u64, length_bytes: u64) -> Result<&mut [u8], Errno> {
    let start = usize::try_from(offset_bytes).map_err(|_| Errno::IO)?;
    let length = usize::try_from(length_bytes).map_err(|_| Errno::IO)?;
    let end = start.checked_add(length).ok_or(Errno::IO)?;
    bytes.get_mut(start..end).ok_or(Errno::IO)
}
