//! A trace as one piece that can be read at any place, as formats need whose table of contents stands at the end: a
//! file stays where it is, a stream is taken into memory up to a limit. It must not know formats' details.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::error::{ErrorKind, TraceError};
use crate::feed::Feed;
use crate::limits::MAX_PARQUET_STREAM_BYTES;

/// Pieces that a reader of [`Whole`] takes from a file at a time.
const PIECE_BYTES: u64 = 64 * 1024;

/// A file that a trace is, uncompressed.
#[derive(Clone)]
pub(crate) struct WholeFile {
    pub(crate) file: Arc<File>,
    pub(crate) total_bytes: u64,
    /// Bytes read, for progress.
    pub(crate) raw_bytes: Arc<AtomicU64>,
}

/// All bytes of a trace.
pub(crate) enum Whole {
    File(WholeFile),
    Memory(Bytes),
}

impl Whole {
    /// The feed's trace, of which nothing has been consumed.
    pub(crate) fn of(feed: &mut Feed) -> std::result::Result<Whole, TraceError> {
        if let Some(file) = &feed.whole {
            return Ok(Whole::File(file.clone()));
        }
        let mut bytes = Vec::new();
        loop {
            bytes.extend_from_slice(feed.input.available());
            let count = feed.input.available().len();
            feed.input.consume(count);
            if bytes.len() > MAX_PARQUET_STREAM_BYTES {
                let message = format!(
                    "A Parquet stream of more than {MAX_PARQUET_STREAM_BYTES} bytes would have to be kept in memory; read it \
                     uncompressed from a file"
                );
                return Err(TraceError::new(ErrorKind::Limit, &feed.path, message));
            }
            if !feed.more()? {
                return Ok(Whole::Memory(bytes.into()));
            }
        }
    }
}

impl Length for Whole {
    fn len(&self) -> u64 {
        match self {
            Whole::File(file) => file.total_bytes,
            Whole::Memory(bytes) => bytes.len() as u64,
        }
    }
}

impl ChunkReader for Whole {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        match self {
            Whole::File(file) => {
                let piece = PieceReader { file: file.clone(), at: start };
                Ok(Box::new(io::BufReader::with_capacity(PIECE_BYTES as usize, piece)))
            }
            Whole::Memory(bytes) => {
                let from = usize::try_from(start).unwrap_or(usize::MAX).min(bytes.len());
                Ok(Box::new(Cursor::new(bytes.slice(from..))))
            }
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64).filter(|&end| end <= self.len());
        let end = end.ok_or_else(|| ParquetError::EOF("a piece lies beyond the end".to_owned()))?;
        match self {
            Whole::File(file) => {
                let mut bytes = vec![0; length];
                file.file.read_exact_at(&mut bytes, start)?;
                file.raw_bytes.fetch_add(length as u64, Ordering::Relaxed);
                Ok(bytes.into())
            }
            Whole::Memory(bytes) => Ok(bytes.slice(start as usize..end as usize)),
        }
    }
}

/// Reads a file from a place on, without a position that others share.
struct PieceReader {
    file: WholeFile,
    at: u64,
}

impl Read for PieceReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.file.read_at(into, self.at)?;
        self.at = self.at.saturating_add(count as u64);
        Ok(count)
    }
}
