//! Sorted runs of requests, one after the other in one temporary file that has no name: it goes when it is closed,
//! however the program ends. A run is blocks of requests of the compact format. It must not know what they are
//! sorted by.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use lode_types::TraceRequest;

use crate::compact::layout::{
    self, BlockHeader, BlockKind, HEADER_BYTES, MAX_BLOCK_REQUESTS, MAX_PAYLOAD_BYTES,
};
use crate::compact::shape::{Ranges, Shape};
use crate::compact::unpack::unpack;
use crate::error::{ErrorKind, TraceError};
use crate::limits::{BATCH_REQUESTS, MAX_VOLUMES};

/// Memory that reading a run takes: a block, packed and unpacked.
pub(super) const RUN_MEMORY_BYTES: usize =
    BATCH_REQUESTS * size_of::<TraceRequest>() + MAX_PAYLOAD_BYTES + HEADER_BYTES;
/// Most bytes of a block.
const MAX_BLOCK_BYTES: usize = HEADER_BYTES + MAX_PAYLOAD_BYTES;

/// Where a run is in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SortedRun {
    pub start: u64,
    pub end: u64,
}

/// A file of runs.
#[derive(Debug)]
pub(super) struct RunFile {
    file: File,
    folder: PathBuf,
    end: u64,
    block: Vec<u8>,
}

impl RunFile {
    /// An empty file in `folder`.
    pub(super) fn create(folder: &Path) -> Result<RunFile, TraceError> {
        let file = tempfile::tempfile_in(folder).map_err(|error| failed("create", folder, error))?;
        Ok(RunFile { file, folder: folder.to_owned(), end: 0, block: Vec::new() })
    }

    /// Bytes in the file, which is where the next block begins.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Appends requests, which every reader has checked.
    pub(super) fn append(&mut self, requests: &[TraceRequest]) -> Result<(), TraceError> {
        for part in requests.chunks(MAX_BLOCK_REQUESTS) {
            let Some(ranges) = Ranges::of(part) else { continue };
            let shape = Shape::from(&ranges);
            self.block.clear();
            self.block.extend_from_slice(&[0; HEADER_BYTES]);
            shape.pack(part, &mut self.block);
            let payload = &self.block[HEADER_BYTES..];
            let header = BlockHeader {
                kind: BlockKind::Requests,
                payload_bytes: payload.len() as u32,
                items: part.len() as u32,
                base: shape.base_ns(),
                payload_crc: crc32c::crc32c(payload),
            };
            self.block[..HEADER_BYTES].copy_from_slice(&header.encode());
            self.file.write_all(&self.block).map_err(|error| failed("write", &self.folder, error))?;
            self.end += self.block.len() as u64;
        }
        Ok(())
    }

    /// Replaces `out` by the requests of the next block of `run`, which gets shorter by it; none at its end.
    fn next_block(
        &self,
        run: &mut SortedRun,
        bytes: &mut Vec<u8>,
        out: &mut Vec<TraceRequest>,
    ) -> Result<(), TraceError> {
        out.clear();
        if run.start == run.end {
            return Ok(());
        }
        let mut header = [0; HEADER_BYTES];
        self.read(&mut header, run.start)?;
        let decoded = BlockHeader::decode(&header).filter(|_| layout::is_sealed(&header));
        let header = decoded.ok_or_else(|| self.damaged())?;
        bytes.resize((header.payload_bytes as usize).min(MAX_BLOCK_BYTES), 0);
        self.read(bytes, run.start + HEADER_BYTES as u64)?;
        if crc32c::crc32c(bytes) != header.payload_crc || header.items as usize > BATCH_REQUESTS {
            return Err(self.damaged());
        }
        unpack(bytes, header.base, header.items as usize, MAX_VOLUMES as u32, true, out)
            .map_err(|_| self.damaged())?;
        run.start += (HEADER_BYTES + bytes.len()) as u64;
        Ok(())
    }

    fn read(&self, into: &mut [u8], at: u64) -> Result<(), TraceError> {
        self.file.read_exact_at(into, at).map_err(|error| failed("read", &self.folder, error))
    }

    fn damaged(&self) -> TraceError {
        let message = "Temporary data of the sorting came back damaged; check the disk that this folder is on, or sort \
                       with another one";
        TraceError::new(ErrorKind::Checksum, &self.folder, message)
    }
}

/// A run being read.
#[derive(Debug)]
pub(super) struct RunReader {
    run: SortedRun,
    batch: Vec<TraceRequest>,
    next: usize,
}

impl RunReader {
    pub(super) fn new(run: SortedRun) -> RunReader {
        RunReader { run, batch: Vec::new(), next: 0 }
    }

    /// The next request; `bytes` is memory that readers share.
    #[inline]
    pub(super) fn peek(
        &mut self,
        file: &RunFile,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<TraceRequest>, TraceError> {
        if self.next == self.batch.len() {
            self.next = 0;
            file.next_block(&mut self.run, bytes, &mut self.batch)?;
        }
        Ok(self.batch.get(self.next).copied())
    }

    /// Passes over the request that was peeked at.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.next += 1;
    }
}

fn failed(what: &str, folder: &Path, error: io::Error) -> TraceError {
    let message = format!(
        "Cannot {what} temporary data of the sorting: {error}; check space and rights of this folder, or take another \
         one for temporary data"
    );
    TraceError::new(ErrorKind::Io, folder, message).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lode_types::{Origin, RequestOp};

    #[test]
    fn damage_is_found() {
        let request = TraceRequest {
            time_ns: 5,
            offset_bytes: 1,
            length_bytes: 1,
            volume: 65_535,
            op: RequestOp::Trim,
            origin: Origin::UNKNOWN,
        };
        let folder = tempfile::tempdir().expect("a folder");
        for at in [0, 20, 28, 40, 64, 70] {
            let mut file = RunFile::create(folder.path()).expect("a file");
            file.append(&[request, TraceRequest { time_ns: 9, ..request }]).expect("space");
            let run = SortedRun { start: 0, end: file.end() };
            let mut reader = RunReader::new(run);
            assert_eq!(reader.peek(&file, &mut Vec::new()).ok(), Some(Some(request)));
            let mut byte = [0];
            file.read(&mut byte, at).expect("a byte");
            file.file.write_all_at(&[byte[0] ^ 1], at).expect("a file");
            let kind = RunReader::new(run).peek(&file, &mut Vec::new()).map_err(|error| error.kind());
            assert_eq!(kind, Err(ErrorKind::Checksum), "byte {at}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
    }

    #[test]
    fn a_folder_that_is_not_there_is_said() {
        let error = RunFile::create(Path::new("/nowhere/at/all")).expect_err("no folder");
        assert!(error.to_string().contains("temporary data") && error.to_string().contains("/nowhere"));
    }
}
