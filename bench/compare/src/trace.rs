//! Traces of plain words, read in pieces. It must not know what is done with them.

use std::fs::File;
use std::io::{self, Read};

use lode_types::{Origin, RequestOp, TraceRequest};

/// Words of one piece.
pub const BATCH: usize = 1 << 16;

/// Set in the word of a write.
pub const WRITE: u32 = 1 << 31;

const BLOCK_BYTES: u32 = 4096;

/// What becomes of the words' top bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ops {
    /// Every request is a read, as the peers have it.
    Reads,
    /// They say which requests are writes.
    Mixed,
}

impl Ops {
    /// `reads` or `mixed`.
    pub fn from_name(name: &str) -> Option<Ops> {
        match name {
            "reads" => Some(Ops::Reads),
            "mixed" => Some(Ops::Mixed),
            _ => None,
        }
    }
}

/// A trace being read.
pub struct Words {
    file: File,
    bytes: Vec<u8>,
}

impl Words {
    /// Opens a trace.
    ///
    /// # Errors
    /// Those of opening a file, and of one that does not consist of whole words.
    pub fn open(path: &str) -> io::Result<Words> {
        let file = File::open(path)?;
        if file.metadata()?.len() % 4 != 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{path} is not made of 32-bit words"),
            ));
        }
        Ok(Words { file, bytes: Vec::with_capacity(BATCH * 4) })
    }

    /// The next words, `None` at the end.
    ///
    /// # Errors
    /// Those of reading a file.
    pub fn next(&mut self) -> io::Result<Option<impl Iterator<Item = u32> + '_>> {
        self.bytes.clear();
        let read = (&mut self.file).take(BATCH as u64 * 4).read_to_end(&mut self.bytes)?;
        let words = self.bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        Ok((read > 0).then_some(words))
    }
}

/// The block number of a word.
pub fn block(word: u32) -> u64 {
    u64::from(word & !WRITE)
}

/// The request of a word.
#[inline]
pub fn request(time_ns: u64, word: u32, ops: Ops) -> TraceRequest {
    let is_write = ops == Ops::Mixed && word & WRITE != 0;
    TraceRequest {
        time_ns,
        offset_bytes: block(word) * u64::from(BLOCK_BYTES),
        length_bytes: BLOCK_BYTES,
        volume: 0,
        op: if is_write { RequestOp::Write } else { RequestOp::Read },
        origin: Origin::UNKNOWN,
    }
}
