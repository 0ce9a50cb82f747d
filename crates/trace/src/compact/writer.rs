//! Writing the compact format, one block at a time. It must not know where requests come from.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use lode_types::TraceRequest;

use super::layout::{
    self, BlockHeader, BlockKind, HEADER_BYTES, MAX_BLOCK_REQUESTS, MAX_PAYLOAD_BYTES, Recorded,
};
use super::shape::{Ranges, Shape};
use crate::error::{ErrorKind, TraceError};
use crate::feed::check_request;
use crate::limits::MAX_VOLUMES;
use crate::volumes::check_name;

const ZSTD_LEVEL: i32 = 3;
const WRITE_BYTES: usize = 256 * 1024;
/// Requests in the shortest blocks that are made to keep a stray value from lengthening others' records.
const PIECE_REQUESTS: usize = 128;

/// Writes a trace in the compact format. A file is complete only after [`CompactWriter::finish`]; without
/// it, readers give everything up to the last flushed block and then say that the file is cut short.
pub struct CompactWriter<W: Write> {
    out: W,
    path: PathBuf,
    /// Volume names and requests that are not written yet.
    new_names: Vec<String>,
    pending: Vec<TraceRequest>,
    payload: Vec<u8>,
    names: HashSet<String>,
    requests: u64,
}

impl<W: Write> CompactWriter<W> {
    /// Starts a trace on `out`; `name` stands for it in messages.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn new(out: W, name: impl AsRef<Path>) -> Result<CompactWriter<W>, TraceError> {
        CompactWriter::recording(out, name, Recorded::TIMES)
    }

    /// The same, saying what was recorded; see [`crate::Reader::recorded`].
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn recording(
        out: W,
        name: impl AsRef<Path>,
        recorded: Recorded,
    ) -> Result<CompactWriter<W>, TraceError> {
        let mut writer = CompactWriter {
            out,
            path: name.as_ref().to_owned(),
            new_names: Vec::new(),
            pending: Vec::with_capacity(MAX_BLOCK_REQUESTS),
            payload: Vec::new(),
            names: HashSet::new(),
            requests: 0,
        };
        let header = layout::file_header(recorded);
        writer.out.write_all(&header).map_err(|error| write_failed(&writer.path, error))?;
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
            self.add_volumes(volumes)?;
        }
        for request in requests {
            check_request(request).map_err(|fault| self.refused(fault.kind, "Request cannot be written"))?;
            if request.volume as usize >= self.names.len() {
                return Err(
                    self.refused(ErrorKind::Malformed, "Request names a volume that is not in the list")
                );
            }
            self.pending.push(*request);
            self.requests += 1;
            if self.pending.len() == MAX_BLOCK_REQUESTS {
                self.write_pending()?;
            }
        }
        Ok(())
    }

    /// Takes over the names after those already known.
    fn add_volumes(&mut self, volumes: &[String]) -> Result<(), TraceError> {
        if volumes.len() > MAX_VOLUMES {
            return Err(
                self.refused(ErrorKind::TooManyVolumes, "More than 65,536 volumes; write several traces")
            );
        }
        for name in &volumes[self.names.len()..] {
            if check_name(name.clone().into_bytes()).is_err() || !self.names.insert(name.clone()) {
                let message = format!("Volume name {name:?} is bad or there twice; rename the volume");
                return Err(TraceError::new(ErrorKind::VolumeName, &self.path, message));
            }
            self.new_names.push(name.clone());
        }
        Ok(())
    }

    /// Writes new names and then requests, each in as few bytes of blocks as they take.
    fn write_pending(&mut self) -> Result<(), TraceError> {
        self.write_volumes()?;
        let requests = std::mem::take(&mut self.pending);
        let pieces: Vec<_> = requests.chunks(PIECE_REQUESTS).filter_map(Ranges::of).collect();
        let mut cuts = Vec::new();
        cut(&pieces, requests.len(), &mut cuts);
        let mut rest = &requests[..];
        for (count, shape) in cuts {
            let (block, after) = rest.split_at(count);
            shape.pack(block, &mut self.payload);
            self.write_block(BlockKind::Requests, count as u32, shape.base_ns())?;
            rest = after;
        }
        self.pending = requests;
        self.pending.clear();
        Ok(())
    }

    fn write_volumes(&mut self) -> Result<(), TraceError> {
        let names = std::mem::take(&mut self.new_names);
        let mut base = self.names.len() - names.len();
        let mut rest = &names[..];
        while !rest.is_empty() {
            let mut items = 0;
            while let Some(name) = rest.get(items)
                && self.payload.len() + 2 + name.len() <= MAX_PAYLOAD_BYTES
            {
                self.payload.extend_from_slice(&(name.len() as u16).to_le_bytes());
                self.payload.extend_from_slice(name.as_bytes());
                items += 1;
            }
            self.write_block(BlockKind::Volumes, items as u32, base as u64)?;
            (base, rest) = (base + items, &rest[items..]);
        }
        Ok(())
    }

    fn write_block(&mut self, kind: BlockKind, items: u32, base: u64) -> Result<(), TraceError> {
        let payload_crc = crc32c::crc32c(&self.payload);
        let header = BlockHeader { kind, payload_bytes: self.payload.len() as u32, items, base, payload_crc };
        let written = self.out.write_all(&header.encode()).and_then(|()| self.out.write_all(&self.payload));
        self.payload.clear();
        written.map_err(|error| write_failed(&self.path, error))
    }

    /// Hands everything so far to the operating system. A block is written however short it is, so that many
    /// flushes make a long file.
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

/// Divides requests into blocks so that they take the fewest bytes, halving where that helps; gives the bytes.
/// `pieces` are the ranges of each [`PIECE_REQUESTS`] of the `count` requests; `cuts` gets the blocks' lengths and
/// shapes. A request with a bogus time or offset so costs its piece some bytes a request, and not its batch.
fn cut(pieces: &[Ranges], count: usize, cuts: &mut Vec<(usize, Shape)>) -> usize {
    let Some(whole) = pieces.iter().copied().reduce(Ranges::join) else { return 0 };
    let shape = Shape::from(&whole);
    let bytes = HEADER_BYTES + shape.payload_bytes(count);
    let first_cut = cuts.len();
    if pieces.len() > 1 {
        let (left, right) = pieces.split_at(pieces.len() / 2);
        let middle = left.len() * PIECE_REQUESTS;
        let halves = cut(left, middle, cuts) + cut(right, count - middle, cuts);
        if halves < bytes {
            return halves;
        }
        cuts.truncate(first_cut);
    }
    cuts.push((count, shape));
    bytes
}

fn write_failed(path: &Path, error: io::Error) -> TraceError {
    let message = format!("Cannot write the trace: {error}; check space and rights");
    TraceError::new(ErrorKind::Io, path, message).caused_by(error)
}

/// Whether a file of this name would be taken for what [`create_compact`] writes: it ends in `.lode`, or in
/// `.lode.zst` to be compressed.
pub fn is_compact_name(path: &Path) -> bool {
    let plain = if is_zst(path) { path.with_extension("") } else { path.to_owned() };
    plain.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("lode"))
}

fn is_zst(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zst"))
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
    create_compact_with(path, Recorded::TIMES)
}

/// The same, saying what was recorded; see [`crate::Reader::recorded`].
///
/// # Errors
/// [`ErrorKind::Io`].
pub fn create_compact_with(
    path: impl AsRef<Path>,
    recorded: Recorded,
) -> Result<CompactWriter<CompactOutput>, TraceError> {
    let path = path.as_ref();
    let open = || -> io::Result<Output> {
        let file = BufWriter::with_capacity(WRITE_BYTES, File::create(path)?);
        if is_zst(path) {
            Ok(Output::Zstd(zstd::stream::write::Encoder::new(file, ZSTD_LEVEL)?))
        } else {
            Ok(Output::Plain(file))
        }
    };
    let output = open().map_err(|error| write_failed(path, error))?;
    CompactWriter::recording(CompactOutput(output), path, recorded)
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
