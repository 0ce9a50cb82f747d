//! Writing the compact format, one block at a time. It must not know where requests come from.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use lode_types::TraceRequest;

use super::layout::{self, BlockHeader, BlockKind, MAX_PAYLOAD_BYTES, MAX_SLOTS, SLOT_BYTES};
use crate::error::{ErrorKind, TraceError};
use crate::feed::check_request;
use crate::limits::MAX_VOLUMES;
use crate::volumes::check_name;

const ZSTD_LEVEL: i32 = 3;
const WRITE_BYTES: usize = 256 * 1024;

/// Writes a trace in the compact format. A file is complete only after [`CompactWriter::finish`]; without
/// it, readers give everything up to the last flushed block and then say that the file is cut short.
pub struct CompactWriter<W: Write> {
    out: W,
    path: PathBuf,
    payload: Vec<u8>,
    /// Requests in `payload`.
    pending: u32,
    base_ns: u64,
    previous_ns: u64,
    names: HashSet<String>,
    requests: u64,
}

impl<W: Write> CompactWriter<W> {
    /// Starts a trace on `out`; `name` stands for it in messages.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn new(out: W, name: impl AsRef<Path>) -> Result<CompactWriter<W>, TraceError> {
        let mut writer = CompactWriter {
            out,
            path: name.as_ref().to_owned(),
            payload: Vec::with_capacity(MAX_PAYLOAD_BYTES),
            pending: 0,
            base_ns: 0,
            previous_ns: 0,
            names: HashSet::new(),
            requests: 0,
        };
        writer.out.write_all(&layout::file_header()).map_err(|error| write_failed(&writer.path, error))?;
        Ok(writer)
    }

    /// Appends `requests`. `volumes` is the list that [`TraceRequest::volume`] indexes; it may have grown
    /// since the last call, but what was there keeps its place.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; [`ErrorKind::VolumeName`] and [`ErrorKind::TooManyVolumes`] for the names;
    /// [`ErrorKind::ZeroLength`], [`ErrorKind::OutOfRange`] and [`ErrorKind::Malformed`] (no such volume) for
    /// requests. The requests before a refused one are written.
    pub fn write(&mut self, volumes: &[String], requests: &[TraceRequest]) -> Result<(), TraceError> {
        if volumes.len() > self.names.len() {
            self.write_volumes(volumes)?;
        }
        for request in requests {
            check_request(request).map_err(|fault| self.refused(fault.kind, "Request cannot be written"))?;
            if request.volume as usize >= self.names.len() {
                return Err(
                    self.refused(ErrorKind::Malformed, "Request names a volume that is not in the list")
                );
            }
            self.push(request)?;
        }
        Ok(())
    }

    fn push(&mut self, request: &TraceRequest) -> Result<(), TraceError> {
        if self.payload.len() + 2 * SLOT_BYTES > MAX_PAYLOAD_BYTES {
            self.write_pending()?;
        }
        if self.pending == 0 {
            (self.base_ns, self.previous_ns) = (request.time_ns, request.time_ns);
        }
        match layout::pack(request, self.previous_ns) {
            Some(slot) => slot.iter().for_each(|word| self.payload.extend_from_slice(&word.to_le_bytes())),
            None => layout::pack_wide(request)
                .iter()
                .for_each(|word| self.payload.extend_from_slice(&word.to_le_bytes())),
        }
        self.previous_ns = request.time_ns;
        self.pending += 1;
        self.requests += 1;
        Ok(())
    }

    /// Writes the names after those already written, in as few blocks as they fit.
    fn write_volumes(&mut self, volumes: &[String]) -> Result<(), TraceError> {
        if volumes.len() > MAX_VOLUMES {
            return Err(
                self.refused(ErrorKind::TooManyVolumes, "More than 65,536 volumes; write several traces")
            );
        }
        self.write_pending()?;
        let mut rest = &volumes[self.names.len()..];
        while !rest.is_empty() {
            let base = self.names.len() as u64;
            let mut items = 0;
            while let Some((name, after)) = rest.split_first() {
                if self.payload.len() + 2 + name.len() > MAX_PAYLOAD_BYTES && items > 0 {
                    break;
                }
                if check_name(name.clone().into_bytes()).is_err() || !self.names.insert(name.clone()) {
                    let message = format!("Volume name {name:?} is bad or there twice; rename the volume");
                    return Err(TraceError::new(ErrorKind::VolumeName, &self.path, message));
                }
                self.payload.extend_from_slice(&(name.len() as u16).to_le_bytes());
                self.payload.extend_from_slice(name.as_bytes());
                items += 1;
                rest = after;
            }
            self.write_block(BlockKind::Volumes, items, base)?;
        }
        Ok(())
    }

    fn write_pending(&mut self) -> Result<(), TraceError> {
        if self.pending > 0 {
            let items = std::mem::take(&mut self.pending);
            self.write_block(BlockKind::Requests, items, self.base_ns)?;
        }
        Ok(())
    }

    fn write_block(&mut self, kind: BlockKind, items: u32, base: u64) -> Result<(), TraceError> {
        debug_assert!(items as usize <= MAX_SLOTS || kind == BlockKind::Volumes);
        let payload_crc = crc32c::crc32c(&self.payload);
        let header = BlockHeader { kind, payload_bytes: self.payload.len() as u32, items, base, payload_crc };
        let written = self.out.write_all(&header.encode()).and_then(|()| self.out.write_all(&self.payload));
        self.payload.clear();
        written.map_err(|error| write_failed(&self.path, error))
    }

    /// Hands everything so far to the operating system; a block is written however short it is.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn flush(&mut self) -> Result<(), TraceError> {
        self.write_pending()?;
        self.out.flush().map_err(|error| write_failed(&self.path, error))
    }

    /// Ends the trace and gives the output back.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn finish(mut self) -> Result<W, TraceError> {
        self.write_pending()?;
        self.write_block(BlockKind::End, 0, self.requests)?;
        self.flush()?;
        Ok(self.out)
    }

    /// Number of requests written.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    fn refused(&self, kind: ErrorKind, what: &'static str) -> TraceError {
        let message = format!("{what}: request {} of the output; correct the input", self.requests + 1);
        TraceError::new(kind, &self.path, message)
    }
}

fn write_failed(path: &Path, error: io::Error) -> TraceError {
    let message = format!("Cannot write the trace: {error}; check space and rights");
    TraceError::new(ErrorKind::Io, path, message).caused_by(error)
}

/// A file that is written plainly or through zstd.
pub struct CompactOutput(Output);

enum Output {
    Plain(BufWriter<File>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

impl Write for CompactOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Output::Plain(file) => file.write(bytes),
            Output::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Output::Plain(file) => file.flush(),
            Output::Zstd(encoder) => encoder.flush(),
        }
    }
}

/// Creates (or replaces) the file at `path`, compressed with zstd when its name ends in `.zst`. End it with
/// [`CompactWriter::close`].
///
/// # Errors
/// [`ErrorKind::Io`].
pub fn create_compact(path: impl AsRef<Path>) -> Result<CompactWriter<CompactOutput>, TraceError> {
    let path = path.as_ref();
    let open = || -> io::Result<Output> {
        let file = BufWriter::with_capacity(WRITE_BYTES, File::create(path)?);
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zst")) {
            Ok(Output::Zstd(zstd::stream::write::Encoder::new(file, ZSTD_LEVEL)?))
        } else {
            Ok(Output::Plain(file))
        }
    };
    let output = open().map_err(|error| write_failed(path, error))?;
    CompactWriter::new(CompactOutput(output), path)
}

impl CompactWriter<CompactOutput> {
    /// Ends the trace and its compression, and hands all of it to the operating system.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn close(self) -> Result<(), TraceError> {
        let path = self.path.clone();
        let ended = match self.finish()?.0 {
            Output::Plain(mut file) => file.flush(),
            Output::Zstd(encoder) => encoder.finish().and_then(|mut file| file.flush()),
        };
        ended.map_err(|error| write_failed(&path, error))
    }
}
